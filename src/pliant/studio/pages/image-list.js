// The list of images, of any length: only the rows that can be seen are there, and are filled as parts of the list
// arrive.

import { get } from "./api.js";
import { element } from "./dom.js";

const ROW = 28;
const PART = 200;
const PARTS_KEPT = 40;
const REST = 40;
const TAIL = 10;

const WORDS = { untouched: "not started", begun: "begun", finished: "finished" };

export class ImageList {
  constructor(scroller, { open, failed }) {
    this.scroller = scroller;
    this.open = open;
    this.failed = failed;
    this.show = "all";
    this.total = 0;
    this.parts = new Map();
    this.asked = new Set();
    this.current = null;
    this.focused = 0;
    this.rows = [];
    this.spacer = element("div", { role: "presentation", class: "spacer" });
    scroller.append(this.spacer);
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    scroller.addEventListener("keydown", (event) => this.pressed(event));
    scroller.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => this.draw()).observe(scroller);
  }

  async setShow(show) {
    this.show = show;
    this.parts.clear();
    this.scroller.scrollTop = 0;
    this.focused = 0;
    await this.ask(0);
  }

  // Asks again for what is in sight; the rest is asked for when it comes into sight.
  refresh() {
    clearTimeout(this.refreshing);
    this.refreshing = setTimeout(() => {
      const { first, last } = this.sight();
      const inSight = new Set([Math.floor(first / PART), Math.floor(last / PART)]);
      for (const part of [...this.parts.keys()]) if (!inSight.has(part)) this.parts.delete(part);
      inSight.forEach((part) => this.ask(part, true));
    }, 150);
  }

  // Shows which image is open, and brings it into sight.
  setCurrent(index) {
    this.current = index;
    const position = this.positionOf(index);
    if (position !== null) {
      this.focused = position;
      this.reveal(position);
    }
    this.draw();
  }

  // Shows the state of an image; true if it was another.
  setState(index, state) {
    const entry = [...this.parts.values()].flat().find((one) => one.index === index);
    if (!entry || entry.state === state) return false;
    entry.state = state;
    if (this.show === "all") this.draw();
    else this.refresh();
    return true;
  }

  positionOf(index) {
    if (this.show === "all") return index;
    for (const [part, images] of this.parts) {
      const k = images.findIndex((one) => one.index === index);
      if (k >= 0) return part * PART + k;
    }
    return null;
  }

  // The image beside the open one in the list as it is shown; null at its ends.
  neighbour(step) {
    const position = this.positionOf(this.current);
    const wanted = position === null ? 0 : position + step;
    if (wanted < 0 || wanted >= this.total) return null;
    return this.show === "all" ? wanted : (this.entry(wanted)?.index ?? null);
  }

  entry(position) {
    return this.parts.get(Math.floor(position / PART))?.[position % PART];
  }

  sight() {
    const first = Math.floor(this.scroller.scrollTop / ROW);
    const count = Math.ceil(this.scroller.clientHeight / ROW) + 1;
    return { first, last: Math.max(Math.min(first + count, this.total) - 1, 0) };
  }

  async ask(part, again = false) {
    if (!again && (this.parts.has(part) || this.asked.has(part))) return;
    const show = this.show;
    this.asked.add(part);
    try {
      const { total, images } = await get(`/api/images?first=${part * PART}&count=${PART}&show=${show}`);
      if (show !== this.show) return;
      this.total = total;
      this.parts.delete(part);
      this.parts.set(part, images);
      while (this.parts.size > PARTS_KEPT) this.parts.delete(this.parts.keys().next().value);
      this.draw();
    } catch (error) {
      this.failed(error);
    } finally {
      this.asked.delete(part);
    }
  }

  draw() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.drawNow();
    });
  }

  drawNow() {
    this.spacer.style.height = `${this.total * ROW}px`;
    const { first, last } = this.sight();
    const count = this.total ? last - first + 1 : 0;
    while (this.rows.length < count) this.rows.push(this.newRow());
    // A row keeps its place in the page while it is in sight, so that scrolling by one row changes one row.
    const free = this.rows.length;
    this.rows.forEach((row) => (row.node.hidden = true));
    let unknown = false;
    for (let position = first; position < first + count; position++) {
      const row = this.rows[position % free];
      row.node.hidden = false;
      unknown = this.fill(row, position) || unknown;
    }
    const focused = this.rows.find((row) => !row.node.hidden && row.position === this.focused);
    if (focused) this.scroller.setAttribute("aria-activedescendant", focused.node.id);
    else this.scroller.removeAttribute("aria-activedescendant");
    if (unknown) this.askSoon();
  }

  // Parts that are only scrolled past are not asked for.
  askSoon() {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => {
      const { first, last } = this.sight();
      this.ask(Math.floor(first / PART));
      this.ask(Math.floor(last / PART));
    }, REST);
  }

  newRow() {
    const dot = element("span", { class: "dot" });
    const number = element("span", { class: "number" });
    const [head, tail] = [element("span", { class: "head" }), element("span")];
    const name = element("span", { class: "name" }, head, tail);
    const word = element("span", { class: "visually-hidden" });
    const node = element("div", { role: "option", class: "list-row", id: `image-row-${this.rows.length}` }, dot, number, name, word);
    this.spacer.append(node);
    return { node, dot, number, head, tail, word, position: -1 };
  }

  // Fills a row; true if its image is not known yet.
  fill(row, position) {
    const entry = this.entry(position);
    row.position = position;
    row.node.style.transform = `translateY(${position * ROW}px)`;
    row.node.setAttribute("aria-posinset", position + 1);
    row.node.setAttribute("aria-setsize", this.total);
    row.node.setAttribute("aria-selected", entry ? entry.index === this.current : this.show === "all" && position === this.current);
    row.node.classList.toggle("focused", position === this.focused);
    row.dot.className = `dot ${entry?.state ?? "unknown"}`;
    row.number.textContent = (entry ? entry.index : position) + 1;
    // Names differ at their ends more often than at their beginnings: the middle is what may be left out.
    const name = entry?.name ?? "…";
    row.head.textContent = name.slice(0, -TAIL);
    row.tail.textContent = name.slice(-TAIL);
    row.node.title = entry?.name ?? "";
    row.word.textContent = entry ? `, ${WORDS[entry.state]}` : "";
    return !entry;
  }

  reveal(position) {
    const { scroller } = this;
    const top = position * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = Math.max(top - ROW, 0);
    else if (top + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + 2 * ROW - scroller.clientHeight;
  }

  clicked(event) {
    const node = event.target.closest("[role=option]");
    const row = this.rows.find((one) => one.node === node);
    if (row) this.choose(row.position);
  }

  choose(position) {
    this.focused = position;
    const entry = this.entry(position);
    if (entry) this.open(entry.index);
    else if (this.show === "all") this.open(position);
  }

  pressed(event) {
    const page = Math.max(Math.floor(this.scroller.clientHeight / ROW) - 1, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    if (event.key in steps) {
      this.focused = Math.min(Math.max(this.focused + steps[event.key], 0), Math.max(this.total - 1, 0));
      this.reveal(this.focused);
      this.draw();
    } else if (event.key === "Enter" || event.key === " ") {
      this.choose(this.focused);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
