"""Solutions of the quadratic model of a cost: by the Schur complement, in turn, after Wiberg, or dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pliant.arrays import Float64
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.cost import Weights
from pliant.fitting.landmarks import LandmarkTerm
from pliant.fitting.method import Alternated, CascadedRegression, Dense, Method, Newton, Schur, Wiberg
from pliant.fitting.quadratic import Quadratic, quadratic
from pliant.kernels.system import System
from pliant.namespace import blocks_of, eigh, full, identity, is_tensor, namespace, positive_solution

_SINGULAR = 1e-9
"""Eigenvalues below this share of the largest are taken for zero."""

_DAMPING = 1e-5
"""What is added to matrices that are nearly singular, as a share of their trace, where they are factored."""

_COMMON = 1e-3
"""The same for bidirectional composition, in units of what dp and dq change by themselves: dp = dq changes nothing
once image and model agree. What is left of these eigenvalues is noise, of either sign for Newton's method."""


def increments(
    algorithm: Algorithm,
    weights: Weights,
    system: System,
    shape_parameters: Float64,
    appearance_parameters: Float64,
    update_jacobian: Float64 | None = None,
    landmarks: LandmarkTerm | None = None,
) -> tuple[Float64, Float64]:
    """The increments dc `(B, m)` and u `(B, k)` of an algorithm, from a System; the rest is as for `quadratic`."""
    method = algorithm.method
    at = weights, algorithm.composition, shape_parameters, appearance_parameters, update_jacobian
    if not isinstance(method, Newton) or method.share == 0:
        return solve(method, quadratic(system, *at, landmarks=landmarks))
    linearised = quadratic(system, *at, landmarks=landmarks) if method.variant == "safe" else None
    return solve(method, quadratic(system, *at, method, landmarks), linearised)  # eq. 71


def solve(method: Method, model: Quadratic, gauss_newton: Quadratic | None = None) -> tuple[Float64, Float64]:
    """Increments dc `(B, m)` and u `(B, k)`; a singular system gets its least-norm solution.

    `gauss_newton` is the model without curvature, which `newton-safe` leans on.
    """
    if isinstance(method, Wiberg):
        # Neither form lets dc follow the step: the next iteration has it right.
        # eq. 112, 116, 118
        return -model.gc / model.Hcc, _printed(model) if method.variant == "printed" else _schur(model)[1]
    if isinstance(method, CascadedRegression):
        return _schur(model)
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
    """Equations 48, 49, 52 and 53, and Newton's 80 and 82: c eliminated, u solved, c found from it."""
    reduced, right = _without_appearance(model)
    if model.blocks == 2:
        u = -least_norm_of_two(reduced, right)  # eq. 52, 60, 82, 89
    else:
        u = -least_norm(reduced, right, positive=model.positive)  # eq. 48, 59, 80, 88, 116
    return _given(model, u), u


def _without_appearance(model: Quadratic) -> tuple[Float64, Float64]:
    """The Hessian `(B, k, k)` and gradient `(B, k)` of u once dc is the best for it (equations 84 and 85)."""
    scaled = model.Hcu.mT / model.Hcc
    # eq. 48, 52, 84, 85, 115
    return model.Huu - scaled @ model.Hcu, model.gu - (scaled @ model.gc[:, :, None])[:, :, 0]


def _printed(model: Quadratic) -> Float64:
    """Bidirectional Wiberg as printed (equation 124): dp as if dq were zero, dq as if dp followed it."""
    reduced, right = _without_appearance(model)
    n = right.shape[-1] // 2
    values, vectors = _eigh(reduced[:, :n, :n])
    inverse = (vectors * _reciprocals(values, _SINGULAR)[:, None, :]) @ vectors.mT
    dp = -(inverse @ right[:, :n, None])[:, :, 0]  # eq. 119, 124
    corner = reduced[:, n:, :n]
    complement = reduced[:, n:, n:] - corner @ inverse @ corner.mT  # eq. 56, 122
    dq = -least_norm(complement, right[:, n:] + (corner @ dp[:, :, None])[:, :, 0])  # eq. 55, 123, 124
    return namespace(dp).concatenate([dp, dq], axis=-1)


def _given(model: Quadratic, u: Float64) -> Float64:
    """The best dc for a given u."""
    # eq. 49, 53, 57, 80, 82, 83
    return -(model.gc + (model.Hcu @ u[:, :, None])[:, :, 0]) / model.Hcc


def _dense(model: Quadratic) -> tuple[Float64, Float64]:
    """Equations 46 and 79."""
    m, xp = len(model.Hcc), namespace(model.gu)
    diagonal = xp.broadcast_to(xp.diag(model.Hcc), (len(model.gu), m, m))
    hessian = blocks_of([[diagonal, model.Hcu], [model.Hcu.mT, model.Huu]])
    step = -least_norm(hessian, xp.concatenate([model.gc, model.gu], axis=-1))  # eq. 46, 79
    return step[:, :m], step[:, m:]


def _alternated(model: Quadratic, sweeps: int, joint: bool) -> tuple[Float64, Float64]:
    """Block by block: c, then dp, then dq (equations 67 and 96); without c, dq comes first (69 and 98)."""
    k = model.gu.shape[-1]
    size = k if joint else k // model.blocks
    parts = [slice(start, start + size) for start in range(0, k, size)]
    if not len(model.Hcc):
        parts.reverse()
    xp = namespace(model.gu)
    u, dc = xp.zeros_like(model.gu), xp.zeros_like(model.gc)
    solver: Callable[[Float64, Float64], Float64] = (
        least_norm_of_two if size > k // model.blocks else least_norm
    )
    for _ in range(sweeps):
        dc = _given(model, u)  # eq. 62, 65, 67, 92, 94, 96
        for part in parts:
            others = xp.einsum("bkl,bl->bk", model.Huu[:, part], u)
            others -= xp.einsum("bkl,bl->bk", model.Huu[:, part, part], u[:, part])
            # eq. 61, 64
            right = model.gu[:, part] + others + xp.einsum("bmk,bm->bk", model.Hcu[:, :, part], dc)
            u[:, part] = -solver(model.Huu[:, part, part], right)  # eq. 62, 65, 67, 69, 92, 94, 96, 98
    return dc, u


def _made_safe(model: Quadratic, gauss_newton: Quadratic) -> Quadratic:
    """Gauss-Newton's model with Newton's curvature of the shape, at least half of its own in every direction.

    The coupling of appearance and shape is left as Gauss-Newton has it: with JA'r in it, the gradient that
    is left when c is eliminated would be another one, and the length of the step without a bound.
    """
    xp = namespace(model.gu)
    coupling = gauss_newton.Hcu.mT @ (gauss_newton.Hcu / gauss_newton.Hcc[:, None])
    values, vectors = _eigh(gauss_newton.Huu - coupling)
    floor = _SINGULAR * xp.clip(xp.amax(values, axis=-1, keepdims=True), 0, None)
    root = xp.sqrt(xp.maximum(values, floor + 1e-300))
    whiten = vectors / root[:, None, :]
    relative = whiten.mT @ (model.Huu - coupling) @ whiten
    ratios, directions = _eigh(relative)
    lift = (directions * xp.clip(0.5 - ratios, 0, None)[:, None, :]) @ directions.mT
    back = vectors * root[:, None, :]
    return replace(gauss_newton, Huu=model.Huu + back @ lift @ back.mT)


def least_norm(
    matrix: Float64, right: Float64, singular: float = _SINGULAR, *, positive: bool = False
) -> Float64:
    """Solutions `(B, k)` of symmetric systems `(B, k, k)` by the pseudo-inverse: never an exception.

    An item that is not finite, or that defeats the decomposition, has a solution that is not a number. Matrices
    known to be `positive` are factored on devices, which takes them a tenth of the time.
    """
    if positive and is_tensor(matrix):
        return positive_solution(matrix, right, singular, _DAMPING)
    values, vectors = _eigh(matrix)
    along = (right[:, None, :] @ vectors)[:, 0] * _reciprocals(values, singular)
    return (vectors @ along[:, :, None])[:, :, 0]


def _reciprocals(values: Float64, singular: float) -> Float64:
    """One over each eigenvalue `(B, k)`, and zero for those below a share of the largest."""
    xp = namespace(values)
    sizes = xp.abs(values)
    small = sizes <= singular * xp.amax(sizes, axis=-1, keepdims=True)
    return xp.where(small, 0.0, 1.0 / xp.where(small, 1.0, values))


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
    xp = namespace(matrix)
    units = xp.sqrt(_reciprocals(xp.abs(values), _SINGULAR))
    one = vectors * units[:, None, :]
    empty = xp.zeros_like(one)
    both = blocks_of([[one, empty], [empty, one]])
    along = least_norm(both.mT @ matrix @ both, (both.mT @ right[:, :, None])[:, :, 0], _COMMON)
    return (both @ along[:, :, None])[:, :, 0]


def _eigh(matrix: Float64) -> tuple[Float64, Float64]:
    """Eigenvalues `(B, k)` and eigenvectors `(B, k, k)`, each item by itself if one of them cannot be had."""
    xp = namespace(matrix)
    finite = xp.isfinite(matrix).all(axis=-1).all(axis=-1)
    safe = xp.where(finite[:, None, None], (matrix + matrix.mT) / 2, identity(matrix.shape[-1], matrix))
    try:
        values, vectors = eigh(safe)
    except (np.linalg.LinAlgError, xp.linalg.LinAlgError):
        if len(matrix) == 1:
            return full(matrix.shape[:-1], np.nan, matrix), safe
        parts = [_eigh(matrix[k : k + 1]) for k in range(len(matrix))]
        return xp.concatenate([part[0] for part in parts]), xp.concatenate([part[1] for part in parts])
    return xp.where(finite[:, None], values, np.nan), vectors
