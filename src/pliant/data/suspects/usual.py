"""What is usual: a Gaussian model of shapes that wrong landmarks do not spoil.

Wrong landmarks may be in every second image, so none of them may teach the model. Poses are found from pairs of
landmarks, the best of many (least median of squares, Rousseeuw 1984), which holds as long as most landmarks of an
image are right. Landmarks that stand out are then replaced by what the others let expect, a model is made of what
is there, and both are repeated. Each image is judged by a model of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.shape import Similarity, align, generalised_procrustes
from pliant.shape.pdm import similarity_vectors

Bools = NDArray[np.bool_]

_VARIANCE = 0.98
"""The share of the variation of shapes that modes explain; the rest is noise, alike for all landmarks."""

_PAIRS = 60
"""So many pairs of landmarks say where an object may be. With a third of the landmarks wrong, 26 are right."""

_LONG = 0.7
"""A pair must be so far apart, in sizes of the mean: a short one says little about scale and rotation."""

_CHUNK = 2_000_000


@dataclass(frozen=True, eq=False)
class Shapes:
    """A Gaussian model of shapes: mean `(v, 2)` and precision, the inverse of the covariance, `(2v, 2v)`.

    Any pose is as good as any other: the covariance has similarities with a huge variance.
    """

    mean: Float64
    precision: Float64

    @property
    def blocks(self) -> Float64:
        """The precision as `(v, v, 2, 2)`."""
        count = len(self.mean)
        return self.precision.reshape(count, 2, count, 2).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class Judged:
    """One shape `(v, 2)` as its right landmarks see it, in the frame of the mean.

    `pose` brings the mean's frame to the image. `expected (v, 2)` is where all right landmarks but itself put each
    landmark, `precisions (v, 2, 2)` how sure that is, `scores (v,)` how far off it is in standard deviations, and
    `cost` the squared distance of all right landmarks from the mean.
    """

    pose: Similarity
    placed: Float64
    expected: Float64
    precisions: Float64
    scores: Float64
    cost: float


def gaussian(shapes: Float64) -> Shapes:
    """The model of shapes `(k, v, 2)`."""
    mean, _ = generalised_procrustes(shapes)
    aligned = align(mean, shapes).inverse().apply(shapes)
    mean = aligned.mean(axis=0)
    deviations = (aligned - mean).reshape(len(shapes), -1)
    variances, vectors = np.linalg.eigh(deviations.T @ deviations / (len(shapes) - 1))
    variances, vectors = np.clip(variances[::-1], 0, None), vectors[:, ::-1]
    total = max(float(np.sum(variances)), 1e-12)
    kept = int(np.searchsorted(np.cumsum(variances) / total, _VARIANCE)) + 1
    kept = max(0, min(kept, (len(shapes) - 1) // 2, mean.size - 6))
    noise = max(float(np.sum(variances[kept:])) / max(1, mean.size - 4 - kept), 1e-9)
    similarity = similarity_vectors(mean)
    covariance = (vectors[:, :kept] * np.clip(variances[:kept] - noise, 0, None)) @ vectors[:, :kept].T
    covariance += noise * np.eye(mean.size) + 100 * similarity @ similarity.T
    return Shapes(mean, np.linalg.inv(covariance))


def scores_of(model: Shapes, shapes: Float64) -> Float64:
    """How far each landmark `(k, v)` is from what the others let expect, in standard deviations.

    With P the precision, landmark i given all others has the covariance C = P_ii⁻¹ and is off by C (P d)_i, d being
    all deviations from the mean.
    """
    placed = align(model.mean, shapes).inverse().apply(shapes)
    numbers = np.arange(len(model.mean))
    own = np.linalg.inv(model.blocks[numbers, numbers])
    pulled = ((placed - model.mean).reshape(len(shapes), -1) @ model.precision).reshape(placed.shape)
    return np.asarray(np.sqrt(np.einsum("kvi,vij,kvj->kv", pulled, own, pulled)))


def judge(model: Shapes, shape: Float64, wrong: Bools) -> Judged:
    """How the landmarks of a shape `(v, 2)` stand to each other, if those that are `wrong (v,)` have no say."""
    right = ~wrong
    pose = align(model.mean[right], shape[right])
    placed = pose.inverse().apply(np.where(np.isnan(shape), 0.0, shape))
    deviations = (placed - model.mean).ravel()
    has_say, has_none = np.repeat(right, 2), np.repeat(wrong, 2)
    among = model.precision[np.ix_(has_say, has_say)]
    expected = placed.copy()
    precisions = np.empty((len(shape), 2, 2))
    if np.any(wrong):
        across = model.precision[np.ix_(has_none, has_say)]
        unsure = np.linalg.inv(model.precision[np.ix_(has_none, has_none)])
        among = among - across.T @ unsure @ across
        told = (model.mean[wrong].ravel() - unsure @ (across @ deviations[has_say])).reshape(-1, 2)
        count = len(told)
        own = unsure.reshape(count, 2, count, 2)[np.arange(count), :, np.arange(count)]
        expected[wrong], precisions[wrong] = told, np.linalg.inv(own)
    pulled = among @ deviations[has_say]
    count = int(np.sum(right))
    precisions[right] = among.reshape(count, 2, count, 2)[np.arange(count), :, np.arange(count)]
    off = np.linalg.solve(precisions[right], pulled.reshape(-1, 2, 1))[:, :, 0]
    expected[right] = placed[right] - off
    away = placed - expected
    scores = np.sqrt(np.einsum("vi,vij,vj->v", away, precisions, away))
    return Judged(pose, placed, expected, precisions, scores, float(deviations[has_say] @ pulled))


def robust_poses(mean: Float64, shapes: Float64, known: Bools) -> tuple[Similarity, Float64]:
    """Similarities from the mean `(v, 2)` to shapes `(k, v, 2)` that most landmarks agree on.

    Also the distances `(k, v)` of the landmarks from the mean there, in the mean's frame; nan where not known.
    """
    first, second = _pairs(mean)
    m = mean[:, 0] + 1j * mean[:, 1]
    factors = np.empty(len(shapes), np.complex128)
    offsets = np.empty(len(shapes), np.complex128)
    distances = np.empty(shapes.shape[:2])
    step = max(1, _CHUNK // (len(first) * len(mean)))
    for begin in range(0, len(shapes), step):
        part = slice(begin, begin + step)
        z = np.where(known[part], shapes[part, :, 0] + 1j * shapes[part, :, 1], np.nan)
        factor = (z[:, second] - z[:, first]) / (m[second] - m[first])
        factor = np.where(np.abs(factor) > 1e-9, factor, np.nan)
        offset = z[:, first] - factor * m[first]
        with np.errstate(invalid="ignore"):
            away = np.abs((z[:, None] - offset[:, :, None]) / factor[:, :, None] - m)
        best = np.argmin(_median(away), axis=1)
        rows = np.arange(len(z))
        factor, offset = factor[rows, best], offset[rows, best]
        # Too few landmarks for any of the pairs: all that are there must do.
        lost = np.isnan(factor)
        factor[lost], offset[lost] = _least_squares(m, z[lost], known[part][lost])
        for _ in range(3):
            away = np.abs((z - offset[:, None]) / factor[:, None] - m)
            near = away <= 2.5 * _median(away)[:, None]
            factor, offset = _least_squares(m, z, near)
        factors[part], offsets[part] = factor, offset
        distances[part] = np.abs((z - offset[:, None]) / factor[:, None] - m)
    return Similarity(factors, offsets), distances


def _median(distances: Float64) -> Float64:
    """Medians over the last axis of what is not nan; infinite where all is."""
    count = np.sum(~np.isnan(distances), axis=-1, keepdims=True)
    ordered = np.sort(np.where(np.isnan(distances), np.inf, distances), axis=-1)
    return np.asarray(np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)[..., 0])


def _least_squares(
    m: NDArray[np.complex128], z: NDArray[np.complex128], near: Bools
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    weights = near.astype(np.float64)
    total = weights.sum(axis=1, keepdims=True)
    z = np.where(near, z, 0)
    centre, middle = (weights * z).sum(axis=1, keepdims=True) / total, (weights @ m)[:, None] / total
    away = (m - middle) * weights
    factor = np.sum((z - centre) * away.conj(), axis=1) / np.sum(np.abs(away) ** 2, axis=1)
    return factor, centre[:, 0] - factor * middle[:, 0]


def _pairs(mean: Float64) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of landmarks that lie far apart in the mean, the same every time."""
    first, second = np.triu_indices(len(mean), 1)
    length = np.linalg.norm(mean[first] - mean[second], axis=1)
    size = np.sqrt(np.mean(np.sum((mean - mean.mean(axis=0)) ** 2, axis=1)))
    far = np.flatnonzero(length >= min(_LONG * size, np.median(length)))
    chosen = np.random.default_rng(0).permutation(far)[:_PAIRS]
    return first[chosen], second[chosen]
