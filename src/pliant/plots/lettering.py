"""Text in painted pictures: beside landmarks where there is room for it, in a corner, and below."""

from __future__ import annotations

import math
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

_SEEN = 0.15
"""The share of a picture's brightness that is left behind a text: every colour of a landmark is brighter."""


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
    font = _font(max(9, round(max(canvas.shape[:2]) / 55)))
    middle = places.mean(axis=0)
    taken: list[tuple[float, float, float, float]] = []
    for place, label in zip(places, labels, strict=True):
        text = " ".join(label.split())
        if not text:
            continue
        left, top, right, bottom = font.getbbox(text)
        edge = _edge(font)
        extent = np.array([right - left + 2 * edge, bottom - top + 2 * edge])
        candidates = []
        for way in _DIRECTIONS:
            corner = place + way * (reach + extent / 2) - extent / 2
            candidates.append((*corner, *(corner + extent)))
        inside = np.array([_outside(box, canvas.shape[1], canvas.shape[0]) for box in candidates])
        crowd = np.array([_covered(box, places, taken, reach) for box in candidates])
        outwards = _DIRECTIONS @ (place - middle) / max(float(np.linalg.norm(place - middle)), 1e-9)
        best = candidates[int(np.argmin(4 * inside + crowd - 0.1 * outwards))]
        taken.append(best)
        _write(picture, (best[0] + edge - left, best[1] + edge - top), text, colour, font)
    return np.array(picture)


def write_caption(
    canvas: NDArray[np.uint8], text: str, colour: tuple[int, int, int], share: float = 1 / 22
) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)` with a line of text in its upper left corner.

    The text is a `share` of the picture's height, at least 14 pixels high, and smaller if it would be too long.
    """
    picture = PIL.Image.fromarray(canvas)
    size = max(14, round(canvas.shape[0] * share))
    while size > 8 and _font(size).getlength(text) > canvas.shape[1] - size:
        size -= 1
    _write(picture, (size / 2, size / 3), text, colour, _font(size))
    return np.array(picture)


def _write(
    picture: PIL.Image.Image,
    corner: tuple[float, float],
    text: str,
    colour: tuple[int, int, int],
    font: PIL.ImageFont.FreeTypeFont,
) -> None:
    """Write a text into a picture, on a dark ground through which the picture is faintly seen.

    An outline would do for large letters. Those of labels are a pixel thick, and drown in it on a bright picture.
    """
    pen = PIL.ImageDraw.Draw(picture)
    left, top, right, bottom = pen.textbbox(corner, text, font)
    edge = _edge(font)
    box = (math.floor(left) - edge, math.floor(top) - edge, math.ceil(right) + edge, math.ceil(bottom) + edge)
    picture.paste(picture.crop(box).point(lambda tone: _SEEN * tone), box)
    pen.text(corner, text, colour, font)


def _edge(font: PIL.ImageFont.FreeTypeFont) -> int:
    """How far the dark ground reaches beyond a text."""
    return max(1, round(font.size / 8))


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
