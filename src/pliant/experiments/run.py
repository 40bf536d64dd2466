"""Fit what is left to fit of an experiment, and write it down."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pliant.arrays import Float64, Image, Int32
from pliant.batch import BLOCK, fit_all
from pliant.crew import Crew, Threads
from pliant.data.dataset import Dataset
from pliant.data.loading import load_dataset, short_name
from pliant.evaluation import annotated
from pliant.experiments import rows
from pliant.experiments.trial import Sets, Trial
from pliant.experiments.units import Unit, by_model, model_of
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.metrics import normalised_error, point_subset
from pliant.model import Model
from pliant.objects import said
from pliant.progress import Advance, Progress
from pliant.settings import Training
from pliant.shape import shape_size
from pliant.starts.noise import perturbed, random_start
from pliant.table import cells_of
from pliant.training import train

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Annotated:
    """Samples with their landmarks `(k, v, 2)`, their numbers in the whole set `(k,)`, and a fingerprint of all."""

    samples: Dataset
    truths: Float64
    numbers: Int32
    fingerprint: str

    def only(self, chosen: Sequence[int] | Int32) -> Annotated:
        """Some of the samples, by their place."""
        samples = tuple(self.samples[int(k)] for k in chosen)
        truths, numbers = self.truths[chosen], self.numbers[chosen]
        fingerprint = hashlib.sha256("\n".join(short_name(sample.name) for sample in samples).encode())
        fingerprint.update(np.ascontiguousarray(truths).tobytes() + np.ascontiguousarray(numbers).tobytes())
        return Annotated(Dataset(samples, self.samples.source), truths, numbers, fingerprint.hexdigest())

    def spread(self, most: int) -> Annotated:
        """At most so many samples, evenly from all of them."""
        count = len(self.samples)
        if not most or count <= most:
            return self
        return self.only(np.unique(np.linspace(0, count - 1, most).round().astype(np.int32)))


@dataclass
class Data:
    """The sets that trials name: each is read and checked once, when it is first asked for."""

    jobs: int
    bar: Progress
    skip_invalid: bool = False
    _model: tuple[tuple[Training, Sets], Model] | None = None
    _sets: dict[tuple[tuple[str, ...], str, str, str], Annotated] = field(default_factory=dict)

    def whole(self, sources: tuple[str, ...], sets: Sets, part: str) -> Annotated:
        """All samples of sources, read as those of the sets are, or those in one part of their manifests."""
        key = sources, sets.images, sets.format, part
        if key not in self._sets:
            loaded = load_dataset(*sources, images=sets.images or None, format=sets.format)
            loaded = loaded.part(part) if part else loaded
            samples, truths = annotated(loaded, self.jobs, self.skip_invalid, self.bar)
            every = np.arange(len(samples), dtype=np.int32)
            self._sets[key] = Annotated(samples, truths, every, "").only(every)
        return self._sets[key]

    def model(self, trial: Trial, crew: Crew) -> Model:
        """The model of a trial; the last one is kept."""
        if self._model is None or self._model[0] != model_of(trial):
            self.keep(trial, crew.one(_train_one, trial, self.training(trial.sets).samples))
        assert self._model is not None
        return self._model[1]

    def keep(self, trial: Trial, model: Model) -> None:
        """Keep the model of a trial until there is another."""
        self._model = model_of(trial), model

    def training(self, sets: Sets) -> Annotated:
        """What a model learns from."""
        return self._part(sets, held_out=False).spread(sets.most)

    def test(self, trial: Trial) -> Annotated:
        """What a trial is tried on."""
        if trial.sets.folds:
            return self._part(trial.sets, held_out=True).spread(trial.most)
        return self.whole(trial.test, trial.sets, trial.test_part).spread(trial.most)

    def _part(self, sets: Sets, held_out: bool) -> Annotated:
        whole = self.whole(sets.sources, sets, sets.part)
        if not sets.folds:
            return whole
        rest, held = whole.samples.folds(sets.folds)[sets.fold]
        part = {id(sample) for sample in (held if held_out else rest)}
        return whole.only([k for k, sample in enumerate(whole.samples) if id(sample) in part])


def name_trials(trials: Sequence[Trial], data: Data) -> list[tuple[Trial, str]]:
    """Trials with the names of their rows. Reads the landmarks of all sets, and complains about those without."""
    named = []
    for trial in trials:
        learned, tested = data.training(trial.sets), data.test(trial)
        if learned.truths.shape[1:] != tested.truths.shape[1:]:
            raise ValueError(
                f"{tested.samples.source} has {tested.truths.shape[1]} landmarks, but "
                f"{learned.samples.source} has {learned.truths.shape[1]}: a model cannot be tested there."
            )
        point_subset(trial.points, tested.truths.shape[1])
        prints = {"learned": learned.fingerprint, "tested": tested.fingerprint}
        named.append((trial, rows.digest(trial, prints)))
    return named


@dataclass(frozen=True)
class Fitted:
    """The rows of a unit, and what their seconds were measured with."""

    rows: list[Mapping[str, Any]]
    landmark_names: Sequence[str]
    clock: Mapping[str, Any]


@dataclass(frozen=True)
class Trouble:
    """Why there is no model, or why a unit has no rows."""

    sentence: str


def run(folder: Path, left: Sequence[Unit], data: Data, crew: Crew) -> list[str]:
    """Train, fit and write what is left; returns what could not be done, in sentences.

    Each model is trained once, by one of the crew, side by side with others. Its units are then dealt to all of
    them, while later models may still be trained. This process goes through models and units one after the other.
    Rows come back here to be written, so that workers need no more than the images.
    """
    tests = {images_of(unit.trial): data.test(unit.trial) for unit in left}
    advance = data.bar.start("fitting", sum(len(tests[images_of(unit.trial)].samples) for unit in left))
    groups = by_model(left)
    troubles: list[str] = []

    def note(unit: str, trouble: Trouble) -> None:
        troubles.append(f"{unit}: {trouble.sentence}")
        data.bar.note(troubles[-1])

    for units, model in _trained(crew, groups, data):
        if isinstance(model, Trouble):
            note(f"the model of {units[0].trial.label}, needed by {len(units)} units", model)
            continue
        data.keep(units[0].trial, model)
        own = {images_of(unit.trial): tests[images_of(unit.trial)] for unit in units}
        for which, done in _fitted(crew, units, model, own, advance):
            if isinstance(done, Trouble):
                note(str(units[which]), done)
            else:
                rows.write_rows(
                    units[which].file(folder), units[which].trial, done.rows, done.landmark_names, done.clock
                )
    return troubles


def _trained(
    crew: Crew, groups: Sequence[list[Unit]], data: Data
) -> Iterator[tuple[list[Unit], Model | Trouble]]:
    """The units of each model with the model, as they come."""
    advance = data.bar.start("training models", len(groups))
    for low in range(0, len(groups), _AHEAD):
        some = groups[low : low + _AHEAD]
        lessons = [(units[0].trial, data.training(units[0].trial.sets).samples) for units in some]
        called = [f"the model of {units[0].trial.label}" for units in some]
        for number, model in _all_named(called, crew.each(train_models, lessons)):
            advance(isinstance(model, Trouble))
            yield some[number], model


_AHEAD = 16
"""Models that are under way at most, or wait for their units to be fitted: each takes memory."""


def _fitted(
    crew: Crew, units: Sequence[Unit], model: Model, tests: Mapping[Any, Annotated], advance: Advance
) -> Iterator[tuple[int, Fitted | Trouble]]:
    """The units of a model as they come; those that are fitted here advance with every image."""
    if isinstance(crew, Threads):
        yield from enumerate(fit_units(units, model, tests, threads=crew.threads, advance=advance))
        return
    for number, done in _all_named(list(map(str, units)), crew.each(fit_units, units, model, tests)):
        for row in done.rows if isinstance(done, Fitted) else ():
            advance(row["status"] == Status.FAILED)
        yield number, done


def _all_named(names: Sequence[str], results: Iterable[tuple[int, Result]]) -> Iterator[tuple[int, Result]]:
    """Results of a crew as they come; if it cannot go on, the error names what it has not done."""
    left = dict(enumerate(names))
    try:
        for number, result in results:
            del left[number]
            yield number, result
    except OSError as error:
        if not left:
            raise
        raise OSError(f"{error} Not done: {'; '.join(left.values())}.") from error


def images_of(trial: Trial) -> tuple[Any, ...]:
    """What decides the images that a trial is tried on."""
    return (
        (trial.sets, trial.most)
        if trial.sets.folds
        else (trial.test, trial.test_part, trial.most, trial.sets)
    )


def train_models(lessons: Iterable[tuple[Trial, Dataset]], *, threads: int) -> Iterator[Model | Trouble]:
    """The models of trials, each with the samples that it learns from."""
    for trial, samples in lessons:
        found: Model | Trouble
        try:
            found = train_model(trial, samples, threads)
        except Exception as error:
            found = Trouble(said(error))
        yield found


def train_model(trial: Trial, samples: Dataset, jobs: int | None) -> Model:
    """The model of a trial."""
    return train(samples, trial.training, jobs=jobs, progress=False)


def _train_one(trial: Trial, samples: Dataset, *, threads: int) -> Model:
    return train_model(trial, samples, threads)


def fit_units(
    units: Iterable[Unit],
    model: Model,
    tests: Mapping[Any, Annotated],
    *,
    threads: int,
    advance: Advance = lambda failed=False: None,
) -> Iterator[Fitted | Trouble]:
    """The rows of units of one model; `tests` are the images of their trials."""
    last: tuple[Trial, Fitter] | None = None
    for unit in units:
        done: Fitted | Trouble
        trial = unit.trial
        try:
            if last is None or last[0] != trial:
                # Forgotten first: what a fitter prepares is large.
                last = None
                last = trial, make_fitter(model, trial.fitting, jobs=threads, confidence=False)
            shared = rows.settings_of(trial, unit.rows)
            fits = _fit(last[1], trial, tests[images_of(trial)], unit.start, advance)
            done = Fitted([{**shared, **row} for row in fits], model.landmark_names, rows.clock(threads))
        except Exception as error:
            done = Trouble(said(error))
        yield done


def _fit(
    fitter: Fitter, trial: Trial, tested: Annotated, start: int, advance: Advance
) -> Iterator[Mapping[str, Any]]:
    """The rows of all images from start number `start`, in their order."""
    model = fitter.model
    subset = point_subset(trial.points, model.landmarks)
    begins = [
        _begins(model, trial, truth, int(number), start)
        for truth, number in zip(tested.truths, tested.numbers, strict=True)
    ]
    # The first fit prepares and compiles, which says nothing about the algorithm.
    fitter.block([tested.samples[0].image()], [begins[0]])

    def then(k: int, fit: FitResult, image: Image | None) -> Mapping[str, Any]:
        name, number = short_name(tested.samples[k].name), int(tested.numbers[k])
        size = None if image is None else (image.shape[1], image.shape[0])
        fit = _seen(fit) if trial.expert_alone else fit
        judged = _judged(fit, begins[k][0], tested.truths[k], subset)
        return {**cells_of(name, fit, size), "number": number, "start": start, **judged}

    # Blocks begin at the same images in every run, whatever was done before: the last bits of a fit depend on them.
    for row in fit_all(fitter, zip(tested.samples, begins, strict=True), block=BLOCK, then=then):
        yield row
        advance(row["status"] == Status.FAILED)


def _seen(fit: FitResult) -> FitResult:
    """What the expert has seen, in place of the fit; where it saw nothing, the start is all that there is."""
    points = fit.start if fit.sightings is None else fit.sightings.points[0]
    return replace(fit, points=points, trace=(), iterations=0)


def _begins(model: Model, trial: Trial, truth: Float64, number: int, start: int) -> Float64:
    """The start of an image, and places about it `(tries, v, 2)`: the truth is not looked at for these."""
    seed = trial.fitting.seed
    first = random_start(model, truth, trial.noise, seed, number, start)
    rng = np.random.default_rng([seed, number, start, 1])
    about = [perturbed(model, first, trial.noise, rng) for _ in range(trial.fitting.tries - 1)]
    return np.array([first, *about])


def _judged(fit: FitResult, start: Float64, truth: Float64, subset: Int32) -> dict[str, Any]:
    """How far a fit and its start are from the truth, and how it got there."""
    size = float(shape_size(truth))
    failed = fit.status is Status.FAILED
    far = [
        np.linalg.norm(level.points[:, subset] - truth[subset], axis=-1).mean(axis=-1) for level in fit.trace
    ]
    return {
        "error": normalised_error(start if failed else fit.points, truth, subset),
        "start_error": normalised_error(start, truth, subset),
        "distances": None if failed else (np.linalg.norm(fit.points - truth, axis=-1) / size).tolist(),
        "costs": [level.costs.tolist() for level in fit.trace],
        "errors": [(distances / size).tolist() for distances in far],
    }
