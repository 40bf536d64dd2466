"""Several hypotheses about where the object is, tried where that costs little: at the coarsest level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.shape import shape_size

_SHIFT, _GROWTH, _TURN = 0.1, 0.1, 0.17
"""How far hypotheses lie from the start: in sizes of the object, in logarithms of its size, and in radians."""

_APART = 0.015
"""Hypotheses whose landmarks ended nearer to each other than this share of the size have become one."""

_CARRIED, _TO_FINEST = 3, 2
"""The most hypotheses that go on to a finer level, and to the finest, which costs the most."""

_LATE = 2
"""Levels after the coarsest at which the start itself is tried once more."""

_AXES = np.diag([_SHIFT, _SHIFT, _GROWTH, _TURN])


def about(points: Float64, count: int) -> list[Float64]:
    """`count` shapes: the points `(v, 2)` themselves, then moved along x and y, in size and in angle, either way.

    Beyond nine, they are moved in all of these at once, in opposite pairs.
    """
    if count == 1:
        return [points]
    return [points, *_moved(points, _moves(count - 1))]


@cache
def _moves(count: int) -> Float64:
    """So many moves `(count, 4)`: shares of the size along x and y, a logarithm of the size, and an angle."""
    crossed = [sign * axis for axis in _AXES for sign in (1, -1)]
    further = max(0, count - len(crossed))
    drawn = np.random.default_rng(0).normal(size=((further + 1) // 2, 4)) @ _AXES
    return np.array([*crossed, *(sign * move for move in drawn for sign in (1, -1))][:count])


def _moved(points: Float64, moves: Float64) -> Float64:
    """Points `(v, 2)` after each of k moves, `(k, v, 2)`."""
    centre, growth, turn = points.mean(axis=0), np.exp(moves[:, 2]), moves[:, 3]
    cosine, sine = growth * np.cos(turn), growth * np.sin(turn)
    turns = np.stack([cosine, sine, -sine, cosine], axis=-1).reshape(-1, 2, 2)
    shifts = float(shape_size(points)) * moves[:, None, :2]
    return np.asarray((points - centre) @ turns + centre + shifts)


def carried(number: int, levels: int) -> int:
    """How many hypotheses go on after level `number` of so many, at most; one is left in the end.

    Most have become one by then: two reach the finest level only where they still disagree.
    """
    return {1: 1, 2: _TO_FINEST}.get(levels - number, _CARRIED)


def begins_late(number: int, levels: int) -> bool:
    """Whether the start is tried at level `number` of so many, without what coarser levels made of it.

    An object that a coarse level has too few modes for is led astray there, even from a start that is good.
    """
    return 0 < number <= min(_LATE, levels - 2)


def distinct(shapes: Sequence[Floats], most: int) -> list[int]:
    """The first `most` of shapes `(v, 2)` that do not lie on one before them, by their numbers."""
    kept: list[int] = []
    for number, shape in enumerate(shapes):
        if len(kept) == most:
            break
        gaps = [np.linalg.norm(shape - shapes[k], axis=-1).mean() / shape_size(shapes[k]) for k in kept]
        if min(gaps, default=np.inf) > _APART:
            kept.append(number)
    return kept
