"""Landmarks that are missing, filled in from the others by a shape model that is learnt along the way.

Shapes are brought to a common frame by similarities and are there x ~ N(mean, W W' + sigma2 I): probabilistic
principal components. Expectation-maximisation: given the model, missing coordinates are what the known ones
let expect, with the uncertainty that remains; given all coordinates, the model is made of their covariance
(Tipping and Bishop, 1999). Frames are found anew in each round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats
from pliant.crew import Jobs, crew_of
from pliant.shape.procrustes import Similarity, align, in_one_place, shape_size
from pliant.threads import one_blas_thread

_AT_ONCE = 16_384
"""Shapes that are filled in together."""

_HELD_OUT = 0.1
"""The share of the known landmarks of incomplete shapes that is hidden to choose the number of modes by."""

_TRIAL_ROUNDS, _ROUNDS = 20, 100
_MOST_MODES = 40
_GAIN, _ENOUGH = 0.98, 1e-4
"""More modes must bring the error down to this share of itself; an error of this share of the object is none."""

_TOLERANCE = 1e-6
"""A change of the filled-in landmarks below this, in shapes of size 1, ends the search."""

_FLOOR = 1e-12
"""The least noise, as a share of all variance: without any, nothing could be inverted."""

Mask = NDArray[np.bool_]


def complete(incomplete: Floats, jobs: Jobs = 1) -> Float64:
    """`incomplete (k, v, 2)` with missing landmarks (nan) filled in; those that are known stay as they are.

    How many modes the shape model has is chosen by how well it finds known landmarks that are hidden from it. Many
    thousands of shapes are filled in by parts, each with a model of its own: every so many of them is in a part.
    """
    shapes: Float64 = np.array(incomplete, dtype=np.float64)
    known = ~np.any(np.isnan(shapes), axis=-1)
    if np.all(known):
        return shapes
    never = np.flatnonzero(~np.any(known, axis=0))
    if len(never):
        raise ValueError(f"landmark {never[0]} is missing in every sample, so it cannot be filled in.")
    few = np.flatnonzero(np.sum(known, axis=1) < 3)
    if len(few):
        raise ValueError(f"shape {few[0]} has fewer than three known landmarks, so it cannot be filled in.")
    for number, (shape, mask) in enumerate(zip(shapes, known, strict=True)):
        if in_one_place(shape[mask]):
            raise ValueError(
                f"shape {number} has all its known landmarks in one place, so it cannot be filled in."
            )
    count = -(-len(shapes) // _AT_ONCE)
    parts = [shapes[number::count] for number in range(count)]
    if count == 1 or not all(np.all(np.any(known[number::count], axis=0)) for number in range(count)):
        return _completed(shapes)
    for number, filled in crew_of(jobs).each(_completed_parts, parts):
        shapes[number::count] = filled
    return shapes


def _completed_parts(parts: Sequence[Float64], *, threads: int) -> Iterator[Float64]:
    yield from map(_completed, parts)


def _completed(shapes: Float64) -> Float64:
    known = ~np.any(np.isnan(shapes), axis=-1)
    if np.all(known):
        return shapes
    # The products are so small that sharing them out takes longer than they do.
    with one_blas_thread():
        modes = _choose_modes(shapes, known)
        filled = _improved(_begin(shapes, known), shapes, known, modes, _ROUNDS)
    return np.where(known[:, :, None], shapes, filled.in_images())


@dataclass(frozen=True)
class _Filled:
    """Shapes `(k, v, 2)` in a common frame, similarities from there to the images, and what is not sure yet.

    `covariance (2v, 2v)` is the mean over all shapes of the covariance of their filled-in coordinates.
    """

    shapes: Float64
    frames: Similarity
    covariance: Float64

    def in_images(self) -> Float64:
        return self.frames.apply(self.shapes)


def _choose_modes(shapes: Float64, known: Mask) -> int:
    """More and more modes, until two counts in a row do not find hidden landmarks better."""
    hidden = _hidden(known)
    most = min(len(shapes) - 2, 2 * known.shape[1] - 5, _MOST_MODES)
    if not np.any(hidden) or most < 2:
        return 1
    left = known & ~hidden
    sizes = np.array([shape_size(shape[mask]) for shape, mask in zip(shapes, known, strict=True)])
    filled = _begin(shapes, left)
    best, best_error, worse, modes = 1, np.inf, 0, 1
    while modes <= most and worse < 2 and best_error > _ENOUGH:
        filled = _improved(filled, shapes, left, modes, _TRIAL_ROUNDS)
        distances = np.linalg.norm(filled.in_images() - shapes, axis=-1) / sizes[:, None]
        error = float(np.sqrt(np.mean(distances[hidden] ** 2)))
        better = error < _GAIN * best_error
        best, best_error, worse = (modes, error, 0) if better else (best, best_error, worse + 1)
        modes += max(1, modes // 4)
    return best


def _hidden(known: Mask) -> Mask:
    """Known landmarks to hide, at random but the same every time; each shape keeps three, each landmark two."""
    rng = np.random.default_rng(0)
    hidden = np.zeros_like(known)
    left = known.copy()
    for shape, landmark in rng.permutation(np.argwhere(known)):
        if np.sum(hidden) >= max(1, _HELD_OUT * np.sum(known)) or np.sum(hidden) >= 2000:
            break
        if np.sum(left[shape]) > 3 and np.sum(left[:, landmark]) > 2:
            hidden[shape, landmark], left[shape, landmark] = True, False
    return hidden


def _begin(shapes: Float64, known: Mask) -> _Filled:
    """Missing landmarks where the mean shape has them."""
    mean, frames = _masked_mean(shapes, known)
    return _Filled(
        np.where(known[:, :, None], frames.inverse().apply(np.nan_to_num(shapes)), mean),
        frames,
        np.zeros((mean.size, mean.size)),
    )


def _improved(filled: _Filled, shapes: Float64, known: Mask, modes: int, rounds: int) -> _Filled:
    """Rounds of expectation-maximisation, until nothing moves any more."""
    seen = np.repeat(known, 2, axis=1)
    rows = np.flatnonzero(~np.all(known, axis=1))
    for _ in range(rounds):
        flat = filled.shapes.reshape(len(shapes), -1)
        centre = flat.mean(axis=0)
        basis, noise = _model(flat - centre, filled.covariance, modes)
        expected = flat.copy()
        expected[rows], covariance = _expected(flat[rows] - centre, seen[rows], basis, noise)
        expected[rows] += centre
        change = float(np.max(np.abs(expected - flat)))
        # The mean is brought to the shape, and not the other way: so a shape keeps its place in the linear space
        # of the modes, which a change of its size would take it out of.
        placed = expected.reshape(filled.shapes.shape)
        turn = align(centre.reshape(-1, 2), placed)
        frames = Similarity(
            filled.frames.factor * turn.factor, filled.frames.factor * turn.offset + filled.frames.offset
        )
        filled = _Filled(
            np.where(
                known[:, :, None], frames.inverse().apply(np.nan_to_num(shapes)), turn.inverse().apply(placed)
            ),
            frames,
            covariance / len(shapes),
        )
        if change < _TOLERANCE:
            break
    return filled


def _masked_mean(shapes: Float64, known: Mask) -> tuple[Float64, Similarity]:
    """The mean `(v, 2)` of what is known, of size 1, and the similarities from it to the shapes."""
    fullest = int(np.argmax(np.sum(known, axis=1)))
    have = known[fullest]
    mean = np.where(have[:, None], shapes[fullest], np.nanmean(shapes[fullest], axis=0))
    for _ in range(20):
        mean = (mean - mean.mean(axis=0)) / shape_size(mean)
        # A shape that shares too few landmarks with the first one waits for the second round.
        common = np.where(np.sum(known & have, axis=1, keepdims=True) >= 2, known & have, known)
        frames = _masked_align(mean, shapes, common)
        placed = np.where(known[:, :, None], frames.inverse().apply(np.nan_to_num(shapes)), 0.0)
        mean = placed.sum(axis=0) / np.sum(known, axis=0)[:, None]
        have = np.ones_like(have)
    return mean, _masked_align(mean, shapes, known)


def _masked_align(mean: Float64, shapes: Float64, known: Mask) -> Similarity:
    """The similarities from the mean to each shape, by the landmarks that are known."""
    found = [align(mean[mask], shape[mask]) for shape, mask in zip(shapes, known, strict=True)]
    return Similarity(
        np.array([similarity.factor for similarity in found]),
        np.array([similarity.offset for similarity in found]),
    )


def _model(deviations: Float64, covariance: Float64, modes: int) -> tuple[Float64, float]:
    """W `(2v, q)` and sigma2 of deviations `(k, 2v)`, given the covariance of what they are not sure of."""
    count, dimension = deviations.shape
    variances, vectors = np.linalg.eigh(deviations.T @ deviations / count + covariance)
    variances, vectors = np.clip(variances[::-1], 0, None), vectors[:, ::-1]
    noise = float(np.sum(variances[modes:])) / max(1, dimension - 4 - modes)
    noise = max(noise, _FLOOR * float(np.sum(variances)), 1e-300)
    return vectors[:, :modes] * np.sqrt(np.clip(variances[:modes] - noise, 0, None)), noise


def _expected(deviations: Float64, seen: Mask, basis: Float64, noise: float) -> tuple[Float64, Float64]:
    """Deviations `(r, 2v)` with what is not seen as expected, and the summed covariance of what is left open."""
    modes = basis.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    precision = (seen @ squares).reshape(-1, modes, modes) + noise * np.eye(modes)
    posterior = np.linalg.inv(precision)
    latent = np.einsum("nij,nj->ni", posterior, (deviations * seen) @ basis)
    covariance = noise * np.diag(np.sum(~seen, axis=0).astype(np.float64))
    for row, unseen in zip(posterior, ~seen, strict=True):
        open_part = basis[unseen]
        covariance[np.ix_(unseen, unseen)] += noise * (open_part @ row @ open_part.T)
    return np.where(seen, deviations, latent @ basis.T), covariance
