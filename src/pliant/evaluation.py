"""How well algorithms fit a model to annotated images, from starts that are the same for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pliant.arrays import Float64, Floats, Image, Int32
from pliant.batch import BLOCK, fit_all
from pliant.data.addresses import Source
from pliant.data.advice import advice
from pliant.data.annotation import Size
from pliant.data.dataset import Dataset, Sample
from pliant.data.loading import as_dataset
from pliant.data.validation import usable
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.metrics import normalised_error, point_subset, summarise
from pliant.model import Model
from pliant.progress import Progress
from pliant.records import FitRecord
from pliant.settings import Evaluating, Fitting
from pliant.shape import shape_size
from pliant.starts.candidates import start_candidates
from pliant.starts.choice import find_starts
from pliant.starts.noise import random_start
from pliant.starts.placement import LOST

_TOGETHER = 64
"""About how many fits are handed to the fitter at once."""

Row = dict[str, Any]


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

    @property
    def sentence(self) -> str:
        """How many images the object was found in, and how it was missed in the others."""
        line = f"the object was found in {self.found} of {self.images} images, {self.ms:.0f} ms each"
        if self.found == self.images:
            return line
        return (
            f"{line}; in {self.nothing} nothing was found, and in {self.far} the start was off by more than "
            f"{LOST:g} of its size. The rows are about the images in which it was found."
        )


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


@dataclass(frozen=True)
class _Truth:
    """What fits are compared with: landmarks `(k, v, 2)`, of which `subset` counts, and lengths of pixels."""

    model: Model
    images: Dataset
    points: Float64
    subset: Int32
    spacings: Float64

    def error(self, image: int, points: Floats) -> float:
        return normalised_error(points, self.points[image], self.subset)


def evaluate(
    model: Model,
    dataset: Dataset | Source | Iterable[Sample],
    algorithms: Sequence[str | Algorithm] | None = None,
    settings: Fitting | None = None,
    evaluating: Evaluating | None = None,
    *,
    find: Callable[[Image], Floats] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    **changes: Any,
) -> Evaluation:
    """Fit every image that has landmarks with every algorithm, and compare.

    Parameters
    ----------
    model
        What to fit.
    dataset
        Annotated images, or a folder or file to load them from.
    algorithms
        Names or values; that of `settings` if not given.
    settings
        How to fit, `Fitting()` if not given. Starts are judged by themselves: no image is scanned again.
    evaluating
        What fits begin from and which landmarks count, `Evaluating()` if not given. With `noise` as the `start`,
        there are `starts` random ones for each image; start k of image i depends on the seed, i and k alone, so
        that algorithms and settings can be compared one to one. Otherwise the landmarks are not looked at.
    find
        A function that finds starts in an image, in place of the ways that `evaluating.start` knows.
    jobs, progress
        As in `fit` and `train`.
    **changes
        Settings by their names, in place of those in `settings` and `evaluating`.

    Returns
    -------
    Evaluation
        `rows` sum up: one for the starts themselves (`algorithm` is "start", `ms` 0) and one for each algorithm,
        with the shares `lt_0.02`, `lt_0.03` and `lt_0.04` of fits with an error below that, `mean`, `std` and
        `median` of the errors, `pixels`, their mean in pixels of the image, `units`, the same in millimetres or
        whatever the landmark files have, if all of them say how long a pixel is, and `ms`, milliseconds a fit
        without reading the image. Errors are mean distances at `points` (as in `metrics.point_subset`) over the
        size of the object: the mean of the width and the height of the box around its landmarks. A fit that failed
        has the error of its start. `records` has every fit. `search` says in how many images the object was not
        found, if it was looked for; rows are about the others alone.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.synthetic.faces(12, seed=1, image_size=64)
    >>> model = pliant.train(faces[:10], size=30, shape_modes=(1, 3), confidence=False, progress=False)
    >>> done = pliant.evaluate(model, faces[10:], ["po-asy-gn"], starts=1, progress=False)
    >>> [row["algorithm"] for row in done.rows], len(done.records)
    (['start', 'po-asy-gn'], 2)

    """
    dataset = as_dataset(dataset)
    known = {one.name for one in fields(Evaluating)}
    own = {name: value for name, value in changes.items() if name in known}
    evaluating = (evaluating or Evaluating()).changed(**own)
    settings = (settings or Fitting()).changed(**{k: v for k, v in changes.items() if k not in known})
    names = [settings.algorithm] if algorithms is None else algorithms
    if not names:
        raise ValueError("name at least one algorithm; pliant.catalogue() lists all 31.")
    subset = point_subset(evaluating.points, model.landmarks)
    if find is None and evaluating.start != "noise":
        find = find_starts(model, settings, start=evaluating.start)
    elif find is None and any((settings.detector, settings.every_box, settings.fallback)):
        raise ValueError(
            "detector=NAME, every_box=True and fallback=WAY find starts: say how with start=WAY. From noise, "
            "there is nothing to be found."
        )
    fitters = [
        make_fitter(model, settings, jobs=jobs, trace=False, confidence=False, algorithm=name)
        for name in names
    ]
    with Progress(progress) as bar:
        images, points = annotated(dataset, fitters[0].jobs, evaluating.skip_invalid, bar)
        truth = _truth(model, images, points, subset)
        search = None
        if find is None:
            begins = _moved_at_random(truth, evaluating, settings.seed)
        else:
            advance = bar.start("finding starts", len(images))
            begins, search = _searched(truth, find, fitters[0].jobs, advance)
        rows, records = _compared(fitters, truth, begins, bar)
    return Evaluation(rows, tuple(records), search)


def _truth(model: Model, images: Dataset, points: Float64, subset: Int32) -> _Truth:
    if points.shape[1] != model.landmarks:
        raise ValueError(
            f"{images.source}: the images have {points.shape[1]} landmarks, and the model has {model.landmarks}."
        )
    spacings = np.array([sample.spacing() or np.nan for sample in images], dtype=np.float64)
    return _Truth(model, images, points, subset, spacings)


def _compared(
    fitters: Sequence[Fitter], truth: _Truth, begins: list[_Begin], bar: Progress
) -> tuple[list[Row], list[FitRecord]]:
    """The rows that sum up, and every fit."""
    rows, records = [_start_row(truth, [begin for begin in begins if begin.found])], []
    for fitter in fitters:
        advance = bar.start(str(fitter.algorithm), len(begins))
        # A copy, because what a fitter prepares is large, and need not outlive its turn.
        some, seconds = _records(replace(fitter), truth, begins, advance)
        milliseconds = 1000 * seconds / sum(begin.start is not None for begin in begins)
        rows.append(_row(str(fitter.algorithm), [one for one in some if one.found], milliseconds))
        records += some
    return rows, records


def _start_row(truth: _Truth, found: Sequence[_Begin]) -> Row:
    sizes = shape_size(truth.points)
    away = [(sizes[b.image] * b.error, truth.spacings[b.image] * sizes[b.image] * b.error) for b in found]
    return {"algorithm": "start", **summarise(b.error for b in found), **_means(away), "ms": 0.0}


def _row(algorithm: str, found: Sequence[FitRecord], milliseconds: float) -> Row:
    away = [(record.pixels, record.units) for record in found]
    errors = [record.error for record in found]
    return {"algorithm": algorithm, **summarise(errors), **_means(away), "ms": milliseconds}


def _moved_at_random(truth: _Truth, evaluating: Evaluating, seed: int) -> list[_Begin]:
    return [
        replace(
            _begin(truth, i, k, random_start(truth.model, points, evaluating.noise, seed, i, k)), found=True
        )
        for i, points in enumerate(truth.points)
        for k in range(evaluating.starts)
    ]


def _means(away: Sequence[tuple[float, float]]) -> Row:
    """The mean error in pixels, and in units if each is known, of the fits whose error is a number."""
    values = np.array(away)
    pixels, units = values[np.isfinite(values[:, 0])].T
    known = len(pixels) > 0
    lengths = {"units": float(np.mean(units))} if known and np.isfinite(units).all() else {}
    return {"pixels": float(np.mean(pixels)) if known else np.nan, **lengths}


def _begin(truth: _Truth, image: int, number: int, start: Floats | None) -> _Begin:
    if start is None:
        return _Begin(image, number, None, np.nan, False)
    errors = [truth.error(image, one) for one in start_candidates(truth.model, start)]
    return _Begin(image, number, start, errors[0], min(errors) <= LOST)


def _searched(
    truth: _Truth, find: Callable[[Image], Floats], jobs: int, advance: Callable[[], None]
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
        looked = list(pool.map(look, truth.images))
    begins = [_begin(truth, i, 0, start) for i, (start, _) in enumerate(looked)]
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
    fitter: Fitter, truth: _Truth, begins: list[_Begin], advance: Callable[[], None]
) -> tuple[list[FitRecord], float]:
    """Every fit compared with the truth, and the seconds that all fits took."""
    records: list[FitRecord] = []
    seconds = 0.0
    # The first fit prepares and compiles, which says nothing about the algorithm.
    first = next(begin for begin in begins if begin.start is not None)
    fitter.block([truth.images[first.image].image()], [_start_of(first)])
    for low in range(0, len(begins), _TOGETHER):
        some = begins[low : low + _TOGETHER]
        pixels = {i: truth.images[i].image() for i in sorted({begin.image for begin in some})}
        work = [(pixels[begin.image], _start_of(begin)) for begin in some if begin.start is not None]
        clock = time.perf_counter()
        fits = iter(list(fit_all(fitter, work, len(work), BLOCK)))
        seconds += time.perf_counter() - clock
        for begin in some:
            fit = next(fits) if begin.start is not None else None
            height, width = pixels[begin.image].shape[:2]
            records.append(_record(truth, begin, str(fitter.algorithm), fit, (width, height)))
            advance()
    return records, seconds


def _start_of(begin: _Begin) -> Floats:
    assert begin.start is not None
    return begin.start


def _record(
    truth: _Truth, begin: _Begin, algorithm: str, fit: FitResult | None, image_size: Size
) -> FitRecord:
    known = truth.points[begin.image]
    points = np.full_like(known, np.nan) if fit is None else fit.points
    failed = fit is None or fit.status is Status.FAILED
    error = begin.error if failed else truth.error(begin.image, points)
    size = float(shape_size(known))
    return FitRecord(
        image=truth.images[begin.image].name,
        size=image_size,
        algorithm=algorithm,
        start=begin.number,
        status=Status.FAILED if fit is None else fit.status,
        reason="no start was found." if fit is None else fit.reason,
        error=error,
        pixels=size * error,
        units=float(truth.spacings[begin.image] * size * error),
        distances=np.linalg.norm(points - known, axis=-1) / size,
        points=points,
        confidence=0.0 if fit is None else fit.confidence(),
        cost=np.nan if fit is None else fit.cost,
        iterations=0 if fit is None else fit.iterations,
        seconds=0.0 if fit is None else fit.seconds,
        found=begin.found,
    )
