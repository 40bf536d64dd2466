"""Directions of edges in cells of a few pixels: what a filter looks at, quickly made for whole images."""

from __future__ import annotations

import math

import numpy as np

from pliant.arrays import Float32
from pliant.compiled import compiled
from pliant.starts.filters import DIRECTIONS

CELL = 4
"""Pixels from one cell to the next; a cell gathers from twice as many, the nearest most."""

_SOFTNESS = np.float32(0.02)
"""Mean slope, of images from 0 to 1, below which edges fade."""

_MOST = np.float32(0.6)
"""No direction of a cell counts for more: one strong edge must not outweigh all others."""


def cells(grey: Float32, seen: Float32 | None = None) -> Float32:
    """Channels `(8, rows, columns)` of a grey image `(h, w)` from 0 to 1; cell (0, 0) is about its first pixels.

    The centre of cell (row, column) is at pixel `CELL * (column + 0.5) - 0.5`, and likewise down. Slopes are
    weighted by `seen (h, w)`, if it is given. Each cell is divided by the energy of the nine about it.
    """
    height, width = grey.shape
    weights = np.ones((1, 1), dtype=np.float32) if seen is None else seen
    if height < CELL or width < CELL:
        return np.zeros((DIRECTIONS, height // CELL, width // CELL), dtype=np.float32)
    return np.asarray(_normalised(_gathered(grey, weights)), dtype=np.float32)


@compiled(fastmath={"contract"}, error_model="numpy")
def _gathered(grey: Float32, seen: Float32) -> Float32:
    height, width = grey.shape
    rows, columns = height // CELL, width // CELL
    out = np.zeros((DIRECTIONS, rows, columns), dtype=np.float32)
    # Of the cell row whose gathering ends next, and of the one after it.
    sums = np.zeros((2, DIRECTIONS, width), dtype=np.float32)
    line = np.zeros((DIRECTIONS, width), dtype=np.float32)
    masked = seen.shape[0] == height
    for y in range(rows * CELL):
        _directions(grey[max(y - 1, 0)], grey[y], grey[min(y + 1, height - 1)], line)
        if masked:
            for c in range(DIRECTIONS):
                for x in range(width):
                    line[c, x] *= seen[y, x]
        # Between the centres of two cell rows: the nearer one has the larger share.
        place = (y + 0.5) / CELL - 0.5
        upper = math.floor(place)
        lower_share = np.float32(place - upper)
        for k in range(2):
            row, share = upper + k, lower_share if k else np.float32(1) - lower_share
            if 0 <= row < rows:
                total = sums[row % 2]
                for c in range(DIRECTIONS):
                    for x in range(width):
                        total[c, x] += share * line[c, x]
        if (y + 1 - CELL // 2) % CELL == 0 and upper >= 0:
            _along(sums[upper % 2], out[:, upper])
            sums[upper % 2] = 0
    _along(sums[(rows - 1) % 2], out[:, rows - 1])
    return out


@compiled(fastmath={"contract"}, error_model="numpy")
def _directions(above: Float32, here: Float32, below: Float32, out: Float32) -> None:
    """The slopes of a row `(w,)`, shared between the two nearest of 8 directions `(8, w)`."""
    width = len(here)
    zero, half = np.float32(0), np.float32(0.5)
    root = np.float32(math.sqrt(0.5))
    for x in range(width):
        dx = (here[min(x + 1, width - 1)] - here[max(x - 1, 0)]) * half
        dy = (below[x] - above[x]) * half
        right, down, flat = dx > 0, dy > 0, abs(dx) >= abs(dy)
        large, small = max(abs(dx), abs(dy)), min(abs(dx), abs(dy))
        # The slope as a sum of one along an axis and one along a diagonal: no angle is needed.
        straight, diagonal = large - small, small / root
        out[0, x] = straight if flat and right else zero
        out[1, x] = diagonal if right and down else zero
        out[2, x] = straight if down and not flat else zero
        out[3, x] = diagonal if down and not right else zero
        out[4, x] = straight if flat and not right else zero
        out[5, x] = zero if right or down else diagonal
        out[6, x] = zero if flat or down else straight
        out[7, x] = diagonal if right and not down else zero


@compiled(fastmath={"contract"}, error_model="numpy")
def _along(sums: Float32, out: Float32) -> None:
    """Rows `(8, w)` gathered into cells `(8, columns)`."""
    width = sums.shape[1]
    for column in range(out.shape[1]):
        for k in range(2 * CELL):
            x = column * CELL - CELL // 2 + k
            if 0 <= x < min(width, out.shape[1] * CELL):
                share = np.float32(1) - abs(np.float32(k - CELL) + np.float32(0.5)) / np.float32(CELL)
                for c in range(DIRECTIONS):
                    out[c, column] += share * sums[c, x]


@compiled(fastmath={"contract"}, error_model="numpy")
def _normalised(gathered: Float32) -> Float32:
    _, rows, columns = gathered.shape
    energy = np.zeros((rows, columns), dtype=np.float32)
    for c in range(DIRECTIONS):
        for y in range(rows):
            for x in range(columns):
                energy[y, x] += gathered[c, y, x] * gathered[c, y, x]
    out = np.empty_like(gathered)
    # The shares of the pixels of a cell add up to CELL squared.
    least = (_SOFTNESS * CELL * CELL) ** 2
    for y in range(rows):
        for x in range(columns):
            total = np.float32(0)
            count = 0
            for row in range(max(y - 1, 0), min(y + 2, rows)):
                for column in range(max(x - 1, 0), min(x + 2, columns)):
                    total += energy[row, column]
                    count += 1
            factor = np.float32(1) / math.sqrt(total / count + least)
            for c in range(DIRECTIONS):
                out[c, y, x] = min(gathered[c, y, x] * factor, _MOST)
    return out
