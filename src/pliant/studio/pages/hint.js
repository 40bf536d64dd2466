// The line in the corner of the image: what a click would do now.

import { NOUNS } from "./drafts.js";

export function hint(desk) {
  const { marks, tool, line } = desk;
  if (!desk.canEdit) return "";
  if (tool === "scale") return "Drag along something whose length you know";
  if (tool === "curve") return line.length ? "Continue clicking along the curve; Enter ends it, Backspace removes the last click" : `Click along ${desk.curve?.name ?? "the curve"}`;
  if (tool === "box") return "Drag a box around points";
  if (desk.due === null) return marks.laidDown ? aboutDraft(desk) : "";
  const due = desk.called(desk.due);
  const [chosen] = desk.selection;
  if (desk.selection.size !== 1 || !marks.at(chosen)) return `Click to place ${due}`;
  // The pointer is still on the point if a click has just taken it: perhaps it was meant to place another.
  const how = desk.hover === chosen ? `To place ${due} here, press Space.` : `Click elsewhere to place ${due}.`;
  return `${desk.called(chosen, "Landmark")} is selected. ${how}`;
}

function aboutDraft({ marks, selection }) {
  const escape = selection.size ? "" : ", Escape removes it";
  return `Drag the handles of the ${NOUNS[marks.draft.source]} to bring it into place, then its points. Enter accepts it${escape}.`;
}
