// Draws the image on one canvas, and what lies on top of it on another, so that a drag never draws the image again.

import { resampled } from "./curves.js";
import { HANDLE_RADIUS, handlesOf } from "./handles.js";
import { HIDDEN } from "./marks.js";
import { colour } from "./shell.js";

const HALO = "rgb(0 0 0 / .55)";
const SURE = 0.004;
const UNSURE = 0.03;

let colours = {};

export function readColours() {
  const names = ["sure", "doubt", "unsure", "fixed", "hidden", "mesh", "accent", "on-accent", "picture", "raised", "ink"];
  colours = Object.fromEntries(names.map((name) => [name, colour(name)]));
}

// Makes a canvas as sharp as the screen; returns its context, in CSS pixels.
export function prepared(canvas, { width, height }) {
  const sharpness = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * sharpness), Math.round(height * sharpness)];
  if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
  const context = canvas.getContext("2d");
  context.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export function drawPicture(canvas, { view, picture }) {
  const context = prepared(canvas, view.stage);
  if (!picture) return;
  const sharpness = devicePixelRatio || 1;
  // Pixels stay pixels when they are large enough to be seen.
  context.imageSmoothingEnabled = view.scale * sharpness * (view.image.width / picture.width) < 2;
  context.imageSmoothingQuality = "high";
  context.transform(view.across, 0, 0, view.scale, view.x, view.y);
  context.drawImage(picture, -0.5, -0.5, view.image.width, view.image.height);
}

export function drawOverlay(canvas, desk) {
  const context = prepared(canvas, desk.view.stage);
  if (!desk.marks) return;
  drawScale(context, desk, desk.bar ?? desk.marks.scale);
  drawCurves(context, desk);
  drawEllipses(context, desk);
  drawPoints(context, desk);
  drawLabels(context, desk);
  drawLine(context, desk);
  for (const handle of handlesOf(desk)) drawHandle(context, handle);
  drawCrosshair(context, desk);
  drawBox(context, desk.box);
}

// From green over amber to red, by the share of the shape's size that a point may be off.
export function certainty(deviation, size) {
  if (deviation === null) return colours.doubt;
  const share = Math.log(deviation / size / SURE) / Math.log(UNSURE / SURE);
  const part = Math.min(Math.max(share, 0), 1);
  return part < 0.5 ? mixed(colours.sure, colours.doubt, part * 2) : mixed(colours.doubt, colours.unsure, part * 2 - 1);
}

function mixed(from, to, part) {
  const channel = (hex, k) => Number.parseInt(hex.slice(2 * k + 1, 2 * k + 3), 16);
  const mix = [0, 1, 2].map((k) => Math.round(channel(from, k) + part * (channel(to, k) - channel(from, k))));
  return `rgb(${mix.join(" ")})`;
}

function outlined(context, width, style) {
  context.lineWidth = width + 2;
  context.strokeStyle = HALO;
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = style;
  context.stroke();
}

function path(context, points, closed = false) {
  context.beginPath();
  points.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (closed) context.closePath();
}

function drawCurves(context, { marks, view, project }) {
  context.globalAlpha = 0.75;
  for (const { points, closed } of project.curves) {
    const ends = closed ? [...points, points[0]] : points;
    context.beginPath();
    for (let k = 1; k < ends.length; k++) {
      const [from, to] = [marks.at(ends[k - 1]), marks.at(ends[k])];
      if (!from || !to) continue;
      context.moveTo(...view.toScreen(from));
      context.lineTo(...view.toScreen(to));
    }
    context.lineWidth = 1.5;
    context.strokeStyle = colours.fixed;
    context.stroke();
  }
  context.globalAlpha = 1;
}

function drawEllipses(context, { marks, view, options, selection }) {
  const size = marks.size;
  for (const landmark of marks.drafts) {
    if (!options.ellipses && !selection.has(landmark)) continue;
    const ellipse = marks.ellipse(landmark);
    if (!ellipse) continue;
    const [x, y] = view.toScreen(marks.at(landmark));
    const turn = view.mirror ? -ellipse.angle : ellipse.angle;
    context.beginPath();
    // Two deviations: where the point is 19 times out of 20.
    context.ellipse(x, y, 2 * ellipse.major * view.scale, 2 * ellipse.minor * view.scale, turn, 0, 2 * Math.PI);
    context.globalAlpha = 0.16;
    context.fillStyle = certainty(ellipse.major, size);
    context.fill();
    context.globalAlpha = 0.9;
    context.lineWidth = 1.2;
    context.strokeStyle = context.fillStyle;
    context.stroke();
    context.globalAlpha = 1;
  }
}

function drawPoints(context, { marks, view, selection, highlighted, hover }) {
  const size = marks.size;
  const radius = marks.shown.length > 100 ? 3.4 : 4.4;
  for (const landmark of marks.shown) {
    const [x, y] = view.toScreen(marks.at(landmark));
    const chosen = selection.has(landmark);
    const disc = (grown) => {
      context.beginPath();
      context.arc(x, y, radius + grown, 0, 2 * Math.PI);
    };
    if (highlighted.has(landmark)) {
      disc(7);
      outlined(context, 2, colours.unsure);
    }
    if (chosen || hover === landmark) {
      disc(3.6);
      outlined(context, chosen ? 2 : 1.2, "#fff");
    }
    disc(marks.isDraft(landmark) ? 0.8 : 0);
    if (marks.isDraft(landmark)) {
      outlined(context, 2, certainty(marks.deviation(landmark), size));
    } else if (marks.states[landmark] === HIDDEN && !marks.moving.has(landmark)) {
      outlined(context, 1.6, colours.hidden);
      context.fillStyle = colours.hidden;
      context.fill();
      context.setLineDash([2.2, 2.2]);
      context.lineWidth = 1.6;
      context.strokeStyle = "#fff";
      context.stroke();
      context.setLineDash([]);
    } else {
      outlined(context, 1.4, "#fff");
      context.fillStyle = colours.fixed;
      context.fill();
    }
  }
}

function drawLabels(context, { marks, view, selection, hover, options, project }) {
  const wanted = options.labels ? marks.shown : marks.shown.filter((one) => one === hover || selection.has(one));
  if (wanted.length > 40 && !options.labels) return;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const landmark of wanted) {
    const [x, y] = view.toScreen(marks.at(landmark));
    write(context, project.names[landmark], x + 11, y - 11);
  }
}

function write(context, text, x, y) {
  context.lineWidth = 3.5;
  context.strokeStyle = "rgb(0 0 0 / .75)";
  context.strokeText(text, x, y);
  context.fillStyle = "#fff";
  context.fillText(text, x, y);
}

// The line that is being drawn for a curve, and the points that it would give.
function drawLine(context, { line, view, cursor, curve, tool }) {
  if (tool !== "curve" || !line.length) return;
  const vertices = cursor ? [...line, cursor] : line;
  const shown = vertices.map((point) => view.toScreen(point));
  path(context, shown, curve.closed && shown.length > 2);
  outlined(context, 1.5, colours.doubt);
  if (vertices.length < 2) return;
  for (const point of resampled(vertices, curve.points.length, curve.closed)) {
    const [x, y] = view.toScreen(point);
    context.beginPath();
    context.arc(x, y, 3.2, 0, 2 * Math.PI);
    outlined(context, 1.4, "#fff");
  }
}

function drawScale(context, { view }, bar) {
  if (!bar) return;
  const [from, to] = [view.toScreen(bar.start), view.toScreen(bar.end)];
  const turn = Math.atan2(to[1] - from[1], to[0] - from[0]) + Math.PI / 2;
  const [dx, dy] = [6 * Math.cos(turn), 6 * Math.sin(turn)];
  context.beginPath();
  context.moveTo(from[0] - dx, from[1] - dy);
  context.lineTo(from[0] + dx, from[1] + dy);
  context.moveTo(...from);
  context.lineTo(...to);
  context.moveTo(to[0] - dx, to[1] - dy);
  context.lineTo(to[0] + dx, to[1] + dy);
  outlined(context, 2, colours.doubt);
  if (!bar.length) return;
  context.font = "600 13px system-ui, sans-serif";
  context.textBaseline = "bottom";
  write(context, `${bar.length} ${bar.unit === "um" ? "µm" : bar.unit}`, (from[0] + to[0]) / 2 + 6, (from[1] + to[1]) / 2 - 6);
}

function drawHandle(context, { kind, at: [x, y], all, box }) {
  if (!all) {
    context.setLineDash([4, 4]);
    path(context, [[box.left - 10, box.top - 10], [box.right + 10, box.top - 10], [box.right + 10, box.bottom + 10], [box.left - 10, box.bottom + 10]], true);
    context.lineWidth = 1;
    context.strokeStyle = "rgb(255 255 255 / .7)";
    context.stroke();
    context.setLineDash([]);
  }
  context.beginPath();
  context.arc(x, y, HANDLE_RADIUS, 0, 2 * Math.PI);
  context.fillStyle = all ? colours.raised : colours.accent;
  context.fill();
  context.lineWidth = 1.2;
  context.strokeStyle = HALO;
  context.stroke();
  context.beginPath();
  if (kind === "move") {
    for (const [a, b] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x, y);
      context.lineTo(x + 6.5 * a, y + 6.5 * b);
      context.lineTo(x + 4 * a + 2.3 * b, y + 4 * b + 2.3 * a);
      context.moveTo(x + 6.5 * a, y + 6.5 * b);
      context.lineTo(x + 4 * a - 2.3 * b, y + 4 * b - 2.3 * a);
    }
  } else if (kind === "turn") {
    context.arc(x, y, 5, -2.4, 2);
    context.moveTo(x - 4.2, y + 1.5);
    context.lineTo(x - 2, y + 4.6);
    context.lineTo(x - 5.6, y + 5.6);
  } else {
    context.moveTo(x - 4.5, y - 4.5);
    context.lineTo(x + 4.5, y + 4.5);
    context.moveTo(x + 4.5, y);
    context.lineTo(x + 4.5, y + 4.5);
    context.lineTo(x, y + 4.5);
    context.moveTo(x - 4.5, y);
    context.lineTo(x - 4.5, y - 4.5);
    context.lineTo(x, y - 4.5);
  }
  context.lineWidth = 1.5;
  context.strokeStyle = all ? colours.ink : colours["on-accent"];
  context.stroke();
}

function drawCrosshair(context, { view, cursor, options, byKeyboard }) {
  if (!cursor || !(options.crosshair || byKeyboard)) return;
  const [x, y] = view.toScreen(cursor);
  const gap = 7;
  context.beginPath();
  for (const [a, b, c, d] of [[0, y, x - gap, y], [x + gap, y, view.stage.width, y], [x, 0, x, y - gap], [x, y + gap, x, view.stage.height]]) {
    context.moveTo(a, b);
    context.lineTo(c, d);
  }
  context.lineWidth = 3;
  context.strokeStyle = "rgb(0 0 0 / .35)";
  context.stroke();
  context.lineWidth = 1;
  context.strokeStyle = "#fff";
  context.stroke();
}

function drawBox(context, box) {
  if (!box) return;
  const [[ax, ay], [bx, by]] = box;
  context.fillStyle = "rgb(255 255 255 / .12)";
  context.fillRect(ax, ay, bx - ax, by - ay);
  context.setLineDash([5, 3]);
  path(context, [[ax, ay], [bx, ay], [bx, by], [ax, by]], true);
  outlined(context, 1, "#fff");
  context.setLineDash([]);
}
