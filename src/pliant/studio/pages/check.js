// The page Check: annotations that look wrong, one after the other, with a key for each verdict.

import { client, get, on, send } from "./api.js";
import { startAnnotators } from "./check-annotators.js";
import { boxAround, boxNear, drawPoints, picture } from "./check-drawing.js";
import { element, find, latest } from "./dom.js";
import { addShortcuts, say, trying } from "./shell.js";

const TITLE = "checking annotations";
const STATES = { open: "", accepted: "accepted", mended: "mended", changed: "changed" };

const page = { names: [], suspects: [], chosen: null, close: null, job: null };

const shown = () =>
  page.suspects.filter((one) => !find("#only-open").checked || one.state === "open" || one.number === page.chosen);

function showList() {
  const list = find("#list");
  const focused = list.contains(document.activeElement);
  list.replaceChildren(
    ...shown().map((one) =>
      element(
        "li",
        {},
        element(
          "button",
          {
            type: "button",
            "aria-current": one.number === page.chosen ? "true" : undefined,
            "data-number": String(one.number),
            onclick: () => choose(one.number),
          },
          element("span", { class: `state ${one.state}` }, STATES[one.state]),
          element("span", { class: "name" }, one.name),
          element("span", { class: "what" }, one.reason),
        ),
      ),
    ),
  );
  const current = find('[aria-current="true"]', list);
  current?.scrollIntoView({ block: "nearest" });
  if (focused) current?.focus({ preventScroll: true });
}

function showVerdict(sentence) {
  const left = page.suspects.filter((one) => one.state === "open").length;
  const rest = page.suspects.length ? ` ${left} of ${page.suspects.length} findings are open.` : "";
  find("#verdict").textContent = sentence + rest;
  find("#cases").hidden = !page.suspects.length;
  find("#only-open-label").hidden = !page.suspects.length;
}

let sentence = "";

async function load() {
  const found = await get("/api/check");
  page.suspects = found.suspects;
  sentence = found.sentence;
  showVerdict(sentence);
  const still = page.suspects.some((one) => one.number === page.chosen);
  const first = page.suspects.find((one) => one.state === "open") ?? page.suspects[0];
  if (!still) page.chosen = null;
  if (page.suspects.length) await choose(still ? page.chosen : first.number);
  else find("#case").hidden = true;
}

const choose = latest(async (number) => {
  page.chosen = number;
  showList();
  await trying(async () => {
    page.close = await get(`/api/check/${number}`);
    await showCase();
  });
});

async function showCase() {
  const { suspect, points, mend } = page.close;
  find("#case").hidden = false;
  find("#case-name").textContent = suspect.name;
  find("#case-reason").textContent = suspect.reason;
  const wrong = suspect.landmarks.join(",");
  find("#open").href = `/annotate?image=${suspect.index}${wrong ? `&points=${wrong}` : ""}`;
  find("#mend").disabled = !suspect.mendable || suspect.state !== "open";
  find("#mend").title = suspect.mendable ? "" : "Nothing is known about where these points should be: open the image in Annotate.";
  find("#accept").disabled = suspect.state !== "open" && suspect.state !== "accepted";
  find("#accept").setAttribute("aria-pressed", String(suspect.state === "accepted"));
  find("#undo").disabled = suspect.state !== "mended" && suspect.state !== "accepted";
  find("#after-figure").hidden = !mend;
  const mended = suspect.state === "mended";
  find("#before-caption").textContent = suspect.state === "open" || suspect.state === "accepted" ? "current" : "before";
  find("#after-caption").textContent = mended ? "mended, current" : "mended";
  find(".pair").classList.toggle("single", !mend);
  await draw(suspect, points, mend);
}

async function draw(suspect, points, mend) {
  const image = await picture(suspect.index);
  if (page.close?.suspect.number !== suspect.number) return;
  const { width } = page.close;
  const marked = suspect.landmarks.length ? suspect.landmarks : points.map((_, k) => k);
  const shapes = mend ? [points, mend] : [points];
  const box = suspect.landmarks.length ? boxNear(marked, ...shapes) : boxAround(...shapes);
  const common = { image, width, box, marked, names: page.names };
  drawPoints(find("#before"), { ...common, points });
  find("#before").setAttribute("aria-label", `${suspect.name} with its current points. ${suspect.reason}`);
  if (mend) {
    drawPoints(find("#after"), { ...common, points: mend, from: points, good: true });
    find("#after").setAttribute("aria-label", `${suspect.name} with its points once mended.`);
  }
}

// Replaces a suspect by what the server says about it now, and goes on to the next that is open.
function settled(now, goOn) {
  page.suspects = page.suspects.map((one) => (one.number === now.number ? now : one));
  showVerdict(sentence);
  const after = page.suspects.findIndex((one) => one.number === now.number);
  const next =
    page.suspects.slice(after + 1).find((one) => one.state === "open") ?? page.suspects.find((one) => one.state === "open");
  return choose(goOn && next ? next.number : now.number);
}

const chosen = () => page.close?.suspect;

async function mend() {
  if (!chosen() || find("#mend").disabled) return;
  await trying(async () => settled(await send("POST", `/api/check/${chosen().number}/mend`, { client }), true));
}

async function accept() {
  if (!chosen() || find("#accept").disabled) return;
  const accepted = chosen().state !== "accepted";
  const path = `/api/check/${chosen().number}/accept`;
  await trying(async () => settled(await send("POST", path, { accepted }), accepted));
}

async function undo() {
  const one = chosen();
  if (!one || find("#undo").disabled) return;
  if (one.state === "accepted") return accept();
  await trying(async () => {
    await send("POST", `/api/images/${one.index}/undo`, { client });
    await settled((await get(`/api/check/${one.number}`)).suspect, false);
  });
}

function step(by) {
  const list = shown();
  const at = list.findIndex((one) => one.number === page.chosen);
  const to = list[Math.min(Math.max(at + by, 0), list.length - 1)];
  if (to) choose(to.number);
}

async function run() {
  find("#run").disabled = true;
  const job = await trying(() => send("POST", "/api/check"));
  if (!job) find("#run").disabled = false;
}

// The server tells of the work as it goes on, also of a check that another tab has begun.
function showWork(job) {
  if (job.title !== TITLE) return;
  page.job = job;
  const running = job.state === "running";
  find("#run").disabled = running;
  find("#stop").hidden = !running;
  const bar = find("#progress");
  bar.hidden = !running;
  bar.max = Math.max(job.total, 1);
  bar.value = job.done;
  if (job.state === "stopped") say("The check was stopped.");
}

const suspectsShown = () => !find("#suspects").hidden;

function show(part) {
  for (const name of ["suspects", "annotators"]) {
    find(`#${name}`).hidden = name !== part;
    find(`#show-${name}`).setAttribute("aria-pressed", String(name === part));
  }
  dispatchEvent(new Event("resize"));
}

async function start() {
  const [project, jobs] = await Promise.all([get("/api/project"), get("/api/jobs")]);
  page.names = project.names;
  const running = jobs.find((job) => job.title === TITLE && job.state === "running");
  if (running) showWork(running);
  const annotators = startAnnotators(page.names);
  find("#show-suspects").addEventListener("click", () => show("suspects"));
  find("#show-annotators").addEventListener("click", () => show("annotators"));
  find("#run").addEventListener("click", run);
  find("#stop").addEventListener("click", () => page.job && trying(() => send("DELETE", `/api/jobs/${page.job.id}`)));
  find("#mend").addEventListener("click", mend);
  find("#accept").addEventListener("click", accept);
  find("#undo").addEventListener("click", undo);
  find("#previous").addEventListener("click", () => step(-1));
  find("#next").addEventListener("click", () => step(1));
  find("#only-open").addEventListener("change", showList);
  const either = (ours, theirs) => () => (suspectsShown() ? ours() : theirs?.());
  addShortcuts([
    { keys: "J", what: "next", does: either(() => step(1), () => annotators.step(1)) },
    { keys: "K", what: "previous", does: either(() => step(-1), () => annotators.step(-1)) },
    { keys: "M", what: "mend: move the points to where they should be", does: either(mend) },
    { keys: "A", what: "accept: the annotation is correct", does: either(accept) },
    { keys: "U", what: "undo changes to this annotation", does: either(undo) },
    {
      keys: "O",
      what: "open the image in Annotate",
      does: either(
        () => chosen() && location.assign(find("#open").href),
        () => annotators.open(),
      ),
    },
  ]);
  on("job", showWork);
  on("checked", () => trying(load));
  on("changed", latest(async ({ index, client: who }) => {
    if (who !== client && page.suspects.some((one) => one.index === index)) await trying(load);
  }));
  for (const event of ["resize", "themechange"]) {
    addEventListener(event, () => page.close && suspectsShown() && showCase());
  }
  await load();
}

trying(start);
