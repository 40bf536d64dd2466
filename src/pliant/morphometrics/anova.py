r"""Procrustes analysis of variance of repeated measurements (Goodall 1991; Klingenberg and McIntyre 1998).

Squared distances between superimposed shapes are split like the squares of any analysis of variance, coordinate
by coordinate, and summed. Each source then has as many degrees of freedom as a univariate analysis gives it,
times those of a shape: 2v - 4, less one for each landmark that slides. The designs are

    individual + error                                    individuals measured repeatedly
    individual + observer + error                         all individuals measured by each observer
    individual + side + individual x side + error         both sides of each individual, measured repeatedly

With sides, `side` is directional asymmetry and `individual x side` fluctuating asymmetry. Both, and the
individuals, are compared with what stands below them: individual and side with individual x side, and that with
the error. Squares are sequential, in the order of the rows, where individuals have different numbers of
measurements.

Two probabilities stand beside each F. The one from the F distribution takes landmarks to vary independently and
alike in all directions, as Goodall's model does. That is seldom true, and it promises too much then. The other
one permutes: individuals among the measurements (of one observer, or side), observers or sides within
individuals, and for the interaction the residuals of the model without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats

Labels = NDArray[np.intp]
_SAME = 1e-12
_ROUNDING = 1e-24


@dataclass(frozen=True)
class AnovaRow:
    """A source of variation in an analysis of variance.

    `ratio`, `chance` and `permuted` are None if there is no row below to compare with.

    Attributes
    ----------
    source : str
        The source, such as `"individual"` or `"error"`.
    squares : float
        The sum of squares.
    share : float
        Its share of all squares.
    freedom : int
        The degrees of freedom.
    mean_square : float
        The sum of squares over the degrees of freedom.
    ratio : float or None
        The F ratio.
    chance : float or None
        The probability of such a ratio by chance, from the F distribution.
    permuted : float or None
        The same probability by permutation.

    Examples
    --------
    >>> import pliant
    >>> first = pliant.morphometrics.read_specimens("photographs/")
    >>> study = pliant.morphometrics.measure(pliant.morphometrics.join_sets([first, first]), permutations=0)
    >>> row = study.variance["size"].rows[0]
    >>> row.source, row.freedom
    ('individual', 11)

    """

    source: str
    squares: float
    share: float
    freedom: int
    mean_square: float
    ratio: float | None = None
    chance: float | None = None
    permuted: float | None = None


@dataclass(frozen=True)
class Anova:
    """An analysis of variance.

    Attributes
    ----------
    rows : tuple of AnovaRow
        The sources of variation, from the individuals down to the error.
    individuals : int
        How many individuals there are.
    measurements : int
        How many measurements there are in all.
    repeatability : float or None
        The intraclass correlation of a single measurement: the share of the variance that a second one would find
        again. With sides, each side of an individual counts as an object of its own. None if nothing was measured
        twice.

    Examples
    --------
    >>> import pliant
    >>> first = pliant.morphometrics.read_specimens("photographs/")
    >>> study = pliant.morphometrics.measure(pliant.morphometrics.join_sets([first, first]), permutations=0)
    >>> table = study.variance["size"]
    >>> table.individuals, table.measurements, round(table.repeatability, 6), abs(round(table.measurement_error, 6))
    (12, 24, 1.0, 0.0)

    """

    rows: tuple[AnovaRow, ...]
    individuals: int
    measurements: int
    repeatability: float | None

    @property
    def measurement_error(self) -> float | None:
        """The share of the variance of a single measurement that is error; None if nothing was measured twice."""
        return None if self.repeatability is None else 1 - self.repeatability


def procrustes_anova(
    coordinates: Floats,
    individuals: Sequence[str],
    *,
    sides: Sequence[str] = (),
    observers: Sequence[str] = (),
    freedom: int | None = None,
    permutations: int = 999,
    seed: int = 0,
) -> Anova:
    """Analyse how much of the variation in shape is between individuals, and how much is measurement error.

    Parameters
    ----------
    coordinates : array, shape (n, v, 2) or (n,)
        Procrustes coordinates of n measurements, superimposed together; or one number for each, such as centroid
        sizes.
    individuals : sequence of str, length n
        The individual of each measurement.
    sides : sequence of str, length n
        The side of each measurement, if you compare sides. Give this or `observers`.
    observers : sequence of str, length n
        Who measured it, or in which session, if each of them measured all individuals.
    freedom : int or None
        The degrees of freedom of a shape; 2v - 4 by default, and 1 for sizes.
    permutations : int
        The number of permutations; 0 for none.
    seed : int
        Another seed draws other permutations.

    Returns
    -------
    Anova
        Rows from the individuals down to the error, and the repeatability.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> faces = np.array([face.points() for face in pliant.load_dataset("photographs/")])
    >>> twice = np.concatenate([faces, faces + np.random.default_rng(0).normal(0, 0.2, faces.shape)])
    >>> shapes = pliant.morphometrics.superimpose(twice)
    >>> table = pliant.morphometrics.procrustes_anova(shapes.coordinates, [*range(12), *range(12)])
    >>> [(row.source, row.freedom) for row in table.rows], table.repeatability > 0.9
    ([('individual', 1452), ('error', 1584)], True)

    """
    given = np.asarray(coordinates, dtype=np.float64)
    data = given.reshape(len(given), -1)
    data = data - data.mean(axis=0)
    if freedom is None:
        freedom = 1 if given.ndim == 1 else data.shape[1] - 4
    if len(sides) and len(observers):
        raise ValueError(
            "give either sides or observers, not both: repeated measurements of sides are the error."
        )
    unit = _named("individuals", individuals, len(data))
    if len(unit.counts) < 2:
        raise ValueError("an analysis of variance needs at least two individuals.")
    crossed = None
    if len(sides) or len(observers):
        crossed = (
            _named("sides", sides, len(data)) if len(sides) else _named("observers", observers, len(data))
        )
    design = _design(unit, crossed, bool(len(sides)))
    rows = _rows(design, data, freedom, permutations, np.random.default_rng(seed))
    cells = unit if design.cells is None else design.cells
    return Anova(rows, len(unit.counts), len(data), _repeatability(cells, data, freedom))


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows in groups: `labels (n,)`, an `order` that brings them together, where each `starts`, and `counts`."""

    labels: Labels
    order: Labels
    starts: Labels
    counts: Labels

    def sums(self, data: Float64) -> Float64:
        return np.asarray(np.add.reduceat(data[self.order], self.starts, axis=0))

    def means(self, data: Float64) -> Float64:
        """The mean of its group for each row of data `(n, d)`."""
        return np.asarray((self.sums(data) / self.counts[:, None])[self.labels])

    def between(self, data: Float64) -> float:
        """Squares between groups of data `(n, d)`."""
        sums = self.sums(data)
        squares = np.sum(sums**2 / self.counts[:, None]) - np.sum(sums.sum(axis=0) ** 2) / len(data)
        return max(float(squares), 0.0)


@dataclass(frozen=True, eq=False)
class _Design:
    """Individuals, what is crossed with them, and both together where they interact.

    `columns (n, q)` are orthonormal, and span what the crossed factor adds to individuals.
    """

    individual: _Groups
    crossed: _Groups | None
    columns: Float64
    cells: _Groups | None
    name: str

    def squares(self, data: Float64) -> list[float]:
        """Of each source in order, the error last."""
        total = float(np.sum(data**2)) - float(np.sum(data.sum(axis=0) ** 2)) / len(data)
        found = [self.individual.between(data)]
        if self.crossed is not None:
            found.append(float(np.sum((self.columns.T @ data) ** 2)))
        if self.cells is not None:
            found.append(max(self.cells.between(data) - sum(found), 0.0))
        return [*found, max(total - sum(found), 0.0)]

    @property
    def freedom(self) -> list[int]:
        found = [len(self.individual.counts) - 1]
        if self.crossed is not None:
            found.append(self.columns.shape[1])
        if self.cells is not None:
            found.append(len(self.cells.counts) - 1 - sum(found))
        return [*found, len(self.individual.labels) - 1 - sum(found)]

    @property
    def sources(self) -> list[str]:
        found = ["individual"]
        if self.crossed is not None:
            found.append(self.name)
        if self.cells is not None:
            found.append("individual x side")
        return [*found, "error"]


def _design(individual: _Groups, crossed: _Groups | None, interacting: bool) -> _Design:
    if crossed is None:
        return _Design(individual, None, np.zeros((len(individual.labels), 0)), None, "")
    indicator = np.eye(len(crossed.counts))[crossed.labels][:, 1:]
    left, values, _ = np.linalg.svd(indicator - individual.means(indicator), full_matrices=False)
    both = individual.labels * len(crossed.counts) + crossed.labels
    cells = _grouped(np.unique(both, return_inverse=True)[1]) if interacting else None
    return _Design(individual, crossed, left[:, values > 1e-9], cells, "side" if interacting else "observer")


def _rows(
    design: _Design, data: Float64, freedom: int, permutations: int, rng: np.random.Generator
) -> tuple[AnovaRow, ...]:
    from scipy.stats import f as fisher

    squares, counts = design.squares(data), design.freedom
    total = max(sum(squares), 1e-300)
    # Rounding is no variation: measurements that were copied do not differ.
    squares = [square if square > _ROUNDING * total else 0.0 for square in squares]
    last = len(squares) - 1
    rows = []
    for number, (source, square, count) in enumerate(zip(design.sources, squares, counts, strict=True)):
        # With sides, what stands above the interaction is compared with it; all else with the error.
        below = 2 if design.cells is not None and number < 2 else last
        mean = square / (count * freedom) if count else 0.0
        ratio = chance = permuted = None
        if number < below and count and counts[below] and square + squares[below] > 0:
            ratio = _ratio(squares, counts, number, below)
            chance = float(fisher.sf(ratio, count * freedom, counts[below] * freedom))
            if permutations:
                permuted = _permuted(design, data, number, permutations, rng)
        rows.append(AnovaRow(source, square, square / total, count * freedom, mean, ratio, chance, permuted))
    return tuple(rows)


def _permuted(
    design: _Design, data: Float64, number: int, permutations: int, rng: np.random.Generator
) -> float:
    """How often F of a source is as large by chance, the measured arrangement being one of all."""
    if design.cells is not None and number == 2:
        additive = design.individual.means(data) + design.columns @ (design.columns.T @ data)
        return _share(design, data - additive, 2, permutations, lambda: rng.permutation(len(data)))
    if design.cells is not None and design.crossed is not None:
        # Measurements of one side move together: means of the cells are what is exchanged.
        first = design.cells.order[design.cells.starts]
        data = design.cells.means(data)[first]
        individual, crossed = design.individual.labels[first], design.crossed.labels[first]
        design = _design(_grouped(individual), _grouped(crossed), False)
    if design.crossed is None:
        return _share(design, data, 0, permutations, lambda: rng.permutation(len(data)))
    groups = (design.crossed if number == 0 else design.individual).labels
    return _share(design, data, number, permutations, lambda: _within(groups, rng))


def _share(
    design: _Design, data: Float64, number: int, permutations: int, order: Callable[[], NDArray[np.intp]]
) -> float:
    counts = design.freedom
    own = _ratio(design.squares(data), counts, number, len(counts) - 1)
    as_large = 1
    for _ in range(permutations):
        other = _ratio(design.squares(data[order()]), counts, number, len(counts) - 1)
        as_large += other >= own * (1 - _SAME)
    return as_large / (permutations + 1)


def _ratio(squares: Sequence[float], counts: Sequence[int], number: int, below: int) -> float:
    if squares[below] <= 0:
        return float("inf")
    return squares[number] / counts[number] / (squares[below] / counts[below])


def _within(groups: Labels, rng: np.random.Generator) -> NDArray[np.intp]:
    """A random order of rows that leaves each in its group."""
    order = np.empty(len(groups), dtype=np.intp)
    order[np.argsort(groups, kind="stable")] = np.lexsort((rng.random(len(groups)), groups))
    return order


def _repeatability(cells: _Groups, data: Float64, freedom: int) -> float | None:
    counts = cells.counts
    objects, total = len(counts), len(data)
    if total == objects or objects < 2:
        return None
    between = cells.between(data)
    within = (float(np.sum(data**2)) - between) / ((total - objects) * freedom)
    between /= (objects - 1) * freedom
    usual = (total - float(np.sum(counts**2)) / total) / (objects - 1)
    own = max((between - within) / usual, 0.0)
    return own / (own + within) if own else 0.0


def _named(parameter: str, names: Sequence[str], count: int) -> _Groups:
    if len(names) != count:
        raise ValueError(f"{parameter} has {len(names)} names for {count} measurements.")
    return _grouped(np.unique([str(name) for name in names], return_inverse=True)[1])


def _grouped(labels: NDArray[np.intp]) -> _Groups:
    labels = labels.reshape(-1)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    return _Groups(labels, order, np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
