"""Settings."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ALGORITHM = "ssd:map-asy:0.2-gn-sch"
"""Chosen on images held out of the training sets: docs/results."""


@dataclass(frozen=True)
class Stopping:
    """When to stop, beside the number of iterations.

    `tolerance` is in pixels of the level; `patience` counts iterations without a better cost (None: never
    stop for that); `ellipsoid` is the Mahalanobis distance from the mean shape, per root of the number of
    modes, beyond which a shape is implausible; `clamp` pulls shapes back onto it at every iteration.
    """

    tolerance: float = 0.01
    patience: int | None = None
    ellipsoid: float = 3.0
    clamp: bool = False
