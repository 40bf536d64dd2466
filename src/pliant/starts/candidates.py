"""Where a fit begins: a shape, a box, or the mean shape near a known one."""

from __future__ import annotations

import numpy as np

from pliant.appearance.view import unlike
from pliant.arrays import Float64, Floats, Image
from pliant.model import Model
from pliant.shape import shape_size
from pliant.shape.facing import is_mirrored, other_way
from pliant.starts.boxes import from_box


def start_candidates(model: Model, start: Floats) -> list[Float64]:
    """Points `(v, 2)` of every start: a shape `(v, 2)`, a box `(4,)`, or several, `(k, v, 2)` or `(k, 4)`."""
    start = np.asarray(start, dtype=np.float64)
    several = start.ndim == 3 or (start.ndim == 2 and start.shape[1] == 4)
    if several and not len(start):
        raise ValueError("there is no start: give at least one.")
    return [start_points(model, one) for one in (start if several else [start])]


def start_points(model: Model, start: Floats) -> Float64:
    """Points `(v, 2)` of a start given as a shape `(v, 2)` or as a box (left, top, right, bottom)."""
    start = np.asarray(start, dtype=np.float64)
    if start.shape == (4,):
        return from_box(model, start)
    if start.shape != (model.landmarks, 2):
        raise ValueError(
            f"a start must be a shape of {model.landmarks} points or a box of 4 numbers (left, top, right, "
            f"bottom), not an array of shape {start.shape}."
        )
    if not np.all(np.isfinite(start)):
        raise ValueError("the start has coordinates that are not finite numbers.")
    if shape_size(start) < 1:
        raise ValueError("the start has no size: all its points are within one pixel.")
    return np.asarray(start, dtype=np.float64)


def inside(candidates: list[Float64], image: Image) -> list[Float64]:
    """The starts that lie in the image; an error if there is none."""
    shares = [share_outside(points, image) for points in candidates]
    if min(shares) > 0.5:
        height, width = image.shape[:2]
        raise ValueError(
            f"the start is outside the image: {min(shares):.0%} of its points are beyond {width} x {height} "
            "pixels."
        )
    return [points for points, share in zip(candidates, shares, strict=True) if share <= 0.5]


def resembling(model: Model, candidates: list[Float64], image: Image) -> list[Float64]:
    """The starts that can be looked at: no landmark asks for a view that is far larger than the model."""
    vertices = model.levels[-1].shape.mean
    mirrored = vertices * (-1, 1)
    problems = [
        unlike(mirrored if faces_other_way(model, points) else vertices, points, image)
        for points in candidates
    ]
    if all(problems):
        raise ValueError(f"this start cannot be used: {problems[0]}")
    return [points for points, problem in zip(candidates, problems, strict=True) if not problem]


def faces_other_way(model: Model, points: Floats) -> bool:
    """Whether a start `(v, 2)` is the mirror image of what the model is of, which may face both ways."""
    return model.faces_both_ways and is_mirrored(model.levels[-1].shape.mean, points)


def both_ways(model: Model, candidates: list[Float64]) -> list[Float64]:
    """The starts, and the same places with the object facing the other way, if the model may face both ways.

    A start that faces the other way itself was made by somebody who knows that, and stays alone.
    """
    if not model.faces_both_ways:
        return candidates
    mean = model.levels[-1].shape.mean
    turned = [other_way(mean, points) for points in candidates if not faces_other_way(model, points)]
    return candidates + turned


def share_outside(points: Float64, image: Image) -> float:
    """The share of points `(v, 2)` that lie beyond the edges of an image."""
    height, width = image.shape[:2]
    return float(np.mean(np.any((points < 0) | (points > (width - 1, height - 1)), axis=-1)))
