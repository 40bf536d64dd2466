"""Whether the model explains an image, and which of several fits does it best.

Let i be the image warped to the model's frame, abar the mean, A the orthonormal basis of appearance, L the
variances of its coordinates, and n the noise. The likeliest appearance is a = abar + A c with
c = L (L + n)^-1 A'(i - abar). What the model cannot explain, over what it sees, is

    mismatch = |i - a|² / |a|².

Where there is nothing it is 1 or more, at any contrast. It follows from the inner products at any appearance c',
where r = i - abar - A c':  A'(i - abar) = A'r + c', and the energy outside of the subspace is r'r - |A'r|². So
no pixel is looked at for it, and the algorithm does not change it, but for a ridge, which takes variances to be 1.

Which of several places in an image is the best is another question. |i|², which is not among the inner products,
says more about it than |a|² does: a wild c explains a good deal of anything. docs/explanation/starts.md
has the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.appearance.interpolation import bilinear
from pliant.appearance.subspace import Subspace
from pliant.arrays import Float64
from pliant.level import Level
from pliant.namespace import Array, is_tensor, namespace, on_host

_EVERY = 4
"""One pixel of the frame in so many is looked at: enough for a sum."""


def unexplained_energy(residual_residual: Float64, basis_residual: Float64) -> Float64:
    """Energy of i - abar outside of the subspace `(B,)`, from r'r `(B,)` and A'r `(B, m)`."""
    return np.asarray(np.maximum(residual_residual - np.sum(basis_residual**2, axis=1), 0.0))  # eq. 15, 17


def mismatches(subspace: Subspace, explained: Float64, unexplained: Float64) -> Float64:
    """The mismatch `(B,)` of images with A'(i - abar) `(B, m)` and this energy outside of the subspace `(B,)`."""
    doubt = subspace.noise / np.maximum(subspace.variances + subspace.noise, 1e-12)
    missed = unexplained + np.sum((doubt * explained) ** 2, axis=1)
    # The part of the mean within the subspace moves with c; the rest of it is always seen.
    within = subspace.mean_products
    seen = np.sum((within + (1 - doubt) * explained) ** 2, axis=1) + subspace.mean_energy - within @ within
    return np.asarray(missed / np.maximum(seen, 1e-12))


def relative_costs(level: Level, images: Any, shapes: Array, costs: Sequence[float]) -> Float64:
    """Costs `(B,)` over the mean square of the features that the shapes `(B, v, 2)` cover: for fits to one image.

    Plain costs cannot be compared between places: where an image `(h, w, c)` is flat there is nothing that a
    model could fail to explain, and a wall would be a better face than any face.
    """
    values = (
        _energies_on_device(level, images, shapes)
        if is_tensor(shapes)
        else [
            float(np.mean(np.square(bilinear(image, level.motion.positions(shape)[::_EVERY]))))
            if np.all(np.isfinite(shape))
            else np.nan
            for image, shape in zip(images, shapes, strict=True)
        ]
    )
    return np.asarray(costs) / np.maximum(values, 1e-12)


def _energies_on_device(level: Level, views: Any, shapes: Array) -> Float64:
    """The mean squares `(B,)` of the features that shapes cover, in views that lie on a device."""
    xp, motion = namespace(shapes), level.motion
    moved = xp.as_tensor(motion.matrix()[::_EVERY], device=shapes.device)
    fixed = motion.positions(np.zeros((level.shape.landmarks, 2)))[::_EVERY]
    positions = moved @ shapes.double() + xp.as_tensor(fixed, device=shapes.device)
    squares = views.at(positions.float()).square().mean(axis=(1, 2)).double()
    return np.asarray(on_host(xp.where(xp.isfinite(shapes).all(axis=2).all(axis=1), squares, xp.nan)))
