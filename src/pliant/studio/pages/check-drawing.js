// A part of a picture with points on it: where they are, and where they would be.

import { colour } from "./shell.js";

const pictures = new Map();
const KEPT = 12;

// The picture of an image, at most 1600 wide; null if it cannot be shown.
export function picture(index) {
  if (!pictures.has(index)) {
    const image = new Image();
    const loaded = new Promise((resolve) => {
      image.onload = () => resolve(image);
      image.onerror = () => resolve(null);
    });
    image.src = `/api/images/${index}/picture?width=1600`;
    pictures.set(index, loaded);
    if (pictures.size > KEPT) pictures.delete(pictures.keys().next().value);
  }
  return pictures.get(index);
}

// The box around all points of several shapes with a margin: { left, top, width, height }, in pixels of the image.
export function boxAround(...shapes) {
  const points = shapes.flat().filter(Boolean);
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const margin = 0.12 * Math.max(right - left, bottom - top, 20);
  return { left: left - margin, top: top - margin, width: right - left + 2 * margin, height: bottom - top + 2 * margin };
}

// The box around what stands out, and enough of the object around it to see what it is.
export function boxNear(marked, ...shapes) {
  const whole = boxAround(...shapes);
  const near = boxAround(...shapes.map((shape) => marked.map((k) => shape[k])));
  const least = 0.45 * Math.max(whole.width, whole.height);
  const [width, height] = [Math.max(near.width, least), Math.max(near.height, least)];
  return { left: near.left + (near.width - width) / 2, top: near.top + (near.height - height) / 2, width, height };
}

// Draws the part `box` of a picture that is `width` pixels wide in full size, and returns where points go on the canvas.
function drawPart(canvas, image, width, box) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  const context = canvas.getContext("2d");
  const scale = Math.min(canvas.width / box.width, canvas.height / box.height);
  const dx = (canvas.width - box.width * scale) / 2 - box.left * scale;
  const dy = (canvas.height - box.height * scale) / 2 - box.top * scale;
  context.fillStyle = colour("picture");
  context.fillRect(0, 0, canvas.width, canvas.height);
  if (image && width) {
    const shown = (scale * width) / image.naturalWidth;
    // Centres of pixels are at whole numbers, so the picture begins half a pixel before them.
    context.drawImage(image, dx - scale / 2, dy - scale / 2, image.naturalWidth * shown, image.naturalHeight * shown);
  }
  return { context, ratio, at: ([x, y]) => [x * scale + dx, y * scale + dy] };
}

function dot({ context, ratio, at }, point, { fill, radius = 3 }) {
  const [x, y] = at(point);
  context.beginPath();
  context.arc(x, y, radius * ratio, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  context.lineWidth = 1.2 * ratio;
  context.strokeStyle = "#000";
  context.stroke();
}

function line({ context, ratio, at }, from, to, stroke) {
  context.beginPath();
  context.moveTo(...at(from));
  context.lineTo(...at(to));
  context.lineWidth = 2 * ratio;
  context.strokeStyle = stroke;
  context.stroke();
}

function label({ context, ratio, at }, point, text) {
  const [x, y] = at(point);
  context.font = `${13 * ratio}px system-ui, sans-serif`;
  context.lineWidth = 3 * ratio;
  context.strokeStyle = "#000";
  context.strokeText(text, x + 7 * ratio, y - 6 * ratio);
  context.fillStyle = "#fff";
  context.fillText(text, x + 7 * ratio, y - 6 * ratio);
}

// Points of an image; those in `marked` stand out and have their names. `from` are places that they have come from.
export function drawPoints(canvas, { image, width, box, points, marked, names, from = null, good = false }) {
  const drawing = drawPart(canvas, image, width, box);
  const stands = new Set(marked);
  const loud = good ? colour("sure") : colour("unsure");
  const few = marked.length <= 12;
  points.forEach((point, k) => {
    if (point && !stands.has(k)) dot(drawing, point, { fill: "#e8e8e8", radius: 2.4 });
  });
  for (const k of marked) {
    if (from?.[k] && points[k]) line(drawing, from[k], points[k], loud);
  }
  for (const k of marked) {
    if (!points[k]) continue;
    dot(drawing, points[k], { fill: loud, radius: 4.5 });
    if (few) label(drawing, points[k], names[k] ?? String(k));
  }
}
