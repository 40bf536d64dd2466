// Which rows of a long list are in view. Browsers draw no element that is higher than some millions of pixels, so that
// a list that would be higher is scrolled through in larger steps.

const HIGHEST = 6_000_000;

export class ScrollWindow {
  constructor(scroller, spacer, onmove) {
    this.scroller = scroller;
    this.spacer = spacer;
    this.rows = 0;
    this.rowHeight = 1;
    let asked = false;
    scroller.addEventListener(
      "scroll",
      () => {
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => {
          asked = false;
          onmove();
        });
      },
      { passive: true },
    );
  }

  resize(rows, rowHeight, above = 0) {
    this.rows = rows;
    this.rowHeight = rowHeight;
    this.above = above;
    this.spacer.style.height = `${Math.min(rows * rowHeight, HIGHEST) + above}px`;
  }

  get viewed() {
    return Math.max(1, this.scroller.clientHeight - this.above);
  }

  get scale() {
    const real = this.rows * this.rowHeight - this.viewed;
    const drawn = Math.min(this.rows * this.rowHeight, HIGHEST) - this.viewed;
    return drawn > 0 ? Math.max(1, real / drawn) : 1;
  }

  // Pixels of the whole list above the first that is in view.
  get top() {
    return this.scroller.scrollTop * this.scale;
  }

  // The first and the row after the last that are in view, with some more on both sides.
  range(more = 1) {
    const first = Math.floor(this.top / this.rowHeight) - more;
    const last = Math.ceil((this.top + this.viewed) / this.rowHeight) + more;
    return [Math.max(0, first), Math.min(this.rows, last)];
  }

  // Where a row is drawn in the spacer.
  place(row) {
    return row * this.rowHeight - this.top + this.scroller.scrollTop;
  }

  reveal(row) {
    const low = row * this.rowHeight;
    const high = low + this.rowHeight;
    if (low < this.top) this.scroller.scrollTop = low / this.scale;
    else if (high > this.top + this.viewed) this.scroller.scrollTop = (high - this.viewed) / this.scale;
  }
}
