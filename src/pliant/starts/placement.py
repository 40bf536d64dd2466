"""Where an object is, relative to a box that is known: that of the whole image, or one that a detector found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.shape import Similarity, align, shape_size

IMAGE = "image"
"""The reference of placements in the image itself; others are names of detectors."""

LOST = 0.3
"""A start whose error is above this share of the object's size is not on the object: docs/explanation/starts.md."""

_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, in medians of absolute deviations."""


@dataclass(frozen=True)
class Placement:
    """The mean shape in a reference box, as the training images have it.

    The centroid is at `x` and `y`, shares of the box's width and height from its left and top; `size` is the
    object's over the box's (means of height and width); `angle` is in radians. The `spread_...` are deviations
    of these, of the logarithm for the size; all are medians, so that a few mistakes do not count. `found` is the
    share of the training images where the box was there and led to the object. `error` and `error_90` are the
    median and the 90th percentile of the starting error there.
    """

    reference: str
    x: float
    y: float
    size: float
    angle: float
    spread_x: float
    spread_y: float
    spread_size: float
    spread_angle: float
    found: float
    error: float
    error_90: float


def learn_placement(reference: str, boxes: Floats, shapes: Floats, mean: Floats, tried: int) -> Placement:
    """What `boxes (k, 4)` say about `shapes (k, v, 2)` with the mean shape `(v, 2)`; `tried` counts images."""
    low, high = np.asarray(boxes, dtype=np.float64)[:, :2], np.asarray(boxes, dtype=np.float64)[:, 2:]
    fitted = align(np.broadcast_to(mean, shapes.shape), shapes)
    x, y = ((shapes.mean(axis=1) - low) / (high - low)).T
    size = np.log(fitted.scale * shape_size(mean) / (high - low).mean(axis=1))
    turn = np.angle(np.mean(fitted.factor / fitted.scale))
    angle = turn + np.angle(fitted.factor * np.exp(-1j * turn))
    known = [_middle_and_spread(values) for values in (x, y, size, angle)]
    blank = Placement(
        reference=reference,
        x=known[0][0],
        y=known[1][0],
        size=float(np.exp(known[2][0])),
        angle=known[3][0],
        spread_x=known[0][1],
        spread_y=known[1][1],
        spread_size=known[2][1],
        spread_angle=known[3][1],
        found=0.0,
        error=0.0,
        error_90=0.0,
    )
    starts = np.array([placed(blank, box, mean) for box in boxes])
    errors = np.linalg.norm(starts - shapes, axis=-1).mean(axis=-1) / shape_size(shapes)
    return replace(
        blank,
        found=float(np.sum(errors < LOST)) / tried,
        error=float(np.median(errors)),
        error_90=float(np.percentile(errors, 90)),
    )


def _middle_and_spread(values: Float64) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, _DEVIATION * float(np.median(np.abs(values - middle)))


def placed(placement: Placement, box: Floats, mean: Floats, deviations: Floats | None = None) -> Float64:
    """The mean shape `(v, 2)` where the placement has it in a box (left, top, right, bottom).

    `deviations (4,)` move it by so many spreads along x, y, size and angle.
    """
    left, top, right, bottom = np.asarray(box, dtype=np.float64)
    along_x, along_y, larger, turned = np.zeros(4) if deviations is None else deviations
    size = placement.size * np.exp(larger * placement.spread_size) * (right - left + bottom - top) / 2
    turn = placement.angle + turned * placement.spread_angle
    factor = np.asarray(size / shape_size(mean) * np.exp(1j * turn))
    x = left + (placement.x + along_x * placement.spread_x) * (right - left)
    y = top + (placement.y + along_y * placement.spread_y) * (bottom - top)
    return Similarity(factor, np.asarray(complex(x, y) - factor * complex(*mean.mean(axis=0)))).apply(mean)


def image_box(image: Image) -> Float64:
    """The box (left, top, right, bottom) of all of an image `(h, w, ...)`, to the edges of its pixels."""
    height, width = image.shape[:2]
    return np.array([-0.5, -0.5, width - 0.5, height - 0.5])
