"""Experiment 3 (section 5.3): how much of the small warp goes to the image, and how much to the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.experiments.findings import Findings, Study
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized, steps
from pliant.experiments.sweep import sweep_report
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.composition import Asymmetric

TITLE = "Asymmetric composition"


@dataclass(frozen=True)
class Settings(Shared):
    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")
    alphas: tuple[float, ...] = sized(steps(11), (0.0, 0.2, 0.5, 1.0))


def plan(settings: Settings) -> list[Trial]:
    trials = []
    for name in settings.algorithms:
        algorithm = Algorithm.parse(name)
        for alpha in settings.alphas:
            varied = str(replace(algorithm, composition=Asymmetric(alpha)))
            trials.append(settings.trial(varied, varied, group=name, value=alpha))
    return trials


def report(study: Study) -> Findings:
    return sweep_report(study, "alpha", TITLE, "alpha", usual=0.5)
