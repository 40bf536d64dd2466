"""How the unknowns are solved: Gauss-Newton, Newton or Wiberg, from one quadratic model of the cost.

A cost and a composition turn a System into a quadratic in the increments dc of the appearance and u of
the shape: gradients gc and gu, and the Hessian's blocks. Hcc is diagonal, because A is orthonormal.

    | Hcc   Hcu | | dc |     | gc |
    | Hcu'  Huu | | u  | = - | gu |

For project-out there is no c: gc, Hcc and Hcu are empty, and the metric has eliminated it already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pliant.arrays import Float64
from pliant.fitting.composition import Composition, shares
from pliant.fitting.cost import Weights
from pliant.kernels.system import System

_SINGULAR = 1e-9
"""Eigenvalues below this share of the largest are taken for zero."""

_COMMON = 1e-3
"""The same for bidirectional composition, in units of what dp and dq change by themselves: dp = dq changes nothing
once image and model agree. What is left of these eigenvalues is noise, of either sign for Newton's method."""


@dataclass(frozen=True)
class Schur:
    """All unknowns at once; c is eliminated by the Schur complement (equations 47 to 58)."""


@dataclass(frozen=True)
class Alternated:
    """One set of unknowns at a time, on one linearisation, from zero (equations 61 to 69).

    `joint` solves dp and dq of bidirectional composition together (equation 65), not in turn (67).
    """

    sweeps: int = 1
    joint: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.sweeps, int) or self.sweeps < 1:
            raise ValueError(
                f"sweeps = {self.sweeps!r}: alternated optimisation needs a whole number of them, at least one."
            )


@dataclass(frozen=True)
class Dense:
    """All unknowns at once, as Gross et al. did it: the oracle that the Schur complement must equal."""


Strategy = Schur | Alternated | Dense


@dataclass(frozen=True)
class GaussNewton:
    """The residual is linearised (section 3.3.1)."""

    strategy: Strategy = Schur()


Variant = Literal["derived", "printed", "turned", "safe"]


@dataclass(frozen=True)
class Newton:
    """The cost is expanded to second order (section 3.3.2).

    `derived` is what differentiation gives; `printed` is what the paper's tables say (the model's curvature
    with a plus, no JA'r); `turned` has both signs turned, as if the residual had been subtracted the other way
    round, and no JA'r either; `safe` is Gauss-Newton with the derived curvature, bounded below by half of its own
    Hessian in every direction, so that no step is more than twice as long as that of Gauss-Newton.

    `share` is how much of the curvature is taken: 1 is all of it, and 0 is Gauss-Newton.
    """

    strategy: Strategy = Schur()
    variant: Variant = "derived"
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share = {self.share!r}: the share of the curvature lies between 0 and 1.")
        if self.variant == "safe" and self.share != 1:
            raise ValueError(
                f"share = {self.share!r}: newton-safe bounds the whole curvature by itself. "
                "Leave out the share, or take another variant."
            )


@dataclass(frozen=True)
class Wiberg:
    """The shape's increment with c eliminated, and c as it is best before that step (section 3.3.3).

    Bidirectional composition has two forms. `derived` eliminates dp as a function of dq, so that both are those of
    Gauss-Newton by the Schur complement. `printed` is what appendix B says: the same dq, but dp as it would be
    without it.
    """

    variant: Literal["derived", "printed"] = "derived"


Method = GaussNewton | Newton | Wiberg


@dataclass(frozen=True)
class Quadratic:
    """Gradient and Hessian for a batch: `gc (B, m)`, `gu (B, k)`, `Hcc (m,)`, `Hcu (B, m, k)`, `Huu (B, k, k)`.

    `blocks` is how many sets of shape unknowns there are: 2 for bidirectional composition.
    """

    gc: Float64
    gu: Float64
    Hcc: Float64
    Hcu: Float64
    Huu: Float64
    blocks: int


def quadratic(
    system: System,
    weights: Weights,
    composition: Composition,
    shape_parameters: Float64,
    appearance_parameters: Float64,
    update_jacobian: Float64 | None = None,
    curvature: Literal["none", "derived", "printed", "turned"] = "none",
    share: float = 1.0,
) -> Quadratic:
    """The quadratic model of a cost in the unknowns of a composition.

    `update_jacobian (B, n, n)` is the derivative of p o dp by dp, through which the prior on p is seen. `share` is
    that of the curvature, as in `Newton`; the gradient does not depend on it.
    """
    T = shares(composition)
    w0 = weights.residual
    # K = (Ji, -Ja) T is the derivative of the residual; what follows are its inner products.
    KK = _between(T, system.image_image, -system.image_model, system.model_model)
    Kr = _beside(_sum((s, system.image_residual), (-t, system.model_residual)) for s, t in T.T)
    AK = _beside(_sum((s, system.basis_image), (-t, system.basis_model)) for s, t in T.T)
    Ar = system.basis_residual
    gu, Huu = w0 * Kr, w0 * KK
    if curvature != "none":
        Huu = Huu + share * _curvature(system, T, curvature)
    if np.any(weights.shape_precision):
        n = system.image_image.shape[-1]
        identity = np.broadcast_to(np.eye(n), system.image_image.shape)
        moved = identity if update_jacobian is None else update_jacobian
        N = _beside((s - t) * moved for s, t in T.T)
        weighted = np.swapaxes(N, -1, -2) * weights.shape_precision
        gu = gu + (weighted @ shape_parameters[:, :, None])[:, :, 0]
        Huu = Huu + weighted @ N
    blocks = T.shape[1]
    if not weights.solves_appearance:
        weighted = np.swapaxes(AK, -1, -2) * weights.appearance
        gu = gu - (weighted @ Ar[:, :, None])[:, :, 0]
        Huu = Huu - weighted @ AK
        batch, k = gu.shape
        return Quadratic(np.zeros((batch, 0)), gu, np.zeros(0), np.zeros((batch, 0, k)), Huu, blocks)
    Hcu = -w0 * AK
    if curvature == "derived" and system.basis_curvature is not None:
        # The small warp of the model moves its basis too.
        Hcu = Hcu - share * w0 * _beside(t * system.basis_curvature for _, t in T.T)
    gc = -w0 * Ar + weights.appearance_precision * appearance_parameters
    return Quadratic(gc, gu, w0 + weights.appearance_precision, Hcu, Huu, blocks)


def _curvature(system: System, T: Float64, sign: str) -> Float64:
    """The second derivative of the residual along the (weighted) residual itself, in the unknowns."""
    image, model = system.image_curvature, system.model_curvature
    if image is None or model is None:
        raise ValueError("this kernel was not asked for the curvature that Newton's method needs.")
    if sign == "derived":
        return _between(T, image, None, -model)
    if sign == "turned":
        return _between(T, -image, None, model)
    # As printed: ∇²t = alpha ∇²i + beta ∇²a, without squares and with a plus (appendix B).
    return _between(np.sqrt(np.abs(T)), image, None, model)


def _between(T: Float64, first: Float64, corner: Float64 | None, last: Float64) -> Float64:
    """T'XT `(B, k n, k n)` for symmetric matrices X of blocks `(B, n, n)` and the shares T `(2, k)`."""
    off = [] if corner is None else [corner, np.swapaxes(corner, -1, -2)]

    def block(s: float, t: float, s2: float, t2: float) -> Float64:
        return _sum((s * s2, first), (t * t2, last), *zip((s * t2, t * s2), off, strict=False))

    rows = [[block(*one, *other) for other in T.T] for one in T.T]
    return rows[0][0] if len(rows) == 1 else np.block(rows)


def _sum(*terms: tuple[float, Float64]) -> Float64:
    """A weighted sum; what weighs nothing is not touched."""
    total: Float64 | None = None
    for weight, values in terms:
        if weight:
            term = values if weight == 1 else weight * values
            total = term if total is None else total + term
    return np.zeros_like(terms[0][1]) if total is None else total


def _beside(blocks: Iterable[Float64]) -> Float64:
    """Blocks of columns, one for each set of unknowns."""
    every = list(blocks)
    return every[0] if len(every) == 1 else np.concatenate(every, axis=-1)


def solve(method: Method, model: Quadratic, gauss_newton: Quadratic | None = None) -> tuple[Float64, Float64]:
    """Increments dc `(B, m)` and u `(B, k)`; a singular system gets its least-norm solution.

    `gauss_newton` is the model without curvature, which `newton-safe` leans on.
    """
    if isinstance(method, Wiberg):
        # Neither form lets dc follow the step: the next iteration has it right.
        return -model.gc / model.Hcc, _printed(model) if method.variant == "printed" else _schur(model)[1]
    if isinstance(method, Newton) and method.variant == "safe":
        if gauss_newton is None:
            raise ValueError("newton-safe needs the Gauss-Newton model of the same system.")
        model = _made_safe(model, gauss_newton)
    match method.strategy:
        case Schur():
            return _schur(model)
        case Dense():
            return _dense(model)
        case Alternated(sweeps, joint):
            return _alternated(model, sweeps, joint)


def _schur(model: Quadratic) -> tuple[Float64, Float64]:
    """Equations 48, 49 and 52: c eliminated, u solved, c found from it."""
    reduced, right = _without_appearance(model)
    solver: Callable[[Float64, Float64], Float64] = least_norm_of_two if model.blocks == 2 else least_norm
    u = -solver(reduced, right)
    return _given(model, u), u


def _without_appearance(model: Quadratic) -> tuple[Float64, Float64]:
    """The Hessian `(B, k, k)` and gradient `(B, k)` of u once dc is the best for it."""
    scaled = np.swapaxes(model.Hcu, -1, -2) / model.Hcc
    return model.Huu - scaled @ model.Hcu, model.gu - (scaled @ model.gc[:, :, None])[:, :, 0]


def _printed(model: Quadratic) -> Float64:
    """Wiberg for bidirectional composition as appendix B has it: dp as if dq were zero, dq as if dp followed it."""
    reduced, right = _without_appearance(model)
    n = right.shape[-1] // 2
    values, vectors = _eigh(reduced[:, :n, :n])
    inverse = (vectors * _reciprocals(values, _SINGULAR)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    dp = -(inverse @ right[:, :n, None])[:, :, 0]
    corner = reduced[:, n:, :n]
    complement = reduced[:, n:, n:] - corner @ inverse @ np.swapaxes(corner, -1, -2)
    dq = -least_norm(complement, right[:, n:] + (corner @ dp[:, :, None])[:, :, 0])
    return np.concatenate([dp, dq], axis=-1)


def _given(model: Quadratic, u: Float64) -> Float64:
    """The best dc for a given u."""
    return np.asarray(-(model.gc + (model.Hcu @ u[:, :, None])[:, :, 0]) / model.Hcc)


def _dense(model: Quadratic) -> tuple[Float64, Float64]:
    m = len(model.Hcc)
    diagonal = np.broadcast_to(np.diag(model.Hcc), (len(model.gu), m, m))
    hessian = _two_by_two(diagonal, model.Hcu, model.Huu)
    step = -least_norm(hessian, np.concatenate([model.gc, model.gu], axis=-1))
    return step[:, :m], step[:, m:]


def _alternated(model: Quadratic, sweeps: int, joint: bool) -> tuple[Float64, Float64]:
    """Block by block: c, then dp, then dq (equation 67); without c, dq comes first (equation 69)."""
    k = model.gu.shape[-1]
    size = k if joint or model.blocks == 1 else k // model.blocks
    parts = [slice(start, start + size) for start in range(0, k, size)]
    if not len(model.Hcc):
        parts.reverse()
    u = np.zeros_like(model.gu)
    dc = np.zeros_like(model.gc)
    solver: Callable[[Float64, Float64], Float64] = (
        least_norm_of_two if size > k // model.blocks else least_norm
    )
    for _ in range(sweeps):
        dc = _given(model, u)
        for part in parts:
            others = np.einsum("bkl,bl->bk", model.Huu[:, part], u)
            others -= np.einsum("bkl,bl->bk", model.Huu[:, part, part], u[:, part])
            right = model.gu[:, part] + others + np.einsum("bmk,bm->bk", model.Hcu[:, :, part], dc)
            u[:, part] = -solver(model.Huu[:, part, part], right)
    return dc, u


def _made_safe(model: Quadratic, gauss_newton: Quadratic) -> Quadratic:
    """Gauss-Newton's model with Newton's curvature of the shape, at least half of its own in every direction.

    The coupling of appearance and shape is left as Gauss-Newton has it: with JA'r in it, the gradient that
    is left when c is eliminated would be another one, and the length of the step without a bound.
    """
    coupling = np.swapaxes(gauss_newton.Hcu, -1, -2) @ (gauss_newton.Hcu / gauss_newton.Hcc[:, None])
    values, vectors = _eigh(gauss_newton.Huu - coupling)
    floor = _SINGULAR * np.max(values, axis=-1, keepdims=True)
    root = np.sqrt(np.maximum(values, floor + 1e-300))
    whiten = vectors / root[:, None, :]
    relative = np.swapaxes(whiten, -1, -2) @ (model.Huu - coupling) @ whiten
    ratios, directions = _eigh(relative)
    lift = (directions * np.maximum(0.5 - ratios, 0)[:, None, :]) @ np.swapaxes(directions, -1, -2)
    back = vectors * root[:, None, :]
    return replace(gauss_newton, Huu=model.Huu + back @ lift @ np.swapaxes(back, -1, -2))


def least_norm(matrix: Float64, right: Float64, singular: float = _SINGULAR) -> Float64:
    """Solutions `(B, k)` of symmetric systems `(B, k, k)` by the pseudo-inverse: never an exception.

    An item that is not finite, or that defeats the decomposition, has a solution that is not a number.
    """
    values, vectors = _eigh(matrix)
    along = (right[:, None, :] @ vectors)[:, 0] * _reciprocals(values, singular)
    return np.asarray((vectors @ along[:, :, None])[:, :, 0])


def _reciprocals(values: Float64, singular: float) -> Float64:
    """One over each eigenvalue `(B, k)`, and zero for those below a share of the largest."""
    cut = singular * np.max(np.abs(values), axis=-1, keepdims=True)
    return np.divide(1.0, values, out=np.zeros_like(values), where=~(np.abs(values) <= cut))


def least_norm_of_two(matrix: Float64, right: Float64) -> Float64:
    """Solutions `(B, 2 n)` for dp and dq together, without the directions in which they cancel each other.

    Those are told by how little of what dp and dq do one by one is left when both are done. The modes of a shape
    may differ a thousandfold in what they change, so that the matrix alone cannot tell: it is compared with the
    sum of its two diagonal blocks, which knows the modes and not how they cancel. With Gauss-Newton, any other
    basis of the shape model has the same solution.
    """
    n = matrix.shape[-1] // 2
    values, vectors = _eigh(matrix[:, :n, :n] + matrix[:, n:, n:])
    # Newton's method may have either sign here as well: it is the size that makes the units.
    sizes = np.abs(values)
    cut = _SINGULAR * np.max(sizes, axis=-1, keepdims=True)
    units = np.divide(1.0, np.sqrt(sizes), out=np.zeros_like(sizes), where=~(sizes <= cut))
    one = vectors * units[:, None, :]
    empty = np.zeros_like(one)
    both = np.block([[one, empty], [empty, one]])
    turned = np.swapaxes(both, -1, -2)
    along = least_norm(turned @ matrix @ both, (turned @ right[:, :, None])[:, :, 0], _COMMON)
    return np.asarray((both @ along[:, :, None])[:, :, 0])


def _eigh(matrix: Float64) -> tuple[Float64, Float64]:
    """Eigenvalues `(B, k)` and eigenvectors `(B, k, k)`, each item by itself if one of them cannot be had."""
    finite = np.asarray(np.isfinite(matrix).all(axis=(-2, -1)))
    safe = np.where(
        finite[:, None, None], (matrix + np.swapaxes(matrix, -1, -2)) / 2, np.eye(matrix.shape[-1])
    )
    try:
        values, vectors = np.linalg.eigh(safe)
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return np.full(matrix.shape[:-1], np.nan), safe
        parts = [_eigh(matrix[k : k + 1]) for k in range(len(matrix))]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    return np.where(finite[:, None], values, np.nan), vectors


def _two_by_two(first: Float64, corner: Float64, last: Float64) -> Float64:
    """Symmetric block matrices `(B, j + k, j + k)`."""
    return np.block([[first, corner], [np.swapaxes(corner, -1, -2), last]])
