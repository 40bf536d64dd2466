"""What tracking yields: a record of each frame, with one of each object in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pliant.arrays import Image
from pliant.fitting.result import FitResult


class Event(StrEnum):
    """What happened to an object in a frame."""

    TRACKED = "tracked"
    """Followed from the frame before."""
    RESTARTED = "restarted"
    """Found anew; for the first time as well."""
    LOST = "lost"
    """Not there, or not found; the points are not numbers."""


@dataclass(frozen=True)
class TrackedObject:
    """An object in a frame: its number from 0, which it keeps, the fit, and what happened."""

    number: int
    result: FitResult
    event: Event

    @property
    def mismatch(self) -> float:
        """How badly the model explains the frame there; not a number if the object is lost."""
        return self.result.mismatch


@dataclass(frozen=True)
class TrackedFrame:
    """One frame: its number from 0, and the objects that are known, in the order of their numbers.

    There is at least one: if none is known, it is the one that is waited for, and lost. `result`, `event` and
    `mismatch` are those of the first that is not lost, for whoever follows one object.

    `time` is that in the video, and `seconds` is how long it took to follow and to look for objects. `image` is
    None if the frame could not be read. Keep points rather than whole frames of a long video.
    """

    number: int
    time: float
    objects: tuple[TrackedObject, ...]
    seconds: float
    image: Image | None = field(repr=False, compare=False)

    @property
    def first(self) -> TrackedObject:
        """The first object that is not lost; if all are, the first."""
        return next((one for one in self.objects if one.event is not Event.LOST), self.objects[0])

    @property
    def result(self) -> FitResult:
        """The fit of the first object."""
        return self.first.result

    @property
    def event(self) -> Event:
        """What happened to the first object."""
        return self.first.event

    @property
    def mismatch(self) -> float:
        """How badly the model explains the frame at the first object."""
        return self.first.mismatch
