"""How well algorithms fit a model to annotated images, from random starts that are the same for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.arrays import Float64, Int32
from pliant.data.dataset import Dataset
from pliant.data.validation import usable
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.fitter import DEFAULT_ALGORITHM, Fitter, fit_all, make_fitter
from pliant.fitting.loop import Status
from pliant.fitting.start import perturbed
from pliant.metrics import normalised_error, point_subset, summarise
from pliant.model import Model
from pliant.progress import Progress

_TOGETHER = 64
"""About how many fits are handed to the fitter at once."""


def evaluate(
    model: Model,
    dataset: Dataset,
    algorithms: Sequence[str | Algorithm] = (DEFAULT_ALGORITHM,),
    *,
    noise: float = 0.05,
    starts: int = 3,
    seed: int = 0,
    points: str = "all",
    iterations: int | Sequence[int] | None = None,
    sampling: float = 1.0,
    device: str = "cpu",
    jobs: int | None = None,
    skip_invalid: bool = False,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Fit every image that has landmarks from `starts` random starts with every algorithm.

    One row for the starts themselves (`algorithm` is "start", `ms` 0) and one for each algorithm: the shares
    `lt_0.02`, `lt_0.03` and `lt_0.04` of fits with an error below that, `mean`, `std` and `median` of the
    errors, and `ms`, milliseconds a fit without reading the image. Errors are mean distances at `points` (as
    in `metrics.point_subset`) over the size of the object. A fit that failed has the error of its start.

    Start k of image i depends on `seed`, i and k alone, so that algorithms and settings can be compared one
    to one. `iterations`, `sampling`, `device` and `jobs` are those of `fit`.
    """
    if not algorithms:
        raise ValueError("name at least one algorithm; pliant.catalogue() lists all 31.")
    if not 0 <= noise < 1:
        raise ValueError(f"noise must be at least 0 and below 1, not {noise!r}.")
    if starts < 1:
        raise ValueError(f"starts = {starts!r}: give each image at least one start.")
    subset = point_subset(points, model.landmarks)
    fitters = [
        make_fitter(
            model,
            algorithm=algorithm,
            iterations=iterations,
            sampling=sampling,
            device=device,
            jobs=jobs,
            trace=False,
        )
        for algorithm in algorithms
    ]
    with Progress(progress) as bar:
        images, truths = _annotated(model, dataset, fitters[0].jobs, skip_invalid, bar)
        begins = [
            [perturbed(model, truth, noise, np.random.default_rng([seed, i, k])) for k in range(starts)]
            for i, truth in enumerate(truths)
        ]
        at_start = [
            [normalised_error(begin, truth, subset) for begin in some]
            for some, truth in zip(begins, truths, strict=True)
        ]
        rows = [{"algorithm": "start", **summarise(_flat(at_start)), "ms": 0.0}]
        for fitter in fitters:
            advance = bar.start(str(fitter.algorithm), len(images))
            # A copy, because what a fitter prepares is large, and need not outlive its turn.
            errors, seconds = _errors(replace(fitter), images, truths, begins, at_start, subset, advance)
            milliseconds = 1000 * seconds / len(errors)
            rows.append({"algorithm": str(fitter.algorithm), **summarise(errors), "ms": milliseconds})
    return rows


def _annotated(
    model: Model, dataset: Dataset, jobs: int, skip_invalid: bool, bar: Progress
) -> tuple[Dataset, Float64]:
    """The samples that have landmarks, checked, and the landmarks `(k, v, 2)`."""
    annotated = tuple(sample for sample in dataset if sample.points_source is not None)
    if not annotated:
        raise ValueError(f"{dataset.source}: no image has a landmark file beside it to compare fits with.")
    advance = bar.start("checking images", len(annotated))
    valid = usable(Dataset(annotated, dataset.source), skip_invalid, jobs, advance)
    if not len(valid.dataset):
        raise ValueError(f"{dataset.source}: no sample can be used.")
    count = valid.points.shape[1]
    if count != model.landmarks:
        raise ValueError(
            f"{dataset.source}: the images have {count} landmarks, and the model has {model.landmarks}."
        )
    return valid.dataset, valid.points


def _errors(
    fitter: Fitter,
    images: Dataset,
    truths: Float64,
    begins: list[list[Float64]],
    at_start: list[list[float]],
    subset: Int32,
    advance: Callable[[], None],
) -> tuple[list[float], float]:
    """The error of every fit, and the seconds that all fits took; `begins` and `at_start` are a list an image."""
    errors: list[float] = []
    seconds = 0.0
    # The first fit prepares and compiles, which says nothing about the algorithm.
    fitter.block([images[0]], [begins[0][0]])
    together = max(1, _TOGETHER // len(begins[0]))
    for first in range(0, len(images), together):
        numbers = range(first, min(first + together, len(images)))
        pixels = {i: images[i].image() for i in numbers}
        work = [(i, k) for i in numbers for k in range(len(begins[i]))]
        begin = time.perf_counter()
        fits = list(fit_all(fitter, ((pixels[i], begins[i][k]) for i, k in work), len(work)))
        seconds += time.perf_counter() - begin
        for (i, k), fit in zip(work, fits, strict=True):
            failed = fit.status is Status.FAILED
            errors.append(at_start[i][k] if failed else normalised_error(fit.points, truths[i], subset))
        for _ in numbers:
            advance()
    return errors, seconds


def _flat(errors: list[list[float]]) -> list[float]:
    return [error for some in errors for error in some]
