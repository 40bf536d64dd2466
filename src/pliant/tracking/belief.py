"""Whether a fit is believed: by what the model learned about its own fits, never by the frames before."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.fitting.result import FitResult
from pliant.model import Model
from pliant.settings import Tracking

_NOTHING = 1.0
"""The mismatch of a model with a place where there is nothing: docs/explanation/tracking.md."""

_SURE = 0.8
"""With less confidence than this, a fit from the frame before is compared with one from coarse to fine."""


@dataclass(frozen=True)
class Belief:
    """The limits of a model: on confidence if it was calibrated, otherwise on the mismatch."""

    calibrated: bool
    trusted: float
    most_mismatch: float

    def believes(self, result: FitResult) -> bool:
        """Whether the fit ended as fits should, and the image looks like the object."""
        if not result.ok or not result.mismatch < (_NOTHING if self.calibrated else self.most_mismatch):
            return False
        return not self.calibrated or result.confidence() >= self.trusted

    def is_sure(self, result: FitResult) -> bool:
        """Whether the fit is believed, and nothing better need be tried."""
        return self.believes(result) and (not self.calibrated or result.confidence() >= _SURE)

    def doubt(self, result: FitResult) -> float:
        """What fits are ordered by, the best first."""
        return -result.confidence() if self.calibrated else result.mismatch


def belief_of(model: Model, settings: Tracking) -> Belief:
    """The limits that the settings give a model."""
    return Belief(model.confidence is not None, settings.trusted, settings.most_mismatch)
