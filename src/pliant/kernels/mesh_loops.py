"""The compiled loops of the CPU kernel, over pixels in panel order.

Panel order: the pixels of a triangle lie side by side in panels padded to full vectors, and images are kept
channel by channel, `(c, p)` with p counting padded pixels. Padding has zero weights and zero values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from pliant.arrays import Float32, Float64, Int32


@njit(cache=True, nogil=True)
def warp(image: Float32, shape: Float64, vertices: Int32, weights: Float64) -> Float32:
    """The image `(h, w, c)` at pixels that lie between three vertices `(f, 3)` each: `(f, c)`."""
    height, width, channels = image.shape
    out = np.empty((len(vertices), channels), dtype=np.float32)
    for k in range(len(vertices)):
        x, y = 0.0, 0.0
        for corner in range(3):
            x += weights[k, corner] * shape[vertices[k, corner], 0]
            y += weights[k, corner] * shape[vertices[k, corner], 1]
        # Written so that a position that is not a number becomes the corner, and no index goes astray.
        x = min(x, width - 1.0) if x > 0.0 else 0.0
        y = min(y, height - 1.0) if y > 0.0 else 0.0
        left, top = int(x), int(y)
        right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
        u, v = np.float32(x - left), np.float32(y - top)
        one = np.float32(1.0)
        a, b, c, d = (one - u) * (one - v), u * (one - v), (one - u) * v, u * v
        for channel in range(channels):
            out[k, channel] = (
                a * image[top, left, channel]
                + b * image[top, right, channel]
                + c * image[bottom, left, channel]
                + d * image[bottom, right, channel]
            )
    return out


@njit(cache=True, nogil=True)
def slopes(values: Float32, neighbours: Int32, weights: Float32, places: Int32, size: int) -> Float32:
    """Finite differences of values `(f, c)` at the places `(q,)` of the panels: `(2, c, size)`."""
    channels = values.shape[1]
    out = np.zeros((2, channels, size), dtype=np.float32)
    for axis in range(2):
        for q in range(len(places)):
            before, after, weight = neighbours[axis, 0, q], neighbours[axis, 1, q], weights[axis, q]
            for channel in range(channels):
                out[axis, channel, places[q]] = weight * (values[after, channel] - values[before, channel])
    return out


@njit(cache=True, nogil=True)
def bends(
    values: Float32, neighbours: Int32, weights: Float32, chosen: Int32, places: Int32, y: Float32
) -> Float32:
    """Second differences of values `(f, c)`, summed over channels with y `(c, size)`: `(4, size)`."""
    channels = values.shape[1]
    out = np.zeros((4, y.shape[1]), dtype=np.float32)
    for second in range(2):
        for first in range(2):
            for q in range(len(chosen)):
                here = chosen[q]
                before, after = neighbours[second, 0, here], neighbours[second, 1, here]
                total = np.float32(0)
                for channel in range(channels):
                    upper = values[neighbours[first, 1, after], channel]
                    upper -= values[neighbours[first, 0, after], channel]
                    lower = values[neighbours[first, 1, before], channel]
                    lower -= values[neighbours[first, 0, before], channel]
                    upper, lower = weights[first, after] * upper, weights[first, before] * lower
                    total += weights[second, here] * (upper - lower) * y[channel, places[q]]
                out[2 * second + first, places[q]] += total
    # The two mixed derivatives differ where the stencil is one-sided; a Hessian is symmetric.
    for q in range(out.shape[1]):
        mixed = np.float32(0.5) * (out[1, q] + out[2, q])
        out[1, q] = out[2, q] = mixed
    return out


@njit(cache=True, nogil=True, fastmath=True)
def pixel_products(one: Float32, other: Float32) -> Float32:
    """Products of slopes `(2, c, p)` summed over channels: `(4, p)`, for xx, xy, yx and yy."""
    channels, size = one.shape[1], one.shape[2]
    out = np.zeros((4, size), dtype=np.float32)
    for first in range(2):
        for second in range(2):
            for channel in range(channels):
                for q in range(size):
                    out[2 * first + second, q] += one[first, channel, q] * other[second, channel, q]
    return out


@njit(cache=True, nogil=True, fastmath=True)
def gram(products: Float32, weights: Float32, starts: Int32, corners: Int32, size: int) -> Float64:
    """G'G `(2v, 2v)` from products `(4, p)` and barycentric weights `(3, p)`, panel by panel."""
    out = np.zeros((size, size))
    for panel in range(len(starts) - 1):
        first, last = starts[panel], starts[panel + 1]
        xx, xy, yx, yy = (
            products[0, first:last],
            products[1, first:last],
            products[2, first:last],
            products[3, first:last],
        )
        for i in range(3):
            one = weights[i, first:last]
            for j in range(3):
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
    return out


@njit(cache=True, nogil=True, fastmath=True)
def moments(
    one: Float32, values: Float32, weights: Float32, starts: Int32, corners: Int32, size: int
) -> Float64:
    """G'e `(2v,)` from slopes `(2, c, p)` and values `(c, p)`."""
    out = np.zeros(size)
    channels, length = values.shape
    sums = np.zeros((2, length), dtype=np.float32)
    for axis in range(2):
        for channel in range(channels):
            for q in range(length):
                sums[axis, q] += one[axis, channel, q] * values[channel, q]
    for panel in range(len(starts) - 1):
        first, last = starts[panel], starts[panel + 1]
        x, y = sums[0, first:last], sums[1, first:last]
        for i in range(3):
            weight = weights[i, first:last]
            sum_x = sum_y = np.float32(0)
            for q in range(last - first):
                sum_x += weight[q] * x[q]
                sum_y += weight[q] * y[q]
            out[2 * corners[panel, i]] += sum_x
            out[2 * corners[panel, i] + 1] += sum_y
    return out


@cache
def pass_over_basis(channels: int, widest: int) -> Callable[..., None]:
    """The loop over A for a number of channels and panels of at most `widest` pixels.

    Called as run(panels, starts, corners, weights, slopes, e, G, E): `panels (m * c * p,)` holds A;
    `slopes (b, 2, c, p)` and `e (b, c, p)` are the images'; A'G is added to `G (b, 2v, m)` and A'e to
    `E (b, m)`. Slopes are copied to a buffer of known shape first: only then is the inner loop vectorised.
    """

    @njit(cache=True, nogil=True, fastmath=True)
    def run(
        panels: Any, starts: Any, corners: Any, weights: Any, slopes: Any, e: Any, G: Any, E: Any
    ) -> None:
        modes = E.shape[1]
        zero = np.float32(0)
        buffer = np.zeros((3, channels, widest), dtype=np.float32)
        shares = np.zeros((3, widest), dtype=np.float32)
        gx, gy, value = buffer[0], buffer[1], buffer[2]
        w0, w1, w2 = shares[0], shares[1], shares[2]
        for panel in range(len(starts) - 1):
            first, last = starts[panel], starts[panel + 1]
            length = last - first
            block = panels[first * modes * channels : last * modes * channels].reshape(
                (modes, channels, length)
            )
            for corner in range(3):
                for q in range(length):
                    shares[corner, q] = weights[corner, first + q]
            c0, c1, c2 = 2 * corners[panel, 0], 2 * corners[panel, 1], 2 * corners[panel, 2]
            for b in range(len(e)):
                for channel in range(channels):
                    for q in range(length):
                        gx[channel, q] = slopes[b, 0, channel, first + q]
                        gy[channel, q] = slopes[b, 1, channel, first + q]
                        value[channel, q] = e[b, channel, first + q]
                for k in range(modes):
                    component = block[k]
                    x0 = x1 = x2 = y0 = y1 = y2 = total = zero
                    for q in range(length):
                        x = y = r = zero
                        for channel in range(channels):
                            x += component[channel, q] * gx[channel, q]
                            y += component[channel, q] * gy[channel, q]
                            r += component[channel, q] * value[channel, q]
                        x0 += w0[q] * x
                        x1 += w1[q] * x
                        x2 += w2[q] * x
                        y0 += w0[q] * y
                        y1 += w1[q] * y
                        y2 += w2[q] * y
                        total += r
                    G[b, c0, k] += x0
                    G[b, c1, k] += x1
                    G[b, c2, k] += x2
                    G[b, c0 + 1, k] += y0
                    G[b, c1 + 1, k] += y1
                    G[b, c2 + 1, k] += y2
                    E[b, k] += total

    return run


@njit(cache=True, nogil=True, fastmath=True)
def values_over_basis(panels: Float32, starts: Int32, e: Float32, E: Float64) -> None:
    """The same loop for A'e alone `(b, m)`, where no slopes are wanted."""
    modes, channels = E.shape[1], e.shape[1]
    for panel in range(len(starts) - 1):
        first, last = starts[panel], starts[panel + 1]
        block = panels[first * modes * channels : last * modes * channels].reshape(
            (modes, channels * (last - first))
        )
        for b in range(len(e)):
            value = e[b, :, first:last].copy().ravel()
            for k in range(modes):
                component = block[k]
                total = np.float32(0)
                for q in range(len(value)):
                    total += component[q] * value[q]
                E[b, k] += total
