"""The compiled loops over pixels: warping, slopes, curvature, and the small sums that a mesh leaves.

A call from Python takes as long as some of these loops, and threads give each other the interpreter at every call.
So those at the end do several for an image, or for all images of a group.

Values on pixels are `(f, c)`, channels side by side. Blocks are `(V, c, k, LANES)`: vectors of pixels of one
triangle or patch each, padded with zeros, of k fields for every channel. Sums over channels are `(k, P)`, where
P = V · LANES.
`channels` is a tuple whose length, a part of its type, is the number of channels: all of a pixel are one vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pliant.arrays import Float32, Float64, Int32
from pliant.compiled import compiled
from pliant.kernels.basis_pass import LANES


@compiled(fastmath={"contract"})
def warp(image: Any, shape: Any, vertices: Any, weights: Any, channels: Any) -> Any:
    """The image `(h, w, c)` at pixels between three vertices `(f, 3)` each: `(f, c)`."""
    out = np.empty((len(vertices), len(channels)), dtype=np.float32)
    for q in range(len(vertices)):
        x, y = 0.0, 0.0
        for corner in range(3):
            x += weights[q, corner] * shape[vertices[q, corner], 0]
            y += weights[q, corner] * shape[vertices[q, corner], 1]
        _look(image, x, y, out[q], channels)
    return out


@compiled(fastmath={"contract"})
def shift(image: Any, shape: Any, vertices: Any, offsets: Any, channels: Any) -> Any:
    """The image `(h, w, c)` at pixels with offsets `(f, 2)` from one vertex `(f, 1)` each: `(f, c)`."""
    out = np.empty((len(vertices), len(channels)), dtype=np.float32)
    for q in range(len(vertices)):
        x = shape[vertices[q, 0], 0] + offsets[q, 0]
        y = shape[vertices[q, 0], 1] + offsets[q, 1]
        _look(image, x, y, out[q], channels)
    return out


@compiled(fastmath={"contract"})
def read(image: Any, positions: Any, channels: Any) -> Any:
    """The image `(h, w, c)` at positions `(f, 2)`: `(f, c)`."""
    out = np.empty((len(positions), len(channels)), dtype=np.float32)
    for q in range(len(positions)):
        _look(image, positions[q, 0], positions[q, 1], out[q], channels)
    return out


@compiled(fastmath={"contract"}, inline="always")
def _look(image: Any, x: Any, y: Any, out: Any, channels: Any) -> None:
    """The image `(h, w, c)` at one place, between its four neighbours: `out (c,)`."""
    height, width, _ = image.shape
    one = np.float32(1.0)
    # Written so that a position that is not a number becomes the corner, and no index goes astray.
    x = min(x, width - 1.0) if x > 0.0 else 0.0
    y = min(y, height - 1.0) if y > 0.0 else 0.0
    left, top = np.uint32(x), np.uint32(y)
    right, bottom = np.uint32(min(x + 1.0, width - 1.0)), np.uint32(min(y + 1.0, height - 1.0))
    u, v = np.float32(x - left), np.float32(y - top)
    a, b, c, d = (one - u) * (one - v), u * (one - v), (one - u) * v, u * v
    for channel in range(len(channels)):
        upper = a * image[top, left, channel] + b * image[top, right, channel]
        lower = c * image[bottom, left, channel] + d * image[bottom, right, channel]
        out[channel] = upper + lower


@compiled()
def residuals(values: Any, own: Any, mean: Any, out: Any, field: Any, channels: Any) -> None:
    """Values `(f, c)` at the pixels `own (V, LANES)`, less the mean `(V, c, 1, LANES)`, as a field of blocks."""
    for v in range(len(own)):
        for lane in range(LANES):
            q = own[v, lane]
            if q < 0:
                for channel in range(len(channels)):
                    out[v, channel, field, lane] = np.float32(0)
            else:
                for channel in range(len(channels)):
                    out[v, channel, field, lane] = values[q, channel] - mean[v, channel, 0, lane]


@compiled()
def gather(blocks: Any, own: Any, count: Any, channels: Any) -> Any:
    """Blocks of one field `(V, c, LANES)` as values `(f, c)`."""
    out = np.empty((count, len(channels)), dtype=np.float32)
    for v in range(len(own)):
        for lane in range(LANES):
            if own[v, lane] >= 0:
                for channel in range(len(channels)):
                    out[own[v, lane], channel] = blocks[v, channel, lane]
    return out


@compiled()
def slopes(values: Any, neighbours: Any, steps: Any, out: Any, channels: Any) -> None:
    """Differences of values `(f, c)` along x and y, as fields 0 and 1 of blocks."""
    for v in range(len(neighbours)):
        for lane in range(LANES):
            for axis in range(2):
                before, after = neighbours[v, lane, axis, 0], neighbours[v, lane, axis, 1]
                step = steps[v, lane, axis]
                for channel in range(len(channels)):
                    out[v, channel, axis, lane] = step * (values[after, channel] - values[before, channel])


@compiled(fastmath=True)
def bends(values: Any, neighbours: Any, steps: Any, chosen: Any, own: Any, y: Any, channels: Any) -> Any:
    """Second differences of values on the whole frame, times y `(f, c)` at the chosen pixels, summed over channels.

    They are `(4, P)`, for xx, xy, yx and yy.
    """
    first = np.empty((len(values), 2, len(channels)), dtype=np.float32)
    for q in range(len(values)):
        for axis in range(2):
            before, after, step = neighbours[axis, 0, q], neighbours[axis, 1, q], steps[axis, q]
            for channel in range(len(channels)):
                first[q, axis, channel] = step * (values[after, channel] - values[before, channel])
    out = np.zeros((4, len(own) * LANES), dtype=np.float32)
    for v in range(len(own)):
        for lane in range(LANES):
            if own[v, lane] < 0:
                continue
            here, along, place = chosen[own[v, lane]], y[own[v, lane]], v * LANES + lane
            for axis in range(2):
                before, after = neighbours[axis, 0, here], neighbours[axis, 1, here]
                with_x = with_y = np.float32(0)
                for channel in range(len(channels)):
                    with_x += (first[after, 0, channel] - first[before, 0, channel]) * along[channel]
                    with_y += (first[after, 1, channel] - first[before, 1, channel]) * along[channel]
                out[2 * axis, place] = steps[axis, here] * with_x
                out[2 * axis + 1, place] = steps[axis, here] * with_y
            # The two mixed derivatives differ where the stencil is one-sided; a Hessian is symmetric.
            mixed = np.float32(0.5) * (out[1, place] + out[2, place])
            out[1, place] = mixed
            out[2, place] = mixed
    return out


@compiled(fastmath=True)
def slope_products(one: Float32, other: Float32) -> Float32:
    """Products of slopes (fields 0 and 1) summed over channels: `(4, P)`, for xx, xy, yx and yy."""
    out = np.zeros((len(one), 4, LANES), dtype=np.float32)
    for v in range(len(one)):
        for channel in range(one.shape[1]):
            for lane in range(LANES):
                x, y = one[v, channel, 0, lane], one[v, channel, 1, lane]
                other_x, other_y = other[v, channel, 0, lane], other[v, channel, 1, lane]
                out[v, 0, lane] += x * other_x
                out[v, 1, lane] += x * other_y
                out[v, 2, lane] += y * other_x
                out[v, 3, lane] += y * other_y
    return _by_field(out)


@compiled(fastmath=True)
def value_products(one: Float32, values: Float32, field: int) -> Float32:
    """Slopes (fields 0 and 1) times a field of values, summed over channels: `(2, P)`."""
    out = np.zeros((len(one), 2, LANES), dtype=np.float32)
    for v in range(len(one)):
        for channel in range(one.shape[1]):
            for lane in range(LANES):
                value = values[v, channel, field, lane]
                out[v, 0, lane] += one[v, channel, 0, lane] * value
                out[v, 1, lane] += one[v, channel, 1, lane] * value
    return _by_field(out)


@compiled()
def _by_field(sums: Float32) -> Float32:
    """From `(V, k, LANES)`, which is quick to add to, to `(k, P)`, which is quick to run along."""
    out = np.empty((sums.shape[1], len(sums) * LANES), dtype=np.float32)
    for v in range(len(sums)):
        for field in range(sums.shape[1]):
            for lane in range(LANES):
                out[field, v * LANES + lane] = sums[v, field, lane]
    return out


@compiled(fastmath=True)
def squares(values: Float32, field: int) -> float:
    """The sum of squares of a field: in float32 along a vector, in float64 over all of them."""
    total = 0.0
    for v in range(len(values)):
        part = np.float32(0)
        for channel in range(values.shape[1]):
            for lane in range(LANES):
                part += values[v, channel, field, lane] * values[v, channel, field, lane]
        total += float(part)
    return total


@compiled(fastmath=True)
def gram(products: Float32, weights: Float32, starts: Int32, corners: Int32, out: Float64) -> None:
    """From products `(4, P)` and weights `(3, P)`, or `(1, P)` in patches, G'G is added to `out (2v, 2v)`."""
    for panel in range(len(starts) - 1):
        first, last = starts[panel] * LANES, starts[panel + 1] * LANES
        xx, xy, yx, yy = (
            products[0, first:last],
            products[1, first:last],
            products[2, first:last],
            products[3, first:last],
        )
        for i in range(len(weights)):
            one = weights[i, first:last]
            for j in range(len(weights)):
                two = weights[j, first:last]
                sum_xx = sum_xy = sum_yx = sum_yy = np.float32(0)
                for q in range(last - first):
                    weight = one[q] * two[q]
                    sum_xx += weight * xx[q]
                    sum_xy += weight * xy[q]
                    sum_yx += weight * yx[q]
                    sum_yy += weight * yy[q]
                row, column = 2 * corners[panel, i], 2 * corners[panel, j]
                out[row, column] += sum_xx
                out[row, column + 1] += sum_xy
                out[row + 1, column] += sum_yx
                out[row + 1, column + 1] += sum_yy


@compiled(fastmath=True)
def moments(sums: Float32, weights: Float32, starts: Int32, corners: Int32, out: Float64) -> None:
    """From slopes times values `(2, P)` and such weights, G'e is added to `out (2v,)`."""
    for panel in range(len(starts) - 1):
        first, last = starts[panel] * LANES, starts[panel + 1] * LANES
        x, y = sums[0, first:last], sums[1, first:last]
        for corner in range(len(weights)):
            weight = weights[corner, first:last]
            sum_x = sum_y = np.float32(0)
            for q in range(last - first):
                sum_x += weight[q] * x[q]
                sum_y += weight[q] * y[q]
            out[2 * corners[panel, corner]] += sum_x
            out[2 * corners[panel, corner] + 1] += sum_y


@compiled()
def look(
    image: Any, shape: Any, vertices: Any, weights: Any, offsets: Any, own: Any, mean: Any, neighbours: Any,
    steps: Any, with_slopes: Any, out: Any, channels: Any,
) -> Any:  # fmt: skip
    """The image `(h, w, c)` at all pixels that matter `(f, c)`; slopes, if wanted, and residuals go to a block."""
    if len(offsets):
        values = shift(image, shape, vertices, offsets, channels)
    else:
        values = warp(image, shape, vertices, weights, channels)
    spread(values, own, mean, neighbours, steps, with_slopes, out, channels)
    return values


@compiled()
def spread(
    values: Any, own: Any, mean: Any, neighbours: Any, steps: Any, with_slopes: Any, out: Any, channels: Any
) -> None:
    """Values `(f, c)` as blocks: slopes, if wanted, and after them what is left without the mean."""
    residuals(values, own, mean, out, 2 if with_slopes else 0, channels)
    if with_slopes:
        slopes(values, neighbours, steps, out, channels)


@compiled()
def slopes_of_all(
    blocks: Any, own: Any, count: Any, neighbours: Any, steps: Any, out: Any, channels: Any
) -> None:
    """The slopes of blocks of one field `(b, V, c, LANES)`, as fields 0 and 1 of `out (b, V, c, k, LANES)`."""
    for b in range(len(blocks)):
        slopes(gather(blocks[b], own, count, channels), neighbours, steps, out[b], channels)


@compiled()
def squares_of_all(values: Float32, field: int) -> Float64:
    """The sums of squares `(b,)` of a field of blocks `(b, V, c, k, LANES)`."""
    out = np.empty(len(values))
    for b in range(len(values)):
        out[b] = squares(values[b], field)
    return out


@compiled()
def grams(one: Any, other: Any, weights: Any, starts: Any, corners: Any, size: Any) -> Any:
    """G'G `(b, 2v, 2v)` of slopes `(b, V, c, k, LANES)` and others, maybe one set for all."""
    out = np.zeros((len(one), size, size))
    for b in range(len(one)):
        products = slope_products(one[b], other[b if len(other) > 1 else 0])
        gram(products, weights, starts, corners, out[b])
    return out


@compiled()
def moments_of_all(
    slopes: Any, values: Any, field: Any, weights: Any, starts: Any, corners: Any, size: Any
) -> Any:
    """G'e `(b, 2v)` of slopes, maybe one set for all, and a field of `values (b, V, c, k, LANES)`."""
    out = np.zeros((len(values), size))
    for b in range(len(values)):
        sums = value_products(slopes[b if len(slopes) > 1 else 0], values[b], field)
        moments(sums, weights, starts, corners, out[b])
    return out
