"""Tables that the report of an experiment has, read from the CSV files that it left."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pliant.data.names import readable
from pliant.studio.results.opened import Opened

_MOST = 2000
_LARGEST = 16 * 2**20
"""Rows that are shown, and bytes of a file that is read."""


@dataclass(frozen=True)
class ResultTable:
    """A small table: texts in rows. `numeric` says which columns have numbers, `sentence` what is left out."""

    name: str
    header: list[str]
    numeric: list[bool]
    rows: list[list[str]]
    sentence: str


def tables_of(opened: Opened) -> list[str]:
    """The names of the tables that belong to an experiment."""
    return [path.stem.replace("_", " ") for path in _files(opened)]


def read_table(opened: Opened, number: int) -> ResultTable:
    """A table by its place in `tables_of`."""
    files = _files(opened)
    if not 0 <= number < len(files):
        raise LookupError("this table no longer exists: reload the list.")
    path = files[number]
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        rows = [row for row in islice(lines, _MOST) if len(row) == len(header)]
        more = next(lines, None) is not None
    numeric = [
        any(row[k] for row in rows) and all(_is_number(row[k]) for row in rows) for k in range(len(header))
    ]
    sentence = f"The first {_MOST:,} rows are shown. All rows are in {readable(path.name)}." if more else ""
    return ResultTable(path.stem.replace("_", " "), header, numeric, rows, sentence)


def _files(opened: Opened) -> list[Path]:
    plan, folder = opened.found.plan, opened.found.path
    if plan is None or not folder.is_dir():
        return []
    files = [path for path in sorted(folder.glob(f"{plan.stem}*.csv")) if path.is_file()]
    exact = [path for path in files if path.stem == plan.stem or path.stem.startswith(f"{plan.stem}_")]
    return [path for path in exact if path.stat().st_size <= _LARGEST]


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True
