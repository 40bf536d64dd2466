"""The reference frame: the pixels inside the mean shape, triangle by triangle.

Rows of every appearance vector follow the order of `Frame.pixels`: all pixels of triangle 0, then
all of triangle 1, and so on, row by row inside a triangle. A kernel can so take a triangle at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pliant.arrays import Concise, Float32, Float64, Floats, Int32, readonly
from pliant.motion.triangulation import signed_areas

MARGIN = 2.0
"""Pixels between the mean shape and the border of its frame."""

MOST_PIXELS = 1 << 28
"""Pixels of the largest frame. No image that is read has more."""


@dataclass(frozen=True, eq=False, repr=False)
class Frame(Concise):
    """The pixels inside the mean shape, triangle by triangle.

    Attributes
    ----------
    vertices : ndarray, shape (v, 2)
        The mean shape, as x and y.
    triangles : ndarray of int, shape (t, 3)
        The numbers of each triangle's corners.
    pixels : ndarray of int, shape (f, 2)
        The pixels, as x and y. They are stored, because a pixel centre on an edge may fall to either side on
        another machine.
    first_pixel : ndarray of int, shape (t + 1,)
        Pixels `first_pixel[k]` to `first_pixel[k + 1]` lie in triangle k.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
    >>> frame = pliant.motion.build_frame(square, pliant.motion.delaunay(square))
    >>> frame.shape, frame.reach, frame.pixels.shape, frame.mask.sum().item()
    ((9, 9), 0, (25, 2), 25)
    >>> frame.triangle_of_pixel.shape, frame.index.shape
    ((25,), (9, 9))
    >>> neighbours, weights = frame.stencil
    >>> neighbours.shape, weights.shape
    ((2, 2, 25), (2, 25))

    """

    vertices: Float64
    triangles: Int32
    pixels: Int32
    first_pixel: Int32

    @property
    def reach(self) -> int:
        """How far pixels may lie outside the mean shape, in pixels."""
        return 0

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width `(h, w)` of the rectangle that holds all pixels and vertices."""
        width, height = np.ceil(self.vertices.max(axis=0) + MARGIN + self.reach).astype(int) + 1
        return int(height), int(width)

    @cached_property
    def triangle_of_pixel(self) -> Int32:
        """The number of the triangle that each pixel lies in, `(f,)`."""
        return readonly(np.repeat(np.arange(len(self.triangles), dtype=np.int32), np.diff(self.first_pixel)))

    @cached_property
    def index(self) -> Int32:
        """The row of each pixel in `pixels`, `(h, w)`; -1 outside the mean shape."""
        rows = np.full(self.shape, -1, dtype=np.int32)
        rows[self.pixels[:, 1], self.pixels[:, 0]] = np.arange(len(self.pixels), dtype=np.int32)
        return readonly(rows)

    @cached_property
    def mask(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which pixels of the rectangle lie in the mean shape, `(h, w)`."""
        return readonly(self.index >= 0)

    @cached_property
    def stencil(self) -> tuple[Int32, Float32]:
        """Finite differences that never leave the pixels: `neighbours (2, 2, f)` and `weights (2, f)`.

        Along axis x (0) and y (1), the derivative is weights * (value[neighbours 1] - value[neighbours 0]):
        central if a pixel has both neighbours, one-sided if it has one, and zero if it has none.
        """
        own = np.arange(len(self.pixels), dtype=np.int32)
        neighbours = np.empty((2, 2, len(own)), dtype=np.int32)
        weights = np.empty((2, len(own)), dtype=np.float32)
        for axis in (0, 1):
            before, after = self.beside(axis)
            steps = (before >= 0).astype(np.float32) + (after >= 0)
            neighbours[axis, 0] = np.where(before >= 0, before, own)
            neighbours[axis, 1] = np.where(after >= 0, after, own)
            weights[axis] = np.divide(1, steps, out=np.zeros_like(steps), where=steps > 0)
        return readonly(neighbours), readonly(weights)

    def beside(self, axis: int) -> tuple[Int32, Int32]:
        """Return the neighbours of every pixel along one axis.

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
        >>> import pliant
        >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
        >>> before, after = frame.beside(0)
        >>> before.shape == after.shape == (len(frame.pixels),)
        True

        """
        padded = np.pad(self.index, 1, constant_values=-1)
        x, y = self.pixels.T + 1
        dx, dy = (1, 0) if axis == 0 else (0, 1)
        return padded[y - dy, x - dx], padded[y + dy, x + dx]

    def gradient(self, values: Floats) -> Floats:
        """Return the derivatives by x and y of values on the pixels.

        Parameters
        ----------
        values : array, shape (..., f, c)
            c values for each pixel.

        Returns
        -------
        array, shape (..., 2, f, c)
            Their derivatives by x and by y.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
        >>> slopes = frame.gradient(frame.pixels[:, :1].astype(float))  # the values are x
        >>> slopes.shape == (2, len(frame.pixels), 1), np.median(slopes[0]).item()
        (True, 1.0)

        """
        neighbours, weights = self.stencil
        differences = [
            weights[axis][:, None]
            * (values[..., neighbours[axis, 1], :] - values[..., neighbours[axis, 0], :])
            for axis in (0, 1)
        ]
        return np.stack(differences, axis=-3)

    def gradient_adjoint(self, slopes: Floats) -> Floats:
        """Apply the transpose of `gradient`.

        Parameters
        ----------
        slopes : array, shape (..., 2, f, c)
            A value for each derivative.

        Returns
        -------
        array, shape (..., f, c)
            A value for each pixel.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
        >>> values, slopes = np.random.default_rng(0).normal(size=(2, 2, len(frame.pixels), 1))
        >>> left, right = frame.gradient(values[0]) * slopes, values[0] * frame.gradient_adjoint(slopes)
        >>> np.isclose(left.sum(), right.sum()).item()
        True

        """
        neighbours, weights = self.stencil
        by_pixel = np.moveaxis(slopes, -2, 0)
        out = np.zeros((by_pixel.shape[0], *by_pixel.shape[1:-2], by_pixel.shape[-1]), dtype=slopes.dtype)
        for axis in (0, 1):
            one = by_pixel[..., axis, :]
            weighted = one * weights[axis].reshape(-1, *(1,) * (one.ndim - 1))
            np.add.at(out, neighbours[axis, 1], weighted)
            np.subtract.at(out, neighbours[axis, 0], weighted)
        return np.moveaxis(out, 0, -2)

    def sample(self, fraction: float) -> Int32:
        """Choose a share of the pixels, spread evenly.

        A smaller share is a subset of a larger one. The rank of a pixel is its value in a rank-1 lattice whose two
        steps come from the plastic number (Roberts's R2 sequence), which is as even as a plane lattice can be.

        Parameters
        ----------
        fraction : float
            The share of the pixels, above 0 and at most 1.

        Returns
        -------
        ndarray of int, shape (k,)
            Rows of `pixels`, in rising order.

        Raises
        ------
        ValueError
            If the share is not between 0 and 1.

        Examples
        --------
        >>> import pliant
        >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
        >>> len(frame.sample(0.5)) == round(0.5 * len(frame.pixels))
        True

        """
        if not 0 < fraction <= 1:
            raise ValueError(f"sampling must be a share of the pixels between 0 and 1, not {fraction!r}.")
        count = max(round(fraction * len(self.pixels)), 1)
        plastic = 1.324717957244746
        rank = (self.pixels @ np.array([1 / plastic, 1 / plastic**2])) % 1.0
        return readonly(np.sort(np.argsort(rank, kind="stable")[:count]).astype(np.int32))

    def image(self, values: Floats, outside: float = np.nan) -> Floats:
        """Lay out values on the pixels as a picture.

        Parameters
        ----------
        values : array, shape (f, c)
            c values for each pixel.
        outside : float
            The value outside of the mean shape.

        Returns
        -------
        array, shape (h, w, c)
            The picture.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
        >>> picture = frame.image(np.ones((len(frame.pixels), 1)), outside=0.0)
        >>> picture.shape == (*frame.shape, 1), picture.sum() == len(frame.pixels)
        (True, np.True_)

        """
        picture = np.full((*self.shape, values.shape[-1]), outside, dtype=values.dtype)
        picture[self.pixels[:, 1], self.pixels[:, 0]] = values
        return picture


def build_frame(vertices: Floats, triangles: Int32) -> Frame:
    """Build the frame of a mean shape, with every pixel in one triangle.

    Parameters
    ----------
    vertices : array, shape (v, 2)
        The mean shape. All coordinates must be positive.
    triangles : array of int, shape (t, 3)
        The mesh, such as `delaunay` returns.

    Returns
    -------
    Frame
        The frame.

    Raises
    ------
    ValueError
        If it would have too many pixels.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> triangle = np.array([[2.0, 2.0], [8.0, 2.0], [2.0, 8.0]])
    >>> pliant.motion.build_frame(triangle, np.array([[0, 1, 2]], dtype=np.int32)).pixels.shape
    (28, 2)

    """
    check_pixels(float(np.prod(vertices.max(axis=0) + MARGIN + 1)))
    width, height = np.ceil(vertices.max(axis=0) + MARGIN).astype(int) + 1
    owner = rasterise(vertices, triangles, (int(height), int(width)))
    y, x = np.nonzero(owner >= 0)
    order = np.argsort(owner[y, x], kind="stable")
    counts = np.bincount(owner[y, x], minlength=len(triangles))
    return Frame(
        vertices=readonly(vertices.astype(np.float64)),
        triangles=readonly(triangles),
        pixels=readonly(np.stack([x, y], axis=-1)[order].astype(np.int32)),
        first_pixel=readonly(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)),
    )


def check_pixels(count: float) -> None:
    """Raise a sentence if so many pixels would fill the memory."""
    if count > MOST_PIXELS:
        raise ValueError(
            f"the mean shape would have {count:.3g} pixels, and {MOST_PIXELS} is the most: make it smaller."
        )


def rasterise(vertices: Floats, triangles: Int32, shape: tuple[int, int]) -> Int32:
    """Which triangle each pixel centre of an image `(h, w)` lies in, or -1; the first one wins on edges."""
    height, width = shape
    owner = np.full(shape, -1, dtype=np.int32)
    affine = barycentric_maps(vertices, triangles)
    for number, triangle in enumerate(triangles):
        if not np.all(np.isfinite(affine[number])):
            continue
        # Within the image before they become integers: far away, there are none for them.
        corners, limits = vertices[triangle], (width, height)
        left, top = np.clip(np.ceil(corners.min(axis=0) - 1e-9), 0, limits).astype(int)
        right, bottom = np.clip(np.floor(corners.max(axis=0) + 1e-9) + 1, 0, limits).astype(int)
        if left >= right or top >= bottom:
            continue
        x, y = np.arange(left, right), np.arange(top, bottom)[:, None]
        inside = np.ones((bottom - top, right - left), dtype=bool)
        for along_x, along_y, constant in affine[number]:
            inside &= along_x * x + along_y * y + constant >= -1e-9
        window = owner[top:bottom, left:right]
        window[inside & (window < 0)] = number
    return owner


def barycentric_maps(vertices: Floats, triangles: Int32) -> Float64:
    """For each triangle the matrix `(t, 3, 3)` that takes (x, y, 1) to its three barycentric weights."""
    a, b, c = (np.asarray(vertices, dtype=np.float64)[triangles[:, corner]] for corner in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        double_area = 2 * signed_areas(vertices, triangles)
        rows = [
            np.stack([q[:, 1] - r[:, 1], r[:, 0] - q[:, 0], q[:, 0] * r[:, 1] - r[:, 0] * q[:, 1]], axis=-1)
            / double_area[:, None]
            for q, r in ((b, c), (c, a), (a, b))
        ]
    return np.stack(rows, axis=1)
