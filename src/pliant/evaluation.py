"""How well a model fits annotated images: as `fit` does it, or from starts that are the same for all algorithms."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64, Floats, Image, Int32
from pliant.batch import BLOCK, Work, fit_all
from pliant.data.addresses import Source
from pliant.data.advice import advice
from pliant.data.annotation import Size
from pliant.data.dataset import Dataset, Sample
from pliant.data.loading import as_dataset
from pliant.data.validation import Validated, usable
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult, failed
from pliant.fitting.status import Status
from pliant.inputs import StartSource
from pliant.metrics import capped, matched, normalised_error, point_subset, summarise
from pliant.model import Model, as_model
from pliant.progress import Progress
from pliant.records import FitRecord, object_names
from pliant.settings import Evaluating, Fitting
from pliant.shape import shape_size
from pliant.starts.choice import Chain, find_chain
from pliant.starts.noise import random_start
from pliant.starts.placement import LOST
from pliant.terminal import counted
from pliant.trust.confidence import DEFAULT_BOUND

__all__ = ["Evaluation", "FitRecord", "evaluate"]

_TOGETHER = 64
"""About how many images are handed to the fitter at once."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """What `pliant.evaluate` found.

    Attributes
    ----------
    rows : list of dict
        A summary of the starts and one for each algorithm, as `pliant.evaluate` describes them.
    records : tuple of FitRecord
        The fit of every annotated object by every algorithm.
    false : tuple of FitRecord
        Fits that are trusted but lie on no annotated object. They have no error.
    images : int
        How many images were fitted.
    seen : int
        How many of the images the model was trained on, as far as it knows: older models do not.
    whole : bool
        Whether errors are those of all landmarks, as confidence is.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> found = pliant.evaluate(model, "annotated/", start="noise", starts=1, iterations=2, progress=False)
    >>> found.images, len(found.rows), len(found.records), found.sentences
    (2, 2, 2, [])
    >>> found.seen, found.warning
    (0, '')

    """

    rows: list[Row]
    records: tuple[FitRecord, ...]
    false: tuple[FitRecord, ...]
    images: int
    seen: int = 0
    whole: bool = True

    @property
    def sentences(self) -> list[str]:
        """What each algorithm found, missed, and saw elsewhere, and whether its fits are as good as they seem.

        Before that, a warning if images were used for training. There is nothing about finding objects if fits
        began from random starts, and nothing about confidence if the model is not calibrated or not all landmarks
        count.
        """
        searched = [row for row in self.rows if "missed" in row]
        found = [self._sentence(row, named=len(searched) > 1) for row in searched]
        names = dict.fromkeys(record.algorithm for record in self.records)
        sure = [self._about_confidence(name, named=len(names) > 1) for name in names]
        return [sentence for sentence in (self.warning, *found, *sure) if sentence]

    def _about_confidence(self, algorithm: str, named: bool) -> str:
        """Whether the fits of an algorithm are as good as their confidence says, in one sentence."""
        fits = [one for one in self.records if one.algorithm == algorithm and one.status is not Status.FAILED]
        told = [one for one in fits if not np.isnan(one.confidence)]
        if not told or not self.whole:
            return ""
        good = np.mean([one.error < DEFAULT_BOUND for one in told])
        by = f" of {algorithm}" if named else ""
        sure = np.mean([one.confidence for one in told])
        return (
            f"The fits{by} have a mean confidence of {sure:.2f}, and {good:.0%} of them have an error below "
            f"{DEFAULT_BOUND:g}."
        )

    @property
    def warning(self) -> str:
        """A sentence if the model was trained on some of the images, otherwise empty."""
        if not self.seen:
            return ""
        verb = "was" if self.seen == 1 else "were"
        return (
            f"{self.seen:,} of {counted(self.images, 'image')} {verb} used for training, and errors are usually "
            "larger on new images: evaluate images that the model has not seen, such as those that "
            "train --hold-out lists."
        )

    def _sentence(self, row: Row, named: bool) -> str:
        objects, by = row["found"] + row["missed"], f" by {row['algorithm']}" if named else ""
        missed = {0: "none was", 1: "1 was"}.get(row["missed"], f"{row['missed']} were")
        false = {
            0: "every trusted fit is on an annotated object",
            1: "1 trusted fit is where no object is annotated",
        }.get(row["false"], f"{row['false']} trusted fits are where no object is annotated")
        many = f"{row['found']} of {counted(objects, 'object')} in {counted(self.images, 'image')}"
        # Without confidence, no fit is trusted.
        judged = row["false"] or any(not np.isnan(one.confidence) for one in self.records)
        found = f"{many} {'was' if objects == 1 else 'were'} found{by}, and {missed} missed"
        return f"{found}; {false}." if judged else f"{found}."


@dataclass(frozen=True)
class _Task:
    """An image to be fitted, by the numbers of the annotated objects that its fits are compared with.

    From noise, that is one, and `number` is that of its start.
    """

    objects: tuple[int, ...]
    start: StartSource | Chain
    number: int = 0
    noise: bool = False


@dataclass(frozen=True)
class _Judged:
    """The annotated objects, by their `numbers`, with their fits, the errors of the starts, and fits on none."""

    numbers: list[int]
    records: list[FitRecord]
    starts: list[float]
    false: list[FitRecord]
    seconds: float


@dataclass(frozen=True)
class _Truth:
    """What fits are compared with: landmarks `(k, v, 2)`, of which `subset` counts, and lengths of pixels.

    `names` are those that records have for the samples.
    """

    model: Model
    samples: Dataset
    points: Float64
    subset: Int32
    spacings: Float64
    names: dict[str, tuple[str, int]]

    def error(self, number: int, points: Floats) -> float:
        return normalised_error(points, self.points[number], self.subset)


def evaluate(
    model: Model | Path | str,
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
    """Fit every image that has landmarks with every algorithm, as `fit` does, and compare with the landmarks.

    Errors are mean distances at `points` (as in `metrics.point_subset`) over the size of the object: the mean of
    the width and the height of the box around its landmarks. Objects and fits of an image are paired so that their
    distances are smallest together. An object is missed if its fit is not within 0.3 of its size. An object
    without a fit has an infinite error: it is below no bound, and in `mean`, `std`, `median`, `pixels` and `units`
    it counts as 1, like every error above 1.

    Parameters
    ----------
    model : Model, str or Path
        The model to fit, or its file.
    dataset : Dataset, str, Path or iterable of Sample
        Annotated images, or a folder or file to load them from.
    algorithms : sequence of str or Algorithm, or None
        The algorithms to compare; by default that of `settings`.
    settings : Fitting or None
        How to fit; `Fitting()` by default. The `start` is that of `evaluating`.
    evaluating : Evaluating or None
        Where fits begin and which landmarks count; `Evaluating()` by default. Starts are found as `fit` finds
        them, without the landmarks. With `start="noise"`, each object has `starts` random starts near its
        landmarks. Start k of object i depends on the seed, i and k alone, so that you can compare algorithms and
        settings one to one.
    find : callable or None
        A function from an image to starts, in place of the ways of `evaluating.start`.
    jobs : int or None
        Threads; all cores by default.
    progress : bool or None
        Show progress: by default a bar in a terminal, and otherwise a line every half minute. False shows nothing.
    **changes
        Settings by their names, in place of those in `settings` and `evaluating`.

    Returns
    -------
    Evaluation
        `rows` has a summary of the starts (`algorithm` is "start", `ms` is 0) and one for each algorithm:
        `lt_0.02`, `lt_0.03` and `lt_0.04`, the shares of objects whose fit has a smaller error; `mean`, `std` and
        `median` of the errors; `pixels`, their mean in pixels of the image; `units`, the same in units such as
        millimetres, if all landmark files give the length of a pixel; and `ms`, milliseconds per image without
        reading it. If objects had to be found, a row also counts those `found` and `missed`, and the `false` ones:
        trusted fits that are on no annotated object. `records` has the fit of every annotated object, and `false`
        the fits that are on none.

    Raises
    ------
    InvalidDataset
        If samples cannot be used. With `skip_invalid`, such samples are left out with a warning.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> done = pliant.evaluate(model, "annotated/", ["po-asy-gn"], start="noise", starts=1, progress=False)
    >>> [row["algorithm"] for row in done.rows], len(done.records)
    (['start', 'po-asy-gn'], 2)

    """
    model, dataset = as_model(model), as_dataset(dataset)
    known = {one.name for one in fields(Evaluating)}
    own = {name: value for name, value in changes.items() if name in known}
    evaluating = (evaluating or Evaluating()).changed(**own)
    settings = (settings or Fitting()).changed(**{k: v for k, v in changes.items() if k not in known})
    names = [settings.algorithm] if algorithms is None else algorithms
    if not names:
        raise ValueError("give at least one algorithm; pliant.catalogue() lists all 31.")
    subset = point_subset(evaluating.points, model.landmarks)
    noise = find is None and evaluating.start == "noise"
    if noise and any((settings.detector, settings.fallback)):
        raise ValueError(
            "detector=NAME and fallback=WAY are for finding starts, but start=noise does not search: use "
            "start=WAY."
        )
    usual = Evaluating()
    if not noise and (evaluating.noise, evaluating.starts) != (usual.noise, usual.starts):
        raise ValueError(
            f"noise={evaluating.noise:g} and starts={evaluating.starts} are for random starts near the "
            "landmarks: use start=noise."
        )
    where = None if noise else find or find_chain(model, settings, start=evaluating.start)
    confidence = False if noise else None
    fitters = [
        make_fitter(model, settings, jobs=jobs, trace=False, confidence=confidence, algorithm=name)
        for name in names
    ]
    with Progress(progress) as bar:
        valid = _annotated(dataset, fitters[0].jobs, evaluating.skip_invalid, bar)
        truth = _truth(model, valid.dataset, valid.points, subset, object_names(dataset))
        tasks = _noisy(truth, evaluating, settings.seed) if where is None else _searched(truth, where)
        return replace(_compared(fitters, truth, tasks, bar), seen=_seen(model, valid))


def _truth(
    model: Model, samples: Dataset, points: Float64, subset: Int32, names: dict[str, tuple[str, int]]
) -> _Truth:
    if points.shape[1] != model.landmarks:
        raise ValueError(
            f"{samples.source}: the images have {points.shape[1]} landmarks, but the model has "
            f"{model.landmarks}."
        )
    spacings = np.array([sample.spacing() or np.nan for sample in samples], dtype=np.float64)
    return _Truth(model, samples, points, subset, spacings, names)


def _noisy(truth: _Truth, evaluating: Evaluating, seed: int) -> list[_Task]:
    """Random starts beside the landmarks of each object."""
    return [
        _Task((i,), random_start(truth.model, points, evaluating.noise, seed, i, k), k, noise=True)
        for i, points in enumerate(truth.points)
        for k in range(evaluating.starts)
    ]


def _searched(truth: _Truth, where: Callable[[Image], Floats] | Chain) -> list[_Task]:
    """Every image once, with all objects that are annotated in it."""
    objects: dict[tuple[object, int], list[int]] = {}
    again: Counter[str] = Counter()
    for number, sample in enumerate(truth.samples):
        # A sample that is named twice is not a second object.
        objects.setdefault((sample.image_source, again[sample.name]), []).append(number)
        again[sample.name] += 1
    return [_Task(tuple(some), where) for some in objects.values()]


def _compared(fitters: Sequence[Fitter], truth: _Truth, tasks: Sequence[_Task], bar: Progress) -> Evaluation:
    rows: list[Row] = []
    records: list[FitRecord] = []
    false: list[FitRecord] = []
    for fitter in fitters:
        name = str(fitter.algorithm)
        advance = bar.start(name, len(tasks))
        # A copy, because what a fitter prepares is large, and need not outlive its turn.
        judged = _judged(replace(fitter), truth, tasks, advance)
        if not rows:
            rows.append(_row("start", judged.starts, judged.numbers, truth))
        row = _row(name, [one.error for one in judged.records], judged.numbers, truth)
        row["ms"] = 1000 * judged.seconds / len(tasks)
        if not tasks[0].noise:
            found = sum(one.found for one in judged.records)
            row |= {"found": found, "missed": len(judged.records) - found, "false": len(judged.false)}
        rows.append(row)
        records += judged.records
        false += judged.false
    images = len({sample.image_source for sample in truth.samples})
    whole = len(truth.subset) == truth.points.shape[1]
    return Evaluation(rows, tuple(records), tuple(false), images, whole=whole)


def _row(algorithm: str, errors: Sequence[float], numbers: Sequence[int], truth: _Truth) -> Row:
    """What is said of errors, with those of objects that were not found as large as the objects."""
    counted = capped(errors)
    pixels = counted * shape_size(truth.points[numbers])
    units = pixels * truth.spacings[numbers]
    lengths = {"units": float(np.mean(units))} if np.isfinite(units).all() else {}
    means = {"pixels": float(np.mean(pixels)), **lengths}
    return {"algorithm": algorithm, **summarise(counted), **means, "ms": 0.0}


def _seen(model: Model, valid: Validated) -> int:
    """How many of the images the model was trained on."""
    if model.training_images is None:
        return 0
    known = {tuple(picture) for picture in model.training_images.tolist()}
    pairs = zip(valid.dataset, valid.pictures.tolist(), strict=True)
    return len({sample.image_source for sample, picture in pairs if tuple(picture) in known})


def annotated(dataset: Dataset, jobs: int, skip_invalid: bool, bar: Progress) -> tuple[Dataset, Float64]:
    """The samples that have landmarks, checked, and the landmarks `(k, v, 2)`."""
    valid = _annotated(dataset, jobs, skip_invalid, bar)
    return valid.dataset, valid.points


def _annotated(dataset: Dataset, jobs: int, skip_invalid: bool, bar: Progress) -> Validated:
    known = with_landmarks(dataset)
    advance = bar.start("checking images", len(known))
    valid = usable(known, skip_invalid, jobs, advance)
    if not len(valid.dataset):
        raise ValueError(f"{dataset.source}: no sample can be used.")
    return valid


def with_landmarks(dataset: Dataset) -> Dataset:
    """The samples that have landmarks; it is an error if there are none."""
    known = tuple(sample for sample in dataset if sample.points_source is not None)
    if not known:
        raise ValueError(f"{dataset.source}: no image has landmarks to compare fits with; {advice(dataset)}")
    return Dataset(known, dataset.source)


def _judged(fitter: Fitter, truth: _Truth, tasks: Sequence[_Task], advance: Callable[[], None]) -> _Judged:
    """Every annotated object compared with its fit."""
    numbers: list[int] = []
    records: list[FitRecord] = []
    starts: list[float] = []
    false: list[FitRecord] = []
    seconds = 0.0
    # The first fit prepares and compiles, which says nothing about the algorithm.
    first: Work = (truth.samples[tasks[0].objects[0]].image(), tasks[0].start)
    list(fit_all(fitter, [first]))
    for low in range(0, len(tasks), _TOGETHER):
        some = tasks[low : low + _TOGETHER]
        pixels = {i: truth.samples[i].image() for i in sorted({task.objects[0] for task in some})}
        work: list[Work] = [(pixels[task.objects[0]], task.start) for task in some]
        clock = time.perf_counter()
        results = list(fit_all(fitter, work, len(work), BLOCK))
        seconds += time.perf_counter() - clock
        for task, result in zip(some, results, strict=True):
            height, width = pixels[task.objects[0]].shape[:2]
            pairs, others = _paired(truth, task, result)
            for number, fit, found in pairs:
                numbers.append(number)
                records.append(_record(truth, number, task, fit, (width, height), found))
                starts.append(truth.error(number, fit.start))
            for which, fit in enumerate(others):
                if not fit.confidence() < fitter.settings.trusted:
                    false.append(_false_record(truth, task, which, fit, (width, height)))
            advance()
    return _Judged(numbers, records, starts, false, seconds)


def _paired(
    truth: _Truth, task: _Task, result: FitResult
) -> tuple[list[tuple[int, FitResult, bool]], list[FitResult]]:
    """The annotated objects with their fits, and whether these are on them; and the fits that are on none."""
    if task.noise:
        return [(task.objects[0], result, result.status is not Status.FAILED)], []
    fits = [fit for fit in result.objects if fit.status is not Status.FAILED]
    numbers = matched([truth.points[number] for number in task.objects], [fit.points for fit in fits])
    everything = np.arange(truth.model.landmarks, dtype=np.int32)
    reason = result.reason or "no fit is on this object."
    pairs, on_objects = [], set()
    for number, which in zip(task.objects, numbers, strict=True):
        if which is None:
            pairs.append((number, failed(truth.model, result.algorithm, None, reason), False))
            continue
        found = normalised_error(fits[which].points, truth.points[number], everything) <= LOST
        pairs.append((number, fits[which], found))
        on_objects |= {which} if found else set()
    return pairs, [fit for which, fit in enumerate(fits) if which not in on_objects]


def _record(
    truth: _Truth, number: int, task: _Task, fit: FitResult, image_size: Size, found: bool
) -> FitRecord:
    known = truth.points[number]
    image, which = truth.names[truth.samples[number].name]
    error = np.inf if fit.status is Status.FAILED else truth.error(number, fit.points)
    size = float(shape_size(known))
    points = np.full_like(known, np.nan) if fit.status is Status.FAILED else fit.points
    return FitRecord(
        image=image,
        object=which,
        size=image_size,
        algorithm=fit.algorithm,
        start=task.number,
        status=fit.status,
        reason=fit.reason,
        error=error,
        pixels=size * error,
        units=float(truth.spacings[number] * size * error),
        distances=np.linalg.norm(points - known, axis=-1) / size,
        points=points,
        confidence=fit.confidence(),
        cost=fit.cost,
        iterations=fit.iterations,
        seconds=fit.seconds,
        found=found,
    )


def _false_record(truth: _Truth, task: _Task, which: int, fit: FitResult, image_size: Size) -> FitRecord:
    """A fit that is on no annotated object: nothing can be said about its error."""
    record = _record(truth, task.objects[0], task, fit, image_size, found=False)
    unknown = np.full(len(fit.points), np.nan)
    return replace(record, object=which, error=np.nan, pixels=np.nan, units=np.nan, distances=unknown)
