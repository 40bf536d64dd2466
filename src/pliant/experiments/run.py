"""Fit what is left to fit of an experiment, and write it down."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64, Image, Int32
from pliant.batch import BLOCK, fit_all
from pliant.building.build import checked_samples
from pliant.building.build import model_of as model_of_samples
from pliant.data.dataset import Dataset
from pliant.data.loading import load_dataset, short_name
from pliant.evaluation import annotated
from pliant.experiments import rows
from pliant.experiments.trial import Sets, Trial
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.metrics import normalised_error, point_subset
from pliant.model import Model
from pliant.progress import Advance, Progress
from pliant.settings import Training
from pliant.shape import shape_size
from pliant.starts.noise import perturbed, random_start
from pliant.table import cells_of
from pliant.tuning.experts import kinds_to_try, teach


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

    def model(self, trial: Trial, jobs: int | None) -> Model:
        """The model of a trial; the last one is kept."""
        if self._model is None or self._model[0] != model_of(trial):
            self._model = model_of(trial), train_model(trial, self, jobs)
        return self._model[1]

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
                f"{tested.samples.source} has {tested.truths.shape[1]} landmarks, and {learned.samples.source} has "
                f"{learned.truths.shape[1]}: a model cannot be tested there."
            )
        point_subset(trial.points, tested.truths.shape[1])
        prints = {"learned": learned.fingerprint, "tested": tested.fingerprint}
        named.append((trial, rows.digest(trial, prints)))
    return named


def missing(folder: Path, named: Sequence[tuple[Trial, str]]) -> list[tuple[Trial, str, list[int]]]:
    """What is not there yet: trials, the names of their rows, and the start numbers; nothing twice."""
    left: dict[str, tuple[Trial, str, list[int]]] = {}
    for trial, name in named:
        starts = [k for k in range(trial.starts) if not rows.file_of(folder, name, k).is_file()]
        if starts and (name not in left or len(starts) > len(left[name][2])):
            left[name] = (trial, name, starts)
    # Trials of one model follow each other, so that there is only one of these at a time.
    models = list(dict.fromkeys(model_of(trial) for trial, _, _ in left.values()))
    return sorted(left.values(), key=lambda item: models.index(model_of(item[0])))


def model_of(trial: Trial) -> tuple[Training, Sets]:
    """What decides a trial's model."""
    return trial.training, trial.sets


def run(
    folder: Path,
    left: Sequence[tuple[Trial, str, list[int]]],
    data: Data,
    jobs: int | None = None,
) -> None:
    """Train, fit and write what is left."""
    advance = data.bar.start("fitting", sum(len(data.test(trial).samples) * len(ks) for trial, _, ks in left))
    for trial, name, starts in left:
        fitter = make_fitter(data.model(trial, jobs), trial.fitting, jobs=jobs, confidence=False)
        tested, shared = data.test(trial), rows.settings_of(trial, name)
        for start in starts:
            done = [{**shared, **row} for row in _fit(fitter, trial, tested, start, advance)]
            path = rows.file_of(folder, name, start)
            rows.write_rows(path, trial, done, fitter.model.landmark_names)


def train_model(trial: Trial, data: Data, jobs: int | None) -> Model:
    """The model of a trial, with an expert if its settings ask for one by name."""
    valid = checked_samples(data.training(trial.sets).samples, trial.training, jobs=jobs, progress=False)
    model = model_of_samples(valid, trial.training, jobs=jobs, progress=False)
    kinds = kinds_to_try(trial.training, len(valid.dataset))
    taught = teach(model, valid.dataset, trial.training, kinds, jobs=jobs, progress=False)
    return model if taught is None else taught.model


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
