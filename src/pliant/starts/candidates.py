"""Where a fit begins: a shape, a box, or the mean shape near a known one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.view import can_be_looked_at, unlike
from pliant.arrays import Float64, Floats, Image
from pliant.model import Model
from pliant.shape import shape_size
from pliant.shape.facing import is_mirrored, other_way
from pliant.starts.boxes import from_box


class Usable(NamedTuple):
    """Starts `(v, 2)` in an image that a fit can begin from; without any, why, and the first that was refused."""

    starts: list[Float64]
    reason: str = ""
    refused: Float64 | None = None


def usable_starts(model: Model, images: Sequence[Image], starts: Sequence[Floats]) -> list[Usable]:
    """What can be used of the starts that were given for each image, as `start_candidates` takes them.

    All are looked at together. Only where something is wrong, they are looked at one by one, to say what it is.
    """
    read = [_as_shapes(model, start) for start in starts]
    ends = list(accumulate(map(len, read), initial=0))
    fine = np.zeros(ends[-1], dtype=np.bool_)
    if ends[-1] and not model.faces_both_ways:
        sizes = np.array([image.shape[:2] for image in images]).repeat([len(some) for some in read], axis=0)
        points = np.concatenate([np.array(some) for some in read if some])
        with np.errstate(over="ignore", invalid="ignore"):
            # What is not finite has a size that is not, and no comparison holds.
            fine = (shape_size(points) >= 1) & (shares_outside(points, sizes) <= 0.5)
        fine &= can_be_looked_at(model.levels[-1].shape.mean, points, sizes.max(axis=1))
    return [
        Usable(read[k]) if read[k] and fine[ends[k] : ends[k + 1]].all() else _sorted_out(model, image, start)
        for k, (image, start) in enumerate(zip(images, starts, strict=True))
    ]


def _as_shapes(model: Model, start: Floats) -> list[Float64]:
    """The shapes of a start, not looked at yet; nothing if it is none."""
    if isinstance(start, np.ndarray) and start.ndim in (2, 3) and start.shape[-2:] == (model.landmarks, 2):
        shapes = np.asarray(start, dtype=np.float64)
        return [*shapes] if start.ndim == 3 else [shapes]
    try:
        return start_candidates(model, start)
    except ValueError:
        return []


def _sorted_out(model: Model, image: Image, start: Floats) -> Usable:
    """The starts of one image that can be used, or why none can be."""
    candidates: list[Float64] = []
    try:
        candidates = both_ways(model, start_candidates(model, start))
        return Usable(resembling(model, inside(candidates, image), image))
    except ValueError as error:
        return Usable([], str(error), candidates[0] if candidates else None)


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
    return float(shares_outside(points, np.array(image.shape[:2])))


def shares_outside(points: Float64, sizes: NDArray[np.int64]) -> Float64:
    """The shares `(...)` of points `(..., v, 2)` beyond the edges of images of height and width `(..., 2)`."""
    x, y, last = points[..., 0], points[..., 1], sizes[..., None] - 1
    beyond = (x < 0) | (y < 0) | (x > last[..., 1, :]) | (y > last[..., 0, :])
    return np.asarray(beyond.mean(axis=-1))
