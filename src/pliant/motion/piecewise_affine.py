"""Piecewise affine motion: each triangle moves with its three corners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Int32, readonly
from pliant.motion.frame import Frame, barycentric_maps


@dataclass(frozen=True)
class PiecewiseAffine:
    """The warp W(x; p) = B s(p) with three non-zeros in each row of B: barycentric weights."""

    frame: Frame
    name: ClassVar[str] = "piecewise-affine"

    @cached_property
    def vertices(self) -> Int32:
        """Columns `(f, 3)` of the non-zeros in each row of B."""
        return readonly(self.frame.triangles[self.frame.triangle_of_pixel])

    @cached_property
    def weights(self) -> Float64:
        """The non-zeros `(f, 3)` of B."""
        maps = barycentric_maps(self.frame.vertices, self.frame.triangles)[self.frame.triangle_of_pixel]
        return readonly(_weights_at(maps, self.frame.pixels.astype(np.float64)))

    def positions(self, shape: Floats) -> Float64:
        """Where the pixels of the frame go `(..., f, 2)` when its vertices go to `shape (..., v, 2)`."""
        corners = shape[..., self.vertices, :]
        return np.asarray(np.einsum("fk,...fkd->...fd", self.weights, corners), dtype=np.float64)

    def matrix(self) -> Float64:
        """B as a dense matrix `(f, v)`."""
        dense = np.zeros((len(self.weights), len(self.frame.vertices)))
        np.put_along_axis(dense, self.vertices, self.weights, axis=1)
        return dense

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Where the warp to `shape (..., v, 2)` takes the vertices once they are `displaced (..., v, 2)`.

        A displaced vertex has left its triangles, each of which would send it elsewhere; Matthews and
        Baker (2004, section 4.1.2) take the average over all triangles that meet there.
        """
        triangle, vertex, first = self._incidence
        maps = barycentric_maps(self.frame.vertices, self.frame.triangles)[triangle]
        weights = _weights_at(maps, displaced[..., vertex, :])
        corners = shape[..., self.frame.triangles[triangle], :]
        images = np.einsum("...qk,...qkd->...qd", weights, corners)
        counts = np.diff(np.append(first, len(triangle)))
        return np.asarray(np.add.reduceat(images, first, axis=-2) / counts[:, None], dtype=np.float64)

    @cached_property
    def _incidence(self) -> tuple[Int32, Int32, Int32]:
        """All pairs of a vertex and a triangle that touches it, by vertex; and where each vertex's begin."""
        triangle = np.repeat(np.arange(len(self.frame.triangles)), 3)
        vertex = self.frame.triangles.ravel()
        order = np.argsort(vertex, kind="stable")
        first = np.searchsorted(vertex[order], np.arange(len(self.frame.vertices)))
        return triangle[order].astype(np.int32), vertex[order].astype(np.int32), first.astype(np.int32)


def _weights_at(maps: Float64, points: Floats) -> Float64:
    """Barycentric weights `(..., q, 3)` of points `(..., q, 2)` in triangles with maps `(q, 3, 3)`."""
    linear = np.einsum("qkd,...qd->...qk", maps[:, :, :2], points)
    return np.asarray(linear + maps[:, :, 2], dtype=np.float64)
