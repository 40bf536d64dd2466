// The page Annotate: puts its parts together.

import { client, get, on } from "./api.js";
import { CurveTool } from "./curve-tool.js";
import { Desk } from "./desk.js";
import { element, find } from "./dom.js";
import { copyPrevious, flipDraft, removeDraft, startFromTemplate } from "./drafts.js";
import { certainty, drawOverlay, drawPicture, readColours } from "./drawing.js";
import { change, refit, select, setState, undo } from "./editing.js";
import { hint } from "./hint.js";
import { ImageList } from "./image-list.js";
import { listenToKeys } from "./keys.js";
import { LandmarkList } from "./landmark-list.js";
import { drawLoupe } from "./loupe.js";
import { objectDialog } from "./object-dialog.js";
import { Opening } from "./opening.js";
import { Outbox } from "./outbox.js";
import { listenToPointers } from "./pointer.js";
import { listenToExport } from "./export-dialog.js";
import { scaleDialog } from "./scale-dialog.js";
import { listenToSettings } from "./settings.js";
import { say, trying } from "./shell.js";

const desk = new Desk();
const overlay = find("#overlay");
const opening = new Opening(desk, { opened: showOpened });
const images = new ImageList(find("#image-list"), { open: (index) => open(index), failed: (error) => say(error.message, "bad") });
const landmarks = new LandmarkList(find("#landmark-list"), {
  choose: (landmark, add) => select(desk, [landmark], { add, reveal: true }),
});
listenToExport();
const askScale = scaleDialog({
  saved: (scale) => {
    setScale(scale);
    setTool("points");
  },
  left: () => {
    desk.bar = null;
    desk.changed();
  },
});
// Images of one series have the same bar: the last one that was drawn can be put into the next with one key.
function setScale(scale) {
  change(desk, {}, { scale });
  if (scale) localStorage.setItem("scale", JSON.stringify(scale));
  desk.tell(scale ? `Scale bar of ${scale.length} ${scale.unit} placed` : "Scale bar removed");
}

function sameScale() {
  const last = JSON.parse(localStorage.getItem("scale"));
  if (!last) say("There is no scale bar yet: draw one with R.");
  else if (desk.marks) setScale(last);
}

const askObject = objectDialog({ saved: loadObject });

const curveTool = new CurveTool(desk);
const toggle = listenToSettings(desk);

const pointers = listenToPointers(desk, overlay, {
  barDrawn: (bar) => askScale(bar, desk.marks.scale),
  vertexAdded: (point) => curveTool.vertex(point),
  lineEnded: () => curveTool.end(),
});
// Before the outbox hears of it: what is being dragged goes with the rest.
addEventListener("pagehide", () => pointers.release(), { capture: true });
// A page that the browser had put aside has missed what happened meanwhile.
addEventListener("pageshow", (event) => event.persisted && location.reload());
addEventListener("beforeunload", (event) => {
  if (desk.outbox?.away && desk.outbox.waiting) event.preventDefault();
});

// ----- what is shown

desk.addEventListener("draw", ({ detail }) => {
  if (detail.picture) drawPicture(find("#picture"), desk);
  drawOverlay(overlay, desk);
  drawLoupe(find("#loupe-view"), desk);
  landmarks.draw({ ...pick(desk), certainty });
  showStatus();
});

const pick = ({ marks, selection, active, highlighted }) => ({ marks, selection, active, highlighted });

desk.addEventListener("told", ({ detail }) => {
  find("#told").textContent = detail;
});

function showStatus() {
  const { marks, view, cursor, project } = desk;
  const at = cursor ? `${cursor[0].toFixed(1)}, ${cursor[1].toFixed(1)} · ` : "";
  const zoom = `${view.scale >= 0.1 ? Math.round(view.scale * 100) : (view.scale * 100).toFixed(1)} %`;
  const model = project.model ? ` · model from ${project.model.samples} images` : "";
  setText("#status", desk.picture ? at + zoom + model : "");
  setText("#placed", marks ? `${marks.placed} / ${marks.count}` : "");
  setText("#hint", hint(desk));
  find("#undo").disabled = !desk.image?.can_undo && !marks?.pending.length && !marks?.laidDown && !marks?.draft?.steps?.length;
  find("#redo").disabled = !desk.image?.can_redo || Boolean(marks?.pending.length);
  find("#finish").textContent = desk.readOnly ? "Next" : marks?.finished ? "Next" : "Finish";
}

const setText = (selector, text) => {
  const node = find(selector);
  if (node.textContent !== text) node.textContent = text;
};

function showOpened(reason = "") {
  const { image } = desk;
  history.replaceState(null, "", `?image=${image.index}`);
  document.title = `${image.name} · pliant studio`;
  setText("#image-name", image.name);
  find("#image-name").title = image.name;
  const said = reason && reason[0].toUpperCase() + reason.slice(1);
  setText("#reason", said || `${(image.index + 1).toLocaleString("en")} of ${desk.project.count.toLocaleString("en")}`);
  find("#reason").title = said;
  overlay.setAttribute("aria-label", `Image ${image.name} with its landmarks`);
  const trouble = find("#unreadable");
  trouble.hidden = !desk.trouble;
  trouble.replaceChildren(
    ...(desk.trouble ? [element("p", {}, desk.trouble), element("button", { onclick: () => opening.skip() }, "Skip this image")] : []),
  );
  find("#stage").dataset.image = desk.picture || desk.trouble ? image.index : "";
  images.setCurrent(image.index);
  desk.changed(true);
}

function showSaving() {
  const { outbox } = desk;
  const node = find("#saving");
  const count = outbox.waiting;
  const late = outbox.away && count > 0;
  const text = count ? (late ? `${count} ${count === 1 ? "change" : "changes"} waiting` : "saving") : "saved";
  if (node.textContent !== text) node.textContent = text;
  node.classList.toggle("bad", late);
  showBanner();
  desk.changed();
}

function showBanner() {
  const banner = find("#banner");
  const refused = desk.outbox?.refused ?? [];
  banner.hidden = !desk.readOnly && !refused.length;
  if (banner.hidden) return;
  const parts = refused.length
    ? [
        element("span", {}, `${refused.length === 1 ? "A change" : `${refused.length} changes`} of ${refused[0].name} could not be saved: ${refused[0].refused}`),
        element("button", { onclick: () => desk.outbox.retryRefused() }, "Send again"),
        element("button", { onclick: () => discardRefused() }, "Discard"),
      ]
    : [element("span", {}, desk.readOnly)];
  banner.replaceChildren(...parts);
}

function discardRefused() {
  desk.outbox.discardRefused();
  if (desk.marks) desk.marks.update(desk.image, desk.outbox.of(desk.image.index));
  showSaving();
}

// ----- tools and options

function setTool(tool) {
  if (tool === "curve" && !desk.project.curves.length) {
    say("This object has no curves: add a range of landmarks such as “jaw 1-17” to make one.");
    return;
  }
  pointers.cancel();
  desk.tool = tool;
  desk.line = [];
  find("#tool-options").hidden = tool !== "curve";
  if (tool === "curve") curveTool.begin();
  for (const button of document.querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", button.dataset.tool === tool);
  desk.changed();
}

function zoom(factor) {
  desk.view.zoom(factor, desk.byKeyboard && desk.cursor ? desk.view.toScreen(desk.cursor) : undefined);
  desk.changed(true);
}

function fit() {
  desk.view.fit();
  desk.changed(true);
}

// ----- going from image to image

function open(index, details) {
  pointers.release();
  return opening.open(index, details);
}

function beside(step) {
  const index = images.neighbour(step);
  if (index === null) say(step < 0 ? "This is the first image in the list." : "This is the last image in the list.");
  else open(index);
}

const actions = {
  setTool,
  toggle,
  zoom,
  fit,
  beside,
  curveTool,
  finish: () => (desk.project.names.length ? opening.finish() : askObject(desk.project)),
  skip: () => opening.skip(),
  next: () => opening.goOn(),
  removeDraft: () => {
    removeDraft(desk);
    opening.propose();
  },
  undo: () => undo(desk).then(() => desk.marks && opening.propose()),
  redo: () => undo(desk, "redo").then(() => desk.marks && opening.propose()),
  template: () => startFromTemplate(desk),
  copy: () => copyPrevious(desk),
  flip: () => flipDraft(desk),
  refit: () => refit(desk, desk.marks?.draft?.source === "model"),
  barDrawn: (bar) => askScale(bar, desk.marks.scale),
  sameScale,
};

const buttons = {
  previous: () => beside(-1),
  following: () => beside(1),
  skip: actions.skip,
  finish: actions.finish,
  undo: actions.undo,
  redo: actions.redo,
  template: actions.template,
  copy: actions.copy,
  "zoom-in": () => zoom(1.4),
  "zoom-out": () => zoom(1 / 1.4),
  "zoom-fit": fit,
  "edit-object": () => askObject(desk.project),
};
for (const [id, does] of Object.entries(buttons)) find(`#${id}`).addEventListener("click", does);
for (const button of document.querySelectorAll("[data-tool]")) button.addEventListener("click", () => setTool(button.dataset.tool));
for (const button of document.querySelectorAll("[data-state]")) button.addEventListener("click", () => setState(desk, Number(button.dataset.state)));
// After a click with the mouse, keys are about the image again.
find(".desk").addEventListener("click", (event) => {
  if (event.detail > 0 && event.target.closest(".bar button, .states button, #landmark-list")) overlay.focus({ preventScroll: true });
});
find("#order").value = desk.options.order;
find("#order").addEventListener("change", (event) => desk.setOption("order", event.target.value));
find("#show").addEventListener("change", (event) => images.setShow(event.target.value));
find("#number").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const number = Number.parseInt(event.target.value, 10);
  if (number >= 1 && number <= desk.project.count) open(number - 1);
  else say(`Enter a number from 1 to ${desk.project.count}.`);
});
for (const [tab, panel] of [["#tab-images", "#images-panel"], ["#tab-landmarks", "#landmarks-panel"]]) {
  find(tab).addEventListener("click", () => {
    const opens = !find(panel).classList.contains("open");
    for (const side of document.querySelectorAll(".side")) side.classList.toggle("open", opens && side === find(panel));
    for (const other of document.querySelectorAll(".tabs button")) other.setAttribute("aria-expanded", opens && other === find(tab));
    if (desk.image) images.setCurrent(desk.image.index);
  });
}

// ----- what the server tells

on("changed", ({ index, revision, client: from }) => {
  if (index === desk.image?.index) opening.reload(revision);
  if (from === client) return;
  images.refresh();
  loadProgress();
});
on("model", ({ number, samples }) => {
  const first = !desk.project.model;
  desk.project.model = { ...desk.project.model, number, samples };
  if (first) say(`The model has learned from ${samples} images. It now proposes points.`, "good");
  opening.proposeAgain();
  desk.changed();
});
on("object", loadObject);
for (const type of ["behind", "back"]) {
  on(type, () => {
    desk.outbox?.retry();
    images.refresh();
    opening.reload();
    loadProgress();
  });
}

let counting = null;
function loadProgress() {
  clearTimeout(counting);
  counting = setTimeout(() => get("/api/project").then(showProgress, () => {}), 300);
}

function showProgress(project) {
  Object.assign(desk.project, { done: project.done, count: project.count, model: project.model });
  setText("#progress", `${project.done.toLocaleString("en")} / ${project.count.toLocaleString("en")}`);
  find("#progress").title = "finished / all images";
  desk.changed();
}

async function loadProject() {
  desk.project = await get("/api/project");
  showProgress(desk.project);
  landmarks.setNames(desk.project.names);
  find("#edit-object").hidden = Boolean(desk.readOnly);
  document.body.classList.toggle("read-only", Boolean(desk.readOnly));
  for (const node of document.querySelectorAll("[data-state], [data-tool]:not([data-tool=points]), #template, #copy, [data-option=follow]")) {
    node.disabled = Boolean(desk.readOnly);
  }
  showBanner();
}

// Opens the image again if the landmarks are others now.
async function loadObject() {
  const landmarksOf = ({ names, curves }) => JSON.stringify([names, curves]);
  const before = landmarksOf(desk.project);
  await trying(loadProject);
  if (landmarksOf(desk.project) !== before && desk.image) await open(desk.image.index);
}

new ResizeObserver(([{ contentRect }]) => {
  desk.view.resize(contentRect.width, contentRect.height);
  desk.changed(true);
}).observe(find("#stage"));
addEventListener("themechange", () => {
  readColours();
  desk.changed(true);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));

async function start() {
  readColours();
  const list = images.setShow("all");
  await loadProject();
  desk.outbox = new Outbox(`${desk.project.source}`);
  desk.outbox.addEventListener("state", showSaving);
  desk.outbox.addEventListener("acknowledged", ({ detail }) => {
    opening.take(detail);
    const state = detail.finished ? "finished" : detail.states.some((one) => one >= 0) ? "begun" : "untouched";
    if (images.setState(detail.index, state)) loadProgress();
  });
  showSaving();
  desk.outbox.run();
  listenToKeys(desk, overlay, pointers, actions);
  const query = new URLSearchParams(location.search);
  const asked = Number.parseInt(query.get("image") ?? "", 10);
  const points = (query.get("points") ?? "").split(",").filter(Boolean).map(Number).filter((one) => one in desk.project.names);
  await list;
  if (!desk.project.count) say("There are no images here.");
  else if (asked >= 0) await open(asked, { points });
  else await opening.goOn();
  if (!desk.image && desk.project.count) await open(0);
  if (!desk.project.names.length && !desk.readOnly) askObject(desk.project);
  else overlay.focus({ preventScroll: true });
}

trying(start);
