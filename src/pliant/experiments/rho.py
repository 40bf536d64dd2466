"""Experiment 2 (section 5.2): the weight of the two terms of the Bayesian project-out cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.experiments.findings import Findings, Study
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized, steps
from pliant.experiments.sweep import sweep_report
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.cost import ProjectOut

TITLE = "Weighted Bayesian project-out"


@dataclass(frozen=True)
class Settings(Shared):
    algorithms: tuple[str, ...] = ("po-for-gn", "po-inv-gn", "po-asy-gn", "po-bid-gn-sch", "po-bid-gn-alt")
    weights: tuple[float, ...] = sized(steps(11), (0.0, 0.1, 0.5, 1.0))


def plan(settings: Settings) -> list[Trial]:
    trials = []
    for name in settings.algorithms:
        algorithm = Algorithm.parse(name)
        if not isinstance(algorithm.cost, ProjectOut):
            raise ValueError(
                f"{name}: rho weights the project-out cost, but this algorithm has another cost."
            )
        for rho in settings.weights:
            weighted = str(replace(algorithm, cost=replace(algorithm.cost, rho=rho)))
            trials.append(settings.trial(weighted, weighted, group=name, value=rho))
    return trials


def report(study: Study) -> Findings:
    return sweep_report(study, "rho", TITLE, "rho", usual=0.5)
