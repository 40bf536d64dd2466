"""Training: from annotated images to a model, in one pass over the images and bounded memory."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import numpy as np

from pliant.appearance.features import Feature, find_feature
from pliant.appearance.interpolation import bilinear
from pliant.appearance.texture import LARGEST_SIZE as LARGEST_TEXTURE
from pliant.appearance.texture import Texture, sample_texture
from pliant.appearance.view import (
    feature_view,
    scale_to_frame,
)
from pliant.arrays import Float32, Float64, Int32
from pliant.data.addresses import Source
from pliant.data.dataset import Dataset, Sample, mirrored_points
from pliant.data.loading import as_dataset
from pliant.data.validation import Validated, usable
from pliant.kernels.cpu import basis_slopes
from pliant.kernels.mesh_loops import warp
from pliant.level import LARGEST_SIZE, SMALLEST_SIZE, Level
from pliant.model import Model
from pliant.motion import MOTIONS, Motion, PiecewiseAffine, build_frame, checked_triangles, delaunay
from pliant.motion.frame import MARGIN
from pliant.pca import PCA, Accumulator
from pliant.progress import Progress
from pliant.shape import ShapeModel, train_shape_model
from pliant.shape.missing import complete
from pliant.shape.symmetry import find_mirror, mirror_of_pairs
from pliant.starts.detectors import Detector
from pliant.starts.learning import learn_placements
from pliant.threads import cores
from pliant.version import __version__

_TEXTURE_VARIANCE = 0.95

Modes = int | float
"""A count of modes (int), or the share of the variance that they must explain (float)."""

Missing = Literal["refuse", "complete"]
"""What is done about samples that lack landmarks."""


@dataclass(frozen=True)
class Settings:
    """What a model was trained with; stored in its file."""

    size: float
    scales: tuple[float, ...]
    shape_modes: tuple[Modes, ...]
    appearance_variance: tuple[Modes, ...]
    features: str
    motion: str
    mirror: bool | tuple[tuple[int, ...], ...]
    missing: Missing
    colour: bool


@dataclass(frozen=True)
class _Blank:
    """A level before its appearance is known."""

    scale: float
    shape: ShapeModel
    motion: Motion


def train(
    dataset: Dataset | Source | Iterable[Sample],
    *,
    size: float = 150,
    scales: Sequence[float] = (0.5, 1.0),
    shape_modes: Modes | Sequence[Modes] = (3, 12),
    appearance_variance: Modes | Sequence[Modes] = 0.75,
    features: str = "dsift",
    colour: bool = False,
    motion: str = "piecewise-affine",
    triangles: Sequence[Sequence[int]] | Int32 | None = None,
    mirror: bool | Sequence[Sequence[int]] = False,
    missing: Missing = "refuse",
    skip_invalid: bool = False,
    memory_gb: float = 2.0,
    jobs: int | None = None,
    progress: bool | None = None,
    licence: str = "",
    detector: str | Detector | None = "auto",
) -> Model:
    """Train a model of the object in `dataset`, which may be a folder or file to load it from.

    `size` is how many pixels the object measures (mean of height and width of its landmarks) at scale
    1, and `scales` are the levels from coarse to fine. `shape_modes` and `appearance_variance`, one for
    all levels or one each, are counts of modes (int) or shares of the variance (float). With `colour`, features
    see colour where it changes more than brightness, in as many channels (`docs/features.md`). `triangles`
    replaces the Delaunay triangulation of the mean shape. `mirror` adds a mirrored copy of each sample: give
    the pairs of landmarks that change places in a mirror, or True to have them found. `missing="complete"`
    accepts samples that lack landmarks (nan), and fills these in from the others. `skip_invalid` warns
    of samples that cannot be used and leaves them out, instead of raising `InvalidDataset`. Samples are
    kept in at most `memory_gb` gigabytes: if they do not fit, the principal components are streamed.
    `progress` is shown on a terminal, unless told otherwise. `licence` is a note that is kept in the file.

    Where the object is in its images is learned as well, and where it is in the boxes of a `detector`: a name, or
    a function from an image to boxes `(k, 4)`, the best first. `auto` tries Haar's frontal face.
    """
    dataset = as_dataset(dataset)
    settings = _settings(
        size, scales, shape_modes, appearance_variance, features, colour, motion, mirror, missing
    )
    feature = find_feature(features)
    if colour and not feature.colour:
        raise ValueError(
            f"the feature '{features}' sees grey alone: train in colour with gradient, igo or dsift, or with one "
            "of your own that was registered with colour=True."
        )
    workers = jobs or cores()
    with Progress(progress) as bar:
        step = bar.start("checking samples", len(dataset))
        valid = usable(dataset, skip_invalid, workers, step, allow_missing=missing == "complete")
        if len(valid.dataset) < 2:
            raise ValueError(
                f"a model needs at least two usable samples, and there are {len(valid.dataset)}."
            )
        real, completed = len(valid.dataset), int(np.sum(np.isnan(valid.points[:, :, 0])))
        valid = replace(valid, points=complete(valid.points))
        as_taken = valid
        if mirror is not False:
            valid = _with_mirrored(valid, mirror)
        shape = train_shape_model(valid.points, settings.size)
        placements = learn_placements(as_taken.dataset, as_taken.points, shape.mean, detector, workers)
        mesh = delaunay(shape.mean) if triangles is None else checked_triangles(shape.mean, triangles)
        blanks = [
            _blank(shape.truncated(modes), scale, mesh, motion)
            for scale, modes in zip(settings.scales, settings.shape_modes, strict=True)
        ]
        drawn = PiecewiseAffine(
            _blank(shape, min(1.0, LARGEST_TEXTURE / size), mesh, "piecewise-affine").motion.frame
        )
        channels = 3 if valid.colour else 1
        dimensions = [len(blank.motion.frame.pixels) * feature.channels for blank in blanks]
        dimensions.append(len(drawn.frame.pixels) * channels)
        collected = _accumulators(dimensions, len(valid.dataset), memory_gb)
        step = bar.start("sampling images", len(valid.dataset))
        for vectors in _all_vectors(valid, blanks, feature, drawn, channels, workers, settings.colour):
            for accumulator, vector in zip(collected, vectors, strict=True):
                accumulator.add(vector)
            step()
        exact = collected[0].exact
        step = bar.start("principal components", len(collected))
        components: list[PCA] = []
        for modes in (*settings.appearance_variance, _TEXTURE_VARIANCE):
            # Popped, so that a buffer as large as all the images is gone before the next is worked on.
            components.append(collected.pop(0).finish(modes))
            step()
        *appearances, texture = components
        step = bar.start("slopes of the basis", len(blanks))
        levels = []
        for blank, appearance in zip(blanks, appearances, strict=True):
            level = Level(
                blank.scale,
                blank.shape,
                blank.motion,
                features,
                feature.channels,
                appearance,
                settings.colour,
            )
            if isinstance(level.motion, PiecewiseAffine):
                level = level.with_basis_slopes(basis_slopes(level, workers))
            levels.append(level)
            step()
    return Model(
        levels=tuple(levels),
        texture=Texture(drawn.frame, channels, texture),
        settings={
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(settings).items()
        },
        provenance={
            "pliant": __version__,
            "trained": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "source": dataset.source,
            "samples": real,
            "left_out": len(dataset) - real,
            "mirrored": len(valid.dataset) - real,
            "completed_landmarks": completed,
            "more_than_8_bits": as_taken.deep,
            "principal_components": "exact" if exact else "streamed",
            "licence": licence,
        },
        placements=placements,
        landmark_names=as_taken.names,
    )


def _settings(
    size: float,
    scales: Sequence[float],
    shape_modes: Modes | Sequence[Modes],
    appearance_variance: Modes | Sequence[Modes],
    features: str,
    colour: bool,
    motion: str,
    mirror: bool | Sequence[Sequence[int]],
    missing: Missing,
) -> Settings:
    if missing not in ("refuse", "complete"):
        raise ValueError(f"missing = {missing!r}: it is refuse or complete.")
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise ValueError(
            f"size = {size!r}: the object's size in pixels must lie between {SMALLEST_SIZE:g} and {LARGEST_SIZE:g}."
        )
    if not scales or any(not 0 < scale <= 1 for scale in scales) or list(scales) != sorted(set(scales)):
        raise ValueError(f"scales = {scales!r}: they must rise from coarse to fine, above 0 and up to 1.")
    if motion not in MOTIONS:
        raise ValueError(f"there is no motion model '{motion}'. Known: {', '.join(MOTIONS)}.")

    def per_level(name: str, value: Modes | Sequence[Modes]) -> tuple[Modes, ...]:
        values = (value,) * len(scales) if isinstance(value, (int, float)) else tuple(value)
        if len(values) != len(scales):
            raise ValueError(
                f"{name} has {len(values)} values for {len(scales)} scales: give one for all, or one each."
            )
        return values

    return Settings(
        size=float(size),
        scales=tuple(float(scale) for scale in scales),
        shape_modes=per_level("shape_modes", shape_modes),
        appearance_variance=per_level("appearance_variance", appearance_variance),
        features=features,
        motion=motion,
        mirror=mirror if isinstance(mirror, bool) else tuple(tuple(map(int, pair)) for pair in mirror),
        missing=missing,
        colour=bool(colour),
    )


def _with_mirrored(valid: Validated, mirror: bool | Sequence[Sequence[int]]) -> Validated:
    """The samples, and after them the same in a mirror."""
    if isinstance(mirror, bool):
        permutation = find_mirror(valid.points)
    else:
        permutation = mirror_of_pairs(mirror, valid.points.shape[1])
    copies = tuple(sample.mirrored(permutation.tolist()) for sample in valid.dataset)
    points = [
        mirrored_points(points, size[0], permutation.tolist())
        for points, size in zip(valid.points, valid.sizes, strict=True)
    ]
    return replace(
        valid,
        dataset=Dataset(valid.dataset.samples + copies, valid.dataset.source),
        points=np.concatenate([valid.points, points]),
        sizes=valid.sizes * 2,
    )


def _blank(shape: ShapeModel, scale: float, mesh: Int32, motion: str) -> _Blank:
    """The level's shape model, moved to where its mean is the mesh of its frame."""
    shape = shape.scaled(scale)
    shape = shape.shifted(MARGIN - shape.mean.min(axis=0))
    frame = build_frame(shape.mean, mesh)
    if not len(frame.pixels):
        width, height = np.ptp(shape.mean, axis=0)
        raise ValueError(
            f"at scale {scale:g} the mean shape is {width:.2g} x {height:.2g} pixels, and covers none: give a "
            "larger size or scale; if the samples were mirrored by pairs, these do not fit the landmarks."
        )
    return _Blank(scale, shape, MOTIONS[motion](frame))


def _accumulators(dimensions: Sequence[int], samples: int, memory_gb: float) -> list[Accumulator]:
    """As many rows as there are samples, if they fit; at the least, enough to stream through."""
    row_bytes = 4 * sum(dimensions)
    affordable = int(memory_gb * 1e9 / row_bytes)
    if affordable < 32:
        raise ValueError(
            f"memory_gb = {memory_gb:g} holds {affordable} samples of this size, and 32 are the least that "
            f"principal components can be streamed through: give at least {32 * row_bytes / 1e9:.2g}."
        )
    return [Accumulator(dimension, min(samples + 1, affordable)) for dimension in dimensions]


def _all_vectors(
    valid: Validated,
    blanks: Sequence[_Blank],
    feature: Feature,
    drawn: PiecewiseAffine,
    channels: int,
    workers: int,
    colour: bool,
) -> Iterator[list[Float32]]:
    """The appearance vectors of every sample, in order, sampled by `workers` threads a few samples ahead."""
    work = partial(_vectors, blanks=blanks, feature=feature, drawn=drawn, channels=channels, colour=colour)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        ahead: deque[Future[list[Float32]]] = deque()
        for sample, points in zip(valid.dataset, valid.points, strict=True):
            ahead.append(pool.submit(work, sample, points))
            if len(ahead) > 2 * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _vectors(
    sample: Sample,
    points: Float64,
    *,
    blanks: Sequence[_Blank],
    feature: Feature,
    drawn: PiecewiseAffine,
    channels: int,
    colour: bool,
) -> list[Float32]:
    """One vector of f · c values for each level, and one for the texture."""
    image = sample.image()
    vectors = []
    for blank in blanks:
        scale = scale_to_frame(blank.shape.mean, points)
        seen = feature_view(image, points, scale, feature, colour=colour)
        vectors.append(_warped(blank.motion, seen.pixels, seen.to_view(points)).ravel())
    vectors.append(sample_texture(image, points, drawn, channels))
    return vectors


def _warped(motion: Motion, image: Float32, points: Float64) -> Float32:
    """The image `(h, w, c)` on the pixels of the motion's frame `(f, c)`."""
    if not isinstance(motion, PiecewiseAffine):
        return bilinear(image, motion.positions(points))
    channels = (0,) * image.shape[2]
    return np.asarray(warp(image, points, motion.vertices.view(np.uint32), motion.weights, channels))
