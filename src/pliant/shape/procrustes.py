"""Similarity transforms of the plane, the best one between two shapes, and the mean of many shapes.

A similarity is one complex product and sum: with z = x + iy, z -> factor * z + offset. Composition,
inversion and least squares are then one line each, and a reflection cannot occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats
from pliant.crew import Jobs, crew_of

Complex = NDArray[np.complex128]

AT_ONCE = 4096
"""Shapes in a part: sums of parts follow from the number of shapes alone, whoever makes them."""


@dataclass(frozen=True, eq=False, repr=False)
class Similarity(Concise):
    """One or many similarities: `factor (...)` = scale * exp(i angle), and `offset (...)` = tx + i ty."""

    factor: Complex
    offset: Complex

    @property
    def scale(self) -> Float64:
        return np.abs(self.factor)

    @property
    def angle(self) -> Float64:
        """Radians; positive turns the x axis towards the y axis."""
        return np.angle(self.factor)

    def apply(self, points: Floats) -> Float64:
        """Points `(..., v, 2)` moved."""
        return _points(self.factor[..., None] * _complex(points) + self.offset[..., None])

    def inverse(self) -> Similarity:
        return Similarity(1 / self.factor, -self.offset / self.factor)


def align(source: Floats, target: Floats) -> Similarity:
    """The similarity that brings `source (..., v, 2)` nearest to `target (..., v, 2)` in least squares."""
    source_points, target_points = _complex(source), _complex(target)
    source_centre = source_points.mean(axis=-1, keepdims=True)
    target_centre = target_points.mean(axis=-1, keepdims=True)
    centred = source_points - source_centre
    factor = np.sum(np.conj(centred) * (target_points - target_centre), axis=-1) / np.sum(
        np.abs(centred) ** 2, axis=-1
    )
    return Similarity(factor, target_centre[..., 0] - factor * source_centre[..., 0])


def generalised_procrustes(shapes: Floats, tolerance: float = 1e-10) -> tuple[Float64, Float64]:
    """The mean `(v, 2)` of shapes `(k, v, 2)` and the shapes `(k, v, 2)` aligned to it by similarities.

    The mean is centred, its root-mean-square distance to the centre is 1, and it is turned to the
    average orientation of the shapes: upright objects have an upright mean.
    """
    shapes = np.asarray(shapes, dtype=np.float64)
    mean = procrustes_mean(shapes, tolerance)
    return mean, align(shapes, mean).apply(shapes)


def procrustes_mean(shapes: Floats, tolerance: float = 1e-10, jobs: Jobs = 1) -> Float64:
    """The mean `(v, 2)` of shapes `(k, v, 2)` alone, as `generalised_procrustes` has it.

    Sums are made over parts of the shapes, in each round anew.
    """
    shapes = np.asarray(shapes, dtype=np.float64)
    parts = parts_of_shapes(shapes)
    crew = crew_of(jobs if len(parts) > 1 else 1)
    mean = _normalised(shapes[0])
    for _ in range(100):
        previous = mean
        mean = _normalised(crew.merged(_sums, parts, np.add, _placed, mean) / len(shapes))
        # Without this, scale and rotation of the mean drift along a valley of equally good solutions.
        mean = _normalised(align(mean, previous).apply(mean))
        if np.max(np.abs(mean - previous)) < tolerance:
            break
    tilt = np.angle(crew.merged(_sums, parts, np.add, _turns, mean))
    return Similarity(np.exp(1j * np.asarray(tilt)), np.zeros((), np.complex128)).apply(mean)


def parts_of_shapes(shapes: Floats) -> list[Float64]:
    """Shapes `(k, v, 2)` in parts: one, unless there are thousands."""
    return [
        np.asarray(shapes[first : first + AT_ONCE], dtype=np.float64)
        for first in range(0, len(shapes), AT_ONCE)
    ]


def _sums(
    parts: Sequence[Float64], what: Callable[[Float64, Float64], NDArray[Any]], mean: Float64, *, threads: int
) -> Iterator[NDArray[Any]]:
    """For each part, the sum of what the function makes of its shapes and the mean."""
    with ThreadPoolExecutor(max_workers=threads) as pool:
        yield from pool.map(lambda shapes: np.sum(what(shapes, mean), axis=0), parts)


def _placed(shapes: Float64, mean: Float64) -> Float64:
    return align(shapes, mean).apply(shapes)


def _turns(shapes: Float64, mean: Float64) -> Complex:
    return np.asarray(np.exp(1j * align(mean, shapes).angle))


def shape_size(points: Floats) -> Float64:
    """Size of shapes `(..., v, 2)`: the mean of the height and the width of the bounding box."""
    return np.asarray(np.mean(np.ptp(points, axis=-2), axis=-1), dtype=np.float64)


def _normalised(points: Float64) -> Float64:
    centred = points - points.mean(axis=0)
    return np.asarray(centred / np.sqrt(np.mean(np.sum(centred**2, axis=-1))))


def _complex(points: Floats) -> Complex:
    return np.asarray(points[..., 0] + 1j * points[..., 1], dtype=np.complex128)


def _points(z: Complex) -> Float64:
    return np.stack([z.real, z.imag], axis=-1)
