// Images with landmarks on a canvas. Points are in pixels of the whole image; a box is the part of it that is shown.

const POINT = "#ffd84d";
const EDGE = "rgb(0 0 0 / .75)";
const BAD = "#ff6a4d";

// Makes a canvas as fine as the screen; returns the context, and width and height in pixels of the page.
export function prepared(canvas, width, height) {
  const fine = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * fine));
  canvas.height = Math.max(1, Math.round(height * fine));
  const context = canvas.getContext("2d");
  context.setTransform(fine, 0, 0, fine, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Where a picture of width × height goes in a frame, as large as can be.
export function fitted(width, height, frame) {
  const scale = Math.min(frame.width / width, frame.height / height);
  return {
    x: (frame.width - width * scale) / 2,
    y: (frame.height - height * scale) / 2,
    width: width * scale,
    height: height * scale,
    scale,
  };
}

export function drawFit(context, image, { points, box, frame, radius = 1.6, showPoints = true, worst = new Set() }) {
  const [left, top, right, bottom] = box;
  const place = fitted(right - left, bottom - top, frame);
  context.imageSmoothingQuality = "high";
  if (image) context.drawImage(image, place.x, place.y, place.width, place.height);
  if (!points || !showPoints) return place;
  // Centres of pixels are whole numbers: the first pixel reaches from -0.5 to 0.5.
  const at = ([x, y]) => [place.x + (x + 0.5 - left) * place.scale, place.y + (y + 0.5 - top) * place.scale];
  for (const [k, point] of points.entries()) {
    if (!point || point[0] === null || point[1] === null) continue;
    const [x, y] = at(point);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.lineWidth = Math.max(1, radius * 0.7);
    context.strokeStyle = EDGE;
    context.fillStyle = worst.has(k) ? BAD : POINT;
    context.stroke();
    context.fill();
  }
  return place;
}
