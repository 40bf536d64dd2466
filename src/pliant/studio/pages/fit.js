// The page Fit: choose an image, a start and algorithms; fits run in the background and are played step by step.

import { algorithmChoice } from "./algorithm-choice.js";
import { get, on, send } from "./api.js";
import { makeBoxStage } from "./box-stage.js";
import { find, latest } from "./dom.js";
import { download } from "./downloading.js";
import { fitCard } from "./fit-card.js";
import { linesOf, percentErrors, relativeCosts } from "./fit-steps.js";
import { makeIterationPlayer } from "./iteration-player.js";
import { lineChart } from "./line-chart.js";
import { settingsForm } from "./settings-form.js";
import { addShortcuts, say, trying } from "./shell.js";

const LARGEST_UPLOAD = 64 * 2 ** 20;
const WIDEST = 1600;
const POLLED = 700;
const SIDES = ["left", "top", "right", "bottom"];
const LOOKS = ["points", "mesh", "start", "truth", "ellipses"];

const page = find("#fit");
let chosen = null;
let choice = null;
let form = null;
let formats = [];
let run = null;
let cards = [];
let charts = [];
let of = "image";

const stage = makeBoxStage(find("#picture"), (box) => {
  SIDES.forEach((side, k) => (find(`#${side}`).value = box ? String(box[k]) : ""));
  if (box) find("#in-box").checked = true;
  else find("input[value=search]").checked = true;
});
const player = makeIterationPlayer({ button: find("#play"), slider: find("#step"), changed: showStep });

// The image: dropped, chosen, or one of the collection.

async function takeFile(file) {
  if (!file) return;
  if (file.size > LARGEST_UPLOAD) throw new Error(`${file.name}: this is larger than the limit of 64 MB.`);
  find("#name").textContent = `Sending ${file.name} …`;
  try {
    const { id, name, width, height } = await send("POST", `/api/uploads?name=${encodeURIComponent(file.name)}`, file);
    await show({ source: { upload: id }, name, width, height, picture: `/api/uploads/${id}/picture?width=${WIDEST}` });
  } catch (error) {
    find("#name").textContent = chosen ? told(chosen) : "";
    throw error;
  }
}

async function takeNumber(index) {
  const { name, width, height, trouble } = await get(`/api/images/${index}`);
  if (trouble) throw new Error(trouble);
  find("#number").value = String(index + 1);
  await show({ source: { image: index }, name, width, height, picture: `/api/images/${index}/picture?width=${WIDEST}` });
}

async function show(image) {
  const picture = new Image();
  picture.src = image.picture;
  await picture.decode().catch(() => {
    throw new Error(`${image.name}: the picture could not be loaded.`);
  });
  chosen = image;
  find("#nothing").hidden = true;
  find("#image-view").classList.add("ready");
  find("#picture").setAttribute("aria-label", `The image ${image.name}`);
  find("#name").textContent = told(image);
  stage.show(picture, image.width, image.height);
  see("image");
}

const told = ({ name, width, height }) => `${name}, ${width} × ${height} pixels`;

function typedBox() {
  const box = SIDES.map((side) => find(`#${side}`).valueAsNumber);
  return box.every(Number.isFinite) ? box : null;
}

// Running

async function start() {
  if (!chosen) throw new Error("There is no image yet: drop one, or open one from the collection by its number.");
  const inBox = find("#in-box").checked;
  if (inBox && !typedBox()) throw new Error("There is no box yet: drag it on the image, type its four numbers, or choose to search the image.");
  const begun = await send("POST", "/api/fits", {
    ...chosen.source,
    box: inBox ? typedBox() : null,
    algorithms: choice.names(),
    settings: form.values(),
  });
  cards = [];
  find("#cards").replaceChildren();
  showRun(begun);
  poll(begun.id);
}

const refresh = latest(async (id) => {
  const fresh = await get(`/api/fits/${id}`);
  if (run?.id === id) showRun(fresh);
});

// Events tell of progress at once; asking now and then is for a connection that was lost.
async function poll(id) {
  while (run?.id === id && run.running) {
    await new Promise((done) => setTimeout(done, POLLED));
    await trying(() => refresh(id));
  }
}

function showRun(fresh) {
  const more = fresh.fits.length > cards.length;
  const ended = run?.id === fresh.id && run.running && !fresh.running;
  run = fresh;
  find("#run").disabled = run.running;
  find("#stop").hidden = !run.running;
  find("#progress").textContent = run.running ? `Fitting … ${algorithmsDone()} of ${run.wanted}` : "";
  if (more) showFits();
  if (ended && run.sentence.startsWith("stopped")) say("The fits were stopped. Finished fits are kept.");
  // Work that failed altogether is told by the shell.
  else if (ended && run.fits.length && run.fits.every(({ points }) => !points)) say(run.sentence, "bad");
}

const algorithmsDone = () => new Set(run.fits.map(({ algorithm }) => algorithm)).size;

// What came of it

function showFits() {
  const first = !cards.length;
  const names = [...new Set(run.fits.map(({ algorithm }) => algorithm))];
  const number = (fit) => names.indexOf(fit.algorithm) % 4;
  cards = run.fits.map((fit) => fitCard(run, fit, number(fit), formats));
  find("#cards").replaceChildren(...cards.map(({ node }) => node));
  find("#cards").classList.toggle("one", cards.length === 1 && run.wanted === 1);
  find("#truth-label").hidden = !run.truth;
  find("#ellipses-label").hidden = !run.fits.some(({ covariances }) => covariances);
  find("#table").hidden = !run.fits.some(({ points }) => points);
  charts = [];
  chart("#costs", "Cost over iterations", relativeCosts, number);
  find("#error-figure").hidden = !run.fits.some(({ levels }) => levels.some(({ errors }) => errors));
  if (!find("#error-figure").hidden) chart("#errors", "Error over iterations", percentErrors, number);
  find("#see-fits").disabled = false;
  find("#see-fits").textContent = `Fits (${run.fits.length})`;
  if (first) {
    see("fits");
    // On a phone, fits are below what was asked for.
    if (matchMedia("(max-width: 900px)").matches) find(".outcome").scrollIntoView();
  }
  showLook();
  player.setLast(Math.max(0, ...cards.map(({ steps }) => steps.length - 1)));
}

function chart(place, what, valuesOf, number) {
  const made = lineChart(run.fits.map((fit) => ({ number: number(fit), lines: linesOf(fit, valuesOf) })), what);
  find(place).replaceChildren(made.chart);
  charts.push(made);
}

function showStep(step) {
  for (const card of cards) card.setStep(step);
  for (const one of charts) one.setCursor(step);
  const longest = cards.reduce((best, card) => (card.steps.length > (best?.steps.length ?? 0) ? card : best), null);
  const name = longest?.steps[Math.min(step, longest.steps.length - 1)]?.name ?? "";
  find("#step-name").textContent = name && name.charAt(0).toUpperCase() + name.slice(1);
  find("#step").setAttribute("aria-valuetext", name);
}

function showLook() {
  const look = { of, ...Object.fromEntries(LOOKS.map((name) => [name, find(`#draw-${name}`).checked])) };
  for (const card of cards) card.show(look);
  for (const name of ["image", "reconstruction", "residual"]) find(`#of-${name}`).setAttribute("aria-pressed", String(of === name));
}

function see(what) {
  find("#image-view").hidden = what !== "image";
  find("#fits-view").hidden = what !== "fits";
  find("#see-image").setAttribute("aria-pressed", String(what === "image"));
  find("#see-fits").setAttribute("aria-pressed", String(what === "fits"));
  if (what === "fits") showLook();
}

// Controls

find("#setup").addEventListener("submit", (event) => {
  event.preventDefault();
  trying(start);
});
find("#file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  // So that the same file can be chosen again.
  trying(() => takeFile(file)).finally(() => (event.target.value = ""));
});
find("#open").addEventListener("click", () => openNumber());
find("#number").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  openNumber();
});
function openNumber() {
  const number = find("#number").valueAsNumber;
  trying(async () => {
    const last = Number(find("#number").max) || Infinity;
    if (!Number.isInteger(number) || number < 1 || number > last) throw new Error(`Images are numbered from 1 to ${last}.`);
    await takeNumber(number - 1);
  });
}
for (const side of SIDES) {
  find(`#${side}`).addEventListener("input", () => {
    find("#in-box").checked = true;
    stage.set(typedBox());
  });
}
for (const [event, dragged] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  addEventListener(event, (happened) => {
    happened.preventDefault();
    page.classList.toggle("dragged", dragged);
    if (event === "drop") trying(() => takeFile(happened.dataTransfer.files[0]));
  });
}
find("#stop").addEventListener("click", () => trying(() => send("DELETE", `/api/jobs/${run.job}`)));
find("#table").addEventListener("click", () => trying(() => download(`/api/fits/${run.id}/table`)));
for (const what of ["image", "fits"]) find(`#see-${what}`).addEventListener("click", () => see(what));
for (const name of LOOKS) find(`#draw-${name}`).addEventListener("change", showLook);
for (const name of ["image", "reconstruction", "residual"]) {
  find(`#of-${name}`).addEventListener("click", () => {
    of = name;
    showLook();
  });
}
addShortcuts([
  { keys: "Space", what: "play or pause the iterations", does: () => player.toggle() },
  { keys: "Ctrl+Enter", what: "fit", does: () => find("#setup").requestSubmit() },
  { keys: "I", what: "show the image", does: () => see("image") },
  { keys: "F", what: "show the fits", does: () => run?.fits.length && see("fits") },
]);
addEventListener("themechange", () => {
  stage.draw();
  showLook();
});
on("job", (job) => run?.job === job.id && trying(() => refresh(run.id)));

function showChanged() {
  const count = Object.keys(form.values()).length;
  find("#changed").textContent = count ? `${count} changed` : "";
}

async function setUp() {
  try {
    const known = await get("/api/fitting");
    formats = known.formats;
    choice = algorithmChoice(find("#algorithms"), find("#another"), known.algorithms, known.most);
    form = settingsForm(known.settings, showChanged);
    find("#settings").replaceChildren(...form.nodes);
    page.classList.remove("without");
    find("#nothing").textContent = "Drop an image, or open one from the collection by its number.";
  } catch (error) {
    page.classList.add("without");
    find("#nothing").textContent = sentence(error.message);
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

setUp();
on("trained", () => form || setUp());
trying(async () => {
  const { count } = await get("/api/project");
  find("#number").max = String(count);
  find("#count").textContent = `of ${count.toLocaleString("en")}`;
});
const asked = new URLSearchParams(location.search).get("image");
if (asked !== null) trying(() => takeNumber(Number(asked)));
