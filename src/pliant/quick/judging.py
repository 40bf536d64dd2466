"""How far a quick model can be trusted, by images that those filters that look at them have not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pliant.arrays import Float64, readonly
from pliant.experts.filter_training import Trial, calibrated
from pliant.experts.linear import Filters
from pliant.quick.equations import Equations, Lesson
from pliant.quick.model import Looked, QuickModel, Start, answer_of, believed, in_layer, sightings_in
from pliant.shape import Similarity, align, shape_size

ANNOTATED = 0.006
"""How far annotations are off by themselves, along each axis, in sizes of the object.

Points that a person has left where the model proposed them agree with it better than with the truth. Without this
share, a model takes its own proposals for proof, and its deviations shrink from image to image: of 20 wings each in
two runs, 33 of 100 true points were in ellipses of 90 %, and with it 78.
"""

_LOST = (0.4, 0.15, 0.08)
"""At each scale, shapes that are off by more than this share of the object do not tell how good filters are."""

_IMAGES, _FEWEST, _LANDMARKS = 40, 5, 4000
"""Most images to judge by, the fewest, and most landmarks in all of them."""

_FOUND = 0.05
"""How far the object filter is off, in sizes of the object, logarithms of it, and radians."""

_TYPICAL = 4.605
"""What nine in ten squared distances of two coordinates are below, in deviations."""

_OWN = 20.0
"""A landmark's own errors count for as much as those of all, with so many images."""

_LEAST_STRANGE, _LEAST_ANSWER = 0.02, 1e-3


class Judged(NamedTuple):
    """An image to judge by, and the shape `(v, 2)` in its window from which filters begin."""

    lesson: Lesson
    start: Float64


@dataclass(frozen=True)
class Trust:
    """What was learned about filters, from a coarse scale to a fine one, when there were so many samples.

    The rest is as `QuickModel` has it.
    """

    samples: int
    layers: tuple[Filters, ...]
    unsure: Float64
    error: float
    usual: float
    answer: float


def near(mean: Float64, lesson: Lesson) -> Float64:
    """A start near the object, as the object filter finds it: the mean shape `(v, 2)`, a little off."""
    along, growth, turn = _FOUND * np.random.default_rng(lesson.seed).normal(size=3)
    there = align(mean, lesson.points)
    factor = there.factor * np.exp(growth + 1j * turn)
    offset = there.offset + along * float(shape_size(lesson.points)) * (1 + 1j)
    return Similarity(factor, offset).apply(mean)


def judged(
    model: QuickModel,
    layers: Sequence[Filters],
    equations: Sequence[Equations],
    images: Sequence[Judged],
    pool: ThreadPoolExecutor,
) -> Trust:
    """What is learned about the filters of a model, scale by scale, with some of the images."""
    most = min(_IMAGES, max(_FEWEST, _LANDMARKS // len(model.shape.mean)))
    chosen = [images[k] for k in np.random.default_rng(0).permutation(len(images))[:most]]
    parts, shapes = [one.lesson.part() for one in chosen], [one.start for one in chosen]
    looks: list[Looked | None] = []
    done: list[Filters] = []
    for layer, own, lost in zip(layers, equations, _LOST, strict=True):
        without = {fold: own.solved(pool, fold) for fold in {one.lesson.fold for one in chosen}}
        trials = [
            Trial(part, shape, one.lesson.points, one.lesson.fold)
            for part, shape, one in zip(parts, shapes, chosen, strict=True)
        ]
        layer, without = calibrated(model.expert, layer, without, trials, pool, lost)
        done.append(_careful(layer))
        experts = {fold: replace(model.expert, filters=(_careful(one),)) for fold, one in without.items()}
        looks = list(pool.map(lambda one, now=experts: in_layer(now[one.fold], one.part, one.shape), trials))
        shapes = [old if look is None else look.shape for old, look in zip(shapes, looks, strict=True)]
    whole = replace(model, expert=replace(model.expert, filters=tuple(done)))
    lessons = [one.lesson for one in chosen]
    return _errors(whole, len(images), list(zip(lessons, looks, shapes, strict=True)))


def _errors(model: QuickModel, samples: int, rows: Sequence[tuple[Lesson, Looked | None, Float64]]) -> Trust:
    """What errors of beliefs say, given what was seen of each image, and the shape there."""
    squares, errors, strange, answers = [], [], [], []
    for lesson, look, shape in rows:
        if look is None:
            continue
        seen = believed(model, sightings_in(look), Start(shape))
        size = float(shape_size(lesson.points))
        apart = lesson.points - seen.belief.points
        precision = np.linalg.inv(seen.belief.covariance)
        square = np.einsum("vi,vij,vj->v", apart, precision, apart)
        square += (ANNOTATED * size) ** 2 * np.trace(precision, axis1=1, axis2=2)
        squares.append(np.where(lesson.known, square, np.nan))
        errors.append(float(np.mean(np.linalg.norm(apart, axis=1)[lesson.known])) / size)
        strange.append(seen.strange)
        answers.append(answer_of(look))
    layers = model.expert.filters
    if not squares:
        return Trust(samples, layers, np.ones(len(model.shape.mean)), np.nan, 1.0, 1.0)
    return Trust(
        samples=samples,
        layers=layers,
        unsure=_unsure(np.array(squares)),
        error=float(np.median(errors)),
        usual=max(float(np.quantile(strange, 0.9)), _LEAST_STRANGE),
        answer=max(float(np.median(answers)), _LEAST_ANSWER),
    )


def _careful(layer: Filters) -> Filters:
    """Filters that are no surer than annotations are."""
    return replace(layer, spread=readonly(layer.spread + ANNOTATED**2 * np.eye(2)))


def _unsure(squares: Float64) -> Float64:
    """What variances `(v,)` must be multiplied with, given squared distances `(k, v)` of errors in deviations."""
    common = max(float(np.nanquantile(squares, 0.9)) / _TYPICAL, 0.05)
    capped = np.minimum(squares / common, 3 * _TYPICAL)
    # The mean of two squared coordinates is 2 where deviations are right.
    middle = float(np.nanmean(capped)) / 2
    sums, counts = np.nansum(capped, axis=0) / 2, np.sum(np.isfinite(squares), axis=0)
    own = (sums + _OWN * middle) / (counts + _OWN) / max(middle, 1e-9)
    return np.asarray(common * own)
