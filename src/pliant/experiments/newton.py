"""Experiment 7: which Hessian explains the paper's Newton results: derived, printed, turned, safe, or a share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float64
from pliant.experiments.findings import (
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
from pliant.experiments.statistics import Summary
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.composition import Forward
from pliant.fitting.method import GaussNewton, Newton
from pliant.fitting.status import Status
from pliant.metrics import BOUNDS
from pliant.plots import plot_ced, plot_grids

TITLE = "Newton's method and the printed sign"


@dataclass(frozen=True)
class Settings(Shared):
    """`shares` of the derived curvature are tried as well; 1 is all of it."""

    algorithms: tuple[str, ...] = sized(
        tuple(entry.name for entry in catalogue() if isinstance(entry.algorithm.method, Newton)),
        ("ssd-for-n-sch", "ssd-inv-n-sch", "po-asy-n"),
    )
    shares: tuple[float, ...] = (0.8,)


def plan(settings: Settings) -> list[Trial]:
    """For each algorithm Gauss-Newton, and Newton as derived, as printed, turned, made safe, and shares of it."""
    return [
        settings.trial(f"{name}, {way}", algorithm, group=name)
        for name in settings.algorithms
        for way, algorithm in ways(name, settings.shares).items()
    ]


def ways(name: str, shares: tuple[float, ...]) -> dict[str, str]:
    """The algorithms that a Newton algorithm is compared with, by what the table calls them."""
    algorithm = Algorithm.parse(name)
    method = algorithm.method
    if not isinstance(method, Newton):
        raise ValueError(f"{name}: this algorithm does not use Newton's method.")
    methods: dict[str, GaussNewton | Newton] = {"gauss-newton": GaussNewton(method.strategy)}
    methods["derived"] = Newton(method.strategy)
    if not isinstance(algorithm.composition, Forward):
        # Without a curvature of the model, nothing is printed with another sign.
        methods["printed"] = Newton(method.strategy, "printed")
    methods["turned"] = Newton(method.strategy, "turned")
    methods["safe"] = Newton(method.strategy, "safe")
    for share in shares:
        methods[f"{share:g} of derived"] = Newton(method.strategy, "derived", share)
    return {way: str(replace(algorithm, method=one)) for way, one in methods.items()}


def report(study: Study) -> Findings:
    summaries = study.summaries()
    entries: list[tuple[tuple[object, ...], Summary | Mapping[str, float]]] = []
    for name, labels in study.groups().items():
        for label in labels:
            lost = float(np.mean([_off(Status(status)) for status in study.fits[label].statuses]))
            entries.append(((name, label.removeprefix(f"{name}, "), lost), summaries[label]))
        if name in study.paper:
            entries.append(((name, "the paper's Newton", None), study.paper[name]))
    parts: list[Part] = []
    columns = list(dict.fromkeys(trial.label.removeprefix(f"{trial.group}, ") for trial in study.trials))
    for bound in (BOUNDS[0], BOUNDS[-1]):
        grid = [
            [_share(summaries.get(f"{name}, {way}"), bound) for way in columns]
            + ([study.paper.get(name, {}).get(f"lt_{bound}", np.nan)] if study.paper else [])
            for name in study.groups()
        ]
        figure = plot_grids(
            {f"below {bound:g}": np.array(grid)},
            rows=list(study.groups()),
            columns=[*columns, *(["the paper"] if study.paper else [])],
            row_title="algorithm",
            column_title="method",
        )
        caption = f"Share of fits with an error below {bound:g}, in percent."
        parts.append(Drawing(file_name("newton", f"lt_{bound}"), figure, caption))
    parts += _ratios(study, summaries, columns)
    for name, labels in study.groups().items():
        errors = {label.removeprefix(f"{name}, "): study.fits[label].errors for label in labels}
        figure = plot_ced(errors, 0.06)
        parts.append(Drawing(file_name("newton", name, "ced"), figure, f"{name}: share below each error."))
    caption = (
        "Lost: the share of fits that ended outside the image, ended in an implausible shape, or diverged. "
        "In brackets: 95 % intervals."
    )
    parts.append(error_table("newton", ("algorithm", "way", "lost"), entries, caption))
    pairs = [
        (f"{name}, gauss-newton", label)
        for name, labels in study.groups().items()
        for label in labels
        if not label.endswith("gauss-newton")
    ]
    return Findings(TITLE, [*parts, paired(study, pairs, "newton_tests")])


def _off(status: Status) -> bool:
    """Whether a fit has left the object: a shape that no object has is counted with those that were lost."""
    return status.lost or status is Status.IMPLAUSIBLE


def _share(found: Summary | None, bound: float) -> float:
    return np.nan if found is None else found.values[f"lt_{bound}"]


def _ratios(study: Study, summaries: Mapping[str, Summary], ways: list[str]) -> list[Part]:
    """How much of Gauss-Newton's share below 0.02 each way keeps, beside what the paper's Newton keeps."""
    bound = f"lt_{BOUNDS[0]}"
    kept: list[list[float]] = []
    names = []
    for name in study.groups():
        gauss_newton = study.trial(f"{name}, gauss-newton").fitting.algorithm
        if name in study.paper and gauss_newton in study.paper:
            whole = summaries[f"{name}, gauss-newton"].values[bound]
            theirs = study.paper[name][bound] / study.paper[gauss_newton][bound]
            some = [
                _share(summaries.get(f"{name}, {way}"), BOUNDS[0]) / whole if whole else np.nan
                for way in ways
            ]
            kept.append([theirs, *some])
            names.append(name)
    if len(kept) < 3:
        return []
    table = np.array(kept)
    agreement = [_rank_correlation(table[:, 0], column) for column in table.T[1:]]
    rows: list[list[object]] = [[name, *row] for name, row in zip(names, kept, strict=True)]
    rows.append(["rank correlation with the paper", None, *agreement])
    caption = (
        "The share of fits below 0.02 relative to Gauss-Newton's, in the paper and for each variant, and "
        "how well the order of the algorithms agrees (Spearman)."
    )
    return [Table("newton_kept", ("algorithm", "the paper", *ways), rows, caption)]


def _rank_correlation(first: Float64, second: Float64) -> float | None:
    from scipy.stats import spearmanr

    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < 3 or not np.ptp(second[known]):
        return None
    return float(spearmanr(first[known], second[known]).statistic)
