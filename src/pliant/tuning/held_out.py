"""Fits of held-out samples with models of the others, of which those with fewer modes are parts of one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pliant.arrays import Float64, Image
from pliant.batch import fit_all
from pliant.building.build import build_model
from pliant.data.dataset import Dataset
from pliant.data.validation import SamplesLeftOut
from pliant.fitting.fitter import make_fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.level import Level
from pliant.metrics import normalised_error
from pliant.model import Model
from pliant.settings import Training
from pliant.settings.presets import settled
from pliant.starts.noise import random_start
from pliant.tuning.axes import MOST_APPEARANCE, MOST_SHAPE

NOISES = (0.05, 0.1, 0.15)
"""How far off the starts are, one of each for every held-out sample."""


def ended(fit: FitResult) -> Float64:
    """Where a fit `(v, 2)` ended: at its start if that could not be used, as some beside the object cannot."""
    return fit.start if fit.status is Status.FAILED else fit.points


@dataclass
class Fold:
    """Samples to train on and samples to fit; levels are made once, with all the modes that will be tried.

    A level follows from its scale, its feature and the size of the object alone.
    """

    rest: Dataset
    held: Dataset
    jobs: int
    seed: int
    levels: dict[tuple[float, str, float], Level] = field(default_factory=dict)
    model: Model | None = None

    def errors(self, settings: Training, chosen: Sequence[int] = range(len(NOISES))) -> Float64:
        """Errors `(held, k)` of fits with a model of these settings, from the chosen ones of `NOISES`."""
        model = self._model(settings)
        everything = np.arange(model.landmarks, dtype=np.int32)
        truths = [points for _, points in self._read for _ in chosen]
        work = (
            (image, random_start(model, points, NOISES[k], self.seed, number, k))
            for number, (image, points) in enumerate(self._read)
            for k in chosen
        )
        fitter = make_fitter(model, jobs=self.jobs, trace=False, confidence=False)
        fits = fit_all(fitter, work, len(truths))
        errors = [
            normalised_error(ended(fit), truth, everything) for fit, truth in zip(fits, truths, strict=True)
        ]
        return np.array(errors).reshape(len(self._read), len(chosen))

    @cached_property
    def _read(self) -> list[tuple[Image, Float64]]:
        """The held-out images, at most a hundred, and their landmarks."""
        return [(sample.image(), sample.points()) for sample in self.held]

    def _model(self, settings: Training) -> Model:
        """The model that training with these settings would make of the fold's samples."""
        settings = settled(settings, len(self.rest))
        size = settings.size or 0.0
        keys = [
            (scale, name, size)
            for scale, name in zip(settings.scales, settings.per_level(settings.features), strict=True)
        ]
        missing = [key for key in keys if key not in self.levels]
        if missing:
            # One pass over the images for all features of a kind.
            for feature in dict.fromkeys(name for _, name, _ in missing):
                self._make(settings, feature, [scale for scale, name, _ in missing if name == feature])
        assert self.model is not None
        modes = zip(
            settings.per_level(settings.shape_modes),
            settings.per_level(settings.appearance_modes),
            strict=True,
        )
        levels = [
            self.levels[key].truncated(*map(_as_number, pair)) for key, pair in zip(keys, modes, strict=True)
        ]
        return replace(
            self.model, levels=tuple(_weighed(level, settings) for level in levels), settings=settings
        )

    def _make(self, settings: Training, feature: str, scales: Sequence[float]) -> None:
        whole = settings.changed(
            scales=tuple(sorted(scales)),
            shape_modes=(MOST_SHAPE,),
            appearance_modes=(min(MOST_APPEARANCE, max(1, len(self.rest) // 2)),),
            features=(feature,),
            iterations=(),
            noise_per_pixels=0.0,
            detector=None,
        )
        with warnings.catch_warnings():
            # Said when the samples were checked.
            warnings.simplefilter("ignore", SamplesLeftOut)
            self.model = build_model(self.rest, whole, jobs=self.jobs, progress=False, finds=False)
        for level in self.model.levels:
            self.levels[level.scale, feature, settings.size or 0.0] = level


def _weighed(level: Level, settings: Training) -> Level:
    """The level with the noise that the settings ask for."""
    if not settings.noise_per_pixels:
        return level
    most = len(level.motion.frame.pixels) / settings.noise_per_pixels
    weighed = replace(level, appearance=level.appearance.observed(most))
    return weighed if level.basis_slopes is None else weighed.with_basis_slopes(level.basis_slopes)


def _as_number(modes: int | float | str) -> int | float:
    return 1.0 if isinstance(modes, str) else modes
