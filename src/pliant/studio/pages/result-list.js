// The list of results: kind, name, place, date and size; a tick draws a result's curves beside those of the open one.

import { get } from "./api.js";
import { element, find } from "./dom.js";
import { shownBytes, shownTime } from "./words.js";

const KINDS = { fits: "Bulk fit", track: "Track", evaluation: "Evaluation", experiment: "Experiment" };

export class ResultList {
  constructor({ open, compare }) {
    this.open = open;
    this.compare = compare;
    this.results = [];
    this.ticked = new Set();
    this.current = "";
    find("#shelf-again").addEventListener("click", () => this.look());
    if (matchMedia("(max-width: 820px)").matches) find("#shelf-box").open = false;
    // Whoever comes back from a terminal may have made a result there.
    addEventListener("focus", () => this.look().catch(() => {}));
  }

  async look() {
    const found = await get("/api/results");
    this.results = found.results;
    this.sentences = found.sentences;
    this.show();
  }

  get opened() {
    return this.results.filter((one) => one.kind !== "unknown");
  }

  named(id) {
    return this.results.find((one) => one.id === id);
  }

  mark(id) {
    this.current = id;
    this.show();
  }

  show() {
    const good = this.opened;
    const others = this.results.filter((one) => one.kind === "unknown");
    find("#shelf-count").textContent = good.length ? `(${good.length})` : "";
    find("#shelf-about").hidden = good.length < 2;
    find("#shelf").replaceChildren(...good.map((one) => this.line(one)));
    find("#shelf-sentences").replaceChildren(...(this.sentences ?? []).map((text) => element("p", {}, text)));
    const box = find("#shelf-others");
    box.hidden = !others.length;
    find("summary", box).textContent = others.length === 1 ? "1 other file" : `${others.length} other files`;
    find("ul", box).replaceChildren(...others.map((one) => element("li", {}, one.sentence)));
  }

  line(one) {
    const facts = [
      one.rows === null ? null : one.rows === 1 ? "1 row" : `${one.rows.toLocaleString("en")} rows`,
      shownBytes(one.bytes),
      shownTime(one.time),
    ];
    const tick = element("input", {
      type: "checkbox",
      checked: this.ticked.has(one.id) || one.id === this.current,
      disabled: one.id === this.current,
      "aria-label": `Draw the curves of ${one.name}, ${one.place}`,
      title: "Also draw its curves",
      onchange: (event) => this.tick(one.id, event.target.checked),
    });
    const button = element(
      "button",
      { type: "button", class: "quiet result", "aria-current": one.id === this.current ? "true" : null, onclick: () => this.open(one.id) },
      element("span", { class: "result-name" }, one.name),
      element("span", { class: `kind kind-${one.kind}` }, one.whole ? KINDS[one.kind] : `${KINDS[one.kind]}, running`),
      element("span", { class: "result-facts" }, one.place),
      element("span", { class: "result-facts" }, facts.filter(Boolean).join(" · ")),
    );
    return element("li", {}, tick, button);
  }

  tick(id, on) {
    if (on) this.ticked.add(id);
    else this.ticked.delete(id);
    this.compare();
  }
}
