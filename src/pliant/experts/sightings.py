"""Where landmarks are seen, and how sure that is: all that an expert has to say.

A landmark that is not seen has a precision of zero: wherever its point is, it then pulls at nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image
from pliant.namespace import in_double, namespace, on_host
from pliant.shape.facing import flipped
from pliant.shape.procrustes import Similarity

_MIRRORED = np.array([[1.0, -1.0], [-1.0, 1.0]])
"""What a mirror does to the entries of a covariance or of a precision."""


@dataclass(frozen=True, eq=False, repr=False)
class Sightings(Concise):
    """Where an expert sees each landmark of B objects, in pixels.

    Attributes
    ----------
    points : ndarray, shape (B, v, 2)
        Where the landmarks are seen.
    precision : ndarray, shape (B, v, 2, 2)
        The inverse of the covariance of each point. It is zero for a landmark that is not seen. On a contour it is
        low along the contour and high across it.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> points = np.array([[[3.0, 4.0], [5.0, 4.0]]])
    >>> one = pliant.Sightings(points, np.stack([np.eye(2), np.zeros((2, 2))])[None])
    >>> one.seen.tolist()
    [[True, False]]

    """

    points: Float64
    precision: Float64

    def __len__(self) -> int:
        return len(self.points)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which landmarks are seen at all, `(B, v)`."""
        flat = (self.precision != 0).reshape(*self.precision.shape[:-2], -1)
        seen: NDArray[np.bool_] = flat.any(axis=-1)
        return seen

    def of(self, rows: Sequence[int] | NDArray[np.integer]) -> Sightings:
        """Return the sightings of some of the objects.

        Parameters
        ----------
        rows : sequence of int, length k
            The numbers of the objects.

        Returns
        -------
        Sightings
            Those of k objects, in the order of `rows`.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> three = pliant.Sightings(np.zeros((3, 5, 2)), np.zeros((3, 5, 2, 2)))
        >>> three.of([0, 2]).points.shape
        (2, 5, 2)

        """
        return Sightings(self.points[rows], self.precision[rows])

    def on_host(self) -> Sightings:
        """Return the same sightings as arrays of NumPy.

        Returns
        -------
        Sightings
            These, unless they lie on a device.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> one = pliant.Sightings(np.zeros((1, 5, 2)), np.zeros((1, 5, 2, 2)))
        >>> one.on_host().points.shape
        (1, 5, 2)

        """
        return Sightings(on_host(self.points), on_host(self.precision))

    def moved(self, by: Similarity) -> Sightings:
        """Return the same sightings after a similarity transform.

        Parameters
        ----------
        by : Similarity
            One transform for all objects, or one for each, `(B,)`.

        Returns
        -------
        Sightings
            The points are moved, and the precisions are turned and scaled with them.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> one = pliant.Sightings(np.ones((1, 5, 2)), np.ones((1, 5, 1, 1)) * np.eye(2))
        >>> twice = pliant.shape.Similarity(np.array(2 + 0j), np.array(0j))
        >>> moved = one.moved(twice)
        >>> moved.points[0, 0], moved.precision[0, 0, 0, 0].item()
        (array([2., 2.]), 0.25)

        """
        return Sightings(by.apply(self.points), moved_precision(self.precision, by))

    def mirrored(self, width: int) -> Sightings:
        """Return the same sightings in the mirror image. Landmarks keep their numbers.

        Parameters
        ----------
        width : int
            The width of the image in pixels.

        Returns
        -------
        Sightings
            The points and precisions in the mirror image.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> one = pliant.Sightings(np.zeros((1, 1, 2)), np.eye(2)[None, None])
        >>> one.mirrored(width=10).points
        array([[[9., 0.]]])

        """
        return Sightings(flipped(self.points, width), self.precision * _MIRRORED)


class Expert(Protocol):
    """What says where landmarks are: a frozen value of plain arrays, kept in the model's file."""

    @property
    def looks(self) -> int:
        """How often it looks, each time from where the shape model was led by the time before."""
        ...

    def look(self, images: Sequence[Image], shapes: Floats, number: int) -> Sightings:
        """Look at each image about the present estimate of a shape there; threads may look at once.

        Parameters
        ----------
        images
            B images `(h, w)` or `(h, w, c)`, of several sizes; some may be the same one, and some a mirrored view
            that is not contiguous.
        shapes
            `(B, v, 2)`: about where the landmarks are, in pixels of their image.
        number
            The first look is 0; later ones begin nearer to the object.

        Returns
        -------
        Sightings
            In pixels of the images. An object at which nothing is seen has no precision at any landmark.

        """
        ...


def together(parts: Sequence[Sightings]) -> Sightings:
    """Sightings of all objects of the parts, in one value."""
    return Sightings(
        np.concatenate([part.points for part in parts]), np.concatenate([part.precision for part in parts])
    )


def moved_precision(precision: Floats, by: Similarity) -> Float64:
    """Precisions `(..., v, 2, 2)` of points that a similarity has moved: an enlargement makes them less."""
    turn = _turn(by)
    turned = turn @ precision @ namespace(turn).swapaxes(turn, -1, -2)
    moved: Float64 = in_double(turned / by.scale[..., None, None, None] ** 2)
    return moved


def moved_covariance(covariance: Floats, by: Similarity) -> Float64:
    """Covariances `(..., v, 2, 2)` of points that a similarity has moved."""
    turn = _turn(by)
    return np.asarray(turn @ covariance @ np.swapaxes(turn, -1, -2) * by.scale[..., None, None, None] ** 2)


def _turn(by: Similarity) -> Float64:
    """The rotations `(..., 1, 2, 2)` of similarities `(...)`."""
    xp = namespace(by.factor)
    unit = by.factor / xp.abs(by.factor)
    rows = [xp.stack([unit.real, -unit.imag], axis=-1), xp.stack([unit.imag, unit.real], axis=-1)]
    turns: Float64 = xp.stack(rows, axis=-2)[..., None, :, :]
    return turns
