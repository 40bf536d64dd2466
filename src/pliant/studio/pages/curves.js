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

// Landmarks from lines of text: a name each, or "jaw 1-17" for a curve of 17 points, "eye 1-8 closed" for a ring, and
// "curve lung: 0 .. 43, 50 closed" for a curve through landmarks that are named already.
export function objectFrom(text) {
  const names = [];
  const curves = [];
  for (const line of text.split("\n").map((part) => part.trim()).filter(Boolean)) {
    const curve = line.match(/^curve\s+(.+?)\s*:\s*(.+?)(\s+closed)?$/i);
    const range = line.match(/^(.*?)\s*(\d+)\s*(?:-|–)\s*(\d+)(\s+closed)?$/i);
    if (curve) curves.push({ name: curve[1], points: through(curve[2], names), closed: Boolean(curve[3]) });
    else if (range && Number(range[3]) >= Number(range[2])) addRange(range, names, curves);
    else names.push(line);
  }
  const twice = names.find((name, k) => names.indexOf(name) !== k);
  if (twice !== undefined) throw new Error(`“${twice}” occurs twice: each landmark needs its own name.`);
  return { names, curves };
}

function addRange([line, name, first, last, closed], names, curves) {
  if (last - first >= 5000) throw new Error(`“${line}” would be more than 5000 landmarks.`);
  const points = [];
  for (let n = Number(first); n <= Number(last); n++) points.push(names.push(`${name} ${n}`.trim()) - 1);
  if (name && points.length > 1) curves.push({ name, points, closed: Boolean(closed) });
}

// The numbers of landmarks that are listed by name, with ".." for all between two.
function through(text, names) {
  const number = (name) => {
    const found = names.indexOf(name.trim());
    if (found < 0) throw new Error(`“${name.trim()}” is not a landmark: name it above the curve.`);
    return found;
  };
  return text.split(",").flatMap((part) => {
    const [first, last = first] = part.split("..").map(number);
    return Array.from({ length: Math.max(last - first, 0) + 1 }, (_, k) => first + k);
  });
}

// The text that `objectFrom` reads as the same landmarks.
export function textOf({ names, curves }) {
  const lines = [];
  const told = new Set();
  for (let k = 0; k < names.length; k++) {
    const curve = curves.find((one) => one.points[0] === k && isNumbered(one, names));
    let end = k;
    if (curve) {
      lines.push(`${curve.name} 1-${curve.points.length}${curve.closed ? " closed" : ""}`);
      told.add(curve);
      end = curve.points.at(-1);
    } else {
      while (/^(0|[1-9]\d*)$/.test(names[k]) && names[end + 1] === String(Number(names[end]) + 1)) end++;
      lines.push(end > k ? `${names[k]}-${names[end]}` : names[k]);
    }
    k = end;
  }
  for (const curve of curves) if (!told.has(curve)) lines.push(`curve ${curve.name}: ${listed(curve, names)}${curve.closed ? " closed" : ""}`);
  return lines.join("\n");
}

const isNumbered = ({ name, points }, names) =>
  points.length > 1 && points.every((point, n) => point === points[0] + n && names[point] === `${name} ${n + 1}`);

function listed({ points }, names) {
  const runs = [];
  for (const point of points) {
    if (runs.length && runs.at(-1)[1] === point - 1) runs.at(-1)[1] = point;
    else runs.push([point, point]);
  }
  return runs.map(([first, last]) => (last > first ? `${names[first]} .. ${names[last]}` : names[first])).join(", ");
}
