// A small chart of lines over iterations, with a cursor that follows the player.

import { svg } from "./svg.js";

const WIDTH = 480;
const HEIGHT = 130;
const ROOM = { left: 38, right: 10, top: 8, bottom: 22 };

// `series` are { number, lines: [[x, y], ...][] }; the number is that of the colour.
export function lineChart(series, what) {
  const points = series.flatMap(({ lines }) => lines.flat()).filter(([, y]) => Number.isFinite(y));
  const farthest = Math.max(1, ...points.map(([x]) => x));
  // A fit that is lost would press all others to the ground.
  const heights = points.map(([, y]) => y).sort((a, b) => a - b);
  const highest = Math.max(1e-9, Math.min(heights.at(-1) ?? 1, 2.5 * (heights[Math.floor(0.9 * heights.length)] ?? 1)));
  const x = (value) => ROOM.left + ((WIDTH - ROOM.left - ROOM.right) * value) / farthest;
  const y = (value) => HEIGHT - ROOM.bottom - ((HEIGHT - ROOM.top - ROOM.bottom) * Math.min(value, highest)) / highest;
  const marks = [0, highest / 2, highest];
  const cursor = svg("line", { class: "cursor", y1: ROOM.top, y2: HEIGHT - ROOM.bottom, x1: x(0), x2: x(0) });
  const chart = svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": what },
    marks.map((mark) => [
      svg("line", { class: "grid", x1: ROOM.left, x2: WIDTH - ROOM.right, y1: y(mark), y2: y(mark) }),
      svg("text", { x: ROOM.left - 5, y: y(mark) + 4, "text-anchor": "end" }, short(mark)),
    ]).flat(),
    svg("text", { x: ROOM.left, y: HEIGHT - 6 }, "0"),
    svg("text", { x: WIDTH - ROOM.right, y: HEIGHT - 6, "text-anchor": "end" }, `${farthest} iterations`),
    cursor,
    series.flatMap(({ number, lines }) =>
      lines.map((line) =>
        svg("polyline", {
          class: `stroke-${number}`,
          points: line.filter(([, value]) => Number.isFinite(value)).map((at) => `${x(at[0]).toFixed(1)},${y(at[1]).toFixed(1)}`).join(" "),
        }),
      ),
    ),
  );
  return {
    chart,
    setCursor(step) {
      const place = String(x(Math.min(step, farthest)));
      cursor.setAttribute("x1", place);
      cursor.setAttribute("x2", place);
    },
  };
}

const short = (value) => (value >= 10 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value ? value.toPrecision(1) : "0");
