// A table of any length: the rows in view are there, and a click on a column's title sorts on the server.

import { element } from "./dom.js";
import { ScrollWindow } from "./scroll-window.js";
import { shownCell, shownTitle } from "./words.js";

const ROW = 30;
const HEAD = 34;
const WIDTHS = { image: 230, reason: 320, label: 190, algorithm: 190, status: 110, event: 100 };

export class LongTable {
  // `sort(column)` is asked for by a click on its title, `open(place)` by one on a row.
  constructor(container, { sort, open }) {
    this.sort = sort;
    this.open = open;
    this.head = element("tr");
    this.body = element("tbody");
    this.table = element("table", { class: "long" }, element("thead", {}, this.head), this.body);
    this.sheet = element("div", { class: "long-sheet" }, this.table);
    this.spacer = element("div", { class: "long-spacer" }, this.sheet);
    this.scroller = element("div", { class: "long-scroller", role: "region", "aria-label": "Rows of the table", tabIndex: 0 }, this.spacer);
    container.append(this.scroller);
    this.view = new ScrollWindow(this.scroller, this.spacer, () => this.render());
    this.scroller.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.render()).observe(this.scroller);
  }

  show(rows, columns, sorted) {
    this.rows = rows;
    this.columns = columns;
    this.scroller.scrollTop = 0;
    let wide = 0;
    this.head.replaceChildren(
      ...columns.map((column) => {
        const up = sorted.sort === column.name ? (sorted.descending ? "descending" : "ascending") : "none";
        const arrow = { none: "", ascending: " ▲", descending: " ▼" }[up];
        const unit = column.unit ? ` (${column.unit})` : "";
        const button = element("button", { type: "button", class: "quiet", title: column.meaning || null, onclick: () => this.sort(column.name) }, `${shownTitle(column.name)}${unit}${arrow}`);
        const cell = element("th", { scope: "col", "aria-sort": up, class: column.numeric ? "number" : null }, button);
        const width = WIDTHS[column.name] ?? Math.max(92, 30 + 9 * (column.name.length + unit.length));
        cell.style.width = `${width}px`;
        wide += width;
        return cell;
      }),
    );
    this.spacer.style.width = `max(100%, ${wide}px)`;
    this.body.replaceChildren();
    this.arrange();
  }

  arrange() {
    if (!this.rows) return;
    this.table.setAttribute("aria-rowcount", String((this.rows.total ?? 0) + 1));
    this.view.resize(this.rows.total ?? 0, ROW, HEAD);
    this.render();
  }

  render() {
    if (!this.rows || !this.scroller.clientHeight) return;
    this.sheet.style.height = `${this.scroller.clientHeight}px`;
    const [first, last] = this.view.range(0);
    const shift = this.view.top - first * ROW;
    this.first = first;
    while (this.body.children.length < last - first) this.body.append(this.make());
    while (this.body.children.length > Math.max(0, last - first)) this.body.lastChild.remove();
    this.body.style.transform = `translateY(${-shift}px)`;
    for (let k = 0; k < last - first; k += 1) this.fill(this.body.children[k], first + k);
  }

  make() {
    const row = element("tr");
    for (const [k, column] of this.columns.entries()) {
      const cell = element(k ? "td" : "th", { class: column.numeric ? "number" : null });
      if (!k) {
        cell.scope = "row";
        cell.append(element("button", { type: "button", class: "quiet link" }));
      }
      row.append(cell);
    }
    row.addEventListener("click", () => this.open(Number(row.dataset.place)));
    return row;
  }

  fill(row, place) {
    row.dataset.place = place;
    row.setAttribute("aria-rowindex", String(place + 2));
    row.classList.toggle("odd", place % 2 === 1);
    const found = this.rows.at(place);
    for (const [k, cell] of [...row.children].entries()) {
      const text = found ? shownCell(found.cells[k]) : k ? "" : "…";
      const holder = k ? cell : cell.firstChild;
      if (holder.textContent !== text) {
        holder.textContent = text;
        cell.title = text.length > 12 ? text : "";
      }
    }
  }

  // Up and down go from row to row while one has the focus.
  pressed(event) {
    const row = event.target.closest("tbody tr");
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!row || !step) return;
    event.preventDefault();
    this.focus(Math.max(0, Math.min((this.rows.total ?? 1) - 1, Number(row.dataset.place) + step)));
  }

  // Brings the keyboard to the row at a place.
  focus(place) {
    this.view.reveal(place);
    this.render();
    this.body.children[place - this.first]?.querySelector("button").focus({ preventScroll: true });
  }
}
