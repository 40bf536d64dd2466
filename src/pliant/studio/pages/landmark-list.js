// The landmarks of the image that is open, as a list: what the canvas shows, for eyes, keyboards and screen readers.

import { element } from "./dom.js";
import { STATES, UNSEEN, VISIBLE } from "./marks.js";

const CLASSES = { [-1]: "unseen", 0: "absent", 1: "hidden-mark", 2: "visible" };

export class LandmarkList {
  constructor(list, { choose }) {
    this.list = list;
    this.choose = choose;
    this.rows = [];
    list.addEventListener("click", (event) => this.clicked(event));
    list.addEventListener("keydown", (event) => this.pressed(event));
  }

  setNames(names) {
    // Beside names that are numbers, another number would only confuse.
    const numbered = names.some((name) => !/^\d+$/.test(name));
    this.rows = names.map((name, landmark) => {
      const dot = element("span", { class: "dot unseen" });
      const words = element("span", { class: "words" });
      const number = element("span", { class: "number" }, String(landmark + 1));
      const node = element("li", { role: "option", id: `landmark-${landmark}`, class: "list-row", "aria-selected": "false" }, dot, numbered ? number : null, element("span", { class: "name", title: name }, name), words);
      return { node, dot, words, name, shown: "" };
    });
    this.list.replaceChildren(...this.rows.map(({ node }) => node));
  }

  // Only rows that differ from what they show are touched: this runs in every frame of a drag.
  draw({ marks, selection, active, highlighted, certainty }) {
    this.active = active;
    const size = marks?.size ?? 1;
    this.rows.forEach((row, landmark) => {
      const [kind, words] = marks ? described(marks, landmark) : ["unseen", ""];
      const chosen = selection.has(landmark);
      const suspicious = highlighted.has(landmark);
      const shown = [kind, words, chosen, landmark === active, suspicious].join("|");
      if (shown === row.shown) return;
      row.shown = shown;
      row.dot.className = `dot ${kind}`;
      row.dot.style.borderColor = kind === "draft" ? certainty(marks.deviation(landmark), size) : "";
      row.words.textContent = suspicious ? "suspicious" : words;
      const aloud = [row.name, kind === "draft" ? "proposed" : "", row.words.textContent || STATES[UNSEEN]];
      row.node.setAttribute("aria-label", aloud.filter(Boolean).join(", "));
      row.node.setAttribute("aria-selected", chosen);
      row.node.classList.toggle("active", landmark === active);
      row.node.classList.toggle("suspicious", suspicious);
    });
    this.follow(active);
  }

  // Keeps the active landmark in sight, once it is another one.
  follow(active) {
    if (active === this.followed) return;
    this.followed = active;
    if (active === null || !this.rows[active]) {
      this.list.removeAttribute("aria-activedescendant");
      return;
    }
    this.list.setAttribute("aria-activedescendant", `landmark-${active}`);
    const { node } = this.rows[active];
    const [top, bottom] = [node.offsetTop, node.offsetTop + node.offsetHeight];
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (bottom > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = bottom - this.list.clientHeight;
  }

  clicked(event) {
    const landmark = this.rows.findIndex(({ node }) => node === event.target.closest("[role=option]"));
    if (landmark >= 0) this.choose(landmark, event.shiftKey || event.ctrlKey || event.metaKey);
  }

  pressed(event) {
    const last = this.rows.length - 1;
    const from = this.active ?? -1;
    const wanted = { ArrowDown: Math.min(from + 1, last), ArrowUp: Math.max(from - 1, 0), Home: 0, End: last }[event.key];
    if (wanted === undefined || event.ctrlKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(wanted, event.shiftKey);
  }
}

// The look of a landmark, and words for it.
function described(marks, landmark) {
  const state = marks.states[landmark];
  if (marks.isDraft(landmark)) {
    const deviation = marks.deviation(landmark);
    return ["draft", deviation === null ? "proposed" : `± ${deviation.toFixed(1)} px`];
  }
  if (marks.moving.has(landmark) && state === UNSEEN) return [CLASSES[VISIBLE], "moving"];
  if (state === UNSEEN) return ["unseen", ""];
  return [CLASSES[state], STATES[state]];
}
