// Controls that train a model on what is finished; it is background work, and pages are told when it is there.

import { send } from "./api.js";
import { element } from "./dom.js";
import { download } from "./downloading.js";
import { say, trying } from "./shell.js";

const EFFORTS = { quick: "quickly", best: "as well as possible" };

export function trainingControls({ existing }) {
  const effort = element(
    "select",
    { "aria-label": "How to train" },
    Object.entries(EFFORTS).map(([value, words]) => element("option", { value }, words)),
  );
  const train = () =>
    trying(async () => {
      await send("POST", "/api/models", { effort: effort.value });
      say("A model is being trained. This page will show it when it is ready.");
    });
  return element(
    "div",
    { class: "row training" },
    element("button", { type: "button", onclick: train }, existing ? "Train again" : "Train a model"),
    effort,
    existing ? element("button", { type: "button", onclick: () => trying(() => download("/api/models/current")) }, "Download") : null,
  );
}
