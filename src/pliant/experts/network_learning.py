"""From annotated images to a network expert: which networks, how long, and how far their word can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pliant.arrays import Float64, Floats, Image, Int32, readonly
from pliant.experts.frames import CropFrame, crop_frame
from pliant.experts.lesson import Jitter, Lesson
from pliant.experts.network import NetworkExpert, Stage
from pliant.experts.windows import make_lesson
from pliant.starts.noise import perturbed_mean
from pliant.trust.scatter import likeliest_scatter

Samples = Sequence[tuple[Image, Float64]]
"""Images with landmarks `(v, 2)`: a list, or what reads them anew each time."""

Tell = Callable[[str, int, int, float], None]

_FAR = Jitter(shift=0.32, zoom=0.2, turn=0.35)
_NEAR = Jitter(shift=0.08, zoom=0.12, turn=0.18)
"""How far off starts are: those that a user has, and those that the first network makes of them."""

_FAR_MARGIN, _NEAR_MARGIN = 0.5, 0.14
"""What a window shows around the object, as a share of its longer side."""

_MANY = 400
"""Samples from which on a larger network is worth its time."""

_UNKNOWN = 0.02
"""How far off a network is taken to be before anything is known of it, as a share of the object's longer side."""

_NOISE, _STARTS = 0.1, 2
"""How far off the starts are that trust is learned from, and how many each held-out image has."""

_SHRINKAGE = 10
"""A landmark's own scatter counts for as much as the average of all, once so many images were held out."""


@dataclass(frozen=True)
class Course:
    """One network: the side of its window, how wide its layers are, and for how many steps it learns."""

    pixels: int
    widths: tuple[int, ...]
    steps: int
    batch: int


@dataclass(frozen=True)
class Plan:
    """The networks of an expert, and about how many minutes they take: of few samples they are trained twice."""

    far: Course
    near: Course
    minutes: float


_SMALL = Plan(Course(48, (16, 24, 32), 200, 32), Course(96, (16, 32, 48, 64), 350, 32), 3.0)
_MEDIUM = Plan(Course(64, (16, 32, 40, 48), 800, 32), Course(128, (16, 32, 48, 64, 80), 1200, 32), 13)
_ON_GPU = Plan(Course(64, (16, 32, 40, 48), 1500, 32), Course(128, (16, 32, 48, 64, 80), 5000, 32), 2.0)
_LARGE = Plan(Course(64, (24, 48, 64, 80), 2500, 64), Course(160, (24, 48, 96, 144, 192), 3300, 64), 1.5)


class NoPyTorch(ValueError):
    """A network is to be trained, and PyTorch is not there."""

    def __init__(self) -> None:
        super().__init__(
            "training a network expert needs PyTorch, but it is not installed: pip install "
            "'pliant[experts]', or use the linear expert. A trained network works without PyTorch."
        )

    def __reduce__(self) -> tuple[type[NoPyTorch], tuple[()]]:
        """For it to come back from another machine as it is."""
        return NoPyTorch, ()


def training_device() -> str | None:
    """Where networks would be trained, "cuda" or "cpu"; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    return "cuda" if torch.cuda.is_available() else "cpu"


def plan_for(samples: int, device: str) -> Plan:
    """What suits so many samples on a device."""
    if device == "cpu":
        return _SMALL if samples < _MANY else _MEDIUM
    return _ON_GPU if samples < _MANY else _LARGE


def learn_network(
    samples: Samples,
    mean: Floats,
    mirror: Int32 | None = None,
    *,
    seed: int = 0,
    jobs: int = 1,
    tell: Tell | None = None,
) -> NetworkExpert:
    """An expert of images with landmarks `(v, 2)`; `trusted` then learns how far its word can be trusted.

    Parameters
    ----------
    samples
        Images and landmarks; they are gone through once for each network.
    mean
        The mean shape `(v, 2)`, upright.
    mirror
        Which landmark is which in a mirror `(v,)`, if the object is symmetric.
    seed, jobs
        Of the random windows, and the threads.
    tell
        Called with a network's name, the step, of how many, and the mean distance to the truth as a share of the
        object's longer side.

    """
    device = training_device()
    if device is None:
        raise NoPyTorch
    from pliant.experts.network_training import some_threads

    plan = plan_for(len(samples), device)
    courses = (("far", plan.far, _FAR_MARGIN, _FAR), ("near", plan.near, _NEAR_MARGIN, _NEAR))
    stages = []
    with some_threads(jobs):
        for name, course, margin, jitter in courses:
            frame = crop_frame(mean, course.pixels, margin, 2 ** len(course.widths))
            lesson = make_lesson(samples, frame, jitter, mirror)
            stages.append(_taught(frame, lesson, course, device, seed, partial(tell, name) if tell else None))
    return NetworkExpert(tuple(stages))


def _taught(
    frame: CropFrame,
    lesson: Lesson,
    course: Course,
    device: str,
    seed: int,
    tell: Callable[[int, int, float], None] | None,
) -> Stage:
    from pliant.experts.network_training import train_network

    def told(step: int, distance: float) -> None:
        if tell is not None:
            tell(step, course.steps, distance / frame.extent)

    weights = train_network(
        lesson, course.widths, course.steps, batch=course.batch, device=device, seed=seed, tell=told
    )
    unknown = np.broadcast_to((_UNKNOWN * frame.extent) ** 2 * np.eye(2), (len(frame.mean), 2, 2))
    return Stage(frame, {name: readonly(array) for name, array in weights.items()}, 1.0, readonly(unknown))


def trusted(expert: NetworkExpert, held: Samples, seed: int = 0) -> NetworkExpert:
    """The expert with covariances that hold for images that it was not trained on.

    Each network looks from where the one before it has led, the first one from starts at random.
    """
    looked_at = [(image, truth) for image, truth in held for _ in range(_STARTS)]
    shapes = [
        perturbed_mean(expert.stages[0].frame.mean, truth, _NOISE, np.random.default_rng([seed, number]))
        for number, (_, truth) in enumerate(looked_at)
    ]
    stages = []
    for stage in expert.stages:
        away, spread = [], []
        for number, (image, truth) in enumerate(looked_at):
            points, covariance, place = stage.seen(image, shapes[number])
            away.append(points - place.inverse().apply(truth))
            spread.append(covariance)
            shapes[number] = place.apply(points) if np.all(np.isfinite(points)) else shapes[number]
        stages.append(_trusted(stage, np.array(away), np.array(spread), len(held)))
    return NetworkExpert(tuple(stages))


def _trusted(stage: Stage, away: Float64, spread: Float64, images: int) -> Stage:
    errors = np.linalg.norm(away, axis=-1).mean(axis=-1)
    # Those that are lost, or at which nothing can be seen, are not what a covariance is about.
    finite = np.isfinite(errors)
    if not np.any(finite):
        return stage
    usual = errors <= 2 * np.median(errors[finite])
    share, scatter = likeliest_scatter(away[usual], spread[usual])
    own = images / (images + _SHRINKAGE)
    common = np.trace(scatter.mean(axis=0)) / 2 * np.eye(2)
    return replace(stage, share=share, spread=readonly(own * scatter + (1 - own) * common))


def like(expert: NetworkExpert, other: NetworkExpert) -> NetworkExpert:
    """The expert with the trust of another one of the same plan, which was trained on fewer images."""
    stages = [
        replace(stage, share=known.share, spread=known.spread)
        for stage, known in zip(expert.stages, other.stages, strict=True)
    ]
    return NetworkExpert(tuple(stages))
