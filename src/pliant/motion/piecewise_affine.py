"""Piecewise affine motion: each triangle moves with its three corners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Int32, Lean, readonly
from pliant.motion.frame import Frame, barycentric_maps
from pliant.namespace import beside, in_double, namespace


@dataclass(frozen=True)
class PiecewiseAffine(Lean):
    """Triangles that move with their three corners.

    The warp is W(x; p) = B s(p) with three non-zeros in each row of B, the barycentric weights.

    Parameters
    ----------
    frame : Frame
        The t triangles with f pixels.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
    >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
    >>> motion.corners.shape, motion.vertices.shape, motion.weights.shape
    ((2, 3), (25, 3), (25, 3))

    """

    frame: Frame
    name: ClassVar[str] = "piecewise-affine"

    @property
    def corners(self) -> Int32:
        """The vertices that move the pixels of each triangle, `(t, 3)`."""
        return self.frame.triangles

    @cached_property
    def vertices(self) -> Int32:
        """The columns of the non-zeros in each row of B, `(f, 3)`."""
        return readonly(self.frame.triangles[self.frame.triangle_of_pixel])

    @cached_property
    def weights(self) -> Float64:
        """The non-zeros of B, `(f, 3)`."""
        maps = self._barycentric[self.frame.triangle_of_pixel]
        homogeneous = np.concatenate([self.frame.pixels, np.ones((len(self.frame.pixels), 1))], axis=1)
        return readonly(np.einsum("fkd,fd->fk", maps, homogeneous))

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
        >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.positions(3 * square), 3 * motion.frame.pixels)
        True

        """
        out = self.weights[:, :1] * shape[..., self.vertices[:, 0], :]
        for corner in (1, 2):
            out += self.weights[:, corner, None] * shape[..., self.vertices[:, corner], :]
        return np.asarray(out, dtype=np.float64)

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
        >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
        >>> motion.matrix().shape, np.allclose(motion.matrix().sum(axis=1), 1)
        ((25, 4), True)

        """
        dense = np.zeros((len(self.weights), len(self.frame.vertices)))
        np.put_along_axis(dense, self.vertices, self.weights, axis=1)
        return dense

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Return where a warp takes displaced vertices.

        A vertex that leaves its triangles follows the average of the maps of all triangles that meet there
        (Matthews and Baker 2004, section 4.1.2).

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
        >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.at_vertices(square + 1, square + 2), square + 3)
        True

        """
        along_x, along_y, constant = self._vertex_maps(shape)
        return in_double(along_x * displaced[..., :1] + along_y * displaced[..., 1:] + constant)

    def onto_vertices(self, shape: Floats) -> Float64:
        """Return the points that a warp takes onto the vertices.

        Where triangles have folded over, the map at a vertex may have no inverse. There, the result is the
        first-order answer of Matthews and Baker: the vertex less its displacement.

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
        >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.onto_vertices(2 * square), square / 2)
        True

        """
        along_x, along_y, constant = self._vertex_maps(shape)
        xp, vertices = namespace(shape), beside(self.frame.vertices, shape)
        away = vertices - constant
        determinant = along_x[..., :1] * along_y[..., 1:] - along_y[..., :1] * along_x[..., 1:]
        regular = determinant > 0.05
        safe = xp.where(regular, determinant, 1.0)
        x = along_y[..., 1:] * away[..., :1] - along_y[..., :1] * away[..., 1:]
        y = along_x[..., :1] * away[..., 1:] - along_x[..., 1:] * away[..., :1]
        first_order = 2 * vertices - shape
        return xp.where(regular, xp.concatenate([x, y], axis=-1) / safe, first_order)

    def slopes_at_vertices(self, shape: Floats) -> Float64:
        """Return the derivatives of a warp at the vertices.

        Parameters
        ----------
        shape : array, shape (..., v, 2)
            Where the warp takes the vertices.

        Returns
        -------
        ndarray, shape (..., v, 2, 2)
            The derivatives of x and y, in rows, by x and y, in columns.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
        >>> motion = pliant.motion.build_motion("piecewise-affine", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.slopes_at_vertices(3 * square), 3 * np.eye(2))
        True

        """
        along_x, along_y, _ = self._vertex_maps(shape)
        return namespace(shape).stack([along_x, along_y], axis=-1)

    def _vertex_maps(self, shape: Floats) -> tuple[Float64, Float64, Float64]:
        """The affine map at each vertex when the vertices go to `shape (..., v, 2)`: x, y and constant parts.

        Each part is `(..., v, 2)`. A vertex that leaves its triangles
        would be sent elsewhere by each of them; Matthews and Baker (2004, section 4.1.2) take the average over all
        triangles that meet there.
        """
        maps, v = beside(self._vertex_operator, shape) @ shape, len(self.frame.vertices)
        return maps[..., :v, :], maps[..., v : 2 * v, :], maps[..., 2 * v :, :]

    @cached_property
    def _vertex_operator(self) -> Float64:
        """`(3v, v)`: the maps at the vertices are linear in where the vertices go."""
        t, v = len(self.frame.triangles), len(self.frame.vertices)
        corners = np.zeros((t, 3, v))
        corners[np.arange(t)[:, None], np.arange(3), self.frame.triangles] = 1
        by_triangle = np.einsum("tkd,tkv->dtv", self._barycentric, corners)
        return np.asarray((self._averaging @ by_triangle).reshape(3 * v, v))

    @cached_property
    def _barycentric(self) -> Float64:
        return barycentric_maps(self.frame.vertices, self.frame.triangles)

    @cached_property
    def _averaging(self) -> Float64:
        """`(v, t)`: the same share of every triangle that touches a vertex."""
        touches = np.zeros((len(self.frame.vertices), len(self.frame.triangles)))
        touches[self.frame.triangles.T, np.arange(len(self.frame.triangles))] = 1
        return np.asarray(touches / touches.sum(axis=1, keepdims=True))
