"""A level of triangles or patches as the compiled loops see it: pixels in panels, neighbours, and small sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.kernels import mesh_loops
from pliant.kernels.basis_pass import LANES
from pliant.kernels.panels import Layout, empty, make_layout
from pliant.level import Level
from pliant.motion import Patches, Sparse

UInt32 = NDArray[np.uint32]
"""Indices into arrays: compiled code need not ask whether they count from the end."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """All pixels of a level (`everywhere`) or the `chosen (f,)`, and where to find the values of their neighbours.

    Images are warped to k pixels between `vertices (k, 3)` with barycentric `weights (k, 3)`, or in patches at
    `offsets (k, 2)` from `vertices (k, 1)`: the chosen ones and their neighbours. Among these, `own (V, LANES)` are
    the chosen ones, in the layout's order, and slopes are differences of `neighbours (V, LANES, 2, 2)`, along x and
    y, before and after, times `steps (V, LANES, 2)`. `shares (3, V · LANES)` are the layout's
    weights, corner by corner.
    """

    level: Level
    layout: Layout
    chosen: Int32
    everywhere: bool
    vertices: UInt32
    weights: Float64
    offsets: Float64
    own: Int32
    neighbours: UInt32
    steps: Float32
    shares: Float32

    @property
    def motion(self) -> Sparse:
        assert isinstance(self.level.motion, Sparse)
        return self.level.motion

    @property
    def channels(self) -> tuple[int, ...]:
        """As many entries as there are channels, for the compiled loops."""
        return (0,) * self.level.channels

    @property
    def corners(self) -> int:
        """Rows of A'G: two for each vertex."""
        return 2 * self.level.shape.landmarks

    def blocks(self, count: int, fields: int) -> Float32:
        """Room for `(count, V, c, fields, LANES)`."""
        return empty(count, self.layout.vectors, self.level.channels, fields, LANES)

    def warped(self, image: Float32, shape: Floats) -> Float32:
        """The image at all pixels that matter `(k, c)`."""
        corners = np.asarray(shape, dtype=np.float64)
        if image.shape[2] != self.level.channels or not image.size or corners.shape != (self.corners // 2, 2):
            raise ValueError(
                f"an image of {image.shape} with a shape of {corners.shape} does not match this level."
            )
        if len(self.offsets):
            return np.asarray(mesh_loops.shift(image, corners, self.vertices, self.offsets, self.channels))
        return np.asarray(mesh_loops.warp(image, corners, self.vertices, self.weights, self.channels))

    def spread(self, values: Floats) -> Float32:
        """Values at the chosen pixels `(f c,)` as a block `(V, c, 1, LANES)`."""
        out: Float32 = self.blocks(1, 1)[0]
        table = np.ascontiguousarray(values.reshape(-1, self.level.channels), dtype=np.float32)
        mesh_loops.residuals(table, self.layout.own, np.zeros_like(out), out, 0, self.channels)
        return out

    def gathered(self, block: Float32) -> Float32:
        """A block `(V, c, LANES)` as values at the chosen pixels `(f, c)`."""
        return np.asarray(mesh_loops.gather(block, self.layout.own, len(self.chosen), self.channels))

    def slopes(self, values: Floats) -> Float32:
        """Slopes `(V, c, 2, LANES)` of values `(k, c)`."""
        out: Float32 = self.blocks(1, 2)[0]
        table = np.ascontiguousarray(values.reshape(-1, self.level.channels), dtype=np.float32)
        mesh_loops.slopes(table, self.neighbours, self.steps, out, self.channels)
        return out

    def gram(self, one: Float32, other: Float32) -> Float64:
        """J'J `(n, n)` of two sets of slopes, which are fields 0 and 1 of blocks."""
        return self._between(mesh_loops.slope_products(one, other))

    def moments(self, slopes: Float32, values: Float32, field: int) -> Float64:
        """J'e `(n,)` from slopes and a field of values, both blocks."""
        layout, S = self.layout, self.level.shape.basis
        sums = mesh_loops.value_products(slopes, values, field)
        return np.asarray(mesh_loops.moments(sums, self.shares, layout.starts, layout.corners, len(S)) @ S)

    def bent(self, whole: Float32, along: Float32) -> Float64:
        """Σ y W'∇²W `(n, n)` for values on the whole frame `(., c)` and y at the chosen pixels `(f, c)`."""
        stencil = self.motion.frame.stencil
        return self._between(
            mesh_loops.bends(whole, *stencil, self.chosen, self.layout.own, along, self.channels)
        )

    def _between(self, products: Float32) -> Float64:
        """S'G'(products)G S `(n, n)` for one 2 x 2 matrix a pixel, `(4, V · LANES)`."""
        layout, S = self.layout, self.level.shape.basis
        inner = mesh_loops.gram(products, self.shares, layout.starts, layout.corners, len(S))
        return np.asarray(S.T @ inner @ S)

    def on_frame(self) -> Mesh:
        """The same pixels, among values on the whole frame."""
        if self.everywhere:
            return self
        lanes = self.chosen[np.maximum(self.layout.own, 0)]
        neighbours, _ = self.motion.frame.stencil
        return replace(
            self,
            vertices=self.motion.vertices.view(np.uint32),
            weights=self.motion.weights,
            offsets=_offsets(self.motion),
            own=np.where(self.layout.own >= 0, lanes, -1).astype(np.int32),
            neighbours=_by_lane(neighbours[:, :, lanes]),
        )


def make_mesh(level: Level, pixels: Int32 | None) -> Mesh:
    """The mesh of a level with a sparse motion, on all of its pixels or on some of them (rows, ascending)."""
    motion = level.motion
    assert isinstance(motion, Sparse)
    neighbours, steps = motion.frame.stencil
    everything = np.arange(len(motion.frame.pixels), dtype=np.int32)
    chosen = everything if pixels is None else np.asarray(pixels, dtype=np.int32)
    support = everything
    if pixels is not None:
        support = np.unique(np.concatenate([chosen, neighbours[:, :, chosen].ravel()]))
    place = np.zeros(len(everything), dtype=np.int32)
    place[support] = np.arange(len(support), dtype=np.int32)
    layout = make_layout(motion, chosen)
    lanes = chosen[np.maximum(layout.own, 0)]
    offsets = _offsets(motion)
    return Mesh(
        level=level,
        layout=layout,
        chosen=chosen,
        everywhere=pixels is None,
        vertices=motion.vertices[support].view(np.uint32),
        weights=np.ascontiguousarray(motion.weights[support]),
        offsets=np.ascontiguousarray(offsets[support]) if len(offsets) else offsets,
        own=np.where(layout.own >= 0, place[lanes], -1).astype(np.int32),
        neighbours=_by_lane(place[neighbours[:, :, lanes]]),
        steps=np.ascontiguousarray(np.moveaxis(steps[:, lanes] * (layout.own >= 0), 0, -1)),
        shares=np.ascontiguousarray(np.moveaxis(layout.weights, 1, 0)).reshape(layout.corners.shape[1], -1),
    )


def _offsets(motion: Sparse) -> Float64:
    """From their landmark to the pixels of patches `(f, 2)`; a mesh has none."""
    return motion.offsets if isinstance(motion, Patches) else np.zeros((0, 2))


def _by_lane(neighbours: Int32) -> UInt32:
    return np.ascontiguousarray(np.moveaxis(neighbours, (0, 1), (-2, -1)), dtype=np.uint32)
