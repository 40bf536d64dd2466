"""Editing AAM-API's shapes: of the seven numbers of a landmark x and y are changed; paths and comments stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pliant.data.rewriting.fields import moved, spans_of, values_at
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, lines_of

ENCODING = "utf-8"

_DIGITS = 10
"""Shares of an image have so many: in pixels that is far below a thousandth."""


def contents(text: str, path: Path) -> Contents:
    """The one object."""
    lines = [(at, line) for at, line in lines_of(text) if line.strip("\ufeff \t\r\n")]
    lines = [(at, line) for at, line in lines if not line.lstrip("\ufeff \t").startswith("#")]
    count = lines[0][1].strip("\ufeff \t\r\n") if lines else ""
    if not count.isdecimal() or len(lines) < 1 + int(count):
        raise Unfollowed(f"{path}: the first line does not give the number of points.")
    place = [spans_of(at, line)[2:4] for at, line in lines[1 : 1 + int(count)]]
    rest = lines[1 + int(count) :]
    image = rest[0][1].strip() if rest else ""
    image = "" if image == path.stem else image
    return Contents((Slot(image, values_at(text, place, path), place=place),), (image,))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers for landmarks that moved."""
    if added:
        raise Unfollowed("an .asf file holds one object.")
    yield from moved(found, changed, "an .asf file", _DIGITS)
