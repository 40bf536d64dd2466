"""Two annotations of the same images: how far apart they are, and how much of all variation is the annotators'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pliant.arrays import Concise, Float64, Floats
from pliant.data.dataset import Dataset
from pliant.shape import shape_size
from pliant.shape.variance import ShapeVariance, procrustes_variance

_FEWEST = 3
"""Images that must be complete in both for an analysis of variance, and landmarks that they must have."""


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Concise):
    """Two annotations of the same k images with v landmarks; the second is compared with the first.

    Parameters
    ----------
    images : tuple of str, length k
        The names of the images that both have.
    first, second : ndarray, shape (k, v, 2)
        The landmarks; nan where one is missing.
    names : tuple of str
        The names of the landmarks, if they have any.
    only_first, only_second : tuple of str
        The images that the other lacks.
    variance : ShapeVariance or None
        The Procrustes analysis of variance; None if fewer than three images are complete in both.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> moved = [pliant.Sample(one.name, one.image, lambda one=one: one.points() + [1, 0]) for one in faces]
    >>> again = pliant.Dataset(tuple(moved), "annotated again")
    >>> found = pliant.data.compare_datasets(faces, again)
    >>> found.distances.shape, found.mean_distance.shape, found.most_distance.shape, found.of_images.shape
    ((12, 68), (68,), (68,), (12,))
    >>> found.bias.round(6)[0].tolist(), found.bias_chance.shape, len(found.worst_first)
    ([1.0, 0.0], (68,), 12)

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
        """The distances between the annotations in pixels, `(k, v)`; nan where a landmark is missing."""
        return np.asarray(np.linalg.norm(self.second - self.first, axis=-1))

    @property
    def mean_distance(self) -> Float64:
        """The mean distance at each landmark, `(v,)`."""
        return _over_images(np.mean, self.distances)

    @property
    def most_distance(self) -> Float64:
        """The distance at each landmark that 95 of 100 images stay below, `(v,)`."""
        return _over_images(lambda values: np.quantile(values, 0.95), self.distances)

    @property
    def bias(self) -> Float64:
        """The mean vector from the first annotation to the second, `(v, 2)`."""
        off = self.second - self.first
        return np.stack([_over_images(np.mean, off[:, :, axis]) for axis in (0, 1)], axis=-1)

    @property
    def bias_chance(self) -> Float64:
        """The probability of such a bias by chance, `(v,)`, from Hotelling's test; nan for few images."""
        return np.array([_hotelling(row) for row in np.swapaxes(self.second - self.first, 0, 1)])

    @property
    def of_images(self) -> Float64:
        """The mean distance in each image as a share of the object's size, `(k,)`."""
        sizes = np.array([_size(one, two) for one, two in zip(self.first, self.second, strict=True)])
        return _over_images(np.mean, (self.distances / sizes[:, None]).T)

    @property
    def worst_first(self) -> tuple[int, ...]:
        """The numbers of the images, those with the largest distance first."""
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
            f"both annotations must have the same landmarks: {one.shape} and {two.shape} differ."
        )
    complete = ~np.isnan(np.concatenate([one, two], axis=1)).any(axis=(1, 2))
    variance = None
    if np.sum(complete) >= _FEWEST and one.shape[1] >= _FEWEST:
        variance = procrustes_variance(np.stack([one[complete], two[complete]]))
    return Agreement(tuple(images), one, two, tuple(names), tuple(only_first), tuple(only_second), variance)


def compare_datasets(first: Dataset, second: Dataset) -> Agreement:
    """Compare two annotations of the same images.

    Images are matched by their names: with their folders if these agree, otherwise without, and at last without
    their endings.

    Parameters
    ----------
    first, second : Dataset
        The two annotations. They must have the same landmarks.

    Returns
    -------
    Agreement
        How far apart they are, for the images that both have.

    Raises
    ------
    ValueError
        If they have no image in common, or an image has different landmarks in both.

    Examples
    --------
    >>> import pliant
    >>> found = pliant.data.compare_datasets(pliant.load_dataset("photographs/"), pliant.load_dataset("labels.xml"))
    >>> len(found.images), bool(found.mean_distance.max() < 1)  # dlib rounds
    (12, True)

    """
    one, two = _annotated(first), _annotated(second)
    pairs, only_first, only_second = match_names(list(one), list(two))
    if not pairs:
        raise ValueError(
            f"{first.source} and {second.source} have no image in common: images are matched by name."
        )
    counts = Counter(len(one[a][0]) for a, _ in pairs)
    usual = counts.most_common(1)[0][0]
    for a, b in pairs:
        if len(one[a][0]) != len(two[b][0]) or len(one[a][0]) != usual:
            raise ValueError(
                f"{a}: has {len(one[a][0])} landmarks in {first.source} and {len(two[b][0])} in "
                f"{second.source}, but most have {usual}: only the same landmarks can be compared."
            )
    names = one[pairs[0][0]][1]
    order = same_order(names, two[pairs[0][1]][1])
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


def same_order(first: Sequence[str], second: Sequence[str]) -> list[int] | slice:
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
