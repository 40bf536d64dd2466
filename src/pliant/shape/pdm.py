"""The point distribution model: a mean shape, four similarity vectors and the modes of variation.

    s = mean + S p,   S = (s*_1 ... s*_4, s_1 ... s_n) orthonormal        (paper, equation 3)

The similarity vectors come first, after Matthews and Baker: scale, rotation, and shifts along x and y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from pliant import pca
from pliant.arrays import Concise, Float64, Floats, readonly
from pliant.crew import Jobs, crew_of
from pliant.shape.procrustes import align, parts_of_shapes, procrustes_mean, shape_size
from pliant.threads import one_blas_thread

SIMILARITY = 4
"""How many of the leading parameters are the similarity's."""


@dataclass(frozen=True, eq=False, repr=False)
class ShapeModel(Concise):
    """`mean (v, 2)`, `basis (2v, 4 + n)`, `eigenvalues (n,)` of the modes behind the similarity.

    `total_variance` and `rank` count all modes that the training shapes have, kept or not.
    """

    mean: Float64
    basis: Float64
    eigenvalues: Float64
    total_variance: float
    rank: int

    @property
    def landmarks(self) -> int:
        return len(self.mean)

    @property
    def modes(self) -> int:
        """Number of modes, the similarity not counted."""
        return len(self.eigenvalues)

    @property
    def parameters(self) -> int:
        """Length of the parameter vector p: 4 + modes."""
        return SIMILARITY + self.modes

    @property
    def noise_variance(self) -> float:
        return pca.noise_variance(self.eigenvalues, self.total_variance, self.rank)

    @property
    def variance_kept(self) -> float:
        return pca.variance_kept(self.eigenvalues, self.total_variance)

    def project(self, points: Floats) -> Float64:
        """Parameters `(..., 4 + n)` of the shapes in the model nearest to `points (..., v, 2)`."""
        difference = np.asarray(points - self.mean, dtype=np.float64)
        return difference.reshape(*difference.shape[:-2], -1) @ self.basis  # eq. 6

    def instance(self, parameters: Floats) -> Float64:
        """Shapes `(..., v, 2)` with parameters `(..., 4 + n)`."""
        offset = np.asarray(parameters, dtype=np.float64) @ self.basis.T
        return self.mean + offset.reshape(*offset.shape[:-1], -1, 2)  # eq. 1, 3

    def mahalanobis(self, parameters: Floats) -> Float64:
        """Distances `(...)` of shapes from the mean, in deviations, per root of the number of modes.

        The similarity of the parameters `(..., 4 + n)` does not count: a shape may be anywhere, at any size.
        """
        modes = parameters[..., SIMILARITY:]
        return np.asarray(np.sqrt(np.sum(modes**2 / self.eigenvalues, axis=-1) / max(self.modes, 1)))

    def clamped(self, parameters: Floats, limit: float) -> Float64:
        """Parameters `(..., 4 + n)` with modes that are beyond the limit pulled back onto the ellipsoid."""
        excess = np.maximum(self.mahalanobis(parameters) / limit, 1.0)[..., None]
        return np.concatenate(
            [parameters[..., :SIMILARITY], parameters[..., SIMILARITY:] / excess], axis=-1, dtype=np.float64
        )

    def scaled(self, factor: float) -> ShapeModel:
        """The same model with `factor` times as many pixels along each axis."""
        return replace(
            self,
            mean=readonly(self.mean * factor),
            eigenvalues=readonly(self.eigenvalues * factor**2),
            total_variance=self.total_variance * factor**2,
        )

    def shifted(self, offset: Floats) -> ShapeModel:
        """The same model with its mean moved by `offset (2,)`; the basis does not depend on it."""
        return replace(self, mean=readonly(self.mean + offset))

    def truncated(self, modes: int | float) -> ShapeModel:
        """The leading modes alone, chosen by count or by the share of variance they explain."""
        kept = pca.choose_modes(self.eigenvalues, self.total_variance, modes, "shape_modes")
        return replace(
            self,
            basis=readonly(self.basis[:, : SIMILARITY + kept]),
            eigenvalues=readonly(self.eigenvalues[:kept]),
        )


def train_shape_model(shapes: Floats, size: float, modes: int | float = 1.0, jobs: Jobs = 1) -> ShapeModel:
    """The model of shapes `(k, v, 2)`, whose mean is centred at the origin and has the given size.

    What a similarity can do is taken out of the aligned shapes before their principal components are
    found, so that similarity and modes are orthogonal and no mode spends itself on pose. Of thousands of shapes,
    the components are those of a scatter matrix that is summed over parts; the model is the same bit by bit
    whoever sums them.
    """
    shapes = np.asarray(shapes, dtype=np.float64)
    if shapes.ndim != 3 or shapes.shape[2] != 2:
        raise ValueError(f"shapes must have the dimensions (shapes, landmarks, 2), not {shapes.shape}.")
    if len(shapes) < 2:
        raise ValueError("a shape model needs at least two shapes.")
    if shapes.shape[1] < 3:
        raise ValueError(f"a shape model needs at least three landmarks, and there are {shapes.shape[1]}.")
    parts = parts_of_shapes(shapes)
    mean = procrustes_mean(shapes, jobs=jobs)
    factor = size / float(shape_size(mean))
    similarity = similarity_vectors(mean * factor)
    if len(parts) == 1:
        # A scatter matrix would square the condition number, for nothing.
        components = pca.exact_pca(_deviations(parts[0], mean, factor, similarity))
    else:
        spread = crew_of(jobs).merged(_spread, parts, _both_spread, mean, factor, similarity)
        components = pca.scatter_pca(len(shapes), *spread)
    mean = mean * factor
    # Below this, in square pixels, there is rounding and no variation: a rigid object has no modes.
    kept = int(np.sum(components.eigenvalues > 1e-12 * size**2))
    model = ShapeModel(
        mean=readonly(mean),
        basis=readonly(np.concatenate([similarity, components.components[:kept].T], axis=1)),
        eigenvalues=readonly(components.eigenvalues[:kept]),
        total_variance=components.total_variance,
        rank=min(components.rank, 2 * len(mean) - SIMILARITY),
    )
    return model.truncated(modes)


def _deviations(shapes: Float64, mean: Float64, factor: float, similarity: Float64) -> Float64:
    """What shapes `(k, v, 2)` are off the mean by `(k, 2v)`, in pixels, that no similarity explains."""
    aligned = align(shapes, mean).apply(shapes) * factor
    deviations = (aligned - mean * factor).reshape(len(shapes), -1)
    deviations -= (deviations @ similarity) @ similarity.T
    return deviations


def _spread(
    parts: Sequence[Float64], mean: Float64, factor: float, similarity: Float64, *, threads: int
) -> Iterator[tuple[Float64, Float64]]:
    """For each part, the sum `(2v,)` of the deviations and that of their products `(2v, 2v)`."""

    def one(shapes: Float64) -> tuple[Float64, Float64]:
        deviations = _deviations(shapes, mean, factor, similarity)
        return deviations.sum(axis=0), deviations.T @ deviations

    with one_blas_thread(), ThreadPoolExecutor(max_workers=threads) as pool:
        found = list(pool.map(one, parts))
    yield from found


def _both_spread(one: tuple[Float64, Float64], other: tuple[Float64, Float64]) -> tuple[Float64, Float64]:
    return one[0] + other[0], one[1] + other[1]


def similarity_vectors(mean: Floats) -> Float64:
    """Four orthonormal vectors `(2v, 4)` that scale, rotate and shift `mean (v, 2)` to first order."""
    x, y = (mean - mean.mean(axis=0)).T
    one, zero = np.ones_like(x), np.zeros_like(x)
    vectors = [np.stack(pair, axis=-1).ravel() for pair in ((x, y), (-y, x), (one, zero), (zero, one))]
    return np.stack([vector / np.linalg.norm(vector) for vector in vectors], axis=-1)  # eq. 2
