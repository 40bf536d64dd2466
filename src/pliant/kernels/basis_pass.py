"""The passes over the appearance basis A: compiled, at the speed of memory.

A is stored in panels of a few vectors of pixels of one triangle or patch each. In a panel it lies component by
component, then vector by vector, channel by channel, lane by lane, so that a pass reads memory in one run from its
first byte to its last. That, and loads that do not straddle cache lines, is what makes a pass as fast as a plain
sum. The inner loop is written in LLVM's vectors, because no loop of scalars was compiled to it.

A pass goes over the panels `span[0]` to `span[1]` of A, for b images. `S (b, V, c, k, LANES)` is what A is
multiplied with, for V vectors of pixels and k fields; `W (V, 3, LANES)` are barycentric weights. A patch has one
vertex instead of three (`corners (., 1)`), whose weight is one and is not looked at. Where a pixel moves with all
vertices, its sums over channels are kept for BLAS to go on with. With coefficients `c (b, m)`, A c is added to
`a (b, V, c, LANES)` on the way; if they have no columns, nothing is. `channels` is a tuple with an entry for each
channel: only its length counts, which is a part of its type, and so known when a pass is compiled. (A closure over
the number would do too; but cached ones failed where threads were the first to call.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pliant.compiled import INTERPRETED, compiled

LANES = 16
"""Pixels in a vector: one register of AVX-512, two of AVX, four of NEON."""

codegen: Any = cgutils
"""Helpers of Numba that have no types."""

_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FAST = ("fast",)


def _triangle_sums(
    parts: int,
    fields: int,
    spread: Sequence[tuple[int, int]] = (),
    plain: Sequence[tuple[int, int]] = (),
    appearance: bool = False,
    kept: Sequence[tuple[int, int]] = (),
) -> Any:
    """Sums over the pixels of a panel for one component of A.

    Called as sums(A, fields, weights, out, vectors, coefficient, a, channels). A component has `parts` values at
    every pixel and channel (itself, or its two slopes), and there are `fields` to multiply it with. A product of a
    part and a field is summed over channels, and then over pixels: one to be `spread` with each of the three
    barycentric weights, a `plain` one as it is; `out` is in that order. One that is `kept` is summed over channels
    alone: where weights would be, there is room for it, `(vectors, kept, LANES)`. With `appearance`, `a` grows by
    coefficient times A. The loop over channels is unrolled.
    """
    if INTERPRETED:
        return _interpreted_sums(parts, fields, spread, plain, appearance, kept)

    def typed(
        typing: Any, A: Any, S: Any, W: Any, out: Any, vectors: Any, factor: Any, a: Any, channels: Any
    ) -> Any:
        count = len(channels)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            index = arguments[4].type

            def pointer(position: int) -> Any:
                return context.make_array(signature.args[position])(
                    context, builder, arguments[position]
                ).data

            def vectors_at(position: int) -> Any:
                return builder.bitcast(pointer(position), _VECTOR.as_pointer())

            def place(base: Any, begin: Any, offset: int) -> Any:
                return builder.gep(base, [builder.add(begin, ir.Constant(index, offset))])

            def load(base: Any, begin: Any, offset: int) -> Any:
                loaded = builder.load(place(base, begin, offset))
                loaded.align = 4
                return loaded

            def multiply_add(one: Any, other: Any, to: Any) -> Any:
                product = builder.fmul(one, other, flags=_FAST)
                return product if to is None else builder.fadd(to, product, flags=_FAST)

            basis, seen, shares, modelled = map(vectors_at, (0, 1, 2, 6))
            undefined = ir.Constant(_VECTOR, ir.Undefined)
            one_lane = builder.insert_element(undefined, arguments[5], ir.Constant(ir.IntType(32), 0))
            every_lane = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            coefficient = builder.shuffle_vector(one_lane, undefined, every_lane)
            zero = ir.Constant(_VECTOR, [0.0] * LANES)
            totals = [codegen.alloca_once_value(builder, zero) for _ in range(3 * len(spread) + len(plain))]
            with codegen.for_range(builder, arguments[4], intp=index) as loop:
                in_basis = builder.mul(loop.index, ir.Constant(index, count * parts))
                in_seen = builder.mul(loop.index, ir.Constant(index, count * fields))
                in_shares = builder.mul(loop.index, ir.Constant(index, len(kept) or 3))
                sums: dict[tuple[int, int], Any] = {}
                for channel in range(count):
                    own = [load(basis, in_basis, channel * parts + part) for part in range(parts)]
                    other = [load(seen, in_seen, channel * fields + field) for field in range(fields)]
                    for pair in (*spread, *plain, *kept):
                        sums[pair] = multiply_add(own[pair[0]], other[pair[1]], sums.get(pair))
                    if appearance:
                        grown = multiply_add(own[0], coefficient, load(modelled, in_basis, channel))
                        builder.store(grown, place(modelled, in_basis, channel)).align = 4
                for number, pair in enumerate(kept):
                    builder.store(sums[pair], place(shares, in_shares, number)).align = 4
                corners = [load(shares, in_shares, corner) for corner in range(3)] if spread else []
                grow = [(corner, sums[pair]) for pair in spread for corner in corners]
                for total, (corner, value) in zip(totals, grow, strict=False):
                    builder.store(multiply_add(corner, value, builder.load(total)), total)
                for total, pair in zip(totals[len(grow) :], plain, strict=True):
                    builder.store(builder.fadd(builder.load(total), sums[pair], flags=_FAST), total)
            kind = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
            reduce = codegen.get_or_insert_function(
                builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32"
            )
            for number, total in enumerate(totals):
                value = builder.call(reduce, [ir.Constant(_FLOAT, 0.0), builder.load(total)], fastmath=_FAST)
                builder.store(value, builder.gep(pointer(3), [ir.Constant(index, number)]))
            return context.get_dummy_value()

        return types.void(A, S, W, out, vectors, factor, a, channels), generate

    return intrinsic(typed)


def _interpreted_sums(
    parts: int,
    fields: int,
    spread: Sequence[tuple[int, int]],
    plain: Sequence[tuple[int, int]],
    appearance: bool,
    kept: Sequence[tuple[int, int]] = (),
) -> Any:
    """The same sums by NumPy: LLVM's vectors do not exist where nothing is compiled."""

    def sums(A: Any, S: Any, W: Any, out: Any, vectors: int, factor: Any, a: Any, channels: Any) -> None:
        count = len(channels)
        own = A[: vectors * count * parts * LANES].reshape(vectors, count, parts, LANES)
        other = S.reshape(vectors, count, fields, LANES)
        shares = np.moveaxis(W.reshape(vectors, 3, LANES), 1, 0) if spread else W
        spreading = [np.sum(own[:, :, i] * other[:, :, j], axis=1) for i, j in spread]
        totals = [np.sum(share * product) for product in spreading for share in shares]
        totals += [np.sum(own[:, :, i] * other[:, :, j]) for i, j in plain]
        out[: len(totals)] = totals
        for number, (i, j) in enumerate(kept):
            W.reshape(vectors, len(kept), LANES)[:, number] = np.sum(own[:, :, i] * other[:, :, j], axis=1)
        if appearance:
            a.reshape(vectors, count, LANES)[...] += factor * own[:, :, 0]

    return sums


_slope_sums = _triangle_sums(1, 3, ((0, 0), (0, 1)), ((0, 2),))
_slope_sums_and_appearance = _triangle_sums(1, 3, ((0, 0), (0, 1)), ((0, 2),), appearance=True)
_value_sums = _triangle_sums(1, 1, (), ((0, 0),))
_value_sums_and_appearance = _triangle_sums(1, 1, (), ((0, 0),), appearance=True)
_moving_sums = _triangle_sums(2, 1, ((0, 0), (1, 0)))
_patch_sums = _triangle_sums(1, 3, (), ((0, 0), (0, 1), (0, 2)))
_patch_sums_and_appearance = _triangle_sums(1, 3, (), ((0, 0), (0, 1), (0, 2)), appearance=True)
_moving_patch_sums = _triangle_sums(2, 1, (), ((0, 0), (1, 0)))
_pixel_sums = _triangle_sums(1, 3, (), ((0, 2),), kept=((0, 0), (0, 1)))
_pixel_sums_and_appearance = _triangle_sums(1, 3, (), ((0, 2),), appearance=True, kept=((0, 0), (0, 1)))
_moving_pixel_sums = _triangle_sums(2, 1, kept=((0, 0), (1, 0)))


@compiled(fastmath=True)
def pass_with_slopes(
    A: Any, starts: Any, corners: Any, W: Any, S: Any, c: Any, a: Any, G: Any, E: Any, span: Any, channels: Any
) -> None:  # fmt: skip
    """From slopes along x and y and values e in S, A'G is added to `G (b, 2v, m)` and A'e to `E (b, m)`."""
    modes, vector, count = E.shape[1], len(channels) * LANES, corners.shape[1]
    sums = np.empty(7, dtype=np.float32)
    for number in range(span[0], span[1]):
        start, stop = starts[number], starts[number + 1]
        size = (stop - start) * vector
        panel = A[start * modes * vector :]
        weights = W[start:stop].reshape(-1)
        for b in range(len(E)):
            fields = S[b, start:stop].reshape(-1)
            for mode in range(modes):
                own = panel[mode * size :]
                if c.shape[1]:
                    modelled = a[b, start:stop].reshape(-1)
                    if count == 1:
                        _patch_sums_and_appearance(
                            own, fields, weights, sums, stop - start, c[b, mode], modelled, channels
                        )
                    else:
                        _slope_sums_and_appearance(
                            own, fields, weights, sums, stop - start, c[b, mode], modelled, channels
                        )
                elif count == 1:
                    _patch_sums(own, fields, weights, sums, stop - start, np.float32(0), own, channels)
                else:
                    _slope_sums(own, fields, weights, sums, stop - start, np.float32(0), own, channels)
                _add_at_corners(G[b], corners[number], mode, sums)
                E[b, mode] += sums[2 * count]


@compiled(fastmath=True)
def pass_with_values(A: Any, starts: Any, S: Any, c: Any, a: Any, E: Any, span: Any, channels: Any) -> None:
    """From values e alone in S, A'e is added to `E (b, m)`."""
    modes, vector = E.shape[1], len(channels) * LANES
    sums = np.empty(1, dtype=np.float32)
    for number in range(span[0], span[1]):
        start, stop = starts[number], starts[number + 1]
        size = (stop - start) * vector
        panel = A[start * modes * vector :]
        for b in range(len(E)):
            field = S[b, start:stop].reshape(-1)
            for mode in range(modes):
                own = panel[mode * size :]
                if c.shape[1]:
                    modelled = a[b, start:stop].reshape(-1)
                    _value_sums_and_appearance(
                        own, field, field, sums, stop - start, c[b, mode], modelled, channels
                    )
                else:
                    _value_sums(own, field, field, sums, stop - start, np.float32(0), own, channels)
                E[b, mode] += sums[0]


@compiled(fastmath=True)
def pass_over_slopes(
    A: Any, starts: Any, corners: Any, W: Any, S: Any, G: Any, span: Any, channels: Any
) -> None:
    """A holds slopes of the basis along x and y, and S the residual r: JA'r is added to `G (b, 2v, m)`."""
    modes, vector = G.shape[2], 2 * len(channels) * LANES
    sums = np.empty(6, dtype=np.float32)
    for number in range(span[0], span[1]):
        start, stop = starts[number], starts[number + 1]
        size = (stop - start) * vector
        panel = A[start * modes * vector :]
        weights = W[start:stop].reshape(-1)
        for b in range(len(G)):
            field = S[b, start:stop].reshape(-1)
            for mode in range(modes):
                own = panel[mode * size :]
                if corners.shape[1] == 1:
                    _moving_patch_sums(own, field, weights, sums, stop - start, np.float32(0), own, channels)
                else:
                    _moving_sums(own, field, weights, sums, stop - start, np.float32(0), own, channels)
                _add_at_corners(G[b], corners[number], mode, sums)


@compiled(fastmath=True)
def pass_by_pixel(
    A: Any, starts: Any, S: Any, c: Any, a: Any, H: Any, E: Any, span: Any, channels: Any
) -> None:
    """As `pass_with_slopes`, but A times slopes is kept by pixel, `H (b, m, vectors of the span, 2, LANES)`."""
    modes, vector, first = E.shape[1], len(channels) * LANES, starts[span[0]]
    sums = np.empty(1, dtype=np.float32)
    for number in range(span[0], span[1]):
        start, stop = starts[number], starts[number + 1]
        size = (stop - start) * vector
        panel = A[start * modes * vector :]
        for b in range(len(E)):
            fields = S[b, start:stop].reshape(-1)
            for mode in range(modes):
                own = panel[mode * size :]
                room = H[b, mode, start - first : stop - first].reshape(-1)
                if c.shape[1]:
                    modelled = a[b, start:stop].reshape(-1)
                    _pixel_sums_and_appearance(
                        own, fields, room, sums, stop - start, c[b, mode], modelled, channels
                    )
                else:
                    _pixel_sums(own, fields, room, sums, stop - start, np.float32(0), own, channels)
                E[b, mode] += sums[0]


@compiled(fastmath=True)
def pass_over_slopes_by_pixel(A: Any, starts: Any, S: Any, H: Any, span: Any, channels: Any) -> None:
    """As `pass_over_slopes`, but slopes times r are kept by pixel, `H (b, m, vectors of the span, 2, LANES)`."""
    modes, vector, first = H.shape[1], 2 * len(channels) * LANES, starts[span[0]]
    sums = np.empty(1, dtype=np.float32)
    for number in range(span[0], span[1]):
        start, stop = starts[number], starts[number + 1]
        size = (stop - start) * vector
        panel = A[start * modes * vector :]
        for b in range(len(H)):
            field = S[b, start:stop].reshape(-1)
            for mode in range(modes):
                own = panel[mode * size :]
                room = H[b, mode, start - first : stop - first].reshape(-1)
                _moving_pixel_sums(own, field, room, sums, stop - start, np.float32(0), own, channels)


@compiled(inline="always")
def _add_at_corners(G: Any, corners: Any, mode: Any, sums: Any) -> None:
    """Sums along x and then y, for three corners or one, are added to their rows of `G (2v, m)`, in float64."""
    count = len(corners)
    for corner in range(count):
        G[2 * corners[corner], mode] += sums[corner]
        G[2 * corners[corner] + 1, mode] += sums[count + corner]
