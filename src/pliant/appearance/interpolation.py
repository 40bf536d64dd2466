"""Reading an image between its pixels: bilinear at any points, and resampled windows of any scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.tones import brightness, in_range, unit
from pliant.arrays import Float32, Floats, Image
from pliant.compiled import compiled

Int64 = NDArray[np.int64]

FINER = 2.0
"""So many times the window's resolution an image has at the least when it is turned, unless it has less itself."""


def bilinear(image: Float32, positions: Floats) -> Float32:
    """Values `(f, c)` of an image `(h, w, c)` at positions `(f, 2)`; outside, the border goes on."""
    return np.asarray(_bilinear(image, np.ascontiguousarray(positions, dtype=np.float64)))


def resample(
    image: Image,
    origin: Floats,
    scale: float,
    shape: tuple[int, int],
    *,
    grey: bool = False,
    angle: float = 0.0,
) -> Float32:
    """A window `(h, w, c)` of an image in float32 from 0 to 1, with `scale` window pixels per image pixel.

    Window pixel (x, y) shows the image at `origin + R (x, y) / scale`, pixel centres at integers in both; R turns
    by `angle`, from the x axis towards the y axis. When it shrinks, the image is smoothed first by a Gaussian of
    0.5 sqrt(1/scale² - 1) pixels, which leaves the window as sharp, in its own pixels, as a camera with a blur of
    0.5 would have. `grey` makes one channel of three.
    """
    image = in_range(image)
    planes = image[:, :, None] if image.ndim == 2 else image
    blur = 0.5 * math.sqrt(max(scale**-2 - 1.0, 0.0))
    if angle == 0.0:
        return _upright(planes, origin, scale, shape, blur, grey)
    return _turned(planes, origin, scale, shape, blur, grey, angle)


def _upright(
    planes: Image, origin: Floats, scale: float, shape: tuple[int, int], blur: float, grey: bool
) -> Float32:
    """The window of an image `(h, w, c)` with the image's own axes."""
    rows, row_weights = _taps(float(origin[1]), scale, shape[0], blur, planes.shape[0])
    columns, column_weights = _taps(float(origin[0]), scale, shape[1], blur, planes.shape[1])
    window = planes[rows[0, 0] : rows[-1, -1] + 1, columns[0, 0] : columns[-1, -1] + 1].astype(np.float32)
    if grey and window.shape[2] == 3:
        window = brightness(window)[:, :, None]
    # Sums of rows are the fast ones, so the window is turned between the axes, and back after them.
    tall = _turned_sums(window, rows - rows[0, 0], row_weights * unit(planes))
    return _turned_sums(tall, columns - columns[0, 0], column_weights)


def _turned(
    planes: Image,
    origin: Floats,
    scale: float,
    shape: tuple[int, int],
    blur: float,
    grey: bool,
    angle: float,
) -> Float32:
    """The window of an image `(h, w, c)` with turned axes, by way of an upright one that is smooth already."""
    finer = min(1.0, FINER * scale)
    cosine, sine = math.cos(angle), math.sin(angle)
    across = np.array([cosine, sine]) * (shape[1] - 1) / scale
    down = np.array([-sine, cosine]) * (shape[0] - 1) / scale
    corners = np.asarray(origin, dtype=np.float64) + [np.zeros(2), across, down, across + down]
    # Beyond this the image is all border.
    beyond = math.ceil(3.5 * blur) + 1
    limit = np.array([planes.shape[1], planes.shape[0]]) - 1.0 + beyond
    low = np.clip(np.floor(corners.min(axis=0)), -beyond, limit)
    high = np.clip(corners.max(axis=0), low, limit)
    width, height = (np.ceil((high - low) * finer) + 2).astype(int)
    if finer < 1.0:
        # To interpolate between the pixels of a smaller image is to smooth it by this much more, on average.
        blur = math.sqrt(max(blur**2 - finer**-2 / 6, 0.0))
    between = _upright(planes, low, finer, (int(height), int(width)), blur, grey)
    first = (corners[0] - low) * finer
    return np.asarray(_turned_window(between, first, cosine * finer / scale, sine * finer / scale, *shape))


def _turned_sums(window: Float32, indices: Int64, weights: Float32) -> Float32:
    """Weighted sums of the rows of a window `(h, w, c)`, with its axes swapped: `(w, length, c)`."""
    _, width, channels = window.shape
    sums = _row_sums(window.reshape(len(window), -1), indices, weights)
    return np.ascontiguousarray(sums.reshape(-1, width, channels).swapaxes(0, 1))


def _taps(origin: float, scale: float, length: int, blur: float, limit: int) -> tuple[Int64, Float32]:
    """Source pixels and their weights, both `(length, taps)`, of every output pixel along one axis.

    The weights are those of bilinear interpolation after the Gaussian, in one step. The image is continued
    by its border pixels.
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
    indices = base.astype(np.int64)[:, None] + np.arange(-radius, radius + 2)
    return np.clip(indices, 0, limit - 1), weights.astype(np.float32)


@compiled(fastmath={"contract"})
def _row_sums(rows: Float32, indices: Int64, weights: Float32) -> Float32:
    out = np.zeros((len(indices), rows.shape[1]), dtype=np.float32)
    for i in range(len(indices)):
        for tap in range(indices.shape[1]):
            weight, row = weights[i, tap], rows[indices[i, tap]]
            for x in range(len(row)):
                out[i, x] += weight * row[x]
    return out


@compiled()
def _bilinear(image: Any, positions: Any) -> Any:
    height, width, channels = image.shape
    out = np.empty((len(positions), channels), dtype=np.float32)
    for k in range(len(positions)):
        x, y = positions[k, 0], positions[k, 1]
        # Written so that a position that is not a number becomes the corner, and no index goes astray.
        x = min(x, width - 1.0) if x > 0.0 else 0.0
        y = min(y, height - 1.0) if y > 0.0 else 0.0
        left, top = int(x), int(y)
        right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
        u, v = np.float32(x - left), np.float32(y - top)
        for c in range(channels):
            upper = image[top, left, c] + u * (image[top, right, c] - image[top, left, c])
            lower = image[bottom, left, c] + u * (image[bottom, right, c] - image[bottom, left, c])
            out[k, c] = upper + v * (lower - upper)
    return out


@compiled()
def _turned_window(image: Any, first: Any, cosine: float, sine: float, height: int, width: int) -> Any:
    """Bilinear values at `first` + x (cosine, sine) + y (-sine, cosine); outside, the border goes on."""
    rows, columns, channels = image.shape
    out = np.empty((height, width, channels), dtype=np.float32)
    for j in range(height):
        for i in range(width):
            x = first[0] + i * cosine - j * sine
            y = first[1] + i * sine + j * cosine
            x = min(x, columns - 1.0) if x > 0.0 else 0.0
            y = min(y, rows - 1.0) if y > 0.0 else 0.0
            left, top = int(x), int(y)
            right, bottom = min(left + 1, columns - 1), min(top + 1, rows - 1)
            u, v = np.float32(x - left), np.float32(y - top)
            for c in range(channels):
                upper = image[top, left, c] + u * (image[top, right, c] - image[top, left, c])
                lower = image[bottom, left, c] + u * (image[bottom, right, c] - image[bottom, left, c])
                out[j, i, c] = upper + v * (lower - upper)
    return out
