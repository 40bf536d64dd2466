"""What the network of a model says about suspects: it looks at each, moves it to where it sees the object, and puts
those first that it sees to be one.

A network for landmarks has only ever seen the object, and answers everywhere. But where there is none, its maps do
not agree: they do not lie as the landmarks of a shape. How much of them does, tells objects from other things.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pliant.appearance.view import unlike
from pliant.arrays import Float32, Float64, Image
from pliant.experts.maps import cell_places, moments
from pliant.experts.network import NetworkExpert, Stage
from pliant.experts.windows import cut
from pliant.shape.facing import flipped, other_way
from pliant.shape.procrustes import align
from pliant.starts.found import separated

_LOOKS = 2
"""The first look moves a suspect to where the object is seen, and the last one judges it."""

_REACH = 0.3
"""What a map has within so much of the object's size of the place where the shape has its landmark, agrees."""

_RESIZED = 2.0
"""What is seen at more than so many times the size of a suspect, or less than one over it, is nothing."""


def judged(
    expert: NetworkExpert,
    image: Image,
    suspects: Sequence[Float64],
    most: int,
    starts: int,
    both_ways: bool = False,
) -> list[Float64]:
    """The suspects, those first that the network agrees about, with the place where it sees them as first start.

    Parameters
    ----------
    expert
        Its first network looks.
    image
        `(h, w)` or `(h, w, 3)`.
    suspects
        Starts `(k, v, 2)` of each thing that may be an object, the best first; the best is looked at.
    most, starts
        So many suspects are returned, with so many starts `(k, v, 2)` of each.
    both_ways
        Whether the object may face the other way: the mirror image is then looked at too.

    """
    if not suspects:
        return []
    far = expert.stages[0]
    looks = [_looked(far, image, group[0]) for group in suspects]
    if both_ways:
        mirror, mean, width = np.ascontiguousarray(image[:, ::-1]), far.frame.mean, image.shape[1]
        others = [_looked(far, mirror, flipped(other_way(mean, group[0]), width)) for group in suspects]
        back = [(share, flipped(other_way(mean, shape), width)) for share, shape in others]
        looks = [max(pair, key=lambda look: look[0]) for pair in zip(looks, back, strict=True)]
    order = np.argsort([-share for share, _ in looks], kind="stable")
    moved = np.array([looks[k][1] for k in order])
    # A place that the network has left may still be an object: it comes last.
    return separated(np.concatenate([moved, *(suspects[k] for k in order)]), most, starts)


def _looked(stage: Stage, image: Image, shape: Float64) -> tuple[float, Float64]:
    """How far the maps agree about an object near a shape `(v, 2)`, from 0 to 1, and where it is."""
    frame, share = stage.frame, 0.0
    for _ in range(_LOOKS):
        if unlike(frame.mean, shape, image):
            return 0.0, shape
        place = frame.to_image(shape)
        maps = stage.maps(cut(image, frame.height, frame.width, place))
        points, _ = moments(maps, frame.height, frame.width)
        if not np.all(np.isfinite(points)):
            return 0.0, shape
        fitted = align(frame.mean, points)
        if not 1 / _RESIZED < float(fitted.scale) < _RESIZED:
            return 0.0, shape
        seen = fitted.apply(frame.mean)
        share = agreement(maps, seen, frame.height, frame.width, _REACH * frame.extent)
        shape = place.apply(seen)
    return share, shape


def agreement(maps: Float32, shape: Float64, height: int, width: int, reach: float) -> float:
    """The share of maps `(v, rows, columns)` of logits that is within `reach` of a shape `(v, 2)`, along each axis.

    Shape and reach are in pixels of the window, `height` x `width`.
    """
    _, rows, columns = maps.shape
    weights = np.exp(maps - maps.max(axis=(1, 2), keepdims=True))
    x, y = cell_places(columns, width), cell_places(rows, height)
    across = (np.abs(x - shape[:, :1]) <= reach).astype(np.float32)
    down = (np.abs(y - shape[:, 1:]) <= reach).astype(np.float32)
    near = np.einsum("vr,vrc,vc->v", down, weights, across, optimize=True)
    return float(np.mean(near / weights.sum(axis=(1, 2))))
