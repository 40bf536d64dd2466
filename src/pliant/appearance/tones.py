"""Grey values: the range that the numbers of an image stand for, brightness, and 8 bits to look at.

8-bit images, and floats from 0 to 1, say themselves what is black and white. Other numbers do not: 12 bits are
often stored in 16, with or without an offset. There, black and white are found in the image (`in_range`), the same
for everything that is done with it: features, textures, detectors and drawing. So they are for faint images, which
use few of their grey levels (`legible`): features would hardly see their edges.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float32, Floats, Image

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in brightness (ITU-R BT.601)."""

_DARKEST, _BRIGHTEST = 0.1, 99.9
"""Percentiles of the pixels that are black and white; a few dead or burnt pixels do not count."""

_LOOKED_AT = 2**16
"""Pixels that the percentiles are found from, on a grid."""

_JUDGED_BY = 2**12
"""Numbers that tell whether an image is faint."""

_GLANCED_AT = 200
"""Numbers that tell of most images that they are not."""

_FAINT = 0.25
"""An image is faint if it uses less than this share of the range from black to white (decision 9)."""

_FARTHEST = 1e4
"""What single pixels may be at most, when the others are from 0 to 1."""


def in_range(image: Image) -> Image:
    """8-bit images and floats as they are; other numbers as float32, with black at 0 and white at 1."""
    if image.dtype == np.uint8 or np.issubdtype(image.dtype, np.floating):
        return image
    return stretched(image)


def legible(image: Image) -> Image:
    """An 8-bit image or floats from 0 to 1 as they are, or stretched if they are faint.

    This is for a whole image: its parts have less contrast.
    """
    if _is_clear(image):
        return image
    black, white = _black_and_white(image, _JUDGED_BY // (image.shape[2] if image.ndim == 3 else 1))
    return stretched(image) if 0 < (white - black) * unit(image) < _FAINT else image


def _is_clear(image: Image) -> bool:
    """Whether a glance shows that an image is not faint. Every image is asked, and most are clear.

    Python sorts: NumPy would let other threads go on meanwhile, and to get a turn again takes longer.
    """
    grid = _grid(image, _GLANCED_AT * image.shape[0] * image.shape[1] // image.size)
    some = sorted(image[grid].ravel().tolist())
    few = len(some) // 50
    return bool((some[-1 - few] - some[few]) * unit(image) >= _FAINT)


def _black_and_white(image: Image, most: int) -> tuple[float, float]:
    """Percentiles of an image `(h, w, ...)`, from about `most` of its pixels."""
    some = image[_grid(image, most)]
    if some.dtype != np.uint8:
        some = some.astype(np.float64)
    black, white = np.percentile(some, [_DARKEST, _BRIGHTEST])
    return float(black), float(white)


def _grid(image: Image, most: int) -> tuple[slice, slice]:
    """Where about `most` of its pixels are."""
    step = max(1, int(math.sqrt(image.shape[0] * image.shape[1] / most)))
    return slice(None, None, step), slice(None, None, step)


def stretched(image: Image) -> Float32:
    """Numbers of any range `(h, w, ...)`, brought to black at 0 and white at 1, all channels alike.

    Pixels beyond black and white stay beyond, where features see them. Twice stretched is as once.
    """
    black, white = _black_and_white(image, _LOOKED_AT)
    if white <= black:
        black, white = float(image.min()), float(image.max())
    if white <= black:
        return np.zeros(image.shape, dtype=np.float32)
    # Numbers of 32 bits have more digits than float32, and floats may be so large that differences overflow.
    values: Floats = image.astype(np.float32 if image.dtype.itemsize <= 2 else np.float64)
    values -= values.dtype.type(black)
    values /= values.dtype.type(white - black)
    return np.asarray(np.clip(values, -_FARTHEST, _FARTHEST), dtype=np.float32)


def unit(image: Image) -> np.float32:
    """What the values of an image that is `in_range` are multiplied with for white to be 1."""
    return np.float32(1 / 255 if image.dtype == np.uint8 else 1)


def brightness(colours: Floats) -> Floats:
    """Of red, green and blue `(..., 3)`, how bright they are `(...)`."""
    return np.asarray(colours @ LUMA)


def as_grey(image: Image) -> Float32:
    """Brightness `(h, w)` in float32, black at 0 and white at 1."""
    image = in_range(image)
    values = image.astype(np.float32) * unit(image)
    if values.ndim == 2:
        return values
    return np.asarray(brightness(values) if values.shape[2] == 3 else values[:, :, 0])


def as_bytes(image: Image) -> NDArray[np.uint8]:
    """The same image in 8 bits, what is darker than black or brighter than white cut off."""
    image = in_range(image)
    if image.dtype == np.uint8:
        return image
    return np.asarray((np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8))


def as_grey_bytes(image: Image) -> NDArray[np.uint8]:
    """Brightness `(h, w)` in 8 bits."""
    import cv2

    picture = as_bytes(image)
    if picture.ndim == 2:
        return picture
    # The same weights, in whole numbers.
    return np.asarray(
        cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) if picture.shape[2] == 3 else picture[:, :, 0]
    )
