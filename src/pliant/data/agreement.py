"""Two annotations of the same images: how far apart they are, and how much of all variation is the annotators'.

The analysis of variance is that of Procrustes shapes (Goodall 1991; Klingenberg and McIntyre 1998): all shapes of
all annotators are brought to one mean, and their squared distances from it are split into what differs between
objects, what differs between annotators everywhere alike, and the rest. A shape of v landmarks has 2v - 4 degrees
of freedom. Repeatability is the intraclass correlation of one annotation (Fruciano 2016): the share of the variance
that a second annotator would find again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pliant.arrays import Concise, Float64, Floats
from pliant.data.dataset import Dataset
from pliant.shape import generalised_procrustes, shape_size
from pliant.shape.facing import facing_alike, find_mirrored

_TRIALS = 999
"""Random signs that the annotators' bias is compared with."""

_FEWEST = 3

_CONCENTRATED = 0.1
"""If half of the disagreement is in this share of the images or less, that is said."""


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

    """

    objects: Variation
    annotators: Variation
    rest: Variation
    repeatability: float
    systematic: float
    images: int
    half: int

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
            else "Differences between objects are still far larger than between annotators."
            if share < 0.2
            else "Much of what looks like variation is disagreement: agree on what the landmarks are."
        )
        bias = ""
        if self.annotators.chance is not None and self.annotators.chance < 0.05:
            bias = (
                f" {_percent(self.systematic)} is a difference that is alike in all images: the two do not mean "
                "quite the same places."
            )
        if self.half <= _CONCENTRATED * self.images:
            where = "1 image has" if self.half == 1 else f"{self.half} images have"
            bias += f" {where} half of all disagreement: look there first, for mistakes."
        return (
            f"{_percent(share)} of the variation in shape is the annotators', and "
            f"{_percent(self.repeatability)} is between the objects (repeatability "
            f"{self.repeatability:.2f}, {self.images} images).{bias} {verdict}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Concise):
    """Two annotations of the same k images with v landmarks, the second compared with the first.

    Parameters
    ----------
    images
        Names of the images that both have, `(k,)`.
    first, second
        Landmarks `(k, v, 2)`; nan where one is missing.
    names
        Of the landmarks, if they have any.
    only_first, only_second
        Images that the other has not.
    variance
        None if fewer than three images are complete in both.

    """

    images: tuple[str, ...]
    first: Float64
    second: Float64
    names: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    variance: ShapeVariance | None

    @property
    def distances(self) -> Float64:
        """How far apart the two are, in pixels, `(k, v)`; nan where a landmark is missing in one of them."""
        return np.asarray(np.linalg.norm(self.second - self.first, axis=-1))

    @property
    def mean_distance(self) -> Float64:
        """The mean distance of each landmark, `(v,)`."""
        return _over_images(np.mean, self.distances)

    @property
    def most_distance(self) -> Float64:
        """The distance of each landmark that 95 of 100 images stay below, `(v,)`."""
        return _over_images(lambda values: np.quantile(values, 0.95), self.distances)

    @property
    def bias(self) -> Float64:
        """How far the second annotator is from the first on average, `(v, 2)`."""
        off = self.second - self.first
        return np.stack([_over_images(np.mean, off[:, :, axis]) for axis in (0, 1)], axis=-1)

    @property
    def bias_chance(self) -> Float64:
        """The probability of such a bias if there were none, `(v,)`, by Hotelling's test; nan for few images."""
        return np.array([_hotelling(row) for row in np.swapaxes(self.second - self.first, 0, 1)])

    @property
    def of_images(self) -> Float64:
        """The mean distance in each image as a share of the object's size, `(k,)`."""
        sizes = np.array([_size(one, two) for one, two in zip(self.first, self.second, strict=True)])
        return _over_images(np.mean, (self.distances / sizes[:, None]).T)

    @property
    def worst_first(self) -> tuple[int, ...]:
        """Numbers of the images, those first in which the two are furthest apart."""
        order = np.argsort(-np.nan_to_num(self.of_images, nan=-1.0), kind="stable")
        return tuple(int(number) for number in order)


def compare(
    images: Sequence[str],
    first: Floats,
    second: Floats,
    names: Sequence[str] = (),
    only_first: Sequence[str] = (),
    only_second: Sequence[str] = (),
) -> Agreement:
    """How two annotations `(k, v, 2)` of the same images agree; nan where a landmark is missing.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> first = np.array([face.points() for face in pliant.synthetic.faces(20)])
    >>> second = first + np.random.default_rng(0).normal(0, 0.5, first.shape)
    >>> found = compare([str(number) for number in range(20)], first, second)
    >>> round(float(found.mean_distance.mean()), 1), found.variance.repeatability > 0.9
    (0.6, True)

    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != two.shape or one.ndim != 3:
        raise ValueError(
            f"the two annotations must have the same landmarks: {one.shape} and {two.shape} differ."
        )
    complete = ~np.isnan(np.concatenate([one, two], axis=1)).any(axis=(1, 2))
    variance = None
    if np.sum(complete) >= _FEWEST and one.shape[1] >= _FEWEST:
        variance = procrustes_variance(np.stack([one[complete], two[complete]]))
    return Agreement(tuple(images), one, two, tuple(names), tuple(only_first), tuple(only_second), variance)


def compare_datasets(first: Dataset, second: Dataset) -> Agreement:
    """How two data sets agree in the images that both have, which are known by their names.

    Names are compared with their folders if these are alike, else without, and then without their endings.
    """
    one, two = _annotated(first), _annotated(second)
    pairs, only_first, only_second = match_names(list(one), list(two))
    if not pairs:
        raise ValueError(
            f"{first.source} and {second.source} have no image in common: images are known by their names."
        )
    counts = Counter(len(one[a][0]) for a, _ in pairs)
    usual = counts.most_common(1)[0][0]
    for a, b in pairs:
        if len(one[a][0]) != len(two[b][0]) or len(one[a][0]) != usual:
            raise ValueError(
                f"{a}: has {len(one[a][0])} landmarks in {first.source} and {len(two[b][0])} in {second.source}, "
                f"where most have {usual}: only the same landmarks can be compared."
            )
    names = one[pairs[0][0]][1]
    order = _same_order(names, two[pairs[0][1]][1])
    return compare(
        [a for a, _ in pairs],
        np.array([one[a][0] for a, _ in pairs]),
        np.array([two[b][0][order] for _, b in pairs]),
        names,
        only_first,
        only_second,
    )


def match_names(
    first: Sequence[str], second: Sequence[str]
) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Pairs of names that mean one image, and those left over in either list.

    Names that are the same are paired; then those whose last parts are, and then without endings, if that is so of
    one name in each list.
    """
    pairs: dict[str, str] = {}
    for shortened in (str, lambda name: PurePosixPath(name).name, lambda name: PurePosixPath(name).stem):
        ones = _single(shortened, [name for name in first if name not in pairs])
        taken = set(pairs.values())
        twos = _single(shortened, [name for name in second if name not in taken])
        pairs.update({ones[short]: twos[short] for short in ones.keys() & twos.keys()})
    taken = set(pairs.values())
    return (
        [(name, pairs[name]) for name in first if name in pairs],
        [name for name in first if name not in pairs],
        [name for name in second if name not in taken],
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
        raise ValueError("an analysis of variance needs two objects or more, and each of them twice or more.")
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
    own = max((mean_squares[0] - within) / repeats, 0.0)
    whole = max(own + within, 1e-300)
    systematic = max((mean_squares[1] - mean_squares[2]) / objects, 0.0)
    apart = np.sort(np.sum((data - data.mean(axis=0)) ** 2, axis=(0, 2)))[::-1]
    return ShapeVariance(
        _row("objects", between, freedom[0], mean_squares[2], freedom[2]),
        _row("annotators", side, freedom[1], mean_squares[2], freedom[2], _bias_chance(data)),
        Variation("rest", rest, freedom[2], mean_squares[2]),
        repeatability=own / whole if own else 0.0,
        systematic=min(systematic / whole, 1.0),
        images=objects,
        half=int(np.searchsorted(np.cumsum(apart), 0.5 * np.sum(apart))) + 1,
    )


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
            squares = float(np.sum(rng.permuted(off, axis=0).mean(axis=1) ** 2))
        as_large += squares >= own * (1 - 1e-12)
    return as_large / (_TRIALS + 1)


def _hotelling(differences: Float64) -> float:
    """The probability of a mean difference `(n, 2)` as large if the true one is none."""
    from scipy.stats import f as fisher

    known = differences[~np.isnan(differences).any(axis=1)]
    count = len(known)
    if count < 4:
        return float("nan")
    mean = known.mean(axis=0)
    covariance = np.cov(known.T) + 1e-12 * np.eye(2)
    square = count * float(mean @ np.linalg.solve(covariance, mean))
    return float(fisher.sf(square * (count - 2) / (2 * (count - 1)), 2, count - 2))


def _annotated(dataset: Dataset) -> Mapping[str, tuple[Float64, tuple[str, ...]]]:
    """Landmarks and their names by the name of the sample, of samples that have any."""
    found = {}
    for sample in dataset:
        if sample.points_source is not None:
            annotation = sample.annotation()
            names = annotation.names if len(annotation.names) == len(annotation.points) else ()
            found[sample.name] = annotation.points, names
    return found


def _same_order(first: Sequence[str], second: Sequence[str]) -> list[int] | slice:
    """Where in the second the landmarks of the first are, if all have names and these are the same."""
    if first and sorted(first) == sorted(second) and len(set(first)) == len(first):
        return [list(second).index(name) for name in first]
    return slice(None)


def _single(shortened: Callable[[str], str], names: Sequence[str]) -> dict[str, str]:
    """Names by their short form, of those that no other shares."""
    shorts = [shortened(name) for name in names]
    counts = Counter(shorts)
    return {short: name for short, name in zip(shorts, names, strict=True) if counts[short] == 1}


def _over_images(summary: Callable[[Float64], Any], values: Float64) -> Float64:
    """A summary of each column of values `(k, v)` without those that are nan; nan where all are."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return np.array([summary(column) if len(column) else np.nan for column in columns])


def _size(one: Float64, two: Float64) -> float:
    points = np.concatenate([one, two])
    points = points[~np.isnan(points).any(axis=1)]
    return max(float(shape_size(points)), 1e-9) if len(points) else np.nan


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 or share > 0.9 else f"{share:.0%}"
