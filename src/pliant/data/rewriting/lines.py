"""Editing `.pts` and plain text: only the two numbers of a landmark are changed, comments and all else stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant.data.rewriting.slots import (
    Contents,
    Slot,
    Splice,
    Unfollowed,
    fields_of,
    line_end,
    lines_of,
    number,
)

ENCODING = "utf-8"

_MISSING = ("nan", "na", "n/a", "null", "none")


@dataclass(frozen=True)
class _Place:
    """Where x and y of each landmark are, where the last one's line ends, and where their count is."""

    pairs: list[tuple[tuple[int, int], tuple[int, int]]]
    end: int
    count: tuple[int, int] | None


def contents(text: str, path: Path) -> Contents:
    """The one object of a file, with a line `x y` for each landmark."""
    pairs, values, end = [], [], 0
    count: tuple[int, int] | None = None
    for at, line in lines_of(text):
        bare = line.strip("\ufeff \t\r\n")
        if not bare or bare in "{}" or bare.startswith(("#", "//")):
            continue
        if ":" in bare:
            if announced := re.match(r"\ufeff?\s*n_points\s*:\s*(\d+)", line, re.IGNORECASE):
                count = at + announced.start(1), at + announced.end(1)
            continue
        fields = fields_of(line.lstrip("\ufeff"), at + len(line) - len(line.lstrip("\ufeff")))
        if len(fields) != 2:
            raise Unfollowed(f"{path}: there are {len(fields)} numbers on one line.")
        pairs.append((fields[0][:2], fields[1][:2]))
        values.append([_value(field[2], path) for field in fields])
        end = at + len(line)
    numbers = np.array(values, dtype=np.float64).reshape(-1, 2)
    numbers[np.isnan(numbers).any(axis=1)] = np.nan
    return Contents((Slot("", numbers, place=_Place(pairs, end, count)),), ("",))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers for landmarks that moved, and lines for those that the file does not have yet."""
    if added:
        raise Unfollowed("a file next to an image holds one object.")
    for index, new in changed.items():
        old = found.slots[index]
        place: _Place = old.place
        have = len(old.numbers)
        shorter = Slot("", new.numbers[:have])
        for landmark in old.differing(shorter):
            for axis in (0, 1):
                yield *place.pairs[landmark][axis], _text(new.numbers[landmark, axis])
        if len(new.numbers) > have:
            if place.count is not None:
                yield *place.count, str(len(new.numbers))
            ending = line_end(text)
            cut = "" if text[: place.end].endswith(("\n", "\r")) else ending
            more = "".join(f"{_text(x)} {_text(y)}{ending}" for x, y in new.numbers[have:])
            yield place.end, place.end, cut + more


def _value(field: str, path: Path) -> float:
    if field.lower() in _MISSING:
        return np.nan
    try:
        return float(field)
    except ValueError:
        raise Unfollowed(f"{path}: '{field[:60]}' is not a number.") from None


def _text(value: float) -> str:
    return "nan" if np.isnan(value) else number(value)
