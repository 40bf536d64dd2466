"""What is looked for in one image: which fits are kept as objects, and when enough has been tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from pliant.arrays import Float32, Float64, Floats, Image
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.inputs import StartSource, groups_of
from pliant.settings import Fitting
from pliant.shape import shape_size
from pliant.starts.choice import Chain, Way

_OVERLAP = 0.5
"""Fits are of the same object if they share so much of the smaller one's area."""

_APART = 0.1
"""And if their landmarks are nearer to each other than this share of the size, whatever area they have."""

_ROOM = 0.12
"""Where the objects that were found fill less of the image, there may be others: docs/explanation/starts.md."""


@dataclass
class Hunt:
    """One image: what is to be fitted next, and what was found so far.

    `judged` says whether fits have a confidence. Starts that somebody gives are taken at their word: each of their
    groups is an object. Of those that are found, fits are kept that are trusted, and each object once.
    """

    image: Image
    start: StartSource | Chain
    settings: Fitting
    judged: bool
    fits: list[FitResult] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ways: list[Way] = list(self.start.ways) if isinstance(self.start, Chain) else []
        self._waiting: list[Floats] = []
        self._patience: int | None = None
        self._last = 0
        self._begun = False

    @property
    def knows_its_start(self) -> bool:
        """Whether starts were given, so that nothing has to be looked for in the image."""
        return not isinstance(self.start, Chain) and not callable(self.start)

    def next_starts(self) -> list[Floats]:
        """The starts of the next objects to fit, a group for each; nothing if it is enough."""
        if not isinstance(self.start, Chain):
            return [] if self._begun else self._given()
        if self._is_enough():
            return []
        if self._patience is not None and len(self.fits) - self._last_trusted() >= self._patience:
            self._waiting = []
        while not self._waiting and self._ways:
            way = self._ways.pop(0)
            if way.several or not self._trusted():
                self._waiting, self._patience, self._last = self._found(way), way.patience, len(self.fits)
        # If one is enough, the likeliest may be it; otherwise several go on together.
        count = 1 if self.settings.objects == 1 else self._patience or len(self._waiting)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _last_trusted(self) -> int:
        """How many fits there were when the last one was trusted, or this way of starting began."""
        trusted = self._trusted()
        numbers = [k for k, fit in enumerate(self.fits, start=1) if any(fit is one for one in trusted)]
        return max(self._last, *numbers, 0)

    def _given(self) -> list[Floats]:
        self._begun = True
        try:
            groups = groups_of(self.start(self.image) if callable(self.start) else self.start)
            # If one object is wanted, all starts are tries for it.
            return [np.concatenate(groups)] if self.settings.objects == 1 and len(groups) > 1 else groups
        except MemoryError:
            raise
        except Exception as error:
            self.reasons.append(said(error))
            return []

    def _found(self, way: Way) -> list[Floats]:
        try:
            groups = way.find(self.image)
        except MemoryError:
            raise
        except Exception as error:
            self.reasons.append(said(error))
            return []
        if self.judged:
            # What an earlier way has found need not be fitted again.
            known = [fit.points for fit in self._trusted()]
            return [group for group in groups if not any(_is_on(group, points) for points in known)]
        count = 1 if self.settings.objects == "all" else self.settings.objects
        if count == 1 and way.name == "scan":
            # Its finds compete: nothing else says which of them is the object.
            return [np.concatenate(groups)]
        return groups[:count]

    def _is_enough(self) -> bool:
        if not self.judged:
            return bool(self.fits)
        trusted, wanted = self._trusted(), self.settings.objects
        if wanted == "all":
            return bool(trusted) and not has_room(self.image, trusted)
        return len(trusted) >= wanted

    def _trusted(self) -> list[FitResult]:
        """Fits that are trusted, the most confident first, each object once."""
        return distinct(
            fit for fit in self.fits if fit.status.ok and fit.confidence() >= self.settings.trusted
        )

    def result(self) -> FitResult | None:
        """The fit with most confidence, and with it the others that are kept; None if nothing could be fitted."""
        if not self.fits:
            return None
        given = not isinstance(self.start, Chain)
        kept = self.fits if given or not self.judged else self._trusted()
        if self.settings.objects != "all" and len(kept) > self.settings.objects:
            best = sorted(kept, key=_doubt)[: self.settings.objects]
            kept = [fit for fit in kept if any(fit is one for one in best)]
        if not kept:
            return min(self.fits, key=_doubt)
        return replace(kept[0], others=tuple(kept[1:])) if len(kept) > 1 else kept[0]


def said(error: Exception) -> str:
    """What went wrong, as a sentence."""
    if isinstance(error, MemoryError):
        return (
            f"there is not enough memory ({str(error).rstrip('.')})."
            if str(error)
            else "there is not enough memory."
        )
    expected = isinstance(error, (ValueError, OSError))
    return str(error) if expected else f"an unexpected {type(error).__name__}: {error}"


def distinct(fits: Iterable[FitResult]) -> list[FitResult]:
    """The fits in the order of their confidence, without those that are of the same object as one before."""
    kept: list[FitResult] = []
    for fit in sorted(fits, key=_doubt):
        if not any(is_same_object(fit.points, other.points) for other in kept):
            kept.append(fit)
    return kept


def is_same_object(points: Float64, other: Float64) -> bool:
    """Whether two shapes `(v, 2)` lie so much upon each other that both are fits of one object."""
    size = min(float(shape_size(points)), float(shape_size(other)))
    if float(np.linalg.norm(points - other, axis=-1).mean()) < _APART * size:
        return True
    hull, around = _hull(points), _hull(other)
    smaller = min(cv2.contourArea(hull), cv2.contourArea(around))
    return smaller > 0 and bool(cv2.intersectConvexConvex(hull, around)[0] > _OVERLAP * smaller)


def _is_on(starts: Floats, points: Float64) -> bool:
    """Whether the first of starts `(k, v, 2)` lies on a shape `(v, 2)`; a box `(4,)` is not looked at."""
    return starts.ndim == 3 and is_same_object(starts[0], points)


def has_room(image: Image, found: Sequence[FitResult]) -> bool:
    """Whether the objects that were found fill so little of the image that there may be others."""
    covered = sum(cv2.contourArea(_hull(fit.points)) for fit in found)
    return bool(covered < _ROOM * image.shape[0] * image.shape[1])


def _hull(points: Float64) -> Float32:
    return np.asarray(cv2.convexHull(np.asarray(points, dtype=np.float32)))


def _doubt(fit: FitResult) -> tuple[float, bool, bool]:
    """What fits are ordered by: most confidence first, and fits that ended well before those that did not."""
    confidence = fit.confidence()
    return -(0.0 if np.isnan(confidence) else confidence), fit.status is Status.FAILED, not fit.status.ok
