"""What a linear expert sees: directions of edges about every landmark, in a view turned as the mean shape is.

All of it is made of the dense SIFT that models have. A description gathers it on a grid about each landmark, and an
answer is the inner product of a filter with such a grid, at every pixel near the landmark.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pliant.appearance.features import find_feature
from pliant.appearance.interpolation import bilinear, resample
from pliant.appearance.tones import in_range
from pliant.appearance.view import View, too_wide, view
from pliant.arrays import Float32, Float64, Floats, Image
from pliant.compiled import compiled
from pliant.shape import Similarity, shape_size

_AROUND = 1.0
"""What is kept of an image on every side of the shape, in sizes of the object."""

_FINER = 2.0
"""Larger objects are shrunk to so many times the size that they are looked at in."""

SPRAWL = 4.0
"""Landmarks that reach over more than so many times the object itself, at its own scale, are not looked at."""

FAR = 8.0
"""Values of an image, black at 0 and white at 1, are cut off here, on either side."""


class Window(NamedTuple):
    """The part of an image with the object: its pixel (x, y) shows the image at `origin + (x, y) / scale`."""

    grey: Float32
    origin: Float64
    scale: float

    def to_window(self, points: Floats) -> Float64:
        return np.asarray((points - self.origin) * self.scale, dtype=np.float64)

    def to_image(self, points: Floats) -> Float64:
        return np.asarray(points / self.scale + self.origin, dtype=np.float64)


def window(image: Image, shape: Floats, finest: float) -> Window:
    """Brightness around `shape (v, 2)`, at most so fine as views need in which the object has the size `finest`."""
    low, scale, (height, width) = window_about(shape, np.array(image.shape[:2]), finest)
    planes = in_range(image)
    grey = resample(planes, low, float(scale), (int(height), int(width)), grey=True)[:, :, 0]
    if not np.issubdtype(planes.dtype, np.floating):
        return Window(grey, low, float(scale))
    clipped = np.clip(np.nan_to_num(grey, nan=0.0, posinf=FAR, neginf=-FAR), -FAR, FAR)
    return Window(clipped, low, float(scale))


def window_about(shapes: Floats, images: Any, finest: float) -> tuple[Float64, Float64, Any]:
    """Origins `(..., 2)`, scales `(...)`, and heights and widths `(..., 2)` of windows about `shapes (..., v, 2)`.

    Heights and widths of the images are `images (..., 2)`.
    """
    limit = images[..., ::-1] - 1
    size = shape_size(shapes)
    around = _AROUND * size[..., None]
    low = np.clip(np.floor(shapes.min(axis=-2) - around), 0, limit)
    high = np.clip(np.ceil(shapes.max(axis=-2) + around), low, limit)
    scale = np.minimum(1.0, _FINER * finest / np.maximum(size, 1e-9))
    extents = np.ceil((high - low) * scale[..., None]) + 1
    return low, scale, extents[..., ::-1].astype(np.int64)


def look_at(
    part: Window, shape: Floats, mean: Floats, placed: Similarity, size: float, margin: float
) -> View | None:
    """Channels `(h, w, 8)` around `shape (v, 2)` of a window, in which the mean shape has this size.

    `placed` brings the mean shape onto the shape. `margin` pixels about every landmark are as good as the landmark
    itself. None, if the shape is not one, or cannot be looked at.
    """
    enlarged, angle = float(placed.scale), float(placed.angle)
    # As `unlike` has it, which would align the two once more.
    sprawl = float(np.ptp(shape, axis=0).max()) <= SPRAWL * float(np.ptp(mean, axis=0).max()) * enlarged
    if not (enlarged > 0 and math.isfinite(angle) and sprawl) or too_wide(shape, part.grey):
        return None
    feature = find_feature("dsift")
    seen = view(part.grey, shape, size / enlarged, margin + feature.reach, angle=angle)
    return View(feature.compute(seen.pixels[:, :, 0]), seen.origin, seen.scale, seen.angle)


def described(
    part: Window, shape: Floats, mean: Floats, placed: Similarity, size: float, grid: int, spacing: int
) -> Float32 | None:
    """Channels on a grid about each landmark, one after the other `(v * grid * grid * 8,)`."""
    reach = (grid - 1) / 2 * spacing
    seen = look_at(part, shape, mean, placed, size, reach + 1)
    if seen is None:
        return None
    steps = np.arange(grid) * spacing - reach
    offsets = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    return bilinear(seen.pixels, (seen.to_view(shape)[:, None] + offsets).reshape(-1, 2)).ravel()


def margin_of(grid: int, spacing: int, reach: int) -> float:
    """What a view must show about a landmark for filters of a grid to be laid `reach` pixels to every side."""
    return math.ceil((grid - 1) * spacing / 2) + reach + 2


@compiled(fastmath={"contract", "reassoc"}, error_model="numpy")
def answers(channels: Any, corners: Any, filters: Any, offsets: Any, spacing: int, reach: int) -> Any:
    """Answers `(v, 2 reach + 1, 2 reach + 1)` of filters `(v, g, g, 8)` to channels `(h, w, 8)`.

    Landmark j's filter is laid with its first cell on every pixel from `corners[j]` on, x and y. Corners are such
    that all of it is within the channels.
    """
    width = channels.shape[1]
    count, grid = filters.shape[0], filters.shape[1]
    side = 2 * reach + 1
    flat = channels.reshape(-1)
    out = np.empty((count, side, side), dtype=np.float32)
    for j in range(count):
        f = filters[j]
        for a in range(side):
            for b in range(side):
                # Eight sums by name become one vector; in an array they would not.
                s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0)
                for p in range(grid):
                    first = ((corners[j, 1] + a + p * spacing) * width + corners[j, 0] + b) * 8
                    for q in range(grid):
                        t = first + q * spacing * 8
                        s0 += f[p, q, 0] * flat[t]
                        s1 += f[p, q, 1] * flat[t + 1]
                        s2 += f[p, q, 2] * flat[t + 2]
                        s3 += f[p, q, 3] * flat[t + 3]
                        s4 += f[p, q, 4] * flat[t + 4]
                        s5 += f[p, q, 5] * flat[t + 5]
                        s6 += f[p, q, 6] * flat[t + 6]
                        s7 += f[p, q, 7] * flat[t + 7]
                out[j, a, b] = offsets[j] + ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    return out


def corners_of(centres: Any, shape: tuple[int, ...], grid: int, spacing: int, reach: int) -> Any:
    """First pixels `(v, 2)` under filters laid about `centres (v, 2)`, moved so that all of it is in the view."""
    most = np.array([shape[1], shape[0]]) - 1 - (grid - 1) * spacing - 2 * reach
    return np.clip(centres - (grid - 1) * spacing // 2 - reach, 0, np.maximum(most, 0))


@compiled()
def cut_out(channels: Any, places: Any, grid: int, spacing: int) -> Any:
    """Grids `(k, g * g * 8)` about places `(k, 2)` of channels `(h, w, 8)`; outside, the border goes on."""
    height, width, _ = channels.shape
    half = (grid - 1) * spacing // 2
    out = np.empty((len(places), grid * grid * 8), dtype=np.float32)
    for k in range(len(places)):
        t = 0
        for p in range(grid):
            y = min(max(places[k, 1] - half + p * spacing, 0), height - 1)
            for q in range(grid):
                x = min(max(places[k, 0] - half + q * spacing, 0), width - 1)
                for c in range(8):
                    out[k, t] = channels[y, x, c]
                    t += 1
    return out
