// How the image is shown: switches that are remembered, brightness and contrast.

import { find } from "./dom.js";

const SWITCHES = { loupe: "Loupe", crosshair: "Crosshair", ellipses: "Uncertainty", labels: "All names", follow: "Model follows", mirror: "Mirror" };

export function listenToSettings(desk) {
  // A switch may be there twice: in the bar where there is room, in the menu where there is not.
  const boxes = [...document.querySelectorAll("[data-option]")];
  const showSwitches = () => boxes.forEach((box) => (box.checked = desk.options[box.dataset.option]));
  const set = (name, value) => {
    if (name === "mirror") desk.view.flip(value);
    desk.setOption(name, value);
    showSwitches();
  };
  for (const box of boxes) box.addEventListener("change", () => set(box.dataset.option, box.checked));
  showSwitches();

  const [brightness, contrast] = [find("#brightness"), find("#contrast")];
  const showLight = () => {
    const filter = `brightness(${brightness.value}%) contrast(${contrast.value}%)`;
    for (const canvas of [find("#picture"), find("#loupe-view")]) canvas.style.filter = filter;
  };
  brightness.addEventListener("input", showLight);
  contrast.addEventListener("input", showLight);
  find("#plain").addEventListener("click", () => {
    brightness.value = contrast.value = 100;
    showLight();
  });
  addEventListener("click", (event) => {
    if (!event.target.closest("#view-menu")) find("#view-menu").open = false;
  });

  return function toggle(name) {
    set(name, !desk.options[name]);
    desk.tell(`${SWITCHES[name]} ${desk.options[name] ? "on" : "off"}`);
  };
}
