"""Learning the slopes of cascaded regression, from starts on the training images that are off.

At every stage, residuals i(p) - abar of all starts are regressed on the increments dq that would bring each to the
truth: J = (Σ r dq') (Σ dq dq')^-1. Residuals of starts that are far off do not grow with the distance, so that J
alone would have all others overshoot. So increments are regressed on the steps u that it makes as well, dq ~ C u,
and J C^-1 has the steps C u. Then the stage is applied to all starts, and the next one learns from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from pliant.appearance.features import find_feature
from pliant.appearance.view import View, angle_to_frame, feature_view, scale_to_frame, unlike
from pliant.arrays import Float32, Float64, Floats, Image
from pliant.building.vectors import warped
from pliant.fitting.cost import ProjectOut, Weights, weigh
from pliant.fitting.solve import least_norm
from pliant.kernels.descents import project_slopes
from pliant.level import Level
from pliant.model import Model
from pliant.motion.compose import compose, update_jacobian
from pliant.starts.noise import perturbed

_NOISE = 0.18
"""Starts are off by as much as this, in the measure of experiments."""

_STARTS, _FEWEST, _MOST = 900, 2, 15
"""Starts in all, and those of one image."""

_MARGIN = 0.3
"""How far around a start the image is looked at, as a share of the object's size: as fits do."""

_RIDGE = 1e-3
_LEAST = 0.05
"""The least share of a step that is taken along any direction."""

_ELLIPSOID = 3.0
"""Shapes that are farther from the mean, in deviations, are pulled back before the next stage."""


def learn_descents(
    model: Model,
    samples: Iterable[tuple[Image, Floats]],
    *,
    stages: int = 6,
    levels: int | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> Model:
    """The same model, with what `po-inv-cr` needs at its coarse levels.

    Parameters
    ----------
    model
        A trained one.
    samples
        Images with all their landmarks `(v, 2)`: those that it was trained on. They are kept in memory.
    stages
        How many a level has. Iterations beyond them have the slopes of the mean.
    levels
        How many levels learn, from the coarsest on; all but the two finest if not given, and at least one.
    seed
        Of the starts.
    jobs
        Threads.

    Returns
    -------
    Model
        With `descents (stages, n, F c)` at those levels. Fits by other algorithms are as they were.

    """
    if stages < 1:
        raise ValueError(f"stages = {stages}: cascaded regression needs at least one stage.")
    count = max(1, len(model.levels) - 2) if levels is None else levels
    if not 1 <= count <= len(model.levels):
        raise ValueError(f"levels = {count}: the model has {len(model.levels)} levels.")
    known = [(image, np.asarray(points, dtype=np.float64)) for image, points in samples]
    if not known:
        raise ValueError("cascaded regression needs images to learn from, but there are none.")
    copies = int(np.clip(_STARTS // len(known), _FEWEST, _MOST))
    rng = np.random.default_rng(seed)
    trials = [sample for sample in known for _ in range(copies)]
    shapes = [perturbed(model, points, rng.uniform(0, _NOISE), rng) for _, points in trials]
    learned = []
    with ThreadPoolExecutor(jobs) as pool:
        for level in model.levels[:count]:
            descents, shapes = _learn(model, level, trials, shapes, stages, pool)
            learned.append(level.with_descents(descents))
    return replace(model, levels=(*learned, *model.levels[count:]))


def _learn(
    model: Model,
    level: Level,
    trials: Sequence[tuple[Image, Float64]],
    starts: list[Float64],
    stages: int,
    pool: ThreadPoolExecutor,
) -> tuple[Float32, list[Float64]]:
    """What a level learns `(stages, n, F c)`, and the shapes `(v, 2)` after it; those that are lost stay."""
    shape = level.shape
    usable = [k for k, (image, _) in enumerate(trials) if not unlike(shape.mean, starts[k], image)]
    views = list(pool.map(lambda k: _view(model, level, trials[k][0], starts[k]), usable))
    pairs = list(zip(usable, views, strict=True))
    p = np.array([shape.project(view.to_view(starts[k])) for k, view in pairs])
    truth = np.array([shape.project(view.to_view(trials[k][1])) for k, view in pairs])
    weights = weigh(
        ProjectOut(), shape.eigenvalues, level.appearance.eigenvalues, level.appearance.noise_variance
    )
    found = []
    for _ in range(stages):
        points = shape.instance(p)
        rows = list(pool.map(lambda view, s: warped(level.motion, view.pixels, s).ravel(), views, points))
        residuals = np.asarray(np.array(rows) - level.appearance.mean, dtype=np.float32)
        # p o dq^-1 is the truth, to first order.
        wanted = np.linalg.solve(update_jacobian(level.motion, shape, p), (p - truth)[:, :, None])[:, :, 0]
        slopes = _regressed(residuals, wanted)
        slopes = _tempered(slopes, _steps(level, weights, slopes, residuals), wanted)
        steps = _steps(level, weights, slopes, residuals)
        p = shape.clamped(compose(level.motion, shape, p, steps, invert_increment=True), _ELLIPSOID)
        found.append(slopes)
    moved = list(starts)
    for (k, view), points in zip(pairs, shape.instance(p), strict=True):
        moved[k] = view.to_image(points)
    return np.stack(found), moved


def _steps(level: Level, weights: Weights, slopes: Float32, residuals: Float32) -> Float64:
    """Increments `(k, n)` that slopes `(n, d)` make of residuals `(k, d)`."""
    basis = np.asarray(level.appearance.components)
    projected, hessian = project_slopes(slopes, basis, weights.residual, weights.appearance)
    right = weights.residual * np.asarray(residuals @ projected.T, dtype=np.float64)
    return least_norm(np.broadcast_to(hessian, (len(right), *hessian.shape)), right)


def _tempered(slopes: Float32, steps: Float64, wanted: Float64) -> Float32:
    """The slopes `(n, d)` whose steps are nearest to those wanted `(k, n)`, of slopes that make `steps`."""
    # In deviations of the increments, so that scale, angle and modes are alike.
    unit = np.sqrt(np.mean(wanted**2, axis=0)) + 1e-12
    squares = (steps / unit).T @ (steps / unit)
    ridge = _RIDGE * np.trace(squares) / len(squares) + 1e-12
    share = np.linalg.solve(squares + ridge * np.eye(len(squares)), (steps / unit).T @ (wanted / unit))
    left, values, right = np.linalg.svd(share)
    inverse = (right.T / np.maximum(values, _LEAST)) @ left.T
    return np.asarray((inverse / unit[:, None]) @ (unit[:, None] * slopes), dtype=np.float32)


def _regressed(residuals: Float32, increments: Float64) -> Float32:
    """J' `(n, d)` with residuals `(k, d)` nearest to increments `(k, n)` times it."""
    squares = increments.T @ increments
    diagonal = np.arange(len(squares))
    squares[diagonal, diagonal] *= 1 + _RIDGE
    squares[diagonal, diagonal] += 1e-12
    return np.asarray(np.linalg.solve(squares, increments.T @ residuals), dtype=np.float32)


def _view(model: Model, level: Level, image: Image, shape: Float64) -> View:
    mean = level.shape.mean
    margin = _MARGIN * model.size * level.scale
    angle = angle_to_frame(mean, shape) if level.upright else 0.0
    feature = find_feature(level.features)
    return feature_view(
        image, shape, scale_to_frame(mean, shape), feature, margin, colour=level.colour, angle=angle
    )
