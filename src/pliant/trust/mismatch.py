"""Whether the model explains an image: what it cannot explain, over what it sees.

With i the image warped to the model's frame, abar the mean and A the orthonormal basis of appearance, the model
comes nearest to the image with a = abar + A c, c = A'(i - abar), and

    mismatch = |i - a|² / |a|².

Both follow from the inner products at any other c', where r = i - abar - A c':

    |i - a|² = r'r - |A'r|²,    c = A'r + c'.

So neither cost, prior nor composition changes the mismatch, and no pixel is looked at for it. Where there is
nothing it is 1 or more, at any contrast, while a cost is lowest on a blank wall.
"""

from __future__ import annotations

import numpy as np

from pliant.appearance.subspace import Subspace
from pliant.arrays import Float64
from pliant.kernels.system import System


def unexplained_energy(system: System) -> Float64:
    """|i - a|² `(B,)`, the energy outside of the appearance subspace; not a number if the system has no r'r."""
    if system.residual_residual is None:
        return np.full(len(system.basis_residual), np.nan)
    within = np.sum(system.basis_residual**2, axis=1)
    return np.asarray(np.maximum(system.residual_residual - within, 0.0))


def mismatches(subspace: Subspace, explained: Float64, unexplained: Float64) -> Float64:
    """The mismatch `(B,)` of images with the coordinates c `(B, m)` and the unexplained energy `(B,)`."""
    # A part of the mean may lie in the subspace, and moves with c; the rest of it is always seen.
    products = subspace.mean_products
    seen = np.sum((explained + products) ** 2, axis=1) + subspace.mean_energy - products @ products
    return np.asarray(unexplained / np.maximum(seen, 1e-12))
