"""The most plausible shape, given some points that a person has fixed.

What is known about the landmarks x is a Gaussian belief,

    x ~ N(m, F F' + D),

where m is a fit or the mean shape in its place, the columns of F are all that may still move the shape as a whole
(modes of shape, and the pose: place, size and angle) and D has a 2 x 2 block for each landmark, its own noise. With
the landmarks f put at y_f, the others are expected at

    E x_o = m_o + C_of (C_ff + e I)^-1 (y_f - m_f),           C = F F' + D,

and what is left of their covariance is C_oo - C_of (C_ff + e I)^-1 C_fo. Both are exact; e is a tiny noise that
only keeps the matrix from being singular. To first order, a turn enlarges: `followed` takes the answer for the
direction in which the object was turned, turns m, F and D, and asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats
from pliant.shape.pdm import SIMILARITY, ShapeModel, similarity_vectors
from pliant.shape.procrustes import Similarity, align, shape_size
from pliant.threads import one_blas_thread

_TINY = 1e-10
"""The noise of points that a person has fixed, as a share of the variance of what is free there."""


_FREEDOM, _ROUNDS = 4.0, 4
"""Degrees of freedom of the errors of points that a person moves, and rounds in which they are weighed."""

_TURNED = 0.1
"""Radians from which on a turn is carried out before the rest is solved: below it enlarges by half a percent."""


@dataclass(frozen=True, eq=False, repr=False)
class Belief(Concise):
    """What is known about the landmarks of one object: x ~ N(points, factor factor' + noise), in pixels.

    Attributes
    ----------
    points
        `(v, 2)`: where the landmarks are expected.
    factor
        `(2v, k)`: what moves several of them together, a column for each way, as long as its deviation.
    noise
        `(v, 2, 2)`: covariances of each landmark by itself, beside the factor.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> free = Belief(square, pose_factor(square, shift=1.0, growth=0.0, turn=0.0), np.zeros((4, 2, 2)))
    >>> given(free, [0], [[0.5, 0.0]]).points.round(3).tolist()
    [[0.5, 0.0], [1.5, 0.0], [1.5, 1.0], [0.5, 1.0]]

    """

    points: Float64
    factor: Float64
    noise: Float64

    @property
    def covariance(self) -> Float64:
        """Covariances `(v, 2, 2)` of the landmarks, each by itself."""
        rows = self.factor.reshape(len(self.points), 2, -1)
        return np.asarray(np.einsum("vak,vbk->vab", rows, rows) + self.noise)

    def moved(self, by: Similarity) -> Belief:
        """The same, where a similarity has moved the object."""
        turn = np.array([[by.factor.real, -by.factor.imag], [by.factor.imag, by.factor.real]])
        rows = self.factor.reshape(len(self.points), 2, -1)
        return Belief(
            by.apply(self.points),
            np.einsum("ab,vbk->vak", turn, rows).reshape(self.factor.shape),
            turn @ self.noise @ turn.T,
        )


def pose_factor(points: Floats, shift: float, growth: float, turn: float) -> Float64:
    """Columns `(2v, 4)` of a factor that let a shape `(v, 2)` grow, turn and shift as a whole.

    `shift` is a deviation in sizes of the object, `growth` one of the logarithm of its size, and `turn` of its
    angle in radians.
    """
    centred = np.asarray(points - np.mean(points, axis=0), dtype=np.float64)
    length = float(np.linalg.norm(centred))
    along = shift * float(shape_size(points)) * np.sqrt(len(centred))
    return np.asarray(similarity_vectors(points) * np.array([growth * length, turn * length, along, along]))


def prior_belief(
    shape: ShapeModel, noise: Floats, placed: Similarity, shift: float, growth: float, turn: float
) -> Belief:
    """What is known without an image: the mean shape where it is `placed`, free in shape and pose.

    `noise (v, 2, 2)` is that of landmarks about the model's shapes, in the frame of its mean; `shift`, `growth` and
    `turn` are as `pose_factor` has them.
    """
    modes = shape.basis[:, SIMILARITY:] * np.sqrt(shape.eigenvalues)
    pose = pose_factor(shape.mean, shift, growth, turn)
    factor = np.concatenate([pose, modes], axis=1)
    return Belief(np.asarray(shape.mean), factor, np.asarray(noise, dtype=np.float64)).moved(placed)


def given(belief: Belief, fixed: NDArray[np.integer] | list[int], places: Floats) -> Belief:
    """What is known once landmarks `fixed (f,)` are put at `places (f, 2)`.

    Fixed landmarks are where they were put, and have no covariance any more. With none fixed, nothing changes.
    """
    fixed = np.asarray(fixed, dtype=np.int64)
    places = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    if len(fixed) != len(places):
        raise ValueError(f"{len(fixed)} landmarks are fixed, but there are {len(places)} places for them.")
    if not len(fixed):
        return belief
    if len(set(fixed.tolist())) != len(fixed) or fixed.min() < 0 or fixed.max() >= len(belief.points):
        raise ValueError(
            f"fixed landmarks must be numbers from 0 to {len(belief.points) - 1}, without repeats."
        )
    rows = np.stack([2 * fixed, 2 * fixed + 1], axis=1).ravel()
    # C_:f, all rows of the covariance and the columns of what is fixed.
    columns = belief.factor @ belief.factor[rows].T
    for place, landmark in enumerate(fixed):
        own = slice(2 * landmark, 2 * landmark + 2)
        columns[own, 2 * place : 2 * place + 2] += belief.noise[landmark]
    square = columns[rows]
    lower = np.linalg.cholesky(square + _tiny(square))
    apart = (places - belief.points[fixed]).ravel()
    half = np.linalg.solve(lower, np.concatenate([columns.T, apart[:, None]], axis=1))
    away = half[:, :-1].T @ half[:, -1]
    points = belief.points + away.reshape(-1, 2)
    points[fixed] = places
    return Belief(points, *_left(belief, rows, fixed, lower))


def followed(belief: Belief, fixed: NDArray[np.integer] | list[int], places: Floats) -> Belief:
    """As `given`, for points that a person drags: these may be far off, alone or together.

    A point that is moved was wrong, and often it alone was: its own error has Student's distribution. So one that
    is far from where the others have it takes less of the shape along. And an object may be turned so far that it
    counts.
    """
    # The products are so small that sharing them out takes longer than they do.
    with one_blas_thread():
        return _followed(_forgiving(belief, fixed, places), fixed, places)


def _followed(belief: Belief, fixed: NDArray[np.integer] | list[int], places: Floats) -> Belief:
    told = given(belief, fixed, places)
    if len(fixed) < 2:
        return told
    by = align(belief.points, told.points)
    if abs(float(by.angle)) < _TURNED or not np.isfinite(by.factor):
        return told
    # Turned and moved, and not enlarged: deviations are those of the image, and enlarging is linear.
    unit = by.factor / abs(by.factor)
    centre = complex(*belief.points.mean(axis=0))
    there = by.factor * centre + by.offset
    return given(belief.moved(Similarity(unit, there - unit * centre)), fixed, places)


def _forgiving(belief: Belief, fixed: NDArray[np.integer] | list[int], places: Floats) -> Belief:
    """The belief with more noise at those fixed landmarks that the rest of it cannot explain."""
    fixed = np.asarray(fixed, dtype=np.int64)
    if not len(fixed):
        return belief
    places = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    rows = belief.factor.reshape(len(belief.points), 2, -1)[fixed]
    own = belief.noise[fixed] + _TINY * float(np.mean(belief.covariance)) * np.eye(2)
    noise, apart = own, places - belief.points[fixed]
    for _ in range(_ROUNDS):
        weighted = np.linalg.solve(noise, rows)
        flat = rows.reshape(-1, rows.shape[2])
        matrix = flat.T @ weighted.reshape(flat.shape) + np.eye(rows.shape[2])
        shared = np.linalg.solve(matrix, weighted.reshape(flat.shape).T @ apart.ravel())
        left = apart - rows @ shared
        distances = np.einsum("va,vab,vb->v", left, np.linalg.inv(own), left)
        noise = own * np.maximum(1.0, (_FREEDOM + distances) / (_FREEDOM + 2))[:, None, None]
    wider = belief.noise.copy()
    wider[fixed] = noise
    return Belief(belief.points, belief.factor, wider)


def _left(
    belief: Belief, rows: NDArray[np.integer], fixed: NDArray[np.integer], lower: Floats
) -> tuple[Float64, Float64]:
    """The factor and the noise of what is left open.

    Landmarks that are not fixed keep their own noise, and only what they share with the fixed ones shrinks: in the
    coordinates z of the factor, x = m + F z + e, the fixed points say F_f z + e_f = y_f - m_f, and so
    cov z = I - F_f' (F_f F_f' + D_f)^-1 F_f.
    """
    told = np.linalg.solve(lower, belief.factor[rows])
    values, vectors = np.linalg.eigh(np.eye(belief.factor.shape[1]) - told.T @ told)
    factor = belief.factor @ (vectors * np.sqrt(np.clip(values, 0.0, None)))
    factor[rows] = 0.0
    noise = belief.noise.copy()
    noise[fixed] = 0.0
    return np.asarray(factor), noise


def likelier(beliefs: Sequence[Belief], fixed: NDArray[np.integer] | list[int], places: Floats) -> Belief:
    """Of several beliefs, the one under which `places (f, 2)` of the landmarks `fixed (f,)` are the most likely.

    A fit is sure of itself also where it has lost the object: a person who drags a point far away says that it has,
    and a belief that knows less is then the better one.
    """
    fixed = np.asarray(fixed, dtype=np.int64)
    apart = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    best, most = beliefs[0], -np.inf
    for belief in beliefs:
        rows = np.stack([2 * fixed, 2 * fixed + 1], axis=1).ravel()
        square = belief.factor[rows] @ belief.factor[rows].T
        for place, landmark in enumerate(fixed):
            own = slice(2 * place, 2 * place + 2)
            square[own, own] += belief.noise[landmark]
        lower = np.linalg.cholesky(square + _tiny(square))
        away = np.linalg.solve(lower, (apart - belief.points[fixed]).ravel())
        density = -0.5 * float(away @ away) - float(np.sum(np.log(np.diag(lower))))
        if density > most:
            best, most = belief, density
    return best


def _tiny(square: Float64) -> Float64:
    return np.asarray(_TINY * max(float(np.trace(square)) / len(square), 1e-12) * np.eye(len(square)))
