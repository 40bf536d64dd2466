"""Which landmarks are wrong: those that stand out from what the right ones of the same image let expect.

A landmark is wrong if it is so far off that one faultless image in two hundred would have such a one. How far that
is depends on how fast large deviations become rare, which is measured: scores s are taken for distributed as
P(s > t) = exp(-(t/a)^k), with a and k from the median and from what a tenth of them are above. Gaussian deviations
have k = 2; those of faces with expressions have less. Limits were chosen on the training sets of LFPW and Helen, so
that no more than 2 % of their images are flagged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float64
from pliant.data.suspects.usual import Bools, Judged, Shapes, gaussian, judge, robust_poses, scores_of
from pliant.shape import Similarity, generalised_procrustes, shape_size

_FOLDS = 10
_ROUNDS = 3
_RARE = 0.005
"""The share of images without fault in which a landmark may be taken for wrong."""

_FAR = 5.0
"""How many times the usual distance from the mean makes a landmark wrong, before there is a model."""

LEAST, LEAST_PIXELS = 0.025, 1.5
"""A landmark is not wrong if it is off by less than this share of the object, or by fewer pixels: nobody clicks
more exactly."""

_SLOWER = 2.5
"""Far out, deviations become rare more slowly than they do up to a tenth: what k lacks to 2 is counted so often."""

_LOOKED_AT = 0.75
"""Images with a landmark at this share of the limit are looked at closely."""

_MEDIAN = float(np.sqrt(2 * np.log(2)))
"""The median of the length of a Gaussian vector of two numbers."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What is wrong in shapes `(k, v, 2)`; `filled` has what is wrong or missing where the others put it.

    `wrong (k, v)` says which landmarks, `hopeless (k,)` which shapes have too many of them to tell. A shape's
    model is `models[fold_of[k]]`; `usual (v,)` is what scores are divided by to be 1 for a standard deviation, and
    from `limit` on a landmark is wrong. `overall (k,)` is how far all right landmarks of a shape are off together,
    as a root mean square that is usually 1.
    """

    shapes: Float64
    filled: Float64
    known: Bools
    models: tuple[Shapes, ...]
    fold_of: np.ndarray
    usual: Float64
    limit: float
    wrong: Bools
    hopeless: Bools
    overall: Float64

    def judged(self, number: int, wrong: Bools | None = None) -> Judged:
        """Shape `number` as its right landmarks see it; landmarks that are missing have no say."""
        none = self.wrong[number] if wrong is None else wrong
        model = self.models[self.fold_of[number]]
        seen = judge(model, self.shapes[number], none | ~self.known[number])
        off = np.linalg.norm(seen.placed - seen.expected, axis=-1)
        near = off < max(LEAST * float(shape_size(model.mean)), LEAST_PIXELS / float(seen.pose.scale))
        scores = seen.scores / self.usual
        return replace(seen, scores=np.where(near, np.minimum(scores, 1.0), scores))


@dataclass(frozen=True, eq=False)
class Beginning:
    """The mean `(v, 2)` that most shapes agree on, and the poses `(k,)` of shapes that most landmarks agree on.

    `distances (k, v)` of the landmarks are in the mean's frame.
    """

    mean: Float64
    poses: Similarity
    distances: Float64


def beginning(shapes: Float64, known: Bools) -> Beginning:
    """Where the shapes `(k, v, 2)` are, as far as the landmarks that are `known (k, v)` agree."""
    mean, _ = generalised_procrustes(shapes)
    for _ in range(3):
        poses, _ = robust_poses(mean, shapes, known)
        mean = np.nanmedian(np.where(known[:, :, None], poses.inverse().apply(shapes), np.nan), axis=0)
    return Beginning(mean, *robust_poses(mean, shapes, known))


def find_wrong(
    shapes: Float64,
    known: Bools,
    begun: Beginning,
    apart: Bools,
    advance: Callable[[], None] = lambda: None,
) -> Findings:
    """Wrong landmarks of shapes `(k, v, 2)`.

    `known (k, v)` says which landmarks are there; shapes set `apart (k,)` teach nothing.
    """
    count = len(shapes)
    fold_of = np.random.default_rng(0).permutation(count) % _FOLDS
    away = begun.distances / np.maximum(np.nanmedian(begun.distances, axis=0), 1e-9)
    wrong = far = known & (np.nan_to_num(away) > _FAR)
    filled = np.where((wrong | ~known)[:, :, None], begun.poses.apply(begun.mean), shapes)
    usual = np.ones(shapes.shape[1])
    hopeless = _hopeless(wrong, known)
    found = Findings(shapes, filled, known, (), fold_of, usual, np.inf, wrong, hopeless, np.zeros(count))
    for turn in range(_ROUNDS):
        teaching = ~(found.hopeless | apart)
        models = tuple(gaussian(filled[teaching & (fold_of != fold)]) for fold in range(_FOLDS))
        scores = np.zeros(shapes.shape[:2])
        for fold, model in enumerate(models):
            scores[fold_of == fold] = scores_of(model, filled[fold_of == fold])
        trusted = known & ~found.wrong & teaching[:, None]
        # Before the last round the limit is that of Gaussian deviations: too strict, so that no error is left that
        # would make deviations look more frequent than they are.
        usual, limit = _calibrated(np.where(trusted, scores, np.nan), gaussian=turn < _ROUNDS - 1)
        found = replace(found, models=models, usual=usual, limit=limit)
        overall = np.sqrt(np.mean((scores / usual) ** 2, axis=1) / 2)
        share = _LOOKED_AT if turn == _ROUNDS - 1 else 1.0
        looked_at = np.any(found.wrong | (scores / usual > share * limit), axis=1)
        filled = np.where(known[:, :, None], shapes, filled)
        wrong, hopeless = np.zeros_like(wrong), np.zeros_like(hopeless)
        for number in np.flatnonzero(looked_at):
            wrong[number], seen = _searched(found, int(number), far[number])
            hopeless[number] = _hopeless(wrong[number], known[number])
            lacking = wrong[number] | ~known[number]
            filled[number, lacking] = seen.pose.apply(seen.expected)[lacking]
            some = known[number] if hopeless[number] else ~lacking
            overall[number] = np.sqrt(np.mean(seen.scores[some] ** 2) / 2)
            advance()
        found = replace(found, filled=filled, wrong=wrong, hopeless=hopeless, overall=overall)
    return found


def _hopeless(wrong: Bools, known: Bools) -> Bools:
    """Whether so many of the known landmarks are wrong that nobody can tell which."""
    left = np.sum(known & ~wrong, axis=-1)
    return np.asarray(left < np.maximum(3, 0.5 * np.sum(known, axis=-1)))


def _calibrated(scores: Float64, gaussian: bool) -> tuple[Float64, float]:
    """The usual `(v,)` of scores `(k, v)`, and the limit in multiples of it."""
    usual = np.maximum(np.nanmedian(scores, axis=0) / _MEDIAN, 1e-9)
    relative = (scores / usual)[~np.isnan(scores)]
    half, tenth = np.quantile(relative, (0.5, 0.9))
    exponent = np.log(np.log(10) / np.log(2)) / np.log(max(tenth / half, 1.01))
    exponent = 2.0 if gaussian else np.clip(2 - _SLOWER * (2 - exponent), 1.0, 2.0)
    rare = _RARE / scores.shape[1]
    return usual, float(half * (np.log(1 / rare) / np.log(2)) ** (1 / exponent))


def _searched(found: Findings, number: int, far: Bools) -> tuple[Bools, Judged]:
    """The wrong landmarks of a shape: the fewest without which the others fit, from several beginnings."""
    none = np.zeros_like(far)
    starts = {start.tobytes(): start for start in (none, far, found.wrong[number])}
    starts = {key: start for key, start in starts.items() if not _hopeless(start, found.known[number])}
    outcomes = [_improved(found, number, start) for start in starts.values()]
    usual = float(np.median(found.usual)) ** 2
    costs = [seen.cost / usual + found.limit**2 * np.sum(wrong) for wrong, seen in outcomes]
    return outcomes[int(np.argmin(costs))]


def _improved(found: Findings, number: int, start: Bools) -> tuple[Bools, Judged]:
    """One landmark after the other is taken out or back in, the clearest case first; all, if too few are left."""
    known = found.known[number]
    wrong = start.copy()
    seen = found.judged(number, wrong)
    back = np.zeros_like(wrong)
    for _ in range(3 * len(wrong)):
        out = np.where(known & ~wrong & ~back, seen.scores, 0.0)
        worst = int(np.argmax(out))
        if out[worst] > found.limit:
            wrong[worst] = True
            if _hopeless(wrong, known):
                return known, seen
        else:
            again = np.where(wrong, seen.scores, np.inf)
            best = int(np.argmin(again))
            if again[best] >= found.limit:
                break
            # What came back stays: so the search ends.
            wrong[best], back[best] = False, True
        seen = found.judged(number, wrong)
    return wrong, seen
