// The page Explore: sliders move the model's modes and its pose, and the browser draws what comes of it.

import { get, on } from "./api.js";
import { element, find } from "./dom.js";
import { drawLabels, drawLandmarks, drawMesh } from "./landmark-drawing.js";
import { makeMeshPainter } from "./mesh-drawing.js";
import { makeModePlayer } from "./mode-player.js";
import { modeRow, poseRow } from "./mode-sliders.js";
import { trainingControls } from "./model-training.js";
import { addShortcuts, colour, trying } from "./shell.js";
import { instance, placeOf, posed, seen, viewOf } from "./shape-instance.js";
import { makeBlender } from "./texture-blending.js";
import { explained, percent, varianceChart } from "./variance-chart.js";

const PLAUSIBLE = 3;
const FARTHEST = 5;
const SAMPLED = 2;
const SHOWN_AT_FIRST = 8;
const POSES = [
  { key: "scale", name: "Scale", min: 0.3, max: 2, step: 0.01, start: 1, unit: "×" },
  { key: "rotation", name: "Rotation", min: -180, max: 180, step: 1, start: 0, unit: "°" },
  { key: "x", name: "Shift to the right", min: -100, max: 100, step: 1, start: 0, unit: " %" },
  { key: "y", name: "Shift down", min: -100, max: 100, step: 1, start: 0, unit: " %" },
];
const KINDS = { shape: "Shape", texture: "Appearance" };

const stage = find("#stage");
const picture = find("#object");
const lines = find("#lines");
const shown = { texture: true, mesh: false, landmarks: false, labels: false };
const pose = Object.fromEntries(POSES.map(({ key, start }) => [key, start]));
const deviations = { shape: [], texture: [] };
const rows = { shape: [], texture: [] };
const poseRows = {};
let model = null;
let painter = null;
let blend = null;
let place = null;
let textureMoved = true;
let waiting = false;
let lastPlayed = { kind: "shape", mode: 0 };

const player = makeModePlayer(
  ({ kind, mode }, value) => setMode(kind, mode, value),
  (playing) => {
    for (const kind of Object.keys(KINDS)) rows[kind].forEach((row, mode) => row.setPlaying(playing?.kind === kind && playing?.mode === mode));
  },
);

function redraw() {
  if (waiting || !model) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

function draw() {
  const shifted = { ...pose, x: pose.x / 100, y: pose.y / 100 };
  const points = seen(posed(instance(model, deviations.shape), shifted, place), viewOf(model, picture.width, picture.height));
  if (textureMoved && shown.texture) {
    painter.setTexture(blend(deviations.texture));
    textureMoved = false;
  }
  painter.draw(shown.texture ? points : null);
  drawLines(points);
  stage.dataset.frames = String(Number(stage.dataset.frames ?? 0) + 1);
}

function drawLines(points) {
  const context = lines.getContext("2d");
  context.clearRect(0, 0, lines.width, lines.height);
  const finer = devicePixels();
  if (shown.mesh) drawMesh(context, points, model.triangles, { colour: colour("mesh"), width: finer });
  if (shown.landmarks) drawLandmarks(context, points, { colour: colour("doubt"), radius: 3 * finer });
  if (shown.labels) drawLabels(context, points, labels(), { colour: colour("ink"), ground: colour("ground"), size: 12 * finer });
}

const labels = () => model.mean.map((_, k) => model.names[k] ?? String(k));
const devicePixels = () => Math.min(devicePixelRatio || 1, 2);

function resize() {
  for (const canvas of [picture, lines]) {
    canvas.width = Math.max(1, Math.round(stage.clientWidth * devicePixels()));
    canvas.height = Math.max(1, Math.round(stage.clientHeight * devicePixels()));
  }
  // At once: a canvas that has changed its size is empty, and would flicker until the next frame.
  if (model) draw();
}

function setMode(kind, mode, value) {
  deviations[kind][mode] = rows[kind][mode].set(value);
  textureMoved ||= kind === "texture";
  redraw();
}

function moved(kind, mode, value) {
  if (player.playing?.kind === kind && player.playing?.mode === mode) player.stop();
  deviations[kind][mode] = value;
  textureMoved ||= kind === "texture";
  redraw();
}

function toggle(name) {
  shown[name] = !shown[name];
  if (name === "labels" && shown.labels) shown.landmarks = true;
  for (const one of Object.keys(shown)) find(`#show-${one}`).setAttribute("aria-pressed", String(shown[one]));
  redraw();
}

function play(kind, mode) {
  const same = player.playing?.kind === kind && player.playing?.mode === mode;
  lastPlayed = { kind, mode };
  if (same) player.stop();
  else player.play({ kind, mode }, deviations[kind][mode]);
}

function eachMode(set) {
  player.stop();
  for (const kind of Object.keys(KINDS)) rows[kind].forEach((_, mode) => setMode(kind, mode, set(mode)));
}

// Normal, but for what is farther off than two standard deviations.
function sampled() {
  for (;;) {
    const value = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    if (Math.abs(value) <= SAMPLED) return Math.round(100 * value) / 100;
  }
}

function reset() {
  eachMode(() => 0);
  for (const { key, start } of POSES) {
    pose[key] = start;
    poseRows[key].set(start);
  }
  redraw();
}

function limitModes() {
  const reach = find("#plausible").checked ? PLAUSIBLE : FARTHEST;
  for (const kind of Object.keys(KINDS)) {
    rows[kind].forEach((row, mode) => {
      deviations[kind][mode] = row.setLimit(reach);
    });
  }
  textureMoved = true;
  redraw();
}

function showRows(kind, shares, kept) {
  const limit = find("#plausible").checked ? PLAUSIBLE : FARTHEST;
  const before = deviations[kind];
  rows[kind] = shares.map((share, mode) =>
    modeRow({
      what: KINDS[kind], number: mode + 1, share: percent(share), limit,
      changed: (value) => moved(kind, mode, value),
      play: () => play(kind, mode),
    }),
  );
  deviations[kind] = shares.map((_, mode) => rows[kind][mode].set(before[mode] ?? 0));
  find(`#${kind}-rows`).replaceChildren(...rows[kind].map(({ row }) => row));
  const more = find(`#more-${kind}`);
  more.hidden = shares.length <= SHOWN_AT_FIRST;
  fold(kind, true);
  more.onclick = () => fold(kind, more.getAttribute("aria-expanded") === "true");
  find(`#${kind}-variance`).replaceChildren(varianceChart(shares, KINDS[kind]));
  for (const place of ["explained", "told"]) find(`#${kind}-${place}`).textContent = explained(shares, kept, KINDS[kind]);
}

function fold(kind, folded) {
  rows[kind].forEach(({ row }, mode) => {
    row.hidden = folded && mode >= SHOWN_AT_FIRST;
  });
  const more = find(`#more-${kind}`);
  more.setAttribute("aria-expanded", String(!folded));
  more.textContent = folded ? `Show all ${rows[kind].length} modes` : `Show only the first ${SHOWN_AT_FIRST}`;
}

async function load() {
  const loaded = await get("/api/explore");
  const response = await fetch(`/api/explore/texture?version=${loaded.version}`);
  if (!response.ok) throw new Error((await response.json()).error);
  const buffer = await response.arrayBuffer();
  player.stop();
  painter?.dispose();
  const mesh = { triangles: loaded.triangles, vertices: loaded.vertices, width: loaded.texture.width, height: loaded.texture.height };
  const plain = new URLSearchParams(location.search).has("plain");
  painter = makeMeshPainter(picture, mesh, { plain });
  stage.dataset.painter = painter.kind;
  blend = makeBlender(loaded.texture, buffer);
  model = loaded;
  place = placeOf(model);
  textureMoved = true;
  showRows("shape", model.shares, model.kept);
  showRows("texture", model.texture.shares, model.texture.kept);
  for (const part of ["#sliders", "#variances"]) find(part).hidden = false;
  find("#nothing").hidden = true;
  find("#about").textContent = about();
  picture.setAttribute("aria-label", `An instance of the model. ${about()}`);
  resize();
}

const about = () => `${model.landmarks} landmarks${model.samples ? `, trained on ${model.samples.toLocaleString("en")} images` : ""}.`;

function nothing(error) {
  const hidden = find("#nothing");
  hidden.hidden = false;
  hidden.replaceChildren(element("h2", {}, "Nothing to explore yet"), element("p", {}, error.message.charAt(0).toUpperCase() + error.message.slice(1)), trainingControls({ existing: false }));
}

for (const { key, ...rest } of POSES) {
  poseRows[key] = poseRow({
    ...rest,
    changed: (value) => {
      pose[key] = value;
      redraw();
    },
  });
  find("#pose-rows").append(poseRows[key].row);
}
for (const name of Object.keys(shown)) find(`#show-${name}`).addEventListener("click", () => toggle(name));
find("#random").addEventListener("click", () => eachMode(sampled));
find("#training").replaceChildren(trainingControls({ existing: true }));
find("#reset").addEventListener("click", reset);
find("#plausible").addEventListener("change", limitModes);
new ResizeObserver(resize).observe(stage);
addEventListener("themechange", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addShortcuts([
  { keys: "T", what: "texture on or off", does: () => toggle("texture") },
  { keys: "M", what: "mesh on or off", does: () => toggle("mesh") },
  { keys: "L", what: "landmarks on or off", does: () => toggle("landmarks") },
  { keys: "N", what: "numbers or names on or off", does: () => toggle("labels") },
  { keys: "Space", what: "play or pause the last mode", does: () => model && play(lastPlayed.kind, lastPlayed.mode) },
  { keys: "R", what: "a random instance", does: () => eachMode(sampled) },
  { keys: "0", what: "reset everything to the mean", does: reset },
]);
find("#newer").addEventListener("click", () =>
  trying(async () => {
    find("#newer").hidden = true;
    await load();
  }),
);
// Not by itself: a slider that somebody drags must not vanish.
on("trained", () => {
  if (model) find("#newer").hidden = false;
  else load().catch(nothing);
});
load().catch(nothing);
