"""Rows of a run: which of them may be taken from a journal, and what is made from the table for people."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.data.addresses import Source, written
from pliant.data.names import to_text
from pliant.data.tables import coordinate_titles
from pliant.fitting.doubt import doubtful_landmarks
from pliant.fitting.status import Status
from pliant.table import COLUMNS, Row, columns_of, rows_of
from pliant.table.columns import has_type


def are_rows_of(rows: object, image: str) -> bool:
    """Whether what was read from a file are rows that a run could have made for the objects of this image."""
    if not isinstance(rows, list) or not rows:
        return False
    return all(_is_row_of(row, image, number) for number, row in enumerate(rows))


def _is_row_of(row: object, image: str, number: int) -> bool:
    names = columns_of("fits")
    if not isinstance(row, dict) or set(row) != set(names):
        return False
    if (row["image"], row["object"]) != (image, number) or row["status"] not in list(Status):
        return False
    lengths = {len(row[name]) if isinstance(row[name], list) else None for name in ("x", "y")}
    fitted = row["status"] != Status.FAILED
    return (
        len(lengths) == 1
        and fitted == (row["x"] is not None)
        and all(has_type(row[name], name) for name in names)
    )


def is_head(head: object) -> bool:
    """Whether this is what a run says about itself in its journal and its table."""
    return (
        isinstance(head, dict)
        and isinstance(head.get("settings"), dict)
        and {"landmarks", "draw"} <= head["settings"].keys()
        and {"annotations", "csv"} <= head.keys()
        and isinstance(head["annotations"], (str, type(None)))
    )


def write_csv(path: Source, table: Source, landmarks: int, names: Sequence[str] = ()) -> None:
    """The table for a spreadsheet, rounded: lists are summed up, and each landmark has two columns.

    These are called as the format `csv` has them. An image that could not be fitted has empty cells there.
    """
    columns = [name for name in columns_of("fits") if COLUMNS[name].type != "landmarks"]
    called = names or [str(number) for number in range(landmarks)]
    with _whole_csv(path) as rows:
        rows.writerow([*columns, *SUMMARIES, *coordinate_titles(landmarks, names)])
        for row in rows_of(table, [*columns, "x", "y", "spread", "hidden"]):
            points = [""] * (2 * landmarks)
            if row["x"] is not None:
                points = [f"{value:.3f}" for value in np.ravel([row["x"], row["y"]], order="F")]
            cells = [_rounded(name, row[name]) for name in columns[1:]]
            rows.writerow([to_text(row["image"]), *cells, *_summed_up(row, called), *points])


SUMMARIES = ("largest_spread", "hidden_landmarks", "doubtful_landmarks")
"""What a spreadsheet has of the lists of a table."""

_FORMS = {"confidence": ".4f", "cost": ".6g", "seconds": ".4f"}
"""How numbers are rounded for people."""


def _rounded(name: str, value: Any) -> Any:
    return value if value is None or name not in _FORMS else format(value, _FORMS[name])


def _summed_up(row: Row, names: Sequence[str]) -> tuple[str, str, str]:
    # Tables of earlier versions have no column `hidden`.
    spread, hidden = row.get("spread"), row.get("hidden")
    doubtful = None
    if row["x"] is not None:
        doubtful = doubtful_landmarks(np.column_stack([row["x"], row["y"]]), spread, hidden)
    return (
        "" if spread is None else f"{max(spread):.3f}",
        "" if hidden is None else f"{sum(hidden):.0f}",
        "" if doubtful is None else ", ".join(itertools.compress(names, doubtful)),
    )


@dataclass(frozen=True)
class Outcome:
    """How a run went: how its fits ended, in how many images there is one, and why the first failed."""

    statuses: Counter[str]
    images: int
    first: str

    @property
    def failed(self) -> int:
        return self.statuses[Status.FAILED]

    @property
    def fits(self) -> int:
        return self.statuses.total() - self.failed


def outcome_of(table: Source) -> Outcome:
    """How the run of a table went."""
    statuses: Counter[str] = Counter()
    images, fitted, first = 0, False, ""
    for row in rows_of(table, ["image", "object", "status", "reason"]):
        statuses[row["status"]] += 1
        # The rows of an image follow each other.
        fitted = fitted and row["object"] > 0
        if row["status"] == Status.FAILED:
            first = first or f"{row['image']}: {row['reason']}"
        elif not fitted:
            images, fitted = images + 1, True
    return Outcome(statuses, images, first)


_FLAGGED = ("image", "object", "confidence", "status", "reason")


def flagged_in(table: Source, below: float) -> list[Row]:
    """The fits that a person should look at, the least trusted first, and why there is none if it failed."""
    found = (
        row for row in rows_of(table, _FLAGGED) if row["confidence"] is not None and row["confidence"] < below
    )
    return sorted(found, key=lambda row: (row["confidence"], row["image"], row["object"]))


def write_flagged(path: Source, table: Source, below: float) -> None:
    """What `flagged_in` has, as a table."""
    with _whole_csv(path) as rows:
        rows.writerow(_FLAGGED)
        for row in flagged_in(table, below):
            told = {**row, "image": to_text(row["image"]), "confidence": f"{row['confidence']:.4f}"}
            rows.writerow([told[name] for name in _FLAGGED])


@contextmanager
def _whole_csv(path: Source) -> Iterator[Any]:
    """A writer of rows to a file that is there as a whole, or as it was before."""
    with (
        written(path, alone=True) as partial,
        open(partial, "w", newline="", encoding="utf-8") as file,
    ):
        yield csv.writer(file)
