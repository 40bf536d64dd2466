"""Following an object through the frames of a video: from the last frame to the next, and found again when lost.

A frame starts where the last two say that the object will be, at the finest level alone and with few iterations. A
fit is believed if it ended as fits should, has not changed its size at once, and explains the image: `mismatch`. A
fit that is not believed is repeated from coarse to fine; if that does not help, the object is looked for.
docs/tracking.md has the measurements behind the numbers below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.data.video import RATE, Video, read_video
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.inputs import ImageSource, read
from pliant.model import Model
from pliant.settings import Limits, Tracking
from pliant.shape import align, shape_size
from pliant.starts.choice import find_starts
from pliant.threads import one_blas_thread

Find = Callable[[Image], Floats | None]
"""From an image to a start: a box `(4,)`, boxes `(k, 4)` with the best first, or a shape `(v, 2)`.

None, no boxes, or a ValueError: there is nothing."""

_BOUND = 0.05
"""The error that a confident fit is below."""

_RECENT = 10
"""Frames whose mismatch the next one is compared with."""

__all__ = ["Event", "Find", "Limits", "TrackedFrame", "Video", "read_video", "track"]


class Event(StrEnum):
    """What happened in a frame."""

    TRACKED = "tracked"
    """Followed from the frame before."""
    RESTARTED = "restarted"
    """Found anew; the first frame as well."""
    LOST = "lost"
    """Not there, or not found; the points are not numbers."""


@dataclass(frozen=True)
class TrackedFrame:
    """One frame: its number from 0, the fit, and what happened.

    `time` is that in the video, in seconds; how long the fit took is `result.seconds`. `image` is None if the frame
    could not be read. Keep points rather than whole frames of a long video.
    """

    number: int
    time: float
    result: FitResult
    event: Event
    image: Image | None = field(repr=False, compare=False)

    @property
    def mismatch(self) -> float:
        """How badly the model explains the frame; not a number if the object is lost."""
        return self.result.mismatch


def track(
    model: Model,
    frames: Iterable[ImageSource] | Path | str,
    find: Find | None = None,
    settings: Tracking | None = None,
    *,
    rate: float | None = None,
    jobs: int | None = None,
    **changes: Any,
) -> Iterator[TrackedFrame]:
    """Follow the object through images, given one after the other or as a video.

    Parameters
    ----------
    model
        What to follow.
    frames
        The name of a video, or images, one after the other.
    find
        A function that says where the object is, in the first frame and after a loss. None: it is looked for as
        `settings.start` says.
    settings
        How to follow, `Tracking()` if not given. While the object is lost, it is looked for in every
        `look_every`-th frame: give more than 1 if that is slow. From frame to frame there are `iterations` at the
        finest level.
    rate
        Frames a second; a video knows its own.
    jobs
        Threads that work on a frame; all cores if not given.
    **changes
        Settings by their names, in place of those in `settings`.

    Yields
    ------
    TrackedFrame
        One for each frame, as it comes.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.synthetic.faces(12, seed=1, image_size=64)
    >>> model = pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False)
    >>> still = [faces[0].image()] * 3
    >>> [str(frame.event) for frame in pliant.track(model, still, lambda image: faces[0].points())]
    ['restarted', 'tracked', 'tracked']

    """
    settings = (settings or Tracking()).changed(**changes)
    fitter = make_fitter(
        model,
        algorithm=settings.algorithm,
        iterations=(12, 8) if len(model.levels) == 2 else 10,
        sampling=settings.sampling,
        jobs=jobs,
        trace=False,
    )
    if not fitter.prepared[-1][2].weights.residual > 0:
        raise ValueError(
            f"{fitter.algorithm}: this cost is blind to what the model cannot explain, and cannot follow an "
            "object. Give project-out a rho below 1."
        )
    if isinstance(frames, (str, Path)):
        frames = read_video(frames)
    if rate is None:
        rate = frames.rate if isinstance(frames, Video) else RATE
    tracker = _Tracker(fitter, find_starts(model, settings) if find is None else find, settings)
    return tracker.follow(frames, rate)


@dataclass(frozen=True)
class _Past:
    """What is known when a frame comes: the shapes of the last two if they were believed, and of the last that was.

    `mismatches` are those of frames that were believed, the latest last; `absent` counts frames since then.
    """

    last: Float64 | None = None
    before: Float64 | None = None
    mismatches: tuple[float, ...] = ()
    absent: int = 0


@dataclass(frozen=True)
class _Tracker:
    fitter: Fitter
    find: Find
    settings: Tracking

    def follow(self, frames: Iterable[ImageSource], rate: float) -> Iterator[TrackedFrame]:
        past = _Past()
        for number, source in enumerate(frames):
            image: Image | None
            try:
                image = read(source)
            except (ValueError, OSError) as error:
                image, result, event = None, self._nothing(str(error)), Event.LOST
            else:
                with one_blas_thread():
                    result, event = self._one(image, past)
            past = self._after(past, result, event)
            yield TrackedFrame(number, number / rate, result, event, image)

    def _one(self, image: Image, past: _Past) -> tuple[FitResult, Event]:
        seconds = 0.0
        if past.last is not None and past.absent == 0:
            attempts = [(self.fitter, past.last)]
            if past.before is not None:
                attempts.insert(0, (self._quick, align(past.before, past.last).apply(past.last)))
            for fitter, start in attempts:
                result = self._fit(fitter, image, start)
                seconds += result.seconds
                if self._believed(image, result, past, restarted=False):
                    return replace(result, seconds=seconds), Event.TRACKED
        if past.absent % self.settings.look_every:
            return replace(self._nothing("not looked for in this frame."), seconds=seconds), Event.LOST
        found, reason = self._look(image)
        # An object that was hidden is often where it was, whatever a detector says.
        starts = [found] if found is not None else []
        for begin in [*starts, *([past.last] if past.absent and past.last is not None else [])]:
            result = self._fit(self.fitter, image, begin)
            seconds += result.seconds
            if self._believed(image, result, past, restarted=True):
                return replace(result, seconds=seconds), Event.RESTARTED
            reason = reason or result.reason or "what was found does not look like the object."
        return replace(self._nothing(reason), seconds=seconds), Event.LOST

    def _look(self, image: Image) -> tuple[Floats | None, str]:
        """Where the object seems to be, or why nobody knows."""
        try:
            found = self.find(image)
        except ValueError as error:
            return None, str(error)
        if found is None or np.size(found) == 0:
            return None, "nothing was found."
        several = np.ndim(found) == 2 and np.shape(found)[1] == 4
        return (np.asarray(found)[0] if several else found), ""

    def _fit(self, fitter: Fitter, image: Image, start: Floats) -> FitResult:
        result = fitter.block([image], [start], self.fitter.jobs)[0]
        return replace(result, model=self.fitter.model)

    def _believed(self, image: Image, result: FitResult, past: _Past, *, restarted: bool) -> bool:
        mismatch, limits = result.mismatch, self.settings.limits
        if not result.ok or not (mismatch < limits.mismatch or self._sure(image, result)):
            return False
        if restarted or past.last is None:
            usual = limits.rise * float(np.median(past.mismatches)) if past.mismatches else np.inf
            return mismatch <= max(usual, *past.mismatches, 0.0)
        change = float(shape_size(result.points) / shape_size(past.last))
        if not 1 / limits.growth < change < limits.growth:
            return False
        return mismatch <= limits.rise * float(np.median(past.mismatches[-_RECENT:]))

    def _sure(self, image: Image, result: FitResult) -> bool:
        """Whether a calibrated model trusts a fit that the limit for all models would refuse."""
        if self.fitter.model.confidence is None:
            return False
        if result.evidence is None:
            result = self._fit(self._weighing, image, result.points)
        return result.confidence(_BOUND) >= self.settings.limits.confidence

    def _after(self, past: _Past, result: FitResult, event: Event) -> _Past:
        if event is Event.LOST:
            known = past.mismatches if past.absent < self.settings.limits.memory else ()
            return replace(past, before=None, mismatches=known, absent=past.absent + 1)
        kept = (*past.mismatches, result.mismatch)[-self.settings.limits.memory :]
        return _Past(result.points, past.last if event is Event.TRACKED else None, kept)

    def _nothing(self, reason: str) -> FitResult:
        return failed(self.fitter.model, str(self.fitter.algorithm), None, reason)

    @cached_property
    def _quick(self) -> Fitter:
        """The same fitter at its finest level alone."""
        alone = replace(self.fitter.model, levels=self.fitter.model.levels[-1:])
        few = self.fitter.settings.changed(iterations=self.settings.iterations)
        return self.fitter.alike(model=alone, settings=few, keep_evidence=False)

    @cached_property
    def _weighing(self) -> Fitter:
        """As `_quick`, to see how far a fit can be trusted; one iteration is the least."""
        return self._quick.alike(settings=self.fitter.settings.changed(iterations=1), keep_evidence=True)
