"""The page Check in a browser: suspects are mended, accepted and undone by keys, and two annotations compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw
from running import Studio

from pliant.data.annotation import Annotation
from pliant.data.formats import write_annotations, write_landmarks

COUNT, LANDMARKS, SIZE = 22, 8, (160, 120)


def leaves() -> np.ndarray:
    rng = np.random.default_rng(3)
    angles = np.linspace(0, 2 * np.pi, LANDMARKS, endpoint=False)
    mean = np.stack([40 * np.cos(angles), (25 + 8 * np.cos(angles)) * np.sin(angles)], axis=1)
    return np.asarray(mean + rng.normal(0, 0.4, (COUNT, LANDMARKS, 2)) + (80, 60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Leaves with landmarks, two swapped in the fifth and one elsewhere in the eighth; and a second opinion."""
    place = tmp_path_factory.mktemp("collection") / "leaves"
    place.mkdir()
    truth, points = leaves(), leaves()
    points[4, [1, 5]] = points[4, [5, 1]]
    points[7, 3] += (0, 22)
    for number, shape in enumerate(points):
        picture = Image.new("RGB", SIZE, (214, 219, 210))
        ImageDraw.Draw(picture).polygon([tuple(one) for one in truth[number]], fill=(90, 140, 70))
        picture.save(place / f"leaf_{number:02d}.png")
        write_landmarks(place / f"leaf_{number:02d}.pts", shape)
    names = [f"leaf_{number:02d}.png" for number in range(COUNT)]
    second = truth + np.random.default_rng(1).normal(0, 0.5, truth.shape)
    made = [Annotation(name, shape, size=SIZE) for name, shape in zip(names, second, strict=True)]
    write_annotations(place / "second.csv", made)
    return place


@pytest.fixture(scope="module")
def leaf_studio(start_studio: Callable[..., Studio], folder: Path) -> Studio:
    return start_studio(folder)


@pytest.fixture
def checked(new_page: Callable[..., Any], leaf_studio: Studio) -> Any:
    """The page after a check."""
    page = new_page(f"{leaf_studio.address}/check")
    page.locator("#verdict:not(:empty)").wait_for()
    page.click("#run")
    page.locator("#list button").first.wait_for()
    page.locator("#before[aria-label]").wait_for()
    return page


def states(page: Any) -> list[str]:
    return list(page.eval_on_selector_all("#list .state", "found => found.map((one) => one.textContent)"))


def waits_for(page: Any, words: str) -> None:
    page.wait_for_function(
        "words => document.querySelector('#case-reason').textContent.includes(words)", arg=words
    )


def test_keys_mend_accept_and_undo(checked: Any, leaf_studio: Studio, new_page: Callable[..., Any]) -> None:
    page = checked
    page.uncheck("#only-open")
    assert states(page) == ["", ""]
    reasons = page.eval_on_selector_all("#list .what", "found => found.map((one) => one.textContent)")
    assert any("Landmark 1 and landmark 5 seem to be swapped" in one for one in reasons)
    assert any("Landmark 3 is 2" in one and "from where other samples have it" in one for one in reasons)
    swapped = next(k for k, one in enumerate(reasons) if "swapped" in one)
    page.click(f"#list li:nth-child({swapped + 1}) button")
    waits_for(page, "swapped")
    before = page.request.get(f"{leaf_studio.address}/api/images/4").json()["points"]
    page.keyboard.press("m")
    waits_for(page, "Landmark 3 is")
    page.locator("#list .state.mended").wait_for()
    after = page.request.get(f"{leaf_studio.address}/api/images/4").json()["points"]
    assert (after[1], after[5]) == (before[5], before[1])
    page.keyboard.press("a")
    page.locator("#list .state.accepted").wait_for()
    page.click(f"#list li:nth-child({swapped + 1}) button")
    waits_for(page, "swapped")
    page.keyboard.press("u")
    page.locator("#list .state.mended").wait_for(state="detached")
    assert page.request.get(f"{leaf_studio.address}/api/images/4").json()["points"] == before
    # What is accepted stays so after the next check.
    page.click("#run")
    page.locator("#list .state.accepted").wait_for()
    page.keyboard.press("o")
    page.wait_for_url("**/annotate?image=4&points=1,5")


def test_two_annotators_side_by_side(new_page: Callable[..., Any], leaf_studio: Studio) -> None:
    page = new_page(
        f"{leaf_studio.address}/check", viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    # On a busy machine the button is there before its script.
    for _ in range(40):
        page.click("#show-annotators")
        page.wait_for_timeout(250)
        if page.locator("#place").is_visible():
            break
    page.fill("#place", "../elsewhere.csv")
    page.keyboard.press("Enter")
    page.get_by_text("is not in the open folder").wait_for()
    page.fill("#place", "second.csv")
    page.keyboard.press("Enter")
    page.get_by_text("of the variation in shape comes from the annotators").wait_for()
    assert page.locator("#by-image button").count() == COUNT
    assert page.locator("#by-landmark tbody tr").count() == LANDMARKS
    worst = page.text_content("#both-name")
    page.locator("#both-name").click()
    page.keyboard.press("j")
    page.locator("#both-name", has_not_text=worst).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.querySelector('main').scrollWidth") <= 390


def test_nothing_that_axe_would_mind(checked: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for part in ("suspects", "annotators"):
        checked.click(f"#show-{part}")
        found = axe.run(checked).response["violations"]
        assert not found, [(one["id"], [node["target"] for node in one["nodes"]]) for one in found]
