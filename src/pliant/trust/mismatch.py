"""Which of several fits to an image is the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pliant.appearance.interpolation import bilinear
from pliant.arrays import Float32, Float64, Floats
from pliant.level import Level

_EVERY = 4
"""One pixel of the frame in so many is looked at: enough for a sum."""


def relative_costs(
    level: Level, images: Sequence[Float32], shapes: Floats, costs: Sequence[float]
) -> Float64:
    """Costs `(B,)` over the mean square of the features that the shapes `(B, v, 2)` cover.

    Plain costs cannot be compared between places: where an image `(h, w, c)` is flat there is nothing that a
    model could fail to explain, and a wall would be a better face than any face.
    """
    values = [
        float(np.mean(np.square(bilinear(image, level.motion.positions(shape)[::_EVERY]))))
        if np.all(np.isfinite(shape))
        else np.nan
        for image, shape in zip(images, shapes, strict=True)
    ]
    return np.asarray(costs) / np.maximum(values, 1e-12)
