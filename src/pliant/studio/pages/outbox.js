// Changes on their way to the server. Each is kept in the browser's storage until the server has confirmed it, and is
// sent again after trouble; the server counts a change that comes twice once.

import { client, send, get, Unreachable } from "./api.js";

const PREFIX = "pliant-change:";
const LONGEST_WAIT = 8000;
const MOST_WHEN_LEAVING = 60000;

export class Outbox extends EventTarget {
  // `project` tells collections apart that were open at the same address, one after the other.
  constructor(project) {
    super();
    this.project = project;
    this.entries = stored(project);
    this.sending = null;
    this.wait = 0;
    this.timer = null;
    this.away = false;
    addEventListener("pagehide", () => this.sendWhenLeaving());
    addEventListener("online", () => this.retry());
  }

  // Keeps and sends a change of an image; returns the change with its id.
  add(image, change) {
    const kept = { id: crypto.randomUUID(), ...change };
    const { index, name } = image;
    const entry = { index, name, project: this.project, at: performance.timeOrigin + performance.now(), change: kept };
    entry.key = PREFIX + kept.id;
    this.entries.push(entry);
    keep(entry);
    this.tell();
    this.run();
    return kept;
  }

  of(index) {
    return this.entries.filter((entry) => entry.index === index && !entry.refused).map(({ change }) => change);
  }

  get waiting() {
    return this.entries.filter((entry) => !entry.refused).length;
  }

  get refused() {
    return this.entries.filter((entry) => entry.refused);
  }

  // Resolves once nothing is under way; false if changes still wait because the server is away.
  async settled() {
    this.run();
    while (this.sending) await this.sending;
    return this.waiting === 0;
  }

  retry() {
    clearTimeout(this.timer);
    this.timer = null;
    this.wait = 0;
    this.run();
  }

  retryRefused() {
    for (const entry of this.entries) delete entry.refused;
    this.retry();
  }

  discardRefused() {
    for (const entry of this.refused) this.remove(entry);
    this.tell();
  }

  run() {
    if (this.sending || this.timer) return;
    this.sending = this.sendAll().finally(() => {
      this.sending = null;
      this.tell();
    });
  }

  async sendAll() {
    for (let batch = this.batch(); batch.length; batch = this.batch()) {
      try {
        const image = await this.post(batch);
        batch.forEach((entry) => this.remove(entry));
        this.wait = 0;
        this.away = false;
        this.tell("acknowledged", image);
      } catch (error) {
        if (error instanceof Unreachable || error.status >= 500) return this.waitAndRetry();
        // One bad change must not hold up its neighbours.
        if (batch.length > 1) batch.forEach((entry) => (entry.alone = true));
        else batch[0].refused = error.message;
      }
      this.tell();
    }
    return undefined;
  }

  // The oldest changes that belong to one image.
  batch() {
    const open = this.entries.filter((entry) => !entry.refused);
    if (open[0]?.alone) return [open[0]];
    const end = open.findIndex((entry) => entry.index !== open[0].index || entry.alone);
    return end < 0 ? open : open.slice(0, end);
  }

  async post(batch) {
    const { index, name } = batch[0];
    // After a restart the same number may be another image: look before marks end up in the wrong one.
    if (batch.some((entry) => entry.old)) {
      const there = await get(`/api/images/${index}`);
      if (there.name !== name) throw new Error(`image ${index + 1} is ${there.name} now, no longer ${name}.`);
    }
    batch.forEach((entry) => (entry.old = true));
    const body = asRequest(batch);
    return send("POST", `/api/images/${index}/changes`, body, {
      keepalive: JSON.stringify(body).length < MOST_WHEN_LEAVING,
    });
  }

  waitAndRetry() {
    this.away = true;
    this.wait = Math.min(Math.max(2 * this.wait, 250), LONGEST_WAIT);
    this.timer = setTimeout(() => {
      this.timer = null;
      this.run();
    }, this.wait);
  }

  // Whatever waits goes out at once, also what is under way: the page may be gone before it is answered.
  sendWhenLeaving() {
    const own = this.entries.filter((entry) => !entry.inherited && !entry.refused);
    for (const [index, batch] of grouped(own)) {
      fetch(`/api/images/${index}/changes`, {
        method: "POST",
        keepalive: true,
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(asRequest(batch)),
      }).catch(() => {});
    }
  }

  remove(entry) {
    this.entries = this.entries.filter((other) => other !== entry);
    try {
      localStorage.removeItem(entry.key);
    } catch {
      // Without storage there is nothing to take out.
    }
  }

  tell(type = "state", detail = null) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

const asRequest = (batch) => ({ client, changes: batch.map(({ change }) => change) });

function keep(entry) {
  try {
    localStorage.setItem(entry.key, JSON.stringify(entry));
  } catch {
    // No storage, or no room in it: the change is still in memory and on its way.
  }
}

// What an earlier page of the same collection could not send.
function stored(project) {
  const found = [];
  try {
    for (let k = 0; k < localStorage.length; k++) {
      const key = localStorage.key(k);
      if (!key.startsWith(PREFIX)) continue;
      const entry = JSON.parse(localStorage.getItem(key));
      if (entry.project === project) found.push({ ...entry, old: true, inherited: true, refused: undefined });
    }
  } catch {
    return [];
  }
  return found.sort((one, other) => one.at - other.at);
}

function grouped(entries) {
  const groups = new Map();
  for (const entry of entries) groups.set(entry.index, [...(groups.get(entry.index) ?? []), entry]);
  return groups;
}
