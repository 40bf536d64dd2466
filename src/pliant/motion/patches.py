"""Patches: each landmark carries a square of pixels, which moves with it and does not deform.

Pixels of the frame are those of patch 0, row by row, then those of patch 1, and so on. Where patches overlap, each
has the pixel: it moves with one landmark here and with another there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, sqrt
from typing import ClassVar

import numpy as np

from pliant.arrays import Float64, Floats, Int32, Lean, readonly
from pliant.motion.frame import Frame, check_pixels
from pliant.namespace import beside, in_double
from pliant.shape.procrustes import shape_size

PATCH_SHARE = 0.08
"""Side of a patch as a share of the object's size."""

_COVERING_REACH = 4
"""Up to so many pixels on each side of its middle, a patch has its share of all that lies between the landmarks.

Few landmarks with patches that are a share of the object's size lose it at coarse levels: these are all they see.
"""


class PatchFrame(Frame):
    """A frame of squares, one for each vertex, all with the same odd side.

    It has the attributes of `Frame`. Pixels `first_pixel[k]` to `first_pixel[k + 1]` are the patch of vertex k,
    around the pixel nearest to it. `triangles` say what to draw between the vertices.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
    >>> frame = pliant.motion.build_patches(square, pliant.motion.delaunay(square))
    >>> frame.side, frame.reach, frame.pixels.shape, frame.vertex_of_pixel.shape
    (9, 4, (324, 2), (324,))

    """

    @property
    def side(self) -> int:
        """The number of pixels along a side of a patch."""
        return isqrt(len(self.pixels) // len(self.vertices))

    @property
    def reach(self) -> int:
        """How far pixels may lie outside the mean shape, in pixels."""
        return self.side // 2

    @cached_property
    def vertex_of_pixel(self) -> Int32:
        """The number of the vertex whose patch each pixel belongs to, `(f,)`."""
        return readonly(np.repeat(np.arange(len(self.vertices), dtype=np.int32), self.side**2))

    def beside(self, axis: int) -> tuple[Int32, Int32]:
        """Return the neighbours of every pixel in its patch along one axis.

        Parameters
        ----------
        axis : int
            0 for x, 1 for y.

        Returns
        -------
        before, after : ndarray of int, shape (f,)
            The rows of the neighbours in `pixels`; -1 where there is none.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
        >>> frame = pliant.motion.build_patches(square, pliant.motion.delaunay(square))
        >>> before, after = frame.beside(0)
        >>> before[:2].tolist(), after[:2].tolist()
        ([-1, 0], [1, 2])

        """
        own = np.arange(len(self.pixels), dtype=np.int32)
        step = (1, self.side)[axis]
        place = own // step % self.side
        before = np.where(place > 0, own - step, -1)
        after = np.where(place < self.side - 1, own + step, -1)
        return before.astype(np.int32), after.astype(np.int32)


@dataclass(frozen=True)
class Patches(Lean):
    """Squares of pixels that move with their landmark and do not deform.

    The warp is W(x; p) = x + B (s(p) - vertices), where each row of B has a single 1, for the pixel's landmark.

    Parameters
    ----------
    frame : PatchFrame
        The v patches with f pixels.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
    >>> motion = pliant.motion.build_motion("patches", square, pliant.motion.delaunay(square))
    >>> motion.corners.shape, motion.vertices.shape, motion.weights.shape, motion.offsets.shape
    ((4, 1), (324, 1), (324, 1), (324, 2))

    """

    frame: PatchFrame
    name: ClassVar[str] = "patches"

    @cached_property
    def corners(self) -> Int32:
        """The vertex that moves each patch, `(v, 1)`."""
        return readonly(np.arange(len(self.frame.vertices), dtype=np.int32)[:, None])

    @cached_property
    def vertices(self) -> Int32:
        """The columns of the non-zeros in each row of B, `(f, 1)`."""
        return readonly(self.frame.vertex_of_pixel[:, None])

    @cached_property
    def weights(self) -> Float64:
        """The non-zeros of B, `(f, 1)`."""
        return readonly(np.ones((len(self.frame.pixels), 1)))

    @cached_property
    def offsets(self) -> Float64:
        """The vector from its landmark to each pixel, `(f, 2)`."""
        return readonly(self.frame.pixels - self.frame.vertices[self.frame.vertex_of_pixel])

    def positions(self, shape: Floats) -> Float64:
        """Return where the pixels of the frame go.

        Parameters
        ----------
        shape : array, shape (..., v, 2)
            Where the vertices go.

        Returns
        -------
        ndarray, shape (..., f, 2)
            Where the pixels go, as x and y.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
        >>> motion = pliant.motion.build_motion("patches", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.positions(square), motion.frame.pixels)
        True

        """
        return np.asarray(shape[..., self.frame.vertex_of_pixel, :] + self.offsets, dtype=np.float64)

    def matrix(self) -> Float64:
        """Return B as a dense matrix.

        Returns
        -------
        ndarray, shape (f, v)
            How far each pixel moves with each vertex.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
        >>> pliant.motion.build_motion("patches", square, pliant.motion.delaunay(square)).matrix().shape
        (324, 4)

        """
        dense = np.zeros((len(self.weights), len(self.frame.vertices)))
        np.put_along_axis(dense, self.vertices, self.weights, axis=1)
        return dense

    def at_vertices(self, displaced: Floats, shape: Floats) -> Float64:
        """Return where a warp takes displaced vertices.

        A patch continues beyond its border, so that each vertex stays with its own.

        Parameters
        ----------
        displaced : array, shape (..., v, 2)
            A point of the frame for each vertex.
        shape : array, shape (..., v, 2)
            Where the warp takes the vertices.

        Returns
        -------
        ndarray, shape (..., v, 2)
            Where the warp takes the displaced vertices.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
        >>> motion = pliant.motion.build_motion("patches", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.at_vertices(square + 1, square + 2), square + 3)
        True

        """
        return in_double(displaced + (shape - beside(self.frame.vertices, shape)))

    def onto_vertices(self, shape: Floats) -> Float64:
        """Return the points that a warp takes onto the vertices.

        Parameters
        ----------
        shape : array, shape (..., v, 2)
            Where the warp takes the vertices.

        Returns
        -------
        ndarray, shape (..., v, 2)
            Points of the frame.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
        >>> motion = pliant.motion.build_motion("patches", square, pliant.motion.delaunay(square))
        >>> np.allclose(motion.onto_vertices(square + 2), square - 2)
        True

        """
        return in_double(2 * beside(self.frame.vertices, shape) - shape)


def patch_reach(vertices: Floats) -> int:
    """Pixels of a patch on each side of its middle, for a mean shape `(v, 2)`."""
    share = float(np.prod(np.ptp(vertices, axis=0))) / len(vertices)
    covering = min(_COVERING_REACH, ceil((sqrt(share) - 1) / 2))
    return max(1, covering, round(PATCH_SHARE * float(shape_size(vertices)) / 2))


def build_patches(vertices: Floats, triangles: Int32) -> PatchFrame:
    """Build the frame of patches around a mean shape.

    Parameters
    ----------
    vertices : array, shape (v, 2)
        The mean shape, farther from both axes than a patch reaches.
    triangles : array of int, shape (t, 3)
        The mesh, such as `delaunay` returns.

    Returns
    -------
    PatchFrame
        A patch for each vertex.

    Raises
    ------
    ValueError
        If the patches would have too many pixels.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[9.0, 9.0], [29.0, 9.0], [29.0, 29.0], [9.0, 29.0]])
    >>> pliant.motion.build_patches(square, pliant.motion.delaunay(square)).side
    9

    """
    reach = patch_reach(vertices)
    check_pixels(float(len(vertices)) * (2 * reach + 1) ** 2)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    square = np.stack([x.ravel(), y.ravel()], axis=-1)
    middles = np.rint(vertices).astype(np.int32)
    return PatchFrame(
        vertices=readonly(vertices.astype(np.float64)),
        triangles=readonly(triangles),
        pixels=readonly((middles[:, None] + square).reshape(-1, 2).astype(np.int32)),
        first_pixel=readonly(np.arange(len(vertices) + 1, dtype=np.int32) * len(square)),
    )
