"""From annotated images to a model, in one pass over the images and bounded memory."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pliant.appearance.features import Feature, find_feature
from pliant.appearance.texture import LARGEST_SIZE as LARGEST_TEXTURE
from pliant.appearance.texture import Texture
from pliant.arrays import Float64, evenly_spread
from pliant.building.components import find_components
from pliant.building.descents import learn_descents
from pliant.building.facing import facing_one_way
from pliant.building.vectors import Sampling, blank_level
from pliant.crew import Jobs, crew_of
from pliant.data.dataset import Dataset, Sample, mirrored_points
from pliant.data.validation import Validated, usable
from pliant.kernels.cpu import basis_slopes
from pliant.level import Level
from pliant.model import Model
from pliant.motion import PiecewiseAffine, checked_triangles, delaunay
from pliant.pca import PCA
from pliant.progress import Progress
from pliant.settings import Training
from pliant.settings.presets import settled
from pliant.shape import ShapeModel, train_shape_model
from pliant.shape.missing import complete
from pliant.shape.symmetry import find_mirror, mirror_of_pairs
from pliant.starts.detectors import detector_name
from pliant.starts.filter_learning import learn_filter
from pliant.starts.learning import learn_placements
from pliant.threads import one_blas_thread
from pliant.version import __version__

_TEXTURE_VARIANCE = 0.95

_FOR_IMAGES = 0.1
"""The share of the memory for samples that decoded images may take beside their vectors."""

_CASCADED = 2000
"""Most images that cascaded regression is learned from, evenly spread over all: it has them in memory."""


@one_blas_thread()
def build_model(
    dataset: Dataset,
    settings: Training,
    *,
    jobs: Jobs = None,
    progress: bool | None = None,
    finds: bool = True,
) -> Model:
    """A model of the object in `dataset`; nothing is known yet about how far its fits can be trusted."""
    valid = checked_samples(dataset, settings, jobs=jobs, progress=progress)
    return model_of(valid, settings, jobs=jobs, progress=progress, finds=finds)


def checked_samples(
    dataset: Dataset, settings: Training, *, jobs: Jobs = None, progress: bool | None = None
) -> Validated:
    """The samples that a model can be made of, all of which face one way.

    Every image is decoded for it. If all of them fit into a tenth of `memory_gb`, they stay with their samples,
    so that they are decoded once for all that follows. Otherwise each is read again when it is needed: to keep some
    of them would take memory and hardly save time. Those that a cluster has decoded do not stay.
    """
    with Progress(progress) as bar:
        step = bar.start("checking samples", len(dataset))
        valid = usable(
            dataset,
            settings.skip_invalid,
            jobs,
            step,
            allow_missing=settings.missing == "complete",
            keep=_FOR_IMAGES * settings.memory_gb * 1e9,
        )
    if len(valid.dataset) < 2:
        raise ValueError(f"a model needs at least two usable samples, but there are {len(valid.dataset)}.")
    if any(sample.decoded is None for sample in valid.dataset):
        forgotten = tuple(sample.keeping(None, sample.landmarks) for sample in valid.dataset)
        valid = replace(valid, dataset=Dataset(forgotten, valid.dataset.source))
    return facing_one_way(valid, settings.facing if settings.mirror is False else "as-is")


def model_of(
    valid: Validated,
    settings: Training,
    *,
    jobs: Jobs = None,
    progress: bool | None = None,
    finds: bool = True,
) -> Model:
    """A model of samples that were checked; unless it `finds` the object in whole images, it has no filter.

    Their vectors are kept in what decoded images leave of `memory_gb` gigabytes: if they do not fit, principal
    components are streamed. On a cluster, they are made of sketches, and so much memory is what a worker has for
    them.
    """
    settings = settled(settings, len(valid.dataset))
    features = [_feature(name, settings.colour) for name in settings.per_level(settings.features)]
    crew = crew_of(jobs)
    with Progress(progress) as bar:
        completed = int(np.sum(np.isnan(valid.points[:, :, 0])))
        valid = replace(valid, points=complete(valid.points, crew))
        seen = valid if settings.mirror is False else _with_mirrored(valid, settings.mirror)
        shape = train_shape_model(seen.points, _size(settings), jobs=crew)
        placements = learn_placements(valid.dataset, valid.points, shape.mean, settings.detector, crew)
        object_filter = None
        if finds:
            step = bar.start("learning to find the object", 1)
            object_filter = learn_filter(seen.dataset, seen.points, shape.mean, crew)
            step()
        sampling = _sampling(settings, shape, features, channels=3 if valid.colour else 1)
        modes = [*map(_as_pca, settings.per_level(settings.appearance_modes)), _TEXTURE_VARIANCE]
        components = find_components(sampling, modes, seen, settings.memory_gb, crew, bar)
        *appearances, texture = components.found
        levels = _levels(settings, sampling, appearances, crew.threads, bar)
    facing = "both" if settings.facing == "auto" and valid.mirrored else settings.facing
    provenance = {
        **_provenance(),
        "source": valid.dataset.source,
        "samples": len(valid.dataset),
        "left_out": valid.left_out,
        "mirrored": len(seen.dataset) - len(valid.dataset),
        "turned_round": valid.mirrored,
        "completed_landmarks": completed,
        "more_than_8_bits": valid.deep,
        "principal_components": components.how,
        "licence": settings.licence,
    }
    model = Model(
        levels=levels,
        texture=Texture(sampling.drawn.frame, sampling.channels, texture),
        # The name alone: where a detector's file lies is nobody's business whom the model is passed on to.
        settings=replace(settings, detector=detector_name(settings.detector), facing=facing),
        provenance=provenance,
        placements=placements,
        landmark_names=valid.names,
        object_filter=object_filter,
        training_images=np.unique(valid.pictures, axis=0),
    )
    if not settings.cascade:
        return model
    chosen = evenly_spread(len(valid.dataset), _CASCADED)
    samples = [valid.dataset.samples[k] for k in chosen]
    return crew.one(_with_descents, model, samples, valid.points[chosen], settings.seed)


def _with_descents(
    model: Model, samples: Sequence[Sample], points: Float64, seed: int, *, threads: int
) -> Model:
    images = (sample.image() for sample in samples)
    return learn_descents(model, zip(images, points, strict=True), seed=seed, jobs=threads)


def _size(settings: Training) -> float:
    assert settings.size is not None
    return settings.size


def _feature(name: str, colour: bool) -> Feature:
    feature = find_feature(name)
    if colour and not feature.colour:
        raise ValueError(
            f"the feature '{feature.name}' uses grey images only: to train in colour, use gradient, igo or "
            "dsift, or register your own feature with colour=True."
        )
    return feature


def _sampling(settings: Training, shape: ShapeModel, features: Sequence[Feature], channels: int) -> Sampling:
    """What to take from every image, on a mesh of the mean shape or of the user's own triangles."""
    own = settings.triangles
    mesh = delaunay(shape.mean) if own is None else checked_triangles(shape.mean, own)
    blanks = tuple(
        blank_level(shape.truncated(_as_pca(modes)), scale, mesh, settings.motion, feature)
        for scale, modes, feature in zip(
            settings.scales, settings.per_level(settings.shape_modes), features, strict=True
        )
    )
    small = min(1.0, LARGEST_TEXTURE / _size(settings))
    drawn = PiecewiseAffine(blank_level(shape, small, mesh, "piecewise-affine", features[-1]).motion.frame)
    return Sampling(blanks, settings.colour, drawn, channels, settings.upright)


def _levels(
    settings: Training, sampling: Sampling, appearances: Sequence[PCA], workers: int, bar: Progress
) -> tuple[Level, ...]:
    step = bar.start("slopes of the basis", len(appearances))
    levels = []
    for blank, appearance in zip(sampling.blanks, appearances, strict=True):
        if settings.noise_per_pixels:
            appearance = appearance.observed(len(blank.motion.frame.pixels) / settings.noise_per_pixels)
        level = Level(
            blank.scale,
            blank.shape,
            blank.motion,
            blank.feature.name,
            blank.feature.channels,
            appearance,
            settings.colour,
            settings.upright,
        )
        levels.append(level.with_basis_slopes(basis_slopes(level, workers)))
        step()
    return tuple(levels)


def _provenance() -> dict[str, Any]:
    return {
        "pliant": __version__,
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }


def _as_pca(modes: int | float | str) -> int | float:
    """Modes as principal components have them: all of them are all of the variance."""
    return 1.0 if isinstance(modes, str) else modes


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
