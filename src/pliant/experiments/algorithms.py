"""Experiment 1 (section 5.1): all 31 algorithms, grouped by cost and method."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.experiments.settings import Settings as Shared
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.cost import SSD
from pliant.fitting.method import GaussNewton, Newton

TITLE = "All algorithms"


@dataclass(frozen=True)
class Settings(Shared):
    algorithms: tuple[str, ...] = tuple(entry.name for entry in catalogue())


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(str(Algorithm.parse(name)), str(Algorithm.parse(name)), group=group_of(name))
        for name in settings.algorithms
    ]


def group_of(name: str) -> str:
    """Where the paper shows an algorithm: by cost function and optimisation method."""
    algorithm = Algorithm.parse(name)
    cost = "SSD" if isinstance(algorithm.cost, SSD) else "Project-out"
    match algorithm.method:
        case GaussNewton():
            return f"{cost} Gauss-Newton"
        case Newton():
            return f"{cost} Newton"
        case _:
            return f"{cost} Wiberg"
