"""Text in painted pictures: beside landmarks where there is room for it, in a corner, and below."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from pliant.arrays import Float64

_DIRECTIONS = np.array(
    [(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1)], dtype=np.float64
)
"""Where a text may stand, seen from its landmark."""


def write_labels(
    canvas: NDArray[np.uint8],
    places: Float64,
    labels: Sequence[str],
    colour: tuple[int, int, int],
    reach: float,
) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)` with a text beside each of the places `(v, 2)`, `reach` pixels away from its middle.

    Each text takes the side on which it covers the fewest landmarks and other texts, outwards if it may choose.
    """
    picture = PIL.Image.fromarray(canvas)
    pen = PIL.ImageDraw.Draw(picture)
    font = _font(max(9, round(max(canvas.shape[:2]) / 55)))
    middle = places.mean(axis=0)
    taken: list[tuple[float, float, float, float]] = []
    for place, label in zip(places, labels, strict=True):
        text = " ".join(label.split())
        left, top, right, bottom = pen.textbbox((0, 0), text, font)
        extent = np.array([right - left, bottom - top])
        candidates = []
        for way in _DIRECTIONS:
            corner = place + way * (reach + extent / 2) - extent / 2
            candidates.append((*corner, *(corner + extent)))
        inside = np.array([_outside(box, canvas.shape[1], canvas.shape[0]) for box in candidates])
        crowd = np.array([_covered(box, places, taken, reach) for box in candidates])
        outwards = _DIRECTIONS @ (place - middle) / max(float(np.linalg.norm(place - middle)), 1e-9)
        best = candidates[int(np.argmin(4 * inside + crowd - 0.1 * outwards))]
        taken.append(best)
        pen.text((best[0] - left, best[1] - top), text, colour, font, stroke_width=1, stroke_fill=(0, 0, 0))
    return np.array(picture)


def write_caption(
    canvas: NDArray[np.uint8], text: str, colour: tuple[int, int, int], share: float = 1 / 22
) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)` with a line of text in its upper left corner, outlined in black.

    The text is a `share` of the picture's height, at least 14 pixels high, and smaller if it would be too long.
    """
    picture = PIL.Image.fromarray(canvas)
    size = max(14, round(canvas.shape[0] * share))
    while size > 8 and _font(size).getlength(text) > canvas.shape[1] - size:
        size -= 1
    PIL.ImageDraw.Draw(picture).text(
        (size / 2, size / 3),
        text,
        colour,
        _font(size),
        stroke_width=max(1, size // 14),
        stroke_fill=(0, 0, 0),
    )
    return np.array(picture)


_LINE = 22
"""Pixels that a line below a picture is high."""


def write_below(canvas: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)` on top of a white line of text `(h + 22, w, 3)`."""
    height, width = canvas.shape[:2]
    page = PIL.Image.new("RGB", (width, height + _LINE), "white")
    page.paste(PIL.Image.fromarray(canvas))
    PIL.ImageDraw.Draw(page).text((4, height + 3), text, "black", PIL.ImageFont.load_default(13))
    return np.array(page)


def _covered(
    box: tuple[float, ...], places: Float64, taken: Sequence[tuple[float, float, float, float]], reach: float
) -> float:
    """How many landmarks and texts a box lies over."""
    left, top, right, bottom = box
    x, y = places.T
    dots = np.count_nonzero(
        (x > left - reach / 2) & (x < right + reach / 2) & (y > top - reach / 2) & (y < bottom + reach / 2)
    )
    texts = sum(
        left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in taken
    )
    return dots + 2.0 * texts


def _outside(box: tuple[float, ...], width: int, height: int) -> bool:
    return box[0] < 0 or box[1] < 0 or box[2] > width or box[3] > height


@cache
def _font(size: int) -> PIL.ImageFont.FreeTypeFont:
    """Matplotlib's own, which has the letters of most languages; OpenCV has none beyond English."""
    return PIL.ImageFont.truetype(
        str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size
    )
