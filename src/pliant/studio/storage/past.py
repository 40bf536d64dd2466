"""The history of one image, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.studio.storage.history import Line
from pliant.studio.storage.marks import ABSENT


@dataclass(frozen=True)
class Past:
    """A line of an image's history: what was done, when and by whom, and whether it is undone now."""

    number: int
    time: str
    client: str
    what: str
    undone: bool


def in_words(lines: Sequence[Line]) -> list[Past]:
    """The lines of an image, the oldest first."""
    undone: set[int] = set()
    undone_by: dict[int, int] = {}
    for line in lines:
        if "undoes" in line:
            undone.add(line["undoes"])
            undone_by[line["n"]] = line["undoes"]
        elif "redoes" in line:
            undone.discard(undone_by.get(line["redoes"], -1))
            # The change is made again under a new number, which the next undo names.
            undone_by[line["n"]] = line["n"]
    return [
        Past(line["n"], line["time"], line.get("client", ""), _said(line), line["n"] in undone)
        for line in lines
    ]


def _said(line: Mapping[str, Any]) -> str:
    marks = line.get("marks", {})
    placed = sum(1 for mark in marks.values() if mark[2] > ABSENT)
    parts = [f"placed {placed}"] if placed else []
    parts += [f"removed {len(marks) - placed}"] if placed < len(marks) else []
    if "finished" in line:
        parts.append("finished" if line["finished"] else "not finished")
    if "scale" in line:
        parts.append("scale bar" if line["scale"] else "no scale bar")
    said = ", ".join(parts) or "nothing, because all of it has changed since"
    if line.get("outside"):
        return f"changed in the file: {said}"
    return f"undo: {said}" if "undoes" in line else f"redo: {said}" if "redoes" in line else said
