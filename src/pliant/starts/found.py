"""What a search has found, put in order: finds that differ, and finds of one object apart from those of another."""

from __future__ import annotations

import numpy as np

from pliant.arrays import Float64, Image
from pliant.shape import shape_size

_APART = 0.1
"""Finds whose landmarks are nearer to each other than this share of the size are the same."""

_SEPARATE = 0.5
"""Finds whose boxes' centres are nearer to each other than this share of the larger one's size are one object."""

_LONGEST = 12
"""The longer side of an image over its shorter one: so many more windows there are than in a square."""


class NothingFound(ValueError):
    """There is nothing in an image that looks like the object; the message is a sentence."""


def check_sides(image: Image) -> None:
    """An error if an image is too long for its height, or too high, to be searched."""
    shorter, longer = sorted(image.shape[:2])
    if longer > _LONGEST * shorter:
        raise NothingFound(
            f"the image has {image.shape[1]} x {image.shape[0]} pixels, but a scan needs sides with a ratio "
            f"of at most {_LONGEST} to 1: crop it, or say where the object is."
        )


def apart(shapes: Float64, most: int) -> Float64:
    """Of shapes `(k, v, 2)`, the first `most` that are not the same as one before."""
    chosen: list[Float64] = []
    for shape in shapes:
        if len(chosen) == most:
            break
        gaps = [np.linalg.norm(shape - other, axis=-1).mean() / shape_size(other) for other in chosen]
        if min(gaps, default=1.0) > _APART:
            chosen.append(shape)
    return np.array(chosen).reshape(-1, *shapes.shape[1:])


def separated(shapes: Float64, most: int, each: int) -> list[Float64]:
    """Shapes `(k, v, 2)`, best first, as at most `most` objects that have at most `each` of them, `(j, v, 2)`."""
    groups: list[list[Float64]] = []
    centres = (shapes.min(axis=1) + shapes.max(axis=1)) / 2
    firsts: list[tuple[Float64, float]] = []
    for shape, centre, size in zip(shapes, centres, shape_size(shapes), strict=True):
        for group, (middle, other) in zip(groups, firsts, strict=True):
            if np.linalg.norm(centre - middle) < _SEPARATE * max(size, other):
                group.append(shape)
                break
        else:
            if len(groups) < most:
                groups.append([shape])
                firsts.append((centre, float(size)))
    return [apart(np.array(group), each) for group in groups]
