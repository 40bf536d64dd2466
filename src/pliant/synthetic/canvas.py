"""Anti-aliased painting with soft masks on a linear-light image.

Coordinates are pixels with centres at integers. A mask is drawn four times finer than the image and
averaged down, which puts an edge within about a tenth of a pixel of the curve it is drawn from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Image = NDArray[np.float32]

_FINER = 4
_FINER_IF_SOFT = 2
_SUBPIXEL_BITS = 4


@dataclass(frozen=True)
class Mask:
    """Opacity (h, w) in [0, 1] of the rectangle of an image whose first pixel is (left, top)."""

    alpha: Image
    left: int
    top: int

    @property
    def window(self) -> tuple[slice, slice]:
        """The rows and the columns of the image that the mask covers."""
        height, width = self.alpha.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)

    def grid(self) -> tuple[Image, Image]:
        """Pixel coordinates x and y, each (h, w), of the mask's rectangle."""
        height, width = self.alpha.shape
        x = np.arange(self.left, self.left + width, dtype=np.float32)
        y = np.arange(self.top, self.top + height, dtype=np.float32)
        grid_x, grid_y = np.meshgrid(x, y)
        return grid_x, grid_y


def spline(points: Array, samples: int = 8, closed: bool = False) -> Array:
    """A Catmull-Rom curve (m, 2) or (m, 3) through `points` (n, 2) or (n, 3), which it meets exactly."""
    if closed:
        padded = np.concatenate([points[-1:], points, points[:2]])
    else:
        padded = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    t = np.arange(samples) / samples
    basis = 0.5 * np.stack(
        [-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, -(t**2) + t**3], axis=1
    )
    windows = np.stack([padded[i : len(padded) - 3 + i] for i in range(4)])
    curve = np.einsum("tk,kns->nts", basis, windows).reshape(-1, points.shape[1])
    return curve if closed else np.concatenate([curve, points[-1:]])


def fill(outlines: Array | list[Array], size: int, soft: float = 0.0) -> Mask:
    """The inside of closed outlines, each (n, 2), blurred by `soft` pixels, in an image of `size` pixels."""
    shapes = outlines if isinstance(outlines, list) else [outlines]
    pad = 2.0 + 3.0 * soft
    corners = np.concatenate(shapes)
    low, high = corners.min(axis=0) - pad, corners.max(axis=0) + pad
    left, top = (int(v) for v in np.clip(np.floor(low), 0, size - 1))
    right, bottom = (int(v) for v in np.clip(np.ceil(high) + 1, 1, size))
    width, height = max(right - left, 1), max(bottom - top, 1)
    finer = _FINER if soft < 1.0 else _FINER_IF_SOFT
    fine = np.zeros((height * finer, width * finer), np.uint8)
    places = np.rint(((corners - (left, top) + 0.5) * finer - 0.5) * 2**_SUBPIXEL_BITS).astype(np.int32)
    # One by one: where the outlines of a single call overlap, they would cut holes into each other.
    for outline in np.split(places, np.cumsum([len(shape) for shape in shapes])[:-1]):
        cv2.fillPoly(fine, [outline], 255, shift=_SUBPIXEL_BITS)
    coarse = cv2.resize(fine, (width, height), interpolation=cv2.INTER_AREA)
    alpha = np.asarray(coarse, np.float32) / np.float32(255)
    return Mask(blur(alpha, soft), left, top)


def ribbon(centre: Array, half_width: float | Array) -> Array:
    """The outline (2n, 2) of a stroke along `centre` (n, 2), of half width (n,) or one for all."""
    tangent = np.gradient(centre, axis=0)
    normal = np.stack([-tangent[:, 1], tangent[:, 0]], axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
    offset = normal * np.broadcast_to(half_width, len(centre))[:, None]
    return np.concatenate([centre + offset, (centre - offset)[::-1]])


def taper(count: int, start: float = 0.0, end: float = 0.0) -> Array:
    """Relative widths (count,) of a stroke: 1 in the middle, `start` and `end` at its ends."""
    t = np.linspace(0.0, 1.0, count)
    floor = start + (end - start) * t
    return floor + (1.0 - floor) * np.sin(np.pi * t) ** 0.7


def rgb(red: float, green: float, blue: float) -> Image:
    """A linear-light colour (3,)."""
    return np.array([red, green, blue], np.float32)


def blur(values: Image, sigma: float) -> Image:
    """`values` smoothed by a Gaussian of `sigma` pixels; unchanged below a fifth of a pixel."""
    if sigma < 0.2:
        return values
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma), np.float32)


def paint(image: Image, mask: Mask, colour: NDArray[np.floating], opacity: float = 1.0) -> None:
    """Lay `colour`, (3,) or of the mask's rectangle (h, w, 3), over `image` in place."""
    part = image[mask.window]
    change = np.asarray(colour, np.float32) - part
    change *= (mask.alpha * np.float32(opacity))[..., None]
    part += change


def darken(image: Image, mask: Mask, factor: float | Sequence[float] | NDArray[np.floating]) -> None:
    """Multiply `image` in place by `factor`, a number or (3,), where the mask is opaque."""
    image[mask.window] *= 1.0 + mask.alpha[..., None] * (np.asarray(factor, np.float32) - 1)


def smoothstep(low: float, high: float, values: NDArray[np.floating]) -> Image:
    """0 below `low`, 1 above `high` (or the reverse where low > high), smooth between."""
    t = np.clip((values - low) / (high - low), 0.0, 1.0)
    return np.asarray(t * t * (3.0 - 2.0 * t), np.float32)
