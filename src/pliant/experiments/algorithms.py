"""Experiment 1 (section 5.1): all 31 algorithms, grouped by cost and method, and the default of pliant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pliant.arrays import Float64
from pliant.experiments.findings import (
    FIGURES,
    Drawing,
    Findings,
    Part,
    Study,
    Table,
    error_table,
    figures_of,
    file_name,
    paired,
    shown_figure,
)
from pliant.experiments.rows import Fits
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.statistics import Summary, compare, summary
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.cost import SSD
from pliant.fitting.method import CascadedRegression, GaussNewton, Newton, Schur, Wiberg
from pliant.fitting.status import Status
from pliant.metrics import BOUNDS
from pliant.plots import plot_ced, plot_courses, plot_intervals
from pliant.settings import DEFAULT_ALGORITHM

TITLE = "All algorithms"


@dataclass(frozen=True)
class Settings(Shared):
    algorithms: tuple[str, ...] = (*(entry.name for entry in catalogue()), DEFAULT_ALGORITHM)


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
        case CascadedRegression():
            return f"{cost} cascaded regression"
        case Wiberg():
            return f"{cost} Wiberg"


def report(study: Study) -> Findings:
    summaries, start = study.summaries(), study.start()
    every = {"initialization": start, **summaries}
    notes = {label: _note(fits) for label, fits in study.fits.items()}
    plain = [[label, *figures_of(one), notes.get(label, "")] for label, one in every.items()]
    parts: list[Part] = [
        Table("algorithms", ("algorithm", *FIGURES, "note"), plain, page=((), ())),
        error_table(
            "algorithms_intervals", ("algorithm",), [((label,), one) for label, one in every.items()]
        ),
        *_against_the_paper(study, every),
    ]
    for group, labels in study.groups().items():
        fits = {label: study.fits[label] for label in labels}
        parts += _group(group, fits, study.trial(labels[0]).iterations)
    pairs = pairs_of(list(study.fits))
    parts += [paired(study, pairs, "algorithms_tests")] if pairs else []
    with_default = [(DEFAULT_ALGORITHM, label) for label in study.fits if label != DEFAULT_ALGORITHM]
    if with_default and DEFAULT_ALGORITHM in study.fits:
        parts.append(paired(study, with_default, "algorithms_default"))
    return Findings(TITLE, parts, conclusion=conclusion(study.fits))


def conclusion(fits: Mapping[str, Fits]) -> str:
    """Which algorithm is best for these images, and whether that is more than chance.

    The best has the smallest mean error, in which fits that went astray count. It is compared with the default; if
    it is the default, or if that was not tried, with the next best. Others were tried as well, and the best of many
    looks better than it is: p is corrected for as many comparisons.
    """
    found = {label: summary(some.errors, some.images) for label, some in fits.items()}
    ranked = sorted(found, key=lambda label: found[label].values["mean"])
    best = ranked[0]
    said = f"Best for these images: {best}, with {_figures(found[best])}."
    if len(ranked) == 1:
        return said
    if best == DEFAULT_ALGORITHM:
        other, words = ranked[1], f"That is the default; next comes {ranked[1]} with"
    elif DEFAULT_ALGORITHM in found:
        other, words = DEFAULT_ALGORITHM, f"The default {DEFAULT_ALGORITHM} has"
    else:
        other, words = ranked[1], f"Next comes {ranked[1]} with"
    said = f"{said} {words} {_figures(found[other])}."
    pairs = [(label, best) for label in ranked if label != best]
    one = next(pair for pair in compare(fits, pairs) if pair.first == other)
    noise = (
        "Image by image, the median difference of the errors, best minus other, is "
        f"{_signed(one.difference)} (95 %: {_signed(one.low)} to {_signed(one.high)}), and p is "
        f"{one.corrected:.2g} after correction for {len(pairs)} comparisons"
    )
    if not one.differ:
        verdict = "The difference could be due to chance."
    elif one.difference > 0:
        verdict = (
            "The difference is statistically significant, but the other is better on most images: the best "
            "one fails on fewer."
        )
    else:
        verdict = "The difference is statistically significant."
    return f"{said} {verdict} {noise}."


def _figures(found: Summary) -> str:
    low, high = found.intervals["mean"]
    share = found.values[f"lt_{BOUNDS[0]}"]
    return (
        f"a mean error of {found.values['mean']:.4f} ({low:.4f} to {high:.4f}) and {share:.1%} of the fits below "
        f"{BOUNDS[0]:g}"
    )


def _signed(value: float) -> str:
    return f"{value:+.5f}"


def _note(fits: Fits) -> str:
    """How many fits did not end as fits should."""
    odd = [status for status in fits.statuses if not Status(status).ok]
    return ", ".join(f"{count} {status}" for status, count in Counter(odd).most_common())


def _against_the_paper(study: Study, every: dict[str, Summary]) -> list[Part]:
    parts: list[Part] = []
    known = [label for label in every if label in study.paper]
    if known:
        both = [
            [(name, every[label].values[name], study.paper[label][name]) for name in FIGURES]
            for label in known
        ]
        rows = [
            [label, *(value for _, *pair in row for value in pair)]
            for label, row in zip(known, both, strict=True)
        ]
        shown = [
            [label, *(shown_figure(name, value) for name, *pair in row for value in pair)]
            for label, row in zip(known, both, strict=True)
        ]
        header = ("algorithm", *(column for name in FIGURES for column in (name, f"paper_{name}")))
        titles = ("algorithm", *(column for name in _TITLES for column in (name, "paper")))
        parts.append(
            Table(
                "algorithms_paper", header, rows, "The paper's value is next to each value.", (titles, shown)
            )
        )
    for name, words, limit in (
        ("lt_0.02", "share of fits below 0.02", 1.0),
        ("mean", "mean error / size", 0.06),
    ):
        found = {label: every[label] for label in study.fits}
        theirs = {label: figures[name] for label, figures in study.paper.items()}
        figure = plot_intervals(
            {label: (one.values[name], *one.intervals[name]) for label, one in found.items()},
            x=words,
            reference=theirs or None,
            reference_name="the paper",
            groups=list(study.groups().values()),
            limit=limit,
        )
        caption = f"{words.capitalize()}, with 95 % intervals" + (
            ", and the paper's value." if theirs else "."
        )
        parts.append(Drawing(file_name("algorithms", words.split()[0]), figure, caption))
    return parts


_TITLES = (*(f"< {bound:g}" for bound in BOUNDS), "mean", "std", "median")


def _group(group: str, fits: dict[str, Fits], iterations: tuple[int, ...]) -> list[Part]:
    """The four figures that the paper has for a group."""
    first = next(iter(fits.values()))
    errors = {"start": first.start_errors, **{label: some.errors for label, some in fits.items()}}
    courses = {label: mean_course(some) for label, some in fits.items()}
    begun = [sum(iterations[:level]) for level in range(1, len(iterations))]
    parts: list[Part] = [
        Drawing(
            file_name("algorithms", group, "ced"),
            plot_ced(errors, 0.06),
            f"{group}: share of fits below each error.",
        ),
        Drawing(
            file_name("algorithms", group, "errors"),
            plot_courses(courses, y="mean error / size", changes=begun, limit=_limit(courses)),
            f"{group}: mean error after each iteration; the dotted line marks the start of the next level.",
        ),
    ]
    for level in range(len(iterations)):
        costs = {label: _mean(some.costs[level]) for label, some in fits.items()}
        parts.append(
            Drawing(
                file_name("algorithms", group, f"cost {level + 1}"),
                plot_courses(costs, y="mean cost / first cost", limit=_limit(costs)),
                f"{group}: mean normalised cost at level {level + 1} of {len(iterations)}.",
            )
        )
    return parts


def _limit(courses: dict[str, Float64]) -> float | None:
    """Where the plot ends if most of the courses would leave it otherwise: above all of them."""
    highest = [float(np.nanmax(course)) for course in courses.values() if np.isfinite(course).any()]
    first = max((float(course[0]) for course in courses.values() if np.isfinite(course[0])), default=1.0)
    risen = [value for value in highest if value > 1.1 * first]
    return 1.05 * min(max(risen), 100 * first) if 2 * len(risen) > len(highest) else None


def mean_course(fits: Fits) -> Float64:
    """The mean error after every iteration of all levels `(iterations + 1,)`."""
    levels = [level if k == 0 else level[:, 1:] for k, level in enumerate(fits.courses)]
    return _mean(np.concatenate(levels, axis=1))


def _mean(courses: Float64) -> Float64:
    """The mean `(iterations + 1,)` of all that is finite; nan where nothing is."""
    finite = np.isfinite(courses)
    total, count = np.sum(courses, axis=0, where=finite), finite.sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def pairs_of(names: list[str]) -> list[tuple[str, str]]:
    """What the paper compares: all algorithms of a group, and each method with Gauss-Newton for the same rest.

    The default is not of the paper, and is compared by itself. Where there is nothing of the kind, each is compared
    with each.
    """
    theirs = [name for name in names if name != DEFAULT_ALGORITHM]
    pairs = [pair for pair in combinations(theirs, 2) if group_of(pair[0]) == group_of(pair[1])]
    for first, second in combinations(theirs, 2):
        one, other = Algorithm.parse(first), Algorithm.parse(second)
        same = (one.cost, one.composition) == (other.cost, other.composition)
        methods = (one.method, other.method)
        strategies = [method.strategy for method in methods if isinstance(method, (GaussNewton, Newton))]
        alike = len(set(strategies)) == 1 and (len(strategies) == 2 or isinstance(strategies[0], Schur))
        if same and alike and isinstance(one.method, GaussNewton) != isinstance(other.method, GaussNewton):
            pairs.append((first, second))
    return pairs or list(combinations(names, 2))
