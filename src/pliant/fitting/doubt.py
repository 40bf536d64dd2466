"""Single landmarks in doubt: those that the model cannot tell well, and those that an expert does not see."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats
from pliant.shape import shape_size

DOUBTFUL = 0.03
"""The largest standard deviation of a landmark, as a share of the object's size, that leaves it out of doubt.

A point that deviates by so much in x and in y is 0.04 away on average: the bound that confidence is about.
"""


def landmark_spread(covariance: Floats) -> Float64:
    """Standard deviations `(v,)` along an axis by covariances `(v, 2, 2)`: of the mean variance in x and in y."""
    return np.asarray(np.sqrt(np.trace(covariance, axis1=1, axis2=2) / 2), dtype=np.float64)


def doubtful_landmarks(
    points: Floats, spread: Floats | None, hidden: Floats | NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Which landmarks `(v,)` are in doubt, by their spread in pixels, and as an expert sees them; None if unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from pliant.fitting.doubt import doubtful_landmarks
    >>> square = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 100.0], [0.0, 100.0]])
    >>> doubtful_landmarks(square, np.array([1.0, 2.0, 4.0, 1.0]), np.array([True, False, False, False])).tolist()
    [True, False, True, False]

    """
    if spread is None and hidden is None:
        return None
    found = np.zeros(len(points), dtype=bool)
    if spread is not None:
        found |= np.asarray(spread) > DOUBTFUL * float(shape_size(np.asarray(points)))
    if hidden is not None:
        found |= np.asarray(hidden, dtype=np.float64) > 0
    return found
