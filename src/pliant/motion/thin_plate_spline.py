"""Thin-plate spline motion: the smoothest map that takes each vertex of the frame where it should go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Lean, readonly
from pliant.motion.frame import Frame
from pliant.namespace import beside, in_double, namespace


@dataclass(frozen=True)
class ThinPlateSpline(Lean):
    """The smoothest map that takes each vertex of the frame to its target.

    The warp is W(x; p) = B s(p) with full rows of B, because a spline is linear in the points that it
    interpolates.

    Parameters
    ----------
    frame : Frame
        The v vertices with f pixels.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
    >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
    >>> motion.weights.shape
    (25, 4)

    """

    frame: Frame
    name: ClassVar[str] = "thin-plate-spline"

    @cached_property
    def weights(self) -> Float64:
        """The matrix B, `(f, v)`."""
        return readonly(self._rows(self.frame.pixels.astype(np.float64)))

    def positions(self, shape: Floats) -> Float64:
        """Return where the pixels of the frame go.

        Parameters
        ----------
        shape : array, shape (..., v, 2)
            Where the vertices go.

        Returns
        -------
        ndarray, shape (..., f, 2)
            Where the pixels go, as x and y.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
        >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.positions(3 * square), 3 * motion.frame.pixels)
        True

        """
        return np.asarray(self.weights @ shape, dtype=np.float64)

    def matrix(self) -> Float64:
        """Return B as a dense matrix.

        Returns
        -------
        ndarray, shape (f, v)
            How far each pixel moves with each vertex; rows sum to 1.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
        >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
        >>> motion.matrix().shape, np.allclose(motion.matrix().sum(axis=1), 1)
        ((25, 4), True)

        """
        return self.weights

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Return where a warp takes displaced vertices.

        Parameters
        ----------
        displaced : array, shape (..., v, 2)
            A point of the frame for each vertex.
        shape : array, shape (..., v, 2)
            Where the warp takes the vertices.

        Returns
        -------
        ndarray, shape (..., v, 2)
            Where the warp takes the displaced vertices.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
        >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.at_vertices(square + 1, square + 2), square + 3)
        True

        """
        return in_double(self._rows(displaced) @ shape)

    def onto_vertices(self, shape: Floats) -> Float64:
        """Return the points that a warp takes onto the vertices.

        It iterates y <- y - (W(y) - vertex) from the first-order answer of Matthews and Baker, the vertex less its
        displacement, as long as W(y) comes nearer. Near the identity this is a contraction.

        Parameters
        ----------
        shape : array, shape (..., v, 2)
            Where the warp takes the vertices.

        Returns
        -------
        ndarray, shape (..., v, 2)
            Points of the frame.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
        >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.onto_vertices(square + 2), square - 2)
        True

        """
        xp, vertices = namespace(shape), beside(self.frame.vertices, shape)
        points = 2 * vertices - shape
        miss = self.at_vertices(points, shape) - vertices
        for _ in range(20):
            nearer_points = points - miss
            nearer_miss = self.at_vertices(nearer_points, shape) - vertices
            better = _largest(nearer_miss) < _largest(miss)
            points = xp.where(better, nearer_points, points)
            miss = xp.where(better, nearer_miss, miss)
            if not xp.any(better) or xp.amax(xp.abs(miss)) < 1e-9:
                break
        return in_double(points)

    @cached_property
    def _scale(self) -> float:
        """Units in which the system below is well conditioned."""
        return float(np.ptp(self.frame.vertices, axis=0).mean())

    @cached_property
    def _scaled_vertices(self) -> Float64:
        return self.frame.vertices / self._scale

    @cached_property
    def _coefficients(self) -> Float64:
        """`(v + 3, v)`: from the targets of the vertices to the coefficients of the kernels and of 1, x, y.

        Left part of the inverse of [[K, P], [P', 0]] (Bookstein 1989), K the kernels between all
        vertices and P = (1, x, y).
        """
        vertices = self._scaled_vertices
        count = len(vertices)
        system = np.zeros((count + 3, count + 3))
        system[:count] = self._functions(vertices)
        system[count:, :count] = system[:count, count:].T
        return np.asarray(np.linalg.solve(system, np.eye(count + 3, count)))

    def _rows(self, points: Floats) -> Float64:
        """Rows of B `(..., q, v)` for any points `(..., q, 2)` of the frame."""
        return self._functions(points / self._scale) @ beside(self._coefficients, points)

    def _functions(self, points: Floats) -> Float64:
        """Kernels r² log r² about the vertices, and 1, x, y, at points: `(..., q, v + 3)`."""
        xp = namespace(points)
        difference = points[..., :, None, :] - beside(self._scaled_vertices, points)
        squared = (difference**2).sum(axis=-1)
        # The logarithm of one stands for that of nothing, whose product is nothing too.
        kernels = squared * xp.log(xp.where(squared > 0, squared, 1.0))
        return xp.concatenate([kernels, xp.ones_like(points[..., :1]), points], axis=-1)


def _largest(displacements: Floats) -> Floats:
    xp = namespace(displacements)
    return xp.amax(xp.abs(displacements), axis=(-2, -1), keepdims=True)
