"""How far new shapes lie from those that a model can make: what its modes leave of shapes that it has not seen."""

from __future__ import annotations

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.shape.pdm import ShapeModel, train_shape_model
from pliant.shape.procrustes import align, shape_size

_FOLDS = 5

_SHRINKAGE = 10
"""A landmark's own noise counts for as much as the average of all, with so many shapes."""


def held_out_noise(shapes: Floats, model: ShapeModel) -> Float64:
    """Covariances `(v, 2, 2)` of landmarks about a model's shapes, in its frame, as new shapes have them.

    Shapes `(k, v, 2)` are left out in turns, and compared with the nearest that a model of the others can make,
    with as many modes as `model` has. What modes leave of their own training shapes is less, and of few nothing.
    """
    shapes = np.asarray(shapes, dtype=np.float64)
    size = float(shape_size(model.mean))
    away = np.empty(shapes.shape)
    for fold in range(min(_FOLDS, len(shapes))):
        held = np.arange(len(shapes)) % _FOLDS == fold
        other = train_shape_model(shapes[~held], size)
        other = other.truncated(max(1, model.modes))
        placed = (
            align(np.broadcast_to(other.mean, shapes[held].shape), shapes[held]).inverse().apply(shapes[held])
        )
        left = placed - other.instance(other.project(placed))
        # Means of other shapes stand a little otherwise.
        turn = align(other.mean, model.mean)
        away[held] = left @ np.array(
            [[np.cos(turn.angle), np.sin(turn.angle)], [-np.sin(turn.angle), np.cos(turn.angle)]]
        )
    noise = np.einsum("kvi,kvj->vij", away, away) / len(shapes)
    own = len(shapes) / (len(shapes) + _SHRINKAGE)
    common = np.trace(noise.mean(axis=0)) / 2 * np.eye(2)
    noise = own * noise + (1 - own) * common
    return np.asarray((noise + np.swapaxes(noise, 1, 2)) / 2)
