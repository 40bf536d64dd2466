"""Products with the appearance basis A on a device: A'J for many images at once, at a precision of one's choice.

A piecewise affine warp moves a pixel with three vertices, so A'J is the sum over triangles and corners of
(A w)'g S, where w are the pixels' weights for a corner, g the slopes of the images and S the rows of the shape
basis of that corner. With A w computed once for each corner, a triangle is one matrix product for all images and
modes, which is what matrix units are for. It takes six columns an image instead of the n of a dense Jacobian, and
no Jacobian is written to memory. In patches there is one corner. A spline moves every pixel with every vertex:
there, J is built, a few images at a time.

Products in float32 are exact to rounding. `tf32x3` splits both sides into a part that TF32 holds and the rest, and
leaves out only the product of the rests: its errors are those of float32. `tf32` rounds both sides to 11 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pliant.arrays import Float64
from pliant.motion import Motion, Sparse
from pliant.namespace import Array, namespace

Precision = Literal["float32", "tf32x3", "tf32"]


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    import torch

    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        matmul.allow_tf32 = before


@dataclass(frozen=True, eq=False)
class Factor:
    """The right side `(k, j)` of products that are made many times, split once if the precision asks for it."""

    whole: Array
    rest: Array | None
    precision: Precision

    def times(self, left: Array, out: Array | None = None) -> Array:
        """Left `(B, k)` times this: `(B, j)`."""
        xp = namespace(left)
        with _tf32(self.precision != "float32"):
            if self.rest is None:
                return xp.mm(left, self.whole, out=out)
            coarse = truncated(left)
            out = xp.mm(left - coarse, self.whole, out=out)
            xp.addmm(out, coarse, self.rest, out=out)
            return xp.addmm(out, coarse, self.whole, out=out)


def factor(right: Array, precision: Precision) -> Factor:
    if precision != "tf32x3":
        return Factor(right, None, precision)
    coarse = truncated(right)
    return Factor(coarse, right - coarse, precision)


def truncated(values: Array) -> Array:
    """Float32 with the bits that TF32 has no room for set to zero."""
    xp = namespace(values)
    return (values.contiguous().view(xp.int32) & ~0x1FFF).view(xp.float32)


@dataclass(frozen=True, eq=False)
class _Group:
    """The columns of a triangle or patch in slopes `(B, f c)`, and A w for its corners, `(columns, corners m)`."""

    columns: slice
    weighted: Factor


@dataclass(frozen=True, eq=False)
class GroupedProduct:
    """A'J of a sparse motion. `corners (2, k, T, n)` are rows of the shape basis, by axis, corner and triangle."""

    groups: Sequence[_Group]
    corners: Array
    modes: int

    def __call__(self, g: Array) -> Array:
        """A'J `(B, m, n)` for slopes `(2, B, f, c)`."""
        xp, batch = namespace(g), g.shape[1]
        flat, m = g.reshape(2 * batch, -1), self.modes
        count, n = self.corners.shape[1], self.corners.shape[-1]
        sums = xp.empty((len(self.groups), 2 * batch, count * m), dtype=g.dtype, device=g.device)
        for group, out in zip(self.groups, sums, strict=True):
            group.weighted.times(flat[:, group.columns], out=out)
        total = xp.zeros((batch, n, m), dtype=g.dtype, device=g.device)
        with _tf32(False):
            for axis in (0, 1):
                for corner in range(count):
                    rows = self.corners[axis, corner].T.expand(batch, -1, -1)
                    part = sums[:, axis * batch : (axis + 1) * batch, corner * m : (corner + 1) * m]
                    total = xp.baddbmm(total, rows, part.permute(1, 0, 2))
        return total.mT


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
    chosen: Any,
    basis: Array,
    channels: int,
    warp: Array,
    precision: Precision,
) -> Callable[[Array], Array]:
    """A'J for slopes at the chosen pixels `(f,)`; `basis (m, f c)` is A there, and `warp (2, f, n)` is dW/dp."""
    import numpy as np
    import torch

    if not isinstance(motion, Sparse):
        return DenseProduct(factor(basis.T.contiguous(), precision), warp)
    bounds = np.searchsorted(chosen, motion.frame.first_pixel)
    S = torch.as_tensor(np.array(shape_basis).reshape(-1, 2, shape_basis.shape[1]), dtype=torch.float32)
    weights = torch.as_tensor(motion.weights[chosen], dtype=torch.float32, device=basis.device)
    groups, corners = [], []
    for number, moved_by in enumerate(motion.corners):
        first, last = int(bounds[number]), int(bounds[number + 1])
        if first == last:
            continue
        columns = slice(first * channels, last * channels)
        by_corner = [
            basis[:, columns] * weight.repeat_interleave(channels) for weight in weights[first:last].T
        ]
        groups.append(_Group(columns, factor(torch.cat(by_corner).T.contiguous(), precision)))
        corners.append(S[torch.as_tensor(np.asarray(moved_by, dtype=np.int64))])
    # From (T, k, 2, n) to (2, k, T, n).
    by_axis = torch.stack(corners).permute(2, 1, 0, 3).contiguous().to(basis.device)
    return GroupedProduct(groups, by_axis, len(basis))
