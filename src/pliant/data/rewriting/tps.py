"""Editing TPS: numbers of landmarks and SCALE are changed; IDs, comments, outlines and the order of keys stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pliant.data.formats.tps import pixel_length
from pliant.data.rewriting.slots import Contents, Slot, Splice, Unfollowed, fields_of, line_end, lines_of

ENCODING = "utf-8"

_KEY = re.compile(r"\ufeff?\s*([A-Za-z]\w*)\s*=\s*(.*?)\s*")


@dataclass
class _Place:
    """Where the count of landmarks is, x and y of each, the line of SCALE, and where the specimen ends."""

    count: tuple[int, int]
    after: int
    pairs: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)
    scale: tuple[int, int] | None = None
    end: int = 0


def contents(text: str, path: Path) -> Contents:
    """A slot for each specimen, also for those with LM=0."""
    lines = list(lines_of(text))
    slots: list[Slot] = []
    place: _Place | None = None
    values: list[tuple[float, float]] = []
    image, spacing = "", None
    at = 0

    def finish() -> None:
        if place is not None:
            numbers = np.array(values, dtype=np.float64).reshape(-1, 2)
            slots.append(Slot(image, numbers, spacing=spacing, place=place))

    def block(count: int) -> int:
        assert place is not None
        for start, line in lines[at : at + count]:
            fields = fields_of(line, start)
            if len(fields) != 2:
                raise Unfollowed(f"{path}: expected two numbers, found '{line.strip()[:60]}'.")
            place.pairs.append((fields[0][:2], fields[1][:2]))
            values.append(_point(fields[0][2], fields[1][2], path))
            place.end = start + len(line)
        return at + count

    while at < len(lines):
        start, line = lines[at]
        at += 1
        if not line.strip():
            continue
        match = _KEY.fullmatch(line)
        if not match:
            raise Unfollowed(f"{path}: expected a key, found '{line.strip()[:60]}'.")
        key, value = match[1].upper(), match[2]
        if key == "LM":
            finish()
            place = _Place((start + match.start(2), start + match.end(2)), start + len(line))
            place.end = start + len(line)
            values, image, spacing = [], "", None
            at = block(_count(value, path))
            place.after = place.end
            continue
        if place is None:
            raise Unfollowed(f"{path}: {key}= comes before any LM=.")
        place.end = start + len(line)
        if key in ("CURVES", "OUTLINES"):
            for _ in range(_count(value, path)):
                while at < len(lines) and not lines[at][1].strip():
                    at += 1
                points = _KEY.fullmatch(lines[at][1]) if at < len(lines) else None
                if not points or points[1].upper() != "POINTS":
                    raise Unfollowed(f"{path}: expected POINTS= for a curve.")
                at += 1
                if key == "CURVES":
                    at = block(_count(points[2], path))
                else:
                    at += _count(points[2], path)
                place.end = lines[at - 1][0] + len(lines[at - 1][1])
        elif key == "IMAGE":
            image = value
        elif key == "SCALE":
            place.scale, spacing = (start, start + len(line)), pixel_length(value)
    finish()
    return Contents(tuple(slots), tuple(dict.fromkeys(slot.image for slot in slots)))


def splices(
    text: str, found: Contents, changed: Mapping[int, Slot], added: Sequence[Slot]
) -> Iterator[Splice]:
    """New numbers for landmarks that moved, a SCALE that is another, and specimens at the end."""
    ending = line_end(text)
    for index, new in changed.items():
        old, place = found.slots[index], found.slots[index].place
        if not len(old.numbers) and len(new.numbers):
            # Announced with LM=0: its landmarks come right behind.
            yield *place.count, str(len(new.numbers))
            cut = "" if text[: place.after].endswith(("\n", "\r")) else ending
            rows = "".join(f"{_text(x)} {_text(y)}{ending}" for x, y in new.numbers)
            yield place.after, place.after, cut + rows
        elif len(new.numbers) != len(old.numbers):
            raise Unfollowed("the number of landmarks of a TPS specimen cannot change.")
        else:
            for landmark in old.differing(Slot("", new.numbers, hidden=old.hidden)):
                for axis in (0, 1):
                    yield *place.pairs[landmark][axis], _text(new.numbers[landmark, axis])
        if new.spacing != old.spacing:
            line = "" if new.spacing is None else f"SCALE={new.spacing:.10g}{ending}"
            cut = "" if text[: place.end].endswith(("\n", "\r")) else ending
            yield (*place.scale, line) if place.scale else (place.end, place.end, cut + line)
    if added:
        yield len(text), len(text), "" if not text or text.endswith(("\n", "\r")) else ending
    for number, new in enumerate(added, start=len(found.slots)):
        lines = [f"LM={len(new.numbers)}", *(f"{_text(x)} {_text(y)}" for x, y in new.numbers)]
        lines += [f"IMAGE={new.image}", f"ID={number}"]
        lines += [] if new.spacing is None else [f"SCALE={new.spacing:.10g}"]
        yield len(text), len(text), "".join(line + ending for line in lines)


def _point(x: str, y: str, path: Path) -> tuple[float, float]:
    try:
        pair = tuple(np.nan if value.upper() == "NA" else float(value) for value in (x, y))
    except ValueError:
        raise Unfollowed(f"{path}: expected two numbers, found '{x[:30]} {y[:30]}'.") from None
    return (pair[0], pair[1]) if pair[0] >= 0 and pair[1] >= 0 else (np.nan, np.nan)


def _text(value: float) -> str:
    if value < 0:
        raise ValueError(
            "a landmark is left of or below the image, and a negative coordinate in TPS marks a missing "
            "landmark."
        )
    return "-1" if np.isnan(value) else f"{value:.5f}"


def _count(value: str, path: Path) -> int:
    if not (value.isdecimal() and len(value) <= 9):
        raise Unfollowed(f"{path}: '{value[:60]}' is not a count.")
    return int(value)
