// Points at even distances along a line, and curves from names.

const distance = ([ax, ay], [bx, by]) => Math.hypot(bx - ax, by - ay);

// `count` points at even distances along a polyline, with the first and the last at its ends; a closed line returns
// to its first vertex, where no second point is put.
export function resampled(vertices, count, closed = false) {
  const line = closed ? [...vertices, vertices[0]] : vertices;
  const lengths = [0];
  for (let k = 1; k < line.length; k++) lengths.push(lengths[k - 1] + distance(line[k - 1], line[k]));
  const total = lengths.at(-1);
  const steps = closed ? count : Math.max(count - 1, 1);
  const points = [];
  for (let n = 0, k = 1; n < count; n++) {
    const wanted = (total * n) / steps;
    while (k < line.length - 1 && lengths[k] < wanted) k++;
    const span = lengths[k] - lengths[k - 1];
    const part = span > 0 ? Math.min(Math.max((wanted - lengths[k - 1]) / span, 0), 1) : 0;
    const [from, to] = [line[k - 1], line[k] ?? line[k - 1]];
    points.push([from[0] + part * (to[0] - from[0]), from[1] + part * (to[1] - from[1])]);
  }
  return points;
}

// Landmarks from lines of text: a name each, or "jaw 1-17" for a curve of 17 points, "eye 1-8 closed" for a ring.
export function objectFrom(text) {
  const names = [];
  const curves = [];
  for (const line of text.split("\n").map((part) => part.trim()).filter(Boolean)) {
    const range = line.match(/^(.*?)\s*(\d+)\s*(?:-|–|\.\.)\s*(\d+)(\s+closed)?$/i);
    if (!range || Number(range[3]) < Number(range[2])) {
      names.push(line);
      continue;
    }
    const [, name, first, last, closed] = range;
    if (last - first >= 5000) throw new Error(`“${line}” would be more than 5000 landmarks.`);
    const points = [];
    for (let n = Number(first); n <= Number(last); n++) points.push(names.push(`${name} ${n}`.trim()) - 1);
    if (name && points.length > 1) curves.push({ name, points, closed: Boolean(closed) });
  }
  const twice = names.find((name, k) => names.indexOf(name) !== k);
  if (twice) throw new Error(`“${twice}” is there twice: each landmark needs a name of its own.`);
  return { names, curves };
}

// The text that `objectFrom` reads as the same landmarks, as far as curves are numbered in a row.
export function textOf({ names, curves }) {
  const lines = [];
  for (let k = 0; k < names.length; k++) {
    const curve = curves.find(({ name, points }) =>
      points[0] === k && points.every((point, n) => point === k + n && names[point] === `${name} ${n + 1}`));
    if (curve) {
      lines.push(`${curve.name} 1-${curve.points.length}${curve.closed ? " closed" : ""}`);
      k += curve.points.length - 1;
    } else {
      lines.push(names[k]);
    }
  }
  return lines.join("\n");
}
