"""Editing tables with a row for each object; further columns, their order and the delimiter stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.formats.csv_wide import column_of, image_column, length_text
from pliant.data.formats.tps import pixel_length
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, line_end
from pliant.data.rewriting.tables import last_line, line, rows_of, value, written
from pliant.data.tables import landmark_columns, number_text

ENCODING = "utf-8"


def contents(text: str, path: Path) -> Contents:
    """A slot for each row whose status is not failed."""
    rows, _ = rows_of(text)
    if not rows:
        raise Unfollowed(f"{path}: there is no header.")
    header = [cell.says for cell in rows[0]]
    names, columns = landmark_columns(header, path)
    image = image_column(header)
    if image is None:
        raise Unfollowed(f"{path}: there is no column called image.")
    status = header.index("status") if "status" in header else None
    scale = column_of(header, "scale")
    slots = []
    for row in rows[1:]:
        if len(row) != len(header):
            raise Unfollowed(f"{path}: a row has {len(row)} fields, but the header has {len(header)}.")
        if status is not None and row[status].says == "failed":
            continue
        numbers = np.array([[value(row[x], path), value(row[y], path)] for x, y in columns])
        numbers[np.isnan(numbers).any(axis=1)] = np.nan
        cells = [(row[x], row[y]) for x, y in columns]
        of_scale = None if scale is None else row[scale]
        spacing = None if of_scale is None else pixel_length(of_scale.says)
        slots.append(Slot(row[image].says, numbers, names, spacing=spacing, place=(cells, of_scale)))
    return Contents(tuple(slots), tuple(dict.fromkeys(row[image].says for row in rows[1:])))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers in cells, and new rows at the end."""
    for index, new in changed.items():
        old = found.slots[index]
        if len(new.numbers) != len(old.numbers):
            raise Unfollowed("the columns of a table cannot change.")
        cells, of_scale = old.place
        if of_scale is not None and new.spacing != old.spacing:
            yield of_scale.start, of_scale.end, length_text(new.spacing)
        for landmark in old.differing(Slot("", new.numbers)):
            for cell, now in zip(cells[landmark], new.numbers[landmark], strict=True):
                yield written(cell, now)
    if not added:
        return
    rows, delimiter = rows_of(text)
    header = [cell.says for cell in rows[0]]
    names, columns = landmark_columns(header, Path())
    image, scale = image_column(header), column_of(header, "scale")
    ending = line_end(text)
    yield from last_line(text, ending)
    for slot in added:
        if len(slot.numbers) != len(columns) or (slot.names and names and slot.names != names):
            raise Unfollowed("the columns of a table cannot change.")
        fields = [""] * len(header)
        fields[image or 0] = slot.image
        for (x, y), pair in zip(columns, slot.numbers, strict=True):
            fields[x], fields[y] = number_text(pair[0]), number_text(pair[1])
        if scale is not None:
            fields[scale] = length_text(slot.spacing)
        yield len(text), len(text), line(fields, delimiter) + ending
