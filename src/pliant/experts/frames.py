"""The frame in which an expert looks at an object: upright, at one size, with a margin around it.

It follows from the mean shape alone, so that training and use see the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pliant.arrays import Concise, Float64, Floats
from pliant.shape.procrustes import Similarity, align


@dataclass(frozen=True, eq=False, repr=False)
class CropFrame(Concise):
    """A window of `height` x `width` pixels, and where the landmarks `mean (v, 2)` of a mean shape are in it."""

    height: int
    width: int
    mean: Float64

    @property
    def extent(self) -> float:
        """The longer side of the object in this frame, in pixels."""
        return float(np.ptp(self.mean, axis=0).max())

    def to_image(self, shapes: Floats) -> Similarity:
        """The similarities that take pixels of the frame to the images, for objects at `shapes (..., v, 2)`."""
        return align(self.mean, shapes)


def crop_frame(mean: Floats, pixels: int, margin: float, multiple: int) -> CropFrame:
    """A frame of about `pixels` squared for a mean shape `(v, 2)`.

    `margin` is what is left around the object on every side, as a share of its longer side. Height and width are
    multiples of `multiple`, as a network that halves its maps needs them.
    """
    low, high = mean.min(axis=0), mean.max(axis=0)
    around = margin * float(np.max(high - low))
    box = high - low + 2 * around
    zoom = pixels / float(np.sqrt(np.prod(box)))
    width, height = (max(multiple, multiple * round(side * zoom / multiple)) for side in box)
    # What rounding took from one of the sides is taken from the margin, not from the object.
    zoom = min(zoom, width / box[0], height / box[1])
    centre = (np.array([width, height]) - 1) / 2
    return CropFrame(height, width, np.asarray((mean - (low + high) / 2) * zoom + centre, dtype=np.float64))
