"""Features: plain functions from a grey image to channels, by name.

Each takes `(h, w)` float32 from 0 to 1 and returns `(h, w, c)` float32. `docs/features.md` shows them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import cv2
import numpy as np
from numba import njit

from pliant.arrays import Float32


@dataclass(frozen=True)
class Feature:
    """A named feature with its number of channels.

    `reach` is how many pixels around a pixel have a say in its value: views are that much wider.
    """

    name: str
    channels: int
    reach: int
    function: Callable[[Float32], Float32]

    def compute(self, grey: Float32) -> Float32:
        """Channels `(h, w, c)` of a grey image `(h, w)`, checked: users write features too."""
        values = np.ascontiguousarray(self.function(np.ascontiguousarray(grey)), dtype=np.float32)
        if values.shape != (*grey.shape, self.channels):
            raise ValueError(
                f"feature '{self.name}' must return {(*grey.shape, self.channels)} for an image of "
                f"{grey.shape}, but returned {values.shape}."
            )
        return values


_REGISTRY: dict[str, Feature] = {}


def register_feature(
    name: str, *, channels: int, reach: int
) -> Callable[[Callable[[Float32], Float32]], Callable[[Float32], Float32]]:
    """Decorator that makes a function known as a feature; a model that uses it stores the name alone."""

    def register(function: Callable[[Float32], Float32]) -> Callable[[Float32], Float32]:
        _REGISTRY[name] = Feature(name, channels, reach, function)
        return function

    return register


def feature_names() -> list[str]:
    return sorted(_REGISTRY)


def find_feature(name: str) -> Feature:
    """The registered feature, or a sentence with the names that there are."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = get_close_matches(name, _REGISTRY, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ValueError(
        f"there is no feature '{name}'.{hint} Known: {', '.join(feature_names())}. "
        "Your own is made known with pliant.register_feature before a model that uses it is loaded."
    )


@register_feature("intensity", channels=1, reach=0)
def intensity(grey: Float32) -> Float32:
    """The grey value itself."""
    return grey[:, :, None]


@register_feature("normalized", channels=1, reach=24)
def normalized(grey: Float32) -> Float32:
    """Grey value less the local mean, divided by the local deviation, in a Gaussian window of 8 pixels.

    A change of brightness or contrast leaves it alone; the constant keeps flat regions quiet.
    """
    mean = _smooth(grey, 8.0)
    centred = grey - mean
    deviation = np.sqrt(_smooth(centred * centred, 8.0))
    return np.asarray(centred / (deviation + 0.02), dtype=np.float32)[:, :, None]


@register_feature("gradient", channels=2, reach=5)
def gradient(grey: Float32) -> Float32:
    """Derivatives by x and y of the image smoothed with a Gaussian of 1 pixel."""
    return _gradient(_smooth(grey, 1.0))


@register_feature("igo", channels=4, reach=5)
def igo(grey: Float32) -> Float32:
    """Cosine and sine of the gradient's angle and of twice that angle; near zero where there is no edge."""
    return _orientations(_gradient(_smooth(grey, 1.0)), np.float32(0.02))


@register_feature("dsift", channels=8, reach=12)
def dsift(grey: Float32) -> Float32:
    """The paper's reduced dense SIFT: one cell of 8 orientations about every pixel.

    Gradient magnitudes (after a Gaussian of 1 pixel) are shared between the two nearest of 8 directions,
    gathered by a Gaussian of 2 pixels, and normalised to unit length with a small constant.
    """
    histogram = _smooth(_orientation_histogram(_gradient(_smooth(grey, 1.0))), 2.0)
    return _unit_length(histogram, np.float32(0.02))


def _smooth(image: Float32, sigma: float) -> Float32:
    return np.asarray(
        cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE), dtype=np.float32
    )


@njit(cache=True, nogil=True)
def _gradient(image: Float32) -> Float32:
    """Central differences `(h, w, 2)`, by x and y; one-sided on the border."""
    height, width = image.shape
    out = np.zeros((height, width, 2), dtype=np.float32)
    for y in range(height):
        above, below = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            if right > left:
                out[y, x, 0] = (image[y, right] - image[y, left]) / np.float32(right - left)
            if below > above:
                out[y, x, 1] = (image[below, x] - image[above, x]) / np.float32(below - above)
    return out


@njit(cache=True, nogil=True)
def _orientations(gradients: Float32, softness: np.float32) -> Float32:
    height, width, _ = gradients.shape
    out = np.empty((height, width, 4), dtype=np.float32)
    for y in range(height):
        for x in range(width):
            dx, dy = gradients[y, x, 0], gradients[y, x, 1]
            squared = dx * dx + dy * dy + softness * softness
            length = math.sqrt(squared)
            out[y, x, 0] = dx / length
            out[y, x, 1] = dy / length
            out[y, x, 2] = (dx * dx - dy * dy) / squared
            out[y, x, 3] = 2 * dx * dy / squared
    return out


@njit(cache=True, nogil=True)
def _orientation_histogram(gradients: Float32) -> Float32:
    height, width, _ = gradients.shape
    out = np.zeros((height, width, 8), dtype=np.float32)
    bins_per_radian = np.float32(8 / (2 * math.pi))
    for y in range(height):
        for x in range(width):
            dx, dy = gradients[y, x, 0], gradients[y, x, 1]
            magnitude = np.float32(math.sqrt(dx * dx + dy * dy))
            angle = np.float32(math.atan2(dy, dx)) * bins_per_radian + np.float32(8)
            lower = int(angle)
            share = angle - np.float32(lower)
            out[y, x, lower % 8] += (1 - share) * magnitude
            out[y, x, (lower + 1) % 8] += share * magnitude
    return out


@njit(cache=True, nogil=True)
def _unit_length(histogram: Float32, softness: np.float32) -> Float32:
    height, width, channels = histogram.shape
    out = np.empty_like(histogram)
    for y in range(height):
        for x in range(width):
            total = softness * softness
            for c in range(channels):
                total += histogram[y, x, c] * histogram[y, x, c]
            factor = np.float32(1 / math.sqrt(total))
            for c in range(channels):
                out[y, x, c] = histogram[y, x, c] * factor
    return out
