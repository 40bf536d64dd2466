// The dialog in which the landmarks of the object are named.

import { send } from "./api.js";
import { objectFrom, textOf } from "./curves.js";
import { find } from "./dom.js";
import { counted } from "./words.js";

export function objectDialog({ saved }) {
  const dialog = find("#object-dialog");
  const names = find("#object-names");
  const summary = find("#object-summary");

  function look() {
    try {
      const object = objectFrom(names.value);
      const curves = object.curves.length ? counted(object.curves.length, "curve") : "no curves";
      say(`${counted(object.names.length, "landmark")}, ${curves}`);
      return object;
    } catch (error) {
      say(error.message, true);
      return null;
    }
  }

  function say(sentence, bad = false) {
    summary.textContent = sentence;
    summary.classList.toggle("bad-text", bad);
  }

  names.addEventListener("input", look);
  find("#object-cancel").addEventListener("click", () => dialog.close());
  find("#object-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const object = look();
    if (!object) return;
    if (!object.names.length) {
      say("Enter at least one landmark.", true);
      return;
    }
    try {
      await send("PUT", "/api/object", object);
      dialog.close();
      saved();
    } catch (error) {
      say(error.message, true);
    }
  });

  return (object) => {
    names.value = textOf(object);
    look();
    if (!dialog.open) dialog.showModal();
    names.focus();
  };
}
