"""What the history says about each image: its lines, folded into the last word on every landmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.studio.storage.history import Line, patch_from_json
from pliant.studio.storage.marks import ABSENT, UNSEEN, Change, Mark, Scale


class Step(NamedTuple):
    """A change that can be undone or redone: where its line begins, its number, and who made it."""

    at: int
    number: int
    client: str


@dataclass
class Unsaved:
    """Changes of an image that its landmark file does not hold yet.

    `number` is that of the last one; `earlier` has the landmarks that they touch, each with the values that it had
    since the file was written; `scale` says whether the bar is among them.
    """

    number: int = 0
    earlier: dict[int, list[Mark]] = field(default_factory=dict)
    scale: bool = False


@dataclass(slots=True)
class Known:
    """What the history says about one image.

    Of the `touched (v,)` landmarks it has the last word, unless somebody changed the landmark file since. `rest` is
    the state of the others where the file has no place for them: what they were when the first change was made.
    """

    points: Float64 = field(default_factory=lambda: np.empty((0, 2)))
    states: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, dtype=np.int8))
    touched: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    rest: int = ABSENT
    done: bool = False
    scale: Scale | None = None
    revision: int = 0
    undo: list[Step] = field(default_factory=list)
    redo: list[Step] = field(default_factory=list)

    def grow(self, count: int) -> None:
        """Make room for so many landmarks."""
        more = count - len(self.states)
        if more > 0:
            self.points = np.concatenate([self.points, np.full((more, 2), np.nan)])
            self.states = np.concatenate([self.states, np.full(more, UNSEEN, dtype=np.int8)])
            self.touched = np.concatenate([self.touched, np.zeros(more, dtype=bool)])

    def mark(self, landmark: int) -> Mark:
        """One landmark, as a change would set it."""
        x, y = self.points[landmark].tolist()
        state = int(self.states[landmark])
        return (x, y, state) if state > ABSENT else (None, None, state)

    def put(self, change: Change) -> None:
        """Let a change have the last word."""
        self.grow(max(change.marks, default=-1) + 1)
        for landmark, (x, y, state) in change.marks.items():
            self.points[landmark] = (np.nan, np.nan) if x is None or y is None else (x, y)
            self.states[landmark] = state
            self.touched[landmark] = True
        if change.scale is not None:
            self.scale = change.scale or None


class Memory:
    """All that the history says, line by line."""

    def __init__(self) -> None:
        self.images: dict[str, Known] = {}
        self.ids: set[str] = set()
        self.object: Mapping[str, Any] | None = None
        self.unsaved: dict[str, Unsaved] = {}
        self.created: set[str] = set()
        """Images whose landmark file was made here."""
        self.active: set[str] = set()
        """Who has changed anything since the server started."""

    def fold(self, at: int, line: Line) -> None:
        """Take in a line of the history that begins at `at`."""
        if "holds" in line:
            self._saved(line["holds"], line.get("image"))
            if line.get("created"):
                self.created.add(line["image"])
        elif "object" in line:
            self.object = line["object"]
        elif "session" in line:
            self.active.clear()
        elif "image" in line:
            self._changed(at, line)

    def may_undo(self, step: Step, client: str) -> bool:
        """Whether a client may take back a change: its own, or one of somebody who is not here any more."""
        return step.client == client or step.client not in self.active

    def last_step(self, key: str, client: str | None, way: str) -> Step | None:
        """The change of an image that a client, or anybody, would undo ("undoes") or redo ("redoes") next."""
        known = self.images.get(key)
        steps = [] if known is None else known.undo if way == "undoes" else known.redo
        return next((step for step in reversed(steps) if client is None or self.may_undo(step, client)), None)

    def _changed(self, at: int, line: Line) -> None:
        key, client, number = line["image"], line.get("client", ""), line["n"]
        known = self.images.setdefault(key, Known())
        change = patch_from_json(line)
        known.put(change)
        known.rest = line.get("rest", known.rest)
        known.done, known.revision = line["done"], number
        if line.get("id"):
            self.ids.add(line["id"])
        if not line.get("outside"):
            self._note_step(known, Step(at, number, client), line)
            unsaved = self.unsaved.setdefault(key, Unsaved())
            unsaved.number = number
            unsaved.scale = unsaved.scale or change.scale is not None
            before = line.get("before", {}).get("marks", {})
            for landmark in change.marks:
                values = unsaved.earlier.setdefault(landmark, [])
                if str(landmark) in before:
                    values.append(tuple(before[str(landmark)]))

    def _note_step(self, known: Known, step: Step, line: Line) -> None:
        if "undoes" in line:
            known.undo = [other for other in known.undo if other.number != line["undoes"]]
            known.redo.append(step)
        else:
            if "redoes" in line:
                known.redo = [other for other in known.redo if other.number != line["redoes"]]
            else:
                known.redo = [other for other in known.redo if not self.may_undo(other, step.client)]
            known.undo.append(step)
        self.active.add(step.client)

    def _saved(self, number: int, key: str | None) -> None:
        keys: Sequence[str] = list(self.unsaved) if key is None else [key]
        for each in keys:
            if each in self.unsaved and self.unsaved[each].number <= number:
                del self.unsaved[each]
