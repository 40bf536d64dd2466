"""Experiment 8: exact or first-order composition, with and without a prior, piecewise affine or by splines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm

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
            training=settings.training(motion=motion),
            order=order,
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
