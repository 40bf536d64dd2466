// Up to a few algorithms to be compared: a list of choices, each with what is known about it.

import { element } from "./dom.js";

export function algorithmChoice(list, another, algorithms, most) {
  const rows = [];

  function add() {
    const taken = rows.map(({ select }) => select.value);
    const free = algorithms.find(({ name }) => !taken.includes(name)) ?? algorithms[0];
    const select = element(
      "select",
      { onchange: () => describe() },
      algorithms.map(({ name, words }, k) =>
        element("option", { value: name, selected: name === free.name }, k ? `${words} (${name})` : `The model’s own: ${words}`),
      ),
    );
    const about = element("p", {});
    const describe = () => {
      const { also, published, words } = algorithms.find(({ name }) => name === select.value);
      select.title = words;
      about.textContent = [also, published].filter(Boolean).join(". ");
      about.hidden = !about.textContent;
    };
    const remove = element("button", { type: "button", class: "quiet", onclick: () => drop(row) }, "×");
    const node = element("div", { class: "algorithm" }, element("span", { class: "swatch" }), select, remove, about);
    const row = { node, select, remove };
    rows.push(row);
    describe();
    show();
  }

  function drop(row) {
    rows.splice(rows.indexOf(row), 1);
    show();
    another.focus();
  }

  function show() {
    rows.forEach(({ node, select, remove }, k) => {
      node.firstChild.className = `swatch swatch-${k}`;
      select.setAttribute("aria-label", `Algorithm ${k + 1}`);
      remove.setAttribute("aria-label", `Remove algorithm ${k + 1}`);
      remove.hidden = rows.length === 1;
    });
    list.replaceChildren(...rows.map(({ node }) => node));
    another.hidden = rows.length >= most;
  }

  another.addEventListener("click", () => {
    add();
    rows.at(-1).select.focus();
  });
  add();
  return { names: () => [...new Set(rows.map(({ select }) => select.value))] };
}
