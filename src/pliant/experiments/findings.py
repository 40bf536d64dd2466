"""What an experiment found: tables and figures, each a file of its own, and a page with all of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pliant import report
from pliant.experiments.rows import Fits
from pliant.experiments.statistics import Comparison, Summary, compare, summary
from pliant.experiments.trial import Trial
from pliant.files import replaced
from pliant.metrics import BOUNDS

SHARES = tuple(f"lt_{bound}" for bound in BOUNDS)
FIGURES = (*SHARES, "mean", "std", "median")
PAIRED = ("first", "second", "images", "difference", "low", "high", "wins", "p", "corrected", "differ")

ABOUT_PAIRED = (
    "Paired comparisons of the mean errors of images. Difference: the median of the second's error minus "
    "the first's, with its 95 % interval. Wins: the share of images where the second is better. p: "
    "Wilcoxon's signed-rank test; corrected: Holm's correction over all rows of this table. They differ if "
    "the corrected p is below 0.05."
)


@dataclass(frozen=True, eq=False)
class Study:
    """All that a report is drawn from: the trials of an experiment, and the fits of each label.

    `paper` are the paper's own figures by algorithm, and `runtimes` its milliseconds by algorithm, iterations and
    sampling; `others` are errors of other methods, by test set and name. Each is empty if it was not given.
    """

    trials: Sequence[Trial]
    fits: Mapping[str, Fits]
    paper: Mapping[str, Mapping[str, float]]
    runtimes: Mapping[tuple[str, int, int], float]
    others: Mapping[str, Mapping[str, Any]]

    def trial(self, label: str) -> Trial:
        return next(trial for trial in self.trials if trial.label == label)

    def groups(self) -> dict[str, list[str]]:
        """The labels of each group, in their order."""
        groups: dict[str, dict[str, None]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, {})[trial.label] = None
        return {group: list(labels) for group, labels in groups.items()}

    def summaries(self) -> dict[str, Summary]:
        return {label: summary(fits.errors, fits.images) for label, fits in self.fits.items()}

    def about(self) -> str:
        """What was trained and tested on, in a sentence."""
        trials, first = self.trials, self.trials[0]
        fits = next(iter(self.fits.values()))
        learned = sorted({trial.train_name for trial in trials})
        tested = sorted({trial.test_name for trial in trials})
        noises = sorted({trial.noise for trial in trials})
        return (
            f"Trained on {' and on '.join(learned)}, tested on {' and on '.join(tested)}: {len(fits.errors)} "
            f"fits of {len(set(fits.images))} images for {next(iter(self.fits))}. Noise of the starts: "
            f"{', '.join(f'{noise:g}' for noise in noises)}; seed {first.fitting.seed}; landmarks: "
            f"{first.points}."
        )

    def clocks(self) -> str:
        """What times were measured with, in a sentence, if that is known."""
        found = sorted(set().union(*(fits.clocks for fits in self.fits.values())))
        if len(found) > 1:
            return (
                "Times were measured under different conditions, so they cannot all be compared. Fits ran "
                f"on {'; on '.join(found)}."
            )
        return f"Fits ran on {found[0]}." if found else ""

    def start(self) -> Summary:
        """How far off the starts are."""
        fits = next(iter(self.fits.values()))
        return summary(fits.start_errors, fits.images)


@dataclass(frozen=True)
class Table:
    """Rows for a CSV file `name.csv`; `page` are header and rows for the page, if they are to be others."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    page: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure for a file `name.svg` and for the page."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Photograph:
    """A picture of the user's own images for the page: a PNG file's content, there already."""

    content: bytes
    caption: str


Part = str | Table | Drawing | Photograph


@dataclass(frozen=True)
class Findings:
    """The parts of one experiment's report, in the order of reading: sentences, tables and drawings.

    The page ends with the `conclusion`, which is what the command says as well, and the `settings`.
    """

    title: str
    parts: Sequence[Part]
    conclusion: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


_LEAD = (
    "Errors are mean distances between points, divided by the size of the object. Every table is a CSV file "
    "next to this page, every figure is an SVG file, and every fit is a row in the folder rows."
)


def figures_of(found: Summary) -> list[float]:
    """The columns of the paper's tables."""
    return [found.values[name] for name in FIGURES]


def error_table(
    name: str,
    keys: Sequence[str],
    entries: Sequence[tuple[Sequence[Any], Summary | Mapping[str, float]]],
    caption: str = "",
) -> Table:
    """A row for each entry: its keys, its figures, and the ends of their intervals, if they are known."""
    rows, shown = [], []
    for key, found in entries:
        if isinstance(found, Summary):
            ends: list[float | None] = [end for one in _WITH_ENDS for end in found.intervals[one]]
            rows.append([*key, found.fits, *figures_of(found), *ends])
            cells = [_with_interval(one, found) for one in _WITH_ENDS]
            shown.append([*key, found.fits, *cells, found.values["std"], found.values["median"]])
        else:
            rows.append([*key, None, *(found[one] for one in FIGURES), *[None] * (2 * len(_WITH_ENDS))])
            cells = [shown_figure(one, found[one]) for one in _WITH_ENDS]
            shown.append([*key, None, *cells, found["std"], found["median"]])
    header = (*keys, "fits", *FIGURES, *(f"{one}_{end}" for one in _WITH_ENDS for end in ("low", "high")))
    titles = (*keys, "fits", *(f"< {bound:g}" for bound in BOUNDS), "mean", "std", "median")
    return Table(name, header, rows, caption or _ABOUT_INTERVALS, (titles, shown))


_WITH_ENDS = (*SHARES, "mean")
_ABOUT_INTERVALS = "In brackets: 95 % intervals, from resampling the images."


def shown_figure(name: str, value: float) -> str:
    """A figure as the paper prints it, and means with one digit more."""
    return f"{value:.3f}" if name in SHARES else f"{value:.4f}"


def _with_interval(name: str, found: Summary) -> str:
    low, high = (f"{end:.4f}" if name == "mean" else f"{end:.2f}" for end in found.intervals[name])
    # Spaces that do not break: an interval is read in one piece.
    return f"{shown_figure(name, found.values[name])}\N{NO-BREAK SPACE}[{low},\N{NO-BREAK SPACE}{high}]"


def paired(study: Study, pairs: Sequence[tuple[str, str]], name: str) -> Table:
    """The table of paired tests."""
    return Table(name, PAIRED, [_paired_row(one) for one in compare(study.fits, pairs)], ABOUT_PAIRED)


def _paired_row(one: Comparison) -> list[Any]:
    return [
        one.first,
        one.second,
        one.images,
        one.difference,
        one.low,
        one.high,
        one.wins,
        one.p,
        one.corrected,
        "yes" if one.differ else "no",
    ]


def write(folder: Path, findings: Mapping[str, Findings]) -> list[Path]:
    """Write tables, drawings and `report.html` into a folder, each file as a whole or not at all."""
    written = []
    sections = []
    for name, found in findings.items():
        parts = []
        for part in found.parts:
            if isinstance(part, Table):
                written.append(_write_table(folder / f"{part.name}.csv", part))
                header, rows = part.page or (part.header, part.rows)
                if rows:
                    parts.append(report.table(header, [[_shown(cell) for cell in row] for row in rows]))
                    parts += [report.paragraph(part.caption)] if part.caption else []
            elif isinstance(part, Drawing):
                written.append(folder / f"{part.name}.svg")
                drawn = report.rendered(part.figure, "svg")
                with replaced(written[-1]) as partial:
                    partial.write_bytes(drawn)
                parts += [report.picture(drawn, part.caption), report.paragraph(part.caption)]
            elif isinstance(part, Photograph):
                parts += [report.picture(part.content, part.caption), report.paragraph(part.caption)]
            else:
                parts += [report.paragraph(part)]
        parts += [report.paragraph(found.conclusion)] if found.conclusion else []
        parts.append(report.value_table(found.settings))
        sections.append(report.Section(f"{found.title} ({name})", parts))
    page = folder / "report.html"
    with replaced(page) as partial:
        partial.write_text(report.page("Experiments", _LEAD, sections), encoding="utf-8")
    return [page, *written]


def _write_table(path: Path, table: Table) -> Path:
    with replaced(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(table.header)
        rows.writerows([_plain(cell) for cell in row] for row in table.rows)
    return path


def _plain(cell: Any) -> Any:
    return f"{cell:.6g}" if isinstance(cell, float) else cell


def _shown(cell: Any) -> Any:
    """A cell as the page has it: small numbers keep their digits."""
    if isinstance(cell, float) and cell and abs(cell) < 1e-3:
        return f"{cell:.1e}"
    return "" if cell is None else cell


def file_name(*parts: str) -> str:
    """A name for a file from what people read."""
    return "_".join(re.sub(r"[^a-z0-9]+", "_", part.lower().replace(".", "")).strip("_") for part in parts)
