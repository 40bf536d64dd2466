// What a result comes to: its curves with those of results that are ticked, figures, and an experiment's tables.

import { get } from "./api.js";
import { CurveChart, swatch } from "./curve-chart.js";
import { element } from "./dom.js";
import { trying } from "./shell.js";
import { shownNumber, shownTitle } from "./words.js";

const BOUNDS = [0.02, 0.03, 0.04];
const WIDEST = 0.1;
const MOST_CURVES = 36;

export class Overview {
  constructor(container) {
    this.container = container;
    this.hidden = new Set();
  }

  async show(result, compared) {
    this.result = result;
    this.compared = compared;
    this.measure = result.measures[0] ?? "";
    this.limit = null;
    this.hidden.clear();
    this.curves = element("div", { class: "panel chart-panel" });
    this.sweep = element("div", { class: "panel chart-panel", hidden: !result.sweeps });
    this.figures = element("div", { class: "panel wide", hidden: !result.figures.length, tabIndex: 0, role: "region", "aria-label": "Figures" });
    this.tables = element("div", { class: "panel", hidden: !result.tables.length });
    this.container.replaceChildren(this.curves, this.sweep, this.figures, this.tables);
    this.showFigures();
    await Promise.all([
      this.measure ? this.showCurves() : this.curves.remove(),
      result.sweeps ? this.showSweep() : null,
      result.tables.length ? this.showTables() : null,
    ]);
  }

  async compare(compared) {
    this.compared = compared;
    if (this.measure) await this.showCurves();
  }

  // Over frames, or below each value.
  get overFrames() {
    return this.result.kind === "track" && this.shape !== "cumulative" && !this.compared.length;
  }

  async showCurves() {
    const { id } = this.result;
    const chosen = element(
      "select",
      { onchange: (event) => this.choose(event.target.value) },
      this.result.measures.map((name) => element("option", { value: name, selected: name === this.measure }, shownTitle(name))),
    );
    const controls = element("div", { class: "row" }, element("label", {}, "Curve of", chosen));
    if (this.result.kind === "track")
      controls.append(
        element("label", {}, element("input", { type: "checkbox", checked: this.overFrames, disabled: this.compared.length > 0, onchange: (event) => this.reshape(event.target.checked) }), "over frames"),
      );
    const legend = element("ul", { class: "legend" });
    const place = element("div", { class: "chart-place" });
    this.curves.replaceChildren(controls, place, legend);
    this.chart = new CurveChart(place);
    const before = `${id} ${this.measure}`;
    if (this.overFrames) {
      const courses = await trying(() => get(`/api/results/${id}/course?measure=${this.measure}`));
      if (courses) this.drawCourses(courses, legend);
      return;
    }
    const all = await Promise.all([this.result, ...this.compared].map((one) => this.curvesOf(one)));
    if (before === `${this.result.id} ${this.measure}`) this.drawCurves(all.flat(), legend, controls);
  }

  async curvesOf(one) {
    const found = await get(`/api/results/${one.id}/curves?measure=${this.measure}`).catch(() => null);
    // A result that is compared may not have this measure.
    return (found?.curves ?? []).map((curve) => ({ ...curve, unit: found.unit, name: this.nameOf(one, curve.label) }));
  }

  nameOf(one, label) {
    if (!this.compared.length) return label;
    return label ? `${one.name}: ${label}` : one.name;
  }

  drawCurves(curves, legend, controls) {
    const shown = curves.slice(0, MOST_CURVES).map((curve, look) => ({ ...curve, look }));
    const errors = ["error", "start_error"].includes(this.measure);
    const ends = shown.map((curve) => quantile(curve, errors ? 0.9 : 0.995)).sort((a, b) => a - b);
    // Of errors so far that the better half reaches its end: failures would fill the picture otherwise.
    const usual = roundLimit(errors ? [ends[Math.floor(ends.length / 2)] ?? 0] : ends);
    const limit = this.limit ?? (errors ? Math.min(usual, WIDEST) : usual);
    const least = Math.min(...shown.map((curve) => quantile(curve, 0.01)));
    // Most are near 1: there is nothing to see below where they begin.
    const low = this.measure === "confidence" ? Math.max(0, Math.floor(20 * least - 1e-6) / 20) : Math.min(0, least);
    const draw = () => {
      const lines = shown
        .filter((curve) => !this.hidden.has(curve.name))
        .map((curve) => ({ name: curve.name, x: [Math.min(low, curve.x[0] ?? low), ...curve.x], y: [0, ...curve.shares], look: curve.look, steps: true, end: limit }));
      const unit = { size: " over the object's size", px: " in pixels", s: " in seconds" }[shown[0]?.unit] ?? "";
      this.chart.show({
        lines,
        xTitle: `${shownTitle(this.measure)}${unit}`,
        yTitle: "cumulative share of fits",
        xRange: [low, limit],
        yRange: [0, 1],
        percent: true,
        alt: `Cumulative curves of ${shownTitle(this.measure)}: ${lines.length} ${lines.length === 1 ? "curve" : "curves"}. The table below gives the numbers.`,
      });
    };
    const field = element("input", { type: "number", min: "0", step: "any", value: Number(limit.toPrecision(3)), class: "narrow", onchange: (event) => this.bound(Number(event.target.value)) });
    controls.append(element("label", {}, "up to", field));
    legend.replaceChildren(
      ...shown.map((curve) => this.legendLine(curve, shareBelow(curve, limit), draw)),
      ...(curves.length > MOST_CURVES ? [element("li", { class: "quiet-text" }, `${curves.length - MOST_CURVES} more are not shown.`)] : []),
    );
    draw();
  }

  legendLine(curve, share, draw) {
    const label = `${curve.name || "all"}: ${(100 * share).toFixed(1)} % of ${curve.count.toLocaleString("en")}`;
    const tick = element("input", {
      type: "checkbox",
      checked: !this.hidden.has(curve.name),
      onchange: (event) => {
        if (event.target.checked) this.hidden.delete(curve.name);
        else this.hidden.add(curve.name);
        draw();
      },
    });
    return element("li", {}, element("label", {}, tick, swatch(curve.look), label));
  }

  drawCourses(found, legend) {
    const lines = found.courses.slice(0, MOST_CURVES).map((course, look) => ({ name: found.courses.length > 1 ? `object ${course.object}` : "", x: course.frames, y: course.values, look }));
    const known = lines.flatMap((line) => line.y.filter((value) => value !== null));
    const frames = lines.flatMap((line) => line.x);
    const high = this.measure === "confidence" ? 1 : roundLimit([extreme(known, Math.max)]);
    const alone = found.courses.length === 1 ? found.courses[0] : { lost: [], restarted: [] };
    this.chart.show({
      lines,
      bands: alone.lost,
      marks: alone.restarted,
      xTitle: "frame",
      yTitle: shownTitle(this.measure),
      xRange: [extreme(frames, Math.min), Math.max(extreme(frames, Math.max), 1)],
      yRange: [Math.min(0, extreme(known, Math.min)), high],
      alt: `${shownTitle(this.measure)} over ${frames.length} frames`,
    });
    const told = [
      ...lines.filter((line) => line.name).map((line) => element("li", {}, swatch(line.look), line.name)),
      ...(alone.lost.length ? [element("li", {}, element("span", { class: "key band-key" }), "lost")] : []),
      ...(alone.restarted.length ? [element("li", {}, element("span", { class: "key mark-key" }), "started")] : []),
    ];
    legend.replaceChildren(...told);
  }

  choose(measure) {
    this.measure = measure;
    this.limit = null;
    trying(() => this.showCurves());
  }

  bound(limit) {
    this.limit = limit > 0 ? limit : null;
    trying(() => this.showCurves());
  }

  reshape(overFrames) {
    this.shape = overFrames ? "course" : "cumulative";
    trying(() => this.showCurves());
  }

  async showSweep() {
    const found = await trying(() => get(`/api/results/${this.result.id}/sweep`));
    if (!found) return;
    const names = Object.keys(found.lines[0].figures);
    const title = (name) => (name.startsWith("lt_") ? `share below ${name.slice(3)}` : `${name} error`);
    const place = element("div", { class: "chart-place" });
    const legend = element("ul", { class: "legend" });
    const chosen = element("select", { onchange: () => draw() }, names.map((name) => element("option", { value: name }, title(name))));
    this.sweep.replaceChildren(
      element("h2", {}, `Against ${found.name || "the value that is varied"}`),
      element("div", { class: "row" }, element("label", {}, "Show", chosen)),
      place,
      legend,
    );
    const chart = new CurveChart(place);
    const draw = () => {
      const name = chosen.value;
      const share = name.startsWith("lt_");
      const lines = found.lines.map((line, look) => ({ name: line.group, x: line.values, y: line.figures[name], look, dots: true }));
      const values = lines.flatMap((line) => line.x);
      const heights = lines.flatMap((line) => line.y).filter((value) => value !== null);
      chart.show({
        lines,
        xTitle: found.name || "value",
        yTitle: title(name),
        xRange: [Math.min(...values), Math.max(...values)],
        yRange: [0, share ? 1 : roundLimit(heights)],
        percent: share,
        alt: `${title(name)} against ${found.name}: ${lines.length} lines`,
      });
      legend.replaceChildren(...lines.map((line) => element("li", {}, swatch(line.look), line.name)));
    };
    draw();
  }

  showFigures() {
    const { figures, label } = this.result;
    if (!figures.length) return;
    const pixels = figures.some((one) => one.pixels !== null);
    const titles = [label || "fits", "fits", "failed", ...BOUNDS.map((bound) => `< ${bound}`), "mean", "std", "median", ...(pixels ? ["px"] : []), "ms"];
    const rows = figures.map((one) => [
      one.label || "all",
      one.fits.toLocaleString("en"),
      one.failed.toLocaleString("en"),
      ...one.shares.map((share) => `${(100 * share).toFixed(1)} %`),
      ...[one.mean, one.std, one.median].map((value) => (value === null ? "" : value.toFixed(4))),
      ...(pixels ? [shownNumber(one.pixels)] : []),
      shownNumber(one.milliseconds),
    ]);
    this.figures.replaceChildren(
      element("h2", {}, "Errors"),
      plainTable(titles, rows, titles.map((_, k) => k > 0)),
      element("p", { class: "quiet-text" }, "Errors are divided by the object's size. An object that was not found counts as an error of 1."),
    );
  }

  async showTables() {
    const { tables, id } = this.result;
    const place = element("div", { class: "wide table-place", tabIndex: 0, role: "region", "aria-label": "Table of the report" });
    const load = async (number) => {
      const found = await trying(() => get(`/api/results/${id}/tables/${number}`));
      if (!found) return;
      place.replaceChildren(
        plainTable(found.header, found.rows, found.numeric, true),
        ...(found.sentence ? [element("p", { class: "quiet-text" }, found.sentence)] : []),
      );
    };
    const chosen = element("select", { onchange: (event) => load(Number(event.target.value)) }, tables.map((name, k) => element("option", { value: String(k) }, name)));
    this.tables.replaceChildren(element("h2", {}, "Tables of its report"), element("div", { class: "row" }, element("label", {}, "Show", chosen)), place);
    await load(0);
  }
}

// A table that is there as a whole; with `sortable`, a click on a title sorts it.
export function plainTable(titles, rows, numeric, sortable = false) {
  const body = element("tbody");
  let by = { column: -1, down: false };
  const fill = () =>
    body.replaceChildren(
      ...rows.map((row) =>
        element("tr", {}, row.map((text, k) => element(k ? "td" : "th", { class: numeric[k] ? "number" : null, scope: k ? null : "row" }, text))),
      ),
    );
  const sort = (column) => {
    by = { column, down: by.column === column && !by.down };
    const sign = by.down ? -1 : 1;
    rows.sort((a, b) => sign * (numeric[column] ? Number(a[column]) - Number(b[column]) : a[column].localeCompare(b[column])));
    for (const [k, cell] of [...head.children].entries())
      cell.setAttribute("aria-sort", k !== column ? "none" : by.down ? "descending" : "ascending");
    fill();
  };
  const head = element(
    "tr",
    {},
    titles.map((title, k) =>
      element(
        "th",
        { scope: "col", class: numeric[k] ? "number" : null },
        sortable ? element("button", { type: "button", class: "quiet", onclick: () => sort(k) }, shownTitle(title)) : title,
      ),
    ),
  );
  fill();
  return element("table", { class: "plain" }, element("thead", {}, head), body);
}

// The value that a share of all fits stay below.
function quantile(curve, share) {
  const place = curve.shares.findIndex((one) => one >= share);
  return curve.x[place < 0 ? curve.x.length - 1 : place] ?? 0;
}

function shareBelow(curve, limit) {
  let share = 0;
  for (const [k, x] of curve.x.entries()) if (x <= limit) share = curve.shares[k];
  return share;
}

// A round number that none of some is above.
function roundLimit(values) {
  const known = values.filter((value) => value > 0);
  const value = known.length ? extreme(known, Math.max) : 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return Number(([1, 2, 5, 10].find((step) => step * power >= value) * power).toPrecision(6));
}

const extreme = (values, which) => values.reduce((a, b) => which(a, b), values[0] ?? 0);
