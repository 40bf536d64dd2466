"""Views of an image: the window around the object at the scale of a model's level, and the map back.

A pyramid is one view a scale. Every view is made from the image itself, so that no rounding of sizes
adds up from level to level: the map between any two is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pliant.appearance.features import Feature
from pliant.appearance.interpolation import resample
from pliant.arrays import Concise, Float32, Float64, Floats, Image
from pliant.shape import align

_LARGEST_SIDE = 4096
"""No view is larger, whatever the scale."""

_WIDEST = 10.0
"""Landmarks that reach over more than so many times the image are not looked at: it would be a few pixels."""

_SPRAWL = 4.0
"""Landmarks that reach over more than so many times the object itself, at its own scale, are not looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class View(Concise):
    """`pixels (h, w, c)`; pixel (x, y) shows the image at `origin + (x, y) / scale`."""

    pixels: Float32
    origin: Float64
    scale: float

    def to_view(self, points: Floats) -> Float64:
        """Image coordinates `(..., 2)` to coordinates of the view."""
        return np.asarray((points - self.origin) * self.scale, dtype=np.float64)

    def to_image(self, points: Floats) -> Float64:
        """Coordinates of the view `(..., 2)` to image coordinates."""
        return np.asarray(points / self.scale + self.origin, dtype=np.float64)


def view(image: Image, points: Floats, scale: float, margin: float, *, grey: bool = True) -> View:
    """The box of `points (v, 2)` at `scale`, wider by `margin` pixels of the view on every side."""
    problem = too_wide(points, image)
    if problem:
        raise ValueError(problem)
    first = points.min(axis=0) - margin / scale
    last = points.max(axis=0) + margin / scale
    width, height = np.minimum(np.ceil((last - first) * scale) + 1, _LARGEST_SIDE).astype(int)
    pixels = resample(image, first, scale, (int(height), int(width)), grey=grey)
    return View(pixels, np.asarray(first, dtype=np.float64), scale)


def feature_view(
    image: Image, points: Floats, scale: float, feature: Feature, margin: float = 0.0, *, colour: bool = False
) -> View:
    """The view of the features; `margin` pixels around the box of `points` are as good as its inside.

    With `colour` the feature sees red, green and blue, which are alike in a grey image.
    """
    seen = view(image, points, scale, margin + feature.reach, grey=not colour)
    pixels = np.broadcast_to(seen.pixels, (*seen.pixels.shape[:2], 3)) if colour else seen.pixels[:, :, 0]
    return replace(seen, pixels=feature.compute(pixels))


def scale_to_frame(vertices: Floats, points: Floats) -> float:
    """The scale at which the object at `points (v, 2)` is as large as a frame's `vertices (v, 2)`."""
    enlarged = float(align(vertices, points).scale)
    return 1.0 / enlarged if enlarged > 0 else math.inf


def too_wide(points: Floats, image: Image) -> str:
    """Why `points (v, 2)` cannot be looked at in an image, or nothing. Views of the others need little memory."""
    height, width = image.shape[:2]
    if not np.all(np.isfinite(points)):
        return "there are landmarks that are not finite numbers."
    reach = float(np.max(points.max(axis=0) / 2 - points.min(axis=0) / 2)) * 2
    if reach > _WIDEST * max(height, width):
        return f"the landmarks reach over {reach:.3g} pixels, and the image has {width} x {height}."
    return ""


def unlike(vertices: Floats, points: Floats, image: Image) -> str:
    """Why `points (v, 2)` cannot be looked at as a frame's `vertices (v, 2)`, or nothing."""
    problem = too_wide(points, image)
    if problem:
        return problem
    reach = float(np.ptp(points, axis=0).max()) * scale_to_frame(vertices, points)
    own = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    if not reach <= _SPRAWL * own:
        return (
            f"the landmarks do not lie as the object's do: at its scale they reach over {reach:.3g} pixels, "
            f"and it has {own:.3g}. Give them in the model's order."
        )
    return ""
