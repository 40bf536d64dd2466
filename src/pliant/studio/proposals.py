"""What a model proposes for an image: points, how sure they are, and what the rest does when one is dragged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image
from pliant.quick.model import QuickModel, propose, wide_belief
from pliant.shape import shape_size
from pliant.shape.conditional import Belief, followed, likelier

CLOSE = 0.02
"""A point is right if it is no farther from the truth than this share of the object's size."""


@dataclass(frozen=True, eq=False, repr=False)
class Proposal(Concise):
    """Where a model has the landmarks of an image.

    Attributes
    ----------
    points
        `(v, 2)`; nan where nothing is known about a landmark.
    covariance
        `(v, 2, 2)`, in square pixels; nan there as well.
    order
        Numbers of the landmarks that are known, the least certain first.
    confidence
        The share of the points that are expected to be right, within 2 % of the object's size.
    number
        Which model it is from, counted from 1.
    reason
        A sentence about it.
    beliefs
        What `follow` goes by: about the landmarks `kept (k,)`, with the image and without.
    held
        Landmarks that a person had fixed when this was made, with their places.

    """

    points: Float64
    covariance: Float64
    order: tuple[int, ...]
    confidence: float
    number: int
    reason: str
    kept: NDArray[np.int64]
    beliefs: tuple[Belief, ...]
    held: Mapping[int, tuple[float, float]]


def proposal(
    model: QuickModel,
    number: int,
    image: Image,
    fixed: Mapping[int, Sequence[float]] | None = None,
    names: Sequence[str] = (),
) -> Proposal:
    """What a model proposes for an image `(h, w)` or `(h, w, 3)`, with landmarks held that a person has fixed."""
    held = {int(k): (float(x), float(y)) for k, (x, y) in (fixed or {}).items()}
    place = {int(landmark): k for k, landmark in enumerate(model.kept)}
    known = {place[k]: np.array(where) for k, where in held.items() if k in place}
    seen = propose(model, image, known)
    belief = followed(seen.belief, list(known), np.array(list(known.values())))
    points = np.full((model.landmarks, 2), np.nan)
    covariance = np.full((model.landmarks, 2, 2), np.nan)
    points[model.kept], covariance[model.kept] = belief.points, belief.covariance
    for k, where in held.items():
        points[k], covariance[k] = where, 0.0
    size = max(float(shape_size(belief.points)), 1e-9)
    free = [int(k) for k in model.kept if int(k) not in held]
    deviations = deviation_of(covariance)
    order = sorted(free, key=lambda k: -deviations[k])
    wrong = chance_of_error(covariance[free], CLOSE * size)
    return Proposal(
        points=points,
        covariance=covariance,
        order=tuple(order),
        confidence=float(1 - np.mean(wrong)) if free else 1.0,
        number=number,
        reason=_sentence(model, order, wrong, deviations, names),
        kept=model.kept,
        beliefs=(belief, wide_belief(model, belief.points)),
        held=held,
    )


def follow(
    first: Proposal, last: Proposal | None, points: Floats, fixed: Mapping[int, Sequence[float]]
) -> Float64:
    """Points `(v, 2)` of the most plausible shape, given those that a person has fixed: at once, without the image.

    Parameters
    ----------
    first
        The proposal of the image, with nothing fixed.
    last
        The last one that was made with points held, if there is one. It counts as long as these are where they were.
    points
        `(v, 2)`: where the page has them. Landmarks that the model knows nothing of stay there.
    fixed
        Places by numbers of landmarks.

    """
    same = last is not None and all(
        k in fixed and tuple(map(float, fixed[k])) == where for k, where in last.held.items()
    )
    known = last if last is not None and same else first
    out = np.array(points, dtype=np.float64)
    place = {int(landmark): k for k, landmark in enumerate(known.kept)}
    given = {k: np.asarray(where, dtype=np.float64) for k, where in fixed.items()}
    # What was held already moves nothing any more.
    new = {k: where for k, where in given.items() if k in place and (known is first or k not in known.held)}
    numbers, places = [place[k] for k in new], np.array(list(new.values())).reshape(-1, 2)
    belief = likelier(known.beliefs, numbers, places) if numbers else known.beliefs[0]
    out[known.kept] = followed(belief, numbers, places).points
    for k, where in given.items():
        out[k] = where
    return out


def deviation_of(covariance: Float64) -> Float64:
    """Deviations `(...)`, in pixels, of covariances `(..., 2, 2)`: the root of the mean of both axes."""
    return np.asarray(np.sqrt(np.trace(covariance, axis1=-2, axis2=-1) / 2))


def chance_of_error(covariance: Float64, tolerance: float) -> Float64:
    """How likely points with covariances `(k, 2, 2)` are farther from the truth than a tolerance `(k,)`."""
    variance = np.maximum(np.trace(covariance, axis1=-2, axis2=-1) / 2, 1e-12)
    return np.asarray(np.exp(-0.5 * tolerance**2 / variance))


def _sentence(
    model: QuickModel, order: Sequence[int], wrong: Float64, deviations: Float64, names: Sequence[str]
) -> str:
    learned = f"Learned from {model.samples} images"
    unsure = int(np.sum(wrong > 0.5))
    if not order or not unsure:
        return f"{learned}; sure of all points."
    worst = order[0]
    name = names[worst] if worst < len(names) and names[worst] else f"{worst + 1}"
    points = "1 point" if unsure == 1 else f"{unsure} points"
    return f"{learned}; unsure of {points} (± {deviations[worst]:.0f} px at '{name}')."
