// A loupe: what is under the pointer, several times as large, in the corner away from it.

import { prepared } from "./drawing.js";

const SIDE = 168;
const TIMES = 4;

export function drawLoupe(canvas, { view, picture, marks, cursor, options, touching }) {
  const wanted = Boolean(picture && cursor && (options.loupe || touching));
  canvas.hidden = !wanted;
  if (!wanted) return;
  const [x, y] = view.toScreen(cursor);
  canvas.classList.toggle("right", x < view.stage.width / 2 && y < SIDE + 40);
  const context = prepared(canvas, { width: SIDE, height: SIDE });
  const scale = Math.max(view.scale * TIMES, 4);
  const across = view.mirror ? -scale : scale;
  context.save();
  context.imageSmoothingEnabled = false;
  context.translate(SIDE / 2 - cursor[0] * across, SIDE / 2 - cursor[1] * scale);
  context.scale(across, scale);
  context.drawImage(picture, -0.5, -0.5, view.image.width, view.image.height);
  context.restore();
  for (const landmark of marks?.shown ?? []) {
    const point = marks.at(landmark);
    const [dx, dy] = [(point[0] - cursor[0]) * across, (point[1] - cursor[1]) * scale];
    if (Math.hypot(dx, dy) < 2 || Math.abs(dx) > SIDE / 2 || Math.abs(dy) > SIDE / 2) continue;
    ring(context, SIDE / 2 + dx, SIDE / 2 + dy);
  }
  cross(context);
}

function ring(context, x, y) {
  context.beginPath();
  context.arc(x, y, 4, 0, 2 * Math.PI);
  context.lineWidth = 1.5;
  context.strokeStyle = "rgb(255 255 255 / .8)";
  context.stroke();
}

function cross(context) {
  const middle = SIDE / 2;
  context.beginPath();
  for (const [a, b, c, d] of [[0, middle, middle - 5, middle], [middle + 5, middle, SIDE, middle], [middle, 0, middle, middle - 5], [middle, middle + 5, middle, SIDE]]) {
    context.moveTo(a, b);
    context.lineTo(c, d);
  }
  context.lineWidth = 3;
  context.strokeStyle = "rgb(0 0 0 / .4)";
  context.stroke();
  context.lineWidth = 1;
  context.strokeStyle = "#fff";
  context.stroke();
}
