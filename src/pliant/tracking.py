"""Following an object through the frames of a video: from the last frame to the next, and found again when lost.

A frame starts where the last two say that the object will be, at the finest level alone and with few iterations. A
fit is believed if it ended as fits should, has not changed its size at once, and explains the image:

    mismatch = |i - a|² / |a|²,    a = abar + A c,

what the model cannot explain, over what it sees. Where there is nothing it is 1 or more, whatever the contrast,
while the cost alone is lowest on a blank wall. A fit that is not believed is repeated from coarse to fine; if that
does not help, the object is looked for. docs/tracking.md has the measurements behind the numbers below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.data.video import RATE, Video, read_video
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.inputs import ImageSource, read
from pliant.model import Model
from pliant.settings import DEFAULT_ALGORITHM, Limits
from pliant.shape import align, shape_size
from pliant.threads import one_blas_thread

Find = Callable[[Image], Floats | None]
"""From an image to a start: a box `(4,)`, boxes `(k, 4)` with the best first, or a shape `(v, 2)`.

None, no boxes, or a ValueError: there is nothing."""

DEFAULT_ITERATIONS = 4
DEFAULT_SAMPLING = 0.25

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
    """One frame: its number from 0, the fit, what happened, and how badly the model explains it.

    `time` is that in the video, in seconds; how long the fit took is `result.seconds`. `image` is None if the frame
    could not be read. Keep points rather than whole frames of a long video.
    """

    number: int
    time: float
    result: FitResult
    event: Event
    mismatch: float
    image: Image | None = field(repr=False, compare=False)


def track(
    model: Model | Fitter,
    frames: Iterable[ImageSource] | Path | str,
    find: Find,
    *,
    algorithm: str | Algorithm = DEFAULT_ALGORITHM,
    iterations: int = DEFAULT_ITERATIONS,
    sampling: float = DEFAULT_SAMPLING,
    look_every: int = 1,
    limits: Limits | None = None,
    rate: float | None = None,
    jobs: int | None = None,
) -> Iterator[TrackedFrame]:
    """Follow the object through images, given one after the other or as a video, and yield one record for each.

    `find` says where the object is, in the first frame and after a loss; then it is asked in every `look_every`-th
    frame: give more than 1 if it is slow. From frame to frame there are `iterations` at the finest level. A fitter
    instead of a model brings its own algorithm, sampling and threads, and the iterations of a start. `rate` is in
    frames a second; a video knows its own.
    """
    if iterations < 1 or look_every < 1:
        raise ValueError("iterations and look_every are whole numbers from 1.")
    if isinstance(model, Model):
        from_coarse = (12, 8) if len(model.levels) == 2 else 10
        model = make_fitter(
            model,
            algorithm=algorithm,
            iterations=from_coarse,
            sampling=sampling,
            jobs=jobs,
            trace=False,
        )
    if not model.prepared[-1][2].weights.residual > 0:
        raise ValueError(
            f"{model.algorithm}: this cost is blind to what the model cannot explain, so that a loss would go "
            "unnoticed. Give project-out a rho below 1."
        )
    if isinstance(frames, (str, Path)):
        frames = read_video(frames)
    if rate is None:
        rate = frames.rate if isinstance(frames, Video) else RATE
    tracker = _Tracker(model, find, iterations, look_every, limits or Limits())
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
    iterations: int
    look_every: int
    limits: Limits

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
            mismatch = np.nan if event is Event.LOST else self._mismatch(result)
            past = self._after(past, result.points, event, mismatch)
            yield TrackedFrame(number, number / rate, result, event, mismatch, image)

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
        if past.absent % self.look_every:
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
        mismatch, limits = self._mismatch(result), self.limits
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
        return result.confidence(_BOUND) >= self.limits.confidence

    def _mismatch(self, result: FitResult) -> float:
        """|i - a|² / |a|² on the pixels that were looked at, from the cost and the appearance parameters."""
        _, subspace, problem = self.fitter.prepared[-1]
        weights = problem.weights
        c = result.appearance_parameters
        if subspace.to_model is not None:
            c = self._from_model @ c
        # The cost is (w0 r'r - c'diag(w)c + p'Pp + c'Qc) / 2. Project-out has r = i - abar, of which c is a part.
        twice = 2 * result.cost - np.sum(weights.shape_precision * result.shape_parameters**2)
        twice += np.sum((weights.appearance - weights.appearance_precision) * c**2)
        unexplained = twice / weights.residual - (0 if weights.solves_appearance else c @ c)
        seen = self._mean_energy + 2 * self._mean_products @ c + c @ c
        return max(float(unexplained), 0.0) / max(float(seen), 1e-12)

    def _after(self, past: _Past, points: Float64, event: Event, mismatch: float) -> _Past:
        if event is Event.LOST:
            known = past.mismatches if past.absent < self.limits.memory else ()
            return replace(past, before=None, mismatches=known, absent=past.absent + 1)
        kept = (*past.mismatches, mismatch)[-self.limits.memory :]
        return _Past(points, past.last if event is Event.TRACKED else None, kept)

    def _nothing(self, reason: str) -> FitResult:
        return failed(self.fitter.model, str(self.fitter.algorithm), None, reason)

    @cached_property
    def _quick(self) -> Fitter:
        """The same fitter at its finest level alone; what is prepared is shared."""
        alone = replace(self.fitter.model, levels=self.fitter.model.levels[-1:])
        quick = replace(
            self.fitter,
            model=alone,
            settings=self.fitter.settings.changed(iterations=self.iterations),
            keep_evidence=False,
        )
        vars(quick)["prepared"] = self.fitter.prepared[-1:]
        return quick

    @cached_property
    def _weighing(self) -> Fitter:
        """As `_quick`, to see how far a fit can be trusted; one iteration is the least."""
        weighing = replace(
            self._quick, settings=self.fitter.settings.changed(iterations=1), keep_evidence=True
        )
        vars(weighing)["prepared"] = self.fitter.prepared[-1:]
        return weighing

    @cached_property
    def _from_model(self) -> Float64:
        """From the model's appearance parameters to the coordinates on the pixels looked at, `(k, m)`."""
        turn = self.fitter.prepared[-1][1].to_model
        assert turn is not None
        return np.asarray(np.linalg.pinv(turn), dtype=np.float64)

    @cached_property
    def _mean_energy(self) -> float:
        mean = self.fitter.prepared[-1][1].mean.astype(np.float64)
        return float(mean @ mean)

    @cached_property
    def _mean_products(self) -> Float64:
        _, subspace, _ = self.fitter.prepared[-1]
        return np.asarray(subspace.basis @ subspace.mean, dtype=np.float64)
