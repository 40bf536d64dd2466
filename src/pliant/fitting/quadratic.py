"""The quadratic model of a cost in the unknowns of a composition, and which inner products it is made of.

A cost and a composition turn a System into a quadratic in the increments dc of the appearance and u of
the shape: gradients gc and gu, and the Hessian's blocks. Hcc is diagonal, because A is orthonormal.

    | Hcc   Hcu | | dc |     | gc |
    | Hcu'  Huu | | u  | = - | gu |

For project-out there is no c: gc, Hcc and Hcu are empty, and the metric has eliminated it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float64
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.composition import Composition, shares
from pliant.fitting.cost import Weights
from pliant.fitting.landmarks import LandmarkTerm
from pliant.fitting.method import Newton
from pliant.kernels.system import Needs, System
from pliant.namespace import beside, blocks_of, identity, namespace

_SQUARES = {(0, 0): "image_image", (1, 1): "model_model", (0, 1): "image_model", (1, 0): "model_image"}
"""Fields of a System by the sides that their rows and columns belong to: 0 is the image, and 1 the model."""

_BENDS = {(0, 0): "image_curvature", (1, 1): "model_curvature"}
"""The same for second derivatives: image and model bend by themselves."""

_SIGNS = np.array([[1.0], [-1.0]])
"""Those of image and model in the residual i - a."""


def needs_of(algorithm: Algorithm, weights: Weights) -> Needs:
    """Which inner products an algorithm looks at: slopes of what its composition warps, and Newton's curvature."""
    method, T = algorithm.method, shares(algorithm.composition)
    image, model = (bool(row.any()) for row in T)
    curved = isinstance(method, Newton) and method.share != 0
    derived = isinstance(method, Newton) and method.variant == "derived"
    return Needs(
        image=image,
        model=model,
        appearance=weights.solves_appearance,
        curvature=(weights.residual, weights.appearance) if curved else None,
        moving_basis=curved and derived and weights.solves_appearance and model,
    )


@dataclass(frozen=True)
class Quadratic:
    """Gradient and Hessian for a batch: `gc (B, m)`, `gu (B, k)`, `Hcc (m,)`, `Hcu (B, m, k)`, `Huu (B, k, k)`.

    `blocks` is how many sets of shape unknowns there are: 2 for bidirectional composition. Without curvature, Huu
    is positive, or zero in some directions: `positive` says that nothing else was added.
    """

    gc: Float64
    gu: Float64
    Hcc: Float64
    Hcu: Float64
    Huu: Float64
    blocks: int
    positive: bool


def quadratic(
    system: System,
    weights: Weights,
    composition: Composition,
    shape_parameters: Float64,
    appearance_parameters: Float64,
    update_jacobian: Float64 | None = None,
    newton: Newton | None = None,
    landmarks: LandmarkTerm | None = None,
) -> Quadratic:
    """The quadratic model at shape and appearance parameters `(B, n)` and `(B, m)`.

    By itself it is that of the linearised residual, for Gauss-Newton and Wiberg (equations 45 to 47, and 51 for
    bidirectional composition). Newton's method has the same gradient (73 and 76), and curvature in the Hessian (74
    and 77, with the terms of 126 to 134; project-out has 88, 91 and 99). `update_jacobian (B, n, n)` is the
    derivative of p o dp by dp, through which the prior on p and the term of the landmarks are seen.
    """
    T, w0 = shares(composition), weights.residual
    # K = (Ji, Ja) V is the derivative of the residual; what follows are its inner products.
    V = _SIGNS * T  # eq. 39, 44, 110
    projected = system.projected_residual is not None and not T[0].any()
    if projected:
        # The kernel has applied the metric by itself: nothing is left to take from these.
        gu = V[1, 0] * system.needed("projected_residual")
        Huu = V[1, 0] ** 2 * system.needed("projected_model")
    else:
        gu = w0 * _along(system, V, "image_residual", "model_residual")  # eq. 47, 51, 73, 76
        Huu = w0 * _between(system, V, V, _SQUARES)  # eq. 47, 51, 133
    if newton is not None:
        Huu = Huu + newton.share * _curvature(system, T, newton)  # eq. 70, 88, 91, 99
    if np.any(weights.shape_precision) or landmarks is not None:
        n = shape_parameters.shape[1]
        moved = identity(n, shape_parameters).reshape(1, n, n) if update_jacobian is None else update_jacobian
        N = _beside((s - t) * moved for s, t in T.T)
        turned = N.mT
        if np.any(weights.shape_precision):
            weighted = turned * beside(weights.shape_precision, N)
            gu = gu + (weighted @ shape_parameters[:, :, None])[:, :, 0]
            Huu = Huu + weighted @ N
        if landmarks is not None:
            gu = gu + (turned @ landmarks.gradient(shape_parameters)[:, :, None])[:, :, 0]
            Huu = Huu + turned @ landmarks.hessian @ N
    if weights.solves_appearance:
        Hcu = -w0 * _along(system, V, "basis_image", "basis_model")  # eq. 47, 51, 130
        if newton is not None and newton.variant == "derived" and T[1].any():
            # The small warp of the model moves its basis too (equations 127 and 131).
            JAr = system.needed("basis_curvature")
            Hcu = Hcu - newton.share * w0 * _beside(t * JAr for t in T[1])  # eq. 127, 131
        # eq. 47, 51, 73, 76
        precision = beside(weights.appearance_precision, gu)
        gc = -w0 * system.needed("basis_residual") + precision * appearance_parameters
        # eq. 74, 77, 126, 129
        return Quadratic(gc, gu, w0 + precision, Hcu, Huu, T.shape[1], newton is None)
    if not projected:
        AK = _along(system, V, "basis_image", "basis_model")
        weighted = AK.mT * beside(weights.appearance, AK)
        gu = gu - (weighted @ system.needed("basis_residual")[:, :, None])[:, :, 0]  # eq. 59, 60
        Huu = Huu - weighted @ AK  # eq. 59, 60
    return Quadratic(gu[:, :0], gu, gu.reshape(-1)[:0], Huu[:, :0], Huu, T.shape[1], newton is None)


def _curvature(system: System, T: Float64, newton: Newton) -> Float64:
    """The second derivative of the residual along the (weighted) residual itself, in the unknowns.

    W'(alpha² ∇²i - beta² ∇²a)W is what equation 128 ought to have; W'∇²i W and -W'∇²a W are those of 132 and 134.
    """
    if newton.variant == "printed":
        # As printed: ∇²t = alpha ∇²i + beta ∇²a, without squares and with a plus (equation 88 and appendix B).
        root = np.sqrt(np.abs(T))
        return _between(system, root, root, _BENDS)
    # eq. 128, 132, 134
    return _between(system, T, -_SIGNS * T if newton.variant == "turned" else _SIGNS * T, _BENDS)


def _along(system: System, V: Float64, image: str, model: str) -> Float64:
    """X V `(B, ..., k n)` for two fields X of a System, one for each side, and shares V `(2, k)`."""
    return _beside(_sum(system, [(s, image), (t, model)]) for s, t in V.T)


def _between(system: System, L: Float64, R: Float64, X: Mapping[tuple[int, int], str]) -> Float64:
    """L'X R `(B, k n, k n)` for fields X of a System, by side of rows and columns, and shares L and R `(2, k)`."""
    rows = [
        [_sum(system, [(one[i] * other[j], name) for (i, j), name in X.items()]) for other in R.T]
        for one in L.T
    ]
    return rows[0][0] if len(rows) == 1 else blocks_of(rows)


def _sum(system: System, terms: Sequence[tuple[float, str]]) -> Float64:
    """A weighted sum of fields of a System. What weighs nothing is not touched, and need not be there."""
    total: Float64 | None = None
    for weight, name in terms:
        if weight:
            values = system.needed(name)
            term = values if weight == 1 else weight * values
            total = term if total is None else total + term
    return 0 * system.needed(terms[0][1]) if total is None else total


def _beside(blocks: Iterable[Float64]) -> Float64:
    """Blocks of columns, one for each set of unknowns."""
    every = list(blocks)
    return every[0] if len(every) == 1 else namespace(every[0]).concatenate(every, axis=-1)
