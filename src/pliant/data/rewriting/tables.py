"""Editing tables: a row for each object (`csv`) or landmark (`csv-long`); only cells of coordinates are changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.data.rewriting.slots import Unfollowed
from pliant.data.tables import number, number_text


@dataclass(frozen=True)
class Cell:
    """A field of a table: where it begins and ends, and what it says."""

    start: int
    end: int
    says: str


Row = list[Cell]


def rows_of(text: str) -> tuple[list[Row], str]:
    """The rows of a table that say anything, and the delimiter."""
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    delimiter = max(",;\t", key=first.count)
    pattern = re.compile(rf'("(?:[^"]|"")*")?([^{delimiter}\r\n]*)({delimiter}|\r\n|\n|\r|\Z)')
    rows: list[Row] = []
    row: Row = []
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise Unfollowed("a quote in a table is not closed.")
        quoted = match[1][1:-1].replace('""', '"') if match[1] else ""
        row.append(Cell(match.start(), match.end(2), (quoted + match[2]).strip()))
        at = match.end()
        if match[3] != delimiter:
            rows.append(row)
            row = []
    if row:  # The text ends with a delimiter: an empty field follows.
        rows.append([*row, Cell(at, at, "")])
    return [row for row in rows if any(cell.says for cell in row)], delimiter


def value(cell: Cell, path: Path) -> float:
    """The number in a cell, nan if it is missing."""
    try:
        return number(cell.says, path, 0)
    except ValueError:
        raise Unfollowed(f"{path}: '{cell.says[:60]}' is not a number.") from None


def written(cell: Cell, now: float) -> tuple[int, int, str]:
    """What puts a number in a cell."""
    return cell.start, cell.end, number_text(now)


def line(fields: Sequence[str], delimiter: str) -> str:
    """A row of fields, quoted where it must be."""
    return delimiter.join(_quoted(field, delimiter) for field in fields)


def _quoted(field: str, delimiter: str) -> str:
    if any(sign in field for sign in (delimiter, '"', "\n", "\r")):
        return '"' + field.replace('"', '""') + '"'
    return field


def last_line(text: str, ending: str) -> Iterator[tuple[int, int, str]]:
    """What ends the last line, if nothing does, so that another can follow."""
    if text and not text.endswith(("\n", "\r")):
        yield len(text), len(text), ending
