r"""Sliding semi-landmarks along their tangents (Bookstein 1997; Gunz, Mitteroecker and Bookstein 2005).

Let y be a shape with v landmarks, stacked as all x and then all y, and r the reference. Each of the s landmarks
that slide moves by a length t_j along the unit tangent through its neighbours:

    y(t) = y + U t,    U (2v x s) with (cos a_j, sin a_j) in the rows of landmark j,
    (cos a_j, sin a_j) = (y_after - y_before) / |y_after - y_before|.

**Bending energy.** The thin-plate spline from the reference to y has, up to a constant factor, the energy y' B y:

    K_ij = u(|r_i - r_j|),  u(d) = d^2 log d^2,    P = [1 | r]  (v x 3),
    L = [K P; P' 0],    B = diag(b, b),  b = the first v rows and columns of L^-1.

B is positive semi-definite and B r = 0: affine changes of the reference cost nothing. The minimum over t is

    t = -(U' B U)^-1 U' B y.

**Procrustes distance.** The minimum of |y(t) - r|^2 is t = -U'(y - r), as the columns of U are orthonormal.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.morphometrics.sliders import Sliders

Slide = Literal["bending-energy", "distance"]
"""What is minimised when landmarks slide."""

CRITERIA: tuple[str, ...] = get_args(Slide)


def bending_matrix(reference: Floats) -> Float64:
    r"""The matrix b `(v, v)` of the bending energy of a reference `(v, 2)`.

    The energy of the spline that brings the reference to a shape with coordinates x and y is proportional to
    x' b x + y' b y.
    """
    count = len(reference)
    squares = np.sum((reference[:, None] - reference[None]) ** 2, axis=-1)
    kernel = squares * np.log(np.where(squares > 0, squares, 1.0))
    whole = np.zeros((count + 3, count + 3))
    whole[:count, :count] = kernel
    whole[:count, count] = whole[count, :count] = 1.0
    whole[:count, count + 1 :] = reference
    whole[count + 1 :, :count] = reference.T
    try:
        inverse = np.linalg.inv(whole)
    except np.linalg.LinAlgError:
        raise ValueError(
            "two landmarks of the mean shape coincide, or all are on one line: there is no bending energy."
        ) from None
    matrix = inverse[:count, :count]
    return np.asarray((matrix + matrix.T) / 2)


def tangents_of(shapes: Floats, sliders: Sliders) -> Float64:
    """The unit tangents `(k, s, 2)` at the landmarks that slide, in shapes `(k, v, 2)`.

    A landmark whose neighbours coincide has no tangent, and stays.
    """
    chords = shapes[:, sliders[:, 2]] - shapes[:, sliders[:, 0]]
    lengths = np.linalg.norm(chords, axis=-1, keepdims=True)
    return np.asarray(np.divide(chords, lengths, out=np.zeros_like(chords), where=lengths > 0))


def slid(shapes: Floats, reference: Floats, sliders: Sliders, criterion: Slide) -> Float64:
    """Shapes `(k, v, 2)` with their semi-landmarks where they are most like the reference `(v, 2)`.

    One step along the tangents, as the module has it; the reference and tangents stay fixed meanwhile.
    """
    tangents = tangents_of(shapes, sliders)
    sliding = sliders[:, 1]
    if criterion == "distance":
        steps = -np.sum(tangents * (shapes - reference)[:, sliding], axis=-1)
    else:
        matrix = bending_matrix(reference)
        # U'BU and U'By, where U has two entries in a column: no matrix with 2v rows is needed.
        among = matrix[np.ix_(sliding, sliding)]
        products = np.einsum("ksi,kti->kst", tangents, tangents) * among
        right = np.sum(tangents * np.einsum("sv,kvi->ksi", matrix[sliding], shapes), axis=-1)
        steps = np.stack([-_solved(one, other) for one, other in zip(products, right, strict=True)])
    moved: Float64 = np.array(shapes, dtype=np.float64)
    moved[:, sliding] += steps[..., None] * tangents
    return moved


def _solved(matrix: Float64, right: Float64) -> Float64:
    try:
        return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    except np.linalg.LinAlgError:  # A landmark without a tangent: the least step.
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64)
