// Rows of sliders: native inputs with a label, the value in words, and a button that plays the mode.

import { element } from "./dom.js";

const signed = (value) => (value > 0 ? `+${value.toFixed(2)}` : value < 0 ? `−${(-value).toFixed(2)}` : "0");

// A row for a mode; `changed(value)` is called as the slider moves, `play()` when its button is pressed.
export function modeRow({ what, number, share, limit, changed, play }) {
  const name = `${what} mode ${number}`;
  const input = element("input", {
    type: "range", min: String(-limit), max: String(limit), step: "0.01", value: "0", "aria-label": name,
    title: `${name}: double-click for its mean`,
  });
  const output = element("output", {}, "0");
  const button = element("button", { type: "button", class: "quiet", "aria-label": `Play ${name}`, onclick: play }, "▶");
  const row = element(
    "div",
    { class: "slider-row" },
    button,
    element("span", {}, `Mode ${number}`),
    input,
    output,
    element("span", { class: "share", title: "share of the variance" }, share),
  );
  const show = () => {
    output.textContent = signed(input.valueAsNumber);
    input.setAttribute("aria-valuetext", `${signed(input.valueAsNumber)} standard deviations`);
  };
  const set = (value) => {
    input.value = String(value);
    show();
    return input.valueAsNumber;
  };
  input.addEventListener("input", () => {
    show();
    changed(input.valueAsNumber);
  });
  input.addEventListener("dblclick", () => changed(set(0)));
  show();
  return {
    row,
    set,
    setLimit(reach) {
      [input.min, input.max] = [String(-reach), String(reach)];
      show();
      return input.valueAsNumber;
    },
    setPlaying(on) {
      row.classList.toggle("playing", on);
      button.textContent = on ? "❚❚" : "▶";
      button.setAttribute("aria-label", `${on ? "Pause" : "Play"} ${name}`);
    },
  };
}

export function poseRow({ name, min, max, step, start, unit, changed }) {
  const written = (value) => `${Number(value.toFixed(2))}${unit}`;
  const input = element("input", { type: "range", min: String(min), max: String(max), step: String(step), value: String(start), "aria-label": name });
  const output = element("output", {}, written(start));
  const show = () => {
    output.textContent = written(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const set = (value) => {
    input.value = String(value);
    show();
  };
  input.addEventListener("input", () => {
    show();
    changed(input.valueAsNumber);
  });
  input.addEventListener("dblclick", () => {
    set(start);
    changed(start);
  });
  show();
  return { row: element("div", { class: "slider-row pose" }, element("span", {}, name), input, output), set, start };
}
