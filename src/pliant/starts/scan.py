"""Looking for the object all over an image, with nothing but the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pliant.appearance.features import find_feature
from pliant.appearance.view import feature_view
from pliant.arrays import Float64, Image
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.fitting.loop import iterate
from pliant.model import Model
from pliant.shape import shape_size
from pliant.trust.mismatch import relative_costs

_ALGORITHM = "po-asy-gn"
_SMALLEST, _LARGEST, _STEP = 0.25, 1.0, 1.3
"""Sizes of the object that are tried, of the shorter side of the image, and the factor between them."""

_STRIDE = 0.25
"""Distance of neighbouring windows, in sizes of the object."""

_SAMPLING = 0.3
_ITERATIONS = 4
_APART = 0.1
"""Windows whose landmarks ended nearer to each other than this share of the size are the same find."""

_SEPARATE = 0.5
"""Finds whose centroids are nearer to each other than this share of the larger one's size are one object."""

_TOGETHER = 64

_LONGEST = 12
"""The longer side of an image over its shorter one: so many more windows there are than in a square."""


class NothingFound(ValueError):
    """There is nothing in an image that looks like the object; the message is a sentence."""


def make_scan(model: Model, best: int = 5, jobs: int = 1) -> Callable[[Image], Float64]:
    """A function that finds the `best` starts `(k, v, 2)` in an image, the one with the lowest cost first.

    The coarsest level is fitted for a few iterations from windows of all sizes at all places.
    """
    coarse = replace(model, levels=model.levels[:1])
    fitter = make_fitter(
        coarse,
        algorithm=_ALGORITHM,
        iterations=_ITERATIONS,
        sampling=_SAMPLING,
        jobs=jobs,
        trace=False,
        confidence=False,
    )
    _ = fitter.prepared  # made once, not by every thread
    return lambda image: scan(fitter, image, best)


def make_object_search(model: Model, most: int = 20, starts: int = 5) -> Callable[[Image], list[Float64]]:
    """A function that finds up to `most` separate objects in an image, the most likely first.

    Each object is up to `starts` starts `(k, v, 2)`, k >= 1, the best first; different objects do not overlap much.
    The function raises `NothingFound`, a ValueError with a sentence, where there is none. Make it once for many
    images: threads may share it.
    """
    look = make_scan(model, most * starts)
    return lambda image: _separate(look(image), most, starts)


def find_objects(model: Model, image: Image, most: int = 20) -> list[Float64]:
    """Up to `most` separate objects in an image `(h, w)` or `(h, w, 3)`: starts `(k, v, 2)` each, best first."""
    return make_object_search(model, most)(image)


def _separate(shapes: Float64, most: int, starts: int) -> list[Float64]:
    """Shapes `(k, v, 2)`, best first, in groups of one object each."""
    groups: list[list[Float64]] = []
    for shape in shapes:
        size = float(shape_size(shape))
        for group in groups:
            gap = float(np.linalg.norm(shape.mean(axis=0) - group[0].mean(axis=0)))
            if gap < _SEPARATE * max(size, float(shape_size(group[0]))):
                group.append(shape)
                break
        else:
            groups.append([shape])
    return [np.array(group[:starts]) for group in groups[:most]]


def scan(fitter: Fitter, image: Image, best: int = 5) -> Float64:
    """The best starts `(k, v, 2)` in an image by a fitter of one level."""
    shorter, longer = sorted(image.shape[:2])
    if longer > _LONGEST * shorter:
        raise NothingFound(
            f"the image has {image.shape[1]} x {image.shape[0]} pixels, and a scan looks at sides of at most "
            f"{_LONGEST} to 1: cut it, or say where the object is."
        )
    sizes = shorter * _STEP ** np.arange(np.log(_SMALLEST) / np.log(_STEP), np.log(_LARGEST) / np.log(_STEP))
    found = [_one_size(fitter, image, float(size)) for size in sizes]
    costs = np.concatenate([some for some, _ in found])
    shapes = np.concatenate([some for _, some in found])
    chosen: list[Float64] = []
    for number in np.argsort(costs):
        shape = shapes[number]
        if not np.isfinite(costs[number]) or len(chosen) == best:
            break
        gaps = [np.linalg.norm(shape - other, axis=-1).mean() / shape_size(other) for other in chosen]
        if min(gaps, default=1.0) > _APART:
            chosen.append(shape)
    if not chosen:
        raise NothingFound("the scan found nothing in this image that the model can be fitted to.")
    return np.array(chosen)


def _one_size(fitter: Fitter, image: Image, size: float) -> tuple[Float64, Float64]:
    """Costs `(k,)` and shapes `(k, v, 2)` of windows for objects of `size` pixels, all over the image."""
    [(level, _, problem)] = fitter.prepared
    mean = level.shape.mean
    zoom = size / float(shape_size(mean))
    extent = zoom * np.ptp(mean, axis=0)
    height, width = image.shape[:2]
    # The object may be cut off a little at the edges.
    columns, rows = (
        _places(side, reach, _STRIDE * size) for side, reach in zip((width, height), extent, strict=True)
    )
    centres = np.array([(x, y) for y in rows for x in columns])
    corners = np.array([(-0.5, -0.5), (width - 0.5, height - 0.5)])
    # One view of all of the image, and not one for each window.
    feature, margin = find_feature(level.features), 0.15 * size / zoom
    seen = feature_view(image, corners, 1 / zoom, feature, margin, colour=level.colour)
    middle = (mean.min(axis=0) + mean.max(axis=0)) / 2
    windows = mean - middle + seen.to_view(centres)[:, None]
    costs, ended = [], []
    for first in range(0, len(windows), _TOGETHER):
        some = level.shape.project(windows[first : first + _TOGETHER])
        coordinates = np.zeros((len(some), len(problem.weights.appearance)))
        done = iterate(problem, [seen.pixels] * len(some), some, coordinates, _ITERATIONS, every_cost=False)
        shapes = level.shape.instance(done.shape_parameters)
        relative = relative_costs(level, [seen.pixels] * len(some), shapes, done.final_costs)
        lost = [status.lost for status in done.statuses]
        costs.append(np.where(np.isfinite(relative) & ~np.array(lost), relative, np.inf))
        ended.append(seen.to_image(shapes))
    return np.concatenate(costs), np.concatenate(ended)


def _places(side: int, extent: float, stride: float) -> Float64:
    """Centres of windows of an `extent` along a `side` of the image."""
    first, last = 0.4 * extent, side - 1 - 0.4 * extent
    if last <= first:
        return np.array([(side - 1) / 2])
    return np.linspace(first, last, 2 + int((last - first) / stride))
