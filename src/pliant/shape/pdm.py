"""The point distribution model: a mean shape, four similarity vectors and the modes of variation.

    s = mean + S p,   S = (s*_1 ... s*_4, s_1 ... s_n) orthonormal        (paper, equation 3)

The similarity vectors come first, after Matthews and Baker: scale, rotation, and shifts along x and y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pliant import pca
from pliant.arrays import Concise, Float64, Floats, readonly
from pliant.crew import Jobs, crew_of
from pliant.namespace import beside, in_double, namespace
from pliant.shape.procrustes import align, parts_of_shapes, procrustes_mean, shape_size
from pliant.threads import one_blas_thread

SIMILARITY = 4
"""How many of the leading parameters are the similarity's."""


@dataclass(frozen=True, eq=False, repr=False)
class ShapeModel(Concise):
    """A point distribution model: shapes are s = mean + basis p.

    Attributes
    ----------
    mean : ndarray, shape (v, 2)
        The mean shape.
    basis : ndarray, shape (2v, 4 + n)
        Orthonormal columns: four for the similarity, then one for each mode.
    eigenvalues : ndarray, shape (n,)
        The variances of the modes, in square pixels.
    total_variance : float
        The variance of the training shapes along all modes, including those that were dropped.
    rank : int
        The number of modes that the training shapes have, including those that were dropped.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> shapes = np.stack([sample.points() for sample in pliant.synthetic.faces(8, image_size=64)])
    >>> model = pliant.shape.train_shape_model(shapes, size=50, modes=3)
    >>> model.landmarks, model.modes, model.parameters
    (68, 3, 7)
    >>> 0 < model.variance_kept < 1, model.noise_variance > 0
    (True, True)
    >>> model.pairs_of_columns.shape == (4 * model.landmarks, model.parameters**2)
    True

    """

    mean: Float64
    basis: Float64
    eigenvalues: Float64
    total_variance: float
    rank: int

    @property
    def landmarks(self) -> int:
        """The number of landmarks, v."""
        return len(self.mean)

    @property
    def modes(self) -> int:
        """The number of modes, n; the similarity does not count."""
        return len(self.eigenvalues)

    @property
    def parameters(self) -> int:
        """The length of a parameter vector p: 4 + n."""
        return SIMILARITY + self.modes

    @property
    def noise_variance(self) -> float:
        """The mean variance of the modes that were dropped, in square pixels."""
        return pca.noise_variance(self.eigenvalues, self.total_variance, self.rank)

    @property
    def variance_kept(self) -> float:
        """The share of the training shapes' variance that the modes explain."""
        return pca.variance_kept(self.eigenvalues, self.total_variance)

    @cached_property
    def pairs_of_columns(self) -> Float64:
        """Products of the basis' rows of each landmark, `(4 v, n n)`: x with x, x with y, y with x, y with y."""
        rows = self.basis.reshape(self.landmarks, 2, -1)
        return np.einsum("van,vbk->vabnk", rows, rows).reshape(4 * self.landmarks, -1)

    def project(self, points: Floats) -> Float64:
        """Return the parameters of the shapes in the model that are nearest to given points.

        Parameters
        ----------
        points : array, shape (..., v, 2)
            The points.

        Returns
        -------
        ndarray, shape (..., 4 + n)
            The parameters: four of the similarity, then those of the modes.

        Examples
        --------
        >>> import pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> shape.project(shape.mean).round(9).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]

        """
        difference = in_double(points - beside(self.mean, points))
        flat = difference.reshape(*difference.shape[:-2], 2 * self.landmarks)
        return flat @ beside(self.basis, points)  # eq. 6

    def instance(self, parameters: Floats) -> Float64:
        """Return the shapes with given parameters.

        Parameters
        ----------
        parameters : array, shape (..., 4 + n)
            The parameters.

        Returns
        -------
        ndarray, shape (..., v, 2)
            The shapes.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> np.array_equal(shape.instance(np.zeros(shape.parameters)), shape.mean)
        True

        """
        offset = in_double(parameters) @ beside(self.basis, parameters).T
        return beside(self.mean, parameters) + offset.reshape(
            *offset.shape[:-1], self.landmarks, 2
        )  # eq. 1, 3

    def mahalanobis(self, parameters: Floats) -> Float64:
        """Return the distances of shapes from the mean, in standard deviations.

        Distances are divided by the square root of the number of modes. The similarity does not count: a shape may
        be anywhere, at any size.

        Parameters
        ----------
        parameters : array, shape (..., 4 + n)
            The parameters of the shapes.

        Returns
        -------
        ndarray, shape (...)
            The distances.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> parameters = np.concatenate([np.zeros(4), 2 * np.sqrt(shape.eigenvalues)])
        >>> round(shape.mahalanobis(parameters).item(), 6)
        2.0

        """
        modes = parameters[..., SIMILARITY:]
        squares = (modes**2 / beside(self.eigenvalues, parameters)).sum(axis=-1) / max(self.modes, 1)
        return namespace(squares).sqrt(squares)

    def clamped(self, parameters: Floats, limit: float) -> Float64:
        """Return parameters whose modes are pulled back onto an ellipsoid where they lie outside.

        Parameters
        ----------
        parameters : array, shape (..., 4 + n)
            The parameters of the shapes.
        limit : float
            The largest Mahalanobis distance allowed, as `mahalanobis` measures it.

        Returns
        -------
        ndarray, shape (..., 4 + n)
            The parameters; those within the limit are unchanged.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> parameters = np.concatenate([np.zeros(4), 9 * np.sqrt(shape.eigenvalues)])
        >>> round(shape.mahalanobis(shape.clamped(parameters, limit=3.0)).item(), 6)
        3.0

        """
        xp, modes = namespace(parameters), parameters[..., SIMILARITY:]
        excess = xp.clip(self.mahalanobis(parameters) / limit, 1.0, None)[..., None]
        return in_double(xp.concatenate([parameters[..., :SIMILARITY], modes / excess], axis=-1))

    def scaled(self, factor: float) -> ShapeModel:
        """Return the same model at another resolution.

        Parameters
        ----------
        factor : float
            How many times as many pixels there are along each axis.

        Returns
        -------
        ShapeModel
            The scaled model.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> np.allclose(shape.scaled(2).mean, 2 * shape.mean)
        True

        """
        return replace(
            self,
            mean=readonly(self.mean * factor),
            eigenvalues=readonly(self.eigenvalues * factor**2),
            total_variance=self.total_variance * factor**2,
        )

    def shifted(self, offset: Floats) -> ShapeModel:
        """Return the same model with its mean moved. The basis does not depend on it.

        Parameters
        ----------
        offset : array, shape (2,)
            The shift along x and y.

        Returns
        -------
        ShapeModel
            The shifted model.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> np.allclose(shape.shifted(np.array([5.0, 0.0])).mean - shape.mean, [5, 0])
        True

        """
        return replace(self, mean=readonly(self.mean + offset))

    def truncated(self, modes: int | float) -> ShapeModel:
        """Return the same model with its leading modes alone.

        Parameters
        ----------
        modes : int or float
            An integer is the number of modes; a fraction is the share of the variance that they explain.

        Returns
        -------
        ShapeModel
            The truncated model.

        Examples
        --------
        >>> import pliant
        >>> shape = pliant.load("faces.pliant").levels[-1].shape
        >>> shape.truncated(2).modes
        2

        """
        kept = pca.choose_modes(self.eigenvalues, self.total_variance, modes, "shape_modes")
        return replace(
            self,
            basis=readonly(self.basis[:, : SIMILARITY + kept]),
            eigenvalues=readonly(self.eigenvalues[:kept]),
        )


def train_shape_model(shapes: Floats, size: float, modes: int | float = 1.0, jobs: Jobs = 1) -> ShapeModel:
    """Train a point distribution model.

    What a similarity can do is taken out of the aligned shapes before their principal components are found.
    Similarity and modes are therefore orthogonal, and no mode describes pose.

    Parameters
    ----------
    shapes : array, shape (k, v, 2)
        At least two shapes of at least three landmarks.
    size : float
        The size of the mean shape, in pixels. The mean is centred at the origin.
    modes : int or float
        An integer is the number of modes; a fraction is the share of the variance that they explain. 1.0 keeps
        all.
    jobs : int, Crew or None
        Threads, or a cluster from `pliant.connect`. The result is the same bit by bit.

    Returns
    -------
    ShapeModel
        The trained model.

    Raises
    ------
    ValueError
        If there are too few shapes or landmarks.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> shapes = np.stack([sample.points() for sample in pliant.synthetic.faces(8, image_size=64)])
    >>> model = pliant.shape.train_shape_model(shapes, size=50, modes=0.9)
    >>> round(pliant.shape.shape_size(model.mean).item()), model.variance_kept >= 0.9
    (50, True)

    """
    shapes = np.asarray(shapes, dtype=np.float64)
    if shapes.ndim != 3 or shapes.shape[2] != 2:
        raise ValueError(f"shapes must be an array of shape (shapes, landmarks, 2), not {shapes.shape}.")
    if len(shapes) < 2:
        raise ValueError("a shape model needs at least two shapes.")
    if shapes.shape[1] < 3:
        raise ValueError(f"a shape model needs at least three landmarks, but there are {shapes.shape[1]}.")
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
