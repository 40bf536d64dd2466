"""Experiment 4 (section 5.4): fewer pixels, fewer iterations, farther starts, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.experiments.findings import (
    SHARES,
    Drawing,
    Findings,
    Part,
    Study,
    Table,
    error_table,
    file_name,
    paired,
)
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial
from pliant.metrics import BOUNDS
from pliant.plots import plot_grids

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
            settings.fitting.changed(iterations=iterations, sampling=sampling),
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


def report(study: Study) -> Findings:
    summaries = study.summaries()
    samplings = sorted({trial.fitting.sampling for trial in study.trials}, reverse=True)
    noises = sorted({trial.noise for trial in study.trials})
    groups = list(study.groups())
    found = {
        (trial.group, trial.fitting.sampling, trial.noise): summaries[trial.label].values
        for trial in study.trials
    }
    parts: list[Part] = []
    for share, bound in zip(SHARES, BOUNDS, strict=True):
        grids = {
            group: np.array(
                [[found[group, sampling, noise][share] for noise in noises] for sampling in samplings]
            )
            for group in groups
        }
        figure = plot_grids(
            grids,
            rows=[f"{sampling:.0%}" for sampling in samplings],
            columns=[f"{noise:.1%}" for noise in noises],
            row_title="pixels",
            column_title="noise of the starts",
        )
        caption = f"Share of fits with an error below {bound:g}."
        parts.append(Drawing(file_name("sampling", share), figure, caption))
    parts.append(_times(study, samplings))
    entries = [
        (
            (trial.fitting.algorithm, sum(trial.iterations), trial.fitting.sampling, trial.noise),
            summaries[trial.label],
        )
        for trial in study.trials
    ]
    parts.append(error_table("sampling", ("algorithm", "iterations", "sampling", "noise"), entries))
    return Findings(TITLE, [*parts, paired(study, _pairs(study), "sampling_tests")])


def _times(study: Study, samplings: list[float]) -> Table:
    """Milliseconds of a fit over all noises, iterations that it took, and how many times as fast it is."""
    rows: list[list[Any]] = []
    for labels in study.groups().values():
        trial = study.trial(labels[0])
        of = {
            sampling: [study.fits[one] for one in labels if study.trial(one).fitting.sampling == sampling]
            for sampling in samplings
        }
        times = {
            sampling: 1000 * float(np.median(np.concatenate([fits.seconds for fits in some])))
            for sampling, some in of.items()
        }
        for sampling, milliseconds in times.items():
            count = sum(trial.iterations)
            theirs = study.runtimes.get((trial.fitting.algorithm, count, round(100 * sampling)))
            done = np.concatenate([fits.done for fits in of[sampling]]).mean(axis=0)
            rows.append(
                [
                    trial.fitting.algorithm,
                    count,
                    " + ".join(f"{level:.1f}" for level in done),
                    sampling,
                    milliseconds,
                    times[samplings[0]] / milliseconds,
                    theirs,
                ]
            )
    return Table(
        "sampling_times",
        (
            "algorithm",
            "iterations_at_most",
            "iterations_done",
            "sampling",
            "milliseconds",
            "times_as_fast",
            "paper_milliseconds",
        ),
        rows,
        "Time of a fit on one thread while other threads are busy: the median over blocks of eight images, "
        f"including their features but not reading them. {_stop(study)} Iterations done are the mean at each "
        f"level. The paper does not say whether its fits stop early. {study.clocks()}".strip(),
    )


def _stop(study: Study) -> str:
    if any(trial.fitting.stopping.tolerance > 0 for trial in study.trials):
        return "A fit stops when it has converged."
    return "Fits use all of their iterations, unless they are lost."


def _pairs(study: Study) -> list[tuple[str, str]]:
    """Every sampling with all pixels, and half of the iterations with all of them; the rest being the same."""
    pairs = []
    every = {(t.fitting.algorithm, t.iterations, t.fitting.sampling, t.noise): t.label for t in study.trials}
    most = max(trial.fitting.sampling for trial in study.trials)
    longest = max(trial.iterations for trial in study.trials)
    for (algorithm, iterations, sampling, noise), label in every.items():
        if sampling != most:
            pairs.append((every[algorithm, iterations, most, noise], label))
        if iterations != longest:
            pairs.append((every[algorithm, longest, sampling, noise], label))
    return pairs
