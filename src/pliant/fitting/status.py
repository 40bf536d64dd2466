"""How a fit ended."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a fit ended. It is a string, and it knows whether the fit ended well.

    Examples
    --------
    >>> import pliant
    >>> print(pliant.Status.CONVERGED, pliant.Status.CONVERGED.ok)
    converged True
    >>> [str(status) for status in pliant.Status if status.lost]
    ['outside', 'diverged']

    """

    CONVERGED = "converged"
    """The next step would have moved no landmark by more than the tolerance."""
    ITERATIONS = "iterations"
    """All iterations were used."""
    RISING = "rising"
    """The cost had not fallen below its best for `patience` iterations; the best estimate is returned."""
    IMPLAUSIBLE = "implausible"
    """The shape ended outside of the model's ellipsoid."""
    OUTSIDE = "outside"
    """More than half of the landmarks left what was looked at; the last estimate inside is returned."""
    DIVERGED = "diverged"
    """Something became infinite; the last finite estimate is returned."""
    FAILED = "failed"
    """The image or the start could not be used, or nothing was found: there are no points."""

    @property
    def ok(self) -> bool:
        """Whether the fit ended well: it converged, or it used all of its iterations."""
        return self in (Status.CONVERGED, Status.ITERATIONS)

    @property
    def lost(self) -> bool:
        """Whether the fit left the image or became infinite, so that nothing can continue from it."""
        return self in (Status.OUTSIDE, Status.DIVERGED)
