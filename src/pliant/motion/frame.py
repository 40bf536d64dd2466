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


@dataclass(frozen=True, eq=False, repr=False)
class Frame(Concise):
    """`vertices (v, 2)`, `triangles (t, 3)`, `pixels (f, 2)` as (x, y), `first_pixel (t + 1,)`.

    Pixels `first_pixel[k]` to `first_pixel[k + 1]` lie in triangle k. They are part of the value, not
    recomputed, because a pixel centre on an edge may fall to either side on another machine.
    """

    vertices: Float64
    triangles: Int32
    pixels: Int32
    first_pixel: Int32

    @property
    def reach(self) -> int:
        """How far pixels may lie from the mean shape, in pixels."""
        return 0

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the rectangle that holds all pixels and vertices."""
        width, height = np.ceil(self.vertices.max(axis=0) + MARGIN + self.reach).astype(int) + 1
        return int(height), int(width)

    @cached_property
    def triangle_of_pixel(self) -> Int32:
        """`(f,)`"""
        return readonly(np.repeat(np.arange(len(self.triangles), dtype=np.int32), np.diff(self.first_pixel)))

    @cached_property
    def index(self) -> Int32:
        """Row of each pixel `(h, w)`, and -1 outside the mask."""
        rows = np.full(self.shape, -1, dtype=np.int32)
        rows[self.pixels[:, 1], self.pixels[:, 0]] = np.arange(len(self.pixels), dtype=np.int32)
        return readonly(rows)

    @cached_property
    def mask(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """`(h, w)`"""
        return readonly(self.index >= 0)

    @cached_property
    def stencil(self) -> tuple[Int32, Float32]:
        """Finite differences that never leave the pixels: `neighbours (2, 2, f)` and `weights (2, f)`.

        Along axis x (0) and y (1), d/dx value = weights * (value[neighbours 1] - value[neighbours 0]):
        central where there are both neighbours, one-sided where there is one, zero where there is none.
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
        """Rows of the pixels before and after every pixel `(f,)` along x (0) or y (1); -1 where there is none."""
        padded = np.pad(self.index, 1, constant_values=-1)
        x, y = self.pixels.T + 1
        dx, dy = (1, 0) if axis == 0 else (0, 1)
        return padded[y - dy, x - dx], padded[y + dy, x + dx]

    def gradient(self, values: Floats) -> Floats:
        """Derivatives `(..., 2, f, c)` by x and y of values `(..., f, c)` on the pixels of the frame."""
        neighbours, weights = self.stencil
        differences = [
            weights[axis][:, None]
            * (values[..., neighbours[axis, 1], :] - values[..., neighbours[axis, 0], :])
            for axis in (0, 1)
        ]
        return np.stack(differences, axis=-3)

    def gradient_adjoint(self, slopes: Floats) -> Floats:
        """The transpose of `gradient`: from `(..., 2, f, c)` to `(..., f, c)`."""
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
        """Rows of a share of the pixels, spread evenly, ordered like the pixels; smaller shares are nested.

        The rank of a pixel is its value in a rank-1 lattice whose two steps come from the plastic number
        (Roberts's R2 sequence): every threshold of it is as even as a plane lattice can be.
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"sampling must be a share of the pixels between 0 and 1, not {fraction!r}.")
        count = max(round(fraction * len(self.pixels)), 1)
        plastic = 1.324717957244746
        rank = (self.pixels @ np.array([1 / plastic, 1 / plastic**2])) % 1.0
        return readonly(np.sort(np.argsort(rank, kind="stable")[:count]).astype(np.int32))

    def image(self, values: Floats, outside: float = np.nan) -> Floats:
        """Values `(f, c)` laid out as a picture `(h, w, c)`."""
        picture = np.full((*self.shape, values.shape[-1]), outside, dtype=values.dtype)
        picture[self.pixels[:, 1], self.pixels[:, 0]] = values
        return picture


def build_frame(vertices: Floats, triangles: Int32) -> Frame:
    """The frame whose vertices `(v, 2)` have positive coordinates, with every pixel in one triangle."""
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
