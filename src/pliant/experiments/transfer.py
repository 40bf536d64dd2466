"""Experiment 5 (section 5.5): trained on some sets, tested on others, each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from pliant.arrays import Floats
from pliant.data.loading import short_name
from pliant.experiments.findings import (
    Drawing,
    Findings,
    Part,
    Study,
    error_table,
    file_name,
    paired,
)
from pliant.experiments.sampling import halved
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.statistics import Summary, summary
from pliant.experiments.trial import Trial
from pliant.metrics import summarise
from pliant.plots import plot_ced
from pliant.plots.errors import round_limit
from pliant.settings import Fitting, Training

TITLE = "Other sets"


@dataclass(frozen=True)
class Settings(Shared):
    """Each algorithm is tried quickly (25 % of the pixels, half of the iterations) and thoroughly (50 %, all).

    `motions` are tried beside the one that models are trained with.
    """

    algorithms: tuple[str, ...] = ("ssd-asy-gn-sch", "po-asy-gn")
    motions: tuple[str, ...] = ("patches",)


def ways(settings: Settings) -> list[tuple[str, str, Fitting, Training]]:
    """The paper's two settings for each motion and algorithm: label, algorithm, how it is fitted and trained."""
    most, own = settings.iterations, settings.training.motion
    return [
        (
            f"{name}, {sampling:.0%}, {sum(iterations)} iterations{'' if motion == own else f', {motion}'}",
            name,
            settings.fitting.changed(sampling=sampling, iterations=iterations),
            settings.training.changed(motion=motion),
        )
        for motion in dict.fromkeys((own, *settings.motions))
        for name in settings.algorithms
        for sampling, iterations in ((0.25, halved(most)), (0.5, most))
    ]


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(
            f"{short_name(test)}: {label}",
            name,
            fitting,
            test=(test,),
            training=training,
            group=short_name(test),
        )
        for test in settings.test
        for label, name, fitting, training in ways(settings)
    ]


def report(study: Study) -> Findings:
    unknown = sorted(set(study.others) - set(study.groups()))
    if unknown:
        raise ValueError(
            f"there are results of other methods for '{unknown[0]}', but it was not tested; the test sets "
            f"are {', '.join(study.groups())}."
        )
    return grouped_report(study, "transfer", TITLE, study.others)


def grouped_report(
    study: Study, name: str, title: str, others: Mapping[str, Mapping[str, Floats]]
) -> Findings:
    """Curves and a table for each group: a test set, or an object. `others` are errors of other methods."""
    parts: list[Part] = []
    entries: list[tuple[tuple[str, str], Summary | dict[str, float]]] = []
    pairs: list[tuple[str, str]] = []
    for group, labels in study.groups().items():
        first = study.fits[labels[0]]
        entries.append(((group, "start"), summary(first.start_errors, first.images)))
        errors: dict[str, Floats] = {}
        for label in labels:
            fits, short = study.fits[label], label.removeprefix(f"{group}: ")
            errors[short] = fits.errors
            entries.append(((group, short), summary(fits.errors, fits.images)))
        for method, theirs in others.get(group, {}).items():
            errors[method] = theirs
            entries.append(((group, method), summarise(theirs)))
        figure = plot_ced({"start": first.start_errors, **errors}, round_limit(errors))
        caption = f"{group}: share of fits below each error."
        parts.append(Drawing(file_name(name, group, "ced"), figure, caption))
        pairs += combinations(labels, 2)
    parts.append(error_table(name, ("test", "method"), entries))
    return Findings(title, [*parts, paired(study, pairs, f"{name}_tests")])
