"""A level of triangles or patches as the compiled loops see it: pixels in panels, neighbours, and small sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.kernels import mesh_loops
from pliant.kernels.basis_pass import LANES, pass_over_slopes, pass_with_slopes
from pliant.kernels.panels import Layout, empty, make_layout
from pliant.level import Level
from pliant.motion import Patches, Sparse, in_triangles

UInt32 = NDArray[np.uint32]
"""Indices into arrays: compiled code need not ask whether they count from the end."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """How pixels move with the few vertices of their triangle or patch, and which pixels lie beside them.

    It has all pixels of a level (`everywhere`) or the `chosen (f,)`. Images are warped to k pixels, the chosen ones
    and their neighbours, which are the rows `support (k,)` of the frame: between `vertices (k, 3)` with barycentric
    `weights (k, 3)`, or in patches at `offsets (k, 2)` from `vertices (k, 1)`. Among these pixels, `own (V, LANES)`
    are the chosen ones, in the layout's order, and slopes are differences of `neighbours (V, LANES, 2, 2)`, along x
    and y, before and after, times `steps (V, LANES, 2)`. `shares (3, V · LANES)` are the layout's weights, corner
    by corner. `motion` is the level's; for a spline it is the affine one of its triangles, and kernels/dense.py has
    the rest.
    """

    level: Level
    motion: Sparse
    layout: Layout
    chosen: Int32
    everywhere: bool
    support: Int32
    vertices: UInt32
    weights: Float64
    offsets: Float64
    own: Int32
    neighbours: UInt32
    steps: Float32
    shares: Float32

    @property
    def channels(self) -> tuple[int, ...]:
        """As many entries as there are channels, for the compiled loops."""
        return (0,) * self.level.channels

    @property
    def rows(self) -> int:
        """Rows of what a pass with slopes adds up, A'G: two for each vertex."""
        return 2 * self.level.shape.landmarks

    def blocks(self, count: int, fields: int) -> Float32:
        """Room for `(count, V, c, fields, LANES)`."""
        return empty(count, self.layout.vectors, self.level.channels, fields, LANES)

    def look(self, image: Float32, shape: Floats, mean: Float32, out: Float32, *, slopes: bool) -> Float32:
        """The image at all pixels that matter `(k, c)`; slopes, if wanted, and then i - abar go to a block."""
        loops = (self.own, mean, self.neighbours, self.steps, slopes, out, self.channels)
        corners = self.checked(image, shape)
        return np.asarray(mesh_loops.look(image, corners, self.vertices, self.weights, self.offsets, *loops))

    def warped(self, image: Float32, shape: Floats) -> Float32:
        """The image at all pixels that matter `(k, c)`."""
        corners = self.checked(image, shape)
        if len(self.offsets):
            return np.asarray(mesh_loops.shift(image, corners, self.vertices, self.offsets, self.channels))
        return np.asarray(mesh_loops.warp(image, corners, self.vertices, self.weights, self.channels))

    def checked(self, image: Float32, shape: Floats) -> Float64:
        """The shape `(v, 2)`, or a sentence: compiled loops do not ask whether an index is in its array."""
        vertices, landmarks = np.asarray(shape, dtype=np.float64), self.level.shape.landmarks
        if image.shape[2] != self.level.channels or not image.size or vertices.shape != (landmarks, 2):
            raise ValueError(
                f"an image of {image.shape} with a shape of {vertices.shape} does not match this level."
            )
        return vertices

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

    def slopes_of_all(self, blocks: Float32) -> Float32:
        """Slopes `(b, V, c, 2, LANES)` of blocks `(b, V, c, LANES)`, which have all pixels."""
        out, own = self.blocks(len(blocks), 2), self.layout.own
        mesh_loops.slopes_of_all(
            blocks, own, len(self.chosen), self.neighbours, self.steps, out, self.channels
        )
        return out

    def grams(self, one: Float32, other: Float32) -> Float64:
        """J'J `(b, n, n)` of sets of slopes, which are fields 0 and 1 of blocks; `other` may be one set for all."""
        layout, S = self.layout, self.level.shape.basis
        return self._on_shapes(
            mesh_loops.grams(one, other, self.shares, layout.starts, layout.corners, len(S))
        )

    def moments(self, slopes: Float32, values: Float32, field: int) -> Float64:
        """J'e `(b, n)` from slopes, which may be one set for all, and a field of values, all of them blocks."""
        layout, S = self.layout, self.level.shape.basis
        sums = mesh_loops.moments_of_all(
            slopes, values, field, self.shares, layout.starts, layout.corners, len(S)
        )
        return np.asarray((sums[:, None] @ S)[:, 0])

    def bent(self, whole: Float32, along: Float32) -> Float64:
        """Σ y W'∇²W `(n, n)` for values on the whole frame `(., c)` and y at the chosen pixels `(f, c)`."""
        stencil = self.motion.frame.stencil
        return self._between(
            mesh_loops.bends(whole, *stencil, self.chosen, self.layout.own, along, self.channels)
        )

    def _between(self, products: Float32) -> Float64:
        """S'G'(products)G S `(n, n)` for one 2 x 2 matrix a pixel, `(4, V · LANES)`."""
        layout, size = self.layout, len(self.level.shape.basis)
        out = np.zeros((size, size))
        mesh_loops.gram(products, self.shares, layout.starts, layout.corners, out)
        return self._on_shapes(out)

    def _on_shapes(self, on_vertices: Float64) -> Float64:
        """S'G'G S `(..., n, n)`."""
        S = self.level.shape.basis
        return np.asarray(S.T @ on_vertices @ S)

    def pass_with_slopes(
        self, A: Float32, seen: Float32, c: Float32, a: Float32, G: Float64, E: Float64, span: tuple[int, int]
    ) -> None:
        """Add A'G to `G (b, rows, m)`: kernels/basis_pass.py."""
        panels = (self.layout.starts, self.layout.corners, self.layout.weights)
        pass_with_slopes(A, *panels, seen, c, a, G, E, span, self.channels)

    def pass_over_slopes(self, A: Float32, r: Float32, G: Float64, span: tuple[int, int]) -> None:
        """Add JA'r to `G (b, rows, m)`: kernels/basis_pass.py."""
        panels = (self.layout.starts, self.layout.corners, self.layout.weights)
        pass_over_slopes(A, *panels, r, G, span, self.channels)

    def by_parameter(self, G: Float64) -> Float64:
        """What a pass with slopes has added up `(b, rows, m)`, as A'J `(b, m, n)`."""
        return np.asarray(np.swapaxes(G, 1, 2) @ self.level.shape.basis)

    def at_lanes(self) -> Float32:
        """dW/dp at every lane `(V, LANES, 2, n)`."""
        layout, shape = self.layout, self.level.shape
        basis = shape.basis.reshape(-1, 2, shape.parameters)
        corners = np.repeat(layout.corners, np.diff(layout.starts), axis=0)
        weights = np.moveaxis(layout.weights, 1, 0)
        warp = np.einsum("kvl,vkan->vlan", weights, basis[corners], optimize=True)
        return np.asarray(warp, dtype=np.float32)

    def on_frame(self) -> Mesh:
        """The same pixels, among values on the whole frame."""
        if self.everywhere:
            return self
        lanes = self.chosen[np.maximum(self.layout.own, 0)]
        neighbours, _ = self.motion.frame.stencil
        return replace(
            self,
            support=np.arange(len(self.motion.frame.pixels), dtype=np.int32),
            vertices=self.motion.vertices.view(np.uint32),
            weights=self.motion.weights,
            offsets=_offsets(self.motion),
            own=np.where(self.layout.own >= 0, lanes, -1).astype(np.int32),
            neighbours=_by_lane(neighbours[:, :, lanes]),
        )


def make_mesh(level: Level, pixels: Int32 | None) -> Mesh:
    """The mesh of a level, on all of its pixels or on some of them (rows, ascending)."""
    motion = in_triangles(level.motion)
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
        motion=motion,
        layout=layout,
        chosen=chosen,
        everywhere=pixels is None,
        support=support,
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
