// The page Results: a list of what there is, and what is open: overview, gallery, table and settings.

import { get } from "./api.js";
import { element, find } from "./dom.js";
import { FitDialog } from "./fit-dialog.js";
import { Gallery } from "./gallery.js";
import { LongTable } from "./long-table.js";
import { Filters } from "./result-filters.js";
import { ResultList } from "./result-list.js";
import { Overview, plainTable } from "./result-overview.js";
import { Rows } from "./result-rows.js";
import { addShortcuts, say, trying } from "./shell.js";

const VIEWS = ["overview", "gallery", "table", "settings"];

let result = null;
let rows = null;
let view = "overview";
let asked = 0;

const list = new ResultList({ open: (id) => open(id), compare: () => trying(() => overview.compare(compared())) });
const filters = new Filters(() => showRows());
const overview = new Overview(find("#view-overview"));
const counted = element("p", { class: "counted quiet-text", role: "status" });
const looks = element("div", { class: "row" });
find("#filters-box").after(element("div", { class: "row looks", id: "looks" }, counted, looks));
const gallery = makeGallery(find("#view-gallery"));
const table = new LongTable(find("#view-table"), { sort: (column) => filters.sortBy(column), open: (place) => openFit(place) });
const dialog = new FitDialog({ closed: (place) => backTo(place) });

function makeGallery(container) {
  const made = new Gallery(container, { open: (place) => openFit(place) });
  const tick = (title, key) =>
    element("label", {}, element("input", { type: "checkbox", checked: made.options[key], onchange: (event) => made.set({ [key]: event.target.checked }) }), title);
  const sizes = element(
    "select",
    { onchange: (event) => made.resize(Number(event.target.value)) },
    [["110", "small"], ["160", "medium"], ["260", "large"]].map(([value, text]) => element("option", { value, selected: value === "160" }, text)),
  );
  looks.append(tick("Points", "points"), tick("Around the object", "around"), element("label", {}, "Size", sizes));
  return made;
}

const compared = () => [...list.ticked].filter((id) => id !== result?.id).map((id) => list.named(id)).filter(Boolean);

async function open(id) {
  asked += 1;
  const mine = asked;
  try {
    const found = await get(`/api/results/${id}`);
    if (mine !== asked) return;
    result = found;
  } catch (error) {
    if (mine === asked) showTrouble(id, error.message);
    return;
  }
  list.mark(id);
  if (matchMedia("(max-width: 820px)").matches) find("#shelf-box").open = false;
  find("#result-title").textContent = result.name;
  find("#result-sentences").replaceChildren(...result.sentences.map((text) => element("p", {}, text)));
  find("#result").hidden = false;
  filters.begin(result);
  showSettings();
  showView(result.count ? view : "overview");
  remember();
  await trying(() => overview.show(result, compared()));
}

function showTrouble(id, sentence) {
  result = null;
  list.mark(id);
  find("#result").hidden = true;
  find("#result-title").textContent = list.named(id)?.name ?? "Results";
  find("#result-sentences").replaceChildren(element("p", { class: "trouble", role: "alert" }, sentence));
}

function showView(name) {
  view = name;
  for (const one of VIEWS) {
    const tab = find(`#tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    find(`#view-${one}`).hidden = one !== name;
  }
  const listed = name === "gallery" || name === "table";
  find("#filters-box").hidden = !listed;
  find("#looks").hidden = !listed;
  looks.hidden = name !== "gallery";
  if (listed) showRows();
}

function showRows() {
  if (!result || (view !== "gallery" && view !== "table")) return;
  rows?.end();
  const shown = view === "gallery" ? gallery : table;
  const mine = new Rows(result.id, filters.query, {
    points: view === "gallery",
    onload: () => {
      if (mine !== rows) return;
      tellCount();
      if (mine.shown === mine.total) shown.render();
      else shown.arrange();
      mine.shown = mine.total;
    },
    onfail: (error) => say(error.message, "bad"),
  });
  // As many as before, until it is known: the page does not jump for every change of the order.
  if (rows?.id === mine.id) mine.total = rows.total;
  rows = mine;
  const names = result.columns.map((column) => column.name);
  if (view === "gallery") gallery.show(result.id, rows, names, { measure: filters.values.measure, label: severalLabels() });
  else table.show(rows, result.columns, filters.values);
  rows.begin();
}

// The column with the algorithm, if images come once for each of several.
const severalLabels = () => ((result.choices[result.label]?.length ?? 0) > 1 && !filters.values.label ? result.label : "");

function tellCount() {
  const all = result.count.toLocaleString("en");
  counted.textContent = rows.total === result.count ? `${all} rows` : rows.total ? `${rows.total.toLocaleString("en")} of ${all} rows` : `None of ${all} rows matches.`;
}

function showSettings() {
  const shown = result.settings.length
    ? plainTable(["setting", "value"], result.settings, [false, false])
    : element("p", {}, "The settings of this run were not stored.");
  find("#view-settings").replaceChildren(element("p", { class: "quiet-text" }, `In ${result.place}.`), shown);
}

const openFit = (place) => trying(() => dialog.open(result, rows, place));

// The keyboard goes on at the fit that was looked at last.
function backTo(place) {
  if (place === undefined || !rows) return;
  if (view === "gallery") gallery.activate(place);
  else if (view === "table") table.focus(place);
}

function remember() {
  const address = new URLSearchParams({ open: result.id, ...(view === "overview" ? {} : { view }) });
  history.replaceState(null, "", `?${address}`);
}

function choose(name, focus = false) {
  showView(name);
  if (result) remember();
  if (focus) find(`#tab-${name}`).focus();
}

for (const name of VIEWS) find(`#tab-${name}`).addEventListener("click", () => choose(name));
find(".tabs").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  choose(VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length], true);
});

addShortcuts([
  { keys: "O", what: "overview", does: () => result && choose("overview") },
  { keys: "G", what: "gallery", does: () => result && choose("gallery") },
  { keys: "T", what: "table", does: () => result && choose("table") },
  { keys: "Arrows", what: "move between images in the gallery" },
  { keys: "Enter", what: "show an image large" },
  { keys: "← →", what: "previous and next fit, in the large view" },
  { keys: "P W", what: "points, whole image, in the large view" },
  { keys: "C", what: "correct in Annotate, in the large view" },
]);

async function begin() {
  await trying(() => list.look());
  const address = new URLSearchParams(location.search);
  if (VIEWS.includes(address.get("view"))) view = address.get("view");
  const first = list.named(address.get("open")) ?? list.opened[0] ?? list.results[0];
  if (first) await open(first.id);
  else
    find("#result-sentences").replaceChildren(
      element("p", {}, "The open folder has no results yet."),
      element("p", { class: "quiet-text" }, "Make some with pliant fit, evaluate, track or experiment, then refresh; or start the studio with --results and their folder."),
    );
}

begin();
