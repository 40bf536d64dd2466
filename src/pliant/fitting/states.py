"""Fits on their way from coarse to fine, and which of several in an image go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from pliant.arrays import Float64, Image
from pliant.experts.sightings import Sightings
from pliant.fitting.guided import Guide
from pliant.fitting.hypotheses import about, carried, distinct
from pliant.fitting.result import LevelTrace
from pliant.fitting.status import Status
from pliant.model import Model
from pliant.shape.facing import flipped
from pliant.starts.candidates import faces_other_way
from pliant.trust.confidence import Evidence

_RIVAL = 1.2
"""Hypotheses with more than so many times the relative cost of the best do not go on: these are lost."""

_SURER = 0.97
"""The share of its mismatch that a fit must have without an expert to be preferred to the one with it."""

_CLEAR = 0.7
"""How much the costs of two facings must differ, in logarithms, for the other one to be given up before that."""


@dataclass
class State:
    """One image on its way from coarse to fine, or its mirror image if the object faces the other way there."""

    image: Image
    start: Float64
    points: Float64
    mirrored: bool = False
    status: Status | None = None
    iterations: int = 0
    cost: float = float("nan")
    mismatch: float = float("nan")
    rank: float = float("nan")
    """What several fits to the image are ordered by."""
    facing: float = 0.0
    """The logarithms of the best ranks of its facing, together of all levels so far."""
    shape_parameters: Float64 | None = None
    appearance: Float64 | None = None
    evidence: Evidence | None = None
    covariance: Float64 | None = None
    guide: Guide | None = None
    witness: Sightings | None = None
    """What an expert saw that has not led the fit: its cost does not hear it, and its confidence does."""
    trace: list[LevelTrace] = field(default_factory=list)

    @property
    def lost(self) -> bool:
        return self.status is not None and self.status.lost


class Way(NamedTuple):
    """How the fit to an image goes on: from the level `first`, with this group of hypotheses."""

    number: int
    first: int
    group: list[State]

    @property
    def guided(self) -> bool:
        return self.group[0].guide is not None


def beginnings(model: Model, image: Image, starts: list[Float64], count: int) -> list[State]:
    """Where to begin in an image, and in its mirror image if some of the starts face the other way.

    About the first and likeliest start of either kind there are `count` hypotheses.
    """
    plain, other = [], []
    for start in starts:
        if faces_other_way(model, start):
            other.append(flipped(start, image.shape[1]))
        else:
            plain.append(start)
    seen = [(image, plain, False), (image[:, ::-1], other, True)]
    return [
        State(one, start, points, mirrored)
        for one, some, mirrored in seen
        if some
        for start, points in _hypotheses(some, count)
    ]


def _hypotheses(starts: list[Float64], count: int) -> list[tuple[Float64, Float64]]:
    """Starts, and where to begin from each: there, and at other places about the first."""
    first, *others = starts
    return [(first, points) for points in about(first, count)] + [(start, start) for start in others]


def at_starts(group: list[State]) -> list[State]:
    """The starts of a group, each once and without what hypotheses made of it."""
    every = {id(state.start): State(state.image, state.start, state.start, state.mirrored) for state in group}
    return list(every.values())


def places(group: list[State]) -> list[Float64]:
    """Where the landmarks `(v, 2)` of a group are by now."""
    return [state.points for state in group]


def witnessed(group: list[State], led: list[State]) -> list[State]:
    """The group of a fit that goes on without the expert, and what that saw when it looked there or nearby."""
    for state in group:
        seen = [one.guide.sightings for one in led if one.guide and one.mirrored is state.mirrored]
        state.witness = seen[-1] if seen else None
    return group


def preferred(rivals: list[State]) -> State:
    """Of the fit that an expert has led, the first, and one without it, if there is one: the one to believe.

    Their costs cannot be compared, since only one has the expert's term. Mismatches can.
    """
    led, *alone = rivals
    surer = (one for one in alone if _well(one) and (not _well(led) or one.mismatch < _SURER * led.mismatch))
    return next(surer, led)


def _well(state: State) -> bool:
    return state.status is not None and state.status.ok and bool(np.isfinite(state.mismatch))


def _best(group: list[State], most: int) -> list[State]:
    """The best of several, each at a place of its own, without those that are clearly worse than the first."""
    ordered = sorted(group, key=_badness)
    kept = [ordered[k] for k in distinct([state.points for state in ordered], most)]
    return [state for state in kept if state is kept[0] or state.rank <= _RIVAL * kept[0].rank]


def _badness(state: State) -> tuple[bool, float]:
    """What several fits to an image are ordered by: those that ended well first, then by their relative cost."""
    rank = _known(state.rank)
    well = np.isfinite(rank) and state.status is not None and state.status.ok
    return not well, rank


def going_on(group: list[State], number: int, levels: int) -> list[State]:
    """The best of each facing after level `number` of so many; before the finest, one facing is left.

    All levels together tell which way an object faces: 1 of 146 fits to pike was mistaken. One level alone is
    mistaken in 1 to 6 of 100.
    """
    if len(group) == 1:
        return group
    best = []
    for alike in by_facing(group):
        states = _best(alike, carried(number, levels))
        total = alike[0].facing + float(np.log(max(_known(states[0].rank), 1e-12)))
        for state in states:
            state.facing = total
        best.append(states)
    best.sort(key=lambda states: (_badness(states[0])[0], states[0].facing))
    # Not subtracted: two that are lost are both at infinity.
    clear = best[-1][0].facing > best[0][0].facing + _CLEAR
    return best[0] if clear or number >= levels - 2 else list(chain.from_iterable(best))


def by_facing(group: list[State]) -> list[list[State]]:
    """Those in the image, and those in its mirror image; of each there is one at the least."""
    facings = ([state for state in group if state.mirrored is mirrored] for mirrored in (False, True))
    return [alike for alike in facings if alike]


def _known(value: float) -> float:
    return value if np.isfinite(value) else np.inf
