// A chart of lines as SVG: it takes its colours from the style sheet, and says the values under the pointer.

import { element } from "./dom.js";
import { shownNumber } from "./words.js";

const NAME = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 14, top: 26, bottom: 40 };
const COLOURS = 7;
const DASHES = 4;
let charts = 0;

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAME, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// How a line looks, by its number: colours first, then dashes.
export const lookOf = (number) => `curve colour-${number % COLOURS} dash-${Math.floor(number / COLOURS) % DASHES}`;

export function swatch(number) {
  return drawn(
    "svg",
    { class: "swatch", width: 26, height: 10, "aria-hidden": "true" },
    drawn("path", { d: "M1 5H25", class: lookOf(number) }),
  );
}

// Round numbers from low to high, about so many.
export function ticks(low, high, about) {
  const rough = (high - low) / about;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? 10 * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// { lines: [{ name, x, y, look, steps, dots }], bands: [[from, to]], marks: [x], xTitle, yTitle, xRange, yRange, percent, alt }
export class CurveChart {
  constructor(container) {
    this.svg = drawn("svg", { class: "chart", role: "img", "aria-label": "Chart" });
    this.said = element("p", { class: "chart-said quiet-text", "aria-hidden": "true" });
    container.append(this.svg, this.said);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    new ResizeObserver(() => this.draw()).observe(container);
    this.container = container;
    charts += 1;
    this.inside = `chart-inside-${charts}`;
  }

  show(content) {
    this.content = content;
    this.draw();
  }

  draw() {
    const content = this.content;
    const width = this.container.clientWidth;
    if (!content || !width) return;
    const height = Math.round(Math.max(220, Math.min(380, width * 0.5)));
    const { lines, xRange, yRange } = content;
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    const x = (value) => MARGIN.left + ((value - xRange[0]) / (xRange[1] - xRange[0] || 1)) * inner.width;
    const y = (value) => MARGIN.top + (1 - (value - yRange[0]) / (yRange[1] - yRange[0] || 1)) * inner.height;
    this.scales = { x, y, inner, width, height };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", content.alt);
    const inside = drawn("clipPath", { id: this.inside }, drawn("rect", { x: MARGIN.left - 4, y: MARGIN.top - 4, width: inner.width + 8, height: inner.height + 8 }));
    const body = drawn("g", { "clip-path": `url(#${this.inside})` });
    for (const [from, to] of content.bands ?? [])
      body.append(drawn("rect", { class: "band", x: x(from) - 1, y: MARGIN.top, width: Math.max(2, x(to) - x(from) + 2), height: inner.height }));
    for (const mark of content.marks ?? [])
      body.append(drawn("path", { class: "mark-line", d: `M${x(mark)} ${MARGIN.top}V${MARGIN.top + inner.height}` }));
    for (const line of lines) {
      body.append(drawn("path", { class: lookOf(line.look), d: path(line, x, y) }));
      if (line.dots)
        for (const [k, value] of line.x.entries())
          if (line.y[k] !== null) body.append(drawn("circle", { class: `dot colour-${line.look % COLOURS}`, cx: x(value), cy: y(line.y[k]), r: 3.2 }));
    }
    this.guide = drawn("path", { class: "guide", d: "" });
    this.svg.replaceChildren(inside, this.axes(content, x, y, inner), body, this.guide);
  }

  axes({ xRange, yRange, xTitle, yTitle, percent }, x, y, inner) {
    const group = drawn("g", { class: "axes" });
    const bottom = MARGIN.top + inner.height;
    for (const value of ticks(...xRange, Math.max(3, inner.width / 90)))
      group.append(
        drawn("path", { d: `M${x(value)} ${MARGIN.top}V${bottom}` }),
        drawn("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, tickText(value)),
      );
    for (const value of ticks(...yRange, 5))
      group.append(
        drawn("path", { d: `M${MARGIN.left} ${y(value)}H${MARGIN.left + inner.width}` }),
        drawn("text", { x: MARGIN.left - 7, y: y(value) + 4, "text-anchor": "end" }, percent ? `${Math.round(100 * value)} %` : tickText(value)),
      );
    group.append(
      drawn("text", { class: "title", x: MARGIN.left + inner.width / 2, y: bottom + 34, "text-anchor": "middle" }, xTitle),
      drawn("text", { class: "title", x: 2, y: 14 }, yTitle),
    );
    return group;
  }

  point(event) {
    if (!this.content || !this.scales) return;
    const { x, inner, width } = this.scales;
    const place = ((event.clientX - this.svg.getBoundingClientRect().left) / this.svg.getBoundingClientRect().width) * width;
    const [low, high] = this.content.xRange;
    const value = low + ((place - MARGIN.left) / inner.width) * (high - low);
    if (value < low || value > high) {
      this.leave();
      return;
    }
    this.guide.setAttribute("d", `M${x(value)} ${MARGIN.top}V${MARGIN.top + inner.height}`);
    const told = this.content.lines.slice(0, 6).map((line) => {
      const found = valueAt(line, value);
      const text = found === null ? "–" : this.content.percent ? `${(100 * found).toFixed(1)} %` : shownNumber(found);
      return line.name ? `${line.name} ${text}` : text;
    });
    this.said.textContent = `${this.content.xTitle} ${shownNumber(value)}: ${told.join(", ")}`;
  }

  leave() {
    this.guide?.setAttribute("d", "");
    this.said.textContent = "";
  }
}

function path(line, x, y) {
  let text = "";
  let pen = false;
  let before = null;
  for (const [k, value] of line.x.entries()) {
    const height = line.y[k];
    if (height === null || height === undefined || value === null) {
      pen = false;
      continue;
    }
    if (!pen) text += `M${x(value).toFixed(1)} ${y(height).toFixed(1)}`;
    else if (line.steps) text += `H${x(value).toFixed(1)}V${y(height).toFixed(1)}`;
    else text += `L${x(value).toFixed(1)} ${y(height).toFixed(1)}`;
    pen = true;
    before = value;
  }
  return line.steps && before !== null && line.end !== undefined ? `${text}H${x(Math.max(before, line.end)).toFixed(1)}` : text;
}

// The value of a line at x: of steps the last one before it, otherwise that of the nearest place.
function valueAt(line, value) {
  let best = null;
  let near = Infinity;
  for (const [k, x] of line.x.entries()) {
    if (x === null) continue;
    if (line.steps) {
      if (x <= value) best = line.y[k];
    } else if (Math.abs(x - value) < near) {
      near = Math.abs(x - value);
      best = line.y[k];
    }
  }
  return line.steps ? (best ?? 0) : (best ?? null);
}

const tickText = (value) => (Math.abs(value) >= 10000 ? value.toLocaleString("en") : String(Number(value.toPrecision(6))));
