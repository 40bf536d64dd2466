"""Words of a line and where they are, for formats that know no missing landmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed

Span = tuple[int, int]

_WORD = re.compile(r"\S+")


def spans_of(at: int, line: str) -> list[Span]:
    """Where the words of a line are that begins at `at`."""
    return [(at + match.start(), at + match.end()) for match in _WORD.finditer(line)]


def is_number(word: str) -> bool:
    """Whether a word is a number."""
    return re.fullmatch(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", word) is not None


def values_at(text: str, place: Sequence[Sequence[Span]], path: Path) -> Float64:
    """The numbers `(v, 2)` at places of x and y."""
    try:
        return np.array([[float(text[slice(*span)]) for span in pair] for pair in place]).reshape(-1, 2)
    except ValueError:
        raise Unfollowed(f"{path}: a coordinate is not a number.") from None


def moved(found: Contents, changed: Mapping[int, Slot], what: str, digits: int) -> Iterator[Splice]:
    """New numbers for landmarks that moved, in a format that has no word for missing ones."""
    for index, new in changed.items():
        old = found.slots[index]
        if len(new.numbers) != len(old.numbers):
            raise Unfollowed(f"the number of landmarks in {what} cannot change.")
        for landmark in old.differing(Slot("", new.numbers)):
            if not np.isfinite(new.numbers[landmark]).all():
                raise ValueError(f"landmark {landmark} is missing, and {what} cannot store that.")
            for span, value in zip(old.place[landmark], new.numbers[landmark], strict=True):
                yield *span, f"{value:.{digits}f}"
