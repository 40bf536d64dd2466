// Handles that move, turn and scale several points at once: the selection if there is one, or else everything.

import { boundsOf } from "./marks.js";

const OUTSIDE = 26;
const EDGE = 18;
export const HANDLE_RADIUS = 11;

const isLoose = (marks) => marks.laidDown && marks.drafts.length > 1;

// The landmarks that handles would move: what is selected, or else what is loose, or else all.
export function groupOf({ marks, selection }) {
  if (!marks) return [];
  const chosen = [...selection].filter((landmark) => marks.at(landmark));
  if (chosen.length > 1) return chosen;
  return isLoose(marks) ? marks.drafts : marks.shown;
}

// [{ kind: "move" | "turn" | "scale", at: [x, y] on the screen, all: whether it moves everything }]
export function handlesOf(desk) {
  const { marks, selection, view, tool } = desk;
  if (!marks || desk.readOnly || tool === "curve" || tool === "scale") return [];
  const group = groupOf(desk);
  if (group.length < 2) return [];
  const all = selection.size < 2;
  const box = boundsOf(group.map((landmark) => view.toScreen(marks.at(landmark))));
  const inside = ([x, y]) => [
    Math.min(Math.max(x, EDGE), view.stage.width - EDGE),
    Math.min(Math.max(y, EDGE), view.stage.height - EDGE),
  ];
  const handles = [{ kind: "move", at: inside([box.left - OUTSIDE, box.top - OUTSIDE]), all, box }];
  if (!all || isLoose(marks)) {
    handles.push({ kind: "turn", at: inside([box.right + OUTSIDE, box.top - OUTSIDE]), all, box });
    handles.push({ kind: "scale", at: inside([box.right + OUTSIDE, box.bottom + OUTSIDE]), all, box });
  }
  return handles;
}

// How points move when a handle goes from one place in the image to another; the middle of the group stays for
// turning and scaling.
export function movement(kind, middle, from, to) {
  if (kind === "move") return ([x, y]) => [x + to[0] - from[0], y + to[1] - from[1]];
  const before = [from[0] - middle[0], from[1] - middle[1]];
  const after = [to[0] - middle[0], to[1] - middle[1]];
  const square = Math.max(before[0] ** 2 + before[1] ** 2, 1e-9);
  let a = (before[0] * after[0] + before[1] * after[1]) / square;
  let b = (before[0] * after[1] - before[1] * after[0]) / square;
  const length = Math.max(Math.hypot(a, b), 1e-6);
  if (kind === "turn") [a, b] = [a / length, b / length];
  else [a, b] = [Math.max(a, 0.02), 0];
  return ([x, y]) => {
    const [dx, dy] = [x - middle[0], y - middle[1]];
    return [middle[0] + a * dx - b * dy, middle[1] + b * dx + a * dy];
  };
}
