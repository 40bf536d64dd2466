"""What a person has said about one image: where its landmarks are, whether they are seen, and its scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import hypot, isfinite
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, readonly

UNSEEN, ABSENT, HIDDEN, VISIBLE = -1, 0, 1, 2
"""The state of a landmark: nobody has looked yet; not in the image; behind something; to be seen."""

METRES = {"um": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254}
"""The units that lengths are given in, each in metres."""

Mark = tuple[float | None, float | None, int]
"""A landmark in a change: x and y, or None and None where it has no place, and its state."""

MOST_LANDMARKS = 100_000
"""Of one object: the number of a landmark asks for memory for all before it."""

_LARGEST = 1e6
"""No coordinate is further from the image than this, in pixels."""


@dataclass(frozen=True)
class Scale:
    """A bar in an image, whose length is known: from `start` to `end`, both (x, y), it is `length` long.

    Examples
    --------
    >>> from pliant.studio.storage.marks import Scale
    >>> Scale((10, 5), (210, 5), 1, "mm").spacing
    0.005

    """

    start: tuple[float, float]
    end: tuple[float, float]
    length: float
    unit: str

    def __post_init__(self) -> None:
        numbers = (*self.start, *self.end, self.length)
        if not all(isfinite(number) for number in numbers) or self.length <= 0:
            raise ValueError(
                "the length of a scale bar and the coordinates of its ends must be valid numbers, and the "
                "length must be above 0."
            )
        if self.unit not in METRES:
            raise ValueError(f"there is no unit '{self.unit[:20]}'. Known units: {', '.join(METRES)}.")
        if self.pixels < 1:
            raise ValueError("this scale bar is shorter than a pixel: draw it again.")

    @property
    def pixels(self) -> float:
        """How long the bar is in the image, in pixels."""
        return hypot(self.end[0] - self.start[0], self.end[1] - self.start[1])

    @property
    def spacing(self) -> float:
        """The length of one pixel, in the unit of the bar."""
        return self.length / self.pixels


@dataclass(frozen=True, eq=False, repr=False)
class Marks(Concise):
    """What is known of one image.

    `points (v, 2)` has x and y, 0-based, pixel centres at integers, and nan where a landmark has no place; `states
    (v,)` has UNSEEN, ABSENT, HIDDEN or VISIBLE. A landmark has a place if and only if it is hidden or visible.
    `finished` is what the person has said; `scale` the bar that they drew, if there is one.
    """

    points: Float64
    states: NDArray[np.int8]
    finished: bool = False
    scale: Scale | None = None

    @property
    def placed(self) -> int:
        """How many landmarks have a place."""
        return int((self.states > ABSENT).sum())

    def mark(self, landmark: int) -> Mark:
        """One landmark, as a change would set it."""
        x, y = self.points[landmark].tolist()
        state = int(self.states[landmark])
        return (x, y, state) if state > ABSENT else (None, None, state)


@dataclass(frozen=True)
class Change:
    """A patch of one image, as a page sends it and the history keeps it.

    Parameters
    ----------
    id
        Unique, made by whoever makes the change: one that comes twice counts once.
    client
        Who makes it: a tab, a script.
    marks
        Landmarks that change, by their index: x, y, state. Those without a place have None for x and y.
    finished
        Whether the image is; None leaves that as it is.
    scale
        A new bar; False takes the bar away, None leaves it as it is.

    Examples
    --------
    >>> from pliant.studio.storage.marks import ABSENT, VISIBLE, Change
    >>> change = Change("4f1c", "tab 1", {5: (101.5, 62.25, VISIBLE), 6: (None, None, ABSENT)})

    """

    id: str
    client: str = ""
    marks: Mapping[int, Mark] = field(default_factory=dict)
    finished: bool | None = None
    scale: Scale | Literal[False] | None = None


def checked(change: Change, count: int, name: str) -> Change:
    """The change, if it can be one of an image with `count` landmarks; a ValueError says what is wrong with it."""
    marks = {landmark: _checked(mark, landmark, count, name) for landmark, mark in change.marks.items()}
    if not marks and change.finished is None and change.scale is None:
        raise ValueError(f"{name}: this change changes nothing.")
    return replace(change, marks=marks)


def _checked(mark: Mark, landmark: int, count: int, name: str) -> Mark:
    if not 0 <= landmark < count:
        there = f"there are {count}, counted from 0" if count else "define the landmarks first"
        raise ValueError(f"{name}: there is no landmark {landmark}: {there}.")
    x, y, state = mark
    if state not in (UNSEEN, ABSENT, HIDDEN, VISIBLE):
        raise ValueError(f"{name}: the state of landmark {landmark} must be -1, 0, 1 or 2, not {state!r}.")
    if state <= ABSENT:
        return None, None, state
    if x is None or y is None or not (abs(x) < _LARGEST and abs(y) < _LARGEST):
        raise ValueError(f"{name}: landmark {landmark} is in the image, so it needs x and y.")
    return float(x), float(y), state


def changed(marks: Marks, change: Change) -> Marks:
    """The marks after a change that was checked."""
    points, states = marks.points.copy(), marks.states.copy()
    for landmark, (x, y, state) in change.marks.items():
        points[landmark] = (np.nan, np.nan) if x is None or y is None else (x, y)
        states[landmark] = state
    return Marks(
        readonly(points),
        readonly(states),
        marks.finished if change.finished is None else change.finished,
        marks.scale if change.scale is None else change.scale or None,
    )


def reverse(marks: Marks, change: Change) -> Change:
    """The change that leads from what comes after `change` back to `marks`."""
    return replace(
        change,
        marks={landmark: marks.mark(landmark) for landmark in change.marks},
        finished=None if change.finished is None else marks.finished,
        scale=None if change.scale is None else marks.scale or False,
    )


def same_mark(one: Mark, other: Mark, tolerance: float = 1e-9) -> bool:
    """Whether two marks say the same, with places that are no further apart than `tolerance` along each axis."""
    if one[2] != other[2]:
        return False
    if one[0] is None or one[1] is None or other[0] is None or other[1] is None:
        return True
    return abs(one[0] - other[0]) <= tolerance and abs(one[1] - other[1]) <= tolerance
