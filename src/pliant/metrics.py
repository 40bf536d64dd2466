"""How far fitted points are from the truth, and how a set of such errors is summed up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from pliant.arrays import Float64, Floats, Int32
from pliant.shape import shape_size

__all__ = ["BOUNDS", "capped", "matched", "normalised_error", "point_subset", "summarise"]

BOUNDS = (0.02, 0.03, 0.04)
"""Errors below which the paper's tables count a fit."""

_NAMED = {"interior49": (68, "17-59,61-63,65-67")}
"""Subsets with a name: for how many landmarks they are, and which these are."""


def point_subset(text: str, landmarks: int) -> Int32:
    """Return the numbers of the landmarks that a text names.

    Parameters
    ----------
    text : str
        `"all"`, ranges such as `"17-59,61-63,65-67"`, or `"interior49"` for faces with 68 landmarks.
    landmarks : int
        How many landmarks there are.

    Returns
    -------
    ndarray of int, shape (k,)
        Landmark numbers, from 0.

    Raises
    ------
    ValueError
        If the text names a landmark that does not exist, or is not understood.

    Examples
    --------
    >>> import pliant
    >>> pliant.metrics.point_subset("0-3,8", 10)
    array([0, 1, 2, 3, 8], dtype=int32)

    """
    name = text.strip().lower()
    if name == "all":
        return np.arange(landmarks, dtype=np.int32)
    if name in _NAMED:
        made_for, name = _NAMED[name]
        if landmarks != made_for:
            raise ValueError(f"points = '{text}' is for {made_for} landmarks, but there are {landmarks}.")
    chosen: set[int] = set()
    for part in name.split(","):
        found = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", part)
        if found is None:
            raise ValueError(
                f"points = '{text}' must be 'all', {', '.join(map(repr, _NAMED))}, or numbers and ranges "
                "such as 17-59,61,65-67."
            )
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f"points = '{text}': the range {part.strip()} is backwards.")
        if last >= landmarks:
            raise ValueError(
                f"points = '{text}': there is no landmark {last}; landmarks are numbered from 0 to "
                f"{landmarks - 1}."
            )
        chosen.update(range(first, last + 1))
    return np.array(sorted(chosen), dtype=np.int32)


def normalised_error(points: Floats, truth: Floats, subset: Int32) -> float:
    """Return the mean distance between landmarks and the truth, over the size of the object.

    The size is the mean of the width and the height of the whole truth, so that you can compare errors over
    different subsets.

    Parameters
    ----------
    points : array, shape (v, 2)
        The landmarks of a fit.
    truth : array, shape (v, 2)
        The true landmarks.
    subset : array of int, shape (k,)
        The numbers of the landmarks that count, as `point_subset` returns them.

    Returns
    -------
    float
        The error as a share of the size.

    Raises
    ------
    ValueError
        If the subset is empty, or if the truth has no size because all its landmarks lie in one place.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> truth = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
    >>> pliant.metrics.normalised_error(truth + (0, 1), truth, pliant.metrics.point_subset("all", 4))
    0.1

    """
    size = float(shape_size(truth))
    if not len(subset) or not size:
        what = "all landmarks of the truth lie in one place" if len(subset) else "no landmark counts"
        raise ValueError(f"{what}, so that there is no error as a share of the size.")
    distances = np.linalg.norm(points[subset] - truth[subset], axis=-1)
    return float(np.mean(distances) / size)


def capped(errors: Iterable[float]) -> Float64:
    """Return errors with 1, the size of the object, as the largest value.

    A fit that is farther away is not worse: it misses the object either way.

    Parameters
    ----------
    errors : iterable of float, length k
        Shares of the object's size.

    Returns
    -------
    ndarray, shape (k,)
        The errors; those that are above 1 or not finite are 1.

    Examples
    --------
    >>> import pliant
    >>> pliant.metrics.capped([0.02, 7.5, float("nan")]).tolist()
    [0.02, 1.0, 1.0]

    """
    values = np.fromiter(errors, dtype=np.float64)
    return np.asarray(np.where(np.isfinite(values), np.minimum(values, 1.0), 1.0))


def matched(truths: Sequence[Floats], shapes: Sequence[Floats]) -> list[int | None]:
    """Assign fitted shapes to known ones so that all pairs together are as near as possible.

    Parameters
    ----------
    truths : sequence of array, shape (v, 2)
        The known shapes, finite.
    shapes : sequence of array, shape (v, 2)
        The fitted shapes, finite.

    Returns
    -------
    list of int or None
        For each truth, the number of its shape; None if there are not enough shapes. No shape is assigned twice.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> one = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> pliant.metrics.matched([one, one + 50], [one + 51])
    [None, 0]

    """
    from scipy.optimize import linear_sum_assignment

    if not len(truths):
        return []
    everything = np.arange(len(truths[0]), dtype=np.int32)
    # Beyond the object's size, far is far: no near pair is given up for the sake of a far one.
    costs = [capped(normalised_error(shape, truth, everything) for shape in shapes) for truth in truths]
    rows, columns = linear_sum_assignment(np.reshape(costs, (len(truths), len(shapes))))
    found = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return [found.get(number) for number in range(len(truths))]


def summarise(errors: Iterable[float]) -> dict[str, float]:
    """Summarise errors as the tables of results do.

    Parameters
    ----------
    errors : iterable of float
        Shares of the object's size, at least one. An error that is not finite is below no bound.

    Returns
    -------
    dict of str to float
        `lt_0.02` and so on, the shares of errors below each of `BOUNDS`; `mean`, `std` and `median` of the finite
        errors, nan if there are none.

    Raises
    ------
    ValueError
        If there are no errors.

    Examples
    --------
    >>> import pliant
    >>> summary = pliant.metrics.summarise([0.01, 0.03])
    >>> summary["mean"], summary["lt_0.02"]
    (0.02, 0.5)

    """
    values = np.fromiter(errors, dtype=np.float64)
    if not len(values):
        raise ValueError("there are no errors to summarise.")
    finite = values[np.isfinite(values)]
    shares = {f"lt_{bound}": float(np.mean(values < bound)) for bound in BOUNDS}
    if not len(finite):
        return {**shares, "mean": np.nan, "std": np.nan, "median": np.nan}
    return {
        **shares,
        "mean": float(np.mean(finite)),
        "std": float(np.std(finite)),
        "median": float(np.median(finite)),
    }
