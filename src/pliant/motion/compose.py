"""Composition and inversion of warps, on the vertices, in terms of the parameters of a shape model.

`exact` evaluates the warps where the vertices go and projects the outcome on the shape model;
`first-order` adds the parameters, which is what most implementations quietly do.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.motion.patches import Patches
from pliant.motion.piecewise_affine import PiecewiseAffine
from pliant.motion.thin_plate_spline import ThinPlateSpline
from pliant.shape.pdm import ShapeModel

Motion = PiecewiseAffine | ThinPlateSpline | Patches
Order = Literal["exact", "first-order"]


def compose(
    motion: Motion,
    shape: ShapeModel,
    parameters: Floats,
    increment: Floats,
    *,
    invert_increment: bool = False,
    order: Order = "exact",
) -> Float64:
    """Parameters of W(W(x; increment); parameters), or of W(x; parameters) after the increment's inverse.

    Both are `(..., 4 + n)`. The frame's vertices must be the shape model's mean, so that zero
    parameters are the identity.
    """
    if order == "first-order":
        return np.asarray(
            parameters - increment if invert_increment else parameters + increment, dtype=np.float64
        )
    moved = shape.instance(increment)
    displaced = motion.onto_vertices(moved) if invert_increment else moved
    return shape.project(motion.at_vertices(displaced, shape.instance(parameters)))


def invert(motion: Motion, shape: ShapeModel, parameters: Floats, order: Order = "exact") -> Float64:
    """Parameters `(..., 4 + n)` of the small warp that undoes the warp with these parameters."""
    if order == "first-order":
        return -np.asarray(parameters, dtype=np.float64)
    return shape.project(motion.onto_vertices(shape.instance(parameters)))


def jacobian(motion: Motion, shape: ShapeModel) -> Float64:
    """dW/dp at every pixel of the frame: `(f, 2, 4 + n)`. The warp is affine in p: it is the same everywhere."""
    basis = shape.basis.reshape(shape.landmarks, 2, -1)
    fixed = motion.positions(np.zeros((shape.landmarks, 2)))
    moved = motion.positions(np.moveaxis(basis, -1, 0)) - fixed
    return np.moveaxis(moved, 0, -1)


def update_jacobian(motion: Motion, shape: ShapeModel, parameters: Floats) -> Float64:
    """Derivative `(B, n, n)` of the exact composition p o dp by dp at zero, for parameters `(B, n)`.

    The vertices' images are linear in their displacement for piecewise affine warps and patches, and smooth for
    splines: central differences of a hundredth of a pixel are exact to rounding for all that it serves.
    """
    step = 0.01
    directions = shape.basis.T.reshape(-1, shape.landmarks, 2) * step
    target = shape.instance(parameters)[:, None]
    ahead = shape.project(motion.at_vertices(shape.mean + directions, target))
    behind = shape.project(motion.at_vertices(shape.mean - directions, target))
    return np.swapaxes((ahead - behind) / (2 * step), -1, -2)
