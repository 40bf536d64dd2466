"""Experiment 1 (section 5.1): all 31 algorithms, grouped by cost and method."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.experiments.findings import (
    ENDS,
    FIGURES,
    Drawing,
    Findings,
    Study,
    Table,
    ends_of,
    figures_of,
    paired,
)
from pliant.experiments.rows import Fits
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.statistics import Summary
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.cost import SSD
from pliant.fitting.method import GaussNewton, Newton, Schur, Wiberg
from pliant.plots import plot_ced, plot_courses, plot_intervals

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


def report(study: Study) -> Findings:
    summaries, start = study.summaries(), study.start()
    groups = study.groups()
    parts: list[str | Table | Drawing] = [
        _table(summaries, start),
        Table(
            "algorithms_intervals",
            ("algorithm", "fits", *ENDS),
            [
                [label, found.fits, *ends_of(found)]
                for label, found in {"initialization": start, **summaries}.items()
            ],
            "The ends of 95 % intervals, by drawing the images again.",
        ),
        *_against_the_paper(study, summaries, start),
    ]
    for group, labels in groups.items():
        parts += _group(
            group, {label: study.fits[label] for label in labels}, study.trial(labels[0]).iterations
        )
    pairs = pairs_of(list(study.fits))
    return Findings(TITLE, [*parts, *([paired(study, pairs, "algorithms_tests")] if pairs else [])])


def _table(summaries: dict[str, Summary], start: Summary) -> Table:
    """The paper's table; the note says how many fits were lost."""
    rows: list[list[Any]] = [["initialization", *figures_of(start), ""]]
    rows += [[label, *figures_of(found), ""] for label, found in summaries.items()]
    return Table("algorithms", ("algorithm", *FIGURES, "note"), rows)


def _against_the_paper(
    study: Study, summaries: dict[str, Summary], start: Summary
) -> list[str | Table | Drawing]:
    parts: list[str | Table | Drawing] = []
    known = {label: found for label, found in summaries.items() if label in study.paper}
    if known:
        both = {"initialization": start, **known}
        rows = [
            [label, *(value for name in FIGURES for value in (found.values[name], study.paper[label][name]))]
            for label, found in both.items()
            if label in study.paper
        ]
        header = ("algorithm", *(column for name in FIGURES for column in (name, f"paper_{name}")))
        parts.append(Table("algorithms_paper", header, rows, "Beside each figure is the paper's."))
    order = list(study.groups().values())
    for name, words, limit in (
        ("lt_0.02", "share of fits below 0.02", 1.0),
        ("mean", "mean error / size", 0.06),
    ):
        values = {label: (found.values[name], *found.intervals[name]) for label, found in summaries.items()}
        theirs = {label: figures[name] for label, figures in study.paper.items()}
        figure = plot_intervals(
            values, x=words, reference=theirs or None, reference_name="the paper", groups=order, limit=limit
        )
        caption = f"{words.capitalize()}, with 95 % intervals" + (
            ", and the paper's figure." if theirs else "."
        )
        parts.append(Drawing(f"algorithms_{'share' if name != 'mean' else name}", figure, caption))
    return parts


def _group(group: str, fits: dict[str, Fits], iterations: tuple[int, ...]) -> list[str | Table | Drawing]:
    """The four figures that the paper has for a group."""
    name = f"algorithms_{group.lower().replace(' ', '_').replace('-', '_')}"
    first = next(iter(fits.values()))
    errors = {"start": first.start_errors, **{label: some.errors for label, some in fits.items()}}
    begun = [sum(iterations[:level]) for level in range(1, len(iterations))]
    parts: list[str | Table | Drawing] = [
        Drawing(f"{name}_ced", plot_ced(errors, 0.06), f"{group}: share of fits below each error."),
        Drawing(
            f"{name}_errors",
            plot_courses(
                {label: mean_course(some) for label, some in fits.items()},
                y="mean error / size",
                changes=begun,
            ),
            f"{group}: mean error after each iteration; the dotted line is where the next level begins.",
        ),
    ]
    for level in range(len(iterations)):
        costs = {label: np.nanmean(some.costs[level], axis=0) for label, some in fits.items()}
        figure = plot_courses(costs, y="mean cost / first cost", limit=1.05)
        caption = f"{group}: mean normalised cost at level {level + 1} of {len(iterations)}."
        parts.append(Drawing(f"{name}_cost_{level + 1}", figure, caption))
    return parts


def mean_course(fits: Fits) -> Float64:
    """The mean error after every iteration of all levels `(iterations + 1,)`."""
    levels = [level if k == 0 else level[:, 1:] for k, level in enumerate(fits.courses)]
    return np.asarray(np.nanmean(np.concatenate(levels, axis=1), axis=0))


def pairs_of(names: list[str]) -> list[tuple[str, str]]:
    """What the paper compares: all algorithms of a group, and each method with Gauss-Newton for the same rest."""
    pairs = [pair for pair in combinations(names, 2) if group_of(pair[0]) == group_of(pair[1])]
    for first, second in combinations(names, 2):
        one, other = Algorithm.parse(first), Algorithm.parse(second)
        same = (one.cost, one.composition) == (other.cost, other.composition)
        methods = (one.method, other.method)
        strategies = [method.strategy for method in methods if not isinstance(method, Wiberg)]
        alike = len(set(strategies)) == 1 and (len(strategies) == 2 or isinstance(strategies[0], Schur))
        if same and alike and isinstance(one.method, GaussNewton) != isinstance(other.method, GaussNewton):
            pairs.append((first, second))
    return pairs
