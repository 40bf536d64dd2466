"""Editing LJSON: only the two numbers of a landmark are changed, labels, connectivity and further groups stay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.data.rewriting.json_spans import elements, members, skip
from pliant.data.rewriting.slots import DECIMALS, Contents, Slot, Splice, Unfollowed

ENCODING = "utf-8"


def contents(text: str, path: Path) -> Contents:
    """A slot for each group."""
    start = skip(text, 1 if text.startswith("\ufeff") else 0)
    try:
        document = {key: (value, begin) for key, value, begin, _ in members(text, start)}
        version, _ = document["version"]
        if version == 3:
            groups = [(group, begin) for _, group, begin, _ in members(text, document["groups"][1])]
        elif version == 2:
            groups = [({key: value for key, (value, _) in document.items()}, start)]
        else:
            raise Unfollowed(f"{path}: LJSON version {version} cannot be edited.")
        slots = tuple(_slot(text, group, begin) for group, begin in groups)
    except (json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError):
        raise Unfollowed(f"{path}: this is not LJSON.") from None
    return Contents(slots, ("",))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers for landmarks that moved, null for those that are missing."""
    if added:
        raise Unfollowed("a file next to an image cannot take more objects.")
    for index, new in changed.items():
        old = found.slots[index]
        if len(new.numbers) != len(old.numbers):
            raise Unfollowed("the number of landmarks of a group cannot change.")
        for landmark in old.differing(Slot("", new.numbers)):
            for (begin, end), value in zip(old.place[landmark], new.numbers[landmark][::-1], strict=True):
                yield begin, end, "null" if np.isnan(value) else json.dumps(round(float(value), DECIMALS))


def _slot(text: str, group: Any, start: int) -> Slot:
    landmarks = {key: begin for key, _, begin, _ in members(text, start)}["landmarks"]
    points = {key: begin for key, _, begin, _ in members(text, landmarks)}["points"]
    rows = [[(begin, end) for _, begin, end in elements(text, at)] for _, at, _ in elements(text, points)]
    numbers = np.array(group["landmarks"]["points"], dtype=np.float64).reshape(-1, 2)[:, ::-1].copy()
    numbers[np.isnan(numbers).any(axis=1)] = np.nan
    if any(len(row) != 2 for row in rows):
        raise ValueError
    return Slot("", numbers, _names(group, len(numbers)), place=rows)


def _names(group: Any, count: int) -> tuple[str, ...]:
    """Names where every landmark has a label to itself, as the reader has them."""
    masks = {
        label["mask"][0]: str(label.get("label"))
        for label in group.get("labels") or []
        if len(label["mask"]) == 1 and isinstance(label["mask"][0], int)
    }
    complete = len(group.get("labels") or []) == count and sorted(masks) == [*range(count)]
    return tuple(masks[index] for index in range(count)) if complete else ()
