// The tool that draws a curve: clicks make a line, and its end puts the points of the curve along it.

import { element, find } from "./dom.js";
import { evenOut, placeCurve } from "./editing.js";

export class CurveTool {
  constructor(desk) {
    this.desk = desk;
  }

  // Takes the curve of the landmark that is due, or the first one that is not complete, and shows its options.
  begin() {
    const { desk } = this;
    const { curves } = desk.project;
    desk.curve =
      curves.find(({ points }) => points.includes(desk.active)) ??
      curves.find(({ points }) => points.some((point) => !desk.marks?.at(point))) ??
      curves[0];
    const choice = element(
      "select",
      { onchange: (event) => (desk.curve = curves[event.target.value]) },
      curves.map((curve, k) => element("option", { value: String(k), selected: curve === desk.curve }, `${curve.name} (${curve.points.length} points)`)),
    );
    find("#tool-options").replaceChildren(
      element("label", {}, "Curve", choice),
      element("button", { onclick: () => this.end(), title: "End the line (Enter)" }, "End line"),
      element("button", { onclick: () => evenOut(desk, desk.curve), title: "Space the points of this curve evenly" }, "Even out"),
    );
  }

  vertex(point) {
    this.desk.line.push(point);
    this.desk.tell(`point ${this.desk.line.length} of the line`);
    this.desk.changed();
  }

  // The second click of a double click adds no vertex of its own.
  end() {
    const { desk } = this;
    const far = ([ax, ay], [bx, by]) => Math.hypot(bx - ax, by - ay) > 0.5;
    const line = desk.line.filter((point, k) => !k || far(point, desk.line[k - 1]));
    desk.line = [];
    placeCurve(desk, desk.curve, line);
    desk.changed();
  }

  back() {
    this.desk.line.pop();
    this.desk.changed();
  }
}
