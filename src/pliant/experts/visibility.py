"""Which landmarks an expert does not see: those of which it is far less sure than of the same ones elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64, Floats
from pliant.experts.sightings import Sightings

LEAST = 0.95
"""The share of the sightings of visible landmarks that deviate by no more than what is usual."""

HIDDEN = 1.1
"""A landmark whose sighting deviates by more than so many times what is usual for it is hidden.

Experts differ in how far they see a landmark, and landmarks of a contour are seen less well than others: no one
bound on the deviation serves all. On faces with painted occluders, this one had half of the covered landmarks and
1.5 % of those of uncovered faces: docs/explanation/confidence.md.
"""


def deviations(sightings: Sightings, sizes: Floats) -> Float64:
    """Standard deviations `(B, v)` of sightings, as shares of the sizes `(B,)` of their objects.

    Infinite where nothing is seen.
    """
    determinants = np.maximum(np.linalg.det(sightings.precision), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Half the trace of the inverse.
        variances = np.trace(sightings.precision, axis1=-2, axis2=-1) / (2 * determinants)
    return np.asarray(np.sqrt(np.where(determinants > 0, variances, np.inf)) / np.asarray(sizes)[:, None])


def usual_deviations(seen: Floats) -> Float64:
    """What is usual `(v,)` by deviations `(k, v)` of k objects: those of visible landmarks seldom exceed it."""
    return np.asarray(np.quantile(seen, LEAST, axis=0), dtype=np.float64)


def hidden(sightings: Sightings, sizes: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Which landmarks of B objects of these sizes `(B,)` are hidden `(B, v)`, by `usual_deviations (v,)`.

    Examples
    --------
    >>> import numpy as np
    >>> from pliant.experts.sightings import Sightings
    >>> from pliant.experts.visibility import hidden
    >>> precision = np.stack([np.eye(2), np.diag([1.0, 0.01])])[None]
    >>> hidden(Sightings(np.zeros((1, 2, 2)), precision), np.array([100.0]), np.array([0.01, 0.01])).tolist()
    [[False, True]]

    """
    return np.asarray(deviations(sightings, sizes) > HIDDEN * np.asarray(usual))
