"""Learning how much fits can be trusted, from fits of training images that the fitted model has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from pliant.arrays import Float64
from pliant.confidence import Confidence, Evidence, predictors
from pliant.data.dataset import Dataset
from pliant.data.validation import Validated, usable
from pliant.fitting.fitter import DEFAULT_ALGORITHM, fit_all, make_fitter
from pliant.fitting.result import FitResult
from pliant.fitting.start import perturbed
from pliant.metrics import normalised_error
from pliant.model import Model
from pliant.progress import Progress
from pliant.shape import align, shape_size
from pliant.threads import cores
from pliant.training import train

BOUNDS = np.geomspace(0.01, 0.16, 9)
"""Errors at which a regression is fitted: an octave is two steps."""

NOISES = (0.05, 0.05, 0.1, 0.15)
"""How far off the starts are, an image: fits must fail now and then, or nothing is learned about failures."""

_FOLDS = 5
_FEWEST = 10


@dataclass(frozen=True)
class _Judged:
    """A fit of a held-out image: its error, its evidence, and its landmarks' deviations `(v, 2)` and spread.

    Deviations are shares of the object's size, turned as the mean shape is; the spread `(v, 2, 2)` likewise.
    """

    error: float
    evidence: Evidence
    deviations: Float64
    spread: Float64


def calibrate(
    model: Model,
    dataset: Dataset,
    *,
    images: int = 120,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int = 0,
    skip_invalid: bool = False,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Model:
    """The same model, with the confidence that its fits deserve.

    `dataset` is what the model was trained on. Parts of it are held out, models of the rest are trained with the
    same settings, and fitted to up to `images` held-out images from four random starts each. Samples of one group
    are held out together. What is learned holds for every algorithm, because the evidence does not depend on it.
    """
    workers = jobs or cores()
    with Progress(progress) as bar:
        valid = usable(dataset, skip_invalid, workers, bar.start("checking samples", len(dataset)))
        if len(valid.dataset) < _FEWEST:
            raise ValueError(
                f"confidence is learned from at least {_FEWEST} samples, and there are {len(valid.dataset)}."
            )
        parts = list(_held_out(valid, images, seed))
        advance = bar.start("held-out fits", sum(len(held) for _, held in parts))
        judged: list[_Judged] = []
        for rest, held in parts:
            judged += _judge(model, rest, held, algorithm, seed, workers, advance)
    return replace(model, confidence=_learned(judged))


def _held_out(valid: Validated, images: int, seed: int) -> Iterator[tuple[Dataset, list[tuple[int, Float64]]]]:
    ...
