// Two annotations of the same images: for each landmark, as an analysis of variance, and side by side.

import { get, send } from "./api.js";
import { boxAround, drawPoints, picture } from "./check-drawing.js";
import { element, find, latest } from "./dom.js";
import { trying } from "./shell.js";

const page = { names: [], found: null, row: null, both: null };

const LOUD = 3;
const SURE = 0.01;

const fixed = (value, digits = 1) => (value === null ? "" : value.toFixed(digits));
const percent = (value) => (value === null ? "" : `${(100 * value).toFixed(1)} %`);

function chance(value) {
  if (value === null) return "";
  return value < 0.001 ? "< 0.001" : value.toFixed(3);
}

const cells = (kind, texts) => texts.map((text, k) => element(kind, { class: k ? "number" : undefined }, text));

function showLandmarks(landmarks) {
  const head = ["Landmark", "Mean, px", "95 % below, px", "Bias x, px", "Bias y, px", "By chance"];
  find("#by-landmark").replaceChildren(
    element("thead", {}, element("tr", {}, cells("th", head))),
    element(
      "tbody",
      {},
      landmarks.map((one) => {
        const sure = one.bias_chance !== null && one.bias_chance < SURE / landmarks.length;
        const texts = [one.name, fixed(one.mean), fixed(one.most), fixed(one.bias[0]), fixed(one.bias[1])];
        const last = element("td", { class: sure ? "number sure" : "number" }, chance(one.bias_chance));
        return element("tr", {}, cells("td", texts), last);
      }),
    ),
  );
}

function showVariance(variance) {
  find("#variance").textContent = variance?.sentence ?? "Fewer than three images are complete in both: there is no analysis of variance.";
  const what = { objects: "Objects", annotators: "Annotators, the same everywhere", rest: "Rest" };
  const rows = variance?.rows ?? [];
  find("#table").replaceChildren(
    element("thead", {}, element("tr", {}, cells("th", ["Source", "Sum of squares", "Degrees of freedom", "Mean square", "F", "By chance"]))),
    element(
      "tbody",
      {},
      rows.map((row) => {
        const numbers = [row.squares.toExponential(3), String(row.freedom), row.mean_square.toExponential(3)];
        return element("tr", {}, cells("td", [what[row.source] ?? row.source, ...numbers, fixed(row.ratio, 2), chance(row.chance)]));
      }),
    ),
  );
}

function showImages() {
  find("#by-image").replaceChildren(
    ...page.found.images.map((one) =>
      element(
        "li",
        {},
        element(
          "button",
          { type: "button", "aria-current": one.row === page.row ? "true" : undefined, onclick: () => choose(one.row) },
          element("span", { class: "state" }, percent(one.share)),
          element("span", { class: "name" }, one.name),
        ),
      ),
    ),
  );
  find('[aria-current="true"]', find("#by-image"))?.scrollIntoView({ block: "nearest" });
}

async function show(found) {
  page.found = found;
  find("#comparison").hidden = false;
  const alone = [
    found.only_first ? `${found.only_first} are annotated only here` : "",
    found.only_second ? `${found.only_second} only in the other` : "",
  ].filter(Boolean);
  find("#compared").textContent = `${found.compared} images compared with ${found.name}${alone.length ? `; ${alone.join(", ")}` : ""}. Distances are in pixels; shares are of the object's size.`;
  showLandmarks(found.landmarks);
  showVariance(found.variance);
  await choose(found.images[0].row);
}

const choose = latest(async (row) => {
  page.row = row;
  showImages();
  await trying(async () => {
    page.both = await get(`/api/agreement/${row}`);
    await showBoth();
  });
});

async function showBoth() {
  const { index, name, width, first, second, distances } = page.both;
  find("#both-name").textContent = name;
  find("#both-open").href = `/annotate?image=${index}`;
  const order = distances.map((_, k) => k).filter((k) => distances[k] !== null);
  order.sort((a, b) => distances[b] - distances[a]);
  const marked = order.slice(0, LOUD);
  const worst = marked.map((k) => `${page.names[k]}: ${fixed(distances[k])} px`).join(", ");
  find("#both-worst").textContent = marked.length ? `Largest differences: ${worst}.` : "";
  const image = await picture(index);
  if (page.both.name !== name) return;
  const common = { image, width, box: boxAround(first, second), marked, names: page.names };
  drawPoints(find("#first"), { ...common, points: first });
  drawPoints(find("#second"), { ...common, points: second, from: first, good: true });
  find("#first").setAttribute("aria-label", `${name} with the points of this annotation. ${worst}`);
  find("#second").setAttribute("aria-label", `${name} with the points of the other annotation.`);
}

function step(by) {
  if (!page.found) return;
  const at = page.found.images.findIndex((one) => one.row === page.row);
  const to = page.found.images[Math.min(Math.max(at + by, 0), page.found.images.length - 1)];
  choose(to.row);
}

export function startAnnotators(names) {
  page.names = names;
  find("#compare").addEventListener("submit", (event) => {
    event.preventDefault();
    trying(async () => show(await send("POST", "/api/agreement", { path: find("#place").value })));
  });
  find("#upload").addEventListener("change", (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (file) trying(async () => show(await send("POST", `/api/agreement/upload?name=${encodeURIComponent(file.name)}`, file)));
  });
  find("#both-previous").addEventListener("click", () => step(-1));
  find("#both-next").addEventListener("click", () => step(1));
  addEventListener("resize", () => page.both && !find("#annotators").hidden && showBoth());
  trying(async () => {
    const places = await get("/api/agreement/places");
    find("#places").replaceChildren(...places.map((place) => element("option", { value: place })));
    const known = await get("/api/agreement");
    if (known) await show(known);
  });
  return { step, open: () => page.both && location.assign(find("#both-open").href) };
}
