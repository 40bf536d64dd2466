"""What an image looks like at every level of a model that is being made: vectors of features, and a texture."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pliant.appearance.features import Feature
from pliant.appearance.interpolation import bilinear
from pliant.appearance.texture import sample_texture
from pliant.appearance.view import angle_to_frame, feature_view, scale_to_frame
from pliant.arrays import Float32, Float64, Int32
from pliant.data.dataset import Sample
from pliant.kernels.mesh_loops import warp
from pliant.motion import Motion, PiecewiseAffine, build_motion, margin_around
from pliant.shape import ShapeModel


@dataclass(frozen=True)
class Blank:
    """A level before its appearance is known."""

    scale: float
    shape: ShapeModel
    motion: Motion
    feature: Feature


@dataclass(frozen=True)
class Sampling:
    """What is taken from every image: features at the levels, and a texture of so many channels to draw.

    Views are turned for the object to stand in them as the mean does, if it is to be seen `upright`.
    """

    blanks: tuple[Blank, ...]
    colour: bool
    drawn: PiecewiseAffine
    channels: int
    upright: bool

    @property
    def dimensions(self) -> list[int]:
        """Lengths of the vectors: one for each level, and one for the texture."""
        levels = [len(blank.motion.frame.pixels) * blank.feature.channels for blank in self.blanks]
        return [*levels, len(self.drawn.frame.pixels) * self.channels]

    def vectors(self, sample: Sample, points: Float64) -> list[Float32]:
        """One vector of f · c values for each level, and one for the texture."""
        image = sample.image()
        vectors = []
        for blank in self.blanks:
            scale = scale_to_frame(blank.shape.mean, points)
            angle = angle_to_frame(blank.shape.mean, points) if self.upright else 0.0
            reach, feature = blank.motion.frame.reach, blank.feature
            seen = feature_view(image, points, scale, feature, reach, colour=self.colour, angle=angle)
            vectors.append(warped(blank.motion, seen.pixels, seen.to_view(points)).ravel())
        vectors.append(sample_texture(image, points, self.drawn, self.channels))
        return vectors


def blank_level(shape: ShapeModel, scale: float, mesh: Int32, motion: str, feature: Feature) -> Blank:
    """The level's shape model, moved to where its mean is the mesh of its frame."""
    shape = shape.scaled(scale)
    shape = shape.shifted(margin_around(motion, shape.mean) - shape.mean.min(axis=0))
    moving = build_motion(motion, shape.mean, mesh)
    if not len(moving.frame.pixels):
        width, height = np.ptp(shape.mean, axis=0)
        raise ValueError(
            f"at scale {scale:g} the mean shape is {width:.2g} x {height:.2g} pixels, too small to cover a "
            "pixel: give a larger size or scale. If samples were mirrored with given pairs, check that the "
            "pairs match the landmarks."
        )
    return Blank(scale, shape, moving, feature)


def all_vectors(
    sampling: Sampling, samples: Iterable[Sample], points: Float64, workers: int
) -> Iterator[list[Float32]]:
    """The vectors of every sample, in order, sampled by `workers` threads a few samples ahead.

    `points (k, v, 2)` are their landmarks.
    """
    with ThreadPoolExecutor(max_workers=workers) as pool:
        ahead: deque[Future[list[Float32]]] = deque()
        for sample, landmarks in zip(samples, points, strict=True):
            ahead.append(pool.submit(sampling.vectors, sample, landmarks))
            if len(ahead) > 2 * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def warped(motion: Motion, image: Float32, points: Float64) -> Float32:
    """The image `(h, w, c)` on the pixels of the motion's frame `(f, c)`."""
    if not isinstance(motion, PiecewiseAffine):
        return bilinear(image, motion.positions(points))
    channels = (0,) * image.shape[2]
    return np.asarray(warp(image, points, motion.vertices.view(np.uint32), motion.weights, channels))
