"""The appearance subspace on all pixels of a level or on some of them, always with an orthonormal basis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.arrays import Concise, Float32, Float64, Floats, Int32, readonly
from pliant.pca import PCA


@dataclass(frozen=True, eq=False, repr=False)
class Subspace(Concise):
    """`mean (d,)`, orthonormal `basis (m, d)`, prior variances `(m,)` of its coordinates, and the noise.

    `to_model (m, m)` turns these coordinates into the model's own appearance parameters; None: they are.
    """

    mean: Float32
    basis: Float32
    variances: Float64
    noise: float
    to_model: Float64 | None

    @cached_property
    def mean_energy(self) -> float:
        """|abar|²"""
        mean = self.mean.astype(np.float64)
        return float(mean @ mean)

    @cached_property
    def mean_products(self) -> Float64:
        """A'abar `(m,)`"""
        return np.asarray(self.basis @ self.mean, dtype=np.float64)

    @property
    def shrinkage(self) -> Float64:
        """What is believed of the coordinates A'(i - abar) `(m,)`: their variance, over that and the noise."""
        return np.asarray(self.variances / np.maximum(self.variances + self.noise, 1e-12))

    def model_parameters(self, coordinates: Floats) -> Float64:
        """Appearance parameters `(..., m)` of the model, with the same appearance on these pixels."""
        if self.to_model is None:
            return np.asarray(coordinates, dtype=np.float64)
        return np.asarray(coordinates @ self.to_model.T, dtype=np.float64)


def restrict(
    appearance: PCA, channels: int, pixels: Int32 | None, *, unit_variances: bool = False
) -> Subspace:
    """The subspace on some pixels (None: on all), exact for the prior on its coordinates.

    A few rows As of an orthonormal basis are not orthonormal. With G the prior covariance of c (the
    eigenvalues, or 1 for a plain ridge), the singular values As G^1/2 = U S V' give the same subspace the
    orthonormal basis U, in which c has the coordinates S V' G^-1/2 c: independent, with variances S².
    Costs with and without c are then exact, and no formula changes.
    """
    variances = np.ones(appearance.modes) if unit_variances else np.asarray(appearance.eigenvalues)
    mean, basis = np.asarray(appearance.mean), np.asarray(appearance.components)
    noise = appearance.noise_variance
    if pixels is None or len(pixels) * channels == len(mean):
        return Subspace(mean, basis, variances, noise, None)
    mean = mean.reshape(-1, channels)[pixels].ravel()
    # Extents are spelled out: there may be no components at all.
    by_pixel = basis.reshape(len(basis), basis.shape[1] // channels, channels)
    rows = by_pixel[:, pixels].reshape(len(basis), len(mean))
    deviations = np.sqrt(variances)
    # The m x m Gram matrix has the same V and S: no need to decompose all of the rows.
    gram = np.zeros((len(basis), len(basis)))
    for start in range(0, rows.shape[1], 8192):
        block = rows[:, start : start + 8192].astype(np.float64)
        gram += block @ block.T
    squares, V = np.linalg.eigh(deviations[:, None] * gram * deviations)
    kept = squares > 1e-9 * squares[-1] if len(squares) else squares > 0
    squares, V = squares[kept][::-1], V[:, kept][:, ::-1]
    turn = (deviations[:, None] * V) / np.sqrt(squares)
    orthonormal = (turn.T.astype(np.float32)) @ rows
    return Subspace(readonly(mean), readonly(orthonormal), readonly(squares), noise, readonly(turn))
