"""Editing DeepLabCut's tables: cells of x and y are changed; scorers, likelihoods and the order of rows stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.formats.deeplabcut import landmark_places
from pliant.data.landmark_names import without_numbers
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, line_end
from pliant.data.rewriting.tables import Row, last_line, line, rows_of, value, written
from pliant.data.tables import number_text

ENCODING = "utf-8"

_HEAD = ("scorer", "individuals", "bodyparts", "coords")


def contents(text: str, path: Path) -> Contents:
    """A slot for each individual in each frame, also where it is not labelled."""
    head, rows, index = _table(text, path)
    slots = []
    for row in rows:
        if len(row) != len(head["coords"]):
            raise Unfollowed(f"{path}: a row and the header differ in length.")
        image = "/".join(cell.says for cell in row[:index])
        for parts in landmark_places(path, head, index).values():
            cells = [(row[x], row[y]) for x, y in parts.values()]
            numbers = np.array([[value(cell, path) for cell in pair] for pair in cells]).reshape(-1, 2)
            numbers[np.isnan(numbers).any(axis=1)] = np.nan
            slots.append(Slot(image, numbers, without_numbers(list(parts)), place=cells))
    return Contents(tuple(slots), tuple(dict.fromkeys(slot.image for slot in slots)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers in cells, and new rows at the end."""
    for number, new in changed.items():
        old = found.slots[number]
        if len(new.numbers) != len(old.numbers):
            raise Unfollowed("the body parts of a table cannot change.")
        for landmark in old.differing(Slot("", new.numbers)):
            for cell, now in zip(old.place[landmark], new.numbers[landmark], strict=True):
                yield written(cell, now)
    if not added:
        return
    head, _, index = _table(text, Path())
    parts = next(iter(landmark_places(Path(), head, index).values()))
    ending = line_end(text)
    yield from last_line(text, ending)
    for slot in added:
        names = slot.image.split("/") if index > 1 else [slot.image]
        if len(names) != index or len(slot.numbers) != len(parts):
            raise Unfollowed(f"{slot.image} has no row in this table.")
        fields = names + [""] * (len(head["coords"]) - index)
        for (x, y), pair in zip(parts.values(), slot.numbers.tolist(), strict=True):
            fields[x], fields[y] = map(number_text, pair)
        yield len(text), len(text), line(fields, ",") + ending


def _table(text: str, path: Path) -> tuple[dict[str, list[str]], list[Row], int]:
    """The rows of the header by name, the rows of frames, and how many columns name a frame."""
    rows, delimiter = rows_of(text)
    depth = next((number for number, row in enumerate(rows) if row[0].says == "coords"), 0) + 1
    head = {row[0].says: [cell.says for cell in row] for row in rows[:depth]}
    widths = {len(row) for row in head.values()}
    if delimiter != "," or not {"bodyparts", "coords"} <= set(head) <= set(_HEAD) or len(widths) != 1:
        raise Unfollowed(f"{path}: this is not a DeepLabCut table.")
    coords = head["coords"]
    index = next((column for column in range(1, len(coords)) if coords[column]), len(coords))
    return head, rows[depth:], index
