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
from pliant.shape import ShapeModel


@dataclass(frozen=True)
class Forward:
    """The warp of the image is composed with u (paper, equations 26 and 27)."""


@dataclass(frozen=True)
class Inverse:
    """The model is warped by u, and the image's warp is composed with its inverse (equations 28 and 29)."""


@dataclass(frozen=True)
class Asymmetric:
    """The image is warped by alpha u, and the model by -(1 - alpha) u (equations 30 to 32).

    Symmetric for alpha = 0.5; forward for 1, and inverse (with the sign of u turned) for 0.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha = {self.alpha!r}: the share of the image's warp lies between 0 and 1.")


@dataclass(frozen=True)
class Bidirectional:
    """Image and model are warped by unknowns of their own, u = (dp, dq) (equations 33 and 34)."""


Composition = Forward | Inverse | Asymmetric | Bidirectional


def shares(composition: Composition) -> Float64:
    """T for n = 1: how much of each unknown goes to dp (row 0) and to dq (row 1)."""
    match composition:
        case Forward():
            return np.array([[1.0], [0.0]])
        case Inverse():
            return np.array([[0.0], [1.0]])
        case Asymmetric(alpha):
            return np.array([[alpha], [alpha - 1]])
        case Bidirectional():
            return np.eye(2)


def spread(composition: Composition, parameters: int) -> Float64:
    """T `(2n, k)`: from the unknowns to (dp, dq)."""
    return np.asarray(np.kron(shares(composition), np.eye(parameters)), dtype=np.float64)


def update(
    composition: Composition,
    motion: Motion,
    shape: ShapeModel,
    parameters: Floats,
    unknowns: Floats,
    order: Order = "exact",
) -> Float64:
    """P o dp o dq^-1 for parameters `(B, n)` and unknowns `(B, k)`."""
    to_image, to_model = shares(composition)
    parts = np.reshape(unknowns, (*unknowns.shape[:-1], len(to_image), -1))
    updated = np.asarray(parameters, dtype=np.float64)
    if np.any(to_image):
        updated = compose(motion, shape, updated, np.tensordot(to_image, parts, (0, -2)), order=order)
    if np.any(to_model):
        increment = np.tensordot(to_model, parts, (0, -2))
        updated = compose(motion, shape, updated, increment, invert_increment=True, order=order)
    return updated
