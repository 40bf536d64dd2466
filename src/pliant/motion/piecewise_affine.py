"""Piecewise affine motion: each triangle moves with its three corners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Int32, Lean, readonly
from pliant.motion.frame import Frame, barycentric_maps


@dataclass(frozen=True)
class PiecewiseAffine(Lean):
    """The warp W(x; p) = B s(p) with three non-zeros in each row of B: barycentric weights."""

    frame: Frame
    name: ClassVar[str] = "piecewise-affine"

    @property
    def corners(self) -> Int32:
        """The vertices `(t, 3)` that move each run of pixels in the frame."""
        return self.frame.triangles

    @cached_property
    def vertices(self) -> Int32:
        """Columns `(f, 3)` of the non-zeros in each row of B."""
        return readonly(self.frame.triangles[self.frame.triangle_of_pixel])

    @cached_property
    def weights(self) -> Float64:
        """The non-zeros `(f, 3)` of B."""
        maps = self._barycentric[self.frame.triangle_of_pixel]
        homogeneous = np.concatenate([self.frame.pixels, np.ones((len(self.frame.pixels), 1))], axis=1)
        return readonly(np.einsum("fkd,fd->fk", maps, homogeneous))

    def positions(self, shape: Floats) -> Float64:
        """Where the pixels of the frame go `(..., f, 2)` when its vertices go to `shape (..., v, 2)`."""
        out = self.weights[:, :1] * shape[..., self.vertices[:, 0], :]
        for corner in (1, 2):
            out += self.weights[:, corner, None] * shape[..., self.vertices[:, corner], :]
        return np.asarray(out, dtype=np.float64)

    def matrix(self) -> Float64:
        """B as a dense matrix `(f, v)`."""
        dense = np.zeros((len(self.weights), len(self.frame.vertices)))
        np.put_along_axis(dense, self.vertices, self.weights, axis=1)
        return dense

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Where the warp to `shape (..., v, 2)` takes the vertices once they are `displaced (..., v, 2)`."""
        along_x, along_y, constant = self._vertex_maps(shape)
        return np.asarray(
            along_x * displaced[..., :1] + along_y * displaced[..., 1:] + constant, dtype=np.float64
        )

    def onto_vertices(self, shape: Floats) -> Float64:
        """Points `(..., v, 2)` that the warp to `shape (..., v, 2)` takes onto the vertices.

        Where triangles have folded over, the map at a vertex may have no inverse: there, Matthews and Baker's
        first-order answer stands, the vertex less its displacement.
        """
        along_x, along_y, constant = self._vertex_maps(shape)
        away = self.frame.vertices - constant
        determinant = along_x[..., :1] * along_y[..., 1:] - along_y[..., :1] * along_x[..., 1:]
        regular = determinant > 0.05
        safe = np.where(regular, determinant, 1.0)
        x = along_y[..., 1:] * away[..., :1] - along_y[..., :1] * away[..., 1:]
        y = along_x[..., :1] * away[..., 1:] - along_x[..., 1:] * away[..., :1]
        first_order = 2 * self.frame.vertices - shape
        return np.where(regular, np.concatenate([x, y], axis=-1) / safe, first_order)

    def _vertex_maps(self, shape: Floats) -> tuple[Float64, Float64, Float64]:
        """The affine map at each vertex when the vertices go to `shape (..., v, 2)`: x, y and constant parts.

        Each part is `(..., v, 2)`. A vertex that leaves its triangles
        would be sent elsewhere by each of them; Matthews and Baker (2004, section 4.1.2) take the average over all
        triangles that meet there.
        """
        maps, v = self._vertex_operator @ shape, len(self.frame.vertices)
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
