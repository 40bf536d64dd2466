"""Triangles between the landmarks: Delaunay's by default, or the user's, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pliant.arrays import Floats, Int32, readonly

_FLAT = 1e-5
"""A triangle whose area is below this share of the bounding box's is no triangle."""


def delaunay(points: Floats) -> Int32:
    """Triangulate points after Delaunay, without slivers on the hull.

    Parameters
    ----------
    points : array, shape (v, 2)
        The points.

    Returns
    -------
    ndarray of int, shape (t, 3)
        The numbers of each triangle's corners. All triangles turn the same way.

    Raises
    ------
    ValueError
        If there are fewer than three points, if they lie on one line, or if some coincide.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> pliant.motion.delaunay(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 3.0]])).shape
    (2, 3)

    """
    from scipy.spatial import Delaunay, QhullError

    if len(points) < 3:
        raise ValueError(f"triangles need at least three landmarks, but there are {len(points)}.")
    try:
        triangles = Delaunay(np.asarray(points, dtype=np.float64)).simplices
    except QhullError:
        raise ValueError(
            "the landmarks of the mean shape are on one line: they cannot be triangulated."
        ) from None
    triangles = triangles[~flat_triangles(points, triangles)]
    unused = _unused(points, triangles)
    if unused:
        raise ValueError(
            f"in the mean shape, landmarks {_listed(unused)} coincide with others, so they belong to no "
            "triangle: leave them out, or give your own triangles (triangles=...)."
        )
    return _oriented(points, triangles)


def checked_triangles(points: Floats, triangles: Sequence[Sequence[int]] | Int32) -> Int32:
    """The user's triangles `(t, 3)` for points `(v, 2)`, or a sentence that says what is wrong with them."""
    array = np.asarray(triangles)
    if array.ndim != 2 or array.shape[1] != 3 or not np.issubdtype(array.dtype, np.integer) or not len(array):
        raise ValueError("triangles must be rows of three landmark numbers, such as [[0, 1, 2], [1, 2, 3]].")
    last = len(points) - 1
    for number in np.flatnonzero((array.min(axis=1) < 0) | (array.max(axis=1) > last)):
        names = _listed(array[number])
        raise ValueError(
            f"triangle {number} has landmarks {names}, but landmarks are numbered from 0 to {last}."
        )
    for number in np.flatnonzero(flat_triangles(points, array)):
        names = _listed(array[number])
        raise ValueError(
            f"triangle {number} is degenerate: landmarks {names} are on one line in the mean shape."
        )
    unused = _unused(points, array)
    if unused:
        raise ValueError(f"landmarks {_listed(unused)} belong to no triangle: each landmark must be in one.")
    return _oriented(points, array)


def signed_areas(points: Floats, triangles: Int32) -> Floats:
    """Areas `(t,)`, positive where the corners turn from x towards y."""
    a, b, c = (np.asarray(points, dtype=np.float64)[triangles[:, corner]] for corner in range(3))
    u, v = b - a, c - a
    return (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / 2


def _oriented(points: Floats, triangles: Int32) -> Int32:
    """All turning the same way, in an order that does not depend on the library that found them."""
    triangles = np.where((signed_areas(points, triangles) < 0)[:, None], triangles[:, ::-1], triangles)
    first = np.argmin(triangles, axis=1)
    triangles = np.take_along_axis(triangles, (first[:, None] + np.arange(3)) % 3, axis=1)
    return readonly(triangles[np.lexsort(triangles.T[::-1])].astype(np.int32))


def flat_triangles(points: Floats, triangles: Int32) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which triangles `(t,)` of points `(v, 2)` have next to no area."""
    return np.abs(signed_areas(points, triangles)) <= _FLAT * float(np.prod(np.ptp(points, axis=0)))


def _unused(points: Floats, triangles: Int32) -> list[int]:
    return sorted(set(range(len(points))) - set(triangles.ravel().tolist()))


def _listed(numbers: Sequence[int] | Int32) -> str:
    return ", ".join(str(int(number)) for number in numbers)
