"""Videos whose landmarks are known, made of stills with cuts between them, or of two faces that cross."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import cv2
import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.data.dataset import Dataset
from pliant.shape import shape_size
from pliant.synthetic.video import face_video

WIDTH, HEIGHT = 320, 240


@dataclass(frozen=True)
class Shown:
    """A frame `(h, w, 3)`, and the landmarks `(k, v, 2)` of its objects.

    `visible (k,)` is the share of them that can be seen, and `cut` says whether the frame is the first after one.
    """

    image: Image
    points: Float64
    visible: Float64
    cut: bool = False


def stills_with_cuts(samples: Dataset, frames: int, seed: int = 0) -> Iterator[Shown]:
    """Each still for 10 to 20 frames under a camera that pans, zooms and shakes; every third is dark."""
    rng = np.random.default_rng([seed, 0xC07])
    left = frames
    for number in count():
        image, points = samples[number % len(samples)].image(), samples[number % len(samples)].points()
        image = np.stack([image] * 3, axis=-1) if image.ndim == 2 else image[:, :, :3]
        if number % 3 == 2:
            image = np.clip(255 * (image / 255.0) ** 1.5 * 0.45, 0, 255).astype(np.uint8)
        length = min(left, int(rng.integers(10, 21)))
        for moment, (place, size, angle) in enumerate(_camera(length, rng)):
            zoom = size / float(shape_size(points))
            middle = (points.min(axis=0) + points.max(axis=0)) / 2
            turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            matrix = np.hstack([turn, (place - turn @ middle)[:, None]])
            smooth = image if zoom > 0.7 else cv2.GaussianBlur(image, (0, 0), 0.4 / zoom)
            frame = cv2.warpAffine(smooth, matrix, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
            grain = rng.normal(0, 2, frame.shape)
            frame = np.clip(np.rint(frame + grain), 0, 255).astype(np.uint8)
            yield Shown(frame, (points @ turn.T + matrix[:, 2])[None], np.ones(1), moment == 0)
            left -= 1
        if not left:
            return


def _camera(length: int, rng: np.random.Generator) -> Iterator[tuple[Float64, float, float]]:
    """Where the middle of the object is, its size in pixels, and its angle, frame by frame."""
    place = np.array([rng.uniform(110, WIDTH - 110), rng.uniform(105, HEIGHT - 105)])
    speed = rng.uniform(-2.5, 2.5, 2)
    size, growth, angle, turning = (
        rng.uniform(85, 130),
        rng.uniform(0.985, 1.015),
        rng.uniform(-0.12, 0.12),
        rng.uniform(-0.01, 0.01),
    )
    for _ in range(length):
        yield place + rng.normal(0, 0.7, 2), size, angle
        place, size, angle = place + speed, size * growth, angle + turning
        speed = np.where((place < (90, 90)) | (place > (WIDTH - 90, HEIGHT - 90)), -speed, speed)


def two_that_cross(frames: int, seed: int = 0, width: int = WIDTH) -> Iterator[Shown]:
    """Two faces that walk to and fro, one in front of the other twice in the video, before a plain wall."""
    height = 3 * width // 4
    rng = np.random.default_rng([seed, 0xC505])
    wall = cv2.resize(rng.uniform(90, 150, (6, 8, 3)), (width, height), interpolation=cv2.INTER_CUBIC)
    share = (np.arange(frames) + 0.5) / frames
    swing = 0.27 * np.cos(2 * np.pi * share)
    films = [face_video(frames, 50 + 2 * seed + k, width, interrupted=False) for k in range(2)]
    for number, shown in enumerate(zip(*films, strict=True)):
        canvas, shapes = wall.copy(), []
        for side, (frame, up) in zip((-1, 1), zip(shown, (0.52, 0.55), strict=True), strict=True):
            zoom = 0.3 * height / float(shape_size(frame.points))
            place = np.array([0.5 + side * swing[number], up]) * (width, height)
            shift = place - zoom * frame.points.mean(axis=0)
            matrix = np.array([[zoom, 0, shift[0]], [0, zoom, shift[1]]])
            points = zoom * frame.points + shift
            moved = cv2.warpAffine(frame.image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE)
            mask = _head(points, width, height)[:, :, None]
            canvas = mask * moved + (1 - mask) * canvas
            shapes.append(points)
        behind = _head(shapes[1], width, height)
        column, row = np.rint(shapes[0]).astype(int).T
        hidden = behind[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)] > 0.5
        yield Shown(
            np.rint(canvas).astype(np.uint8),
            np.array(shapes),
            np.array([1 - hidden.mean(), 1.0]),
            number == 0,
        )


def _head(points: Floats, width: int, height: int) -> Float64:
    """How much of each pixel `(h, w)` a head covers whose face has these landmarks."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre = (low + high) / 2 - (0, 0.18 * (high[1] - low[1]))
    axes = (high - low) * (0.62, 0.75)
    mask = np.zeros((height, width), np.uint8)
    cv2.ellipse(mask, (tuple(map(float, centre)), tuple(map(float, 2 * axes)), 0.0), 255, -1)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 2) / 255.0)
