"""What a person does on the page Annotate, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from running import SIZE, Studio

from pliant.data.formats import read_landmarks

MARGIN = 24
"""Pixels around an image that is shown as a whole."""


def opened(page: Any, studio: Studio, index: int, query: str = "") -> Any:
    """The page, once an image is shown in it."""
    page.goto(f"{studio.address}/annotate?image={index}{query}")
    page.wait_for_selector(f"#stage[data-image='{index}']")
    return page


def on_screen(page: Any, point: Any) -> tuple[float, float]:
    """Where a point of an image is that is shown as a whole."""
    box = page.locator("#overlay").bounding_box()
    scale = min((box["width"] - 2 * MARGIN) / SIZE[0], (box["height"] - 2 * MARGIN) / SIZE[1])
    x = box["x"] + box["width"] / 2 + (point[0] - (SIZE[0] - 1) / 2) * scale
    return x, box["y"] + box["height"] / 2 + (point[1] - (SIZE[1] - 1) / 2) * scale


def drag(page: Any, start: Any, end: Any, drop: bool = True) -> None:
    page.mouse.move(*on_screen(page, start))
    page.mouse.down()
    page.mouse.move(*on_screen(page, (np.asarray(start) + end) / 2))
    page.mouse.move(*on_screen(page, end))
    if drop:
        page.mouse.up()


def in_file(folder: Path, number: int) -> np.ndarray:
    return np.asarray(read_landmarks(folder / f"kite_{number}.pts"))


def eventually(condition: Callable[[], Any], seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not come to be in time"
        time.sleep(0.02)


def waits_until_saved(page: Any) -> None:
    page.wait_for_selector("#saving:text-is('saved')")


def told(page: Any) -> str:
    return str(page.locator("#told").text_content())


def marks(page: Any, index: int) -> dict[str, Any]:
    """What the server has of an image."""
    found = page.evaluate("(index) => fetch(`/api/images/${index}`).then((answer) => answer.json())", index)
    assert isinstance(found, dict)
    return found
