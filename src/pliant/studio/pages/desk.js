// What the page works on, in one place: the project, the open image and its marks, the view, the selection. Whoever
// changes something calls `changed`, and all that shows it is drawn once, in the next frame.

import { View } from "./view.js";

const REMEMBERED = ["loupe", "crosshair", "ellipses", "labels", "follow", "mirror", "order"];

export class Desk extends EventTarget {
  project = { names: [], curves: [], read_only: "", count: 0, done: 0, model: null };
  image = null;
  marks = null;
  picture = null;
  view = new View();
  outbox = null;

  tool = "points";
  selection = new Set();
  active = null; // the landmark that keys and clicks are about
  highlighted = new Set();
  trail = []; // landmarks that the keyboard has gone through
  hover = null;
  cursor = null; // in the image, moved by pointer or keys
  byKeyboard = false;
  touching = false;
  box = null;
  bar = null;
  line = [];
  curve = null;
  gesture = null;
  undoing = Promise.resolve();
  options = { loupe: false, crosshair: false, ellipses: false, labels: false, follow: true, mirror: false, order: "model" };

  constructor() {
    super();
    try {
      Object.assign(this.options, JSON.parse(localStorage.getItem("pliant-options") ?? "{}"));
    } catch {
      // Settings that cannot be read are as good as none.
    }
    this.view.mirror = this.options.mirror;
  }

  get readOnly() {
    return this.project.read_only;
  }

  get canEdit() {
    return Boolean(this.marks && this.picture && !this.readOnly);
  }

  // The landmark that a click would place: the one that was chosen, or else the first that is missing.
  get due() {
    const { marks, active } = this;
    if (!marks) return null;
    return active !== null && marks.missing.includes(active) ? active : marks.nextMissing();
  }

  name(landmark) {
    return this.project.names[landmark];
  }

  // Its name in a sentence, where a bare number would say too little.
  called(landmark, word = "landmark") {
    const name = this.name(landmark);
    return /^\d+$/.test(name) ? `${word} ${name}` : name;
  }

  setOption(name, value) {
    this.options[name] = value;
    const kept = Object.fromEntries(REMEMBERED.map((one) => [one, this.options[one]]));
    try {
      localStorage.setItem("pliant-options", JSON.stringify(kept));
    } catch {
      // It holds for this page then.
    }
    this.changed(name === "mirror");
  }

  // `picture` says whether the image itself must be drawn again, which costs more than what lies on it.
  changed(picture = false) {
    this.pictureChanged ||= picture;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const detail = { picture: this.pictureChanged };
      this.pictureChanged = false;
      this.dispatchEvent(new CustomEvent("draw", { detail }));
    });
  }

  // Words for screen readers, and for the line below the image.
  tell(words) {
    this.dispatchEvent(new CustomEvent("told", { detail: words }));
  }
}
