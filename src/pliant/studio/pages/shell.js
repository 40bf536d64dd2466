// What every page has: messages, shortcuts, the theme, and background work.

import { get, on, send } from "./api.js";
import { element, find } from "./dom.js";

// A sentence at the foot of the page; kind is "note", "good" or "bad". Bad news stays until it is closed.
export function say(sentence, kind = "note") {
  const close = element("button", { class: "quiet", "aria-label": "Close message", onclick: () => message.remove() }, "×");
  const message = element("p", { class: `message ${kind}` }, element("span", {}, sentence), close);
  const shown = find("#messages");
  for (const old of [...shown.children]) if (old.firstChild.textContent === sentence) old.remove();
  shown.append(message);
  while (shown.children.length > 4) shown.firstChild.remove();
  if (kind !== "bad") setTimeout(() => message.remove(), 6000);
}

// Runs what may fail; a failure is said.
export async function trying(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message, "bad");
    return undefined;
  }
}

const shortcuts = [];

// Keys of a page: [{ keys: "Enter", what: "finish this image", does: (event) => ... }]. Written as "Shift+Z", "Ctrl+Z";
// the sheet has `shown` in place of keys that are many.
export function addShortcuts(added) {
  shortcuts.push(...added);
  find("#shortcuts-list").replaceChildren(
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, element("th", {}, "Key"), element("th", {}, "What it does"))),
      element(
        "tbody",
        {},
        shortcuts.map(({ keys, shown = keys, what }) =>
          element("tr", {}, element("td", {}, ...keycaps(shown)), element("td", {}, what)),
        ),
      ),
    ),
  );
}

const keycaps = (keys) =>
  keys.split(" ").flatMap((key, k) => (k ? [" or ", element("kbd", {}, key)] : [element("kbd", {}, key)]));

function pressed(event) {
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toUpperCase() : event.key;
  const letter = event.key.length === 1 && event.key.toUpperCase() !== event.key.toLowerCase();
  const shift = event.shiftKey && (letter || event.key.length > 1) ? "Shift+" : "";
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${shift}${key}`;
}

// Controls have keys of their own: letters in a text field, arrows on a slider, Space and Enter on a button.
function belongsToControl(event) {
  const target = event.target;
  if (target.closest("dialog[open]")) return true;
  if (target.matches("textarea, select, [contenteditable]")) return true;
  if (target.matches("input")) {
    const typed = !["checkbox", "radio", "range", "button", "file"].includes(target.type);
    return typed || event.key.startsWith("Arrow") || event.key === " ";
  }
  return target.matches("button, a, summary") && (event.key === "Enter" || event.key === " ");
}

addEventListener("keydown", (event) => {
  if (belongsToControl(event)) return;
  const name = pressed(event);
  const found = shortcuts.find(({ keys, does }) => does && keys.split(" ").includes(name));
  if (!found) return;
  event.preventDefault();
  found.does(event);
});

function chosenTheme() {
  return localStorage.getItem("theme") ?? "auto";
}

function showTheme() {
  const theme = chosenTheme();
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("#theme").textContent = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[theme];
  dispatchEvent(new Event("themechange"));
}

// A colour of the style sheet, for drawing on a canvas.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const work = new Map();

function showWork() {
  const running = [...work.values()].filter((job) => job.state === "running");
  const button = find("#work");
  button.hidden = !work.size;
  button.textContent = running.length
    ? `${running[0].title} ${running[0].total ? `${Math.round((100 * running[0].done) / running[0].total)} %` : "…"}`
    : "Work";
  find("#work-items").replaceChildren(
    ...[...work.values()].reverse().slice(0, 20).map((job) =>
      element(
        "li",
        {},
        element("strong", {}, job.title),
        job.state === "running"
          ? element("progress", { max: Math.max(job.total, 1), value: job.done, "aria-label": job.title })
          : element("span", {}, ` ${job.state}: ${job.sentence}`),
        job.state === "running"
          ? element("button", { onclick: () => trying(() => send("DELETE", `/api/jobs/${job.id}`)) }, "Stop")
          : null,
      ),
    ),
  );
}

export function watchWork(job) {
  const known = work.get(job.id);
  work.set(job.id, job);
  if (job.state === "failed" && known?.state !== "failed") say(`${job.title}: ${job.sentence}`, "bad");
  showWork();
}

on("job", watchWork);
on("note", ({ sentence }) => say(sentence));
on("trouble", ({ sentence }) => say(sentence, "bad"));
on("lost", () => say("The studio does not answer. Changes are kept on this page until it does.", "bad"));
on("back", () => {
  for (const message of document.querySelectorAll("#messages .bad")) message.remove();
  say("The studio is back.", "good");
});
get("/api/jobs").then((jobs) => jobs.reverse().forEach(watchWork), () => {});

find("#theme").addEventListener("click", () => {
  localStorage.setItem("theme", { auto: "light", light: "dark", dark: "auto" }[chosenTheme()]);
  showTheme();
});
find("#help").addEventListener("click", () => find("#shortcuts").showModal());
find("#work").addEventListener("click", () => find("#work-list").showModal());
addShortcuts([{ keys: "?", what: "show this sheet", does: () => find("#shortcuts").showModal() }]);
showTheme();
