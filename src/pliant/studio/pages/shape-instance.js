// Shapes from a model: the mean and its modes, then a pose, then the view. Points are flat: x0, y0, x1, y1, ...

// The points of an instance, `deviations` standard deviations off along the first modes.
export function instance(model, deviations) {
  const points = Float64Array.from(model.mean.flat());
  deviations.forEach((deviation, mode) => {
    if (!deviation) return;
    model.modes[mode].forEach(([x, y], k) => {
      points[2 * k] += deviation * x;
      points[2 * k + 1] += deviation * y;
    });
  });
  return points;
}

// Scaled and turned (degrees) about a centre, then moved; shifts are shares of the object's size.
export function posed(points, { scale, rotation, x, y }, { centre, size }) {
  const angle = (rotation * Math.PI) / 180;
  const along = scale * Math.cos(angle);
  const across = scale * Math.sin(angle);
  const moved = new Float64Array(points.length);
  for (let k = 0; k < points.length; k += 2) {
    const dx = points[k] - centre[0];
    const dy = points[k + 1] - centre[1];
    moved[k] = centre[0] + along * dx - across * dy + x * size;
    moved[k + 1] = centre[1] + across * dx + along * dy + y * size;
  }
  return moved;
}

// Where the mean is, and how large: what poses are about.
export function placeOf(model) {
  const [x, y] = [0, 1].map((axis) => model.mean.map((point) => point[axis]));
  const middle = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const length = (values) => Math.max(...values) - Math.min(...values);
  return { centre: [middle(x), middle(y)], size: (length(x) + length(y)) / 2 };
}

// From the model's frame to a canvas: the box of all usual instances, as large as it fits, in the middle.
export function viewOf({ low, high }, width, height) {
  const zoom = Math.min(width / (high[0] - low[0]), height / (high[1] - low[1]));
  const shift = [
    (width - 1) / 2 - (zoom * (low[0] + high[0])) / 2,
    (height - 1) / 2 - (zoom * (low[1] + high[1])) / 2,
  ];
  return { zoom, shift };
}

export function seen(points, { zoom, shift }) {
  return points.map((value, k) => zoom * value + shift[k % 2]);
}
