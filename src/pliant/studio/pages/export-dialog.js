// Downloads what is annotated as one file, in a format for other programs.

import { find } from "./dom.js";
import { download } from "./downloading.js";
import { trying } from "./shell.js";

export function listenToExport() {
  const dialog = find("#export-dialog");
  find("#export").addEventListener("click", () => dialog.showModal());
  find("#export-cancel").addEventListener("click", () => dialog.close());
  find("#export-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    const format = find("#export-format").value;
    const unfinished = find("#export-unfinished").checked;
    trying(() => download(`/api/export?format=${format}&unfinished=${unfinished}`));
  });
}
