"""Where the small warp goes: on the image, on the model, on both in proportion, or on both freely.

Every composition is a linear map from its unknowns u to an increment dp of the image's warp and an
increment dq of the model's, (dp, dq) = T u, and one update: p <- p o dp o dq^-1. The residual is then
r + (Ji, -Ja) T u to first order, for all four of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.motion import Motion, Order, compose
from pliant.namespace import Array, in_double
from pliant.shape import ShapeModel


@dataclass(frozen=True)
class Forward:
    """Compose the warp of the image with the increment u (equations 26 and 27).

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.ProjectOut(), pliant.Forward()))
    'po-for-gn'

    """


@dataclass(frozen=True)
class Inverse:
    """Warp the model by u, and compose the warp of the image with the inverse of u (equations 28 and 29).

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Inverse()))
    'ssd-inv-gn-sch'

    """


@dataclass(frozen=True)
class Asymmetric:
    """Warp the image by alpha u, and the model by -(1 - alpha) u (equations 30 to 32).

    Parameters
    ----------
    alpha : float
        The image's share, from 0 to 1. It is symmetric for 0.5, forward for 1, and inverse (with the sign of u
        turned) for 0.

    Raises
    ------
    ValueError
        If alpha is not between 0 and 1.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Asymmetric(0.2)))
    'ssd-asy:0.2-gn-sch'

    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(
                f"alpha = {self.alpha!r}: the share of the image's warp must be between 0 and 1."
            )


@dataclass(frozen=True)
class Bidirectional:
    """Warp the image and the model by unknowns of their own, u = (dp, dq) (equations 33 and 34).

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Bidirectional()))
    'ssd-bid-gn-sch'

    """


Composition = Forward | Inverse | Asymmetric | Bidirectional


def shares(composition: Composition) -> Float64:
    """T `(2, k)`: how much of each of the k sets of unknowns goes to dp (row 0) and to dq (row 1)."""
    match composition:
        case Forward():
            return np.array([[1.0], [0.0]])  # eq. 26
        case Inverse():
            return np.array([[0.0], [1.0]])  # eq. 28
        case Asymmetric(alpha):
            return np.array([[alpha], [alpha - 1]])  # eq. 30, 31, 110
        case Bidirectional():
            return np.eye(2)  # eq. 33


def update(
    composition: Composition,
    motion: Motion,
    shape: ShapeModel,
    parameters: Floats,
    unknowns: Floats,
    order: Order = "exact",
) -> Float64:
    """P o dp o dq^-1 for parameters `(B, n)` and unknowns `(B, k)`."""
    T = shares(composition)
    sets = [unknowns[:, k * shape.parameters : (k + 1) * shape.parameters] for k in range(T.shape[1])]
    updated = in_double(parameters)
    if T[0].any():
        dp = _weighted_sum(T[0], sets)
        updated = compose(motion, shape, updated, dp, order=order)  # eq. 27, 32, 34
    if T[1].any():
        dq = _weighted_sum(T[1], sets)
        updated = compose(motion, shape, updated, dq, invert_increment=True, order=order)  # eq. 29, 32, 34
    return updated


def _weighted_sum(weights: Float64, sets: list[Array]) -> Array:
    return sum(float(weight) * one for weight, one in zip(weights, sets, strict=True) if weight)
