// Keys of the page, and the crosshair that they move.

import { nudge, place, select, setState, step, unselect } from "./editing.js";
import { ABSENT, HIDDEN, UNSEEN, VISIBLE } from "./marks.js";
import { addShortcuts } from "./shell.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const withArrows = (prefix) => Object.keys(ARROWS).map((key) => prefix + key).join(" ");

export function listenToKeys(desk, canvas, pointers, actions) {
  // Arrows move the selected points, or else the crosshair; on a mirrored image, in the direction that is seen.
  function arrow(event) {
    const length = event.ctrlKey || event.metaKey ? 100 : event.shiftKey ? 10 : 1;
    const [x, y] = ARROWS[event.key];
    const [dx, dy] = [x * length * (desk.view.mirror ? -1 : 1), y * length];
    if (!desk.marks) return;
    if ([...desk.selection].some((landmark) => desk.marks.at(landmark))) nudge(desk, dx, dy);
    else moveCrosshair(dx, dy);
  }

  function moveCrosshair(dx, dy) {
    const { view } = desk;
    const [x, y] = desk.cursor ?? view.toImage([view.stage.width / 2, view.stage.height / 2]).map(Math.round);
    desk.cursor = [
      Math.min(Math.max(x + dx, -0.5), view.image.width - 0.5),
      Math.min(Math.max(y + dy, -0.5), view.image.height - 0.5),
    ];
    desk.byKeyboard = true;
    view.reveal(desk.cursor);
    desk.changed(true);
  }

  function atCrosshair() {
    if (!desk.cursor) return moveCrosshair(0, 0);
    if (desk.tool === "curve") return actions.curveTool.vertex(desk.cursor);
    if (desk.tool === "scale") return barCorner();
    if (!place(desk, desk.cursor)) desk.tell("All landmarks are placed.");
    return undefined;
  }

  // A scale bar without a mouse: Space at one end, Space at the other.
  function barCorner() {
    if (!desk.bar) desk.bar = { start: desk.cursor, end: desk.cursor };
    else actions.barDrawn({ start: desk.bar.start, end: desk.cursor });
    desk.changed();
  }

  function enter() {
    if (desk.tool === "curve" && desk.line.length) actions.curveTool.end();
    else actions.finish();
  }

  function escape() {
    pointers.cancel();
    if (desk.line.length || desk.bar) [desk.line, desk.bar] = [[], null];
    else if (desk.tool !== "points") actions.setTool("points");
    else if (desk.marks?.laidDown && !desk.selection.size) actions.removeDraft();
    else unselect(desk);
    desk.changed();
  }

  function erase() {
    if (desk.tool === "curve" && desk.line.length) actions.curveTool.back();
    else setState(desk, UNSEEN);
  }

  addShortcuts([
    { keys: "Enter", what: "accept all points shown, finish, and go to the next image", does: enter },
    { keys: "N", what: "go to the next image", does: actions.next },
    { keys: "P PageUp", what: "previous image in the list", does: () => actions.beside(-1) },
    { keys: "PageDown", what: "next image in the list", does: () => actions.beside(1) },
    { keys: "S", what: "skip this image", does: actions.skip },
    { keys: "Tab Shift+Tab", what: "next or previous point, least certain first (on the image)" },
    { keys: "V", what: "visible: accept the point where it is", does: () => setState(desk, VISIBLE) },
    { keys: "H", what: "hidden: the point is here, behind something", does: () => setState(desk, HIDDEN) },
    { keys: "X", what: "absent: the point is not in this image", does: () => setState(desk, ABSENT) },
    { keys: "Delete Backspace", what: "remove the point: not yet reviewed", does: erase },
    { keys: withArrows(""), shown: "Arrows", what: "move the selected points, or the crosshair, by 1 px", does: arrow },
    { keys: withArrows("Shift+"), shown: "Shift+Arrows", what: "by 10 px", does: arrow },
    { keys: withArrows("Ctrl+"), shown: "Ctrl+Arrows", what: "by 100 px", does: arrow },
    { keys: "Space", what: "place the next landmark at the crosshair; held down, a drag pans" },
    { keys: "Ctrl+Z", what: "undo", does: actions.undo },
    { keys: "Ctrl+Shift+Z Ctrl+Y", what: "redo", does: actions.redo },
    { keys: "Ctrl+A", what: "select all points", does: () => desk.marks && select(desk, desk.marks.shown) },
    { keys: "Escape", what: "end the tool, select nothing, or remove the mean shape or the copy", does: escape },
    { keys: "T", what: "start from the mean shape", does: actions.template },
    { keys: "D", what: "copy the points of the previous image", does: actions.copy },
    { keys: "Shift+T", what: "flip the mean shape or the copy", does: actions.flip },
    { keys: "G", what: "fit the model again, and keep the fixed points", does: actions.refit },
    { keys: "F", what: "turn “model follows” on or off", does: () => actions.toggle("follow") },
    { keys: "A", what: "tool: place and drag points", does: () => actions.setTool("points") },
    { keys: "B", what: "tool: select with a box (or Shift and drag)", does: () => actions.setTool("box") },
    { keys: "K", what: "tool: curve; click along it, Enter ends it", does: () => actions.setTool("curve") },
    { keys: "R", what: "tool: scale bar", does: () => actions.setTool("scale") },
    { keys: "Shift+R", what: "the same scale bar as the last one", does: actions.sameScale },
    { keys: "+ =", what: "zoom in (or the wheel, or two fingers)", does: () => actions.zoom(1.25) },
    { keys: "- _", what: "zoom out", does: () => actions.zoom(1 / 1.25) },
    { keys: "0", what: "show the whole image", does: actions.fit },
    { keys: "L", what: "loupe", does: () => actions.toggle("loupe") },
    { keys: "C", what: "crosshair", does: () => actions.toggle("crosshair") },
    { keys: "M", what: "mirror the view", does: () => actions.toggle("mirror") },
    { keys: "E", what: "show uncertainties", does: () => actions.toggle("ellipses") },
    { keys: "W", what: "show all names", does: () => actions.toggle("labels") },
  ]);

  // Tab belongs to the points only on the image itself, and goes on to the next control after the last of them.
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.ctrlKey && !event.altKey && step(desk, event.shiftKey ? -1 : 1)) event.preventDefault();
    if (event.key === " " && !event.repeat) pointers.space(true);
    if (event.key === " ") event.preventDefault();
  });
  canvas.addEventListener("keyup", (event) => {
    if (event.key === " " && !pointers.space(false)) atCrosshair();
  });
  canvas.addEventListener("blur", () => pointers.space(false));
}
