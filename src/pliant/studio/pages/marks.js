// What is known of the image that is open: what the server has, changes on their way there, and points that are
// shown but not accepted yet (a draft: from the model, the mean shape, or the previous image).

export const UNSEEN = -1;
export const ABSENT = 0;
export const HIDDEN = 1;
export const VISIBLE = 2;

export const STATES = { [-1]: "not yet reviewed", 0: "absent", 1: "hidden", 2: "visible" };

export class Marks {
  constructor(image, pending = []) {
    this.draft = null;
    this.moving = new Map();
    this.pending = pending;
    this.update(image);
  }

  // Takes what the server has now; changes that it does not know yet and a drag under way stay on top.
  update(image, pending = this.pending) {
    this.image = image;
    this.pending = pending;
    this.points = image.points.map((point) => point && [...point]);
    this.states = [...image.states];
    this.finished = image.finished;
    this.scale = image.scale;
    for (const change of pending) this.apply(change);
  }

  apply(change) {
    for (const [landmark, [x, y, state]] of Object.entries(change.marks ?? {})) {
      this.points[landmark] = x === null ? null : [x, y];
      this.states[landmark] = state;
    }
    this.finished = change.finished ?? this.finished;
    if (change.scale !== undefined) this.scale = change.scale || null;  // false takes the bar away
  }

  add(change) {
    this.pending = [...this.pending, change];
    this.apply(change);
  }

  get count() {
    return this.states.length;
  }

  // Where a landmark is shown, or null.
  at(landmark) {
    return this.moving.get(landmark) ?? this.points[landmark] ?? this.drafted(landmark);
  }

  drafted(landmark) {
    return this.states[landmark] === UNSEEN ? (this.draft?.points[landmark] ?? null) : null;
  }

  isDraft(landmark) {
    return !this.moving.has(landmark) && !this.points[landmark] && this.drafted(landmark) !== null;
  }

  all(rule) {
    return [...this.states.keys()].filter(rule);
  }

  get shown() {
    return this.all((landmark) => this.at(landmark));
  }

  get drafts() {
    return this.all((landmark) => this.isDraft(landmark));
  }

  // Whether points of the mean shape or of another image lie there, which a person has yet to bring into place.
  get laidDown() {
    return Boolean(this.draft) && this.draft.source !== "model" && this.drafts.length > 0;
  }

  get fixed() {
    return this.all((landmark) => this.points[landmark] || this.moving.has(landmark));
  }

  get placed() {
    return this.states.filter((state) => state > ABSENT).length;
  }

  // Landmarks that nobody has looked at, and of which no point is shown either.
  get missing() {
    return this.all((landmark) => this.states[landmark] === UNSEEN && !this.at(landmark));
  }

  // The next missing landmark after one, going round.
  nextMissing(after = -1) {
    const missing = this.missing;
    return missing.find((landmark) => landmark > after) ?? missing[0] ?? null;
  }

  // Points to go through by keyboard: drafts first, the least certain at the front, then the others.
  get sequence() {
    const drafts = new Set(this.drafts);
    const first = (this.draft?.order ?? []).filter((landmark) => drafts.delete(landmark));
    return [...first, ...drafts, ...this.shown.filter((landmark) => !this.isDraft(landmark))];
  }

  // How far off a draft may be, in pixels: the longer half axis of its one-sigma ellipse; null if nobody knows.
  deviation(landmark) {
    const ellipse = this.isDraft(landmark) ? this.ellipse(landmark) : null;
    return ellipse && ellipse.major;
  }

  ellipse(landmark) {
    const covariance = this.draft?.deviations?.[landmark];
    if (!covariance || covariance.some((value) => value === null)) return null;
    const [xx, xy, yy] = covariance;
    const mean = (xx + yy) / 2;
    const spread = Math.hypot((xx - yy) / 2, xy);
    return {
      major: Math.sqrt(Math.max(mean + spread, 0)),
      minor: Math.sqrt(Math.max(mean - spread, 0)),
      angle: Math.atan2(2 * xy, xx - yy) / 2,
    };
  }

  // The larger side of what is shown, against which an uncertainty is large or small.
  get size() {
    const box = boundsOf(this.shown.map((landmark) => this.at(landmark)));
    return box ? Math.max(box.right - box.left, box.bottom - box.top, 1) : 1;
  }
}

export function boundsOf(points) {
  if (!points.length) return null;
  const box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (const [x, y] of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

// Thousandths of a pixel are enough, and keep files short.
export const rounded = (value) => Math.round(value * 1000) / 1000;

export const markAt = ([x, y], state = VISIBLE) => [rounded(x), rounded(y), state];
