"""Which way an object faces: what has no symmetry is seen from its left or its right, and one mirrors the other.

A similarity cannot turn the one into the other. So the shapes of objects that face either way, such as fish in
profile, are told apart by whether they or their mirror images come nearer to the mean. Landmarks keep their
numbers: the snout is the snout on both sides. Symmetric objects are another matter (`symmetry.py`): in a mirror,
their landmarks change places, and the object is the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats, evenly_spread
from pliant.shape.procrustes import align, in_one_place, procrustes_mean, shape_size
from pliant.shape.symmetry import ENOUGH, find_mirror

Bools = NDArray[np.bool_]

_SURE = 0.6
"""A shape faces the other way if its mirror image is at most so many times as far from the mean as itself."""

_SIDE = 0.2
"""How far beside the middle the first landmark must lie to tell left from right, in sizes of the object."""

_MIRROR = np.array([-1.0, 1.0])


def find_mirrored(shapes: Floats) -> Bools:
    """Which of the shapes `(k, v, 2)` are mirror images of what most of them are.

    None, if they are all alike, if the object is symmetric, or if it and its mirror image are hardly different; and
    none if one of them is a single point, which faces nowhere.
    Landmarks that are missing anywhere do not count.
    """
    none = np.zeros(len(shapes), dtype=np.bool_)
    known = np.isfinite(shapes).all(axis=(0, 2))
    if len(shapes) < 2 or np.sum(known) < 4:
        return none
    shapes = np.asarray(shapes, dtype=np.float64)[:, known]
    if np.any(in_one_place(shapes)):
        return none
    some = shapes[evenly_spread(len(shapes), ENOUGH)]
    mirrored = _nearer_in_a_mirror(some, some[0])
    for _ in range(20):
        before = mirrored
        mean = procrustes_mean(facing_alike(some, mirrored))
        mirrored = _nearer_in_a_mirror(some, mean)
        if np.array_equal(mirrored, before):
            break
    plain, other = _distances(shapes, mean), _distances(shapes * _MIRROR, mean)
    if len(some) < len(shapes):
        mirrored = np.asarray(other < plain)
    if 2 * np.sum(mirrored) > len(shapes):
        plain, other, mirrored = other, plain, ~mirrored
    sure = mirrored & (other < _SURE * plain)
    if not np.any(sure) or np.median(plain[~mirrored] / other[~mirrored]) > _SURE:
        return none
    # If all that look mirrored have their landmarks swapped on a symmetric object, somebody has mistaken its sides.
    return none if _symmetric(facing_alike(shapes, sure)) else sure


def facing_alike(shapes: Floats, mirrored: Bools) -> Float64:
    """The shapes `(k, v, 2)` about the origin of their own, those that are mirrored `(k,)` turned round."""
    return np.where(mirrored[:, None, None], shapes * _MIRROR, shapes)


def is_mirrored(mean: Floats, points: Floats) -> bool:
    """Whether `points (v, 2)` are nearer to the mean shape `(v, 2)` in a mirror."""
    return bool(_nearer_in_a_mirror(np.asarray(points, dtype=np.float64)[None], mean)[0])


def flipped(points: Floats, width: int) -> Float64:
    """Points `(..., 2)` of an image that is `width` wide, in its mirror image."""
    return np.asarray(points * _MIRROR + (width - 1, 0), dtype=np.float64)


def other_way(mean: Floats, points: Floats) -> Float64:
    """An object at the place of the one at `points (v, 2)` that faces the other way, as long and as high.

    It is mirrored about the middle of its own length: `mean (v, 2)` says how the object is turned.
    """
    placed = align(mean, points)
    own = placed.inverse().apply(points)
    middle = (own[:, 0].min() + own[:, 0].max()) / 2
    return placed.apply(own * _MIRROR + (2 * middle, 0))


def side(shapes: Floats) -> str:
    """Where shapes `(k, v, 2)` that face alike have their first landmark: left, right, or neither ("")."""
    mean = procrustes_mean(shapes[evenly_spread(len(shapes), ENOUGH)])
    off = float(mean[0, 0] - (mean[:, 0].min() + mean[:, 0].max()) / 2) / float(shape_size(mean))
    return "" if abs(off) < _SIDE else "left" if off < 0 else "right"


def _nearer_in_a_mirror(shapes: Float64, mean: Floats) -> Bools:
    return np.asarray(_distances(shapes * _MIRROR, mean) < _distances(shapes, mean))


def _distances(shapes: Float64, mean: Floats) -> Float64:
    """Root-mean-square distances `(k,)` of shapes `(k, v, 2)` from the mean that poses do not explain."""
    found = np.empty(len(shapes))
    # In blocks: copies of millions of shapes would fill the memory.
    for first in range(0, len(shapes), ENOUGH):
        some = shapes[first : first + ENOUGH]
        placed = align(some, mean).apply(some)
        found[first : first + ENOUGH] = np.sqrt(np.mean(np.sum((placed - mean) ** 2, axis=-1), axis=-1))
    return found


def _symmetric(shapes: Float64) -> bool:
    try:
        find_mirror(shapes)
    except ValueError:
        return False
    return True
