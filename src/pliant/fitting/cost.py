"""What is minimised: the sum of squared differences, or a project-out cost, with or without a prior.

Every cost is  1/2 r'M r + 1/2 p'P p + 1/2 c'Q c  with  M = w0 I - A diag(w) A'  and diagonal P and Q.
For SSD, `c` is an unknown, M = w0 I and r = i - (abar + A c). For project-out, `c` is gone and
r = i - abar: M measures the distance to the appearance subspace and, if Bayesian, within it. Where an expert has
seen the object, the cost of its fit has one more term, which is a function of p alone (`landmarks.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pliant.arrays import Float64
from pliant.fitting.landmarks import LandmarkTerm
from pliant.kernels.system import System
from pliant.namespace import beside, full
from pliant.shape import SIMILARITY

Prior = Literal["none", "ridge", "map"]
"""No prior; the paper's plain ridge (equations 12 and 20); or the Gaussian one of equations 14 and 24."""

PRIORS: tuple[Prior, ...] = ("none", "ridge", "map")


@dataclass(frozen=True)
class SSD:
    """Sum of squared differences over shape and appearance parameters (equations 11 to 14).

    Parameters
    ----------
    prior : {'none', 'ridge', 'map'}
        The prior on both sets of parameters: none, the plain ridge of the paper (equation 12), or the Gaussian
        prior of equation 14.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD("map"), pliant.Forward()))
    'ssd:map-for-gn-sch'

    """

    prior: Prior = "none"


@dataclass(frozen=True)
class ProjectOut:
    """Project-out with weight `rho`: 0 is that of Matthews and Baker, 0.5 the Bayesian one (equations 19 to 24).

    Parameters
    ----------
    rho : float
        From 0 to 1. It weighs the Mahalanobis distance within the appearance subspace, and 1 - rho weighs the
        distance to the subspace (equation 125).
    prior : {'none', 'ridge', 'map'}
        The prior on the shape: none, the plain ridge of the paper (equation 20), or the Gaussian prior of equation
        24.

    Raises
    ------
    ValueError
        If rho is not between 0 and 1.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.ProjectOut(rho=0), pliant.Inverse()))
    'po:0.0-inv-gn'

    """

    rho: float = 0.5
    prior: Prior = "none"

    def __post_init__(self) -> None:
        if not 0 <= self.rho <= 1:
            raise ValueError(
                f"rho = {self.rho!r}: the weight of the project-out cost must be between 0 and 1."
            )


Cost = SSD | ProjectOut


@dataclass(frozen=True)
class Weights:
    """The numbers of a cost at one level: `w0`, `w (m,)`, `P (n,)`, `Q (m,)`.

    `unit` is what a negative logarithm of a probability counts for in this cost: a cost that does not divide by
    the noise of the pixels is multiplied by it, and so is what experts add.
    """

    residual: float
    appearance: Float64
    shape_precision: Float64
    appearance_precision: Float64
    solves_appearance: bool
    unit: float

    def value(
        self,
        system: System,
        shape_parameters: Float64,
        appearance_parameters: Float64,
        landmarks: LandmarkTerm | None = None,
    ) -> Float64:
        """The cost `(B,)` at parameters `(B, n)` and `(B, m)`; not a number if the system has no r'r."""
        p, c = shape_parameters, appearance_parameters
        if system.residual_residual is None:
            return full((len(p),), np.nan, p)
        within = (beside(self.appearance, p) * system.needed("basis_residual") ** 2).sum(axis=-1)
        prior = (beside(self.shape_precision, p) * p**2).sum(axis=-1)
        prior = prior + (beside(self.appearance_precision, p) * c**2).sum(axis=-1)
        # eq. 10, 11, 18, 19, 25, 72, 75, 101
        cost = (self.residual * system.residual_residual - within + prior) / 2
        return cost if landmarks is None else cost + landmarks.value(p)


def weigh(cost: Cost, shape_variances: Float64, variances: Float64, noise: float) -> Weights:
    """The weights for a level with these eigenvalues of shape `(n - 4,)`, of appearance `(m,)`, and noise."""
    shape_precision = np.zeros(SIMILARITY + len(shape_variances))
    appearance_precision = np.zeros(len(variances))
    # A model that keeps all of the variance has no noise; the metric still needs a scale.
    noise = max(noise, 1e-6 * float(np.max(variances, initial=1e-6)))
    if cost.prior != "none":
        # The similarity has no prior: an object may be anywhere, at any size.
        # eq. 12, 14, 20, 24
        shape_precision[SIMILARITY:] = 1.0 if cost.prior == "ridge" else 1 / shape_variances
    if isinstance(cost, SSD):
        if cost.prior != "none":
            appearance_precision[:] = 1.0 if cost.prior == "ridge" else 1 / variances  # eq. 12, 14
        unit = 1.0 if cost.prior == "map" else noise
        residual = 1 / noise if cost.prior == "map" else 1.0  # eq. 11, 13, 14
        within = np.zeros(len(variances))
    else:
        # Equation 125, rho A D^-1 A' + (1 - rho)/noise (I - A A'), scaled so that a prior weighs as much
        # against the classic (0) and the Bayesian (0.5) cost as it does in the paper.
        unit = noise if cost.prior == "ridge" else 1.0
        scale = unit / max(cost.rho, 1 - cost.rho)
        residual = scale * (1 - cost.rho) / noise  # eq. 22, 23, 125
        within = residual - scale * cost.rho / (variances + noise)  # eq. 22, 23, 125
    return Weights(residual, within, shape_precision, appearance_precision, isinstance(cost, SSD), unit)
