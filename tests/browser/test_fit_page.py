"""The page Fit in a browser: an image comes in, fits come out, and all that goes wrong is a sentence."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from running import Studio

from pliant.data.dataset import Dataset
from pliant.data.formats import read_landmarks, write_landmarks
from pliant.model import Model

DROP = """([name, content]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const dropped = new DataTransfer();
  dropped.items.add(new File([bytes], name));
  document.querySelector("#drop").dispatchEvent(
    new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }),
  );
}"""


@pytest.fixture(scope="module")
def faces(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two faces, of which the first is annotated."""
    folder = tmp_path_factory.mktemp("faces") / "faces"
    folder.mkdir()
    for number, sample in enumerate(dataset[:2]):
        PIL.Image.fromarray(sample.image()).save(folder / f"face{number}.png")
    write_landmarks(folder / "face0.pts", dataset[0].points())
    return folder


@pytest.fixture(scope="module")
def fitted(start_studio: Callable[..., Studio], model: Model, faces: Path) -> Studio:
    """A studio of these faces with a model of such."""
    model.save(faces.parent / "faces.pliant")
    return start_studio(faces, "--model", str(faces.parent / "faces.pliant"))


def opened(page: Any, studio: Studio, more: str = "") -> Any:
    page.goto(f"{studio.address}/fit{more}")
    page.wait_for_selector(".algorithm select")
    if more:
        page.wait_for_selector("#image-view.ready")
    return page


def fit(page: Any) -> None:
    """Press Fit, and wait for the end."""
    page.click("#run")
    page.wait_for_selector("#see-fits:not([disabled])", timeout=30000)
    page.wait_for_selector("#stop", state="hidden", timeout=30000)


def drag_box(page: Any, points: np.ndarray) -> None:
    """Drag a box around points on an image of 96 x 96 pixels."""
    place = page.locator("#picture").bounding_box()
    zoom = min(place["width"], place["height"]) / 96
    middle = np.array([place["x"] + place["width"] / 2, place["y"] + place["height"] / 2])
    low, high = ((corner - 47.5) * zoom + middle for corner in (points.min(axis=0), points.max(axis=0)))
    page.mouse.move(*low)
    page.mouse.down()
    page.mouse.move(*((low + high) / 2))
    page.mouse.move(*high)
    page.mouse.up()


def test_two_algorithms_from_a_box_that_was_dragged(
    fitted: Studio, new_page: Callable[..., Any], dataset: Dataset, tmp_path: Path
) -> None:
    page = opened(new_page(), fitted, "?image=0")
    truth = dataset[0].points()
    drag_box(page, truth)
    box = [float(page.input_value(f"#{side}")) for side in ("left", "top", "right", "bottom")]
    assert np.abs(np.array(box) - [*truth.min(axis=0), *truth.max(axis=0)]).max() < 1
    page.click("#another")
    fit(page)
    assert page.locator(".card").count() == 2
    assert "not calibrated" in page.inner_text(".card >> nth=0")
    # The truth is known here, so errors are shown, and there is a curve of them.
    assert "Error" in page.inner_text(".card >> nth=0")
    assert page.locator("#errors polyline").count() > 0

    steps = int(page.get_attribute("#step", "max"))
    assert steps > 2
    page.fill("#step", "0")
    assert page.inner_text("#step-name") == "Start"
    page.click("#play")
    page.wait_for_selector("#play:has-text('Pause')")
    page.fill("#step", str(steps))
    assert page.inner_text("#step-name") == "End"

    for of in ("reconstruction", "residual"):
        with page.expect_response(lambda answer, of=of: f"of={of}&fit=1" in answer.url) as answer:
            page.click(f"#of-{of}")
        assert answer.value.ok

    with page.expect_download() as taken:
        page.get_by_role("button", name="Points").first.click()
    taken.value.save_as(tmp_path / taken.value.suggested_filename)
    assert taken.value.suggested_filename == "face0.pts"
    assert np.linalg.norm(read_landmarks(tmp_path / "face0.pts") - truth, axis=1).mean() < 4
    with page.expect_download() as taken:
        page.click("#table")
    assert taken.value.suggested_filename == "face0-fits.csv"


def test_a_file_that_is_no_image_is_told_and_the_next_is_fitted(
    fitted: Studio, new_page: Callable[..., Any], faces: Path, tmp_path: Path
) -> None:
    page = opened(new_page(), fitted)
    fake = tmp_path / "notes.jpg"
    fake.write_text("these are notes")
    page.set_input_files("#file", fake)
    page.get_by_text("notes.jpg: this is not an image of a known format.").wait_for()
    page.click("#run")
    page.get_by_text("There is no image yet").wait_for()
    page.evaluate(DROP, ["new.png", base64.b64encode((faces / "face1.png").read_bytes()).decode()])
    page.wait_for_selector("#image-view.ready")
    assert page.inner_text("#name") == "new.png, 96 × 96 pixels"
    fit(page)
    assert page.locator(".card").count() == 1
    assert page.is_hidden("#error-figure")


def test_boxes_and_settings_by_keyboard(fitted: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), fitted, "?image=1")
    page.click("summary >> text=Settings")
    page.fill("#setting-iterations", "2")
    page.fill("#setting-tries", "0")
    for side, number in {"left": 20, "top": 20, "right": 20, "bottom": 76}.items():
        page.fill(f"#{side}", str(number))
    assert page.is_checked("#in-box")
    page.click("#run")
    page.get_by_text("tries=0: it must be a whole number of at least 1").wait_for()
    page.fill("#setting-tries", "")
    page.click("#run")
    page.get_by_text("the box is empty").wait_for()
    page.fill("#right", "76")
    page.press("#right", "Enter")
    page.wait_for_selector(".card")
    told = page.inner_text(".card dl")
    assert "Iterations 4" in " ".join(told.split())


def test_numbers_of_images_are_checked(fitted: Studio, new_page: Callable[..., Any]) -> None:
    page = opened(new_page(), fitted)
    page.get_by_text("of 2", exact=True).wait_for()
    page.fill("#number", "3")
    page.press("#number", "Enter")
    page.get_by_text("Images are numbered from 1 to 2.").wait_for()
    page.fill("#number", "2")
    page.click("#open")
    page.wait_for_selector("#image-view.ready")
    assert page.inner_text("#name") == "face1.png, 96 × 96 pixels"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(fitted: Studio, new_page: Callable[..., Any], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"width": 390, "height": 844} if scheme == "dark" else {"width": 1280, "height": 800}
    page = opened(new_page(color_scheme=scheme, viewport=size, bypass_csp=True), fitted, "?image=0")
    page.click("summary >> text=Settings")
    fit(page)
    page.wait_for_selector(".card canvas")
    found = axe.run(page).response["violations"]
    assert not found, [(one["id"], one["nodes"][0]["html"]) for one in found]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_without_a_model_there_is_a_sentence(fitted: Studio, new_page: Callable[..., Any]) -> None:
    page = new_page()
    page.route(
        "**/api/fitting", lambda route: route.fulfill(status=409, json={"error": "there is no model yet."})
    )
    page.goto(f"{fitted.address}/fit")
    page.get_by_text("There is no model yet.").wait_for()
    assert page.is_hidden("#run")
