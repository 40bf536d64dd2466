"""Which landmarks an expert does not see: hidden ones, as far as it can tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats
from pliant.experts.sightings import Sightings

HIDDEN = 0.06
"""A landmark is hidden if its sighting deviates by more than this, as a share of the object's size."""


def deviations(sightings: Sightings) -> Float64:
    """Standard deviations `(B, v, 2)` of sightings along their best and their worst axis, in pixels.

    Infinite along an axis of which an expert tells nothing.
    """
    precise = np.maximum(np.linalg.eigvalsh(sightings.precision)[..., ::-1], 0)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / np.sqrt(precise))


def hidden(sightings: Sightings, sizes: Floats) -> NDArray[np.bool_]:
    """Which landmarks of B objects of these sizes `(B,)` an expert does not see `(B, v)`.

    Examples
    --------
    >>> import numpy as np
    >>> from pliant.experts.sightings import Sightings
    >>> from pliant.experts.visibility import hidden
    >>> precision = np.stack([np.eye(2), np.diag([1.0, 0.01])])[None]
    >>> hidden(Sightings(np.zeros((1, 2, 2)), precision), np.array([100.0])).tolist()
    [[False, True]]

    """
    return np.asarray(deviations(sightings)[..., 1] > HIDDEN * np.asarray(sizes)[:, None])
