// An image with a box on it: drag to draw the box, drag inside it to move it, drag a corner to change it.

import { colour } from "./shell.js";

const GRIP = 12;

// `moved(box)` is told of the box, left, top, right, bottom in pixels of the image, whenever it changes.
export function makeBoxStage(canvas, moved) {
  let image = null;
  let size = [1, 1];
  let box = null;
  let drag = null;

  // Canvas pixels per image pixel, and where the image begins.
  function view() {
    const zoom = Math.min(canvas.width / size[0], canvas.height / size[1]);
    return { zoom, left: (canvas.width - zoom * size[0]) / 2, top: (canvas.height - zoom * size[1]) / 2 };
  }

  const finer = () => canvas.width / Math.max(1, canvas.clientWidth);

  // Pixels of the image have their centres at whole numbers.
  function inImage(event) {
    const { zoom, left, top } = view();
    const place = canvas.getBoundingClientRect();
    const x = ((event.clientX - place.left) * finer() - left) / zoom - 0.5;
    const y = ((event.clientY - place.top) * finer() - top) / zoom - 0.5;
    return [Math.min(Math.max(x, -0.5), size[0] - 0.5), Math.min(Math.max(y, -0.5), size[1] - 0.5)];
  }

  function onCanvas([x, y]) {
    const { zoom, left, top } = view();
    return [left + (x + 0.5) * zoom, top + (y + 0.5) * zoom];
  }

  function draw() {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (!image) return;
    const { zoom, left, top } = view();
    context.imageSmoothingEnabled = zoom < 4;
    context.drawImage(image, left, top, zoom * size[0], zoom * size[1]);
    if (!box) return;
    const [x, y] = onCanvas(box.slice(0, 2));
    const [right, bottom] = onCanvas(box.slice(2));
    context.lineWidth = 4 * finer();
    context.strokeStyle = "rgb(0 0 0 / .6)";
    context.strokeRect(x, y, right - x, bottom - y);
    context.lineWidth = 2 * finer();
    context.strokeStyle = colour("doubt");
    context.strokeRect(x, y, right - x, bottom - y);
    context.fillStyle = colour("doubt");
    const grip = 5 * finer();
    for (const [cx, cy] of [[x, y], [right, y], [x, bottom], [right, bottom]]) context.fillRect(cx - grip, cy - grip, 2 * grip, 2 * grip);
  }

  function corner(point) {
    if (!box) return null;
    const { zoom } = view();
    const reach = (GRIP * finer()) / zoom;
    const [left, top, right, bottom] = box;
    const corners = [[left, top, right, bottom], [right, top, left, bottom], [left, bottom, right, top], [right, bottom, left, top]];
    return corners.find(([x, y]) => Math.abs(point[0] - x) < reach && Math.abs(point[1] - y) < reach) ?? null;
  }

  const inside = ([x, y]) => box && x > box[0] && x < box[2] && y > box[1] && y < box[3];

  function set(next, told = true) {
    box = next && next.map((value) => Math.round(10 * value) / 10);
    draw();
    if (told) moved(box);
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (!image || event.button) return;
    const point = inImage(event);
    const held = corner(point);
    drag = held ? { from: held.slice(2) } : inside(point) ? { at: point, box } : { from: point };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = inImage(event);
    if (drag.from) {
      const [fx, fy] = drag.from;
      set([Math.min(x, fx), Math.min(y, fy), Math.max(x, fx), Math.max(y, fy)]);
    } else {
      const shift = [x - drag.at[0], y - drag.at[1]];
      set(drag.box.map((value, k) => value + shift[k % 2]));
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      // A click draws nothing: a box needs a pixel at least.
      if (drag && box && (box[2] - box[0] < 1 || box[3] - box[1] < 1)) set(null);
      drag = null;
    });
  }
  new ResizeObserver(() => {
    const finer = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * finer));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * finer));
    draw();
  }).observe(canvas);

  return {
    show(picture, width, height) {
      image = picture;
      size = [width, height];
      set(null);
    },
    set: (next) => set(next, false),
    draw,
  };
}
