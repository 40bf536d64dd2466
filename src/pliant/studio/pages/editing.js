// What a person does to the marks of the open image. Everything becomes a change that is kept and sent at once.

import { client, send } from "./api.js";
import { resampled } from "./curves.js";
import { forgetStep, keepDraft, noteStep, undoDraft } from "./drafts.js";
import { ABSENT, HIDDEN, STATES, UNSEEN, VISIBLE, markAt } from "./marks.js";
import { say, trying } from "./shell.js";

// Keeps a change of marks; drafts and the selection stay as they are.
export function change(desk, marks, more = {}) {
  if (!desk.canEdit) return;
  noteStep(desk, { changes: true, touches: Object.keys(marks).length > 0 });
  const made = desk.outbox.add(desk.image, { marks, ...more });
  desk.marks.add(made);
  desk.changed();
}

export function select(desk, landmarks, { add = false, reveal = false } = {}) {
  const chosen = [...landmarks];
  if (add) {
    for (const one of chosen) if (!desk.selection.delete(one)) desk.selection.add(one);
  } else {
    desk.selection = new Set(chosen);
  }
  desk.active = chosen.at(-1) ?? desk.active;
  const at = reveal && chosen.length ? desk.marks?.at(chosen.at(-1)) : null;
  if (at) desk.view.reveal(at);
  desk.changed(Boolean(at));
}

export function unselect(desk) {
  desk.selection = new Set();
  desk.active = desk.marks?.nextMissing() ?? null;
  desk.changed();
}

// Puts the landmark that is due at a place in the image, and goes on to the next that has none.
export function place(desk, point) {
  const { due } = desk;
  if (due === null || !desk.canEdit) return false;
  change(desk, { [due]: markAt(point) });
  advance(desk, due, "placed");
  refit(desk);
  return true;
}

function advance(desk, from, what) {
  const { marks } = desk;
  const next = marks.drafts.length ? (marks.sequence.find((one) => marks.isDraft(one)) ?? null) : marks.nextMissing(from);
  const done = !marks.missing.length && !marks.drafts.length;
  desk.selection = new Set(marks.drafts.length && next !== null ? [next] : []);
  desk.active = next;
  if (desk.selection.size) {
    desk.view.reveal(marks.at(next));
    desk.changed(true);
  }
  const words = done ? `${marks.count > 1 ? `all ${marks.count} are` : "it is"} done: press Enter to finish` : `next: ${desk.called(next)}`;
  desk.tell(`${desk.called(from)} ${what}, ${words}`);
  desk.changed();
}

// Gives the selected landmarks a state. Visible and hidden ones need a place; absent and cleared ones lose theirs.
export function setState(desk, state) {
  const { marks } = desk;
  const chosen = desk.selection.size ? [...desk.selection] : desk.active !== null ? [desk.active] : [];
  if (!desk.canEdit || !chosen.length) return;
  const placed = chosen.filter((landmark) => state <= ABSENT || marks.at(landmark));
  if (!placed.length) {
    const sentence = `${desk.called(chosen[0], "Landmark")} is not placed yet: click where it is.`;
    desk.tell(sentence);
    say(sentence);
    return;
  }
  if (state === UNSEEN && marks.draft) {
    noteStep(desk, { touches: false });
    for (const landmark of placed) marks.draft.points[landmark] = null;
  }
  const changing = placed.filter((landmark) => state !== UNSEEN || marks.states[landmark] !== UNSEEN);
  const marked = changing.map((one) => [one, state <= ABSENT ? [null, null, state] : markAt(marks.at(one), state)]);
  const drafted = placed.some((landmark) => marks.isDraft(landmark));
  if (marked.length) change(desk, Object.fromEntries(marked));
  desk.changed();
  if (placed.length === 1 && (state === ABSENT || drafted)) {
    advance(desk, placed[0], STATES[state]);
    return;
  }
  // Of several that lost their place, it is not the last one that is placed again first.
  if (placed.length > 1 && state === UNSEEN) unselect(desk);
  desk.tell(`${placed.map((one) => desk.called(one)).join(", ")}: ${STATES[state]}`);
}

// Moving a hidden point leaves it hidden; anything else that has a place can be seen.
const placedState = (marks, landmark) => (marks.states[landmark] === HIDDEN ? HIDDEN : VISIBLE);

// Ends a drag of some points: those that were chosen one by one or as a group are a person's word from now on; drafts
// that were moved along with everything stay drafts.
export function drop(desk, keepDrafts = false) {
  const { marks } = desk;
  const moved = [...marks.moving];
  if (!moved.length) return;
  marks.moving.clear();
  const isDraft = ([landmark]) => keepDrafts && !marks.points[landmark];
  if (moved.some(isDraft)) noteStep(desk);
  for (const [landmark, point] of moved.filter(isDraft)) marks.draft.points[landmark] = point;
  const mine = moved.filter((one) => !isDraft(one));
  if (mine.length) {
    change(desk, Object.fromEntries(mine.map(([one, point]) => [one, markAt(point, placedState(marks, one))])));
    desk.tell(mine.length > 1 ? `${mine.length} points moved` : `${desk.called(mine[0][0])} moved`);
  }
  keepDraft(desk);
  desk.changed();
  refit(desk);
}

// Moves the selected points by whole pixels.
export function nudge(desk, dx, dy) {
  const { marks, selection } = desk;
  if (!desk.canEdit) return;
  const shown = [...selection].filter((landmark) => marks.at(landmark));
  for (const landmark of shown) {
    const [x, y] = marks.at(landmark);
    marks.moving.set(landmark, [x + dx, y + dy]);
  }
  drop(desk);
}

// Steps through the points, each once, the least certain first; what a drag or a refit changes on the way does not
// bring back points that were visited. False if there is none left in this direction.
export function step(desk, direction) {
  const { marks, trail } = desk;
  if (!marks) return false;
  if (desk.selection.size && !trail.includes(desk.active)) trail.push(desk.active);
  const at = desk.selection.size ? trail.indexOf(desk.active) : direction > 0 ? -1 : trail.length;
  const next = trail[at + direction] ?? (direction > 0 ? marks.sequence.find((one) => !trail.includes(one)) : undefined);
  if (next === undefined) {
    trail.length = 0;
    return false;
  }
  if (!trail.includes(next)) trail.push(next);
  select(desk, [next], { reveal: true });
  const deviation = marks.deviation(next);
  const words = marks.isDraft(next) ? "proposed" : STATES[marks.states[next]];
  desk.tell(`${desk.called(next)}, ${words}${deviation === null ? "" : `, plus or minus ${deviation.toFixed(1)} pixels`}`);
  return true;
}

// Takes what the server has of the open image; what has lost its place by this is placed again next.
export function takeImage(desk, image) {
  const before = desk.marks.missing;
  desk.image = image;
  desk.marks.update(image, desk.outbox.of(image.index));
  desk.active = desk.marks.missing.find((landmark) => !before.includes(landmark)) ?? desk.active;
  desk.changed();
}

// One after the other, however fast keys are pressed: each goes by what the one before has left.
export function undo(desk, way = "undo") {
  const { image } = desk;
  desk.undoing = desk.undoing.then(() => image?.index === desk.image?.index && undoOnce(desk, way));
  return desk.undoing;
}

async function undoOnce(desk, way) {
  if (!desk.image || desk.readOnly) return;
  if (way === "undo" && undoDraft(desk)) return;
  const { index } = desk.image;
  await trying(async () => {
    if (!(await desk.outbox.settled())) throw new Error("The studio does not answer: undo works again once it does.");
    const image = await send("POST", `/api/images/${index}/${way}`, { client });
    if (desk.image?.index !== index) return;
    takeImage(desk, image);
    if (way === "undo") forgetStep(desk);
    else noteStep(desk, { changes: true });
    desk.tell(way === "undo" ? "undone" : "redone");
  });
}

// ----- the model follows

const shapeOf = (marks) => ({ points: marks.all(() => true).map((landmark) => marks.at(landmark)), fixed: marks.fixed });

const follows = (desk) => desk.options.follow && desk.marks?.draft?.source === "model";

// During a drag: the most plausible shape given the fixed points.
export async function followOnce(desk) {
  const { marks, image } = desk;
  if (!follows(desk) || !marks.moving.size) return;
  const answer = await send("POST", `/api/images/${image.index}/follow`, shapeOf(marks)).catch(() => null);
  if (!answer || desk.marks !== marks || marks.draft?.source !== "model" || !marks.moving.size) return;
  marks.draft.points = answer.points;
  desk.changed();
}

// After a drag: the model looks at the image again, with the fixed points held.
export async function refit(desk, wanted = follows(desk)) {
  const { marks, image } = desk;
  if (!wanted || !marks.drafts.length) return;
  const shape = shapeOf(marks);
  const answer = await send("POST", `/api/images/${image.index}/refit`, shape).catch(() => null);
  // Whoever has moved something meanwhile sees what follows from that, and not from the past.
  const same = desk.marks === marks && !marks.moving.size && marks.fixed.join() === shape.fixed.join();
  if (!answer || !same || marks.draft?.source !== "model") return;
  marks.draft = { ...answer, source: "model" };
  desk.changed();
}

// ----- curves

// Puts the points of a curve at even distances along a line.
export function placeCurve(desk, curve, vertices) {
  if (vertices.length < 2 || !desk.canEdit) return;
  const points = resampled(vertices, curve.points.length, curve.closed);
  change(desk, Object.fromEntries(curve.points.map((landmark, k) => [landmark, markAt(points[k])])));
  desk.active = desk.marks.nextMissing();
  desk.tell(`${curve.name} placed, ${curve.points.length} points`);
  refit(desk);
}

// Spaces the points of a curve evenly along the line through them.
export function evenOut(desk, curve) {
  const { marks } = desk;
  const along = curve.points.filter((landmark) => marks.at(landmark));
  if (along.length < 3 || !desk.canEdit) return;
  const points = resampled(along.map((landmark) => marks.at(landmark)), along.length, curve.closed);
  change(desk, Object.fromEntries(along.map((landmark, k) => [landmark, markAt(points[k], placedState(marks, landmark))])));
  desk.tell(`${curve.name} spaced evenly`);
}
