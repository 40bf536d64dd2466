// One fit, large: the image with its landmarks, what is known about the fit, and the way to correct it.

import { get, send } from "./api.js";
import { element, find, latest } from "./dom.js";
import { trying } from "./shell.js";
import { drawFit, prepared } from "./thumbnail.js";
import { shownCell, shownNumber, shownTitle } from "./words.js";

const WORST = 5;

export class FitDialog {
  // `closed(place)` says where the person was.
  constructor({ closed }) {
    this.dialog = find("#fit");
    this.canvas = find("#fit-canvas");
    this.image = new Image();
    this.image.onload = () => this.draw();
    this.image.onerror = () => this.image.getAttribute("src") && this.draw();
    this.points = true;
    this.whole = false;
    this.go = latest((place) => trying(() => this.load(place)));
    find("#fit-close").addEventListener("click", () => this.dialog.close());
    find("#fit-before").addEventListener("click", () => this.step(-1));
    find("#fit-after").addEventListener("click", () => this.step(1));
    find("#fit-points").addEventListener("click", () => this.toggle("points"));
    find("#fit-whole").addEventListener("click", () => this.toggle("whole"));
    find("#fit-take").addEventListener("click", () => this.take());
    this.dialog.addEventListener("keydown", (event) => this.pressed(event));
    this.dialog.addEventListener("close", () => closed(this.place));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }

  // Opens the row at a place of `rows`, which is how people see them ordered.
  async open(result, rows, place) {
    this.result = result;
    this.rows = rows;
    if (!this.dialog.open) {
      this.clear();
      this.dialog.showModal();
    }
    await this.go(place);
  }

  // Nothing of the last fit is to be seen while the next one comes.
  clear() {
    this.fit = null;
    this.place = undefined;
    this.image.removeAttribute("src");
    prepared(this.canvas, 1, 1);
    find("#fit-title").textContent = "…";
    for (const name of ["#fit-cells", "#fit-worst", "#fit-obstacle"]) find(name).replaceChildren();
    find("#fit-trouble").hidden = true;
    find("#fit-take").disabled = true;
  }

  step(by) {
    if (!this.fit) return;
    const place = this.place + by;
    if (place >= 0 && place < (this.rows.total ?? 0)) this.go(place);
  }

  async load(place) {
    const row = await this.rows.fetched(place);
    if (!row) return;
    const fit = await get(`/api/results/${this.result.id}/rows/${row.number}`);
    this.place = place;
    this.fit = fit;
    this.image.src = fit.trouble ? "" : this.address();
    this.describe();
    this.draw();
  }

  address() {
    const around = !this.whole && this.fit.box ? "&around=true" : "";
    return `/api/results/${this.result.id}/picture?row=${this.fit.number}&width=1600${around}`;
  }

  describe() {
    const { fit, result } = this;
    find("#fit-title").textContent = `${fit.image}, ${(this.place + 1).toLocaleString("en")} of ${(this.rows.total ?? 0).toLocaleString("en")}`;
    find("#fit-cells").replaceChildren(
      ...result.columns.flatMap((column, k) => {
        const text = shownCell(fit.cells[k]);
        if (!text || column.name === "image") return [];
        const unit = column.unit && column.unit !== "size" ? ` ${column.unit}` : "";
        return [element("dt", { title: column.meaning || null }, shownTitle(column.name)), element("dd", {}, `${text}${unit}`)];
      }),
    );
    this.describeWorst();
    find("#fit-trouble").textContent = fit.trouble;
    find("#fit-trouble").hidden = !fit.trouble;
    find("#fit-before").disabled = this.place === 0;
    find("#fit-after").disabled = this.place + 1 >= (this.rows.total ?? 0);
    find("#fit-whole").disabled = !fit.box;
    find("#fit-take").disabled = Boolean(fit.obstacle);
    find("#fit-obstacle").textContent = fit.obstacle ? `This fit cannot be corrected here: ${fit.obstacle}` : "";
  }

  // The landmarks that are farthest off, or the least certain where nobody knows.
  describeWorst() {
    const { distances, spread } = this.fit;
    const values = distances ?? spread;
    const order = values
      ? [...values.keys()].filter((k) => values[k] !== null).sort((a, b) => values[b] - values[a]).slice(0, WORST)
      : [];
    this.worst = new Set(order);
    const title = distances ? "Farthest off (of the object's size)" : "Least certain (px)";
    const names = this.result.landmark_names;
    find("#fit-worst").replaceChildren(
      ...(order.length
        ? [
            element("h3", {}, title),
            element("ol", {}, order.map((k) => element("li", {}, `${names[k] ?? `landmark ${k}`}: ${shownNumber(values[k])}`))),
          ]
        : []),
    );
  }

  draw() {
    if (!this.dialog.open || !this.fit) return;
    const frame = { width: this.canvas.parentElement.clientWidth, height: this.canvas.parentElement.clientHeight };
    const context = prepared(this.canvas, frame.width, frame.height);
    const ready = this.image.getAttribute("src") && this.image.complete && this.image.naturalWidth > 0;
    const { fit } = this;
    const width = fit.width ?? this.image.naturalWidth;
    const height = fit.height ?? this.image.naturalHeight;
    const around = fit.box && this.image.getAttribute("src")?.includes("around");
    const box = around || (fit.trouble && fit.box) ? fit.box : [0, 0, width, height];
    if (!ready && !fit.trouble) return;
    drawFit(context, ready ? this.image : null, {
      points: fit.points,
      box,
      frame,
      radius: Math.max(2, Math.min(frame.width, frame.height) / 190),
      showPoints: this.points,
      worst: this.worst,
    });
  }

  toggle(what) {
    if (!this.fit) return;
    this[what] = !this[what];
    find(`#fit-${what}`).setAttribute("aria-pressed", String(this[what]));
    if (what === "whole" && !this.fit.trouble) this.image.src = this.address();
    this.draw();
  }

  async take() {
    const taken = await trying(() => send("POST", `/api/results/${this.result.id}/rows/${this.fit.number}/take`));
    if (taken) location.assign(`/annotate?image=${taken.index}`);
  }

  pressed(event) {
    const does = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      p: () => this.toggle("points"),
      w: () => !find("#fit-whole").disabled && this.toggle("whole"),
      c: () => !find("#fit-take").disabled && this.take(),
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  }
}
