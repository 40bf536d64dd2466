"""What touches single pixels on a device, in plain PyTorch: warping, slopes, and sums over channels.

`torch_loops.py` has the same as compiled loops for CUDA, which write less to memory. Batches of values on pixels
are `(B, f, c)`, slopes are `(2, B, f, c)`, along x and then y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pliant.appearance.device_views import bilinear_in_views as warp
from pliant.namespace import Array, namespace

__all__ = ["Looking", "Positions", "Sums", "bends", "seen", "slopes", "sums", "warp"]


class Sums(NamedTuple):
    """Products summed over channels, for each pixel: of slopes g of the image, slopes h of the model, and values e.

    What was not asked for is None. `image_image` is xx, xy, yy `(B, 3, f)`; `image_model` is xx, xy, yx, yy
    `(B, 4, f)`; products with values are along x and y, `(B, 2, f)`; `values` is e'e `(B, f)`. Compiled loops have
    sums over the pixels of triangles in place of single pixels: `torch_pairs.py`.
    """

    values: Array
    image_image: Array | None = None
    image_values: Array | None = None
    model_model: Array | None = None
    model_values: Array | None = None
    image_model: Array | None = None


@dataclass(frozen=True, eq=False)
class Positions:
    """Where k pixels are: `matrix (k, v)` times a shape, plus `fixed (k, 2)`; `warp` looks there."""

    matrix: Array
    fixed: Array
    warp: Callable[..., Array]

    def warped(self, images: Any, shapes: Array) -> Array:
        """Views at these pixels `(B, k, c)`, for shapes `(B, v, 2)`."""
        # All images in one product: two columns an image would waste most of what a device computes at once.
        planes = shapes.float().mT.contiguous() @ self.matrix.T
        return self.warp(images.pixels, images.rows, images.sizes, planes.mT + self.fixed)


@dataclass(frozen=True, eq=False)
class Looking:
    """What is known of f chosen pixels: the model's `mean (f, c)` there, and the `steps (2, f)` of slopes.

    Of warped images, they are the pixels `own (f,)`, or none where that is negative, with `neighbours (2, 2, f)`;
    in the whole frame, their neighbours are `model_neighbours (2, 2, f)`.
    """

    own: Array
    mean: Array
    neighbours: Array
    model_neighbours: Array
    steps: Array

    def __call__(
        self, values: Array, h: Array | None, appearance: Array | None, *, image: bool, moving: bool
    ) -> tuple[Array, Array | None, Sums]:
        """Values e `(B, f, c)`, slopes g `(2, B, f, c)` if `image`, and sums, of warped images `(B, k, c)`.

        The slopes of the model are `h (2, B or 1, f, c)`, or those of its appearance `(B, F, c)`, or there are
        none.
        """
        e, g = seen(values, self.own, self.mean, self.neighbours if image else None, self.steps)
        if appearance is not None:
            h = slopes(appearance, self.model_neighbours, self.steps)
        return e, g, sums(e, g, h, moving=moving)


def slopes(values: Array, neighbours: Array, steps: Array) -> Array:
    """Differences `(2, B, f, c)` of values `(B, k, c)` between `neighbours (2, 2, f)`, times `steps (2, f)`."""
    along = [steps[a][:, None] * (values[:, neighbours[a, 1]] - values[:, neighbours[a, 0]]) for a in (0, 1)]
    return namespace(values).stack(along)


def seen(
    values: Array, own: Array, mean: Array, neighbours: Array | None, steps: Array
) -> tuple[Array, Array | None]:
    """Values `(B, k, c)` at the pixels `own (f,)` less the mean `(f, c)`, and slopes if they have neighbours.

    Where `own` is negative, there is no pixel, and all is zero: steps are too.
    """
    e = (values[:, namespace(own).clip(own, 0)] - mean) * (own >= 0)[:, None]
    return e, None if neighbours is None else slopes(values, neighbours, steps)


def sums(e: Array, g: Array | None, h: Array | None, *, moving: bool) -> Sums:
    """Sums over channels of values `(B, f, c)` and slopes `(2, B, f, c)`; the model's h may be one for all images.

    Only if the model is `moving` are products of its slopes with themselves asked for.
    """
    xp = namespace(e)

    def along(one: Array) -> Array:
        return xp.stack([(one[0] * e).sum(-1), (one[1] * e).sum(-1)], axis=1)

    def square(one: Array) -> Array:
        return xp.stack([(one[i] * one[j]).sum(-1) for i, j in ((0, 0), (0, 1), (1, 1))], axis=1)

    both = None
    if g is not None and h is not None:
        both = xp.stack([(g[i] * h[j]).sum(-1) for i in (0, 1) for j in (0, 1)], axis=1)
    return Sums(
        values=(e * e).sum(-1),
        image_image=None if g is None else square(g),
        image_values=None if g is None else along(g),
        model_model=square(h) if h is not None and moving else None,
        model_values=None if h is None else along(h),
        image_model=both,
    )


def bends(values: Array, neighbours: Array, steps: Array, chosen: Array, own_steps: Array, y: Array) -> Array:
    """Second differences of values `(B, F, c)` on the whole frame, times y `(B, f, c)` at the chosen pixels `(f,)`.

    Summed over channels they are xx, xy and yy, `(B, 3, f)`; the two mixed ones differ where the stencil is
    one-sided, and their mean counts. `own_steps (2, f)` are those of the chosen pixels.
    """
    xp = namespace(values)
    first = slopes(values, neighbours, steps)
    beside = neighbours[:, :, chosen]
    xx, xy = (slopes(one, beside, own_steps) for one in first)
    return xp.stack(
        [
            (xx[0] * y).sum(-1),
            ((xx[1] + xy[0]) * y).sum(-1) / 2,
            (xy[1] * y).sum(-1),
        ],
        axis=1,
    )
