"""What a model proposes for an image: points, how sure they are, and what the rest does when one is dragged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image
from pliant.experts.posterior import shape_noise
from pliant.fitting.status import Status
from pliant.model import Model
from pliant.quick.model import QuickModel, propose, wide_belief
from pliant.shape import align, shape_size, train_shape_model
from pliant.shape.conditional import Belief, followed, likelier, pose_factor, prior_belief
from pliant.shape.generalisation import held_out_noise
from pliant.studio.proposing.next_image import Doubt
from pliant.terminal import counted

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
    model
        Which model it is from, counted from 1; 0 is the one that was given.
    reason
        A sentence about it.
    beliefs
        What `follow` goes by: about the landmarks `kept (k,)`, with the image and without.
    held
        Landmarks that a person had fixed when this was made, with their places.

    """

    points: Float64
    covariance: Float64
    order: NDArray[np.int64]
    confidence: float
    model: int
    reason: str
    kept: NDArray[np.int64]
    beliefs: tuple[Belief, ...]
    held: Mapping[int, tuple[float, float]]

    def with_unknown(self, points: Floats) -> Proposal:
        """The same with `points (v, 2)` of a page where nothing is known about a landmark."""
        return replace(self, points=np.where(np.isfinite(self.points), self.points, points))


def proposal(
    model: QuickModel,
    number: int,
    image: Image,
    fixed: Mapping[int, Sequence[float]] | None = None,
    names: Sequence[str] = (),
) -> Proposal:
    """What a model proposes for an image `(h, w)` or `(h, w, 3)`, with landmarks held that a person has fixed."""
    held = _places(fixed)
    place = {int(landmark): k for k, landmark in enumerate(model.kept)}
    known = {place[k]: np.array(where) for k, where in held.items() if k in place}
    seen = propose(model, image, known)
    belief = followed(seen.belief, list(known), np.array(list(known.values())))
    said = f"Learned from {counted(model.samples, 'image')}"
    wide = wide_belief(model, belief.points)
    return _made(model.landmarks, model.kept, (belief, wide), held, number, said, names)


def fitted(
    model: Model,
    image: Image,
    fixed: Mapping[int, Sequence[float]] | None = None,
    names: Sequence[str] = (),
) -> Proposal | None:
    """What a model that was given proposes for an image: its fit, and then what follows from fixed landmarks.

    None if it finds nothing.
    """
    from pliant.batch import fit

    held = _places(fixed)
    found = fit(model, image, "auto", objects=1, trace=False, confidence=True)
    if found.status is Status.FAILED:
        return None
    shape = model.levels[-1].shape
    wide = prior_belief(shape, shape_noise(shape), align(shape.mean, found.points), *_FREE)
    wide = Belief(found.points, wide.factor, wide.noise)
    # The fit tells how sure each landmark is, and the shapes of the model which ones go together.
    stated = wide.covariance / 9 if found.covariance is None else found.covariance
    ratio = np.sqrt(
        np.trace(stated, axis1=1, axis2=2) / np.maximum(np.trace(wide.covariance, axis1=1, axis2=2), 1e-12)
    )[:, None, None]
    rows = (ratio * wide.factor.reshape(len(ratio), 2, -1)).reshape(wide.factor.shape)
    belief = Belief(found.points, rows, ratio**2 * wide.noise)
    places = np.array(list(held.values())).reshape(-1, 2)
    belief = followed(likelier((belief, wide), list(held), places) if held else belief, list(held), places)
    said = f"A fit of the given model, trained on {model.provenance.get('samples', '?')} images"
    return _made(model.landmarks, np.arange(model.landmarks), (belief, wide), held, 0, said, names)


_FREE = (0.3, 0.2, 0.2)
"""Deviations of shift, growth and turn where nothing is known about the pose."""


def _places(fixed: Mapping[int, Sequence[float]] | None) -> dict[int, tuple[float, float]]:
    return {int(k): (float(x), float(y)) for k, (x, y) in (fixed or {}).items()}


def _made(
    landmarks: int,
    kept: NDArray[np.int64],
    beliefs: tuple[Belief, ...],
    held: Mapping[int, tuple[float, float]],
    number: int,
    said: str,
    names: Sequence[str],
) -> Proposal:
    """The proposal of the first belief about the landmarks `kept (k,)` of all."""
    belief = beliefs[0]
    points = np.full((landmarks, 2), np.nan)
    covariance = np.full((landmarks, 2, 2), np.nan)
    points[kept], covariance[kept] = belief.points, belief.covariance
    for k, where in held.items():
        points[k], covariance[k] = where, 0.0
    free = [int(k) for k in kept if int(k) not in held]
    deviations = deviation_of(covariance)
    order = sorted(free, key=lambda k: -deviations[k])
    wrong = chance_of_error(covariance[free], CLOSE * max(float(shape_size(belief.points)), 1e-9))
    return Proposal(
        points=points,
        covariance=covariance,
        order=np.array(order, dtype=np.int64),
        confidence=float(1 - np.mean(wrong)) if free else 1.0,
        model=number,
        reason=f"{said}; {_unsure(int(np.sum(wrong > 0.5)), order, deviations, names)}.",
        kept=kept,
        beliefs=beliefs,
        held=held,
    )


def doubt_of(made: Proposal, names: Sequence[str] = ()) -> Doubt:
    """What a proposal is unsure of, in a few numbers."""
    worst = int(made.order[0]) if len(made.order) else 0
    deviation = float(deviation_of(made.covariance[worst])) if len(made.order) else 0.0
    wrong = (1 - made.confidence) * len(made.order)
    return Doubt(wrong, len(made.order), deviation, name_of(worst, names))


def follow(
    first: Proposal, last: Proposal | None, points: Floats, fixed: Mapping[int, Sequence[float]]
) -> Float64:
    """Points `(v, 2)` of the most plausible shape, given those that a person has fixed: at once, without the image.

    Parameters
    ----------
    first
        The proposal of the image, with nothing fixed.
    last
        The last one that was made with points held, if there is one. It counts as long as these stay there.
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


def name_of(landmark: int, names: Sequence[str]) -> str:
    """What a landmark is called: by its name, or by its number from 1."""
    return names[landmark] if landmark < len(names) and names[landmark] else f"{landmark + 1}"


def _unsure(count: int, order: Sequence[int], deviations: Float64, names: Sequence[str]) -> str:
    if not order or not count:
        return "sure of all points"
    points = "1 point" if count == 1 else f"{count} points"
    return f"unsure of {points} (± {deviations[order[0]]:.0f} px at '{name_of(order[0], names)}')"


def free_shape(shapes: Sequence[Float64], points: Float64, fixed: Mapping[int, Sequence[float]]) -> Float64:
    """Points `(v, 2)` that follow the fixed ones by the shapes `(v, 2)` that are finished, without any model.

    Landmarks that have no place yet stay without one.
    """
    known = np.flatnonzero(np.isfinite(points[:, 0]))
    place = {int(k): number for number, k in enumerate(known)}
    held = {place[k]: where for k, where in _places(fixed).items() if k in place}
    if len(known) < 3 or not held or float(shape_size(points[known])) <= 0:
        return points
    whole = [one[known] for one in shapes if len(one) == len(points) and np.isfinite(one[known]).all()]
    start = points[known]
    size = float(shape_size(start))
    if len(whole) >= 2:
        model = train_shape_model(np.array(whole), 1.0, 0.95)
        noise = held_out_noise(np.array(whole), model) + _LEAST_NOISE**2 * np.eye(2)
        belief = prior_belief(model, noise, align(model.mean, start), *_FREE)
        belief = Belief(start, belief.factor, belief.noise)
    else:
        noise = np.tile((0.03 * size) ** 2 * np.eye(2), (len(known), 1, 1))
        belief = Belief(start, pose_factor(start, *_FREE), noise)
    out = points.copy()
    out[known] = followed(belief, list(held), np.array(list(held.values()))).points
    return out


_LEAST_NOISE = 0.005
"""The least deviation of landmarks about shapes, in sizes of the object."""
