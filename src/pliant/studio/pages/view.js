// Where an image is on the screen: zoom, pan, mirror. Points are in pixels of the image, with pixel centres at integers.

const LARGEST = 80;
const MARGIN = 24;

export class View {
  scale = 1;
  x = 0;
  y = 0;
  mirror = false;
  stage = { width: 1, height: 1 };
  image = { width: 1, height: 1 };

  get across() {
    return this.mirror ? -this.scale : this.scale;
  }

  toScreen([x, y]) {
    return [this.x + x * this.across, this.y + y * this.scale];
  }

  toImage([x, y]) {
    return [(x - this.x) / this.across, (y - this.y) / this.scale];
  }

  // Whether a point lies in the image.
  shows([x, y]) {
    return x >= -0.5 && y >= -0.5 && x <= this.image.width - 0.5 && y <= this.image.height - 0.5;
  }

  // Whether a point of the image can be seen.
  holds(point) {
    const [x, y] = this.toScreen(point);
    return x >= 0 && y >= 0 && x <= this.stage.width && y <= this.stage.height;
  }

  // The zoom at which all of the image is shown.
  get fitting() {
    const { width, height } = this.stage;
    const free = (length) => Math.max(length - 2 * Math.min(MARGIN, length / 10), 1);
    return Math.min(free(width) / this.image.width, free(height) / this.image.height, LARGEST);
  }

  fit() {
    this.scale = this.fitting;
    this.centre([(this.image.width - 1) / 2, (this.image.height - 1) / 2]);
  }

  centre([x, y]) {
    this.x = this.stage.width / 2 - x * this.across;
    this.y = this.stage.height / 2 - y * this.scale;
  }

  zoom(factor, [x, y] = [this.stage.width / 2, this.stage.height / 2]) {
    const held = this.toImage([x, y]);
    this.scale = Math.min(LARGEST, Math.max(Math.min(this.fitting / 2, 1), this.scale * factor));
    this.x = x - held[0] * this.across;
    this.y = y - held[1] * this.scale;
    this.keepInSight();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.keepInSight();
  }

  flip(mirror) {
    const middle = this.toImage([this.stage.width / 2, this.stage.height / 2]);
    this.mirror = mirror;
    this.centre(middle);
  }

  resize(width, height) {
    const middle = this.toImage([this.stage.width / 2, this.stage.height / 2]);
    const fitted = Math.abs(this.scale / this.fitting - 1) < 1e-6;
    this.stage = { width, height };
    if (fitted) this.fit();
    else this.centre(middle);
  }

  // Some of the image always stays on the stage, so that it cannot be lost.
  keepInSight() {
    const ends = [this.toScreen([-0.5, -0.5]), this.toScreen([this.image.width - 0.5, this.image.height - 0.5])];
    const [left, right] = [Math.min(ends[0][0], ends[1][0]), Math.max(ends[0][0], ends[1][0])];
    const least = 60;
    if (right < least) this.x += least - right;
    if (left > this.stage.width - least) this.x -= left - this.stage.width + least;
    if (ends[1][1] < least) this.y += least - ends[1][1];
    if (ends[0][1] > this.stage.height - least) this.y -= ends[0][1] - this.stage.height + least;
  }

  // Pans just far enough that a point of the image can be seen.
  reveal(point) {
    const [x, y] = this.toScreen(point);
    const beyond = (at, length) => (at < MARGIN * 2 ? MARGIN * 2 - at : Math.min(0, length - MARGIN * 2 - at));
    this.x += beyond(x, this.stage.width);
    this.y += beyond(y, this.stage.height);
  }
}
