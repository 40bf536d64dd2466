"""Experiment 10: the paper's settings and what `train` and `fit` do by default, side by side, near and far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pliant.data.loading import short_name
from pliant.experiments import transfer
from pliant.experiments.findings import Findings, Study
from pliant.experiments.objects import group_of
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial
from pliant.settings import DEFAULT_ALGORITHM, Fitting, Training

TITLE = "The paper's settings and the defaults"

DEFAULT = Training(experts="linear", facing="as-is", detector=None, confidence=False)
"""What `train` does without PyTorch: settings and expert are chosen by fits of held-out samples.

What it learns besides serves to find objects and to trust fits, and starts are given here.
"""


@dataclass(frozen=True)
class Settings(Shared):
    """Each test set is fitted by a model of all sets to train on. Each of the `objects` is cross-validated."""

    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")
    noises: tuple[float, ...] = sized((0.05, 0.1, 0.15), (0.05, 0.15))
    objects: tuple[str, ...] = ()
    folds: int = sized(5, 2)


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(
            f"{place}: {label}", name, fitting, training=training, noise=noise, group=place, **which
        )
        for where, which in _places(settings)
        for noise in settings.noises
        for place in [f"{where}, noise {noise:g}"]
        for label, name, fitting, training in ways(settings)
    ]


def ways(settings: Settings) -> list[tuple[str, str, Fitting, Training]]:
    """The paper's settings with each algorithm, and the defaults: label, algorithm, fitting and training."""
    papers = [
        (f"paper's settings, {name}", name, settings.fitting, settings.training)
        for name in settings.algorithms
    ]
    return [*papers, ("defaults", DEFAULT_ALGORITHM, Fitting(tries=1, seed=settings.fitting.seed), DEFAULT)]


def _places(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is tested on: test sets, and the folds of objects."""
    for test in settings.test:
        yield short_name(test), {"test": (test,)}
    for folder in settings.objects:
        for fold in range(settings.folds):
            sets = settings.sets(sources=(folder,), folds=settings.folds, fold=fold)
            yield group_of(folder), {"sets": sets, "test": (folder,), "points": "all"}


def report(study: Study) -> Findings:
    return transfer.grouped_report(study, "defaults", TITLE, {})
