"""What an expert is asked before a pixel is fitted: where to begin, and what to hold on to.

It looks about the start, the shape model is fitted to what it sees and to nothing else, and it looks again from
there: what was far off, small or turned at first is then where the expert has learned to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.appearance.view import can_be_looked_at
from pliant.arrays import Concise, Float64, Floats, Image
from pliant.experts.posterior import about_the_shape, posterior_covariance, posterior_points, shape_noise
from pliant.experts.sightings import Expert, Sightings, together
from pliant.fitting.landmarks import LandmarkTerm, landmark_term
from pliant.level import Level
from pliant.model import Model
from pliant.namespace import Array, beside, full, identity, in_double, namespace, on_host, solutions
from pliant.shape import SIMILARITY, ShapeModel, Similarity, align, shape_size

CHOOSING = 0.5
"""Where an expert has led to several places, levels of this scale and finer are fitted, to choose between them."""

GUIDED = 5
"""Iterations of a level where an expert has led: on held-out faces 5, 8 and 12 end at the same error."""

_AGREEING = 0.03
"""How far coarse levels end from a shape that is the same one, as a share of its size: they have few modes."""

_ROUNDS, _TRUSTING = 6, 2
"""Rounds of fitting a shape to sightings: all of them, and the first ones, which take sightings as they are."""

_FREEDOM = 8.0
"""Degrees of freedom of Student's distribution, which sightings are taken to have: a few are far off."""


_DAMPING = 1e-9
"""What holds a similarity where it is if sightings do not fix it, as a share of the largest precision."""


@dataclass(frozen=True, eq=False, repr=False)
class Guide(Concise):
    """What an expert says about one object: `points (v, 2)` of the shape that agrees best, and its sightings.

    `sightings` (of one object, in its image) are as the expert has them. In `heeded` those that the shape model
    cannot agree with have less precision: it is these that the fit hears.
    """

    points: Float64
    sightings: Sightings
    heeded: Sightings


Looking = Callable[[Sequence[Image], Float64, int], Sightings]
"""What looks at images about shapes `(B, v, 2)`, as `Expert.look` does; what it sees may lie on a device."""


def guides(
    model: Model,
    expert: Expert,
    images: Sequence[Image],
    starts: Sequence[Floats],
    look: Looking | None = None,
) -> list[Guide | None]:
    """What an expert says about the object at each of the starts `(v, 2)`; nothing where it sees nothing.

    `look` looks in its place, from a device: then the shapes are fitted there too.
    """
    finest = model.levels[-1]
    shape, noise = finest.shape, model_noise(model, finest)
    points = [np.asarray(start, dtype=np.float64) for start in starts]
    found: list[Guide | None] = [None] * len(points)
    rows = list(range(len(points)))
    for number in range(expert.looks):
        here = np.array([points[k] for k in rows])
        seen = (look or expert.look)([images[k] for k in rows], here, number)
        kept = np.flatnonzero(on_host(_seeing(seen)))
        if not len(kept):
            break
        rows, seen = [rows[k] for k in kept], seen.of(kept)
        fitted, weights = shape_of_sightings(shape, noise, seen, here[kept])
        heeded = Sightings(seen.points, seen.precision * weights[:, :, None, None]).on_host()
        fitted, seen = on_host(fitted), seen.on_host()
        sides = np.array([max(images[k].shape[:2]) for k in rows])
        fine = can_be_looked_at(shape.mean, fitted, sides)
        for row in np.flatnonzero(fine):
            k = rows[row]
            points[k] = fitted[row]
            found[k] = Guide(points[k], seen.of([int(row)]), heeded.of([int(row)]))
    return found


def _seeing(seen: Sightings) -> Array:
    """Of which objects something is seen `(B,)`."""
    xp = namespace(seen.points)
    numbers = xp.concatenate([part.reshape(len(seen), -1) for part in (seen.points, seen.precision)], axis=1)
    return xp.isfinite(numbers).all(axis=1) & seen.seen.any(axis=1)


def shape_of_sightings(
    shape: ShapeModel, noise: Floats, sightings: Sightings, starts: Floats
) -> tuple[Float64, Float64]:
    """Shapes `(B, v, 2)` that agree best with sightings and prior, and the weights `(B, v)` of the sightings.

    The similarity is free; where the sightings do not fix it, that of the starts `(B, v, 2)` stays. `noise
    (v, 2, 2)` is that of landmarks about the shape, in its frame. Sightings have Student's distribution: those
    that are off weigh less. They may lie on a device: then everything does.
    """
    xp = namespace(sightings.points)
    points = in_double(beside(np.asarray(starts), sightings.points))
    weights = full(points.shape[:2], 1.0, points)
    prior = beside(np.diag(np.concatenate([np.zeros(SIMILARITY), 1 / shape.eigenvalues])), points)
    for number in range(_ROUNDS):
        # In the frame of the mean, modes have their variances, and a small similarity is linear.
        placed = align(shape.mean, points)
        here = about_the_shape(sightings.moved(placed.inverse()), noise)
        if number >= _TRUSTING:
            apart = placed.inverse().apply(points) - here.points
            distances = xp.einsum("bvi,bvij,bvj->bv", apart, here.precision, apart)
            weights = (_FREEDOM + 2) / (_FREEDOM + distances)
        term = landmark_term(shape, Sightings(here.points, here.precision * weights[:, :, None, None]))
        matrix = term.hessian + prior
        largest = xp.amax(xp.diagonal(matrix, 0, 1, 2), axis=1)
        damped = matrix + (_DAMPING * largest)[:, None, None] * identity(shape.parameters, points)
        points = placed.apply(shape.instance(solutions(damped, term.linear)))
    return points, xp.clip(weights, None, 1.0)


def model_noise(model: Model, level: Level) -> Float64:
    """Covariances `(v, 2, 2)` of landmarks about the shapes of a level, in its frame."""
    # What is learned of noise is that of the finest level; coarser ones have fewer modes, and so more of it.
    if model.shape_noise is not None and level is model.levels[-1]:
        return model.shape_noise
    return shape_noise(level.shape)


def term_in_views(
    model: Model,
    level: Level,
    origins: Float64,
    scales: Float64,
    angles: Float64,
    heard: Sequence[Guide],
    unit: float,
) -> LandmarkTerm:
    """What the expert adds to the cost of fits at a level; `unit` is that of the cost.

    Each is in its view, with these origins `(B, 2)`, scales `(B,)` and angles `(B,)`.
    """
    factors = scales * np.exp(-1j * angles)
    seen = together([guide.heeded for guide in heard]).moved(
        Similarity(factors, -factors * (origins[:, 0] + 1j * origins[:, 1]))
    )
    said = about_the_shape(seen, model_noise(model, level))
    return landmark_term(level.shape, said, model.expert_weight * unit)


def landmarks_of(model: Model, fitted: Floats, heard: Sequence[Guide]) -> Float64:
    """Landmarks `(B, v, 2)` in the images given the fitted shapes `(B, v, 2)` there, and what was seen."""
    finest = model.levels[-1]
    noise = model_noise(model, finest)
    return posterior_points(finest.shape, noise, fitted, together([guide.heeded for guide in heard]))


def spread_of(model: Model, points: Floats, heard: Sequence[Guide], covariances: Floats) -> Float64:
    """Covariances `(B, v, 2, 2)` of landmarks `points (B, v, 2)`, if the fitted shapes have these in the images."""
    finest = model.levels[-1]
    noise, seen = model_noise(model, finest), together([guide.heeded for guide in heard])
    return posterior_covariance(finest.shape, noise, points, seen, covariances)


def agree(found: Floats, led: Sequence[Floats]) -> bool:
    """Whether coarse levels have found `(v, 2)` one of the shapes `(v, 2)` that an expert led to."""
    gaps = (np.linalg.norm(found - points, axis=-1).mean() / shape_size(points) for points in led)
    return bool(min(gaps, default=np.inf) < _AGREEING)


def coarse_levels(model: Model) -> int:
    """How many levels are coarser than those that choose between places; the finest is never one of them."""
    return sum(level.scale < CHOOSING for level in model.levels[:-1])


def first_level(model: Model, places: int) -> int:
    """The coarsest level that is fitted where an expert has led to so many places in an image.

    One place needs the finest level alone. On faces, coarser ones before it took twice the time and changed the
    error by 1 % at most, from experts that err by 1 to 5 % of the size: docs/decisions/0012.
    """
    finest = len(model.levels) - 1
    return finest if places == 1 else coarse_levels(model)
