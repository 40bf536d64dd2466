// Elements from words: element("button", { class: "quiet", onclick: save }, "Save"). Text is always text, never HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const find = (selector, within = document) => within.querySelector(selector);

// At most one call of a slow function under way; of the calls meanwhile, the last one follows.
export function latest(slow) {
  let busy = false;
  let waiting = null;
  return async function call(...given) {
    if (busy) {
      waiting = given;
      return;
    }
    busy = true;
    try {
      await slow(...given);
    } finally {
      busy = false;
      if (waiting) {
        const next = waiting;
        waiting = null;
        call(...next);
      }
    }
  };
}
