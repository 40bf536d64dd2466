"""The search: settings are changed one after the other, and a change stays if held-out fits are clearly better.

A search is reproducible: what is tried follows from the data and from the minutes that it may take, never from the
clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.dataset import Dataset, evenly
from pliant.progress import Progress
from pliant.settings import Training
from pliant.settings.presets import settled
from pliant.threads import cores
from pliant.tuning.axes import AXES, TRIED
from pliant.tuning.held_out import NOISES, Fold

FEWEST = 16
"""Samples without which there is no search: too few could be held out to tell one setting from another."""

_COST, _COST_A_LANDMARK = 30.0, 2.2
"""Milliseconds of one core that a fit takes, and more for each landmark, models and all."""

_GLANCE = (1,)
"""Starts, by their noise, that a change is judged by first: most are no better there, and need no more fits."""

_FITS_A_SAMPLE = 24
"""About how many fits a search makes of each sample that is held out."""

_MOST_HELD, _MOST_TRAINED = 100, 400
"""Samples that are fitted, and that are trained on: more take longer, and hardly change what is found."""

_MOST_SEEN = 3000
"""Samples that these are drawn from, evenly spread over all: files are read to find copies among them."""

_FEW, _FOLDS = 60, 3
"""Below so many samples, each is held out in turn, in so many parts."""

_LARGEST_SHARE = 0.3
"""Of larger sets, the most that is held out."""

WORST = 0.1
"""An error counts up to this: a fit that is lost is lost."""

_WORTH = 0.005
"""The share of the mean error that a change must be worth."""

_CURVE = (0.25, 0.5, 1.0)
"""Shares of the samples that the learning curve has models of."""


@dataclass(frozen=True)
class Tried:
    """A change that was tried, the errors of its fits, and whether it was kept."""

    change: str
    errors: Float64
    kept: bool

    @property
    def plain(self) -> dict[str, Any]:
        return {"change": self.change, "fits": self.errors.size, **scores(self.errors), "kept": self.kept}

    @property
    def sentence(self) -> str:
        if not self.kept and self.errors.shape[1] < len(NOISES):
            # Errors from some of the starts cannot be compared with those from all of them.
            return f"{self.change}: no better"
        known = scores(self.errors)
        name = "settings to begin with" if self.change == "at first" else self.change
        outcome = "" if self.change == "at first" else ", kept" if self.kept else ", no clear gain"
        return f"{name}: mean error {known['mean']:.4f}, {known['below_0.02']:.0%} below 0.02{outcome}"


def scores(errors: Float64) -> dict[str, float]:
    """What is kept of the errors of held-out fits: shares below two bounds, the mean up to 0.1, and the median."""
    return {
        "below_0.02": float(np.mean(errors < 0.02)),
        "below_0.04": float(np.mean(errors < 0.04)),
        "mean": float(np.mean(_bounded(errors))),
        "median": float(np.median(errors)),
    }


def search(
    dataset: Dataset, settings: Training, *, jobs: int | None = None, progress: bool | None = None
) -> tuple[Training, dict[str, Any]]:
    """Settings for a model of these samples, none of them open, and what was tried: plain values for the model.

    Only what `settings` leaves open is changed. The samples were checked.
    """
    dataset = evenly(dataset, _MOST_SEEN)
    folds = _folds(dataset, settings, jobs or cores())
    everything, landmarks = tuple(range(len(NOISES))), len(dataset[0].points())
    best = settled(settings, len(dataset))
    with Progress(progress) as bar:
        advance = bar.start("trying settings", TRIED + len(_CURVE))
        errors = _errors(folds, best, everything)
        tried = [Tried("at first", errors, kept=True)]
        bar.note(tried[-1].sentence)
        for axis in AXES:
            if not axis.open_in(settings):
                continue
            for change, values in list(axis.changes(best, len(folds[0].rest), landmarks)):
                advance()
                other = settled(best.changed(**values), len(dataset))
                those = _errors(folds, other, _GLANCE)
                better = bool(np.mean(_bounded(errors[:, _GLANCE]) - _bounded(those)) > 0)
                if better:
                    rest = [k for k in everything if k not in _GLANCE]
                    those = np.hstack([those, _errors(folds, other, rest)])[:, np.argsort([*_GLANCE, *rest])]
                    better = clearly_better(those, errors)
                tried.append(Tried(change, those, better))
                bar.note(tried[-1].sentence)
                if tried[-1].kept:
                    best, errors = other, those
        curve = [_point(folds, best, share, errors) for share in _CURVE]
    known = {
        "held_out": sum(len(fold.held) for fold in folds),
        "noises": list(NOISES),
        "tried": [one.plain for one in tried],
        "curve": curve,
    }
    return best, known


def _folds(dataset: Dataset, settings: Training, jobs: int) -> list[Fold]:
    """Small sets are held out in three parts, and of large ones a part, each of as many as there is time for."""
    landmarks = len(dataset[0].points())
    fits_a_minute = 2 * 60_000 / (_COST + _COST_A_LANDMARK * landmarks)
    affordable = max(8, round(settings.minutes * fits_a_minute / _FITS_A_SAMPLE))
    held_out = min(_MOST_HELD, affordable)
    if len(dataset) < _FEW:
        parts = dataset.folds(_FOLDS, settings.seed)
        held_out = -(-held_out // _FOLDS)
    else:
        share = min(held_out / len(dataset), _LARGEST_SHARE)
        parts = [dataset.split(share, settings.seed)]
    return [
        Fold(evenly(rest, _MOST_TRAINED), evenly(held, held_out), jobs, settings.seed) for rest, held in parts
    ]


def _errors(folds: Sequence[Fold], settings: Training, chosen: Sequence[int]) -> Float64:
    return np.concatenate([fold.errors(settings, chosen) for fold in folds])


def _bounded(errors: Float64) -> Float64:
    return np.minimum(np.nan_to_num(errors, nan=WORST), WORST)


def clearly_better(errors: Float64, current: Float64) -> bool:
    """Whether errors are smaller than the current ones, fit by fit, by more than their standard error.

    And by enough to be worth a model that may be larger or slower.
    """
    gain = _bounded(current) - _bounded(errors)
    least = max(np.std(gain) / np.sqrt(gain.size), _WORTH * np.mean(_bounded(current)))
    return bool(np.mean(gain) > least)


def _point(folds: Sequence[Fold], settings: Training, share: float, errors: Float64) -> dict[str, float]:
    """A point of the learning curve: how good fits are with a share of the samples to train on."""
    rests = [evenly(fold.rest, max(2, round(share * len(fold.rest)))) for fold in folds]
    if share < 1:
        # Modes follow the number of samples, as they would have with so few of them.
        smaller = [
            Fold(rest, fold.held, fold.jobs, fold.seed) for rest, fold in zip(rests, folds, strict=True)
        ]
        errors = _errors(smaller, _bounded_modes(settings, len(rests[0])), range(len(NOISES)))
    return {"samples": len(rests[0]), **scores(errors)}


def _bounded_modes(settings: Training, samples: int) -> Training:
    """The settings with no more modes than so many samples would have been given."""
    usual = settled(settings.changed(shape_modes=(), appearance_modes=()), samples)
    bounded = {
        name: tuple(
            min(mine, most) if isinstance(mine, int) and isinstance(most, int) else mine
            for mine, most in zip(
                settings.per_level(getattr(settings, name)),
                usual.per_level(getattr(usual, name)),
                strict=True,
            )
        )
        for name in ("shape_modes", "appearance_modes")
    }
    return settings.changed(**bounded)
