"""How much of the variation in shape is the objects', and how much is that of whoever annotated them.

The analysis of variance is that of Procrustes shapes (Goodall 1991; Klingenberg and McIntyre 1998): all shapes of
all annotators are brought to one mean, and their squared distances from it are split into what differs between
objects, what differs between annotators everywhere alike, and the rest. A shape of v landmarks has 2v - 4 degrees
of freedom. Repeatability is the intraclass correlation of one annotation (Fruciano 2016): the share of the variance
that a second annotator would find again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pliant.arrays import Concise, Float64, Floats
from pliant.shape.facing import facing_alike, find_mirrored
from pliant.shape.procrustes import generalised_procrustes

_TRIALS = 999
"""Random signs that the annotators' bias is compared with."""

_CONCENTRATED = 0.1
"""If half of the disagreement is in this share of the images or less, that is said."""

_ROUNDING = 1e-12
"""A smaller share of all squares is none."""


@dataclass(frozen=True)
class Variation:
    """A row of an analysis of variance; `ratio` is F, and `chance` the probability of one as large by chance."""

    source: str
    squares: float
    freedom: int
    mean_square: float
    ratio: float | None = None
    chance: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ShapeVariance(Concise):
    """A Procrustes analysis of variance of k objects, each annotated r times.

    Parameters
    ----------
    objects, annotators, rest
        The rows. Squares are of shapes with a centroid size of 1. `rest` is what an annotator does differently from
        object to object.
    repeatability
        The intraclass correlation: the share of the variance of one annotation that the objects have.
    systematic
        The share of the variance that the annotators differ by everywhere alike.
    images
        So many objects were annotated completely each time.
    half
        The fewest objects that have half of all disagreement. If they are few, they are mistakes rather than
        differences of opinion.
    without
        The repeatability without these objects, if they are few.

    """

    objects: Variation
    annotators: Variation
    rest: Variation
    repeatability: float
    systematic: float
    images: int
    half: int
    without: float | None = None

    @property
    def annotator_share(self) -> float:
        """The share of the variance that is not the objects'."""
        return 1 - self.repeatability

    @property
    def sentence(self) -> str:
        """What it means, in words."""
        share = self.annotator_share
        verdict = (
            "The annotations agree well."
            if share < 0.05
            else "Differences between objects are still much larger than between annotators."
            if share < 0.2
            else "Much of the apparent variation is disagreement: agree on what the landmarks are."
        )
        bias = ""
        if self.annotators.chance is not None and self.annotators.chance < 0.05:
            bias = (
                f" {_percent(self.systematic)} is a difference that is the same in all images: the "
                "annotators place landmarks differently."
            )
        if self.without is not None:
            where = "1 image has" if self.half == 1 else f"{self.half} images have"
            verdict = (
                f"{where} half of all disagreement: look there for mistakes. Without "
                f"{'it' if self.half == 1 else 'them'}, the annotators' share is "
                f"{_percent(1 - self.without)}."
            )
        return (
            f"{_percent(share)} of the variation in shape comes from the annotators, and "
            f"{_percent(self.repeatability)} from the objects (repeatability {self.repeatability:.2f}, "
            f"{self.images} images).{bias} {verdict}"
        )


def procrustes_variance(shapes: Floats) -> ShapeVariance:
    """The Procrustes analysis of variance of shapes `(r, k, v, 2)`: r annotations of k objects.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> first = np.array([face.points() for face in pliant.synthetic.faces(20)])
    >>> table = procrustes_variance(np.stack([first, first]))
    >>> round(table.repeatability, 3), table.objects.freedom, table.rest.freedom
    (1.0, 2508, 2508)

    """
    repeats, objects, landmarks = shapes.shape[:3]
    if repeats < 2 or objects < 2:
        raise ValueError("an analysis of variance needs at least two objects, each annotated at least twice.")
    if landmarks < 3:
        raise ValueError(
            f"an analysis of variance of shapes needs at least three landmarks, but there are {landmarks}."
        )
    flat = np.asarray(shapes, dtype=np.float64).reshape(-1, landmarks, 2)
    _, aligned = generalised_procrustes(facing_alike(flat, find_mirrored(flat)))
    # The mean has a root mean square of 1; centroid size is the root of the sum.
    data = (aligned / np.sqrt(landmarks)).reshape(repeats, objects, -1)
    grand = data.mean(axis=(0, 1))
    dimension = 2 * landmarks - 4
    total = float(np.sum((data - grand) ** 2))
    between = repeats * float(np.sum((data.mean(axis=0) - grand) ** 2))
    side = objects * float(np.sum((data.mean(axis=1) - grand) ** 2))
    rest = max(total - between - side, 0.0)
    freedom = (
        (objects - 1) * dimension,
        (repeats - 1) * dimension,
        (objects - 1) * (repeats - 1) * dimension,
    )
    mean_squares = [squares / count for squares, count in zip((between, side, rest), freedom, strict=True)]
    within = (side + rest) / (freedom[1] + freedom[2])
    whole = max((mean_squares[0] - within) / repeats, 0.0) + within
    systematic = max((mean_squares[1] - mean_squares[2]) / objects, 0.0)
    apart = np.sum((data - data.mean(axis=0)) ** 2, axis=(0, 2))
    worst = np.argsort(-apart)
    half = int(np.searchsorted(np.cumsum(apart[worst]), 0.5 * np.sum(apart))) + 1
    # Rounding is no disagreement.
    few = half <= _CONCENTRATED * objects and float(np.sum(apart)) > _ROUNDING * total
    return ShapeVariance(
        _row("objects", between, freedom[0], mean_squares[2], freedom[2]),
        _row("annotators", side, freedom[1], mean_squares[2], freedom[2], _bias_chance(data)),
        Variation("rest", rest, freedom[2], mean_squares[2]),
        repeatability=_repeatability(data, dimension),
        systematic=min(systematic / max(whole, 1e-300), 1.0),
        images=objects,
        half=half,
        without=_repeatability(data[:, worst[half:]], dimension) if few else None,
    )


def _repeatability(data: Float64, dimension: int) -> float:
    """The intraclass correlation of aligned shapes `(r, k, 2v)` with so many degrees of freedom each."""
    repeats, objects = data.shape[:2]
    middle = data.mean(axis=0)
    within = float(np.sum((data - middle) ** 2)) / (objects * (repeats - 1) * dimension)
    between = repeats * float(np.sum((middle - middle.mean(axis=0)) ** 2)) / ((objects - 1) * dimension)
    own = max((between - within) / repeats, 0.0)
    return own / (own + within) if own else 0.0


def _row(
    source: str, squares: float, freedom: int, error: float, left: int, chance: float | None = None
) -> Variation:
    from scipy.stats import f as fisher

    mean_square = squares / freedom
    ratio = mean_square / error if error > 1e-300 else np.inf
    if chance is None:
        chance = float(fisher.sf(ratio, freedom, left))
    return Variation(source, squares, freedom, mean_square, float(ratio), chance)


def _bias_chance(data: Float64) -> float:
    """How often the annotators differ as much if it is random, in each object, who is who.

    Landmarks do not vary independently, so the table of F would promise too much. `data` is `(r, k, 2v)`.
    """
    rng = np.random.default_rng(0)
    off = data - data.mean(axis=0)
    own = float(np.sum(off.mean(axis=1) ** 2))
    as_large = 1
    for _ in range(_TRIALS):
        if len(data) == 2:
            mean = rng.choice((-1.0, 1.0), data.shape[1]) @ off[0] / data.shape[1]
            squares = 2 * float(np.sum(mean**2))
        else:
            anybody = rng.permuted(np.tile(np.arange(len(data))[:, None], data.shape[1]), axis=0)
            squares = float(np.sum(np.take_along_axis(off, anybody[..., None], axis=0).mean(axis=1) ** 2))
        as_large += squares >= own * (1 - 1e-12)
    return as_large / (_TRIALS + 1)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 or share > 0.9 else f"{share:.0%}"
