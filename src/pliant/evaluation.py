"""How well algorithms fit a model to annotated images, from starts that are the same for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.arrays import Concise, Float64, Floats, Image, Int32
from pliant.data.addresses import Source
from pliant.data.advice import advice
from pliant.data.dataset import Dataset, Sample
from pliant.data.loading import as_dataset
from pliant.data.validation import usable
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.fitter import (
    Fitter,
    fit_all,
    make_fitter,
)
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.metrics import normalised_error, point_subset, summarise
from pliant.model import Model
from pliant.progress import Progress
from pliant.settings import DEFAULT_ALGORITHM
from pliant.shape import shape_size
from pliant.starts.candidates import start_candidates
from pliant.starts.choice import find_starts
from pliant.starts.noise import random_start
from pliant.starts.placement import LOST

_TOGETHER = 64
"""About how many fits are handed to the fitter at once."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class FitRecord(Concise):
    """One fit, compared with the landmarks.

    `image` is the sample's name and `start` the number of its start, from 0. `error` is the mean distance at the
    landmarks that count, and `distances (v,)` are those of all, both over the size of the object. `pixels` is the
    same as `error` in pixels of the image, and `units` in those of the landmark file, nan if it has no scale.
    `found` says whether the start was on the object; without any start, all numbers are nan.
    """

    image: str
    algorithm: str
    start: int
    status: Status
    error: float
    pixels: float
    units: float
    distances: Float64
    points: Float64
    cost: float
    seconds: float
    found: bool


@dataclass(frozen=True)
class Search:
    """How starts without ground truth were found: in `nothing` of the images there was none, and in `far` of them
    it was off by more than 0.3 of the object's size. `ms` is the time that an image took.
    """

    images: int
    nothing: int
    far: int
    ms: float

    @property
    def found(self) -> int:
        return self.images - self.nothing - self.far


@dataclass(frozen=True)
class Evaluation:
    """Rows that sum up, as `evaluate` has them, every fit, and the search if starts had to be found."""

    rows: list[Row]
    records: tuple[FitRecord, ...]
    search: Search | None


@dataclass(frozen=True)
class _Begin:
    """A start, or several to choose from, of an image; `error` is that of the first, and `found` of the best."""

    image: int
    number: int
    start: Floats | None
    error: float
    found: bool


def evaluate(
    model: Model,
    dataset: Dataset | Source | Iterable[Sample],
    algorithms: Sequence[str | Algorithm] = (DEFAULT_ALGORITHM,),
    **settings: Any,
) -> list[Row]:
    """The rows of `evaluate_fits`, which has the settings."""
    return evaluate_fits(model, dataset, algorithms, **settings).rows


def evaluate_fits(
    model: Model,
    dataset: Dataset | Source | Iterable[Sample],
    algorithms: Sequence[str | Algorithm] = (DEFAULT_ALGORITHM,),
    *,
    start: str | Callable[[Image], Floats] = "noise",
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
) -> Evaluation:
    """Fit every image that has landmarks with every algorithm.

    One row for the starts themselves (`algorithm` is "start", `ms` 0) and one for each algorithm: the shares
    `lt_0.02`, `lt_0.03` and `lt_0.04` of fits with an error below that, `mean`, `std` and `median` of the
    errors, `pixels`, their mean in pixels of the image, `units`, the same in millimetres or whatever the landmark
    files have, if all of them say how long a pixel is, and `ms`, milliseconds a fit without reading the image.
    Errors are mean distances at `points` (as in `metrics.point_subset`) over the size of the object: the mean of
    the width and the height of the box around its landmarks. A fit that failed has the error of its start.

    With `noise` as the `start`, there are `starts` random ones for each image; start k of image i depends on
    `seed`, i and k alone, so that algorithms and settings can be compared one to one. Otherwise `start` is a
    function that finds them in an image, or a way that `find_starts` knows, and the landmarks are not looked at:
    `search` says in how many images the object was not found, and the rows are about the others alone.
    `iterations`, `sampling`, `device` and `jobs` are those of `fit`.
    """
    dataset = as_dataset(dataset)
    if not algorithms:
        raise ValueError("name at least one algorithm; pliant.catalogue() lists all 31.")
    if not 0 <= noise < 1:
        raise ValueError(f"noise must be at least 0 and below 1, not {noise!r}.")
    if starts < 1:
        raise ValueError(f"starts = {starts!r}: give each image at least one start.")
    subset = point_subset(points, model.landmarks)
    find = find_starts(model, start) if isinstance(start, str) and start != "noise" else start
    fitters = [
        make_fitter(
            model,
            algorithm=algorithm,
            iterations=iterations,
            sampling=sampling,
            device=device,
            jobs=jobs,
            trace=False,
            confidence=False,
        )
        for algorithm in algorithms
    ]
    with Progress(progress) as bar:
        images, truths = annotated(dataset, fitters[0].jobs, skip_invalid, bar)
        if truths.shape[1] != model.landmarks:
            raise ValueError(
                f"{dataset.source}: the images have {truths.shape[1]} landmarks, and the model has "
                f"{model.landmarks}."
            )
        search = None
        if isinstance(find, str):
            begins = [
                _begin(model, i, k, random_start(model, truth, noise, seed, i, k), truth, subset)
                for i, truth in enumerate(truths)
                for k in range(starts)
            ]
            begins = [replace(begin, found=True) for begin in begins]
        else:
            advance = bar.start("finding starts", len(images))
            begins, search = _searched(model, images, truths, subset, find, fitters[0].jobs, advance)
        found = [begin for begin in begins if begin.found]
        sizes = shape_size(truths)
        spacings = np.array([sample.spacing() or np.nan for sample in images], dtype=np.float64)
        away = [(sizes[b.image] * b.error, spacings[b.image] * sizes[b.image] * b.error) for b in found]
        rows: list[Row] = [
            {"algorithm": "start", **summarise(b.error for b in found), **_means(away), "ms": 0.0}
        ]
        records: list[FitRecord] = []
        for fitter in fitters:
            advance = bar.start(str(fitter.algorithm), len(begins))
            # A copy, because what a fitter prepares is large, and need not outlive its turn.
            some, seconds = _records(replace(fitter), images, truths, spacings, begins, subset, advance)
            milliseconds = 1000 * seconds / sum(begin.start is not None for begin in begins)
            errors = [record.error for record in some if record.found]
            away = [(record.pixels, record.units) for record in some if record.found]
            summed = {**summarise(errors), **_means(away), "ms": milliseconds}
            rows.append({"algorithm": str(fitter.algorithm), **summed})
            records += some
    return Evaluation(rows, tuple(records), search)


def _means(away: Sequence[tuple[float, float]]) -> Row:
    """The mean error in pixels, and in units if each is known, of the fits whose error is a number."""
    values = np.array(away)
    pixels, units = values[np.isfinite(values[:, 0])].T
    known = len(pixels) > 0
    lengths = {"units": float(np.mean(units))} if known and np.isfinite(units).all() else {}
    return {"pixels": float(np.mean(pixels)) if known else np.nan, **lengths}


def _begin(
    model: Model, image: int, number: int, start: Floats | None, truth: Float64, subset: Int32
) -> _Begin:
    if start is None:
        return _Begin(image, number, None, np.nan, False)
    errors = [normalised_error(one, truth, subset) for one in start_candidates(model, start)]
    return _Begin(image, number, start, errors[0], min(errors) <= LOST)


def _searched(
    model: Model,
    images: Dataset,
    truths: Float64,
    subset: Int32,
    find: Callable[[Image], Floats],
    jobs: int,
    advance: Callable[[], None],
) -> tuple[list[_Begin], Search]:
    """One start for each image, or several to choose from, found without the landmarks."""

    def look(sample: Sample) -> tuple[Floats | None, float]:
        image = sample.image()
        clock = time.perf_counter()
        try:
            found = find(image)
        except ValueError:
            found = None
        advance()
        return found, time.perf_counter() - clock

    with ThreadPoolExecutor(jobs) as pool:
        looked = list(pool.map(look, images))
    begins = [
        _begin(model, i, 0, start, truth, subset)
        for i, ((start, _), truth) in enumerate(zip(looked, truths, strict=True))
    ]
    nothing = sum(begin.start is None for begin in begins)
    far = len(begins) - nothing - sum(begin.found for begin in begins)
    search = Search(len(begins), nothing, far, 1000 * float(np.mean([seconds for _, seconds in looked])))
    if not search.found:
        raise ValueError(
            f"the object was found in none of {len(begins)} images: in {nothing} nothing was found, and in {far} "
            f"the start was off by more than {LOST:g} of its size. Start in another way."
        )
    return begins, search


def annotated(dataset: Dataset, jobs: int, skip_invalid: bool, bar: Progress) -> tuple[Dataset, Float64]:
    """The samples that have landmarks, checked, and the landmarks `(k, v, 2)`."""
    known = tuple(sample for sample in dataset if sample.points_source is not None)
    if not known:
        raise ValueError(
            f"{dataset.source}: no image has a landmark file beside it to compare fits with; {advice(dataset)}"
        )
    advance = bar.start("checking images", len(known))
    valid = usable(Dataset(known, dataset.source), skip_invalid, jobs, advance)
    if not len(valid.dataset):
        raise ValueError(f"{dataset.source}: no sample can be used.")
    return valid.dataset, valid.points


def _records(
    fitter: Fitter,
    images: Dataset,
    truths: Float64,
    spacings: Float64,
    begins: list[_Begin],
    subset: Int32,
    advance: Callable[[], None],
) -> tuple[list[FitRecord], float]:
    """Every fit compared with the truth, and the seconds that all fits took."""
    records: list[FitRecord] = []
    seconds = 0.0
    # The first fit prepares and compiles, which says nothing about the algorithm.
    first = next(begin for begin in begins if begin.start is not None)
    fitter.block([images[first.image]], [_start_of(first)])
    for low in range(0, len(begins), _TOGETHER):
        some = begins[low : low + _TOGETHER]
        pixels = {i: images[i].image() for i in sorted({begin.image for begin in some})}
        work = [(pixels[begin.image], _start_of(begin)) for begin in some if begin.start is not None]
        clock = time.perf_counter()
        fits = iter(list(fit_all(fitter, work, len(work))))
        seconds += time.perf_counter() - clock
        for begin in some:
            fit = next(fits) if begin.start is not None else None
            name, k = images[begin.image].name, begin.image
            records.append(_record(name, str(fitter.algorithm), begin, fit, truths[k], spacings[k], subset))
            advance()
    return records, seconds


def _start_of(begin: _Begin) -> Floats:
    assert begin.start is not None
    return begin.start


def _record(
    image: str,
    algorithm: str,
    begin: _Begin,
    fit: FitResult | None,
    truth: Float64,
    spacing: float,
    subset: Int32,
) -> FitRecord:
    points = np.full_like(truth, np.nan) if fit is None else fit.points
    failed = fit is None or fit.status is Status.FAILED
    error = begin.error if failed else normalised_error(points, truth, subset)
    size = float(shape_size(truth))
    return FitRecord(
        image=image,
        algorithm=algorithm,
        start=begin.number,
        status=Status.FAILED if fit is None else fit.status,
        error=error,
        pixels=size * error,
        units=float(spacing * size * error),
        distances=np.linalg.norm(points - truth, axis=-1) / size,
        points=points,
        cost=np.nan if fit is None else fit.cost,
        seconds=0.0 if fit is None else fit.seconds,
        found=begin.found,
    )
