"""Where fits begin, as the commands have it: `--boxes` and `--start`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.arrays import Float64, Floats, Image

_CENTRE = 0.6
"""Share of the image's smaller side that the default start fills."""


class Start(StrEnum):
    """Where fits begin, if not at boxes."""

    CENTRE = "centre"
    LANDMARKS = "landmarks"


def starter(start: Start | None, boxes: Path | None) -> Callable[[str, Image], Floats]:
    """The function that gives the start of an image by its name: a box `(4,)` or a shape `(v, 2)`."""
    from pliant.fitting.start import read_boxes

    if boxes is not None and start is not None:
        raise ValueError("--boxes and --start both say where to start: give one of them.")
    if boxes is not None:
        by_path = {PurePath(name): box for name, box in read_boxes(boxes).items()}
        return lambda name, image: _box_of(name, boxes, by_path)
    return _landmarks_beside if start is Start.LANDMARKS else _centre


def _box_of(name: str, source: Path, boxes: dict[PurePath, Float64]) -> Float64:
    """The box of the longest name in the CSV that the path ends with: with folders, or without."""
    parts = Path(name).absolute().parts
    for first in range(len(parts)):
        box = boxes.get(PurePath(*parts[first:]))
        if box is not None:
            return box
    raise ValueError(f"{name}: {source} has no box for this image.")


def _landmarks_beside(name: str, image: Image) -> Float64:
    from pliant.data.formats import endings_beside_images, read_landmarks

    for ending in endings_beside_images():
        beside = Path(name).with_suffix(ending)
        if beside.is_file():
            return read_landmarks(beside)
    raise ValueError(f"{name}: there is no landmark file beside this image to start from.")


def _centre(name: str, image: Image) -> Float64:
    import numpy as np

    height, width = image.shape[:2]
    half = _CENTRE * min(height, width) / 2
    if 2 * half < 2:
        raise ValueError(f"{name}: {width} x {height} pixels are too few to find anything in.")
    x, y = (width - 1) / 2, (height - 1) / 2
    return np.array([x - half, y - half, x + half, y + half])
