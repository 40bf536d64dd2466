"""Features: plain functions from an image to channels, by name.

Each takes a grey image `(h, w)`, float32 from 0 to 1, and returns `(h, w, c)` float32. Some take colour `(h, w, 3)`
as well, and return as many channels for it. `docs/reference/features.md` shows them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import cv2
import numpy as np

from pliant.arrays import Float32
from pliant.compiled import compiled


@dataclass(frozen=True)
class Feature:
    """A named feature with its number of channels.

    `reach` is how many pixels around a pixel have a say in its value: views are that much wider. `colour` says
    whether it can see colour.
    """

    name: str
    channels: int
    reach: int
    function: Callable[[Float32], Float32]
    colour: bool = False

    def compute(self, image: Float32) -> Float32:
        """Channels `(h, w, c)` of an image `(h, w)` or `(h, w, 3)`, checked: users write features too."""
        values = np.ascontiguousarray(self.function(np.ascontiguousarray(image)), dtype=np.float32)
        if values.shape != (*image.shape[:2], self.channels):
            raise ValueError(
                f"feature '{self.name}' must return an array of shape {(*image.shape[:2], self.channels)} "
                f"for an image of {image.shape}, but returned {values.shape}."
            )
        return values


_REGISTRY: dict[str, Feature] = {}


def register_feature(
    name: str, *, channels: int, reach: int, colour: bool = False
) -> Callable[[Callable[[Float32], Float32]], Callable[[Float32], Float32]]:
    """Register a function as a feature. Use it as a decorator.

    The function takes a grey image `(h, w)`, float32 with black at 0 and white at 1, and returns `(h, w,
    channels)`, float32. A model that uses the feature stores only its name: register it again before you load such
    a model.

    Parameters
    ----------
    name : str
        The name of the feature, for `features` of `Training`.
    channels : int
        How many numbers the function returns for each pixel.
    reach : int
        How far around the pixel the function looks, in pixels.
    colour : bool
        Models may be trained in colour; the function then gets `(h, w, 3)` instead of `(h, w)`.

    Returns
    -------
    callable
        The decorator. It returns the function unchanged.

    Examples
    --------
    >>> import pliant
    >>> @pliant.register_feature("inverted", channels=1, reach=0)
    ... def inverted(grey):
    ...     return 1 - grey[:, :, None]
    >>> pliant.Training(features="inverted").features
    ('inverted',)

    """

    def register(function: Callable[[Float32], Float32]) -> Callable[[Float32], Float32]:
        _REGISTRY[name] = Feature(name, channels, reach, function, colour)
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
        f"there is no feature '{name}'.{hint} Known features: {', '.join(feature_names())}. Register your "
        "own feature with pliant.register_feature before you load a model that uses it."
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


@register_feature("gradient", channels=2, reach=5, colour=True)
def gradient(image: Float32) -> Float32:
    """Derivatives by x and y of the image smoothed with a Gaussian of 1 pixel."""
    by_x, by_y = _slopes(image)
    return np.stack([by_x, by_y], axis=-1)


@register_feature("igo", channels=4, reach=5, colour=True)
def igo(image: Float32) -> Float32:
    """Cosine and sine of the gradient's angle and of twice that angle; near zero where there is no edge."""
    return _orientations(_slopes(image), np.float32(0.02))


@register_feature("dsift", channels=8, reach=12, colour=True)
def dsift(image: Float32) -> Float32:
    """The paper's reduced dense SIFT: one cell of 8 orientations about every pixel.

    Gradient magnitudes (after a Gaussian of 1 pixel) are shared between the two nearest of 8 directions,
    gathered by a Gaussian of 2 pixels, and normalised to unit length with a small constant.
    """
    return _cells(_slopes(image), np.float32(0.02))


def _slopes(image: Float32) -> Float32:
    """Derivatives `(2, h, w)` of an image after a Gaussian of 1 pixel; of colour, where it changes most.

    Each pixel has the gradient of the one of red, green and blue in which it is longest: an edge that is seen in
    any colour is seen, and there are as many channels as for grey.
    """
    if image.ndim == 2:
        return np.asarray(_gradient(_smooth(image, 1.0)), dtype=np.float32)
    planes = [np.ascontiguousarray(image[:, :, c]) for c in range(3)]
    slopes = np.stack([_gradient(_smooth(plane, 1.0)) for plane in planes])
    return np.asarray(_longest(slopes), dtype=np.float32)


@compiled()
def _longest(gradients: Float32) -> Float32:
    """Of gradients `(3, 2, h, w)`, the longest at every pixel `(2, h, w)`; the first of those that are alike."""
    _, _, height, width = gradients.shape
    out = np.empty((2, height, width), dtype=np.float32)
    out[:] = gradients[0]
    for y in range(height):
        for x in range(width):
            most = out[0, y, x] * out[0, y, x] + out[1, y, x] * out[1, y, x]
            for c in range(1, 3):
                dx, dy = gradients[c, 0, y, x], gradients[c, 1, y, x]
                if dx * dx + dy * dy > most:
                    most = dx * dx + dy * dy
                    out[0, y, x], out[1, y, x] = dx, dy
    return out


def _smooth(image: Float32, sigma: float) -> Float32:
    return np.asarray(
        cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE), dtype=np.float32
    )


@compiled()
def _gradient(image: Float32) -> Float32:
    """Central differences `(2, h, w)`, by x and y; one-sided on the border."""
    height, width = image.shape
    out = np.zeros((2, height, width), dtype=np.float32)
    for y in range(height):
        row, by_x, by_y = image[y], out[0, y], out[1, y]
        if width > 1:
            by_x[0], by_x[-1] = row[1] - row[0], row[-1] - row[-2]
        for x in range(1, width - 1):
            by_x[x] = (row[x + 1] - row[x - 1]) * np.float32(0.5)
        above, below = max(y - 1, 0), min(y + 1, height - 1)
        factor = np.float32(1 / max(below - above, 1))
        for x in range(width):
            by_y[x] = (image[below, x] - image[above, x]) * factor
    return out


@compiled()
def _orientations(gradients: Float32, softness: np.float32) -> Float32:
    _, height, width = gradients.shape
    out = np.empty((height, width, 4), dtype=np.float32)
    for y in range(height):
        for x in range(width):
            dx, dy = gradients[0, y, x], gradients[1, y, x]
            squared = dx * dx + dy * dy + softness * softness
            length = math.sqrt(squared)
            out[y, x, 0] = dx / length
            out[y, x, 1] = dy / length
            out[y, x, 2] = (dx * dx - dy * dy) / squared
            out[y, x, 3] = 2 * dx * dy / squared
    return out


_RADIUS = 8
_TAPS = 2 * _RADIUS + 1
_GAUSSIAN = cv2.getGaussianKernel(_TAPS, 2.0, cv2.CV_32F)[:, 0]
_SLOTS = _TAPS + 1
"""Rows that the Gaussian gathers two neighbouring rows from."""


@compiled(fastmath={"contract"}, error_model="numpy")
def _cells(gradients: Float32, softness: np.float32) -> Float32:
    """Histograms of the directions of `gradients (2, h, w)`, gathered and normalised: `(h, w, 8)`.

    Two rows at a time, from those histograms alone that the Gaussian reaches: they stay in the cache. The
    channels of a row lie one after the other, so that the inner loops become vector instructions.
    """
    _, height, width = gradients.shape
    recent = np.zeros((_SLOTS, 8, width + 2 * _RADIUS), dtype=np.float32)
    weights = np.empty((2, _SLOTS), dtype=np.float32)
    down = np.empty((2, recent[0].size), dtype=np.float32)
    gathered = np.empty_like(recent[0])
    factors = np.empty(width, dtype=np.float32)
    out = np.empty((height, width, 8), dtype=np.float32)
    known = 0
    for top in range(0, height, 2):
        while known < min(top + 2 + _RADIUS, height):
            _histograms(gradients[0, known], gradients[1, known], recent[known % _SLOTS])
            known += 1
        weights[:] = 0
        for k in range(2):
            for tap in range(_TAPS):
                row = min(max(top + k + tap - _RADIUS, 0), height - 1)
                weights[k, row % _SLOTS] += _GAUSSIAN[tap]
        _weigh_rows(recent.reshape(_SLOTS, -1), weights, down)
        for y in range(top, min(top + 2, height)):
            _weigh_along(down[y - top], gathered.reshape(-1))
            factors[:] = softness * softness
            for c in range(8):
                for x in range(width):
                    factors[x] += gathered[c, x] * gathered[c, x]
            for x in range(width):
                factors[x] = np.float32(1) / math.sqrt(factors[x])
            # Four times slower in a function of its own, where pixels are not known to be 8 values apart.
            for x in range(width):
                for c in range(8):
                    out[y, x, c] = gathered[c, x] * factors[x]
    return out


@compiled(fastmath={"contract"}, error_model="numpy")
def _histograms(by_x: Float32, by_y: Float32, out: Float32) -> None:
    """The gradients `(w,)` of a row, shared between 8 directions `(8, w + 2 radius)`, the border continued.

    Even bins lie along the axes and odd ones between them, and every gradient has one of each nearest:
    no angle is needed but that to the axis, of which the tangent is at most 1.
    """
    width = len(by_x)
    zero = np.float32(0)
    for x in range(width):
        dx, dy = by_x[x], by_y[x]
        right, down, flat = dx > 0, dy > 0, abs(dx) >= abs(dy)
        tangent = min(abs(dx), abs(dy)) / max(max(abs(dx), abs(dy)), np.float32(1e-30))
        magnitude = math.sqrt(dx * dx + dy * dy)
        diagonal = magnitude * _eighths(tangent)
        straight = magnitude - diagonal
        # A slice without the border would hide that rows are contiguous: no vector instructions then.
        out[0, _RADIUS + x] = straight if flat and right else zero
        out[1, _RADIUS + x] = diagonal if right and down else zero
        out[2, _RADIUS + x] = straight if down and not flat else zero
        out[3, _RADIUS + x] = diagonal if down and not right else zero
        out[4, _RADIUS + x] = straight if flat and not right else zero
        out[5, _RADIUS + x] = zero if right or down else diagonal
        out[6, _RADIUS + x] = zero if flat or down else straight
        out[7, _RADIUS + x] = diagonal if right and not down else zero
    for c in range(8):
        out[c, :_RADIUS] = out[c, _RADIUS]
        out[c, _RADIUS + width :] = out[c, _RADIUS + width - 1]


@compiled(fastmath={"contract"})
def _eighths(tangent: np.float32) -> np.float32:
    """The angle in eighths of a turn, by the polynomial that is nowhere wrong by more than 4e-7 up to 1."""
    square = tangent * tangent
    total = np.float32(0.0086730)
    for coefficient in (-0.0427862, 0.1013800, -0.1684921, 0.2522009, -0.4242099, 1.2732346):
        total = total * square + np.float32(coefficient)
    return total * tangent


@compiled(fastmath={"contract"})
def _weigh_rows(rows: Float32, weights: Float32, out: Float32) -> None:
    """Two sums `(2, n)` of `rows (slots, n)`: every row is read once for both."""
    for x in range(out.shape[1]):
        upper = lower = np.float32(0)
        for slot in range(_SLOTS):
            upper += weights[0, slot] * rows[slot, x]
            lower += weights[1, slot] * rows[slot, x]
        out[0, x], out[1, x] = upper, lower


@compiled(fastmath={"contract"})
def _weigh_along(line: Float32, out: Float32) -> None:
    """The Gaussian along all channels at once; what it mixes at their ends is not used."""
    for x in range(len(line) - 2 * _RADIUS):
        total = np.float32(0)
        for tap in range(_TAPS):
            total += _GAUSSIAN[tap] * line[x + tap]
        out[x] = total
