// Rows of a result from the server, a window at a time: those that are looked at, and a few more that were.

import { get } from "./api.js";

const CHUNK = 60;
const KEPT = 40;
const AT_ONCE = 2;
const WAITING = 6;

export class Rows {
  // `query` says which rows and in which order; `onload` is called when rows have come, `onfail` with an Error.
  constructor(id, query, { points = false, onload, onfail }) {
    this.id = id;
    this.query = new URLSearchParams({ ...query, ...(points ? { points: "true" } : {}) });
    this.onload = onload;
    this.onfail = onfail;
    this.total = null;
    this.chunks = new Map();
    this.waiting = [];
    this.busy = new Set();
    this.ended = false;
  }

  // The row at a place, or null until it is there.
  at(place) {
    const number = Math.floor(place / CHUNK);
    const chunk = this.chunks.get(number);
    if (!chunk) {
      this.ask(number);
      return null;
    }
    this.chunks.delete(number);
    this.chunks.set(number, chunk);
    return chunk[place % CHUNK] ?? null;
  }

  // The row at a place, once it is there.
  async fetched(place) {
    const number = Math.floor(place / CHUNK);
    if (!this.chunks.has(number)) await this.load(number);
    return this.at(place);
  }

  begin() {
    this.ask(0);
  }

  end() {
    this.ended = true;
    this.waiting = [];
  }

  ask(number) {
    if (this.ended || this.busy.has(number)) return;
    this.waiting = [number, ...this.waiting.filter((other) => other !== number)].slice(0, WAITING);
    this.go();
  }

  go() {
    while (this.busy.size < AT_ONCE && this.waiting.length) {
      const number = this.waiting.shift();
      this.load(number).catch((error) => !this.ended && this.onfail(error));
    }
  }

  async load(number) {
    this.busy.add(number);
    try {
      const found = await get(
        `/api/results/${this.id}/rows?first=${number * CHUNK}&count=${CHUNK}&${this.query}`,
      );
      this.total = found.total;
      this.chunks.set(number, found.rows);
      while (this.chunks.size > KEPT) this.chunks.delete(this.chunks.keys().next().value);
    } finally {
      this.busy.delete(number);
    }
    if (this.ended) return;
    this.onload();
    this.go();
  }
}
