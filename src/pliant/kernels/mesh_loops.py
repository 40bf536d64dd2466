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

from pliant.arrays import Float32, Float64, Floats, Int32


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
def bends(values: Float32, neighbours: Int32, weights: Float32, chosen: Int32, places: Int32, y: Float32) -> Float32:
    """Second differences of values `(f, c)`, summed over channels with y `(c, size)`: `(4, size)`, xx xy yx yy."""
    channels = values.shape[1]
    out = np.zeros((4, y.shape[1]), dtype=np.float32)
    for second in range(2):
        for first in range(2):
            for q in range(len(chosen)):
                here = chosen[q]
                before, after = neighbours[second, 0, here], neighbours[second, 1, here]
                total = np.float32(0)
                for channel in range(channels):
                    upper = weights[first, after] * (
                        values[neighbours[first, 1, after], channel] - values[neighbours[first, 0, after], channel]
                    )
                    lower = weights[first, before] * (
                        values[neighbours[first, 1, before], channel] - values[neighbours[first, 0, before], channel]
                    )
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
        for i in range(3):
            for j in range(3):
                for term in range(4):
                    total = np.float32(0)
                    for q in range(starts[panel], starts[panel + 1]):
                        total += weights[i, q] * weights[j, q] * products[term, q]
                    out[2 * corners[panel, i] + term // 2, 2 * corners[panel, j] + term % 2] += total
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
        for i in range(3):
            for axis in range(2):
                total = np.float32(0)
                for q in range(starts[panel], starts[panel + 1]):
                    total += weights[i, q] * sums[axis, q]
                out[2 * corners[panel, i] + axis] += total
    return out


@cache
def pass_over_basis(channels: int) -> Callable[..., None]:
    """The loop over A, compiled for a number of channels: `(panels, starts, corners, weights, slopes, e, G, E)`.

    `panels (m * c * p,)` holds A; `slopes (b, 2, c, p)` and `e (b, c, p)` are the images'. Adds A'G to
    `G (b, 2v, m)` and A'e to `E (b, m)`. Components go in pairs, so that each slope is loaded once for two.
    """

    @njit(cache=True, nogil=True, fastmath=True)
    def run(
        panels: Any, starts: Any, corners: Any, weights: Any, slopes: Any, e: Any, G: Any, E: Any
    ) -> None:
        modes = E.shape[1]
        zero = np.float32(0)
        for panel in range(len(starts) - 1):
            first, length = starts[panel], starts[panel + 1] - starts[panel]
            block = first * modes * channels
            for b in range(len(e)):
                for k in range(0, modes, 2):
                    here = block + k * channels * length
                    # The last of an odd number of components is its own partner.
                    there = here + channels * length if k + 1 < modes else here
                    x0 = x1 = x2 = y0 = y1 = y2 = s = zero
                    u0 = u1 = u2 = v0 = v1 = v2 = t = zero
                    for q in range(length):
                        ax = ay = ae = bx = by = be = zero
                        for channel in range(channels):
                            one = panels[here + channel * length + q]
                            two = panels[there + channel * length + q]
                            gx = slopes[b, 0, channel, first + q]
                            gy = slopes[b, 1, channel, first + q]
                            value = e[b, channel, first + q]
                            ax += one * gx
                            ay += one * gy
                            ae += one * value
                            bx += two * gx
                            by += two * gy
                            be += two * value
                        w0, w1, w2 = weights[0, first + q], weights[1, first + q], weights[2, first + q]
                        x0 += w0 * ax
                        x1 += w1 * ax
                        x2 += w2 * ax
                        y0 += w0 * ay
                        y1 += w1 * ay
                        y2 += w2 * ay
                        s += ae
                        u0 += w0 * bx
                        u1 += w1 * bx
                        u2 += w2 * bx
                        v0 += w0 * by
                        v1 += w1 * by
                        v2 += w2 * by
                        t += be
                    c0, c1, c2 = 2 * corners[panel, 0], 2 * corners[panel, 1], 2 * corners[panel, 2]
                    G[b, c0, k] += x0
                    G[b, c1, k] += x1
                    G[b, c2, k] += x2
                    G[b, c0 + 1, k] += y0
                    G[b, c1 + 1, k] += y1
                    G[b, c2 + 1, k] += y2
                    E[b, k] += s
                    if k + 1 < modes:
                        G[b, c0, k + 1] += u0
                        G[b, c1, k + 1] += u1
                        G[b, c2, k + 1] += u2
                        G[b, c0 + 1, k + 1] += v0
                        G[b, c1 + 1, k + 1] += v1
                        G[b, c2 + 1, k + 1] += v2
                        E[b, k + 1] += t

    return run  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, fastmath=True)
def values_over_basis(panels: Floats, starts: Int32, e: Float32, E: Float64) -> None:
    """The same loop for A'e alone `(b, m)`, where no slopes are wanted."""
    modes, channels = E.shape[1], e.shape[1]
    for panel in range(len(starts) - 1):
        first, length = starts[panel], starts[panel + 1] - starts[panel]
        for b in range(len(e)):
            for k in range(modes):
                here = (first * modes + k * length) * channels
                total = np.float32(0)
                for channel in range(channels):
                    for q in range(length):
                        total += panels[here + channel * length + q] * e[b, channel, first + q]
                E[b, k] += total
