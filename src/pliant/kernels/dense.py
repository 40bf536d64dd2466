"""A level whose pixels move with every vertex, as those of a spline do: there is nothing sparse to keep.

A row of Ji is the slopes of one channel of a pixel times dW/dp of that pixel, `(2, n)`, which all of its channels
share. So A'Ji = Σ (Σ A ∇i) dW/dp, the inner sum over channels and the outer one over pixels: the pass over A takes
as many products as that of a mesh, and leaves two numbers for each pixel and component. These are multiplied with
dW/dp by BLAS, some panels at a time, while they are in the cache. For each element of A, that is 2 + 2n / c
products instead of n, and Ji is never written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any

import numpy as np

from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.compiled import compiled
from pliant.kernels import mesh_loops
from pliant.kernels.basis_pass import LANES, pass_by_pixel, pass_over_slopes_by_pixel
from pliant.kernels.mesh import Mesh, make_mesh
from pliant.kernels.panels import empty
from pliant.level import Level
from pliant.motion import jacobian

_ROOM = 2**18
"""Numbers that a pass leaves of one image before BLAS takes them: 1 MB, the size of a second cache."""


@dataclass(frozen=True, eq=False)
class DenseMesh(Mesh):
    """A mesh for the neighbours and the order of pixels alone: these move with all vertices.

    `matrix (k, v)` has the rows of B for the pixels that images are warped to, and `warp (V, 2, LANES, n)` is dW/dp
    at the chosen ones, zero where a lane has none.
    """

    matrix: Float64
    warp: Float32

    @property
    def rows(self) -> int:
        return self.level.shape.parameters

    def look(self, image: Float32, shape: Floats, mean: Float32, out: Float32, *, slopes: bool) -> Float32:
        values = self.warped(image, shape)
        mesh_loops.spread(values, self.own, mean, self.neighbours, self.steps, slopes, out, self.channels)
        return values

    def warped(self, image: Float32, shape: Floats) -> Float32:
        places = self.matrix @ self.checked(image, shape)
        return np.asarray(mesh_loops.read(image, places, self.channels))

    def grams(self, one: Float32, other: Float32) -> Float64:
        pairs = zip(one, _for_each(other, len(one)), strict=True)
        return np.stack([self._between(mesh_loops.slope_products(*pair)) for pair in pairs])

    def moments(self, slopes: Float32, values: Float32, field: int) -> Float64:
        pairs = zip(_for_each(slopes, len(values)), values, strict=True)
        return np.stack([self._moments(*pair, field) for pair in pairs])

    def _moments(self, slopes: Float32, values: Float32, field: int) -> Float64:
        sums = mesh_loops.value_products(slopes, values, field).reshape(2, -1, LANES)
        return np.asarray(np.swapaxes(sums, 0, 1).reshape(-1) @ self._table, dtype=np.float64)

    def pass_with_slopes(
        self, A: Float32, seen: Float32, c: Float32, a: Float32, G: Float64, E: Float64, span: tuple[int, int]
    ) -> None:
        for part, kept in self._parts(span, len(seen), E.shape[1]):
            pass_by_pixel(A, self.layout.starts, seen, c, a, kept, E, part, self.channels)
            self._add(G, kept, part)

    def pass_over_slopes(self, A: Float32, r: Float32, G: Float64, span: tuple[int, int]) -> None:
        for part, kept in self._parts(span, len(r), G.shape[2]):
            pass_over_slopes_by_pixel(A, self.layout.starts, r, kept, part, self.channels)
            self._add(G, kept, part)

    def by_parameter(self, G: Float64) -> Float64:
        return np.swapaxes(G, 1, 2)

    def at_lanes(self) -> Float32:
        return np.swapaxes(self.warp, 1, 2)

    def on_frame(self) -> Mesh:
        if self.everywhere:
            return self
        mesh = super().on_frame()
        assert isinstance(mesh, DenseMesh)
        return replace(mesh, matrix=self.level.motion.matrix())

    @property
    def _table(self) -> Float32:
        """dW/dp as a table `(V · 2 · LANES, n)`."""
        return self.warp.reshape(-1, self.rows)

    def _between(self, products: Float32) -> Float64:
        """Σ W'(products)W `(n, n)` for one 2 x 2 matrix a pixel, `(4, V · LANES)`."""
        turned = np.asarray(_turned(products, self.warp)).reshape(-1, self.rows)
        return np.asarray(self._table.T @ turned, dtype=np.float64)

    def _parts(
        self, span: tuple[int, int], images: int, modes: int
    ) -> Iterator[tuple[tuple[int, int], Float32]]:
        """Parts of a span of panels, each with room for what its pass leaves, `(b, m, vectors, 2, LANES)`.

        They are the same for any number of images, and so is what comes of an image, to the last bit.
        """
        starts, most = self.layout.starts, _ROOM // max(modes * 2 * LANES, 1)
        room = empty(0)
        first = span[0]
        while first < span[1]:
            last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
            last = min(max(last, first + 1), span[1])
            shape = (images, modes, int(starts[last] - starts[first]), 2, LANES)
            count = int(np.prod(shape))
            room = room if room.size >= count else empty(count)
            yield (first, last), room[:count].reshape(shape)
            first = last

    def _add(self, G: Float64, kept: Float32, part: tuple[int, int]) -> None:
        """Add what a pass has kept, times dW/dp, to `G (b, n, m)`: in float32 in a part, in float64 over all."""
        first, last = (self.layout.starts[number] for number in part)
        warp = self.warp[first:last].reshape(-1, self.rows)
        G += np.swapaxes(kept.reshape(*kept.shape[:2], len(warp)) @ warp, 1, 2)


def _for_each(sets: Float32, images: int) -> Iterator[Float32]:
    """Slopes `(V, c, ., LANES)` of each image, which may be the same for all."""
    return iter(sets) if len(sets) == images else repeat(sets[0], images)


def dense_mesh(level: Level, pixels: Int32 | None) -> DenseMesh:
    """The mesh of a level with a spline, on all of its pixels or on some of them (rows, ascending)."""
    mesh = make_mesh(level, pixels)
    motion, own = level.motion, mesh.layout.own
    warp = empty(len(own), 2, LANES, level.shape.parameters)
    lanes = jacobian(motion, level.shape)[mesh.chosen[np.maximum(own, 0)]]
    warp[...] = np.swapaxes(lanes * (own >= 0)[:, :, None, None], 1, 2)
    return DenseMesh(
        **{field.name: getattr(mesh, field.name) for field in fields(mesh)},
        matrix=motion.matrix() if mesh.everywhere else motion.matrix()[mesh.support],
        warp=warp,
    )


@compiled(fastmath=True)
def _turned(products: Any, warp: Any) -> Any:
    """dW/dp `(V, 2, LANES, n)`, multiplied with one 2 x 2 matrix a pixel, `(4, V · LANES)`."""
    out = np.empty_like(warp)
    for v in range(len(warp)):
        for lane in range(LANES):
            place = v * LANES + lane
            xx, xy, yx, yy = products[0, place], products[1, place], products[2, place], products[3, place]
            along_x, along_y = warp[v, 0, lane], warp[v, 1, lane]
            for k in range(warp.shape[3]):
                out[v, 0, lane, k] = xx * along_x[k] + xy * along_y[k]
                out[v, 1, lane, k] = yx * along_x[k] + yy * along_y[k]
    return out
