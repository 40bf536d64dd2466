"""Fits of one image by up to four algorithms from the same start, as background work; the last few are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from pliant.appearance.interpolation import resample
from pliant.arrays import Float32, Float64, Floats, Image
from pliant.batch import fit
from pliant.data.annotation import Annotation
from pliant.data.dataset import Sample
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.metrics import normalised_error, point_subset
from pliant.model import Model
from pliant.settings import Fitting
from pliant.studio.web.endpoints import Refused
from pliant.studio.web.jobs import Job, Jobs

MOST_ALGORITHMS = 4
_KEPT, _RUNNING = 8, 3
"""Runs that are kept, and those that may be under way at once."""

_MARGIN = 0.25
"""What is shown around the landmarks, as a share of the size of all of them."""

_LONGEST = 900
"""Pixels along the longer side of what is shown."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Task:
    """What is to be fitted. `read` gives the image again, and refuses in a sentence if it is gone.

    `truth (v, 2)` are the landmarks that somebody has placed, if all of them were.
    """

    name: str
    size: tuple[int, int]
    address: str
    read: Callable[[], Image]
    model: Model
    settings: Fitting
    algorithms: tuple[str, ...]
    box: Float64 | None = None
    truth: Float64 | None = None


@dataclass(eq=False)
class Run:
    """A task and the fits that there are of it so far, one for each algorithm and object."""

    id: int
    task: Task
    job: Job | None = None
    fits: tuple[FitResult, ...] = ()
    _lock: Lock = field(default_factory=Lock)
    _window: tuple[Box, Float32] | None = None

    def work(self, job: Job) -> str:
        """Fit with one algorithm after the other; a user may stop it between two."""
        task = self.task
        truth = None if task.truth is None else Annotation(task.name, task.truth)
        sample = Sample(task.name, task.read, truth)
        sample = sample.keeping(sample.image())
        starts: Any = task.box
        algorithms = task.algorithms
        if starts is None and len(algorithms) > 1:
            # What is found is where all begin: otherwise the first would have several tries, and the others one.
            job.advance(0, len(algorithms))
            found = fit(task.model, sample, None, task.settings.changed(algorithm=algorithms[0]))
            starts = [one.start[None] for one in found.objects if one.status is not Status.FAILED]
            if not starts:
                self._add(found)
                algorithms = ()
        for number, algorithm in enumerate(algorithms):
            job.advance(number, len(algorithms))
            self._add(fit(task.model, sample, starts, task.settings.changed(algorithm=algorithm)))
        failed = [one for one in self.fits if one.status is Status.FAILED]
        return failed[0].reason if len(failed) == len(self.fits) else _counted(len(self.fits) - len(failed))

    def _add(self, found: FitResult) -> None:
        with self._lock:
            self.fits += found.objects

    def find(self, number: int) -> FitResult:
        """The fit of this number, which has landmarks; a LookupError if there is none."""
        fits = self.fits
        if not 0 <= number < len(fits):
            raise LookupError(f"there is no fit {number} of this image yet.")
        if not np.all(np.isfinite(fits[number].points)):
            raise Refused(f"this fit has no landmarks: {fits[number].reason}", 409)
        return fits[number]

    @property
    def crop(self) -> Box:
        """The part of the image that is shown, left, top, right, bottom, the last two not in it."""
        width, height = self.task.size
        # What is lost may be anywhere, and would make all else small.
        shapes = [one.points for one in self.fits if one.ok] + [one.start for one in self.fits]
        points = np.concatenate([*shapes, np.empty((0, 2))])
        points = points[np.all(np.isfinite(points), axis=1)]
        if len(points) < 2:
            return 0, 0, width, height
        margin = _MARGIN * max(float(np.ptp(points, axis=0).max()), 8.0)
        low = np.clip(np.floor(points.min(axis=0) - margin), 0, (width - 1, height - 1)).astype(int)
        high = np.clip(np.ceil(points.max(axis=0) + margin) + 1, low + 1, (width, height)).astype(int)
        return int(low[0]), int(low[1]), int(high[0]), int(high[1])

    def window(self) -> tuple[Box, float, Float32]:
        """What is shown: its place, its pixels per pixel of the image, and its pixels `(h, w, c)` from 0 to 1."""
        left, top, right, bottom = crop = self.crop
        scale = min(1.0, _LONGEST / max(right - left, bottom - top))
        with self._lock:
            if self._window is None or self._window[0] != crop:
                shape = max(1, round((bottom - top) * scale)), max(1, round((right - left) * scale))
                # Pixels are squares: the centre of the first one of the window is not that of the image.
                origin = np.array([left, top]) + (1 / scale - 1) / 2
                grey = self.task.model.texture.channels == 1
                self._window = crop, resample(self.task.read(), origin, scale, shape, grey=grey)
            return crop, scale, self._window[1]

    def in_window(self, points: Floats) -> Float64:
        """Points `(v, 2)` of the image in the window."""
        (left, top, _, _), scale, _ = self.window()
        return np.asarray((points - (left, top) + 0.5) * scale - 0.5, dtype=np.float64)


class Runs:
    """The last runs of a studio."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = itertools.count(1)
        self._runs: dict[int, Run] = {}

    def start(self, task: Task, jobs: Jobs) -> Run:
        """Begin a run; refused while too many are under way."""
        with self._lock:
            if sum(map(is_running, self._runs.values())) >= _RUNNING:
                raise Refused(f"{_RUNNING} images are being fitted: wait for one to finish, or stop it.", 429)
            run = Run(next(self._numbers), task)
            self._runs[run.id] = run
            for old in [one for one in self._runs.values() if not is_running(one) and one is not run][
                :-_KEPT
            ]:
                del self._runs[old.id]
            run.job = jobs.start(f"Fit {task.name}", run.work)
            return run

    def find(self, number: int) -> Run:
        """The run of this number; a LookupError if there is none."""
        with self._lock:
            if number not in self._runs:
                raise LookupError(f"there is no fit {number}: only the last {_KEPT} are kept.")
            return self._runs[number]


def is_running(run: Run) -> bool:
    """Whether a run is under way."""
    return run.job is None or run.job.state.state == "running"


def error_of(points: Floats, truth: Float64 | None) -> float | None:
    """Mean distance of points `(v, 2)` from the truth, as a share of its size, if that is known."""
    if truth is None or not np.all(np.isfinite(points)):
        return None
    return normalised_error(points, truth, point_subset("all", len(truth)))


def _counted(count: int) -> str:
    return "1 fit" if count == 1 else f"{count} fits"
