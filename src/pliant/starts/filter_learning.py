"""Learning a filter that tells the object from all else, by linear discriminant analysis.

With the mean m1 and the covariance C1 of objects, moved and turned a little, and those of windows that are no
object, m0 and C0, the weights of the filter are

    w ~ (C0 + a C1 + b I)^-1 (m1 - m0),

scaled and shifted so that the objects' mean answer is 1 and that of the others is -1. Windows that are no object
are taken at random from the training images, beside the object, on parts of it and around it; then the filter is
laid over the images, those to which it answers most are added, and it is learned again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import cv2
import numpy as np

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Float32, Float64
from pliant.crew import Jobs, crew_of
from pliant.data.dataset import Sample
from pliant.shape import Similarity, align, shape_size
from pliant.starts.cells import CELL, cells
from pliant.starts.filtering import Layer, answers, layers, peaks, seen_of
from pliant.starts.filters import DIRECTIONS, ObjectFilter

_AREA = 64
"""Cells in the box of the object, about."""

_SURROUNDINGS = 0.2
"""What the window shows around that box, of its size on every side."""

_IMAGES, _MINED = 300, 50
"""Most images that objects are taken from, and that windows without an object are taken from."""

_COPIES, _MOST_COPIES = 1500, 12
"""Objects to learn from, moved copies among them, and most of one image."""

_MOVED, _RESIZED, _TURNED = 0.03, 0.06, math.radians(8)
"""Deviations of the copies: of the object's size, of the logarithm of the size, and of the angle."""

_OTHERS, _MOST_OTHERS = 4000, 80
"""Windows without an object, and most of one image."""

_HARDEST, _ROUNDS = 24, 3
"""Windows of an image that are added in a round, and the number of rounds."""

_OFF, _OTHER_SIZE = 0.3, math.log(1.45)
"""Windows are no object from this distance, in sizes of the object, or ratio of sizes."""

_OBJECTS_SHARE, _RIDGE = 0.2, 0.05
"""The a of the weights, and b over the mean variance."""

_TRIED_TURN = 0.2
"""The deviation, in radians, of the turns in which images are looked at for windows without an object."""


class _Known(NamedTuple):
    """A grey image of bytes, and where the window is in it that holds the object."""

    grey: Any
    placed: Similarity
    number: int


def learn_filter(samples: Sequence[Sample], shapes: Float64, mean: Float64, jobs: Jobs = 1) -> ObjectFilter:
    """A filter for the object with landmarks `shapes (k, v, 2)` in the samples, and the mean shape `(v, 2)`."""
    shape, rows, columns = _window(mean)
    placed = align(np.broadcast_to(shape, shapes.shape), shapes)
    blank = ObjectFilter(
        weights=np.zeros((DIRECTIONS, rows, columns), dtype=np.float32),
        offset=0.0,
        shape=shape,
        turn=float(np.quantile(np.abs(placed.angle), 0.95)),
    )
    chosen = np.random.default_rng(0).permutation(len(samples))[:_IMAGES]
    some = {int(k): (samples[k], Similarity(placed.factor[k], placed.offset[k])) for k in chosen}
    return crew_of(jobs).one(_learned, some, blank)


def _learned(
    samples: Mapping[int, tuple[Sample, Similarity]], blank: ObjectFilter, *, threads: int
) -> ObjectFilter:
    """The filter that these samples teach, which have numbers, and places of the window in their images."""
    chosen = list(samples)

    def known(number: int) -> _Known:
        sample, there = samples[number]
        return _Known(as_grey_bytes(sample.image()), there, number)

    copies = min(_MOST_COPIES, math.ceil(_COPIES / len(chosen)))
    mined = chosen[:_MINED]
    others = min(_MOST_OTHERS, math.ceil(_OTHERS / len(mined)))
    with ThreadPoolExecutor(max_workers=threads) as pool:
        objects = np.concatenate(list(pool.map(lambda k: _objects(known(k), blank, copies), chosen)))
        windows = list(pool.map(lambda k: _anywhere(known(k), blank, others), mined))
        found = _discriminant(blank, objects, np.concatenate(windows))
        for _ in range(_ROUNDS):
            # An object that nobody has annotated answers as well as others do.
            most = float(np.median(objects @ found.weights.ravel())) + found.offset
            windows += list(pool.map(lambda k, f=found, m=most: _hardest(known(k), f, m), mined))
            found = _discriminant(blank, objects, np.concatenate(windows))
    return found


def _window(mean: Float64) -> tuple[Float64, int, int]:
    """The mean shape `(v, 2)` in the pixels of its window, and the window's rows and columns of cells."""
    extent = np.ptp(mean, axis=0)
    scale = CELL * math.sqrt(_AREA / float(np.prod(extent)))
    extent = extent * scale
    margin = _SURROUNDINGS * math.sqrt(float(np.prod(extent)))
    columns, rows = np.ceil((extent + 2 * margin) / CELL).astype(int)
    corner = (CELL * np.array([columns, rows]) - 1 - extent) / 2
    return np.asarray((mean - mean.min(axis=0)) * scale + corner), int(rows), int(columns)


def _objects(known: _Known, blank: ObjectFilter, copies: int) -> Float32:
    """Windows `(copies, n)` with the object, moved a little."""
    rng = np.random.default_rng([1, known.number])
    low, high = blank.shape.min(axis=0), blank.shape.max(axis=0)
    middle, size = complex(*(low + high) / 2), float(shape_size(blank.shape))
    out = []
    for _ in range(copies):
        along_x, along_y, larger, turned = rng.normal(size=4)
        factor = np.asarray(np.exp(_RESIZED * larger + 1j * _TURNED * turned))
        offset = middle + _MOVED * size * complex(along_x, along_y) - factor * middle
        outer = known.placed
        both = Similarity(outer.factor * factor, outer.factor * offset + outer.offset)
        out.append(_looked_at(known.grey, both, *blank.weights.shape[1:]).ravel())
    return np.array(out)


def _looked_at(grey: Any, placed: Similarity, rows: int, columns: int) -> Float32:
    """Cells `(8, rows, columns)` of the window that `placed` puts into an image, as the layers of it have them."""
    # One more cell on every side, because cells are divided by the energy of their neighbours.
    wide, high = CELL * (columns + 2), CELL * (rows + 2)
    corners = np.array([(0, 0), (wide, 0), (0, high), (wide, high)], dtype=np.float64) - CELL
    there, reach = placed.apply(corners), 2 + 2 * float(placed.scale)
    low = np.maximum(np.floor(there.min(axis=0) - reach), 0).astype(int)
    last = np.minimum(np.ceil(there.max(axis=0) + reach), grey.shape[::-1]).astype(int)
    if np.any(last - low < 2):
        return np.zeros((DIRECTIONS, rows, columns), dtype=np.float32)
    part = grey[low[1] : last[1], low[0] : last[0]]
    zoom = min(1.0, 1 / float(placed.scale))
    size = np.maximum(np.round(zoom * np.array(part.shape[::-1])), 2).astype(int)
    small = cv2.resize(part, size.tolist(), interpolation=cv2.INTER_AREA)
    ratio = size / part.shape[::-1]
    steps = np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]) - CELL
    origin, right, down = (placed.apply(steps) - low + 0.5) * ratio - 0.5
    affine = np.stack([right - origin, down - origin, origin], axis=1)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    patch: Any = cv2.warpAffine(small, affine, (wide, high), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    inside = seen_of(small.shape, affine, wide, high)
    return cells(patch.astype(np.float32) / np.float32(255), inside)[:, 1:-1, 1:-1]


def _anywhere(known: _Known, blank: ObjectFilter, count: int) -> Float32:
    """Windows `(k, n)` without the object, at random places and sizes, `count` at most."""
    rng = np.random.default_rng([2, known.number])

    def some(layer: Layer) -> tuple[Float64, Float64]:
        _, rows, columns = np.array(layer.channels.shape) - blank.weights.shape + 1
        places = np.stack([rng.integers(0, rows, 8), rng.integers(0, columns, 8)], axis=1)
        return rng.uniform(size=8), places.astype(np.float64)

    return _best_of(known, blank, rng, some, count)


def _hardest(known: _Known, found: ObjectFilter, most: float) -> Float32:
    """Windows `(k, n)` without the object to which the filter answers most, though not beyond `most`."""
    rng = np.random.default_rng([3, known.number])

    def some(layer: Layer) -> tuple[Float64, Float64]:
        values, places = peaks(answers(found, layer.channels), -1.0)
        allowed = values < most
        best = np.argsort(-values[allowed], kind="stable")[: 2 * _HARDEST]
        return values[allowed][best], places[allowed][best]

    return _best_of(known, found, rng, some, _HARDEST)


def _best_of(
    known: _Known,
    found: ObjectFilter,
    rng: np.random.Generator,
    some: Callable[[Layer], tuple[Float64, Float64]],
    count: int,
) -> Float32:
    """The windows without the object that have the largest values in the layers of an image."""
    truth = known.placed.apply(found.shape)
    size, middle = float(shape_size(truth)), (truth.min(axis=0) + truth.max(axis=0)) / 2
    turn = float(known.placed.angle) + _TRIED_TURN * rng.normal()
    # Parts of the object down to a third of it: smaller ones are many, and much alike.
    smallest = size / 3 / min(known.grey.shape)
    _, rows, columns = found.weights.shape
    best: list[tuple[float, Float32]] = []
    for layer in layers(found, known.grey, np.array([turn]), smallest):
        for value, (row, column) in zip(*some(layer), strict=True):
            there = layer.shape_at(found.shape, row, column)
            gap = np.linalg.norm((there.min(axis=0) + there.max(axis=0)) / 2 - middle) / size
            ratio = abs(math.log(float(shape_size(there)) / size))
            if gap > _OFF or ratio > _OTHER_SIZE:
                down, right = int(row), int(column)
                cut = layer.channels[:, down : down + rows, right : right + columns]
                best.append((float(value), cut.ravel()))
    best.sort(key=lambda one: -one[0])
    return np.array([cut for _, cut in best[:count]], dtype=np.float32).reshape(-1, found.weights.size)


def _discriminant(blank: ObjectFilter, objects: Float32, others: Float32) -> ObjectFilter:
    """The filter that parts windows with the object `(k, n)` from others `(j, n)`."""
    centre = others.mean(axis=0) if len(others) else np.zeros(objects.shape[1], dtype=np.float32)
    spread = _covariance(others) + _OBJECTS_SHARE * _covariance(objects)
    ridge = _RIDGE * float(np.trace(spread)) / len(spread) + 1e-9
    apart = (objects.mean(axis=0) - centre).astype(np.float64)
    weights = np.linalg.solve(spread + ridge * np.eye(len(spread)), apart)
    scale = 2 / max(float(apart @ weights), 1e-12)
    return ObjectFilter(
        weights=(scale * weights).astype(np.float32).reshape(blank.weights.shape),
        offset=-1 - scale * float(centre @ weights),
        shape=blank.shape,
        turn=blank.turn,
    )


def _covariance(windows: Float32) -> Float64:
    if len(windows) < 2:
        return np.zeros((windows.shape[1],) * 2)
    centred = windows - windows.mean(axis=0)
    return np.asarray(centred.T @ centred / len(windows), dtype=np.float64)
