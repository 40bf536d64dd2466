// One fit: its picture with landmarks at a step, how it ended, how far to trust it, and files to take along.

import { element } from "./dom.js";
import { download } from "./downloading.js";
import { stepsOf } from "./fit-steps.js";
import { drawEllipses, drawLandmarks, drawMesh } from "./landmark-drawing.js";
import { colour, trying } from "./shell.js";

// `number` is that of the algorithm's colour.
export function fitCard(run, fit, number, formats) {
  const steps = stepsOf(fit);
  const canvas = element("canvas", { role: "img", "aria-label": `${fit.words}: ${fit.ended}` });
  const several = run.fits.filter(({ algorithm }) => algorithm === fit.algorithm).length > 1;
  const node = element(
    "article",
    { class: `card card-${number}` },
    fit.points || fit.start ? canvas : null,
    element(
      "div",
      { class: "told" },
      element("h2", {}, several ? `${fit.words}, object ${fit.object + 1}` : fit.words),
      element("code", {}, fit.algorithm),
      element("p", { class: fit.ok ? null : "bad" }, fit.ended),
      fit.trust ? element("p", {}, fit.trust) : null,
      facts(fit),
      fit.points ? files(run, fit, formats) : null,
    ),
  );
  let picture = null;
  let look = null;
  let step = 0;

  function draw() {
    if (!look) return;
    const [left, top, right, bottom] = run.crop;
    const finer = Math.min(devicePixelRatio || 1, 2);
    const zoom = (Math.max(canvas.clientWidth, 1) * finer) / (right - left);
    canvas.width = Math.round((right - left) * zoom);
    canvas.height = Math.round((bottom - top) * zoom);
    const context = canvas.getContext("2d");
    if (picture) context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const seen = (points) => points.map(([x, y]) => [(x - left + 0.5) * zoom, (y - top + 0.5) * zoom]);
    const at = steps[Math.min(step, steps.length - 1)];
    const radius = finer * Math.max(1.2, Math.min(3, (widthOf(fit.points ?? fit.start) * zoom) / finer / 90));
    if (look.truth && run.truth) drawLandmarks(context, seen(run.truth), { colour: colour("sure"), radius });
    if (look.start && fit.start) drawLandmarks(context, seen(fit.start), { colour: colour("unsure"), radius });
    if (!at) return;
    if (look.mesh) drawMesh(context, seen(at.points), run.triangles, { colour: colour("fixed"), width: finer });
    // What is uncertain is where the fit ended.
    if (look.ellipses && fit.covariances && at === steps.at(-1)) {
      drawEllipses(context, seen(at.points), fit.covariances, { colour: colour("hidden"), zoom });
    }
    if (look.points) drawLandmarks(context, seen(at.points), { colour: colour("doubt"), radius });
  }

  async function load(of) {
    const image = new Image();
    image.src = `/api/fits/${run.id}/picture?of=${fit.points ? of : "image"}&fit=${fit.number}&crop=${run.crop.join("-")}`;
    try {
      await image.decode();
    } catch {
      return;
    }
    if (look?.of !== of) return;
    picture = image;
    draw();
  }

  new ResizeObserver(draw).observe(canvas);
  return {
    node,
    steps,
    show(next) {
      const changed = next.of !== look?.of;
      look = { ...next };
      if (changed) load(next.of);
      draw();
    },
    setStep(next) {
      step = next;
      draw();
    },
  };
}

// So that landmarks of a small object do not cover it.
function widthOf(points) {
  const x = points.map((point) => point[0]);
  return Math.max(...x) - Math.min(...x);
}

function facts(fit) {
  const known = [
    ["Iterations", fit.iterations],
    ["Time", `${(1000 * fit.seconds).toFixed(0)} ms`],
    fit.error === null ? null : ["Error", `${(100 * fit.error).toFixed(2)} %`],
    fit.cost === null ? null : ["Cost", Number(fit.cost.toPrecision(4))],
    fit.hidden?.some(Boolean) ? ["Hidden landmarks", fit.hidden.filter(Boolean).length] : null,
  ];
  return element(
    "dl",
    {},
    known.filter(Boolean).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))),
  );
}

function files(run, fit, formats) {
  const format = element(
    "select",
    { "aria-label": `Format of the landmark file of ${fit.words}` },
    formats.map((name) => element("option", { value: name, selected: name === "pts" }, name)),
  );
  const taking = (path) => () => trying(() => download(path()));
  return element(
    "div",
    { class: "row" },
    format,
    element("button", { type: "button", onclick: taking(() => `/api/fits/${run.id}/points?fit=${fit.number}&format=${format.value}`) }, "Points"),
    element("button", { type: "button", onclick: taking(() => `/api/fits/${run.id}/overlay?fit=${fit.number}`) }, "Overlay"),
  );
}
