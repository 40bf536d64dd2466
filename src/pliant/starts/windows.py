"""Looking for the object all over an image with the coarsest level: for models that have no filter."""

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
from pliant.starts.found import NothingFound, apart, check_sides
from pliant.trust.mismatch import relative_costs

_ALGORITHM = "po-asy-gn"
_SMALLEST, _LARGEST, _STEP = 0.25, 1.0, 1.3
"""Sizes of the object that are tried, of the shorter side of the image, and the factor between them."""

_STRIDE = 0.25
"""Distance of neighbouring windows, in sizes of the object."""

_SAMPLING = 0.3
_ITERATIONS = 4
_TOGETHER = 64


def make_window_scan(model: Model, best: int = 5, jobs: int = 1) -> Callable[[Image], Float64]:
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


def scan(fitter: Fitter, image: Image, best: int = 5) -> Float64:
    """The best starts `(k, v, 2)` in an image by a fitter of one level."""
    check_sides(image)
    shorter = min(image.shape[:2])
    sizes = shorter * _STEP ** np.arange(np.log(_SMALLEST) / np.log(_STEP), np.log(_LARGEST) / np.log(_STEP))
    found = [_one_size(fitter, image, float(size)) for size in sizes]
    costs = np.concatenate([some for some, _ in found])
    shapes = np.concatenate([some for _, some in found])
    best_first = np.argsort(costs, kind="stable")[: int(np.isfinite(costs).sum())]
    chosen = apart(shapes[best_first], best)
    if not len(chosen):
        raise NothingFound("the scan found nothing in this image that the model can be fitted to.")
    return chosen


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
