"""From sums over pixels to products of Jacobians: J = g S, so J'K needs products of slopes and of rows of dW/dp.

The products of rows do not depend on the image. Where sums are those of single pixels, they are products of
columns of dW/dp there. Where sums are those of triangles, dW/dp is w S, with the weights w of three corners and
rows S of the shape basis: six products of two weights are in the moments, and what is left are products of rows of
S.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.devices import matrix_units
from pliant.kernels.torch_products import Factor, PixelOrder, Precision, factor, of_long_rows, padded_columns
from pliant.motion import Sparse
from pliant.namespace import Array, namespace

CORNERS = 3
"""The most corners that a pixel moves with."""

PAIRS = tuple((a, b) for a in range(CORNERS) for b in range(a, CORNERS))
"""Corners whose weights are multiplied in sums over a triangle."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Products of n columns of dW/dp, for Q sums an image: one for each pixel, or six for each triangle.

    `symmetric (3 Q, n (n + 1) / 2)` belong to xx, xy and yy, and `every (4 Q, n n)` to xx, xy, yx and yy.
    `unfold (n, n)` says which symmetric one each pair is. `single (2 q, n)` are the columns themselves: there are q
    sums of values and slopes, as many as pixels, or three for each triangle.
    """

    single: Array
    symmetric: Factor
    every: Factor
    unfold: Array

    def along(self, sums: Array) -> Array:
        """J'e `(B, n)` from sums `(B, 2, q)`."""
        with matrix_units(False):
            return of_long_rows(sums.flatten(1), self.single).double()

    def square(self, sums: Array) -> Array:
        """J'J `(B, n, n)` from sums `(B, 3, Q)`."""
        return self.symmetric.times(sums.flatten(1)).double()[:, self.unfold]

    def between(self, sums: Array) -> Array:
        """J'K `(B, n, n)` from sums `(B, 4, Q)`."""
        n = len(self.unfold)
        return self.every.times(sums.flatten(1))[:, : n * n].double().reshape(-1, n, n)


def pairs_of_pixels(warp: Array, precision: Precision) -> Pairs:
    """For sums at f pixels, where `warp (2, f, n)` is dW/dp."""
    xp = namespace(warp)
    products = [xp.einsum("fk,fl->fkl", one, other) for one in warp for other in warp]
    return _pairs(xp.cat([*warp]), products, precision)


def pairs_of_triangles(motion: Sparse, shape_basis: Any, order: PixelOrder, like: Array) -> Pairs:
    """For sums over triangles in a device's order, with weights of `PAIRS` and corners, beside an array there."""
    xp = namespace(like)
    S = np.array(shape_basis).reshape(-1, 2, shape_basis.shape[1])
    corners = motion.corners[[number for number, _, _ in order.triangles()]]
    rows = np.zeros((len(corners), CORNERS, *S.shape[1:]))
    rows[:, : corners.shape[1]] = S[corners]
    by_axis = xp.as_tensor(rows, dtype=xp.float32, device=like.device).permute(2, 0, 1, 3)

    def product(one: Array, other: Array) -> Array:
        every = []
        for a, b in PAIRS:
            found = xp.einsum("tk,tl->tkl", one[:, a], other[:, b])
            every.append(found if a == b else found + xp.einsum("tk,tl->tkl", one[:, b], other[:, a]))
        return xp.stack(every, 1).flatten(0, 1)

    products = [product(one, other) for one in by_axis for other in by_axis]
    return _pairs(by_axis.flatten(0, 2), products, "float32")


def _pairs(single: Array, products: Iterable[Array], precision: Precision) -> Pairs:
    """From columns, and their products `(Q, n, n)` for xx, xy, yx and yy."""
    xp, n = namespace(single), single.shape[1]
    xx, xy, yx, yy = products
    i, j = xp.triu_indices(n, n, device=single.device)
    symmetric = xp.cat([xx[:, i, j], (xy + yx)[:, i, j], yy[:, i, j]])
    unfold = xp.zeros((n, n), dtype=xp.int64, device=single.device)
    unfold[i, j] = unfold[j, i] = xp.arange(len(i), device=single.device)
    every = xp.cat([xx, xy, yx, yy]).flatten(1)
    return Pairs(
        single,
        factor(padded_columns(symmetric), precision),
        factor(padded_columns(every), precision),
        unfold,
    )
