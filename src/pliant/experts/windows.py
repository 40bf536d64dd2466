"""What a network learns from: windows around the object in the training images."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.interpolation import resample
from pliant.arrays import Float32, Float64, Image, Int32
from pliant.experts.frames import CropFrame
from pliant.experts.lesson import Jitter, Lesson
from pliant.shape.procrustes import Similarity


def cut(image: Image, height: int, width: int, place: Similarity) -> Float32:
    """The window `(h, w)` of an image in grey from 0 to 1 whose pixels the similarity takes to the image."""
    origin = np.array([place.offset.real, place.offset.imag], dtype=np.float64)
    angle, scale = float(place.angle), 1.0 / float(place.scale)
    return resample(image, origin, scale, (height, width), grey=True, angle=angle)[:, :, 0]


def make_lesson(
    samples: Iterable[tuple[Image, Float64]],
    frame: CropFrame,
    jitter: Jitter,
    mirror: Int32 | None = None,
) -> Lesson:
    """Windows of images with landmarks `(v, 2)`, so wide that the network's own can be moved in them."""
    wide = _widened(frame, jitter)
    windows: list[NDArray[np.uint8]] = []
    points: list[Float64] = []
    for image, truth in samples:
        place = wide.to_image(truth)
        grey = cut(image, wide.height, wide.width, place)
        windows.append(np.round(np.clip(grey, 0, 1) * 255).astype(np.uint8))
        points.append(place.inverse().apply(truth))
    middle = (np.array([frame.width, frame.height]) - 1) / 2
    return Lesson(
        windows=np.array(windows),
        points=np.array(points),
        centre=middle + (wide.mean[0] - frame.mean[0]),
        ratio=1.0,
        height=frame.height,
        width=frame.width,
        extent=frame.extent,
        jitter=jitter,
        mirror=mirror,
    )


def _widened(frame: CropFrame, jitter: Jitter) -> CropFrame:
    """The frame with as much around it as the jitter may ask for."""
    reach = np.hypot(frame.width, frame.height) / 2 * np.exp(jitter.zoom + jitter.stretch)
    more = reach * np.sin(jitter.turn) + jitter.shift * frame.extent
    sides = np.array([frame.width, frame.height])
    border = np.ceil(sides / 2 * (np.exp(jitter.zoom) - 1) + more).astype(int)
    width, height = sides + 2 * border
    return CropFrame(int(height), int(width), frame.mean + border)
