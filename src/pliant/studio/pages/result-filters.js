// Which rows are shown, and in which order; the gallery and the table share it.

import { element, find } from "./dom.js";
import { shownTitle } from "./words.js";

const WAIT = 250;

const USUAL = { sort: "", descending: false, status: "", label: "", event: "", name: "", measure: "", above: "", below: "" };

export class Filters {
  constructor(changed) {
    this.form = find("#filters");
    this.changed = changed;
    this.values = { ...USUAL };
    this.form.addEventListener("submit", (event) => event.preventDefault());
    if (matchMedia("(min-width: 821px)").matches) find("#filters-box").open = true;
  }

  // Begins with what says most: the worst fits, or those that are trusted least.
  begin(result) {
    this.result = result;
    const measure = ["error", "confidence", "mismatch"].find((name) => result.measures.includes(name)) ?? "";
    const worst = { error: true, confidence: false, mismatch: true };
    this.values = { ...USUAL, measure };
    if (measure && result.kind !== "track") Object.assign(this.values, { sort: measure, descending: worst[measure] });
    this.build();
  }

  // What the server is asked for.
  get query() {
    const { above, below, measure, ...rest } = this.values;
    const bounds = above === "" && below === "" ? {} : { measure, ...(above === "" ? {} : { above }), ...(below === "" ? {} : { below }) };
    return Object.fromEntries(Object.entries({ ...rest, ...bounds }).filter(([, value]) => value !== "" && value !== false));
  }

  sortBy(column) {
    const descending = this.values.sort === column ? !this.values.descending : false;
    this.set({ sort: column, descending });
    this.build();
  }

  set(values) {
    Object.assign(this.values, values);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.changed(), "name" in values || "above" in values || "below" in values ? WAIT : 0);
    this.tell();
  }

  build() {
    const { result, values } = this;
    const sorts = result.columns.map((column) => column.name);
    const fields = [
      this.select("Sort by", "sort", [["", "the order of the file"], ...sorts.map((name) => [name, shownTitle(name)])]),
      element(
        "select",
        { "aria-label": "Direction", onchange: (event) => this.set({ descending: event.target.value === "down" }) },
        element("option", { value: "up", selected: !values.descending }, "smallest first"),
        element("option", { value: "down", selected: values.descending }, "largest first"),
      ),
    ];
    const choices = { status: "status", label: result.label, event: "event" };
    for (const [key, column] of Object.entries(choices)) {
      const some = result.choices[column] ?? [];
      if (some.length < 2) continue;
      fields.push(
        this.select(shownTitle(column), key, [["", "all"], ...some.map(({ value, count }) => [value, `${value || "none"} (${count.toLocaleString("en")})`])]),
      );
    }
    if (result.measures.length)
      fields.push(
        element(
          "span",
          { class: "row bounds" },
          this.select("Only", "measure", result.measures.map((name) => [name, shownTitle(name)])),
          this.input("above", "number", "above"),
          this.input("below", "number", "below"),
        ),
      );
    fields.push(this.input("Name contains", "search", "name"));
    this.form.replaceChildren(...fields);
    this.tell();
  }

  select(title, key, options) {
    return element(
      "label",
      {},
      title,
      element(
        "select",
        { name: key, onchange: (event) => this.set({ [key]: event.target.value }) },
        options.map(([value, text]) => element("option", { value, selected: value === this.values[key] }, text)),
      ),
    );
  }

  input(title, type, key) {
    return element(
      "label",
      {},
      title,
      element("input", { type, step: "any", class: type === "number" ? "narrow" : null, value: String(this.values[key]), name: key, oninput: (event) => this.set({ [key]: event.target.value.trim() }) }),
    );
  }

  // In a few words, for when the form is folded away.
  tell() {
    const { sort, descending, status, label, event, name, measure, above, below } = this.values;
    const told = [
      sort ? `by ${shownTitle(sort)}, ${descending ? "largest" : "smallest"} first` : "",
      status, label, event,
      above === "" ? "" : `${shownTitle(measure)} > ${above}`,
      below === "" ? "" : `${shownTitle(measure)} < ${below}`,
      name && `“${name}”`,
    ];
    find("#filters-said").textContent = told.filter(Boolean).join(" · ");
  }
}
