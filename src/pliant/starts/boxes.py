"""Boxes to start in: left, top, right, bottom."""

from __future__ import annotations

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.model import Model
from pliant.shape import shape_size

_CENTRE = 0.6
"""Share of the image's smaller side that a start in the centre fills."""


def from_box(model: Model, box: Floats) -> Float64:
    """The mean shape `(v, 2)` with its bounding box about the centre of the box, and of the same size."""
    left, top, right, bottom = np.asarray(box, dtype=np.float64)
    if not np.all(np.isfinite([left, top, right, bottom])) or right - left < 1 or bottom - top < 1:
        raise ValueError(
            f"the start box ({left:g}, {top:g}, {right:g}, {bottom:g}) is empty: it must be left, top, "
            "right, bottom with at least one pixel between."
        )
    mean = model.levels[-1].shape.mean
    scale = (right - left + bottom - top) / 2 / float(shape_size(mean))
    centre = (mean.min(axis=0) + mean.max(axis=0)) / 2
    return np.asarray((mean - centre) * scale + ((left + right) / 2, (top + bottom) / 2), dtype=np.float64)


def centre_box(image: Image) -> Float64:
    """A box (left, top, right, bottom) in the middle that fills 60 % of the smaller side."""
    height, width = image.shape[:2]
    half = _CENTRE * min(height, width) / 2
    x, y = (width - 1) / 2, (height - 1) / 2
    return np.array([x - half, y - half, x + half, y + half])
