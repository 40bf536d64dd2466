// How much of the variance each mode explains: bars, the sum as a line, and a sentence for those who see neither.

import { svg } from "./svg.js";

const HEIGHT = 60;

export function varianceChart(shares, what) {
  const step = 100 / Math.max(shares.length, 1);
  let sum = 0;
  const corners = [];
  const bars = shares.map((share, k) => {
    sum += share;
    corners.push(`${(k + 0.5) * step},${HEIGHT * (1 - Math.min(sum, 1))}`);
    const height = HEIGHT * share;
    return svg(
      "rect",
      { class: "bar", x: (k + 0.15) * step, width: 0.7 * step, y: HEIGHT - height, height },
      svg("title", {}, `Mode ${k + 1}: ${percent(share)}, ${percent(sum)} including earlier modes`),
    );
  });
  return svg(
    "svg",
    { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${what}: ${explained(shares, shares.length, what)}` },
    svg("line", { class: "base", x1: 0, x2: 100, y1: HEIGHT, y2: HEIGHT }),
    bars,
    corners.length > 1 ? svg("polyline", { class: "cumulative", points: corners.join(" ") }) : null,
  );
}

export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)} %` : `${(100 * share).toFixed(1)} %`);

// What the modes explain, in words.
export function explained(shares, kept, what) {
  if (!shares.length) return `${what} has no modes: nothing varies.`;
  const sums = [];
  shares.reduce((sum, share) => (sums.push(sum + share), sum + share), 0);
  const first = Math.min(3, shares.length);
  const shown = kept > shares.length ? `The first ${shares.length} of ${kept} modes` : shares.length === 1 ? "One mode" : `${shares.length} modes`;
  const most = `${shown} of ${what.toLowerCase()} explain${shares.length === 1 ? "s" : ""} ${percent(sums.at(-1))} of the variance`;
  return shares.length > 3 ? `${most}; the first ${first} alone explain ${percent(sums[first - 1])}.` : `${most}.`;
}
