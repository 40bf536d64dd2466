"""Which object is which: what one has looked like, where it was, and the numbers that objects keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float64
from pliant.fitting.result import FitResult
from pliant.shape import shape_size

_SAME = 0.6
"""A lost object and one that was found are the same if likeness and nearness are together at least this."""

_FADING = 25
"""Frames after which it counts half as much where a lost object was."""

_NEW = 0.1
"""Weight of a frame in the memory of what an object looks like."""


@dataclass(frozen=True)
class Track:
    """What is known of an object when a frame comes.

    `last` is its shape `(v, 2)` when it was last believed, and `before` that of the frame before, if it was
    followed from there. `look (m,)` is what it has looked like. `absent` counts the frames since then.
    """

    number: int
    last: Float64
    look: Float64
    before: Float64 | None = None
    absent: int = 0

    def followed(self, result: FitResult) -> Track:
        """The same object after a frame in which it was followed."""
        look = (1 - _NEW) * self.look + _NEW * look_of(result)
        return replace(self, last=result.points, look=look, before=self.last)

    def restarted(self, result: FitResult) -> Track:
        """The same object after a frame in which it was found anew: in other light, perhaps."""
        look = (self.look + look_of(result)) / 2
        return replace(self, last=result.points, look=look, before=None, absent=0)

    def lost(self) -> Track:
        """The same object after a frame in which it was not found."""
        return replace(self, before=None, absent=self.absent + 1)


def new_track(number: int, result: FitResult) -> Track:
    """An object that is seen for the first time."""
    return Track(number, result.points, look_of(result))


def look_of(result: FitResult) -> Float64:
    """What the object of a fit looks like `(m,)`: modes of appearance, each in its own deviations."""
    spread = np.sqrt(np.maximum(result.model.levels[-1].appearance.eigenvalues, 1e-12))
    return np.asarray(np.nan_to_num(result.appearance_parameters / spread))


def likeness(first: Float64, second: Float64) -> float:
    """How alike two looks `(m,)` are: the cosine of the angle between them."""
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / max(lengths, 1e-12)


def nearness(track: Track, points: Float64) -> float:
    """How near a shape is to where an object was, from 0 to 1; it counts less, the longer ago that is."""
    size = max(float(shape_size(track.last)), float(shape_size(points)))
    gap = float(np.linalg.norm(points.mean(axis=0) - track.last.mean(axis=0))) / size
    return float(np.exp(-gap)) / (1 + track.absent / _FADING)


def recognised(lost: Sequence[Track], found: Sequence[FitResult], no_others: bool) -> dict[int, int]:
    """Which of the objects that were found, by their places, are the lost ones, by theirs.

    If there can be `no_others`, whatever was found is the lost object that is nearest to it.
    """
    scores = {
        (i, j): likeness(track.look, look_of(result)) + nearness(track, result.points)
        for i, track in enumerate(lost)
        for j, result in enumerate(found)
    }
    pairs: dict[int, int] = {}
    for (i, j), score in sorted(scores.items(), key=lambda entry: -entry[1]):
        if i not in pairs and j not in pairs.values() and (score >= _SAME or no_others):
            pairs[i] = j
    return pairs
