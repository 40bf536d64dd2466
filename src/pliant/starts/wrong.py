"""Starts that are not on the object: from these a model learns what its fits look like where there is none."""

from __future__ import annotations

import math

import numpy as np

from pliant.arrays import Float64, Image
from pliant.model import Model
from pliant.shape import Similarity, align, shape_size
from pliant.starts.filtering import search, turns_of
from pliant.starts.filters import ObjectFilter
from pliant.starts.found import separated

_LOWEST, _FINDS = -1.0, 100
"""The least answer of the filter, and the most finds, among which mistakes are looked for."""

_OFF, _OTHER_SIZE = 0.4, math.log(1.5)
"""Finds are mistakes from this distance, in sizes of the object, or this ratio of sizes."""

_KINDS = 3


def wrong_starts(
    model: Model,
    found: ObjectFilter | None,
    image: Image,
    truth: Float64,
    number: int,
    rng: np.random.Generator,
) -> list[Float64]:
    """Starts `(v, 2)` that are not on the object at `truth (v, 2)`: the filter's best mistake, and another.

    The other is of another size at any place, turned by a quarter or half a circle, or over the edge of the image,
    in turns, by the `number` of the image.
    """
    height, width = image.shape[:2]
    mean = model.levels[-1].shape.mean
    size, angle = float(shape_size(truth)), float(align(mean, truth).angle)
    middle = complex(*truth.mean(axis=0))
    kind = number % _KINDS
    if kind == 0:
        place = complex(rng.uniform(0.2, 0.8) * width, rng.uniform(0.2, 0.8) * height)
        other = _placed(mean, place, size * math.exp(rng.uniform(-1.4, -0.5)), angle)
    elif kind == 1:
        other = _placed(mean, middle, size, angle + math.pi / 2 * rng.integers(1, 4))
    else:
        # A little less than half of it is outside; what shows no part of the image is refused as a start.
        edge = 0.07 * size if rng.uniform() < 0.5 else width - 1 - 0.07 * size
        place = complex(edge, rng.uniform(0.2, 0.8) * height)
        other = _placed(mean, place, size, angle)
    mistake = None if found is None else _best_mistake(found, image, truth)
    return [other] if mistake is None else [mistake, other]


def _best_mistake(found: ObjectFilter, image: Image, truth: Float64) -> Float64 | None:
    """What the filter takes for an object though it is none."""
    _, shapes = search(found, image, turns_of(found), _LOWEST, _FINDS)
    size, middle = float(shape_size(truth)), truth.mean(axis=0)
    for [shape] in separated(shapes, _FINDS, 1):
        off = np.linalg.norm(shape.mean(axis=0) - middle) > _OFF * size
        if off or abs(math.log(float(shape_size(shape)) / size)) > _OTHER_SIZE:
            return np.asarray(shape)
    return None


def _placed(mean: Float64, place: complex, size: float, angle: float) -> Float64:
    """The mean shape `(v, 2)` with its centroid at a place, at a size and an angle."""
    factor = np.asarray(size / float(shape_size(mean)) * np.exp(1j * angle))
    return Similarity(factor, np.asarray(place - factor * complex(*mean.mean(axis=0)))).apply(mean)
