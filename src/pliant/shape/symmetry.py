"""Which landmark is which in a mirror: found from the shapes, or made of the pairs that a user knows.

With z = x + iy, every reflection about an axis through the centre is z -> exp(i phi) conj(z). Assignment and angle
are found in turns: with the angle known, landmarks are matched at the least sum of squared distances; with
the matching known, the best angle is that of the sum of z_i z_match(i).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pliant.arrays import Float64, Floats, Int32, evenly_spread
from pliant.shape.procrustes import generalised_procrustes

ENOUGH = 10_000
"""Shapes, evenly spread over all, that tell what the object is like in a mirror."""

_STARTS = 36
"""How many axes the search begins with."""

_VARIATION = 0.5
"""The largest mismatch in a mirror, as a share of how far landmarks are from their mean places."""

_NEIGHBOUR = 0.5
"""The largest mismatch as a share of the distance to the nearest landmark; beyond it, the match is a guess."""

_MODES, _DEVIATIONS = 5, 3.0
"""How many modes of the shapes may make up for a mean that is turned by chance, and how far that goes."""

_PRECISION = 0.01
"""What counts as exact, in a shape whose landmarks are 1 from the centre."""


def find_mirror(shapes: Floats) -> Int32:
    """The permutation `(v,)` of a symmetric object in shapes `(k, v, 2)`; a sentence if it is not symmetric.

    Landmark i of a mirrored object is where landmark `permutation[i]` was. Faces give 16 for 0, and 0 for 16.
    """
    mean, permutation, mismatch, ratio = _in_a_mirror(shapes)
    if ratio > _VARIATION:
        raise ValueError(
            f"the object does not look symmetric: when mirrored, its mean shape is off by {ratio:.1f} times "
            "the variation of its landmarks. If you know the pairs, give them."
        )
    distances = np.linalg.norm(mean[:, None] - mean, axis=-1) + np.diag(np.full(len(mean), np.inf))
    doubtful = mismatch > _NEIGHBOUR * np.maximum(distances.min(axis=1), 2 * _PRECISION)
    doubtful |= permutation[permutation] != np.arange(len(mean))
    if np.any(doubtful):
        first = int(np.argmax(doubtful))
        raise ValueError(
            f"the object looks symmetric, but not clearly enough to find partners for landmark {first} and "
            "others: give the pairs."
        )
    return permutation


def asymmetry(shapes: Floats) -> float:
    """How far the mean of shapes `(k, v, 2)` is off in a mirror, over the variation of its landmarks."""
    return _in_a_mirror(shapes)[3]


def mirror_of_pairs(pairs: Iterable[Sequence[int]], landmarks: int) -> Int32:
    """The permutation `(v,)` that swaps the landmarks of each pair; those in no pair lie on the axis."""
    permutation = np.arange(landmarks, dtype=np.int32)
    seen: set[int] = set()
    for pair in pairs:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"a pair must be two different landmarks, not {', '.join(map(str, pair))}.")
        for number in pair:
            if not 0 <= number < landmarks:
                raise ValueError(
                    f"a pair has landmark {number}, but landmarks are numbered from 0 to {landmarks - 1}."
                )
            if number in seen:
                raise ValueError(f"landmark {number} is in two pairs.")
            seen.add(number)
        permutation[list(pair)] = pair[1], pair[0]
    if not seen:
        raise ValueError("there is no pair: give the landmarks that swap places in a mirror, two by two.")
    return permutation


def _in_a_mirror(shapes: Floats) -> tuple[Float64, Int32, Float64, float]:
    """The mean `(v, 2)`, its best match in a mirror, the mismatches there `(v,)`, and these over the variation."""
    mean, aligned = generalised_procrustes(shapes[evenly_spread(len(shapes), ENOUGH)])
    permutation, mismatch = _best_match(mean, aligned)
    spread = np.sqrt(np.mean(np.sum((aligned - mean) ** 2, axis=-1), axis=0) + _PRECISION**2)
    return mean, permutation, mismatch, float(np.sqrt(np.mean((mismatch / spread) ** 2)))


def _best_match(mean: Float64, aligned: Float64) -> tuple[Int32, Float64]:
    """The permutation `(v,)` and the mismatch of each landmark `(v,)` in the best reflection of the mean.

    The mean of few shapes is turned by chance, and its mirror image the other way: as far as chance goes, leading
    modes of the shapes may bring the two together.
    """
    from scipy.optimize import linear_sum_assignment

    _, singular, modes = np.linalg.svd((aligned - mean).reshape(len(aligned), -1), full_matrices=False)
    modes, chance = modes[:_MODES], 2 * _DEVIATIONS * singular[:_MODES] / len(aligned)
    z = mean[:, 0] + 1j * mean[:, 1]
    best: tuple[float, Int32, Float64] | None = None
    for start in np.linspace(0, 2 * np.pi, _STARTS, endpoint=False):
        angle, permutation, target = float(start), np.full(len(z), -1), z
        for _ in range(50):
            previous = permutation
            mirrored = np.exp(1j * angle) * np.conj(z)
            permutation = linear_sum_assignment(np.abs(mirrored[:, None] - target) ** 2)[1]
            angle = float(np.angle(np.sum(z * target[permutation])))
            mirrored = np.exp(1j * angle) * np.conj(z)
            apart = (mirrored - z[permutation])[np.argsort(permutation)]
            weights = np.clip(modes @ np.stack([apart.real, apart.imag], axis=1).ravel(), -chance, chance)
            moved = (weights @ modes).reshape(-1, 2)
            target = z + moved[:, 0] + 1j * moved[:, 1]
            if np.array_equal(permutation, previous):
                break
        mismatch = np.abs(mirrored - target[permutation])
        cost = float(np.sum(mismatch**2))
        if best is None or cost < best[0]:
            best = cost, permutation.astype(np.int32), mismatch
    assert best is not None
    return best[1], best[2]
