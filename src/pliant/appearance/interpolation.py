"""Reading an image between its pixels: bilinear at any points, and resampled windows of any scale."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pliant.arrays import Float32, Float64, Floats, Image


def bilinear(image: Float32, positions: Floats) -> Float32:
    """Values `(f, c)` of an image `(h, w, c)` at positions `(f, 2)`; outside, the border goes on."""
    return np.asarray(_bilinear(image, np.ascontiguousarray(positions, dtype=np.float64)))


def resample(image: Image, origin: Floats, scale: float, shape: tuple[int, int]) -> Float32:
    """A window `(h, w, c)` of an image in float32 from 0 to 1, with `scale` window pixels per image pixel.

    Window pixel (x, y) shows the image at `origin + (x, y) / scale`, pixel centres at integers in
    both. When it shrinks, the image is smoothed first by a Gaussian of 0.5 sqrt(1/scale² - 1) pixels,
    which leaves the window as sharp, in its own pixels, as a camera with a blur of 0.5 would have.
    """
    planes = image[:, :, None] if image.ndim == 2 else image
    blur = 0.5 * math.sqrt(max(scale**-2 - 1.0, 0.0))
    rows, row_weights = _taps(float(origin[1]), scale, shape[0], blur, planes.shape[0])
    columns, column_weights = _taps(float(origin[0]), scale, shape[1], blur, planes.shape[1])
    return np.asarray(_separable(planes, rows, row_weights * _unit(image), columns, column_weights))


def _unit(image: Image) -> np.float32:
    """What a pixel value is multiplied with to lie between 0 and 1."""
    return np.float32(1 / np.iinfo(image.dtype).max if np.issubdtype(image.dtype, np.integer) else 1)


def _taps(origin: float, scale: float, length: int, blur: float, limit: int) -> tuple[Float64, Float32]:
    """First source pixel `(length,)` and weights `(length, taps)` of every output pixel along one axis.

    The weights are those of bilinear interpolation after the Gaussian, in one step. Indices may lie
    outside the image, which is continued by its border pixels.
    """
    centres = origin + np.arange(length) / scale
    centres = np.clip(centres, -1e6, limit + 1e6)
    base = np.floor(centres)
    radius = math.ceil(3.5 * blur)
    reach = np.arange(-radius, radius + 1)
    gaussian = np.exp(-0.5 * (reach / blur) ** 2) if blur > 0 else np.ones(1)
    gaussian /= gaussian.sum()
    fraction = (centres - base)[:, None]
    weights = np.zeros((length, len(gaussian) + 1))
    weights[:, :-1] += (1 - fraction) * gaussian
    weights[:, 1:] += fraction * gaussian
    return (base - radius).astype(np.int64), weights.astype(np.float32)


@njit(cache=True, nogil=True)
def _separable(image, rows, row_weights, columns, column_weights):  # type: ignore[no-untyped-def]
    """Weighted sums down the rows first, then along them; only the columns that are asked for are read."""
    height, width, channels = image.shape
    out_height, out_width = len(rows), len(columns)
    left = min(max(columns[0], 0), width - 1)
    right = min(max(columns[-1] + column_weights.shape[1] - 1, 0), width - 1)
    line = np.empty((right - left + 1, channels), dtype=np.float32)
    out = np.empty((out_height, out_width, channels), dtype=np.float32)
    for i in range(out_height):
        line[:] = 0
        for tap in range(row_weights.shape[1]):
            weight = row_weights[i, tap]
            row = min(max(rows[i] + tap, 0), height - 1)
            for j in range(left, right + 1):
                for c in range(channels):
                    line[j - left, c] += weight * np.float32(image[row, j, c])
        for j in range(out_width):
            for c in range(channels):
                total = np.float32(0)
                for tap in range(column_weights.shape[1]):
                    column = min(max(columns[j] + tap, 0), width - 1)
                    total += column_weights[j, tap] * line[column - left, c]
                out[i, j, c] = total
    return out


@njit(cache=True, nogil=True)
def _bilinear(image, positions):  # type: ignore[no-untyped-def]
    height, width, channels = image.shape
    out = np.empty((len(positions), channels), dtype=np.float32)
    for k in range(len(positions)):
        x = min(max(positions[k, 0], 0.0), width - 1.0)
        y = min(max(positions[k, 1], 0.0), height - 1.0)
        left, top = int(x), int(y)
        right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
        u, v = np.float32(x - left), np.float32(y - top)
        for c in range(channels):
            upper = image[top, left, c] + u * (image[top, right, c] - image[top, left, c])
            lower = image[bottom, left, c] + u * (image[bottom, right, c] - image[bottom, left, c])
            out[k, c] = upper + v * (lower - upper)
    return out
