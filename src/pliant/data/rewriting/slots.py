"""What a landmark file has room for: a slot for each object, with landmarks or without, and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64

Splice = tuple[int, int, str]
"""Where a piece of text begins and ends, and what takes its place."""

DECIMALS = 6


class Unfollowed(ValueError):
    """Something in a file that its editor cannot follow, so that it is written as a whole, or not at all."""


@dataclass(frozen=True, eq=False, repr=False)
class Slot(Concise):
    """One object of a file, in the file's own coordinates.

    `image` is the name as the file has it, `numbers (v, 2)` are x and y with nan where a landmark is missing, none
    of them at all if nobody has digitised the object yet. `hidden (v,)`, `names` and `spacing` are as in
    `Annotation`. `place` says where in the text the object is; only its editor knows how.
    """

    image: str
    numbers: Float64
    names: tuple[str, ...] = ()
    hidden: NDArray[np.bool_] | None = None
    spacing: float | None = None
    size: tuple[int, int] | None = None
    place: Any = None

    @property
    def empty(self) -> bool:
        """Whether no landmark is there."""
        return not bool(np.isfinite(self.numbers).all(axis=1).any())

    def differing(self, other: Slot) -> list[int]:
        """The landmarks that another slot with as many of them has elsewhere, or hidden and not here."""
        same = (self.numbers == other.numbers) | (np.isnan(self.numbers) & np.isnan(other.numbers))
        return np.flatnonzero(~same.all(axis=1) | (hidden_in(self) != hidden_in(other))).tolist()


@dataclass(frozen=True, eq=False)
class Contents:
    """The slots of a file in their order, and all the images that it lists, in theirs."""

    slots: tuple[Slot, ...]
    images: tuple[str, ...]


class Editor(Protocol):
    """What a module in this folder has that changes files in place.

    `ENCODING` turns bytes into text and back without loss. `contents` finds the slots, and `splices` what to put in
    their place: for slots that changed, by their number, and for objects that the file does not have yet.
    """

    ENCODING: str

    def contents(self, text: str, path: Path) -> Contents: ...

    def splices(
        self, text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
    ) -> Iterable[Splice]: ...


def hidden_in(slot: Slot) -> NDArray[np.bool_]:
    """Which landmarks `(v,)` are hidden: none that has no place, and none where nobody knows."""
    if slot.hidden is None:
        return np.zeros(len(slot.numbers), dtype=bool)
    return np.asarray(slot.hidden & np.isfinite(slot.numbers).all(axis=1))


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with other pieces in their places; what is inserted at one place keeps its order."""
    pieces: list[str] = []
    at = 0
    for start, end, piece in sorted(splices, key=lambda splice: (splice[0], splice[1])):
        if start < at:
            raise Unfollowed("two changes of the same place in a file.")
        pieces += [text[at:start], piece]
        at = end
    return "".join([*pieces, text[at:]])


def number(value: float) -> str:
    """A number as files have it: to a millionth, and whole if it is."""
    return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Where each line begins, and the line with what ends it."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, line
        at += len(line)


_FIELD = re.compile(r"[^\s,;]+")


def fields_of(line: str, at: int) -> list[tuple[int, int, str]]:
    """The fields of a line that begins at `at`: where each begins and ends, and what it says."""
    return [(at + match.start(), at + match.end(), match[0]) for match in _FIELD.finditer(line)]


def line_end(text: str) -> str:
    """What the first line of a text ends with, as most of them will."""
    match = re.search(r"\r\n|\n|\r", text)
    return match[0] if match else "\n"
