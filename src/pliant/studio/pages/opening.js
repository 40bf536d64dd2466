// Opening images: the picture, the marks, the model's proposal; which image is next, and finishing one.

import { get, send } from "./api.js";
import { keptDraft, setDraft } from "./drafts.js";
import { change, takeImage } from "./editing.js";
import { Marks, UNSEEN, markAt } from "./marks.js";
import { say, trying } from "./shell.js";

// Larger pictures are made smaller by the server; points are in pixels of the full size all the same.
const MOST_PIXELS = 80e6;

// An address has only so much room.
const MOST_SKIPPED = 500;

export class Opening {
  constructor(desk, { opened }) {
    this.desk = desk;
    this.opened = opened;
    this.count = 0;
    this.skipped = new Set();
    this.ahead = null; // { index, promise of a picture }
    this.leaving = null; // ends requests of an image that was left
  }

  // Opens an image; points may be named that deserve a look.
  async open(index, { reason = "", points = [] } = {}) {
    const { desk } = this;
    const turn = ++this.count;
    this.leaving?.abort();
    this.leaving = new AbortController();
    const image = await trying(() => get(`/api/images/${index}`));
    if (!image || turn !== this.count) return;
    desk.picture?.close();
    Object.assign(desk, { image, picture: null, highlighted: new Set(points), selection: new Set(points.slice(0, 1)), hover: null });
    Object.assign(desk, { cursor: null, byKeyboard: false, gesture: null, box: null, bar: null, line: [], trail: [], trouble: image.trouble ?? "" });
    desk.marks = new Marks(image, desk.outbox.of(index));
    desk.active = points[0] ?? desk.marks.nextMissing();
    desk.view.image = { width: image.width || 1, height: image.height || 1 };
    desk.view.fit();
    this.opened(reason);
    this.propose(turn);
    try {
      if (desk.trouble) throw new Error(desk.trouble);
      const picture = await this.picture(image, this.leaving.signal);
      if (turn !== this.count) return picture.close();
      desk.picture = picture;
    } catch (error) {
      if (turn !== this.count) return undefined;
      desk.trouble = error.message;
    }
    desk.changed(true);
    this.opened(reason);
    this.lookAhead();
    return undefined;
  }

  async picture(image, signal) {
    const { ahead } = this;
    this.ahead = null;
    if (ahead?.index === image.index) return ahead.picture;
    ahead?.picture.then((picture) => picture.close(), () => {});
    return fetched(image, signal);
  }

  // The next picture is there before it is asked for. One at most: memory stays as it is however many are opened.
  async lookAhead() {
    const turn = this.count;
    const next = await this.next().catch(() => null);
    if (!next || turn !== this.count || this.ahead) return;
    const picture = get(`/api/images/${next.index}`).then(fetched);
    picture.catch(() => {});
    this.ahead = { index: next.index, picture };
  }

  // Asks the model for its opinion of landmarks that nobody has looked at.
  async propose(turn = this.count) {
    const { desk } = this;
    const { marks, image } = desk;
    const { draft: before } = marks;
    if (marks.laidDown) return undefined;
    const kept = keptDraft(desk);
    if (kept && !marks.finished) return setDraft(desk, kept);
    if (desk.readOnly || desk.trouble || marks.finished || !marks.states.includes(UNSEEN)) return undefined;
    let proposal = await get(`/api/images/${image.index}/proposal`).catch(() => null);
    if (!proposal || turn !== this.count || marks.draft !== before) return undefined;
    if (marks.placed) {
      // What a person has placed already tells the model more.
      const points = proposal.points.map((point, landmark) => marks.points[landmark] ?? point);
      proposal = await send("POST", `/api/images/${image.index}/refit`, { points, fixed: marks.fixed }).catch(() => proposal);
      if (turn !== this.count || marks.draft !== before) return undefined;
    }
    setDraft(desk, { ...proposal, source: "model" });
    const sure = proposal.reason || `The model proposes ${marks.drafts.length} points.`;
    desk.tell(sure);
    return undefined;
  }

  // A better model has something to say of an image that nobody has begun with; hands that work are not disturbed.
  proposeAgain() {
    const { marks, selection, gesture } = this.desk;
    const draft = marks?.draft?.source ?? "model";
    if (marks && draft === "model" && !marks.placed && !selection.size && !gesture) this.propose();
  }

  next() {
    const after = this.desk.image?.index ?? -1;
    const skipped = [...this.skipped].slice(-MOST_SKIPPED).join(",");
    return get(`/api/next?after=${after}&order=${this.desk.options.order}&skipped=${skipped}`);
  }

  // Goes to the image that is next; one that was skipped in this session comes back only when no other is left.
  async goOn() {
    await trying(async () => {
      const next = await this.next();
      if (!next) say("All images are finished.", "good");
      else if (next.index === this.desk.image?.index) say("This is the only image left.");
      else await this.open(next.index, { reason: next.reason });
    });
  }

  skip() {
    if (this.desk.image) this.skipped.add(this.desk.image.index);
    return this.goOn();
  }

  // Accepts all points that are shown, and goes on. Landmarks that are nowhere must be meant to be.
  async finish() {
    const { desk } = this;
    const { marks, image } = desk;
    if (!marks) return undefined;
    if (!desk.canEdit || (marks.finished && !marks.drafts.length)) return this.goOn();
    if (marks.laidDown && marks.draft.source === "template" && !marks.draft.touched) {
      say("Nothing of the mean shape was moved yet. Drag its handles and points into place, then press Enter. Escape removes it.");
      return undefined;
    }
    const missing = marks.missing;
    if (missing.length && this.warned !== image.index) {
      this.warned = image.index;
      const names = missing.slice(0, 3).map((landmark) => desk.name(landmark)).join(", ");
      const [what, each, they] = missing.length === 1
        ? [`${desk.called(missing[0], "Landmark")} is not placed yet`, "it", "it is"]
        : [`${missing.length} of ${marks.count} landmarks are not placed yet (${names}${missing.length > 3 ? ", …" : ""})`, "each", "they are"];
      say(`${what}. Click where ${each} is, press X if ${they} absent, or press Enter again to finish anyway.`);
      return undefined;
    }
    const accepted = marks.drafts.map((landmark) => [landmark, markAt(marks.at(landmark))]);
    change(desk, Object.fromEntries(accepted), { finished: true });
    setDraft(desk, null);
    desk.tell(`${image.name} finished`);
    this.skipped.delete(image.index);
    // The choice of the next image should know of this one; if the server is away, it cannot be made anyway.
    if (await desk.outbox.settled()) await this.goOn();
    return undefined;
  }

  // Takes what another page has made of the open image; one's own changes are known once they are confirmed.
  async reload(revision = Infinity) {
    const { desk } = this;
    if (!desk.image) return;
    const { index } = desk.image;
    await desk.outbox.settled();
    if (desk.image?.index === index && desk.image.revision >= revision) return;
    const image = await get(`/api/images/${index}`).catch(() => null);
    if (!image || desk.image?.index !== index || image.revision === desk.image.revision) return;
    this.take(image);
  }

  // Shows what the server has now of the open image.
  take(image) {
    const { desk } = this;
    if (desk.image?.index !== image.index || image.states.length !== desk.marks.count) return;
    takeImage(desk, image);
  }
}

async function fetched(image, signal) {
  const share = Math.sqrt(MOST_PIXELS / Math.max(image.width * image.height, 1));
  const query = share < 1 ? `?width=${Math.floor(image.width * share)}` : "";
  const response = await fetch(`/api/images/${image.index}/picture${query}`, { signal });
  if (!response.ok) {
    const content = await response.json().catch(() => null);
    throw new Error(content?.error ?? `The picture of ${image.name} cannot be shown.`);
  }
  const blob = await response.blob();
  return createImageBitmap(blob).catch(() => {
    throw new Error(`${image.name}: the browser cannot show this picture.`);
  });
}
