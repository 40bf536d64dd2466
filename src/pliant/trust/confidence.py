"""How much a fit can be trusted: what speaks for it, how likely its error is small, where its landmarks may be.

For each of a few bounds b, a logistic regression on the evidence x gives

    P(error < b | x) = 1 / (1 + exp(-(w_b x + o_b))),

and between two bounds the log-odds are interpolated along log b. This is learned from fits that begin near the
object, and multiplied with the probability that there is an object at all, by another regression: it also sees fits
that begin elsewhere. Where an expert has led the fit, a third regression tells from what it saw whether there is an
object, and its probability is one more factor: pixels and expert must both say so. (One regression on all of it
trusts one of them alone: mouths fitted to noses had up to .98, because the expert was sure.)

The covariance of a landmark is what Gauss-Newton says with the image's own noise, times a factor, and a scatter
that no image explains (annotators disagree, and the shape model is short of modes):

    Sigma_v = factor · outside · [S (J'MJ + P)^-1 S']_v + scatter_v,      M = (I - A diag(l / (l + n)) A') / n.

All numbers come from fits of held-out training images: `calibration.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pliant.arrays import Concise, Float64, Floats

PIXELS = 5
"""Predictors of which the pixels tell; the expert's follow."""

AGAINST = np.array([True, False, False, False, False, True, True])
"""Predictors that can only speak against a fit: the energy outside, and an expert's doubt and dissent.

The others can speak for it: where a fit is lost, the shape is often the mean.
"""

LEAST = np.array([-np.inf] * PIXELS + [-3.0, -3.0])
"""The least of each standardised predictor: an expert can be no surer, and agree no better, than it ever does.

An expert that was not followed may have seen something far smaller than the object. Its deviations are then a tiny
share of the object's size, tens of standard deviations below the usual ones, and would outweigh its dissent.
"""

DEFAULT_BOUND = 0.04
"""The error, as a share of the object's size, below which a fit counts as good unless told otherwise."""


def require_bound(bound: float) -> None:
    """Refuse a bound of an error that is no share of the object's size."""
    if not 0 < bound < 1:
        raise ValueError(
            f"bound={bound:g}: it must be a share of the object's size above 0 and below 1: 0.04 is 4 %."
        )


def require_confidence(name: str, least: float) -> None:
    """Refuse a limit of confidence, the setting of this name, that is no probability."""
    if not 0 <= least <= 1:
        raise ValueError(f"{name}={least:g}: it must be a probability from 0 to 1: 0.9 is 90 %.")


class Evidence(NamedTuple):
    """What speaks for a fit, whichever algorithm found it.

    `outside`: energy of the image outside of the appearance subspace; `explained`: energy within it; `shape`:
    squared Mahalanobis distance of the shape per mode. Training images have 1 of each, on average. `sharpness`:
    energy of the image's slopes along the warp that no change of appearance explains. `mismatch`: what the model
    cannot explain over what it sees, about 1 where there is nothing.

    Two are about an expert that has led the fit, and not a number without one. `doubt`: mean standard deviation of
    its sightings; `dissent`: mean distance of the fitted shape from them. Both are shares of the object's size.
    """

    outside: float
    explained: float
    shape: float
    sharpness: float
    mismatch: float
    doubt: float = float("nan")
    dissent: float = float("nan")

    @property
    def finite(self) -> bool:
        """Whether all that the pixels tell are numbers."""
        return bool(np.all(np.isfinite(self[:PIXELS])))

    @property
    def guided(self) -> bool:
        """Whether an expert has led the fit."""
        return bool(np.all(np.isfinite(self[PIXELS:])))


def standardised(seen: Float64, centre: Float64, scale: Float64) -> Float64:
    """Predictors `(..., k)` as the regressions see them, by the `centre (k,)` and `scale (k,)` of near fits."""
    return np.asarray(np.maximum((seen - centre) / scale, LEAST[: len(centre)]), dtype=np.float64)


def predictors(evidence: Evidence) -> Float64:
    """The numbers `(7,)` that the regressions see: logarithms of energies, and the distance of the shape.

    The last two are logarithms of what is known of an expert. Regressions of models without one see the first
    five, and those of older models four.
    """
    tiny = 1e-9
    energies = np.log(np.maximum([evidence.outside, evidence.explained, evidence.sharpness], tiny))
    mismatch, *seen = (np.log(max(value, tiny)) for value in evidence[PIXELS - 1 :])
    return np.append(energies, [evidence.shape, mismatch, *seen])


@dataclass(frozen=True, eq=False, repr=False)
class Confidence(Concise):
    """What was learned from `fits` held-out fits; k is the number of predictors, j that of bounds.

    `centre (k,)` and `scale (k,)` standardise the predictors, `weights (j, k)` and `offsets (j,)` belong to the
    rising `bounds (j,)`. `scatter (v, 2, 2)` is in squares of the object's size. `object_weights`, one for each
    predictor of the pixels and an offset, tell whether there is an object; older models take that for granted, and
    have None. `expert_weights (3,)` tell the same from what an expert saw, if there is one, and `usual_deviations
    (v,)` are those of its sightings of visible landmarks.
    """

    fits: int
    centre: Float64
    scale: Float64
    bounds: Float64
    weights: Float64
    offsets: Float64
    factor: float
    scatter: Float64
    object_weights: Float64 | None = None
    expert_weights: Float64 | None = None
    usual_deviations: Float64 | None = None

    def probability(self, evidence: Evidence, bound: float = DEFAULT_BOUND) -> float:
        """The probability that the error of a fit with this evidence is below the bound."""
        require_bound(bound)
        if not evidence.finite:
            return 0.0
        standard = self._standard(evidence)
        # A larger bound is never less likely to be met, whatever two regressions say.
        odds = np.maximum.accumulate(self.weights @ standard + self.offsets)
        small = _probability(float(np.interp(np.log(bound), np.log(self.bounds), odds)))
        # Nothing was learned about smaller errors than the least bound, but they are rarer, and none is zero.
        small *= min(bound / float(self.bounds[0]), 1.0)
        told: list[tuple[Float64 | None, Float64]] = [(self.object_weights, standard[:PIXELS])]
        if evidence.guided and self.expert_weights is not None:
            # In files of older versions, an expert's doubt may speak for a fit.
            against = np.append(np.minimum(self.expert_weights[:-1], 0.0), self.expert_weights[-1])
            told.append((against, standard[PIXELS:]))
        for weights, seen in told:
            if weights is not None:
                small *= _probability(float(weights[:-1] @ seen + weights[-1]))
        return small

    def _standard(self, evidence: Evidence) -> Float64:
        """The predictors that were learned from `(k,)`, standardised; what no expert told is as it usually is."""
        standard = standardised(predictors(evidence)[: len(self.centre)], self.centre, self.scale)
        return (
            standard if evidence.guided else np.append(standard[:PIXELS], np.zeros_like(self.centre[PIXELS:]))
        )

    def covariance(self, outside: Floats, spread: Floats, size: Floats, angle: Floats) -> Float64:
        """Covariances `(..., v, 2, 2)` of the landmarks of fits, in square pixels of the image.

        `outside (...)` is that of their evidence, `spread (..., v, 2, 2)` what Gauss-Newton says with the model's
        noise, `size (...)` that of the objects in the image, and `angle (...)` by how much they are turned there.
        """
        cosine, sine = np.cos(angle), np.sin(angle)
        turn = np.stack([cosine, -sine, sine, cosine], axis=-1).reshape(*np.shape(angle), 1, 2, 2)
        noise, squares = (
            np.asarray(each)[..., None, None, None] for each in (self.factor * outside, size**2)
        )
        return np.asarray(
            noise * spread + squares * (turn @ self.scatter @ np.swapaxes(turn, -1, -2)), dtype=np.float64
        )


def _probability(odds: float) -> float:
    """Of an event with these log-odds."""
    return float(1 / (1 + np.exp(-np.clip(odds, -500, 500))))
