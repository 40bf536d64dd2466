"""Which expert a model is given, and what it counts for, by fits of samples that neither has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pliant.arrays import Float64, Image, Int32
from pliant.batch import fit_all
from pliant.building.build import build_model
from pliant.data.dataset import Dataset, evenly
from pliant.data.validation import SamplesLeftOut
from pliant.experts.linear_training import rounds, train_linear
from pliant.experts.network import NetworkExpert
from pliant.experts.network_learning import (
    NoPyTorch,
    learn_network,
    like,
    plan_for,
    training_device,
    trusted,
)
from pliant.experts.sightings import Expert
from pliant.fitting.fitter import make_fitter
from pliant.fitting.guided import guides
from pliant.metrics import normalised_error
from pliant.model import Model
from pliant.progress import Progress
from pliant.settings import Training
from pliant.settings.presets import searches
from pliant.shape.facing import is_mirrored
from pliant.shape.generalisation import held_out_noise
from pliant.shape.procrustes import generalised_procrustes
from pliant.shape.symmetry import find_mirror
from pliant.starts.noise import random_start
from pliant.threads import cores
from pliant.tuning import search
from pliant.tuning.held_out import NOISES, ended
from pliant.tuning.search import WORST, clearly_better, scores

Kind = Literal["none", "linear", "network"]

FEWEST = 8
"""Samples without which no expert is trained."""

_WEIGHTS = (0.1, 0.3, 1.0, 3.0)
"""What an expert may count for against the pixels."""

_HELD_SHARE, _MOST_HELD, _MANY = 0.25, 200, 800
"""The share of the samples that is held out, the most of them, and from how many on the rest is enough to keep."""

_MOST_TAUGHT = 3000
"""Most samples that experts learn from, evenly spread over all: their windows are in memory."""

_JUDGED = 50
"""Most held-out samples that are fitted to choose."""

_NAMES = {"none": "the model alone", "linear": "with a linear expert", "network": "with a network"}


@dataclass(frozen=True)
class Taught:
    """A model with its expert, what was held out, and `partial`, a model of the rest with an expert of the rest."""

    model: Model
    partial: Model
    held: Dataset
    known: dict[str, Any]


def kinds_to_try(settings: Training, samples: int) -> tuple[Kind, ...]:
    """The experts that a training tries, the model alone always among them, by the settings as they were given."""
    if settings.experts == "none":
        return ("none",)
    if settings.experts != "auto":
        if settings.experts == "network" and training_device() is None:
            raise NoPyTorch
        if samples < FEWEST:
            raise ValueError(f"an expert needs at least {FEWEST} samples, but there are {samples}.")
        return "none", settings.experts
    if not searches(settings) or samples < search.FEWEST:
        return ("none",)
    device = training_device()
    if device is not None and plan_for(samples, device).minutes <= settings.minutes:
        return "none", "linear", "network"
    return "none", "linear"


def teach(
    model: Model,
    dataset: Dataset,
    settings: Training,
    kinds: Sequence[Kind],
    *,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Taught | None:
    """The model with the one of `kinds_to_try` that serves held-out samples best; None if there is none to try.

    An expert that was asked for by name is given to the model in any case; what it counts for is chosen.
    """
    if tuple(kinds) == ("none",):
        return None
    dataset = _whole(evenly(dataset, _MOST_TAUGHT))
    if len(dataset) < FEWEST:
        if settings.experts == "auto":
            return None
        raise ValueError(
            f"an expert needs at least {FEWEST} samples with all their landmarks, but there are "
            f"{len(dataset)}."
        )
    held_out = min(_MOST_HELD, max(2, round(_HELD_SHARE * len(dataset))))
    rest, held = dataset.split(held_out / len(dataset), settings.seed)
    noise = held_out_noise(np.array([sample.points() for sample in dataset]), model.levels[-1].shape)
    with Progress(progress) as bar:
        lessons = _Lessons(settings, jobs or cores(), bar)
        partial = replace(_partial(rest, model, jobs), shape_noise=noise)
        judge = _Judge(held, jobs or cores(), settings.seed)
        best, chosen, errors = partial, kinds[0], judge.errors(partial, range(len(NOISES)))
        known = [_plain("none", errors, partial)]
        for kind in kinds[1:]:
            other = _weighed(replace(partial, expert=lessons.expert(kind, rest, held)), judge)
            those = judge.errors(other, range(len(NOISES)))
            known.append({**_plain(kind, those, other), "alone": judge.alone(other)})
            bar.note(
                f"{_NAMES[kind]}: mean error {known[-1]['mean']:.4f}, {known[-1]['below_0.02']:.0%} below 0.02"
            )
            if settings.experts == kind or clearly_better(those, errors):
                best, chosen, errors = other, kind, those
        # Whoever trains with the settings of this model gets the same one.
        model = replace(model, settings=model.settings.changed(experts=chosen))
        if best.expert is None:
            return Taught(model, partial, held, {"held_out": len(held), "tried": known})
        expert = best.expert if len(dataset) >= _MANY else lessons.again(best.expert, dataset)
    taught = replace(model, expert=expert, expert_weight=best.expert_weight, shape_noise=noise)
    return Taught(taught, best, held, {"held_out": len(held), "tried": known})


def taught_like(model: Model, partial: Model, rest: Dataset, held: Dataset, jobs: int | None) -> Model:
    """A model of a part of the data, with an expert of that part if the whole model has one."""
    if model.expert is None:
        return partial
    kind: Kind = "network" if isinstance(model.expert, NetworkExpert) else "linear"
    lessons = _Lessons(model.settings, jobs or cores(), Progress(False))
    expert = lessons.expert(kind, *(_facing_as(model, _whole(part)) for part in (rest, held)))
    return replace(partial, expert=expert, expert_weight=model.expert_weight, shape_noise=model.shape_noise)


def _whole(dataset: Dataset) -> Dataset:
    """The samples with all their landmarks: experts learn from nothing else."""
    whole = [sample for sample in dataset if np.all(np.isfinite(sample.points()))]
    return dataset if len(whole) == len(dataset) else Dataset(tuple(whole), dataset.source)


def _facing_as(model: Model, dataset: Dataset) -> Dataset:
    """The samples with those mirrored that face the other way, as they are when a model is made of them."""
    if not model.faces_both_ways:
        return dataset
    mean, unchanged = model.levels[-1].shape.mean, range(model.landmarks)
    samples = (
        sample.mirrored(unchanged) if is_mirrored(mean, sample.points()) else sample for sample in dataset
    )
    return Dataset(tuple(samples), dataset.source)


def _partial(rest: Dataset, model: Model, jobs: int | None) -> Model:
    settings = model.settings.changed(detector=None)
    with warnings.catch_warnings():
        # Said when the samples were checked.
        warnings.simplefilter("ignore", SamplesLeftOut)
        return build_model(rest, settings, jobs=jobs, progress=False, finds=False)


@dataclass(frozen=True)
class _Lessons:
    """Trains experts, and says so."""

    settings: Training
    jobs: int
    bar: Progress

    def expert(self, kind: Kind, rest: Dataset, held: Dataset) -> Expert:
        """An expert of the rest; how far a network can be trusted is seen on what was held out."""
        if kind == "linear":
            return self._linear(rest)
        return trusted(self._network(rest), _Read(held), self.settings.seed)

    def again(self, expert: Expert, dataset: Dataset) -> Expert:
        """The same kind of expert, of all samples."""
        if isinstance(expert, NetworkExpert):
            return like(self._network(dataset), expert)
        return self._linear(dataset)

    def _linear(self, dataset: Dataset) -> Expert:
        step = self.bar.start(f"linear expert, {len(dataset):,} samples", rounds(len(dataset)))
        mirror = _mirror(dataset)
        return train_linear(_Read(dataset), mirror=mirror, jobs=self.jobs, seed=self.settings.seed, step=step)

    def _network(self, dataset: Dataset) -> Any:
        mean, _ = generalised_procrustes(np.array([sample.points() for sample in dataset]))
        bars: dict[str, Callable[..., None]] = {}
        done: dict[str, int] = {}

        def tell(name: str, step: int, steps: int, distance: float) -> None:
            if name not in bars:
                bars[name] = self.bar.start(f"network, {name}, {len(dataset):,} samples", steps)
                done[name] = 0
            for _ in range(step - done[name]):
                bars[name]()
            done[name] = step
            if step == steps:
                self.bar.note(
                    f"network, {name}: in training, off by {distance:.4f} of the object's longer side"
                )

        return learn_network(
            _Read(dataset), mean, _mirror(dataset), seed=self.settings.seed, jobs=self.jobs, tell=tell
        )


class _Read(Sequence[tuple[Image, Float64]]):
    """The samples of a data set as images and landmarks, read whenever they are asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: Any) -> Any:
        sample = self.dataset[number]
        return sample.image(), sample.points()


def _mirror(dataset: Dataset) -> Int32 | None:
    """Which landmark is which in a mirror, if the object is symmetric."""
    try:
        return find_mirror(np.array([sample.points() for sample in dataset]))
    except ValueError:
        return None


@dataclass(frozen=True)
class _Judge:
    """Fits of held-out samples."""

    held: Dataset
    jobs: int
    seed: int

    @cached_property
    def read(self) -> list[tuple[Image, Float64]]:
        chosen = np.linspace(0, len(self.held) - 1, min(_JUDGED, len(self.held))).round().astype(int)
        return [(self.held[int(k)].image(), self.held[int(k)].points()) for k in chosen]

    def errors(self, model: Model, noises: Sequence[int]) -> Float64:
        """Errors `(held, k)` of fits from these of `NOISES`."""
        work = (
            (image, random_start(model, truth, NOISES[k], self.seed, number, k))
            for number, (image, truth) in enumerate(self.read)
            for k in noises
        )
        fitter = make_fitter(model, jobs=self.jobs, trace=False, confidence=False)
        truths = [truth for _, truth in self.read for _ in noises]
        fits = fit_all(fitter, work, len(truths))
        found = [_error(ended(fit), truth) for fit, truth in zip(fits, truths, strict=True)]
        return np.array(found).reshape(len(self.read), len(noises))

    def alone(self, model: Model) -> float:
        """The mean error of what the expert sees by itself."""
        assert model.expert is not None
        starts = [
            random_start(model, truth, NOISES[1], self.seed, k, 1) for k, (_, truth) in enumerate(self.read)
        ]
        heard = guides(model, model.expert, [image for image, _ in self.read], starts)
        found = [
            _error(truth * np.nan if guide is None else guide.sightings.points[0], truth)
            for guide, (_, truth) in zip(heard, self.read, strict=True)
        ]
        return float(np.mean(np.minimum(np.nan_to_num(found, nan=WORST), WORST)))


def _error(points: Float64, truth: Float64) -> float:
    return normalised_error(points, truth, np.arange(len(truth), dtype=np.int32))


def _weighed(model: Model, judge: _Judge) -> Model:
    """The model, with what its expert should count for."""
    errors = {
        weight: float(np.mean(np.minimum(judge.errors(replace(model, expert_weight=weight), [1]), WORST)))
        for weight in _WEIGHTS
    }
    return replace(model, expert_weight=min(errors, key=lambda weight: errors[weight]))


def _plain(kind: Kind, errors: Float64, model: Model) -> dict[str, Any]:
    said = {"expert": kind, "fits": errors.size, **scores(errors)}
    return said if kind == "none" else {**said, "weight": model.expert_weight}
