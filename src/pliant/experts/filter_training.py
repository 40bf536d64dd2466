"""Filters for landmarks in closed form, and how far what they see can be trusted.

A filter is the ridge regression from the channels about a pixel to a bump about the landmark: 1 there, and 0 a few
pixels away. Its equations are summed over places about the landmark in all images, fold by fold, so that filters
that do not know a fold cost one more solution each. Sharpness and covariance are learned on the folds left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pliant.arrays import Float32, Float64, readonly
from pliant.experts.linear import (
    CHANNELS,
    Filters,
    LinearExpert,
    Look,
    answered,
    brought_together,
    moments,
    normalised,
)
from pliant.experts.patches import Window, cut_out, look_at, margin_of
from pliant.shape import align, shape_size

_PLACES = 40
"""Places about a landmark that are looked at in an image: half of them near it, half anywhere in reach."""

_NEAR = 2
_BUMP = 1.0
"""Pixels: what is near, and the deviation of the bump."""

_RIDGE = 0.003
"""Of the filters, as a share of the mean energy of a channel."""

_LOST = 0.08
"""Shapes that are off by more than this share of the object teach a filter nothing."""

_AT_ONCE = 32

_SHARPNESS = (8.0, 12.0, 18.0, 27.0, 40.0, 60.0)
_SHARES = (0.0, 0.25, 0.5, 1.0)
_TRUSTS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)
"""What is tried."""

_OUTLIERS = 0.05
"""The share of landmarks that may be anywhere in reach, when sharpness is judged."""

_FREEDOM = 4.0
"""Degrees of freedom of the Student distribution that errors have: a few large ones do not decide alone."""

_LEAST_SPREAD = 2e-4
"""The least deviation of what is seen, in sizes of the object."""


class Trial(NamedTuple):
    """A shape `(v, 2)` on a training image that filters look at, the truth, and the fold it is left out with."""

    part: Window
    shape: Float64
    truth: Float64
    fold: int


def learn_filters(
    mean: Float64,
    sizes: tuple[float, int, int, int],
    trials: Sequence[Trial],
    seed: int,
    pool: ThreadPoolExecutor,
) -> tuple[Filters, dict[int, Filters]]:
    """Filters of all trials, and for each fold those of all others, with a size, grid, spacing and reach."""
    size, grid, spacing, reach = sizes
    count, width = len(mean), grid**2 * CHANNELS + 1
    folds = sorted({trial.fold for trial in trials})
    squares = {fold: np.zeros((count, width, width), dtype=np.float32) for fold in folds}
    goals = {fold: np.zeros((count, width, 1), dtype=np.float32) for fold in folds}

    def one(k: int) -> tuple[Float32, Float32] | None:
        return _examples(mean, sizes, trials[k], np.random.default_rng([seed, k]))

    for fold in folds:
        own = [k for k, trial in enumerate(trials) if trial.fold == fold]
        for first in range(0, len(own), _AT_ONCE):
            found = [pair for pair in pool.map(one, own[first : first + _AT_ONCE]) if pair is not None]
            if found:
                rows = np.concatenate([pair[0] for pair in found], axis=1)
                turned = np.swapaxes(rows, 1, 2)
                squares[fold] += turned @ rows
                goals[fold] += turned @ np.concatenate([pair[1] for pair in found], axis=1)[:, :, None]
    all_squares, all_goals = sum(squares.values()), sum(goals.values())

    def solved(square: Any, goal: Any) -> Filters:
        diagonal = np.arange(width - 1)
        square = np.asarray(square, dtype=np.float64)
        energy = square[:, diagonal, diagonal].mean(axis=1)
        square[:, diagonal, diagonal] += _RIDGE * energy[:, None] + 1e-9
        square[:, -1, -1] += 1e-9
        found = np.linalg.solve(square, np.asarray(goal, dtype=np.float64))[:, :, 0].astype(np.float32)
        return Filters(
            size=size,
            grid=grid,
            spacing=spacing,
            reach=reach,
            weights=readonly(found[:, :-1].reshape(count, grid, grid, CHANNELS)),
            offset=readonly(found[:, -1]),
            sharpness=readonly(np.full(count, _SHARPNESS[2], dtype=np.float32)),
            spread=readonly(np.tile(np.eye(2) * 1e-4, (count, 1, 1))),
            share=1.0,
            trust=1.0,
        )

    without = {fold: solved(all_squares - squares[fold], all_goals - goals[fold]) for fold in folds}
    return solved(all_squares, all_goals), without


def _examples(
    mean: Float64, sizes: tuple[float, int, int, int], trial: Trial, rng: np.random.Generator
) -> tuple[Float32, Float32] | None:
    """Channels about places near each landmark `(v, places, n + 1)`, a one behind them, and the bump there."""
    size, grid, spacing, reach = sizes
    if _off(trial.shape, trial.truth) > _LOST:
        return None
    placed = align(mean, trial.shape)
    seen = look_at(trial.part, trial.shape, mean, placed, size, margin_of(grid, spacing, reach))
    if seen is None:
        return None
    truth, half = seen.to_view(trial.truth), _PLACES // 2
    near = rng.integers(-_NEAR, _NEAR + 1, (len(truth), half, 2))
    far = rng.integers(-reach, reach + 1, (len(truth), _PLACES - half, 2))
    places = np.rint(truth)[:, None] + np.concatenate([near, far], axis=1)
    rows = np.ones((len(truth), _PLACES, grid**2 * CHANNELS + 1), dtype=np.float32)
    cut = cut_out(seen.pixels, places.reshape(-1, 2).astype(np.int64), grid, spacing)
    rows[:, :, :-1] = cut.reshape(len(truth), _PLACES, -1)
    squares = np.sum((places - truth[:, None]) ** 2, axis=-1)
    return rows, np.exp(-0.5 * squares / _BUMP**2).astype(np.float32)


def _off(shape: Float64, truth: Float64) -> float:
    """The mean error of a shape, as a share of the object's size."""
    return float(np.mean(np.linalg.norm(shape - truth, axis=-1)) / shape_size(truth))


def calibrated(
    expert: LinearExpert,
    layer: Filters,
    without: dict[int, Filters],
    trials: Sequence[Trial],
    pool: ThreadPoolExecutor,
    lost: float = _LOST,
) -> tuple[Filters, dict[int, Filters]]:
    """The same filters with sharpness, covariances and trust as the folds that were left out have them.

    Trials whose shapes are off by more than the share `lost` of the object do not count.
    """

    def one(trial: Trial) -> Look | None:
        if _off(trial.shape, trial.truth) > lost:
            return None
        return answered(expert.mean, without[trial.fold], trial.part, trial.shape)

    tried = zip(trials, pool.map(one, trials), strict=True)
    looks = [(trial.truth, found) for trial, found in tried if found is not None]
    if not looks:
        return layer, without
    values = np.array([found.values for _, found in looks])
    first = np.array([found.first for _, found in looks])
    truth = np.array([found.view.to_view(truth) for truth, found in looks])
    changes: dict[str, Any] = {"sharpness": readonly(_sharpness(values, truth - first))}
    weights = normalised(values, changes["sharpness"])
    points, covariances = moments(weights, first)
    share, spread = _covariances((truth - points) / layer.size, covariances / layer.size**2)
    changes |= {"share": share, "spread": readonly(spread)}
    whole = share * covariances + layer.size**2 * spread
    losses = []
    for trust in _TRUSTS:
        now = replace(layer, **changes, trust=trust)
        shapes = [
            brought_together(expert, now, points[k], whole[k], found) for k, (_, found) in enumerate(looks)
        ]
        losses.append(np.mean([_off(shape, truth) for shape, (truth, _) in zip(shapes, looks, strict=True)]))
    changes["trust"] = _TRUSTS[int(np.argmin(losses))]
    return replace(layer, **changes), {fold: replace(own, **changes) for fold, own in without.items()}


def _sharpness(values: Float32, truth: Float64) -> Float32:
    """The sharpness `(v,)` with which answers `(k, v, side, side)` tell best where landmarks are `(k, v, 2)`."""
    side = values.shape[-1]
    nearest = np.clip(np.rint(truth), 0, side - 1).astype(int)
    samples, landmarks = np.ogrid[: values.shape[0], : values.shape[1]]
    likelihoods = []
    for sharpness in _SHARPNESS:
        weights = normalised(values, np.full(values.shape[1], sharpness))
        there = weights[samples, landmarks, nearest[..., 1], nearest[..., 0]]
        likelihoods.append(np.sum(np.log((1 - _OUTLIERS) * there + _OUTLIERS / side**2), axis=0))
    return np.asarray(np.array(_SHARPNESS, dtype=np.float32)[np.argmax(likelihoods, axis=0)])


def _covariances(errors: Float64, covariances: Float64) -> tuple[float, Float64]:
    """The share of covariances `(k, v, 2, 2)`, and what is added `(v, 2, 2)`, that errors `(k, v, 2)` have."""
    best: tuple[float, float, Float64] | None = None
    for share in _SHARES:
        spread = _spread(errors, share * covariances)
        inverse = np.linalg.inv(share * covariances + spread)
        squares = np.einsum("kva,kvab,kvb->kv", errors, inverse, errors)
        likelihood = float(
            np.sum(0.5 * np.log(np.linalg.det(inverse)) - (_FREEDOM + 2) / 2 * np.log1p(squares / _FREEDOM))
        )
        if best is None or likelihood > best[0]:
            best = likelihood, share, spread
    assert best is not None
    return best[1], best[2]


def _spread(errors: Float64, known: Float64, rounds: int = 15) -> Float64:
    """Covariances `(v, 2, 2)` beside those that are known `(k, v, 2, 2)`, with large errors weighted down."""
    outer = errors[..., :, None] * errors[..., None, :]
    spread: Float64 = np.mean(outer, axis=0) + _LEAST_SPREAD**2 * np.eye(2)
    for _ in range(rounds):
        squares = np.einsum("kva,kvab,kvb->kv", errors, np.linalg.inv(known + spread), errors)
        weights = ((_FREEDOM + 2) / (_FREEDOM + squares))[..., None, None]
        spread = _at_least(np.mean(weights * outer - known, axis=0))
    return spread


def _at_least(covariances: Float64) -> Float64:
    """The nearest symmetric matrices `(v, 2, 2)` with no deviation below the least one."""
    values, vectors = np.linalg.eigh((covariances + np.swapaxes(covariances, -1, -2)) / 2)
    values = np.maximum(values, _LEAST_SPREAD**2)
    made = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray((made + np.swapaxes(made, -1, -2)) / 2)
