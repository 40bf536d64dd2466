"""Views of an image: the window around the object at the scale of a model's level, and the map back.

Views can be turned, so that an object that lies or leans in the image stands in its view as the mean shape does.

A pyramid is one view a scale. Every view is made from the image itself, so that no rounding of sizes
adds up from level to level: the map between any two is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.features import Feature
from pliant.appearance.interpolation import resample
from pliant.arrays import Concise, Float32, Float64, Floats, Image
from pliant.shape import align

LARGEST_SIDE = 4096
"""No view is larger, whatever the scale."""

WIDEST = 10.0
"""Landmarks that reach over more than so many times the image are not looked at: it would be a few pixels."""

SPRAWL = 4.0
"""Landmarks that reach over more than so many times the object itself, at its own scale, are not looked at."""


@dataclass(frozen=True, eq=False, repr=False)
class View(Concise):
    """`pixels (h, w, c)`; pixel (x, y) shows the image at `origin + R (x, y) / scale`, where R turns by `angle`.

    The angle is in radians, and positive from the x axis towards the y axis.
    """

    pixels: Float32
    origin: Float64
    scale: float
    angle: float = 0.0

    def to_view(self, points: Floats) -> Float64:
        """Image coordinates `(..., 2)` to coordinates of the view."""
        return np.asarray(_turned(points - self.origin, -self.angle) * self.scale, dtype=np.float64)

    def to_image(self, points: Floats) -> Float64:
        """Coordinates of the view `(..., 2)` to image coordinates."""
        return np.asarray(_turned(points, self.angle) / self.scale + self.origin, dtype=np.float64)

    def spread_to_image(self, covariances: Floats) -> Float64:
        """Covariances `(..., 2, 2)` of points in the view to those of the same points in the image."""
        if self.angle:
            # R C R' is R applied to the rows of C, and then to those of what comes of it, turned over.
            covariances = _turned(np.swapaxes(_turned(covariances, self.angle), -1, -2), self.angle)
        return np.asarray(covariances / self.scale**2, dtype=np.float64)


def view(
    image: Image, points: Floats, scale: float, margin: float, *, grey: bool = True, angle: float = 0.0
) -> View:
    """The box of `points (v, 2)` at `scale`, wider by `margin` pixels of the view on every side.

    Box and view are turned by `angle`.
    """
    problem = too_wide(points, image)
    if problem:
        raise ValueError(problem)
    turned = _turned(points, -angle)
    first = turned.min(axis=0) - margin / scale
    last = turned.max(axis=0) + margin / scale
    width, height = np.minimum(np.ceil((last - first) * scale) + 1, LARGEST_SIDE).astype(int)
    origin = np.asarray(_turned(first, angle), dtype=np.float64)
    pixels = resample(image, origin, scale, (int(height), int(width)), grey=grey, angle=angle)
    return View(pixels, origin, scale, angle)


def feature_view(
    image: Image,
    points: Floats,
    scale: float,
    feature: Feature,
    margin: float = 0.0,
    *,
    colour: bool = False,
    angle: float = 0.0,
) -> View:
    """The view of the features; `margin` pixels around the box of `points` are as good as its inside.

    With `colour` the feature sees red, green and blue, which are alike in a grey image. Box and view are turned by
    `angle`.
    """
    seen = view(image, points, scale, margin + feature.reach, grey=not colour, angle=angle)
    pixels = np.broadcast_to(seen.pixels, (*seen.pixels.shape[:2], 3)) if colour else seen.pixels[:, :, 0]
    return replace(seen, pixels=feature.compute(pixels))


def angle_to_frame(vertices: Floats, points: Floats) -> float:
    """The angle of a view in which the object at `points (v, 2)` stands as a frame's `vertices (v, 2)` do."""
    angle = float(align(vertices, points).angle)
    return angle if math.isfinite(angle) else 0.0


def scale_to_frame(vertices: Floats, points: Floats) -> float:
    """The scale at which the object at `points (v, 2)` is as large as a frame's `vertices (v, 2)`."""
    enlarged = float(align(vertices, points).scale)
    return 1.0 / enlarged if enlarged > 0 else math.inf


def too_wide(points: Floats, image: Image) -> str:
    """Why `points (v, 2)` cannot be looked at in an image, or nothing. Views of the others need little memory."""
    height, width = image.shape[:2]
    if not np.all(np.isfinite(points)):
        return "some landmarks are not finite numbers."
    reach = float(np.max(points.max(axis=0) / 2 - points.min(axis=0) / 2)) * 2
    if reach > WIDEST * max(height, width):
        return f"the landmarks span {reach:.3g} pixels, but the image has {width} x {height}."
    return ""


def unlike(vertices: Floats, points: Floats, image: Image) -> str:
    """Why `points (v, 2)` cannot be looked at as a frame's `vertices (v, 2)`, or nothing."""
    problem = too_wide(points, image)
    if problem:
        return problem
    with np.errstate(invalid="ignore"):
        reach, own = (float(one) for one in _reaches(vertices, points))
    if not reach <= SPRAWL * own:
        return (
            f"the landmarks are not arranged as in the model: at the model's scale they span {reach:.3g} "
            f"pixels instead of {own:.3g}. Give them in the model's order."
        )
    return ""


def can_be_looked_at(vertices: Floats, points: Floats, sides: Floats) -> NDArray[np.bool_]:
    """Which of `points (B, v, 2)` `unlike` has nothing against, in images with the larger sides `(B,)`."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _boxes(points)
        # What is not finite has a span that is not, and no comparison holds.
        span = (high / 2 - low / 2).max(axis=-1) * 2
        reach, own = _reaches(vertices, points)
        return np.asarray((span <= WIDEST * sides) & (reach <= SPRAWL * own))


def _reaches(vertices: Floats, points: Floats) -> tuple[Float64, Float64]:
    """How far `points (..., v, 2)` reach at the scale of a frame's `vertices (v, 2)`, and how far these do."""
    enlarged = align(vertices, points).scale
    scale = np.where(enlarged > 0, 1.0 / np.where(enlarged > 0, enlarged, 1.0), np.inf)
    own = np.linalg.norm(np.ptp(vertices, axis=0))
    low, high = _boxes(points)
    return (high - low).max(axis=-1) * scale, np.asarray(own)


def _boxes(points: Floats) -> tuple[Floats, Floats]:
    """The smallest and largest x and y `(..., 2)` of points `(..., v, 2)`."""
    # Landmark by landmark: NumPy is slow where the last axes are as short as these.
    by_landmark = np.ascontiguousarray(np.moveaxis(points, -2, 0))
    return by_landmark.min(axis=0), by_landmark.max(axis=0)


def _turned(vectors: Floats, angle: float) -> Floats:
    """Vectors `(..., 2)` turned by an angle; those that are not turned stay as they are, to the last bit."""
    if angle == 0.0:
        return vectors
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.asarray(vectors @ np.array([[cosine, sine], [-sine, cosine]]))
