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
from pliant.namespace import beside, is_tensor, namespace

Complex = NDArray[np.complex128]

AT_ONCE = 4096
"""Shapes in a part: sums of parts follow from the number of shapes alone, whoever makes them."""


@dataclass(frozen=True, eq=False, repr=False)
class Similarity(Concise):
    """One or many similarity transforms of the plane: z becomes factor * z + offset, with z = x + iy.

    Parameters
    ----------
    factor : ndarray of complex, shape (...)
        The scale times exp(i angle).
    offset : ndarray of complex, shape (...)
        The shift tx + i ty.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> quarter_turn = pliant.shape.Similarity(np.array(2j), np.array(1 + 0j))
    >>> quarter_turn.scale.item(), np.degrees(quarter_turn.angle).item()
    (2.0, 90.0)

    """

    factor: Complex
    offset: Complex

    @property
    def scale(self) -> Float64:
        """The factor by which lengths grow, `(...)`."""
        scale: Float64 = namespace(self.factor).abs(self.factor)
        return scale

    @property
    def angle(self) -> Float64:
        """The angle in radians, `(...)`. A positive angle turns the x axis towards the y axis."""
        angle: Float64 = namespace(self.factor).angle(self.factor)
        return angle

    def apply(self, points: Floats) -> Float64:
        """Move points.

        Parameters
        ----------
        points : array, shape (..., v, 2)
            The points to move. With many similarities, the leading dimensions broadcast.

        Returns
        -------
        ndarray, shape (..., v, 2)
            The moved points.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> quarter_turn = pliant.shape.Similarity(np.array(1j), np.array(10 + 0j))
        >>> quarter_turn.apply(np.array([[1.0, 0.0], [0.0, 1.0]]))
        array([[10.,  1.],
               [ 9.,  0.]])

        """
        return _points(self.factor[..., None] * _complex(points) + self.offset[..., None])

    def inverse(self) -> Similarity:
        """Return the transform that undoes this one.

        Returns
        -------
        Similarity
            As many transforms as there are here.

        Raises
        ------
        ValueError
            If the scale is 0: what has become one point cannot be told apart any more.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> transform = pliant.shape.Similarity(np.array(2j), np.array(3 + 0j))
        >>> points = np.array([[1.0, 0.0], [0.0, 1.0]])
        >>> np.allclose(transform.inverse().apply(transform.apply(points)), points)
        True

        """
        # A device is not waited for: there, points that cannot be undone are not numbers.
        if not is_tensor(self.factor) and np.any(self.factor == 0):
            raise ValueError(
                "a similarity whose scale is 0 cannot be undone: it makes one point of everything."
            )
        return Similarity(1 / self.factor, -self.offset / self.factor)


def align(source: Floats, target: Floats) -> Similarity:
    """Return the similarity that brings one shape nearest to another in the least-squares sense.

    Parameters
    ----------
    source : array, shape (..., v, 2)
        The shapes to move.
    target : array, shape (..., v, 2)
        The shapes to reach. The leading dimensions broadcast.

    Returns
    -------
    Similarity
        One transform for each pair of shapes, `(...)`. It never reflects. A source whose landmarks all lie in one
        place is only shifted, because no scale and no angle brings it nearer.

    Raises
    ------
    ValueError
        If the shapes have no landmarks.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> found = pliant.shape.align(square, 3 * square + 5)
    >>> round(found.scale.item(), 6), found.apply(square).shape
    (3.0, (4, 2))

    """
    _check_landmarks(source)
    xp = namespace(target)
    source_points, target_points = _complex(beside(source, target)), _complex(target)
    source_centre = source_points.mean(axis=-1, keepdims=True)
    target_centre = target_points.mean(axis=-1, keepdims=True)
    centred = source_points - source_centre
    together = (xp.conj(centred) * (target_points - target_centre)).sum(axis=-1)
    # Not by the sum of squares, which rounding of the centre keeps from being zero.
    point = in_one_place(beside(source, target))
    factor = xp.where(point, 1.0, together / xp.where(point, 1.0, (xp.abs(centred) ** 2).sum(axis=-1)))
    return Similarity(factor, target_centre[..., 0] - factor * source_centre[..., 0])


def generalised_procrustes(shapes: Floats, tolerance: float = 1e-10) -> tuple[Float64, Float64]:
    """Align shapes to their common mean with similarity transforms.

    The mean is centred, its root-mean-square distance to the centre is 1, and it has the average orientation of
    the shapes: upright objects have an upright mean.

    Parameters
    ----------
    shapes : array, shape (k, v, 2)
        The shapes.
    tolerance : float
        The iteration ends when no coordinate of the mean changes by more than this.

    Returns
    -------
    mean : ndarray, shape (v, 2)
        The mean shape.
    aligned : ndarray, shape (k, v, 2)
        The shapes, aligned to the mean.

    Raises
    ------
    ValueError
        If there are no shapes, or one of them has all its landmarks in one place.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> shapes = np.stack([sample.points() for sample in pliant.synthetic.faces(5, image_size=64)])
    >>> mean, aligned = pliant.shape.generalised_procrustes(shapes)
    >>> mean.shape, aligned.shape
    ((68, 2), (5, 68, 2))

    """
    shapes = np.asarray(shapes, dtype=np.float64)
    mean = procrustes_mean(shapes, tolerance)
    return mean, align(shapes, mean).apply(shapes)


def procrustes_mean(shapes: Floats, tolerance: float = 1e-10, jobs: Jobs = 1) -> Float64:
    """The mean `(v, 2)` of shapes `(k, v, 2)` alone, as `generalised_procrustes` has it.

    Sums are made over parts of the shapes, in each round anew.
    """
    shapes = np.asarray(shapes, dtype=np.float64)
    if not len(shapes):
        raise ValueError("there are no shapes, so they have no mean.")
    _check_landmarks(shapes)
    points = np.flatnonzero(in_one_place(shapes))
    if len(points):
        raise ValueError(f"shape {points[0]} has all its landmarks in one place, so it cannot be aligned.")
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
    """Return the size of shapes: the mean of the height and the width of the bounding box.

    Parameters
    ----------
    points : array, shape (..., v, 2)
        The shapes.

    Returns
    -------
    ndarray, shape (...)
        The sizes, in pixels.

    Raises
    ------
    ValueError
        If the shapes have no landmarks.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> pliant.shape.shape_size(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 2.0]])).item()
    3.0

    """
    _check_landmarks(points)
    return np.asarray(np.mean(np.ptp(points, axis=-2), axis=-1), dtype=np.float64)


def in_one_place(points: Any) -> Any:
    """Which shapes `(..., v, 2)` have all their landmarks in the same place."""
    if is_tensor(points):
        return (points.amin(axis=-2) == points.amax(axis=-2)).all(axis=-1)
    # Axis by axis: NumPy is slow where the last axis is as short as that of points.
    return np.asarray((np.ptp(points[..., 0], axis=-1) == 0) & (np.ptp(points[..., 1], axis=-1) == 0))


def _check_landmarks(points: Floats) -> None:
    if not points.shape[-2]:
        raise ValueError("a shape without landmarks has no place and no size.")


def _normalised(points: Float64) -> Float64:
    centred = points - points.mean(axis=0)
    return np.asarray(centred / np.sqrt(np.mean(np.sum(centred**2, axis=-1))))


def _complex(points: Floats) -> Complex:
    if is_tensor(points):
        return points[..., 0] + 1j * points[..., 1]
    return np.asarray(points[..., 0] + 1j * points[..., 1], dtype=np.complex128)


def _points(z: Complex) -> Float64:
    points: Float64 = namespace(z).stack([z.real, z.imag], axis=-1)
    return points
