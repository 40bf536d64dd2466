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
from pliant.namespace import beside, in_double
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
    """Return the parameters of one warp after another.

    The outcome is W(W(x; increment); parameters), or W(x; parameters) after the inverse of the increment. The
    frame's vertices must be the mean of the shape model, so that zero parameters are the identity.

    Parameters
    ----------
    motion : PiecewiseAffine, ThinPlateSpline or Patches
        How pixels move with the vertices.
    shape : ShapeModel
        The shape model with n modes that the parameters belong to.
    parameters : array, shape (..., 4 + n)
        The parameters of the outer warp.
    increment : array, shape (..., 4 + n)
        The parameters of the inner, small warp.
    invert_increment : bool
        Compose with the inverse of the increment.
    order : {'exact', 'first-order'}
        `'exact'` evaluates the warps at the vertices; `'first-order'` adds or subtracts the parameters.

    Returns
    -------
    ndarray, shape (..., 4 + n)
        The parameters of the composition.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> level = pliant.load("faces.pliant").levels[-1]
    >>> p, zero = np.full(level.shape.parameters, 0.5), np.zeros(level.shape.parameters)
    >>> np.allclose(pliant.motion.compose(level.motion, level.shape, p, zero), p)
    True

    """
    if order == "first-order":
        return in_double(parameters - increment if invert_increment else parameters + increment)
    moved = shape.instance(increment)
    displaced = motion.onto_vertices(moved) if invert_increment else moved
    return shape.project(motion.at_vertices(displaced, shape.instance(parameters)))


def invert(motion: Motion, shape: ShapeModel, parameters: Floats, order: Order = "exact") -> Float64:
    """Return the parameters of the small warp that undoes another.

    Parameters
    ----------
    motion : PiecewiseAffine, ThinPlateSpline or Patches
        How pixels move with the vertices.
    shape : ShapeModel
        The shape model with n modes that the parameters belong to.
    parameters : array, shape (..., 4 + n)
        The parameters of the warp to undo.
    order : {'exact', 'first-order'}
        `'exact'` evaluates the warp at the vertices; `'first-order'` negates the parameters.

    Returns
    -------
    ndarray, shape (..., 4 + n)
        The parameters of the inverse.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> level = pliant.load("faces.pliant").levels[-1]
    >>> shift = np.array([0, 0, 3.0, 0, *np.zeros(level.shape.modes)])
    >>> np.allclose(pliant.motion.invert(level.motion, level.shape, shift), -shift)
    True

    """
    if order == "first-order":
        return -in_double(parameters)
    return shape.project(motion.onto_vertices(shape.instance(parameters)))


def jacobian(motion: Motion, shape: ShapeModel) -> Float64:
    """Return the derivative dW/dp at every pixel of the frame.

    The warp is affine in p, so the derivative is the same for all p.

    Parameters
    ----------
    motion : PiecewiseAffine, ThinPlateSpline or Patches
        How the f pixels move with the vertices.
    shape : ShapeModel
        The shape model with n modes.

    Returns
    -------
    ndarray, shape (f, 2, 4 + n)
        The derivatives of x and y by each parameter.

    Examples
    --------
    >>> import pliant
    >>> level = pliant.load("faces.pliant").levels[-1]
    >>> slopes = pliant.motion.jacobian(level.motion, level.shape)
    >>> slopes.shape == (len(level.motion.frame.pixels), 2, level.shape.parameters)
    True

    """
    basis = shape.basis.reshape(shape.landmarks, 2, -1)
    fixed = motion.positions(np.zeros((shape.landmarks, 2)))
    moved = motion.positions(np.moveaxis(basis, -1, 0)) - fixed
    return np.moveaxis(moved, 0, -1)


def update_jacobian(motion: Motion, shape: ShapeModel, parameters: Floats) -> Float64:
    """Derivative `(B, n, n)` of the exact composition p o dp by dp at zero, for parameters `(B, n)`.

    A piecewise affine warp has an affine map at every vertex. The vertices' images are linear in their displacement
    for patches too, and smooth for splines: central differences of a hundredth of a pixel are exact to rounding for
    all that it serves.
    """
    if isinstance(motion, PiecewiseAffine):
        slopes = motion.slopes_at_vertices(shape.instance(parameters))
        products = slopes.reshape(len(slopes), -1) @ beside(shape.pairs_of_columns, parameters)
        return products.reshape(-1, shape.parameters, shape.parameters)
    step = 0.01
    directions = beside(shape.basis, parameters).T.reshape(-1, shape.landmarks, 2) * step
    target, mean = shape.instance(parameters)[:, None], beside(shape.mean, parameters)
    ahead = shape.project(motion.at_vertices(mean + directions, target))
    behind = shape.project(motion.at_vertices(mean - directions, target))
    return ((ahead - behind) / (2 * step)).mT
