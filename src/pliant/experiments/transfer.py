"""Experiment 5 (section 5.5): trained on some sets, tested on others, each by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.data.loading import short_name
from pliant.experiments.sampling import halved
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.trial import Trial

TITLE = "Other sets"


@dataclass(frozen=True)
class Settings(Shared):
    """Each algorithm is tried quickly (25 % of the pixels, half of the iterations) and thoroughly (50 %, all)."""

    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")


def ways(settings: Settings) -> list[tuple[str, str, float, tuple[int, ...]]]:
    """The two settings of the paper for each algorithm: label, algorithm, sampling, iterations."""
    return [
        (f"{name}, {sampling:.0%}, {sum(iterations)} iterations", name, sampling, iterations)
        for name in settings.algorithms
        for sampling, iterations in ((0.25, halved(settings.iterations)), (0.5, settings.iterations))
    ]


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(
            f"{short_name(test)}: {label}",
            name,
            test=(test,),
            sampling=sampling,
            iterations=iterations,
            group=short_name(test),
        )
        for test in settings.test
        for label, name, sampling, iterations in ways(settings)
    ]
