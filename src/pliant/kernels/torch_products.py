"""Products with the appearance basis A on a device: A'J for many images at once, at a precision of one's choice.

A piecewise affine warp moves a pixel with three vertices, so A'J is the sum over triangles and corners of
(A w)'g S, where w are the pixels' weights for a corner, g the slopes of the images and S the rows of the shape
basis of that corner. With A w computed once for each corner, a triangle is one matrix product for all images and
modes, which is what matrix units are for. It takes six columns an image instead of the n of a dense Jacobian, and
no Jacobian is written to memory. Triangles of about the same size are padded to the same one, and share a batched
product. In patches there is one corner. A spline moves every pixel with every vertex: there, J is built, a few
images at a time.

Products in float32 are exact to rounding; `tf32` rounds both sides to 11 bits. Where there are compiled loops,
`torch_halves.py` makes most products of either precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.devices import matrix_units
from pliant.motion import Motion, Sparse
from pliant.namespace import Array, namespace

Precision = Literal["float32", "tf32"]

_PADDED_TO = 8
"""Pixels of a triangle are padded to a multiple of this: larger ones waste arithmetic, smaller ones launches."""

MODES_PADDED_TO = 16
"""And modes to a multiple of this: matrix units read rows that begin at multiples of 16 bytes, and no others."""


@dataclass(frozen=True, eq=False)
class PixelOrder:
    """The order in which a device has the f chosen pixels: `places (f',)` among them, or -1 where it is padded.

    `buckets` are triangles or patches of one padded size each: their numbers, where their pixels begin, and how
    many each has. A spline has none, and its pixels are in their own order.
    """

    places: NDArray[np.int64]
    buckets: tuple[tuple[NDArray[np.int64], int, int], ...] = ()

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values `(..., f)` as `(..., f')`, with zeros where it is padded."""
        return np.where(self.places >= 0, values[..., np.maximum(self.places, 0)], 0).astype(values.dtype)

    def spread_channels(self, values: NDArray[Any], channels: int) -> NDArray[Any]:
        """Values `(..., f c)` as `(..., f' c)`, with zeros where it is padded."""
        by_pixel = values.reshape(*values.shape[:-1], -1, channels)
        out = np.zeros((*values.shape[:-1], len(self.places), channels), dtype=values.dtype)
        out[..., self.places >= 0, :] = by_pixel[..., self.places[self.places >= 0], :]
        return out.reshape(*values.shape[:-1], -1)

    def triangles(self) -> Iterator[tuple[int, int, int]]:
        """Triangles or patches that have pixels: their numbers, where their pixels begin, and how many they are."""
        for numbers, begin, size in self.buckets:
            for k, number in enumerate(numbers.tolist()):
                yield number, begin + k * size, size


def pixel_order(motion: Motion, chosen: NDArray[np.int64], padded_to: int | None = None) -> PixelOrder:
    """The order of chosen pixels (rows of the frame, ascending, and so sorted by triangle or patch)."""
    if not isinstance(motion, Sparse):
        return PixelOrder(np.arange(len(chosen)))
    bounds = np.searchsorted(chosen, motion.frame.first_pixel)
    counts = np.diff(bounds)
    padded_to = padded_to or _PADDED_TO
    padded = -(-counts // padded_to) * padded_to
    places, buckets, begin = [], [], 0
    for size in np.unique(padded[padded > 0]).tolist():
        numbers = np.flatnonzero(padded == size)
        buckets.append((numbers, begin, size))
        for number in numbers:
            own = np.full(size, -1, dtype=np.int64)
            own[: counts[number]] = np.arange(bounds[number], bounds[number + 1])
            places.append(own)
        begin += size * len(numbers)
    return PixelOrder(np.concatenate(places), tuple(buckets))


@dataclass(frozen=True, eq=False)
class Factor:
    """The right side `(k, j)` of products that are made many times. Its columns lie together in memory.

    There may be several, `(T, k, j)`, for as many left sides `(T, B, k)`.
    """

    right: Array
    precision: Precision

    def times(self, left: Array) -> Array:
        """Left `(B, k)` times this: `(B, j)`."""
        with matrix_units(self.precision == "tf32"):
            return of_long_rows(left, self.right)


@dataclass(frozen=True, eq=False)
class Blend:
    """Appearances abar + A c on the whole frame, of a `mean (F c,)` and `components (m, F c)`."""

    mean: Array
    components: Factor

    def of(self, c: Array) -> Array:
        """Appearances `(B, F c)` of coordinates `(B, m)`."""
        return self.components.times(c) + self.mean


def of_long_rows(left: Array, right: Array) -> Array:
    """Left `(B, k)` times right `(k, j)`: if k is large, in pieces whose products are added up at the end.

    Pieces keep all of a device busy where j is small, and keep the sums short that matrix units round.
    """
    k = left.shape[1]
    pieces = next((count for count in (64, 32, 16, 8) if k % count == 0 and k // count >= 256), 1)
    if pieces == 1:
        return left @ right
    apart = left.unflatten(1, (pieces, k // pieces)).transpose(0, 1)
    return (apart @ right.unflatten(0, (pieces, k // pieces))).sum(axis=0)


def factor(right: Array, precision: Precision) -> Factor:
    """The factor of `right`, which is `(k, j)` or `(T, k, j)`."""
    return Factor(right.mT.contiguous().mT, precision)


@dataclass(frozen=True, eq=False)
class _Bucket:
    """Columns of T triangles in slopes `(B, f' c)`, and A w for their corners, `(T, columns / T, corners m')`."""

    columns: slice
    weighted: Factor

    def of(self, flat: Array) -> Array:
        """The columns of each triangle, `(T, B, columns / T)`."""
        return flat[:, self.columns].unflatten(1, (len(self.weighted.right), -1)).transpose(0, 1)


@dataclass(frozen=True, eq=False)
class GroupedProduct:
    """A'J of a sparse motion. `corners (2, k, T, n)` are rows of the shape basis, by axis, corner and triangle."""

    buckets: Sequence[_Bucket]
    corners: Array
    modes: int

    def __call__(self, g: Array) -> Array:
        """A'J `(B, m, n)` for slopes `(2, B, f', c)`."""
        xp, batch = namespace(g), g.shape[1]
        flat, m = g.reshape(2 * batch, -1), padded(self.modes)
        count, triangles, n = self.corners.shape[1:]
        sums = xp.empty((triangles, 2 * batch, count * m), dtype=g.dtype, device=g.device)
        with matrix_units(self.buckets[0].weighted.precision == "tf32"):
            begin = 0
            for bucket in self.buckets:
                right = bucket.weighted.right
                xp.bmm(bucket.of(flat), right, out=sums[begin : begin + len(right)])
                begin += len(right)
        total = xp.zeros((batch, n, m), dtype=g.dtype, device=g.device)
        with matrix_units(False):
            for axis in (0, 1):
                for corner in range(count):
                    rows = self.corners[axis, corner].T.expand(batch, -1, -1)
                    part = sums[:, axis * batch : (axis + 1) * batch, corner * m : (corner + 1) * m]
                    total.baddbmm_(rows, part.transpose(0, 1))
        return total.mT[:, : self.modes]


@dataclass(frozen=True, eq=False)
class DenseProduct:
    """A'J of a motion that moves every pixel with every vertex; `warp (2, f, n)` is dW/dp."""

    basis: Factor
    warp: Array
    most_bytes: int = 2**30

    def __call__(self, g: Array) -> Array:
        """A'J `(B, m, n)` for slopes `(2, B, f, c)`."""
        xp = namespace(g)
        _, batch, f, channels = g.shape
        n = self.warp.shape[-1]
        some = max(1, self.most_bytes // (4 * n * f * channels))
        parts = []
        for start in range(0, batch, some):
            x, y = g[:, start : start + some]
            J = x[:, None] * self.warp[0].T[:, :, None] + y[:, None] * self.warp[1].T[:, :, None]
            parts.append(self.basis.times(J.reshape(-1, f * channels)).reshape(len(x), n, -1))
        return xp.concatenate(parts).mT


def product_with(
    motion: Motion,
    shape_basis: Float64,
    order: PixelOrder,
    weights: Array,
    basis: Array,
    warp: Array,
    precision: Precision,
) -> Callable[[Array], Array]:
    """A'J for slopes at pixels in a device's order, where `basis (m, f' c)` is A, and `warp (2, f', n)` dW/dp.

    `weights (f', k)` are the pixels' shares of their corners; splines have none.
    """
    import torch

    if not isinstance(motion, Sparse):
        return DenseProduct(factor(basis.T, precision), warp)
    S = torch.as_tensor(np.array(shape_basis).reshape(-1, 2, shape_basis.shape[1]), dtype=torch.float32)
    channels = basis.shape[1] // len(order.places)
    full = torch.nn.functional.pad(basis, (0, 0, 0, padded(len(basis)) - len(basis)))
    m = len(full)
    buckets, corners = [], []
    for numbers, begin, size in order.buckets:
        count = len(numbers)
        own = full[:, begin * channels : (begin + size * count) * channels].reshape(m, count, size, channels)
        shares = weights[begin : begin + size * count].reshape(count, size, 1, -1)
        # From (m, T, size, c) and (T, size, 1, k) to (T, size c, k m).
        weighted = own.permute(1, 2, 3, 0)[:, :, :, None] * shares[..., None]
        right = weighted.reshape(count, size * channels, -1)
        columns = slice(begin * channels, (begin + size * count) * channels)
        buckets.append(_Bucket(columns, factor(right, precision)))
        corners.append(S[torch.as_tensor(np.array(motion.corners[numbers], dtype=np.int64))])
    # From (T, k, 2, n) to (2, k, T, n).
    by_axis = torch.cat(corners).permute(2, 1, 0, 3).contiguous().to(basis.device)
    return GroupedProduct(buckets, by_axis, len(basis))


def padded(modes: int) -> int:
    return -(-modes // MODES_PADDED_TO) * MODES_PADDED_TO


def padded_columns(right: Array) -> Array:
    """A right side `(k, j)` with columns of zeros, for matrix units."""
    xp = namespace(right)
    return xp.nn.functional.pad(right, (0, padded(right.shape[1]) - right.shape[1]))
