"""Editing lists as WFLW's: x and y are changed; boxes, attributes and the order of lines stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.formats.wflw import has_box
from pliant.data.rewriting.fields import is_number, moved, spans_of, values_at
from pliant.data.rewriting.slots import (
    DECIMALS,
    Contents,
    Slot,
    Splice,
    Unfollowed,
    line_end,
    lines_of,
    number,
)

ENCODING = "utf-8"


def contents(text: str, path: Path) -> Contents:
    """A slot for each line."""
    slots: list[Slot] = []
    boxed = None
    for at, line in lines_of(text):
        spans = spans_of(at, line.rstrip())
        if not spans:
            continue
        numbers = 0
        while numbers < len(spans) and is_number(text[slice(*spans[numbers])]):
            numbers += 1
        values = np.array([float(text[slice(*span)]) for span in spans[:numbers]])
        boxed = has_box(values) if boxed is None else boxed
        count = (numbers - 10 if boxed else numbers) // 2
        place = [spans[2 * landmark : 2 * landmark + 2] for landmark in range(count)]
        if numbers % 2 or not count or numbers == len(spans):
            raise Unfollowed(f"{path}: a line is not pairs of numbers followed by a name.")
        image = text[spans[numbers][0] : at + len(line)].strip()
        slots.append(Slot(image, values_at(text, place, path), place=place))
    return Contents(tuple(slots), tuple(dict.fromkeys(slot.image for slot in slots)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers for landmarks that moved, and lines for further images if there are no attributes."""
    yield from moved(found, changed, "a WFLW list", DECIMALS)
    for slot in added:
        first = found.slots[0]
        behind = text[first.place[-1][1][1] :].lstrip().startswith(first.image)
        if not behind or not np.isfinite(slot.numbers).all():
            raise ValueError("a WFLW list cannot store missing landmarks, or faces without attributes.")
        ending = line_end(text)
        cut = "" if text.endswith(("\n", "\r")) else ending
        line = " ".join([*map(number, slot.numbers.ravel().tolist()), slot.image])
        yield len(text), len(text), cut + line + ending
