"""Bringing together what a landmark file says about an image and what the history does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import readonly
from pliant.studio.storage.known import Known, Unsaved
from pliant.studio.storage.landmarks import Landmarks
from pliant.studio.storage.marks import ABSENT, HIDDEN, UNSEEN, VISIBLE, Mark, Marks, same_mark
from pliant.studio.storage.saving import Recorded


def combined(recorded: Recorded, known: Known | None, landmarks: Landmarks) -> Marks:
    """The marks of an image: its file's, and of what was changed here, the history's.

    A file without a history has landmarks that are visible, or hidden if it says so. If any has a place, the image
    is finished and those that have none are absent: whoever annotated it has looked. Otherwise all are unseen.
    """
    have, count = len(recorded.points), landmarks.count
    points = np.full((count, 2), np.nan)
    points[:have] = recorded.points
    rest = known.rest if known is not None else ABSENT if recorded.begun else UNSEEN
    states: NDArray[np.int8] = np.where(np.isfinite(points).all(axis=1), VISIBLE, rest).astype(np.int8)
    states[landmarks.had :][states[landmarks.had :] == ABSENT] = UNSEEN
    if recorded.hidden is not None:
        states[:have][recorded.hidden & (states[:have] == VISIBLE)] = HIDDEN
    if known is None:
        return Marks(readonly(points), readonly(states), recorded.begun)
    known.grow(count)
    touched = known.touched[:count]
    points[touched] = known.points[:count][touched]
    states[touched] = known.states[:count][touched]
    return Marks(readonly(points), readonly(states), known.done, known.scale)


def changed_outside(
    recorded: Recorded, known: Known | None, kept: Marks | None, unsaved: Unsaved | None, opening: bool
) -> dict[int, Mark]:
    """The landmarks that somebody else changed in a landmark file, with what the file says about them.

    `kept` are the marks as they were, if they are in memory. Landmarks that we have changed and not yet written
    stay ours while the server runs. At `opening`, after a crash, the file wins even there, if it has a value that
    none of our own changes gave.
    """
    found: dict[int, Mark] = {}
    for landmark in _differing(recorded, known, kept):
        there = _as_written(recorded, landmark)
        if unsaved is not None and landmark in unsaved.earlier:
            earlier = unsaved.earlier[landmark]
            if not opening or any(_reads_as(value, there, recorded) for value in earlier):
                continue
        found[landmark] = there
    return found


def _differing(recorded: Recorded, known: Known | None, kept: Marks | None) -> list[int]:
    """The landmarks that are elsewhere in a file, or in another state, than where we have last seen or put them."""
    if kept is not None:
        points, states, ours = kept.points, kept.states, np.ones(len(kept.states), dtype=bool)
    elif known is not None:
        points, states, ours = known.points, known.states, known.touched
    else:
        return []
    count = min(len(recorded.points), len(states))
    there, states = recorded.points[:count], states[:count]
    placed = np.isfinite(there).all(axis=1)
    with np.errstate(invalid="ignore"):
        near = (np.abs(there - points[:count]) <= recorded.precision).all(axis=1)
    same = np.where(placed, near, True) & (placed == (states > ABSENT))
    if recorded.hidden is not None:
        same &= ~placed | (recorded.hidden[:count] == (states == HIDDEN))
    return [int(landmark) for landmark in np.flatnonzero(ours[:count] & ~same)]


def _as_written(recorded: Recorded, landmark: int) -> Mark:
    """A landmark as a file has it."""
    x, y = recorded.points[landmark].tolist()
    if not (np.isfinite(x) and np.isfinite(y)):
        return None, None, ABSENT
    return x, y, HIDDEN if recorded.hidden is not None and recorded.hidden[landmark] else VISIBLE


def _reads_as(mark: Mark, there: Mark, recorded: Recorded) -> bool:
    """Whether a mark of ours would be found in a file as it is there: files know less of states than we do."""
    x, y, state = mark
    if state <= ABSENT:
        return there[2] == ABSENT
    plain = state if recorded.hidden is not None else VISIBLE
    return same_mark((x, y, plain), there, recorded.precision)
