// Drafts: points that are shown and become marks when they are touched, or when the image is finished. A model proposes
// them, or a person lays down the mean shape or a copy of another image and brings it into place.

import { get } from "./api.js";
import { boundsOf } from "./marks.js";
import { say, trying } from "./shell.js";

export const NOUNS = { template: "mean shape", copy: "copy" };

export function setDraft(desk, draft) {
  desk.marks.draft = draft;
  const { marks } = desk;
  if (draft && marks.drafts.length && !desk.selection.size) desk.active = marks.sequence[0];
  keepDraft(desk);
  desk.changed();
}

const draftKey = (desk) => `pliant-draft:${desk.project.source}:${desk.image.name}`;

// A draft that a person has put somewhere is kept over a reload of the page; one of a model is made anew.
export function keepDraft(desk) {
  const { draft } = desk.marks;
  try {
    if (draft && draft.source !== "model") sessionStorage.setItem(draftKey(desk), JSON.stringify({ ...draft, steps: [] }));
    else sessionStorage.removeItem(draftKey(desk));
  } catch {
    // Then it is made again with one key.
  }
}

export function keptDraft(desk) {
  try {
    return JSON.parse(sessionStorage.getItem(draftKey(desk)));
  } catch {
    return null;
  }
}

// ----- what a person lays down

function layDown(desk, source, points) {
  // Handles are about all of it now, and not about what was selected before.
  desk.selection = new Set();
  setDraft(desk, { source, points, steps: [], touched: false });
  const { view, marks } = desk;
  const seen = marks.drafts.every((landmark) => view.holds(marks.at(landmark)));
  if (!seen) view.fit();
  desk.changed(!seen);
}

// The mean of the shapes so far, at their mean place and of their mean size.
export async function startFromTemplate(desk) {
  if (!desk.canEdit) return;
  const { marks, image } = desk;
  const template = await trying(() => get(`/api/images/${image.index}/template`));
  if (template === undefined || desk.marks !== marks) return;
  if (!template) {
    say("There is no mean shape yet: finish an image first.");
    return;
  }
  layDown(desk, "template", template.points);
  desk.tell("This is the mean shape: move it with its handles, correct its points, and press Enter. Escape removes it.");
}

export async function copyPrevious(desk) {
  if (!desk.canEdit) return;
  const { marks, image } = desk;
  if (image.previous === null) {
    say("No earlier image has points.");
    return;
  }
  const previous = await trying(() => get(`/api/images/${image.previous}`));
  if (!previous || desk.marks !== marks) return;
  // An image of another size is taken to show the same at another scale, and in its middle as well.
  const scale = Math.sqrt((image.width * image.height) / Math.max(previous.width * previous.height, 1)) || 1;
  const put = ([x, y]) => [image.width / 2 + scale * (x - previous.width / 2), image.height / 2 + scale * (y - previous.height / 2)];
  layDown(desk, "copy", previous.points.map((point) => point && put(point)));
  desk.tell(`These are the points of ${previous.name}: correct them, and press Enter. Escape removes them.`);
}

// Turns a mean shape or a copy over, for an object that faces the other way.
export function flipDraft(desk) {
  if (!desk.marks?.laidDown) return;
  noteStep(desk, { touches: false });
  const { draft } = desk.marks;
  const box = boundsOf(draft.points.filter(Boolean));
  setDraft(desk, { ...draft, points: draft.points.map((point) => point && [box.left + box.right - point[0], point[1]]) });
  desk.tell("The shape is flipped.");
}

export function removeDraft(desk) {
  const { marks } = desk;
  const noun = NOUNS[marks.draft.source];
  desk.selection = new Set();
  setDraft(desk, null);
  desk.active = marks.nextMissing();
  desk.tell(`The ${noun} is removed.`);
}

// ----- taking it back

// Before what was laid down is moved, or marks are changed while it is there: undo goes through these steps backwards.
export function noteStep(desk, { changes = false, touches = true } = {}) {
  const { draft } = desk.marks;
  if (!draft || draft.source === "model") return;
  draft.steps.push({ points: [...draft.points], touched: draft.touched, changes });
  draft.touched ||= touches;
  keepDraft(desk);
}

// What the server has undone is no step any more.
export function forgetStep(desk) {
  const { draft } = desk.marks;
  const step = draft?.steps?.pop();
  if (step) draft.touched = step.touched;
}

// Takes back the last step, or else the draft itself; false if marks were changed since, which the server undoes.
export function undoDraft(desk) {
  const { draft, laidDown } = desk.marks ?? {};
  const step = draft?.steps?.at(-1);
  if (step ? step.changes : !laidDown) return false;
  if (step) {
    Object.assign(draft, { points: step.points, touched: step.touched });
    draft.steps.pop();
    keepDraft(desk);
    desk.tell("undone");
    desk.changed();
  } else {
    removeDraft(desk);
  }
  return true;
}
