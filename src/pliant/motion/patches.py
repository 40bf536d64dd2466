"""Patches: each landmark carries a square of pixels, which moves with it and does not deform.

Pixels of the frame are those of patch 0, row by row, then those of patch 1, and so on. Where patches overlap, each
has the pixel: it moves with one landmark here and with another there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, sqrt
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Int32, Lean, readonly
from pliant.motion.frame import Frame
from pliant.shape.procrustes import shape_size

PATCH_SHARE = 0.08
"""Side of a patch as a share of the object's size."""

_COVERING_REACH = 4
"""Up to so many pixels on each side of its middle, a patch has its share of all that lies between the landmarks.

Few landmarks with patches that are a share of the object's size lose it at coarse levels: these are all they see.
"""


class PatchFrame(Frame):
    """As many squares of the same odd side as there are vertices; `triangles` say what to draw between these.

    Pixels `first_pixel[k]` to `first_pixel[k + 1]` are the patch of vertex k, about the pixel nearest to it.
    """

    @property
    def side(self) -> int:
        """Pixels along a patch."""
        return isqrt(len(self.pixels) // len(self.vertices))

    @property
    def reach(self) -> int:
        """How far pixels may lie from the mean shape, in pixels."""
        return self.side // 2

    @cached_property
    def vertex_of_pixel(self) -> Int32:
        """`(f,)`"""
        return readonly(np.repeat(np.arange(len(self.vertices), dtype=np.int32), self.side**2))

    def beside(self, axis: int) -> tuple[Int32, Int32]:
        """Rows of the pixels before and after every pixel of its patch along x (0) or y (1); -1 is none."""
        own = np.arange(len(self.pixels), dtype=np.int32)
        step = (1, self.side)[axis]
        place = own // step % self.side
        before = np.where(place > 0, own - step, -1)
        after = np.where(place < self.side - 1, own + step, -1)
        return before.astype(np.int32), after.astype(np.int32)


@dataclass(frozen=True)
class Patches(Lean):
    """The warp W(x; p) = x + B (s(p) - vertices) with a single one in each row of B, for the pixel's landmark."""

    frame: PatchFrame
    name: ClassVar[str] = "patches"

    @cached_property
    def corners(self) -> Int32:
        """The vertices `(v, 1)` that move each run of pixels in the frame."""
        return readonly(np.arange(len(self.frame.vertices), dtype=np.int32)[:, None])

    @cached_property
    def vertices(self) -> Int32:
        """Columns `(f, 1)` of the non-zeros in each row of B."""
        return readonly(self.frame.vertex_of_pixel[:, None])

    @cached_property
    def weights(self) -> Float64:
        """The non-zeros `(f, 1)` of B."""
        return readonly(np.ones((len(self.frame.pixels), 1)))

    @cached_property
    def offsets(self) -> Float64:
        """From its landmark to each pixel: `(f, 2)`."""
        return readonly(self.frame.pixels - self.frame.vertices[self.frame.vertex_of_pixel])

    def positions(self, shape: Floats) -> Float64:
        """Where the pixels of the frame go `(..., f, 2)` when its vertices go to `shape (..., v, 2)`."""
        return np.asarray(shape[..., self.frame.vertex_of_pixel, :] + self.offsets, dtype=np.float64)

    def matrix(self) -> Float64:
        """B as a dense matrix `(f, v)`."""
        dense = np.zeros((len(self.weights), len(self.frame.vertices)))
        np.put_along_axis(dense, self.vertices, self.weights, axis=1)
        return dense

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Where the warp to `shape (..., v, 2)` takes the vertices once they are `displaced (..., v, 2)`.

        A patch goes on beyond its border, so that each vertex stays with its own.
        """
        return np.asarray(displaced + (shape - self.frame.vertices), dtype=np.float64)

    def onto_vertices(self, shape: Floats) -> Float64:
        """Points `(..., v, 2)` that the warp to `shape (..., v, 2)` takes onto the vertices."""
        return np.asarray(2 * self.frame.vertices - shape, dtype=np.float64)


def patch_reach(vertices: Floats) -> int:
    """Pixels of a patch on each side of its middle, for a mean shape `(v, 2)`."""
    share = float(np.prod(np.ptp(vertices, axis=0))) / len(vertices)
    covering = min(_COVERING_REACH, ceil((sqrt(share) - 1) / 2))
    return max(1, covering, round(PATCH_SHARE * float(shape_size(vertices)) / 2))


def build_patches(vertices: Floats, triangles: Int32) -> PatchFrame:
    """The frame whose vertices `(v, 2)` are farther than a patch reaches from both axes."""
    reach = patch_reach(vertices)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    square = np.stack([x.ravel(), y.ravel()], axis=-1)
    middles = np.rint(vertices).astype(np.int32)
    return PatchFrame(
        vertices=readonly(vertices.astype(np.float64)),
        triangles=readonly(triangles),
        pixels=readonly((middles[:, None] + square).reshape(-1, 2).astype(np.int32)),
        first_pixel=readonly(np.arange(len(vertices) + 1, dtype=np.int32) * len(square)),
    )
