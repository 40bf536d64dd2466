// How the image is shown: switches that are remembered, brightness and contrast.

import { find } from "./dom.js";

const SWITCHES = { loupe: "Loupe", crosshair: "Crosshair", ellipses: "Uncertainty", labels: "All names", follow: "Model follows", mirror: "Mirror" };

export function listenToSettings(desk) {
  for (const name of Object.keys(SWITCHES)) {
    const box = find(`#${name}`);
    box.checked = desk.options[name];
    box.addEventListener("change", () => {
      if (name === "mirror") desk.view.flip(box.checked);
      desk.setOption(name, box.checked);
    });
  }

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
    const box = find(`#${name}`);
    box.checked = !box.checked;
    box.dispatchEvent(new Event("change"));
    desk.tell(`${SWITCHES[name]} ${box.checked ? "on" : "off"}`);
  };
}
