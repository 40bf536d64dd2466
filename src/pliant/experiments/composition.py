"""Experiment 8: exact or first-order composition, with and without a prior, piecewise affine or by splines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pliant.experiments.findings import (
    Drawing,
    Findings,
    Part,
    Study,
    error_table,
    file_name,
    paired,
)
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm
from pliant.plots import plot_ced

TITLE = "Composition, prior and motion"
ORDERS = ("exact", "first-order")
PRIORS = ("none", "map")


@dataclass(frozen=True)
class Settings(Shared):
    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")
    noises: tuple[float, ...] = sized((0.05, 0.1), (0.1,))
    motions: tuple[str, ...] = ("piecewise-affine", "thin-plate-spline")


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(
            label_of(name, motion, order, prior, noise),
            with_prior(name, prior),
            settings.fitting.changed(order=order),
            training=settings.training.changed(motion=motion),
            noise=noise,
            group=f"{name}, noise {noise:g}",
        )
        for motion in settings.motions
        for noise in settings.noises
        for name in settings.algorithms
        for order in ORDERS
        for prior in PRIORS
    ]


def label_of(name: str, motion: str, order: str, prior: str, noise: float) -> str:
    return f"{name}, {motion}, {order}, {'prior' if prior != 'none' else 'no prior'}, noise {noise:g}"


def with_prior(name: str, prior: str) -> str:
    algorithm = Algorithm.parse(name)
    return str(replace(algorithm, cost=replace(algorithm.cost, prior=prior)))  # type: ignore[arg-type]


def report(study: Study) -> Findings:
    summaries = study.summaries()
    parts: list[Part] = []
    for group, labels in study.groups().items():
        errors = {_short(label): study.fits[label].errors for label in labels}
        name = file_name("composition", group, "ced")
        parts.append(Drawing(name, plot_ced(errors, 0.06), f"{group}: share below each error."))
    entries = [
        (
            (
                trial.fitting.algorithm,
                trial.training.motion,
                trial.fitting.order,
                trial.noise,
                1000 * float(np.median(study.fits[trial.label].seconds)),
            ),
            summaries[trial.label],
        )
        for trial in study.trials
    ]
    parts.append(
        error_table("composition", ("algorithm", "motion", "order", "noise", "milliseconds"), entries)
    )
    parts += [study.clocks()] if study.clocks() else []
    pairs = []
    for one in study.trials:
        for other in study.trials:
            pairs += [(one.label, other.label)] if _differ_in_one(one, other) else []
    return Findings(TITLE, [*parts, paired(study, pairs, "composition_tests")])


def _short(label: str) -> str:
    _, motion, order, prior, _ = label.split(", ")
    return f"{'PWA' if motion == 'piecewise-affine' else 'TPS'}, {order}, {prior}"


def _differ_in_one(one: Trial, other: Trial) -> bool:
    """Whether the second has another order, a prior or another motion, and nothing else."""
    ours = (one.training.motion, one.fitting.order, one.fitting.algorithm)
    theirs = (other.training.motion, other.fitting.order, other.fitting.algorithm)
    different = [a != b for a, b in zip(ours, theirs, strict=True)]
    return one.group == other.group and one.label < other.label and sum(different) == 1
