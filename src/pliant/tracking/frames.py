"""What tracking yields: a record of each frame, with one of each object in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pliant.arrays import Image
from pliant.fitting.result import FitResult


class Event(StrEnum):
    """What happened to an object in a frame. It is a string.

    Examples
    --------
    >>> import pliant
    >>> [str(event) for event in pliant.tracking.Event]
    ['tracked', 'restarted', 'lost']

    """

    TRACKED = "tracked"
    """Followed from the frame before."""
    RESTARTED = "restarted"
    """Found anew; for the first time as well."""
    LOST = "lost"
    """Not there, or not found; the points are not numbers."""


@dataclass(frozen=True)
class TrackedObject:
    """An object in a frame.

    Attributes
    ----------
    number : int
        The number of the object, from 0. It keeps its number through the video.
    result : FitResult
        The fit. Its points are nan if the object is lost.
    event : Event
        What happened to the object.

    Examples
    --------
    >>> import pliant
    >>> model, sample = pliant.load("faces.pliant"), pliant.load_dataset("photographs/")[0]
    >>> frame = next(pliant.track(model, [sample.image()], sample.points()))
    >>> one = frame.objects[0]
    >>> one.number, str(one.event), one.result.points.shape, one.mismatch == one.result.mismatch
    (0, 'restarted', (68, 2), True)

    """

    number: int
    result: FitResult
    event: Event

    @property
    def mismatch(self) -> float:
        """How badly the model explains the frame there; nan if the object is lost."""
        return self.result.mismatch


@dataclass(frozen=True)
class TrackedFrame:
    """One frame of a video, with the objects in it.

    `first`, `result`, `event` and `mismatch` are those of the first object that is not lost; they are all you need
    to follow one object. In a long video, keep the points and not the frames.

    Attributes
    ----------
    number : int
        The number of the frame, from 0.
    time : float
        The time in the video, in seconds.
    objects : tuple of TrackedObject
        The known objects in the order of their numbers. There is at least one: before any is found, it is a lost
        one.
    seconds : float
        How long it took to follow objects and to look for them.
    image : array, shape (h, w) or (h, w, 3), or None
        The frame; None if it could not be read.

    Examples
    --------
    >>> import pliant
    >>> model, sample = pliant.load("faces.pliant"), pliant.load_dataset("photographs/")[0]
    >>> frame = next(pliant.track(model, [sample.image()], sample.points()))
    >>> frame.number, str(frame.event), frame.result.points.shape
    (0, 'restarted', (68, 2))
    >>> frame.first is frame.objects[0], frame.mismatch < 1
    (True, True)

    """

    number: int
    time: float
    objects: tuple[TrackedObject, ...]
    seconds: float
    image: Image | None = field(repr=False, compare=False)

    @property
    def first(self) -> TrackedObject:
        """The first object that is not lost, or the first of all if every object is lost."""
        return next((one for one in self.objects if one.event is not Event.LOST), self.objects[0])

    @property
    def result(self) -> FitResult:
        """The fit of `first`."""
        return self.first.result

    @property
    def event(self) -> Event:
        """What happened to `first`."""
        return self.first.event

    @property
    def mismatch(self) -> float:
        """How badly the model explains the frame at `first`."""
        return self.first.mismatch
