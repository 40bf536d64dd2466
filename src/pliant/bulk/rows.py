"""Rows of a run: which of them may be taken from a journal, and what is made from the table for people."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pliant.data.names import to_text
from pliant.data.tables import coordinate_titles
from pliant.files import replaced
from pliant.fitting.status import Status
from pliant.table import COLUMNS, Row, columns_of, rows_of
from pliant.table.columns import has_type


def is_row_of(row: Row, image: str) -> bool:
    """Whether a row that was read from a file is one that a run could have made for this image."""
    names = columns_of("fits")
    if set(row) != set(names) or row["image"] != image or row["status"] not in list(Status):
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


def write_csv(path: Path, table: Path, landmarks: int, names: Sequence[str] = ()) -> None:
    """All columns of a table but `spread`, with two columns for each landmark as the format `csv` has them.

    An image that could not be fitted has empty cells there.
    """
    columns = [name for name in columns_of("fits") if COLUMNS[name].type != "landmarks"]
    with _whole_csv(path) as rows:
        rows.writerow([*columns, *coordinate_titles(landmarks, names)])
        for row in rows_of(table, [*columns, "x", "y"]):
            points = [""] * (2 * landmarks) if row["x"] is None else np.ravel([row["x"], row["y"]], order="F")
            rows.writerow([to_text(row["image"]), *(row[name] for name in columns[1:]), *points])


def count_statuses(table: Path) -> tuple[Counter[str], str]:
    """How many fits ended in which way, and what is said about the first that failed."""
    statuses: Counter[str] = Counter()
    first = ""
    for row in rows_of(table, ["image", "status", "reason"]):
        statuses[row["status"]] += 1
        first = first or (f"{row['image']}: {row['reason']}" if row["status"] == Status.FAILED else "")
    return statuses, first


def flagged_in(table: Path, below: float) -> list[tuple[float, str]]:
    """Confidence and image of the fits that a person should look at, the least trusted first."""
    rows = rows_of(table, ["image", "confidence"])
    return sorted(
        (row["confidence"], row["image"])
        for row in rows
        if row["confidence"] is not None and row["confidence"] < below
    )


def write_flagged(path: Path, table: Path, below: float) -> None:
    """What `flagged_in` has, as a table."""
    with _whole_csv(path) as rows:
        rows.writerow(["image", "confidence"])
        rows.writerows(
            [to_text(image), f"{confidence:.4f}"] for confidence, image in flagged_in(table, below)
        )


@contextmanager
def _whole_csv(path: Path) -> Iterator[Any]:
    """A writer of rows to a file that is there as a whole, or as it was before."""
    with (
        replaced(path, alone=True) as partial,
        open(partial, "w", newline="", encoding="utf-8") as file,
    ):
        yield csv.writer(file)
