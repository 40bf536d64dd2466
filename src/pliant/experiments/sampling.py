"""Experiment 4 (section 5.4): fewer pixels, fewer iterations, farther starts, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial

TITLE = "Sampling and number of iterations"


@dataclass(frozen=True)
class Settings(Shared):
    """`iterations` are those of all levels, and half of them is tried as well."""

    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")
    samplings: tuple[float, ...] = sized((1.0, 0.5, 0.25, 0.12), (1.0, 0.25))
    noises: tuple[float, ...] = sized((0.0, 0.025, 0.05, 0.075, 0.1), (0.0, 0.05, 0.1))


def plan(settings: Settings) -> list[Trial]:
    # Noise comes first: if the machine is slower for a while, no way of fitting has all of it.
    return [
        settings.trial(
            f"{group_of(name, iterations)}, {sampling:.0%}, noise {noise:g}",
            name,
            iterations=iterations,
            sampling=sampling,
            noise=noise,
            group=group_of(name, iterations),
        )
        for noise in settings.noises
        for iterations in (settings.iterations, halved(settings.iterations))
        for sampling in settings.samplings
        for name in settings.algorithms
    ]


def halved(iterations: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(1, count // 2) for count in iterations)


def group_of(algorithm: str, iterations: tuple[int, ...]) -> str:
    return f"{algorithm}, {' + '.join(map(str, iterations))} iterations"
