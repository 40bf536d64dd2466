"""Maps of logits as distributions over a window: where a landmark is, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pliant.arrays import Float32, Float64
from pliant.compiled import compiled
from pliant.namespace import beside

NEGLIGIBLE = 14.0
"""Logits so far below the highest add less than a millionth each: nothing is computed for them."""


def moments(logits: Float32, height: int, width: int) -> tuple[Float64, Float64]:
    """Means `(v, 2)` and covariances `(v, 2, 2)` of maps `(v, rows, columns)`, in pixels of their window."""
    points, covariance = _moments(np.ascontiguousarray(logits))
    return in_pixels(points, covariance, logits.shape[1:], height, width)


def in_pixels(
    points: Float64, covariance: Float64, cells: Sequence[int], height: int, width: int
) -> tuple[Float64, Float64]:
    """Means `(..., 2)` and covariances `(..., 2, 2)` in cells of a map, in pixels of its window."""
    cell = np.array([width / cells[1], height / cells[0]])
    scales, first = beside(np.outer(cell, cell), points), beside((cell - 2) / 2, points)
    # A cell of two pixels is centred on the first of them, and larger ones are made of these.
    return points * beside(cell, points) + first, covariance * scales


def cell_places(cells: int, pixels: int) -> Float64:
    """Where the `cells` along a side of a map are, in pixels of its window."""
    cell = pixels / cells
    return np.asarray(np.arange(cells) * cell + (cell - 2) / 2)


@compiled()
def _moments(logits: Float32) -> tuple[Float64, Float64]:
    maps, rows, columns = logits.shape
    points, covariance = np.empty((maps, 2)), np.empty((maps, 2, 2))
    for k in range(maps):
        highest = logits[k].max()
        total = x = y = xx = xy = yy = 0.0
        for row in range(rows):
            for column in range(columns):
                below = highest - logits[k, row, column]
                if below < NEGLIGIBLE:
                    weight = np.exp(-below)
                    total += weight
                    x += weight * column
                    y += weight * row
                    xx += weight * column * column
                    xy += weight * column * row
                    yy += weight * row * row
        if not total > 0:
            # A map without a number in it says nothing, and has neither.
            points[k], covariance[k] = np.nan, np.nan
            continue
        x, y = x / total, y / total
        points[k, 0], points[k, 1] = x, y
        covariance[k, 0, 0], covariance[k, 1, 1] = xx / total - x * x, yy / total - y * y
        covariance[k, 0, 1] = covariance[k, 1, 0] = xy / total - x * y
    return points, covariance
