"""What a picture says about fits: how far they can be trusted, in words and in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pliant.plots.style import Style
from pliant.settings import Fitting

if TYPE_CHECKING:
    from pliant.fitting.result import FitResult

TRUSTED = Fitting().trusted


def is_trusted(fit: FitResult, least: float = TRUSTED) -> bool:
    """Whether a fit is trusted; that of a model without calibration, whether it ended well."""
    confidence = fit.confidence()
    return fit.ok if np.isnan(confidence) else confidence >= least


def colour_of(fit: FitResult, style: Style, least: float = TRUSTED) -> str:
    """The colour of a fit in a picture."""
    return style.fit if is_trusted(fit, least) else style.doubt


def caption_of(fits: Sequence[FitResult], bound: float | None = None, least: float = TRUSTED) -> str:
    """A line about the objects of an image, with the confidence as the table of fits has it.

    How a fit ended is said only if it ended badly: "iterations" would sound like a fault. The line may be empty.
    """
    if len(fits) == 1:
        said = [_sure(fits[0], bound), _trouble(fits[0])]
    else:
        sure = [_sure(fit, bound) or _trouble(fit) for fit in fits]
        said = [f"{len(fits)} objects", *sure]
    doubts = sum(not is_trusted(fit, least) for fit in fits)
    if doubts:
        said.append("not trusted" if len(fits) == 1 else f"{doubts} not trusted")
    return ", ".join(filter(None, said))


def _sure(fit: FitResult, bound: float | None) -> str:
    confidence = fit.confidence() if bound is None else fit.confidence(bound)
    return "" if np.isnan(confidence) else f"confidence {confidence:.2f}"


def _trouble(fit: FitResult) -> str:
    return "" if fit.ok else str(fit.status)
