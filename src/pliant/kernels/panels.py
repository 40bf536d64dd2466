"""Where the pixels of a level lie in memory: in vectors of one triangle or patch each, and vectors in panels."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pliant.arrays import Float32, Floats, Int32
from pliant.compiled import compiled
from pliant.kernels.basis_pass import LANES
from pliant.motion import Sparse

_VECTORS = 8
"""Vectors in a panel at most: with 8 channels, the slopes of an image there and a component of A, which are read
again and again, leave room in a first cache of 32 KB."""

_CACHE_LINE = 64


@dataclass(frozen=True, eq=False)
class Layout:
    """The order of pixels in blocks: V vectors of LANES pixels, padded so that none has two triangles or patches.

    `own (V, LANES)` is the pixel of every lane, or -1; vectors `starts[k]` to `starts[k + 1]` are panel k, which
    lies in a triangle with the three vertices `corners[k]`, and `weights (V, 3, LANES)` are barycentric. A patch
    has one vertex instead of three, and its weight is one.
    """

    own: Int32
    starts: Int32
    corners: Int32
    weights: Float32

    @property
    def vectors(self) -> int:
        return len(self.own)

    @property
    def panels(self) -> int:
        return len(self.corners)


def make_layout(motion: Sparse, chosen: Int32) -> Layout:
    """The layout of chosen pixels (rows of the frame, ascending, and so sorted by triangle or patch)."""
    bounds = np.searchsorted(chosen, motion.frame.first_pixel)
    own: list[Int32] = []
    starts, corners = [0], []
    for moved_by, (first, last) in zip(motion.corners, pairwise(bounds), strict=True):
        vectors = -(-(last - first) // LANES)
        lanes = np.full((vectors, LANES), -1, dtype=np.int32)
        lanes.reshape(-1)[: last - first] = np.arange(first, last)
        for part in np.array_split(lanes, -(-vectors // _VECTORS)) if vectors else []:
            own.append(part)
            corners.append(moved_by)
            starts.append(starts[-1] + len(part))
    table = np.concatenate(own)
    weights = np.zeros((*table.shape, motion.corners.shape[1]), dtype=np.float32)
    weights[table >= 0] = motion.weights[chosen]
    return Layout(
        own=table,
        starts=np.array(starts, dtype=np.int32),
        corners=np.array(corners, dtype=np.int32),
        weights=aligned(np.moveaxis(weights, 2, 1)),
    )


def pack(component: Callable[[int], Float32], modes: int, layout: Layout, jobs: int) -> Float32:
    """Components, each given as a block `(V, c, k, LANES)`, in the order in which a pass reads them."""
    out = empty(modes * component(0).size if modes else 0)
    with ThreadPoolExecutor(jobs) as pool:
        place = lambda number: _place(component(number), layout.starts, number, modes, out)  # noqa: E731
        list(pool.map(place, range(modes)))
    return out


@compiled()
def _place(block: Float32, starts: Int32, number: int, modes: int, out: Float32) -> None:
    values = block.reshape(-1)
    size = len(values) // len(block)
    for panel in range(len(starts) - 1):
        first, last = starts[panel] * size, starts[panel + 1] * size
        begin = first * modes + number * (last - first)
        for q in range(last - first):
            out[begin + q] = values[first + q]


def empty(*shape: int) -> Float32:
    """Uninitialised float32 that begins with a cache line: a vector's load then touches one line, not two."""
    count = int(np.prod(shape))
    room = np.empty(count + _CACHE_LINE // 4, dtype=np.float32)
    skip = -room.ctypes.data % _CACHE_LINE // 4
    return room[skip : skip + count].reshape(shape)


def aligned(values: Floats) -> Float32:
    """The same values in float32, beginning with a cache line."""
    out = empty(*values.shape)
    out[...] = values
    return out
