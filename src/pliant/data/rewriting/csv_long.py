"""Editing tables with a row for each landmark; further columns, the order of rows and the delimiter stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pliant.data.landmark_names import by_name, without_numbers
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, line_end
from pliant.data.rewriting.tables import Cell, Row, last_line, line, rows_of, value, written
from pliant.data.tables import number_text

ENCODING = "utf-8"

_COLUMNS = ("image", "landmark", "x", "y")


@dataclass
class _Place:
    """The cells of each landmark that has a row, the object's last row, and what its landmarks are called here."""

    cells: dict[str, tuple[Cell, Cell]] = field(default_factory=dict)
    last: Row = field(default_factory=list)
    names: tuple[str, ...] = ()


def contents(text: str, path: Path) -> Contents:
    """A slot for each object, in the order of their first rows."""
    rows, _ = rows_of(text)
    titles = _titles(rows, path)
    objects: dict[tuple[str, str], _Place] = {}
    for row in rows[1:]:
        if len(row) != len(titles):
            raise Unfollowed(f"{path}: a row has {len(row)} fields, but the header has {len(titles)}.")
        cells = dict(zip(titles, row, strict=True))
        other = cells["object"].says if "object" in cells else ""
        place = objects.setdefault((cells["image"].says, other), _Place())
        if cells["landmark"].says in place.cells:
            raise Unfollowed(f"{path}: the landmark {cells['landmark'].says} occurs twice.")
        place.cells[cells["landmark"].says] = cells["x"], cells["y"]
        place.last = row
    names = tuple(dict.fromkeys(name for place in objects.values() for name in place.cells))
    if all(name.isdecimal() for name in names):
        names = by_name(names)
    slots = []
    for (image, _), place in objects.items():
        place.names = names
        pairs = [
            [value(cell, path) for cell in place.cells[name]] if name in place.cells else [np.nan] * 2
            for name in names
        ]
        numbers = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        numbers[np.isnan(numbers).any(axis=1)] = np.nan
        slots.append(Slot(image, numbers, without_numbers(names), place=place))
    return Contents(tuple(slots), tuple(dict.fromkeys(image for image, _ in objects)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers in cells, and rows for landmarks that have none."""
    rows, delimiter = rows_of(text)
    titles = _titles(rows, Path())
    ending = line_end(text)
    for index, new in changed.items():
        old = found.slots[index]
        place: _Place = old.place
        if len(new.numbers) != len(old.numbers):
            raise Unfollowed("the landmarks of a table cannot change.")
        fresh = []
        for landmark in old.differing(Slot("", new.numbers)):
            name = place.names[landmark]
            if name in place.cells:
                for cell, now in zip(place.cells[name], new.numbers[landmark], strict=True):
                    yield written(cell, now)
            else:
                fields = [cell.says for cell in place.last]
                fresh.append(_filled(fields, titles, name, new.numbers[landmark].tolist()))
        at = place.last[-1].end
        if fresh:
            yield at, at, "".join(ending + line(fields, delimiter) for fields in fresh)
    if not added:
        return
    known = found.slots[0].place.names if found.slots else ()
    yield from last_line(text, ending)
    for slot in added:
        if any(slot.image == other.image for other in found.slots):
            raise Unfollowed("a table cannot take a second object of an image.")
        count = len(slot.numbers)
        names = known if len(known) == count else slot.names or tuple(map(str, range(count)))
        for name, pair in zip(names, slot.numbers.tolist(), strict=True):
            fields = [""] * len(titles)
            fields[titles.index("image")] = slot.image
            yield len(text), len(text), line(_filled(fields, titles, name, pair), delimiter) + ending


def _titles(rows: Sequence[Row], path: Path) -> list[str]:
    titles = [cell.says.lower() for cell in rows[0]] if rows else []
    if not set(_COLUMNS) <= set(titles) or len(set(titles)) < len(titles):
        raise Unfollowed(f"{path}: one of the columns {', '.join(_COLUMNS)} is missing or occurs twice.")
    return titles


def _filled(fields: Sequence[str], titles: Sequence[str], name: str, pair: Sequence[float]) -> list[str]:
    """The fields of a row with another landmark and its place; columns that nobody knows are left empty."""
    known = {"image", "object", "group"}
    filled = [cell if title in known else "" for title, cell in zip(titles, fields, strict=True)]
    filled[titles.index("landmark")] = name
    filled[titles.index("x")], filled[titles.index("y")] = map(number_text, pair)
    return filled
