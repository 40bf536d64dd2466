"""Experiment 5 (section 5.5): trained on some sets, tested on others, each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pliant.arrays import Floats
from pliant.data.loading import short_name
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
from pliant.experiments.sampling import halved
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.statistics import summary
from pliant.experiments.trial import Trial
from pliant.metrics import summarise
from pliant.plots import plot_ced
from pliant.plots.errors import round_limit

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


def report(study: Study) -> Findings:
    unknown = sorted(set(study.others) - set(study.groups()))
    if unknown:
        raise ValueError(
            f"other methods' results are for '{unknown[0]}', which was not tested on; the tests are "
            f"{', '.join(study.groups())}."
        )
    return grouped_report(study, "transfer", TITLE, study.others)


def grouped_report(
    study: Study, name: str, title: str, others: Mapping[str, Mapping[str, Floats]]
) -> Findings:
    """Curves and a table for each group: a test set, or an object. `others` are errors of other methods."""
    parts: list[str | Table | Drawing] = []
    rows: list[list[object]] = []
    pairs: list[tuple[str, str]] = []
    for group, labels in study.groups().items():
        first = study.fits[labels[0]]
        start = summary(first.start_errors, first.images)
        rows.append([group, "start", start.fits, *figures_of(start), *ends_of(start)])
        errors: dict[str, Floats] = {}
        for label in labels:
            fits = study.fits[label]
            found = summary(fits.errors, fits.images)
            short = label.removeprefix(f"{group}: ")
            errors[short] = fits.errors
            rows.append([group, short, found.fits, *figures_of(found), *ends_of(found)])
        for method, theirs in others.get(group, {}).items():
            errors[method] = theirs
            figures = summarise(theirs)
            rows.append(
                [group, method, len(theirs), *(figures[one] for one in FIGURES), *[np.nan] * len(ENDS)]
            )
        limit = round_limit(errors)
        figure = plot_ced({"start": first.start_errors, **errors}, limit)
        caption = f"{group}: share of fits below each error."
        parts.append(Drawing(f"{name}_{group.replace('/', '_')}_ced", figure, caption))
        pairs += combinations(labels, 2)
    parts.append(Table(name, ("test", "method", "fits", *FIGURES, *ENDS), rows))
    return Findings(title, [*parts, paired(study, pairs, f"{name}_tests")])
