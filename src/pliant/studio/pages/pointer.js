// Mouse, pen and fingers on the canvas. A gesture begins where the pointer goes down and is one of: a point, a handle,
// a box, a scale bar, or the ground, which pans; two fingers zoom.

import { latest } from "./dom.js";
import { drop, followOnce, place, select, unselect } from "./editing.js";
import { HANDLE_RADIUS, groupOf, handlesOf, movement } from "./handles.js";
import { boundsOf } from "./marks.js";

const CLICK = 4; // pixels that a click may tremble
const NEAR = { mouse: 11, pen: 14, touch: 24 };
const ON = { mouse: 4, pen: 5, touch: 10 }; // a click takes a point only from here, where something is to be placed

export function listenToPointers(desk, canvas, { barDrawn, vertexAdded, lineEnded }) {
  const pointers = new Map();
  let pinch = null;
  let spaceHeld = false;
  let panned = false;
  const follow = latest(() => followOnce(desk));

  const position = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const nearest = (at, reach, favour = 3) => {
    let found = null;
    for (const landmark of desk.marks?.shown ?? []) {
      const [x, y] = desk.view.toScreen(desk.marks.at(landmark));
      // Of points that lie on top of each other, the selected one is meant.
      const distance = Math.hypot(x - at[0], y - at[1]) - (desk.selection.has(landmark) ? favour : 0);
      if (distance < reach && (!found || distance < found.distance)) found = { landmark, distance };
    }
    return found?.landmark ?? null;
  };

  const handleAt = (at, reach) =>
    handlesOf(desk).find(({ at: [x, y] }) => Math.hypot(x - at[0], y - at[1]) < HANDLE_RADIUS + reach / 4);

  // Whether a click here would place a landmark: a new one may lie close beside another.
  const clickPlaces = (at, type) =>
    desk.canEdit && desk.tool === "points" && desk.due !== null && nearest(at, ON[type] ?? ON.mouse, 0) === null;

  const placeAt = (at) => desk.view.shows(desk.view.toImage(at)) && place(desk, desk.view.toImage(at));

  function begin(event, at) {
    const { tool } = desk;
    const reach = NEAR[event.pointerType] ?? NEAR.mouse;
    if (event.button === 1 || spaceHeld || !desk.canEdit) return pan(at);
    if (tool === "scale") return scaleBar(at);
    if (tool === "curve") return pan(at, () => vertexAdded(desk.view.toImage(at)));
    const landmark = nearest(at, reach);
    if (landmark !== null && event.shiftKey) return { move() {}, end: () => select(desk, [landmark], { add: true }) };
    if (landmark !== null && tool === "points") return point(landmark, at, event.pointerType);
    const handle = handleAt(at, reach);
    if (handle) return handled(handle, at, event.pointerType);
    if (tool === "box" || event.shiftKey) return rubberBand(at, event.shiftKey);
    return pan(at, () => placeAt(at) || unselect(desk));
  }

  function pan(start, click = () => unselect(desk)) {
    let last = start;
    let far = false;
    return {
      cursor: "grabbing",
      move(at) {
        far ||= Math.hypot(at[0] - start[0], at[1] - start[1]) > CLICK;
        if (!far) return;
        panned = true;
        desk.view.pan(at[0] - last[0], at[1] - last[1]);
        last = at;
        desk.changed(true);
      },
      end: () => far || spaceHeld || click(),
    };
  }

  function point(landmark, start, type) {
    const { marks } = desk;
    const [x, y] = desk.view.toScreen(marks.at(landmark));
    const [dx, dy] = [x - start[0], y - start[1]];
    const places = clickPlaces(start, type);
    let far = false;
    const take = () => {
      if (!desk.selection.has(landmark) || desk.selection.size > 1) select(desk, [landmark]);
      desk.active = landmark;
    };
    if (!places) take();
    return {
      cursor: "none",
      landmark,
      move(at) {
        if (!far && Math.hypot(at[0] - start[0], at[1] - start[1]) <= CLICK - 1) return;
        if (!far) take();
        far = true;
        const to = desk.view.toImage([at[0] + dx, at[1] + dy]);
        marks.moving.set(landmark, to);
        desk.cursor = to;
        desk.touching = type !== "mouse";
        follow();
      },
      end: () => (far || !places ? drop(desk) : placeAt(start) || take()),
      cancel: () => marks.moving.clear(),
    };
  }

  function handled({ kind, all }, start, type) {
    const { marks, view } = desk;
    const group = groupOf(desk).map((landmark) => [landmark, marks.at(landmark)]);
    const box = boundsOf(group.map(([, at]) => at));
    const middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const from = view.toImage(start);
    let far = false;
    return {
      cursor: "move",
      move(at) {
        far ||= Math.hypot(at[0] - start[0], at[1] - start[1]) > CLICK;
        if (!far) return;
        const moved = movement(kind, middle, from, view.toImage(at));
        for (const [landmark, point] of group) marks.moving.set(landmark, moved(point));
      },
      end: () => (far ? drop(desk, all) : clickPlaces(start, type) && placeAt(start)),
      cancel: () => marks.moving.clear(),
    };
  }

  function rubberBand(start, add) {
    return {
      cursor: "crosshair",
      move(at) {
        desk.box = [start, at];
      },
      end() {
        if (!desk.box) return unselect(desk);
        const [[ax, ay], [bx, by]] = desk.box;
        const inside = desk.marks.shown.filter((landmark) => {
          const [x, y] = desk.view.toScreen(desk.marks.at(landmark));
          return x >= Math.min(ax, bx) && x <= Math.max(ax, bx) && y >= Math.min(ay, by) && y <= Math.max(ay, by);
        });
        desk.box = null;
        select(desk, add ? new Set([...desk.selection, ...inside]) : inside);
        desk.tell(`${desk.selection.size} points selected`);
        return undefined;
      },
      cancel: () => (desk.box = null),
    };
  }

  function scaleBar(start) {
    const from = desk.view.toImage(start);
    return {
      cursor: "crosshair",
      move: (at) => (desk.bar = { start: from, end: desk.view.toImage(at) }),
      end: () => desk.bar && barDrawn(desk.bar),
      cancel: () => (desk.bar = null),
    };
  }

  function pinched() {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return { middle: [(ax + bx) / 2, (ay + by) / 2], distance: Math.max(Math.hypot(bx - ax, by - ay), 1) };
  }

  const finish = (how) => {
    const { gesture } = desk;
    desk.gesture = null;
    desk.touching = false;
    canvas.style.cursor = "";
    gesture?.[how]?.();
    desk.changed();
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 2) return;
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    const at = position(event);
    pointers.set(event.pointerId, at);
    desk.byKeyboard = false;
    if (pointers.size === 2) {
      finish("cancel");
      pinch = pinched();
    } else if (pointers.size === 1) {
      desk.gesture = begin(event, at) ?? null;
      canvas.style.cursor = desk.gesture?.cursor ?? "";
    }
    event.preventDefault();
  });

  canvas.addEventListener("pointermove", (event) => {
    const at = position(event);
    desk.cursor = desk.view.toImage(at);
    desk.byKeyboard = false;
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, at);
    if (pinch && pointers.size === 2) {
      const now = pinched();
      desk.view.pan(now.middle[0] - pinch.middle[0], now.middle[1] - pinch.middle[1]);
      desk.view.zoom(now.distance / pinch.distance, now.middle);
      pinch = now;
      desk.changed(true);
      return;
    }
    if (desk.gesture) desk.gesture.move(at);
    else if (!pointers.size) hoverAt(at, event);
    desk.changed();
  });

  function hoverAt(at, event) {
    const reach = NEAR[event.pointerType] ?? NEAR.mouse;
    const takesPoints = desk.tool === "points" || desk.tool === "box";
    desk.hover = takesPoints ? nearest(at, reach) : null;
    const handle = takesPoints && desk.hover === null ? handleAt(at, reach) : null;
    const places = desk.tool !== "points" || (desk.canEdit && desk.marks.missing.length > 0);
    const takes = desk.hover !== null && !clickPlaces(at, event.pointerType);
    canvas.style.cursor = spaceHeld ? "grab" : handle ? "move" : takes ? "pointer" : places ? "crosshair" : "grab";
  }

  const up = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (pinch) {
      if (!pointers.size) pinch = null;
      return;
    }
    // A pointer that is taken away in the middle of a drag leaves the point where it was shown last.
    finish("end");
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => {
    if (desk.gesture) return;
    desk.hover = null;
    if (!desk.byKeyboard) desk.cursor = null;
    desk.changed();
  });
  canvas.addEventListener("dblclick", () => desk.tool === "curve" && lineEnded());
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      desk.view.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016)), position(event));
      desk.changed(true);
    },
    { passive: false },
  );

  return {
    cancel: () => finish("cancel"),
    // What is being dragged is taken as dropped, before the page goes away.
    release: () => desk.gesture && finish("end"),
    // Space held down pans wherever the pointer is; returns, on release, whether that happened.
    space(held) {
      if (held && !spaceHeld) panned = false;
      spaceHeld = held;
      return panned;
    },
  };
}
