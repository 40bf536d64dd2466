// A gallery of any size: only what is in view is there. Arrow keys move, Enter opens.

import { element } from "./dom.js";
import { ScrollWindow } from "./scroll-window.js";
import { drawFit, prepared } from "./thumbnail.js";
import { fileName, shownCell } from "./words.js";

const WAIT = 70; // Milliseconds that an image must be in view before it is asked for.
const CAPTION = 44;
const GAP = 10;
const FINE = ["converged", "iterations"]; // A fit that ended so ended well: its caption need not say it.

export class Gallery {
  // `open(place)` shows an image large.
  constructor(container, { open }) {
    this.open = open;
    this.list = element("div", { class: "gallery-list", role: "listbox", "aria-label": "Fits" });
    this.scroller = element("div", { class: "gallery" }, this.list);
    container.append(this.scroller);
    this.view = new ScrollWindow(this.scroller, this.list, () => this.render());
    this.items = new Map();
    this.spare = [];
    this.active = 0;
    this.size = 160;
    this.options = { points: true, around: true };
    this.list.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.arrange()).observe(this.scroller);
  }

  // Shows the rows of a result; `columns` are the names of their cells.
  show(id, rows, columns, { measure, label }) {
    this.id = id;
    this.rows = rows;
    this.columns = columns;
    this.measure = measure;
    this.label = label;
    this.active = 0;
    this.scroller.scrollTop = 0;
    for (const item of this.items.values()) this.put(item);
    this.items.clear();
    this.arrange();
  }

  arrange() {
    if (!this.rows || !this.scroller.clientWidth) return;
    const wide = this.scroller.clientWidth - GAP;
    this.columnsWide = Math.max(1, Math.floor(wide / (this.size + GAP)));
    this.width = Math.floor(wide / this.columnsWide) - GAP;
    this.view.resize(Math.ceil((this.rows.total ?? 0) / this.columnsWide), this.width + CAPTION + GAP);
    for (const item of this.items.values()) item.drawn = "";
    this.render();
  }

  resize(size) {
    this.size = size;
    this.arrange();
  }

  set(options) {
    Object.assign(this.options, options);
    for (const item of this.items.values()) item.drawn = "";
    this.render();
  }

  render() {
    if (!this.rows) return;
    const total = this.rows.total ?? 0;
    const [first, last] = this.view.range();
    const wanted = new Set();
    for (let place = first * this.columnsWide; place < Math.min(last * this.columnsWide, total); place += 1)
      wanted.add(place);
    // The one with the focus stays, so that the keyboard does not lose its place.
    if (this.active < total) wanted.add(this.active);
    for (const [place, item] of this.items) {
      if (wanted.has(place)) continue;
      this.items.delete(place);
      this.put(item);
    }
    for (const place of wanted) {
      const item = this.items.get(place) ?? this.take(place);
      this.fill(item, place, total);
    }
    this.later ??= setTimeout(() => {
      this.later = null;
      this.load();
    }, WAIT);
  }

  put(item) {
    item.image.removeAttribute("src");
    item.shown = item.drawn = "";
    item.box.hidden = true;
    item.box.removeAttribute("aria-posinset");
    this.spare.push(item);
  }

  take(place) {
    const item = this.spare.pop() ?? this.make();
    item.box.hidden = false;
    item.shown = item.drawn = item.asked = "";
    this.items.set(place, item);
    return item;
  }

  make() {
    const canvas = element("canvas", { class: "thumb" });
    const name = element("span", { class: "name" });
    const facts = element("span", { class: "facts" });
    const gone = element("span", { class: "gone", hidden: true }, "image not found");
    const box = element("div", { class: "item", role: "option", "aria-selected": "false" }, canvas, gone, name, facts);
    const item = { box, canvas, name, facts, gone, image: new Image(), row: null, asked: "", drawn: "" };
    item.image.onload = () => this.draw(item);
    item.image.onerror = () => {
      if (!item.image.getAttribute("src")) return;
      item.gone.hidden = false;
      this.draw(item);
    };
    box.addEventListener("click", () => {
      this.activate(item.place, false);
      this.open(item.place);
    });
    this.list.append(box);
    return item;
  }

  fill(item, place, total) {
    const column = place % this.columnsWide;
    const x = GAP + column * (this.width + GAP);
    const y = GAP + this.view.place(Math.floor(place / this.columnsWide));
    item.place = place;
    item.box.style.transform = `translate(${x}px, ${y}px)`;
    item.box.style.width = `${this.width}px`;
    item.box.style.height = `${this.width + CAPTION}px`;
    item.box.tabIndex = place === this.active ? 0 : -1;
    item.box.setAttribute("aria-selected", String(place === this.active));
    item.box.setAttribute("aria-posinset", String(place + 1));
    item.box.setAttribute("aria-setsize", String(total));
    const row = this.rows.at(place);
    const key = row ? String(row.number) : "";
    if (item.shown !== key || !row) {
      item.shown = key;
      item.drawn = item.asked = "";
      item.row = row;
      item.gone.hidden = true;
      item.image.removeAttribute("src");
      const [name, facts, bad] = row ? this.caption(row) : ["…", "", false];
      item.name.textContent = name;
      item.facts.textContent = facts;
      item.facts.classList.toggle("bad", bad);
      item.box.title = row ? shownCell(row.cells[this.columns.indexOf("image")]) : "";
    }
    const look = `${key} ${this.width} ${this.options.points} ${this.options.around}`;
    if (item.drawn !== look) {
      item.drawn = look;
      this.draw(item);
    }
  }

  caption(row) {
    const cell = (name) => row.cells[this.columns.indexOf(name)];
    const frame = cell("frame");
    const label = this.label ? ` · ${cell(this.label)}` : "";
    const name = `${frame === undefined ? fileName(String(cell("image"))) : `frame ${frame}`}${label}`;
    const value = this.measure ? cell(this.measure) : null;
    const ended = cell("event") ?? cell("status");
    const state = FINE.includes(ended) ? "" : ended;
    const facts = [value === null || value === undefined ? null : shownCell(value), state].filter(Boolean);
    return [name, facts.join(" · "), state === "failed" || state === "lost"];
  }

  load() {
    const width = Math.min(640, 80 * Math.ceil((this.width * Math.min(devicePixelRatio || 1, 2)) / 80));
    const [first, last] = this.view.range();
    for (const item of this.items.values()) {
      const row = Math.floor(item.place / this.columnsWide);
      if (!item.row || row < first || row >= last) continue;
      const around = this.options.around && item.row.box !== null;
      const address = `/api/results/${this.id}/picture?row=${item.row.number}&width=${width}${around ? "&around=true" : ""}`;
      if (item.asked === address) continue;
      item.asked = address;
      item.gone.hidden = true;
      item.image.src = address;
    }
  }

  draw(item) {
    const frame = { width: this.width, height: this.width };
    const context = prepared(item.canvas, frame.width, frame.height);
    const { image, row } = item;
    const ready = image.getAttribute("src") && image.complete && image.naturalWidth > 0;
    if (!row || (!ready && item.gone.hidden)) return;
    const whole = this.wholeBox(row, ready ? image : null);
    const around = item.asked.includes("around");
    const box = around ? row.box : whole;
    if (!box) return;
    drawFit(context, ready ? image : null, {
      points: row.points,
      box,
      frame,
      radius: Math.max(1.1, this.width / 130),
      showPoints: this.options.points,
    });
  }

  wholeBox(row, image) {
    const width = row.cells[this.columns.indexOf("width")] ?? image?.naturalWidth;
    const height = row.cells[this.columns.indexOf("height")] ?? image?.naturalHeight;
    return width && height ? [0, 0, width, height] : null;
  }

  // Makes one the item that the keyboard is at.
  activate(place, focus = true) {
    this.active = Math.max(0, Math.min(place, (this.rows.total ?? 1) - 1));
    this.view.reveal(Math.floor(this.active / this.columnsWide));
    this.render();
    if (focus) this.items.get(this.active)?.box.focus({ preventScroll: true });
  }

  pressed(event) {
    const page = this.columnsWide * Math.max(1, Math.floor(this.view.viewed / this.view.rowHeight));
    const steps = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.columnsWide,
      ArrowDown: this.columnsWide,
      PageUp: -page,
      PageDown: page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key === "Enter" || event.key === " ") this.open(this.active);
    else if (event.key in steps) {
      const next = this.active + steps[event.key];
      const total = this.rows.total ?? 1;
      this.activate(Math.max(0, Math.min(total - 1, next)));
    } else return;
    event.preventDefault();
  }
}
