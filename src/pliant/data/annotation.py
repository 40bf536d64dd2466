"""Annotations as landmark files have them, and the conventions in which such files count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image

Size = tuple[int, int]
"""Width and height of an image, in pixels."""

ImageSizes = Callable[[str], Size]
"""The size of an image by the name that a file gives it; raises a sentence if there is no such image."""


@dataclass(frozen=True, eq=False, repr=False)
class Annotation(Concise):
    """One object in one image, in our coordinates: 0-based, pixel centres at integers, y downwards.

    `image` is the name as the file has it, empty if the file is beside its image and names none. `points (v, 2)`
    has nan where a landmark is missing; `names` are the landmarks' names, if they have any. `box` has the edges
    left, top, right, bottom: around the pixels 1 to 4 it goes from 0.5 to 4.5. `size` is the image's, where the
    file or its reader knew it. `group` is what must not be torn apart by a split: a person, a video. `pixels` makes
    the image if the file itself holds it. `spacing` is the length of one pixel in the units of the file, such as
    millimetres, where it says so. `hidden (v,)` tells which landmarks are behind something, where that is known.
    `curves` has the number of points of each curve: the last landmarks are theirs, one curve after the other.
    `identity` and `comment` are what the file calls the object and says about it.
    """

    image: str
    points: Float64
    names: tuple[str, ...] = ()
    box: Float64 | None = None
    size: Size | None = None
    group: str = ""
    pixels: Callable[[], Image] | None = field(default=None, repr=False)
    spacing: float | None = None
    hidden: NDArray[np.bool_] | None = None
    curves: tuple[int, ...] = ()
    identity: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Convention:
    """How a file counts.

    `first_pixel` is what the file calls the centre of its first pixel, in pixels: (0, 0) if it counts centres from
    0, (1, 1) if from 1, (0.5, 0.5) if it measures from the corner. The first pixel is at the top left, and at the
    bottom left if `y_up`. `unit` says whether numbers are pixels, or shares or percents of the width and height.
    `negative_is_missing` says that no landmark can be left of or below the image. `reference` says where this is
    known from.
    """

    reference: str
    first_pixel: tuple[float, float] = (0.0, 0.0)
    unit: Literal["pixels", "share", "percent"] = "pixels"
    y_up: bool = False
    negative_is_missing: bool = False

    @property
    def needs_size(self) -> bool:
        """Whether nothing can be converted without the size of the image."""
        return self.y_up or self.unit != "pixels"

    def to_ours(self, points: Floats, size: Size | None = None) -> Float64:
        """Points `(..., 2)` of a file in our coordinates."""
        # Numbers that are too large become infinite here, and are refused with the name of their file later.
        with np.errstate(over="ignore", invalid="ignore"):
            ours = np.asarray(points, dtype=np.float64) * self._unit(size) - self.first_pixel
            if self.y_up:
                ours[..., 1] = self._height(size) - 1 - ours[..., 1]
        return ours

    def to_theirs(self, points: Floats, size: Size | None = None) -> Float64:
        """Our points `(..., 2)` in the coordinates of the file."""
        theirs = np.array(points, dtype=np.float64)
        if self.y_up:
            theirs[..., 1] = self._height(size) - 1 - theirs[..., 1]
        return np.asarray((theirs + self.first_pixel) / self._unit(size), dtype=np.float64)

    def unspeakable(self, points: Floats, size: Size | None) -> NDArray[np.bool_]:
        """Which of our points `(v, 2)` the file cannot hold, as their numbers there mean that they are missing."""
        if not self.negative_is_missing:
            return np.zeros(len(points), dtype=bool)
        return np.asarray((self.to_theirs(points, size).round(5) < 0).any(axis=1))

    def _unit(self, size: Size | None) -> Float64:
        """How many pixels are one unit of the file, along x and y."""
        if self.unit == "pixels":
            return np.ones(2)
        if size is None:
            raise ValueError(f"the size of the image must be known to count in {self.unit}.")
        return np.asarray(size) / (100.0 if self.unit == "percent" else 1.0)

    def _height(self, size: Size | None) -> int:
        if size is None:
            raise ValueError("the size of the image must be known to count from its lower edge.")
        return size[1]


def box_around(annotation: Annotation) -> Float64:
    """The box `(4,)`, or else the edges of the pixels that the landmarks span."""
    if annotation.box is not None:
        return annotation.box
    points = annotation.points[np.isfinite(annotation.points).all(axis=1)]
    if not len(points):
        raise ValueError(f"{annotation.image}: an object without a box and without landmarks is nowhere.")
    return np.concatenate([points.min(axis=0) - 0.5, points.max(axis=0) + 0.5])


def one_object(path: Path, annotations: Sequence[Annotation]) -> Annotation:
    """The only annotation, for a file that holds one."""
    if len(annotations) != 1:
        raise ValueError(f"{path}: such a file holds one object, and there are {len(annotations)}.")
    return annotations[0]


def all_there(path: Path, annotation: Annotation, format: str) -> Float64:
    """The landmarks `(v, 2)`, for a format that has no way to say that one is missing."""
    missing = np.flatnonzero(np.isnan(annotation.points).any(axis=1))
    if len(missing):
        raise ValueError(
            f"{path}: {format} cannot say that a landmark is missing, and number {missing[0]} of "
            f"{annotation.image or 'the object'} is: choose csv or another format that can."
        )
    return annotation.points
