"""The page Explore in a browser: what it draws is what the model draws, quickly enough, and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import Studio, draw_collection

from pliant.model import Model

DEVIATIONS = [1.5, -1.0, 0.5], [1.0, -2.0]
"""Along the first modes of shape and of texture."""

DRAW = """async ([low, high, width, height, shape, texture, plain]) => {
  const { instance, seen } = await import("/pages/shape-instance.js");
  const { makeBlender } = await import("/pages/texture-blending.js");
  const { makeMeshPainter } = await import("/pages/mesh-drawing.js");
  const model = await (await fetch("/api/explore")).json();
  const pixels = await (await fetch(`/api/explore/texture?version=${model.version}`)).arrayBuffer();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const mesh = { ...model, width: model.texture.width, height: model.texture.height };
  const painter = makeMeshPainter(canvas, mesh, { plain });
  painter.setTexture(makeBlender(model.texture, pixels)(texture));
  const zoom = (height - 1) / (high - low[1]);
  painter.draw(seen(instance(model, shape), { zoom, shift: [-low[0] * zoom, -low[1] * zoom] }));
  const copy = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
  copy.fillStyle = "white";
  copy.fillRect(0, 0, width, height);
  copy.drawImage(canvas, 0, 0);
  return [painter.kind, [...copy.getImageData(0, 0, width, height).data]];
}"""

FRAMES = """async ([seconds, moving]) => {
  const sliders = ["#shape-rows input", "#texture-rows input"].map((one) => document.querySelector(one));
  const drawn = () => Number(document.querySelector("#stage").dataset.frames);
  const [begun, before] = [performance.now(), drawn()];
  let turns = 0;
  while (performance.now() - begun < 1000 * seconds) {
    for (const slider of moving ? sliders : []) {
      slider.value = 2.5 * Math.sin((performance.now() - begun) / 300);
      slider.dispatchEvent(new Event("input"));
    }
    await new Promise(requestAnimationFrame);
    turns += 1;
  }
  return (1000 * (moving ? drawn() - before : turns)) / (performance.now() - begun);
}"""


@pytest.fixture(scope="module")
def explored(
    start_studio: Callable[..., Studio], model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Studio:
    """A studio with a model of faces."""
    folder = tmp_path_factory.mktemp("explored")
    model.save(folder / "faces.pliant")
    source = draw_collection(folder / "kites", images=1, annotated=0)
    return start_studio(source, "--model", str(folder / "faces.pliant"))


@pytest.fixture
def page(explored: Studio, new_page: Callable[..., Any]) -> Any:
    return opened(new_page(), explored)


def opened(page: Any, studio: Studio, more: str = "") -> Any:
    page.goto(f"{studio.address}/explore{more}")
    page.wait_for_selector("#sliders:not([hidden])")
    return page


def value(page: Any, name: str) -> float:
    return float(page.get_by_label(name, exact=True).input_value())


@pytest.mark.parametrize("plain", [False, True])
def test_pictures_are_those_of_the_model(page: Any, model: Model, plain: bool) -> None:
    shape, texture = DEVIATIONS
    wanted, points = model.draw(shape, texture, height=160)
    # The view of `Model.draw`, found again from a point that it says: points are (p - low) * zoom.
    mean = model.levels[-1].shape
    parameters = np.concatenate(
        [np.zeros(4), shape * np.sqrt(mean.eigenvalues[:3]), np.zeros(mean.modes - 3)]
    )
    ours = mean.instance(parameters)
    zoom = np.ptp(points[:, 1]) / np.ptp(ours[:, 1])
    low = ours[0] - points[0] / zoom
    high = low[1] + (wanted.shape[0] - 1) / zoom
    size = wanted.shape[1], wanted.shape[0]
    kind, values = page.evaluate(DRAW, [low.tolist(), high, *size, shape, texture, plain])
    found = np.array(values).reshape(*wanted.shape[:2], 4)[:, :, :3] / 255
    off = np.abs(found - wanted).mean(axis=2)
    assert kind == ("canvas" if plain else "webgl")
    # At the outline, pixels are half covered here and wholly or not at all there.
    assert np.median(off[wanted.min(axis=2) < 0.99]) < 0.01
    assert np.mean(off > 0.05) < 0.04


def test_frames_follow_the_sliders(page: Any) -> None:
    """Thirty a second or more; where other work keeps the machine busy, half of what an idle page gets."""
    rates = []
    for _ in range(3):
        rates.append((page.evaluate(FRAMES, [0.6, True]), page.evaluate(FRAMES, [0.4, False])))
        if rates[-1][0] >= 30:
            break
    print(f"frames a second at 1280 x 800, and without drawing: {rates[-1][0]:.0f}, {rates[-1][1]:.0f}")
    assert any(drawn >= 30 or drawn > 0.5 * idle for drawn, idle in rates), rates


def test_sliders_by_keyboard(page: Any) -> None:
    page.get_by_label("Shape mode 1", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert value(page, "Shape mode 1") == 0.01
    page.keyboard.press("End")
    assert value(page, "Shape mode 1") == 3
    page.uncheck("#plausible")
    page.get_by_label("Shape mode 1", exact=True).focus()
    page.keyboard.press("End")
    assert value(page, "Shape mode 1") == 5
    page.check("#plausible")
    assert value(page, "Shape mode 1") == 3
    page.locator("#main").focus()
    page.keyboard.press("0")
    assert value(page, "Shape mode 1") == 0


def test_samples_are_within_two_deviations_and_differ(page: Any) -> None:
    page.click("#random")
    first = [float(one.input_value()) for one in page.locator("#shape-rows input, #texture-rows input").all()]
    page.click("#random")
    second = [
        float(one.input_value()) for one in page.locator("#shape-rows input, #texture-rows input").all()
    ]
    assert first != second
    assert max(map(abs, first + second)) <= 2
    page.click("#reset")
    assert value(page, "Shape mode 2") == 0


def test_a_mode_plays_until_it_is_paused(page: Any) -> None:
    page.get_by_label("Play Shape mode 2").click()
    page.wait_for_timeout(300)
    moved = value(page, "Shape mode 2")
    page.wait_for_timeout(200)
    assert 0 != moved != value(page, "Shape mode 2")
    page.get_by_label("Pause Shape mode 2").click()
    paused = value(page, "Shape mode 2")
    page.wait_for_timeout(150)
    assert value(page, "Shape mode 2") == paused


def test_what_is_drawn_can_be_chosen(page: Any) -> None:
    def ink() -> int:
        return int(
            page.evaluate(
                """() => { const c = document.querySelector("#lines");
                return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.filter(Boolean).length; }"""
            )
        )

    page.wait_for_timeout(100)
    counts = [ink()]
    for key in ("m", "l", "n"):
        page.locator("#main").focus()
        page.keyboard.press(key)
        page.wait_for_timeout(100)
        counts.append(ink())
    assert counts[0] == 0
    assert counts == sorted(set(counts))


def test_variance_is_told_in_words(page: Any, model: Model) -> None:
    told = page.inner_text("#shape-explained")
    assert told.startswith(f"{model.levels[-1].shape.modes} modes of shape explain")


def test_without_a_model_there_is_a_sentence(explored: Studio, new_page: Callable[..., Any]) -> None:
    page = new_page()
    page.route(
        "**/api/explore", lambda route: route.fulfill(status=409, json={"error": "there is no model yet."})
    )
    page.goto(f"{explored.address}/explore")
    page.wait_for_selector("#nothing:not([hidden])")
    assert "There is no model yet." in page.inner_text("#nothing")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(explored: Studio, new_page: Callable[..., Any], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"width": 390, "height": 844} if scheme == "dark" else {"width": 1280, "height": 800}
    page = opened(new_page(color_scheme=scheme, viewport=size, bypass_csp=True), explored)
    found = axe.run(page).response["violations"]
    assert not found, [(one["id"], one["nodes"][0]["html"]) for one in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
