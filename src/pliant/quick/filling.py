"""Landmarks that are missing, filled in at once by what the others let expect: good enough for a quick model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats
from pliant.shape import SIMILARITY, Similarity, align, shape_size, train_shape_model
from pliant.shape.conditional import Belief, given

_ROUNDS = 3
_NOISE = 0.01
"""Deviations of landmarks about the modes, in sizes of the object."""


def filled(incomplete: Floats) -> Float64:
    """Shapes `(k, v, 2)` with missing landmarks (nan) filled in; those that are known stay as they are.

    Each shape has three landmarks or more, and each landmark is known in a shape. `shape.missing.complete` does the
    same by maximum likelihood, and takes seconds.
    """
    shapes: Float64 = np.array(incomplete, dtype=np.float64)
    known = np.isfinite(shapes[:, :, 0])
    if np.all(known):
        return shapes
    rows = np.flatnonzero(~np.all(known, axis=1))
    full = _rough(shapes, known)
    for _ in range(_ROUNDS):
        model = train_shape_model(full, 1.0, 0.95)
        noise = np.tile(_NOISE**2 * np.eye(2), (model.landmarks, 1, 1))
        modes = model.basis[:, SIMILARITY:] * np.sqrt(model.eigenvalues)
        for row in rows:
            there = align(model.mean, full[row])
            numbers = np.flatnonzero(known[row])
            expected = given(Belief(model.mean, modes, noise).moved(there), numbers, shapes[row, numbers])
            full[row] = expected.points
    return np.asarray(full)


def _rough(shapes: Float64, known: NDArray[np.bool_]) -> Float64:
    """Missing landmarks where the mean of all shapes has them, each of which is brought to the fullest one."""
    mean = shapes[int(np.argmax(known.sum(axis=1)))].copy()
    size = float(shape_size(mean[np.isfinite(mean[:, 0])]))
    for _ in range(2):
        have = np.isfinite(mean[:, 0])
        total, count = np.zeros(mean.shape), np.zeros(len(mean))
        for shape, mask in zip(shapes, known, strict=True):
            common = mask & have
            if common.sum() < 2:
                continue
            by = _between(shape[common], mean[common])
            total[mask] += by.apply(shape[mask])
            count[mask] += 1
        mean = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], np.nan)
    middle = np.nanmean(mean, axis=0)
    # What no other shape could say: in the middle.
    mean = np.where(np.isfinite(mean), mean, middle)
    mean = mean / max(size, 1e-9)
    full = shapes.copy()
    for row, mask in enumerate(known):
        if not np.all(mask):
            full[row, ~mask] = _between(mean[mask], shapes[row, mask]).apply(mean[~mask])
    return full


def _between(source: Float64, target: Float64) -> Similarity:
    by = align(source, target)
    if np.isfinite(by.factor):
        return by
    return Similarity(np.asarray(1 + 0j), np.asarray(complex(*(target.mean(axis=0) - source.mean(axis=0)))))
