// Landmarks, their labels, a mesh and ellipses on a canvas. Points are pairs, or flat numbers x0, y0, x1, y1, ...

const pair = (points, k) => (points[0]?.length === 2 ? points[k] : [points[2 * k], points[2 * k + 1]]);
const count = (points) => (points[0]?.length === 2 ? points.length : points.length / 2);

export function drawMesh(context, points, triangles, { colour, width = 1 }) {
  context.beginPath();
  for (const corners of triangles) {
    corners.forEach((k, n) => context[n ? "lineTo" : "moveTo"](...pair(points, k)));
    context.closePath();
  }
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

// Discs with a dark rim, so that they are seen on any ground.
export function drawLandmarks(context, points, { colour, radius = 3, rim = "rgb(0 0 0 / .75)" }) {
  context.beginPath();
  for (let k = 0; k < count(points); k++) {
    const [x, y] = pair(points, k);
    if (!Number.isFinite(x + y)) continue;
    context.moveTo(x + radius, y);
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }
  context.lineWidth = 2;
  context.strokeStyle = rim;
  context.stroke();
  context.fillStyle = colour;
  context.fill();
}

export function drawLabels(context, points, labels, { colour, ground, size = 12 }) {
  context.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeStyle = ground;
  context.fillStyle = colour;
  for (let k = 0; k < count(points); k++) {
    const [x, y] = pair(points, k);
    if (!Number.isFinite(x + y)) continue;
    context.strokeText(labels[k], x + size * 0.45, y - size * 0.35);
    context.fillText(labels[k], x + size * 0.45, y - size * 0.35);
  }
}

// Ellipses of two standard deviations; covariances are xx, xy, yy in squares of the points' unit.
export function drawEllipses(context, points, covariances, { colour, zoom = 1 }) {
  context.beginPath();
  covariances.forEach(([xx, xy, yy], k) => {
    const [x, y] = pair(points, k);
    const middle = (xx + yy) / 2;
    const reach = Math.hypot((xx - yy) / 2, xy);
    const radii = [middle + reach, middle - reach].map((one) => 2 * zoom * Math.sqrt(Math.max(one, 0)));
    const angle = Math.atan2(2 * xy, xx - yy) / 2;
    context.moveTo(x + radii[0] * Math.cos(angle), y + radii[0] * Math.sin(angle));
    context.ellipse(x, y, radii[0], radii[1], angle, 0, 2 * Math.PI);
  });
  context.lineWidth = 1.5;
  context.strokeStyle = colour;
  context.stroke();
}
