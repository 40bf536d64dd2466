// Asks how long a bar is that was drawn in the image.

import { find } from "./dom.js";
import { rounded } from "./marks.js";

export function scaleDialog({ saved, left }) {
  const dialog = find("#scale-dialog");
  const length = find("#scale-length");
  const unit = find("#scale-unit");
  let bar = null;

  find("#scale-remove").addEventListener("click", () => {
    saved(false);
    dialog.close();
  });
  find("#scale-cancel").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => left());
  find("#scale-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = Number(length.value);
    if (!(value > 0)) return;
    saved({ start: bar.start.map(rounded), end: bar.end.map(rounded), length: value, unit: unit.value });
    dialog.close();
  });

  return (drawn, known) => {
    bar = drawn;
    const pixels = Math.hypot(bar.end[0] - bar.start[0], bar.end[1] - bar.start[1]);
    if (pixels < 2) {
      left();
      return;
    }
    find("#scale-pixels").textContent = `${pixels.toFixed(1)} pixels in the image`;
    find("#scale-remove").hidden = !known;
    if (known) [length.value, unit.value] = [known.length, known.unit];
    dialog.showModal();
    length.focus();
  };
}
