// A form made of what the library declares: a control for each kind of setting, its default, and its help.

import { element } from "./dom.js";

const titled = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

function control({ name, kind, choices, default: usual }, described) {
  const shared = { id: `setting-${name}`, "aria-describedby": described };
  if (kind === "flag") return element("input", { ...shared, type: "checkbox", checked: usual === "true" });
  if (kind === "choice") {
    return element("select", shared, choices.map((one) => element("option", { value: one, selected: one === usual }, one)));
  }
  const numeric = kind === "number" || kind === "whole";
  return element("input", {
    ...shared,
    type: numeric ? "number" : "text",
    step: kind === "whole" ? "1" : numeric ? "any" : undefined,
    value: usual === "none" ? "" : usual,
    placeholder: usual === "none" ? "not given" : usual,
  });
}

// `node` holds the controls; values() has what differs from the defaults, texts as the command line takes them.
export function settingsForm(declared, changed) {
  const made = declared.map((one) => {
    const described = `help-${one.name}`;
    const input = control(one, described);
    input.addEventListener("input", changed);
    const row = element(
      "div",
      { class: "setting" },
      element("label", { for: `setting-${one.name}` }, titled(one.name)),
      input,
      element("p", { id: described }, one.help),
    );
    return { one, input, row };
  });
  return {
    nodes: made.map(({ row }) => row),
    values() {
      const given = {};
      for (const { one, input } of made) {
        const flag = one.kind === "flag";
        const value = flag ? String(input.checked) : input.value.trim();
        if (value !== "" && value !== one.default) given[one.name] = flag ? input.checked : value;
      }
      return given;
    },
  };
}
