"""The report of an experiment that varies one number of an algorithm."""

from __future__ import annotations

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
from pliant.metrics import BOUNDS
from pliant.plots import plot_ced, plot_shares


def sweep_report(study: Study, name: str, title: str, symbol: str, usual: float) -> Findings:
    """Tables and figures against the value of each trial, and tests against the usual one."""
    summaries = study.summaries()
    groups = study.groups()
    values = {trial.label: trial.value for trial in study.trials}
    entries = [
        ((group, values[label]), summaries[label]) for group, labels in groups.items() for label in labels
    ]
    best = [
        [
            group,
            *(values[max(labels, key=lambda one: summaries[one].values[share])] for share in SHARES),
            values[min(labels, key=lambda one: summaries[one].values["mean"])],
        ]
        for group, labels in groups.items()
    ]
    known = sorted({value for value in values.values() if value is not None})
    shares, bands = {}, {}
    for group, labels in groups.items():
        found = [summaries[label] for label in labels]
        shares[group] = np.array([[one.values[share] for share in SHARES] for one in found])
        bands[group] = np.array([[one.intervals[share] for share in SHARES] for one in found])
    figure = plot_shares(known, shares, bounds=BOUNDS, x=symbol, intervals=bands)
    parts: list[Part] = [
        Drawing(
            f"{name}_shares", figure, f"Share of fits below each error against {symbol}, with 95 % intervals."
        ),
        Table(
            f"{name}_best",
            ("algorithm", *(f"best_{symbol}_{share}" for share in SHARES), f"best_{symbol}_mean"),
            best,
            f"The {symbol} with the largest share below each error, and with the smallest mean error.",
        ),
    ]
    for group, labels in groups.items():
        errors = {f"{symbol} = {values[label]:g}": study.fits[label].errors for label in labels}
        caption = f"{group}: share of fits below each error for every {symbol}."
        parts.append(Drawing(file_name(name, group, "ced"), plot_ced(errors, 0.06), caption))
    parts.append(error_table(name, ("algorithm", symbol), entries))
    pairs = []
    for labels in groups.values():
        base = next((label for label in labels if values[label] == usual), None)
        pairs += [(base, label) for label in labels if base is not None and label != base]
    if pairs:
        parts.append(paired(study, pairs, f"{name}_tests"))
    return Findings(title, parts)
