"""What can be said about errors: intervals for every figure, and paired tests for every difference.

Several starts of one image are not independent. So the image is what is drawn again for an interval, and a test
compares the mean errors of images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.experiments.rows import Fits
from pliant.metrics import BOUNDS, summarise

_DRAWS = 2000
LEVEL = 0.05
"""Below this, a difference is called one; intervals hold with the rest."""


@dataclass(frozen=True)
class Summary:
    """Shares below the bounds, mean, std and median, each with the ends of its 95 % interval if it has one."""

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    fits: int


@dataclass(frozen=True)
class Comparison:
    """How the errors of two labels differ, image by image.

    `difference` is the median of the second's less the first's, between `low` and `high` with 95 %; `wins` is the
    share of images at which the second is better. `p` is Wilcoxon's, and `corrected` is Holm's over all comparisons
    of the experiment.
    """

    first: str
    second: str
    images: int
    difference: float
    low: float
    high: float
    wins: float
    p: float
    corrected: float

    @property
    def differ(self) -> bool:
        return self.corrected < LEVEL


def summary(errors: Float64, images: NDArray[np.str_]) -> Summary:
    """Of errors `(k,)` of fits to images `(k,)`. Intervals are percentiles of 2,000 draws of the images."""
    each = by_image(images, {"mean": errors, **{f"lt_{bound}": errors < bound for bound in BOUNDS}})
    drawn = _draws(len(next(iter(each.values()))))
    intervals = {}
    for name, values in each.items():
        intervals[name] = _interval(values[drawn].mean(axis=1))
    return Summary(summarise(errors), intervals, len(errors))


def by_image(images: NDArray[np.str_], values: Mapping[str, NDArray[np.generic]]) -> dict[str, Float64]:
    """The mean over the starts of every image `(n,)`, in the order of their names."""
    _, place, count = np.unique(images, return_inverse=True, return_counts=True)
    return {
        name: np.bincount(place, np.asarray(some, dtype=np.float64)) / count for name, some in values.items()
    }


def compare(fits: Mapping[str, Fits], pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """Paired tests of labels that were fitted to the same images from the same starts."""
    found = []
    for first, second in pairs:
        one, other = fits[first], fits[second]
        if sorted(zip(one.images, one.starts, strict=True)) != sorted(
            zip(other.images, other.starts, strict=True)
        ):
            raise ValueError(f"{first} and {second} were not fitted to the same images from the same starts.")
        before = by_image(one.images, {"error": one.errors})["error"]
        after = by_image(other.images, {"error": other.errors})["error"]
        found.append((first, second, after - before))
    values = [_wilcoxon(differences) for _, _, differences in found]
    return [
        Comparison(
            first,
            second,
            len(differences),
            float(np.median(differences)),
            *_median_interval(differences),
            float(np.mean(differences < 0)),
            p,
            corrected,
        )
        for (first, second, differences), p, corrected in zip(found, values, holm(values), strict=True)
    ]


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction of p values for their number: the smallest times n, the next times n - 1, never falling."""
    order = np.argsort(values, kind="stable")
    scaled = [min(1.0, (len(values) - rank) * values[k]) for rank, k in enumerate(order)]
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(scaled) if scaled else []
    return [float(value) for value in corrected]


def _wilcoxon(differences: Float64) -> float:
    """The p value of the signed-rank test; 1 if nothing differs."""
    from scipy.stats import wilcoxon

    if not np.any(differences):
        return 1.0
    # Pratt's treatment: pairs that are equal speak against a difference.
    return float(wilcoxon(differences, zero_method="pratt", method="approx").pvalue)


def _median_interval(differences: Float64) -> tuple[float, float]:
    return _interval(np.median(differences[_draws(len(differences))], axis=1))


def _interval(values: Float64) -> tuple[float, float]:
    """The ends between which values of draws `(d,)` lie, but for `LEVEL` of them."""
    low, high = np.percentile(values, [100 * LEVEL / 2, 100 - 100 * LEVEL / 2])
    return float(low), float(high)


def _draws(count: int) -> NDArray[np.int64]:
    """The same draws for the same number of images: a report is the same whenever it is drawn."""
    return np.random.default_rng(0).integers(0, count, (_DRAWS, count))
