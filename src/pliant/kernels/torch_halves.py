"""Products on the matrix units of a GPU, with numbers as one or two halves: a kernel of Triton.

A float32 x is a half (11 bits, as in TF32) and a rest, which is another half. Together they leave out little more
than float32 itself rounds off. A product of two such numbers takes three products of halves: only that of the
rests is left out. A half alone has the bits of TF32 in half of the memory, and is multiplied twice as fast.

Matrix units cut off what they add to a long sum: with 6,336 terms, 5e-5 of the sum were missing on an H200, where
float32 misses 1e-7. So products with rests add up 64 terms at a time there, and those sums in float32. On faces,
A'e and A'J are then nearer to those of float64 (1.5e-7 and 2.8e-7 of their size) than with the library's float32
(1.7e-7 and 3.0e-7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from pliant.arrays import Float64
from pliant.devices import matrix_units
from pliant.kernels.torch_products import PixelOrder
from pliant.motion import Sparse

BLOCK = 64
"""Columns of the left side that are read at once; a group is made of such blocks."""

_ROWS_TOGETHER = 1024
"""Rows that go through all groups before the next: what groups share of them stays in the cache."""

_GROUPS_OF_A_SUM = 32
"""Groups that a long sum is made of: enough for all of a device to work on few rows."""


LARGEST = 65_000.0
"""About the largest number that a half can hold."""

_COORDINATE = 8.0
"""What coordinates of appearance in standard deviations are multiplied by."""


class Halves(NamedTuple):
    """Numbers `(rows, columns)` times `scale`, as halves; `rest` is None where 11 bits are enough."""

    coarse: Any
    rest: Any | None
    scale: float

    def whole(self) -> Any:
        """The numbers in float32."""
        values = self.coarse.float()
        return (values if self.rest is None else values + self.rest.float()) / self.scale


def halves(values: Any, *, rest: bool) -> Halves:
    """Float32 values as halves, with the rest or without."""
    scale = scale_for(values)
    scaled = values * scale
    coarse = scaled.half()
    return Halves(coarse, (scaled - coarse.float()).half() if rest else None, scale)


def scale_for(values: Any) -> float:
    """The power of two that brings values to about 8 on average: halves go from 6e-8 to 65,504."""
    size = float(values.double().square().mean().sqrt()) if values.numel() else 0.0
    return 1.0 if not size > 0 else 2.0 ** round(3 - math.log2(size))


@dataclass(frozen=True, eq=False)
class GroupedHalves:
    """Many products with the same left side, each with some of its columns.

    Group k has the blocks of columns `blocks[starts[k] : starts[k + 1]]`, each of `BLOCK` columns, and as many
    rows of `right (K, N)`.
    """

    right: Halves
    blocks: Any
    starts: Any

    def times(self, left: Halves) -> Any:
        """The products `(groups, rows, N)`, in float32, of a left side `(rows, columns)`."""
        rows = len(left.coarse)
        groups, width = len(self.starts) - 1, self.right.coarse.shape[1]
        out = torch.empty(groups, rows, width, device=left.coarse.device)
        split = left.rest is not None and self.right.rest is not None
        tall, wide, stages = _tiles(width, split, left.coarse.device)
        together = min(_ROWS_TOGETHER, triton.cdiv(rows, tall) * tall)
        grid = (together // tall * (width // wide), groups, triton.cdiv(rows, together))
        _grouped[grid](
            _in_tiles(left.coarse, (tall, BLOCK)),
            _in_tiles(left.rest if split else left.coarse, (tall, BLOCK)),
            _in_tiles(self.right.coarse, (BLOCK, wide)),
            _in_tiles(self.right.rest if split else self.right.coarse, (BLOCK, wide)),
            out,
            self.blocks,
            self.starts,
            rows,
            width,
            together,
            1 / (left.scale * self.right.scale),
            SPLIT=split,
            TALL=tall,
            WIDE=wide,
            DEEP=BLOCK,
            num_warps=4,
            num_stages=stages,
        )
        return out


def _in_tiles(matrix: Any, tile: tuple[int, int]) -> TensorDescriptor:
    """A matrix that is read tile by tile; where a tile reaches beyond it, there are zeros."""
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), list(tile))


def _tiles(width: int, split: bool, device: Any) -> tuple[int, int, int]:
    """Rows and columns of a program, and its stages: the fastest of those tried on an H200, if there is room."""
    tall, wide, stages = (64, min(width, 128), 3) if split else (128, min(width, 128), 5)
    bytes_each = 2 * BLOCK * (tall + wide) * (1 + split)
    return tall, wide, max(1, min(stages, _room_for_tiles(device) // bytes_each))


@cache
def _room_for_tiles(device: Any) -> int:
    """Bytes of memory that the threads of a program share; a little of it is taken already."""
    if device.type != "cuda":
        return 2**16
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin) - 2048


def _padded_width(columns: int) -> int:
    """How many columns a right side has: a multiple of what a program computes."""
    if columns <= 128:
        return next(width for width in (16, 32, 64, 128) if columns <= width)
    return -(-columns // 128) * 128


def _grouped_halves(right: Any, blocks: Sequence[Any], *, rest: bool) -> GroupedHalves:
    """The groups of a right side `(K, n)`, whose rows are those of all blocks, in order."""
    short = _padded_width(right.shape[1]) - right.shape[1]
    starts = np.cumsum([0, *map(len, blocks)])
    return GroupedHalves(
        halves(torch.nn.functional.pad(right, (0, short)), rest=rest),
        torch.as_tensor(np.concatenate(blocks), dtype=torch.int32, device=right.device),
        torch.as_tensor(starts, dtype=torch.int32, device=right.device),
    )


@dataclass(frozen=True, eq=False)
class LongSums:
    """Left `(B, K)` times a right side with `columns` columns, whose K is long."""

    groups: GroupedHalves
    columns: int

    def times(self, left: Halves) -> Any:
        """The product `(B, columns)`, in float32."""
        return self.groups.times(left).sum(dim=0)[:, : self.columns]


def long_sums(right: Any, *, rest: bool) -> LongSums:
    """Products with a right side `(K, columns)`; K is a multiple of `BLOCK`. With rests, no bits are left out."""
    blocks = np.array_split(np.arange(len(right) // BLOCK), _GROUPS_OF_A_SUM)
    return LongSums(_grouped_halves(right, [some for some in blocks if len(some)], rest=rest), right.shape[1])


@dataclass(frozen=True, eq=False)
class Blend:
    """Appearances abar + A c: rows of A are multiplied by their `deviations (m,)`, and the mean is one more row."""

    groups: GroupedHalves
    deviations: Any

    def of(self, c: Any) -> Any:
        """Appearances `(B, N)`, in float32, of coordinates `(B, m)`; N is padded."""
        full = torch.zeros(len(c), len(self.groups.right.coarse), device=c.device)
        full[:, : c.shape[1]] = c / self.deviations
        full[:, c.shape[1]] = 1.0
        # What a lost fit asks for is cut off, rather than infinite.
        full = full.mul_(_COORDINATE).clamp_(-LARGEST, LARGEST)
        coarse = full.half()
        rest = None if self.groups.right.rest is None else (full - coarse.float()).half()
        return self.groups.times(Halves(coarse, rest, _COORDINATE))[0]


def blend(mean: Any, components: Any, variances: Any, *, rest: bool) -> Blend:
    """Appearances of a mean `(F c,)` and components `(m, F c)` with variances `(m,)`, with rests or without."""
    m, columns = components.shape
    deviations = variances.clamp(min=1e-30).sqrt()
    depth = -(-(m + 1) // BLOCK) * BLOCK
    right = torch.zeros(depth, columns, device=mean.device)
    right[:m], right[m] = components * deviations[:, None], mean
    return Blend(_grouped_halves(right, [np.arange(depth // BLOCK)], rest=rest), deviations)


@dataclass(frozen=True, eq=False)
class VertexProduct:
    """A'J of a sparse motion: a group is the pixels that move with a vertex. `rows (2 v, n)` is the shape basis."""

    groups: GroupedHalves
    rows: Any
    modes: int

    def __call__(self, g: Halves) -> Any:
        """A'J `(B, m, n)` for slopes `(2 B, f c)`, those along x first."""
        batch = len(g.coarse) // 2
        by_vertex = self.groups.times(g).reshape(len(self.rows), -1)
        with matrix_units(False):
            product = self.rows.T @ by_vertex
        return product.reshape(len(product), batch, -1).permute(1, 2, 0)[:, : self.modes]


def vertex_product(
    motion: Sparse, shape_basis: Float64, order: PixelOrder, weights: Any, basis: Any, *, rest: bool
) -> VertexProduct:
    """A'J for slopes at pixels in a device's order, where `basis (m, f' c)` is A.

    `weights (f', k)` are the pixels' shares of their corners. Every triangle or patch fills whole blocks.
    """
    channels = basis.shape[1] // len(order.places)
    by_block = basis.reshape(len(basis), -1, BLOCK)
    shares = weights.repeat_interleave(channels, dim=0).reshape(-1, BLOCK, weights.shape[1])
    found: dict[int, list[tuple[int, int]]] = {}
    for number, first, size in order.triangles():
        every = range(first * channels // BLOCK, (first + size) * channels // BLOCK)
        for corner, vertex in enumerate(motion.corners[number].tolist()):
            found.setdefault(vertex, []).extend((block, corner) for block in every)
    # Neighbours one after the other, so that the cache has what they share.
    vertices = sorted(found, key=lambda vertex: float(motion.frame.vertices[vertex, 1]))
    right = []
    for vertex in vertices:
        block, corner = torch.as_tensor(found[vertex], device=basis.device).T
        right.append((by_block[:, block] * shares[block, :, corner]).flatten(1).T)
    blocks = [np.array([block for block, _ in found[vertex]]) for vertex in vertices]
    rows = np.array(shape_basis).reshape(-1, 2, shape_basis.shape[1])[vertices].reshape(2 * len(vertices), -1)
    return VertexProduct(
        _grouped_halves(torch.cat(right), blocks, rest=rest),
        torch.as_tensor(rows, dtype=torch.float32, device=basis.device),
        len(basis),
    )


@triton.jit
def _grouped(
    left,
    left_rest,
    right,
    right_rest,
    out,
    blocks,
    starts,
    rows,
    width,
    together,
    scale,
    SPLIT: tl.constexpr,
    TALL: tl.constexpr,
    WIDE: tl.constexpr,
    DEEP: tl.constexpr,
):
    group, across = tl.program_id(1), width // WIDE
    top = tl.program_id(2) * together + tl.program_id(0) // across * TALL
    side = tl.program_id(0) % across * WIDE
    total = tl.zeros((TALL, WIDE), tl.float32)
    for number in range(tl.load(starts + group), tl.load(starts + group + 1)):
        at = tl.load(blocks + number) * DEEP
        a = left.load([top, at])
        b = right.load([number * DEEP, side])
        if SPLIT:
            a_rest = left_rest.load([top, at])
            b_rest = right_rest.load([number * DEEP, side])
            total += tl.dot(a, b, tl.dot(a, b_rest, tl.dot(a_rest, b)))
        else:
            total = tl.dot(a, b, total)
    row, column = top + tl.arange(0, TALL), side + tl.arange(0, WIDE)
    to = out + (group.to(tl.int64) * rows + row.to(tl.int64)[:, None]) * width + column[None, :]
    tl.store(to, total * scale, mask=(row < rows)[:, None])
