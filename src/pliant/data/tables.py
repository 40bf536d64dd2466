"""Tables of text: rows with the number of their line, numbers that may be missing, columns that are landmarks."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data.landmark_names import by_name, without_numbers

csv.field_size_limit(2**31 - 1)
"""Python stops at 128 KiB, and a kaggle table has a whole image in a field."""

_MISSING = ("", "nan", "na", "n/a", "null", "none")
_NUMBERED = re.compile(r"([xy])_?(\d+)", re.IGNORECASE)
_NAMED = re.compile(r"(.+)[_. ]([xy])", re.IGNORECASE)
_WITH_COMMAS = re.compile(r"[-+]?\d+(?:,\d+)?[\s;]+[-+]?\d+(?:,\d+)?")


def read_rows(path: Path, delimiter: str = "") -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with the lines where they end; empty rows are left out.

    Without a `delimiter` it is the comma, semicolon or tab that the first line has most of.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            if not delimiter:
                delimiter = _delimiter(file.readline())
                file.seek(0)
            rows = csv.reader(file, delimiter=delimiter)
            for row in rows:
                if any(field.strip() for field in row):
                    yield rows.line_num, [field.strip() for field in row]
        except UnicodeDecodeError:
            raise ValueError(f"{path}: this is not UTF-8 text: save the table in that encoding.") from None
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {rows.line_num}: this is not a row of a table ({error})."
            ) from None


def first_rows(head: bytes) -> list[list[str]]:
    """The rows that begin in the first bytes of a file, the last one perhaps cut off; none if it is no table."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text.split("\n", 1)[0])))
    except csv.Error:
        return []
    return [[field.strip() for field in row] for row in rows if row]


def write_rows(path: Path, rows: Iterable[Sequence[str]], head: str = "") -> None:
    """Write a table with commas, quoted where a field has some itself, under the lines of a `head`."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(head)
        csv.writer(file, lineterminator="\n").writerows(rows)


def is_missing(text: str) -> bool:
    """Whether a field says that there is nothing in it."""
    return text.strip().lower() in _MISSING


def number(text: str, path: Path, line: int) -> float:
    """The number in a field, nan if it is missing."""
    if is_missing(text):
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(f"{path}, line {line}: expected a number, found '{text[:60]}'.")
    return value


def has_decimal_commas(line: str) -> bool:
    """Whether a line looks like x and y with decimal commas: `190,618 234,057`."""
    return "," in line and _WITH_COMMAS.fullmatch(line.strip()) is not None


def about_commas(line: str) -> str:
    """What to say behind an error about a line, if decimal commas are the likely reason; otherwise nothing."""
    if not has_decimal_commas(line):
        return ""
    return f" Decimal commas are the likely reason: write '{line.strip().replace(',', '.')[:60]}'."


def number_text(value: float) -> str:
    """A number as a field has it: to a millionth, and empty if it is missing."""
    return "" if math.isnan(value) else f"{value:.6f}".rstrip("0").rstrip(".")


def is_landmark_column(title: str) -> bool:
    """Whether a column is called like a coordinate: `x0`, `y_12`, `nose_x`, `nose.y`."""
    return bool(_NUMBERED.fullmatch(title) or _NAMED.fullmatch(title))


def coordinate_titles(
    count: int, names: Sequence[str] = (), quantities: Sequence[str] = ("x", "y")
) -> list[str]:
    """The columns of landmarks: `nose_x`, `nose_y`, or `x0`, `y0` if they have no names."""
    if names:
        return [f"{name}_{quantity}" for name in names for quantity in quantities]
    return [f"{quantity}{number}" for number in range(count) for quantity in quantities]


def landmark_columns(header: Sequence[str], path: Path) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """Names of the landmarks of a header, empty if they are numbered, and where their x and y are."""
    found: dict[str, dict[str, int]] = {}
    numbers: set[str] = set()
    for column, title in enumerate(header):
        if match := _NUMBERED.fullmatch(title):
            axis, name = match.groups()
            numbers.add(name)
        elif match := _NAMED.fullmatch(title):
            name, axis = match.groups()
        else:
            continue
        if axis.lower() in found.setdefault(name, {}):
            raise ValueError(f"{path}, line 1: the column {title} occurs twice.")
        found[name][axis.lower()] = column
    for axes in found.values():
        if len(axes) == 1:
            (column,) = axes.values()
            raise ValueError(
                f"{path}, line 1: the column {header[column]} has no matching column for the other axis."
            )
    if not found:
        raise ValueError(f"{path}, line 1: no column has the name of a coordinate, such as x0 or nose_x.")
    names = list(by_name(found)) if numbers == set(found) else list(found)
    return without_numbers(names), [(found[name]["x"], found[name]["y"]) for name in names]


def landmarks_in(row: Sequence[str], columns: Sequence[tuple[int, int]], path: Path, line: int) -> Float64:
    """The landmarks `(v, 2)` in a row; one that lacks a coordinate is missing."""
    points = np.array([[number(row[x], path, line), number(row[y], path, line)] for x, y in columns])
    points[np.isnan(points).any(axis=1)] = np.nan
    return points


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)
