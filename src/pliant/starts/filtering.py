"""The learned filter, laid over an image at all sizes: where it answers, there may be an object."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Concise, Float32, Float64, Image
from pliant.compiled import compiled
from pliant.shape import shape_size
from pliant.starts.cells import CELL, cells
from pliant.starts.filters import ObjectFilter

_STEP = 2 ** (1 / 5)
"""The factor between neighbouring sizes."""

SMALLEST = 1 / 20
"""Size of the smallest object that is looked for, of the shorter side of the image."""

_ENLARGED = 1.5
"""Images are not enlarged further to look for small objects."""

_BEYOND = 1.3
"""Sides of the largest object's box over those of the image."""

_OUTSIDE = 0.4
"""The share of a window that may lie outside of the image, on every side."""

_TURN = math.radians(20)
"""The angle between neighbouring turns of the image."""


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Concise):
    """Cells `(8, rows, columns)` of an image at one size and turn, with `pad` rows and columns of nothing about.

    `to_image (2, 3)` maps pixels at that size to those of the image.
    """

    channels: Float32
    pad: tuple[int, int]
    to_image: Float64

    def shape_at(self, shape: Float64, row: float, column: float) -> Float64:
        """A shape `(v, 2)` in a window whose first cell is this, in the image."""
        corner = CELL * (np.array([column, row]) - self.pad[::-1])
        return np.asarray((shape + corner) @ self.to_image[:, :2].T + self.to_image[:, 2])


def layers(found: ObjectFilter, image: Image, turns: Float64, smallest: float = SMALLEST) -> Iterator[Layer]:
    """The image at all turns (radians), and all sizes at which the window may hold an object.

    `smallest` is the size of the smallest object, of the shorter side of the image.
    """
    grey: Any = as_grey_bytes(image)
    height, width = grey.shape
    wide, high = np.ptp(found.shape, axis=0)
    largest = min(_ENLARGED, float(shape_size(found.shape)) / (smallest * min(height, width)))
    least = max(wide / width, high / height) / _BEYOND
    count = 1 + max(0, math.floor(math.log(largest / least) / math.log(_STEP)))
    scales = largest / _STEP ** np.arange(count)
    if largest < 1:
        # Once, and not at every turn.
        grey, scales = _resized(grey, largest, cv2.INTER_AREA), scales / largest
    _, rows, columns = found.weights.shape
    pad = int(_OUTSIDE * rows), int(_OUTSIDE * columns)
    for turn in turns:
        turned, back, inside = _turned(grey, float(turn))
        to_image = _then(back, _back(grey.shape, (height, width)))
        halved = turned
        for scale in scales:
            while scale * turned.shape[1] <= halved.shape[1] / 2 and min(halved.shape) > 2 * CELL:
                halved = _resized(halved, 0.5, cv2.INTER_AREA)
            # From at most twice the size, where this is nearly the mean of the pixels.
            small = _resized(turned, scale, cv2.INTER_LINEAR, halved)
            mask = None if inside is None else _resized(turned, scale, cv2.INTER_NEAREST, inside)
            channels = cells(small.astype(np.float32) / np.float32(255), mask)
            channels = np.pad(channels, ((0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
            if channels.shape[1] >= rows and channels.shape[2] >= columns:
                yield Layer(channels, pad, _then(_back(small.shape, turned.shape), to_image))


def _resized(image: Any, scale: float, how: int, source: Any = None) -> Any:
    """An image at a scale, made from another that shows the same, if there is one."""
    width, height = (max(CELL, round(scale * side)) for side in image.shape[::-1])
    return cv2.resize(image if source is None else source, (width, height), interpolation=how)


def _back(small: tuple[int, ...], large: tuple[int, ...]) -> Float64:
    """The map `(2, 3)` from pixels of a resized image to those of the original: centres are at integers in both."""
    ratio = np.array(large[::-1]) / small[::-1]
    return np.array([(ratio[0], 0, 0.5 * ratio[0] - 0.5), (0, ratio[1], 0.5 * ratio[1] - 0.5)])


def _then(first: Float64, second: Float64) -> Float64:
    """Two affine maps `(2, 3)` as one."""
    linear = second[:, :2] @ first
    linear[:, 2] += second[:, 2]
    return np.asarray(linear)


def answers(found: ObjectFilter, channels: Float32) -> Float32:
    """What the filter gives for every window of channels `(8, h, w)`."""
    return np.asarray(_correlated(found.weights, channels) + np.float32(found.offset))


def peaks(values: Float32, least: float) -> tuple[Float64, Float64]:
    """Values `(k,)` above the least that no neighbour exceeds, and where they are `(k, 2)`, rows and columns."""
    around: Any = cv2.dilate(values, np.ones((3, 3), dtype=np.uint8))
    rows, columns = np.nonzero((values >= around) & (values > least))
    return values[rows, columns].astype(np.float64), np.stack([rows, columns], axis=1).astype(np.float64)


def turns_of(found: ObjectFilter, any_rotation: bool = False) -> Float64:
    """Turns, in radians, between which the filter sees all that objects had in training, or a whole circle."""
    if any_rotation:
        return np.arange(0, 2 * np.pi - 1e-9, _TURN)
    steps = max(0, math.ceil((found.turn - 0.75 * _TURN) / _TURN))
    return np.asarray(_TURN * np.arange(-steps, steps + 1), dtype=np.float64)


def search(
    found: ObjectFilter, image: Image, turns: Float64, least: float, most: int
) -> tuple[Float64, Float64]:
    """Answers `(k,)` above the least, and shapes `(k, v, 2)` of what may be objects: best first, overlapping."""
    values: list[Float64] = [np.zeros(0)]
    shapes: list[Float64] = [np.zeros((0, *found.shape.shape))]
    for layer in layers(found, image, turns):
        some, places = peaks(answers(found, layer.channels), least)
        best = np.argsort(-some, kind="stable")[:most]
        values.append(some[best])
        shapes += [layer.shape_at(found.shape, row, column)[None] for row, column in places[best]]
    together = np.concatenate(values)
    order = np.argsort(-together, kind="stable")[:most]
    return together[order], np.concatenate(shapes)[order]


def seen_of(size: tuple[int, ...], affine: Float64, width: int, height: int) -> Float32 | None:
    """1 where pixels `(height, width)` that `affine (2, 3)` maps into an image `(h, w)` show some of it, else 0.

    None if all do.
    """
    corners = np.array([(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)], dtype=np.float64)
    there = corners @ affine[:, :2].T + affine[:, 2]
    if np.all((there >= 0) & (there <= np.array(size[1::-1]) - 1)):
        return None
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    ones = np.ones(size, dtype=np.float32)
    return np.asarray(cv2.warpAffine(ones, affine, (width, height), flags=flags), dtype=np.float32)


def _turned(grey: Any, turn: float) -> tuple[Any, Float64, Float32 | None]:
    """An image in which objects turned by `turn` are upright, the map back `(2, 3)`, and what shows the image."""
    if turn == 0:
        return grey, np.eye(2, 3), None
    height, width = grey.shape
    cos, sin = math.cos(turn), math.sin(turn)
    wide = math.ceil(abs(width * cos) + abs(height * sin))
    high = math.ceil(abs(width * sin) + abs(height * cos))
    linear = np.array([[cos, -sin], [sin, cos]])
    offset = (np.array([width, height]) - 1) / 2 - linear @ (np.array([wide, high]) - 1) / 2
    back = np.concatenate([linear, offset[:, None]], axis=1)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    turned = cv2.warpAffine(grey, back, (wide, high), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return turned, back, seen_of(grey.shape, back, wide, high)


@compiled(fastmath=True)
def _correlated(weights: Float32, channels: Float32) -> Float32:
    count, rows, columns = weights.shape
    high, wide = channels.shape[1] - rows + 1, channels.shape[2] - columns + 1
    out = np.zeros((high, wide), dtype=np.float32)
    whole = columns // 4 * 4
    for y in range(high):
        line = out[y]
        for c in range(count):
            for row in range(rows):
                source, along = channels[c, y + row], weights[c, row]
                # Four at a time: what is summed is then read and written a quarter as often.
                for k in range(0, whole, 4):
                    a, b, d, e = along[k], along[k + 1], along[k + 2], along[k + 3]
                    for x in range(wide):
                        line[x] += (
                            a * source[k + x]
                            + b * source[k + x + 1]
                            + d * source[k + x + 2]
                            + e * source[k + x + 3]
                        )
                for k in range(whole, columns):
                    a = along[k]
                    for x in range(wide):
                        line[x] += a * source[k + x]
    return out
