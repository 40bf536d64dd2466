"""Experiment 9: the model alone, an expert alone, and both, by training images and by noise of the starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.experiments.findings import (
    SHARES,
    Drawing,
    Findings,
    Part,
    Study,
    error_table,
    paired,
)
from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.statistics import Comparison, compare
from pliant.experiments.trial import Trial
from pliant.experts.network_learning import NoPyTorch, training_device
from pliant.metrics import BOUNDS
from pliant.plots import plot_ced, plot_shares
from pliant.settings import DEFAULT_ALGORITHM, Fitting, Training
from pliant.settings.presets import settled
from pliant.tuning.experts import FEWEST

TITLE = "Experts"

ALONE = "model alone"

_MANY = 10**6
"""Samples of which no number of modes depends on how many there are."""


@dataclass(frozen=True)
class Settings(Shared):
    """Models are those of `train --preset quick`: the paper's two levels would lose far starts for another reason.

    `counts` are numbers of training images, tried beside all of them (`most_train`) from starts with `noise`; all
    of them are tried from starts with each of the `noises`. With `experts = "network"` in the settings there is a
    network beside the linear expert.
    """

    training: Training = Training(
        preset="quick", experts="linear", facing="as-is", detector=None, confidence=False
    )
    fitting: Fitting = Fitting(tries=1, seed=0)
    most_train: int = sized(0, 40)
    algorithms: tuple[str, ...] = (DEFAULT_ALGORITHM,)
    counts: tuple[int, ...] = sized((10, 20, 40, 80), (10,))
    noises: tuple[float, ...] = sized((0.0, 0.05, 0.1, 0.15, 0.2), (0.05, 0.2))


def plan(settings: Settings) -> list[Trial]:
    few = [count for count in settings.counts if count < FEWEST]
    if few:
        raise ValueError(f"counts={few[0]}: an expert needs at least {FEWEST} training images.")
    if settings.training.experts == "network" and training_device() is None:
        raise NoPyTorch
    cells = dict.fromkeys(
        [(count, settings.noise) for count in (*settings.counts, settings.most_train)]
        + [(settings.most_train, noise) for noise in settings.noises]
    )
    return [
        settings.trial(
            f"{_images(count)}, noise {noise:g}: {terms}{_of(name, settings.algorithms)}",
            name,
            fitting,
            sets=settings.sets(most=count),
            training=training,
            noise=noise,
            group=f"{_images(count)}, noise {noise:g}",
            expert_alone=alone,
        )
        for count, noise in cells
        for name in settings.algorithms
        for terms, fitting, training, alone in ways(settings)
    ]


def ways(settings: Settings) -> list[tuple[str, Fitting, Training, bool]]:
    """The terms of the cost, alone and together: label, how it is fitted and trained, and whether to fit at all."""
    kinds = ("linear", "network") if settings.training.experts == "network" else ("linear",)
    taught = {kind: _settled(settings.training.changed(experts=kind)) for kind in kinds}
    found = [(ALONE, settings.fitting.changed(experts=False), taught["linear"], False)]
    for kind, training in taught.items():
        # What the expert sees is seen before a pixel is fitted: one iteration is as good as any number of them.
        found.append((_alone(kind), settings.fitting.changed(iterations=(1,)), training, True))
        found.append((_both(kind), settings.fitting, training, False))
    return found


def _alone(kind: str) -> str:
    return f"{kind} expert alone"


def _both(kind: str) -> str:
    return f"with {kind} expert"


def _settled(training: Training) -> Training:
    """Nothing is left open but the modes of appearance, which follow the number of training images."""
    return settled(training, _MANY).changed(appearance_modes=training.appearance_modes)


def _images(count: int) -> str:
    return f"{count} images" if count else "all images"


def _of(name: str, algorithms: Sequence[str]) -> str:
    return f", {name}" if len(algorithms) > 1 else ""


def report(study: Study) -> Findings:
    summaries = study.summaries()
    entries = [
        ((trial.sets.most or "all", trial.noise, _terms(trial.label)), summaries[trial.label])
        for trial in study.trials
    ]
    base = _base(study)
    shown = {_terms(label): study.fits[label].errors for label in study.groups()[base.group]}
    parts: list[Part] = [
        *_lines(study, "noise", [one for one in study.trials if one.sets.most == base.sets.most]),
        *_lines(study, "images", [one for one in study.trials if one.noise == base.noise]),
        Drawing("experts_ced", plot_ced(shown, 0.06), f"{base.group}: share of fits below each error."),
        error_table("experts", ("images", "noise", "terms"), entries),
    ]
    tests = paired(study, _pairs(study), "experts_tests")
    return Findings(TITLE, [*parts, tests], conclusion=_conclusion(study, base.group))


def _terms(label: str) -> str:
    return label.partition(": ")[2]


def _base(study: Study) -> Trial:
    """A trial with all training images, at the noise that fewer of them were tried at."""
    most = study.trials[-1].sets.most
    fewer = [trial.noise for trial in study.trials if trial.sets.most != most]
    noise = fewer[0] if fewer else study.trials[0].noise
    return next(trial for trial in study.trials if trial.sets.most == most and trial.noise == noise)


def _lines(study: Study, name: str, trials: Sequence[Trial]) -> list[Part]:
    """Shares of fits against the noise, or the number of training images; nothing, if there is one alone."""
    summaries = study.summaries()
    values = sorted({_value(trial, name) for trial in trials})
    if len(values) < 2:
        return []
    shares, bands = {}, {}
    for terms in dict.fromkeys(_terms(trial.label) for trial in trials):
        own = sorted((one for one in trials if _terms(one.label) == terms), key=lambda one: _value(one, name))
        found = [summaries[one.label] for one in own]
        shares[terms] = np.array([[one.values[share] for share in SHARES] for one in found])
        bands[terms] = np.array([[one.intervals[share] for share in SHARES] for one in found])
    # How many all of them are is not known here: they stand one step behind the most that are known.
    ends = {np.inf: 2 * max([value for value in values if np.isfinite(value)], default=1.0)}
    last = " (the last: all)" if np.inf in values else ""
    x = "noise of the starts" if name == "noise" else f"training images{last}"
    figure = plot_shares(
        [ends.get(value, value) for value in values], shares, bounds=BOUNDS, x=x, intervals=bands
    )
    caption = f"Share of fits below each error against the {x}, with 95 % intervals."
    return [Drawing(f"experts_{name}", figure, caption)]


def _value(trial: Trial, name: str) -> float:
    return trial.noise if name == "noise" else trial.sets.most or np.inf


def _pairs(study: Study) -> list[tuple[str, str]]:
    """In each group, both together with each term alone."""
    pairs = []
    for labels in study.groups().values():
        together = [label for label in labels if _terms(label).startswith("with ")]
        pairs += [(other, label) for label in together for other in _parts(label, labels)]
    return pairs


def _parts(label: str, labels: Sequence[str]) -> list[str]:
    """The terms alone that a label brings together, of the same algorithm."""
    head, _, terms = label.partition(": ")
    kind, _, algorithm = terms.removeprefix("with ").partition(" expert")
    wanted = [f"{head}: {ALONE}{algorithm}", f"{head}: {_alone(kind)}{algorithm}"]
    return [one for one in wanted if one in labels]


def _conclusion(study: Study, group: str) -> str:
    """What each term brings, in sentences."""
    labels = study.groups()[group]
    summaries = study.summaries()
    means = ", ".join(f"{_terms(label)} {summaries[label].values['mean']:.4f}" for label in labels)
    said = [f"Mean errors with {group}: {means}."]
    mine = [pair for pair in _pairs(study) if pair[1] in labels]
    for label in dict.fromkeys(second for _, second in mine):
        better = min(
            (first for first, second in mine if second == label),
            key=lambda one: summaries[one].values["mean"],
        )
        one = next(pair for pair in compare(study.fits, mine) if (pair.first, pair.second) == (better, label))
        said.append(_verdict(one))
    return " ".join(said)


def _verdict(one: Comparison) -> str:
    first, second = _terms(one.first), _terms(one.second)
    if not one.differ:
        return f"The model {second} and the {first} do not differ significantly (p {one.corrected:.2g})."
    word = "better" if one.difference < 0 else "worse"
    return (
        f"The model {second} is {word} than the {first}: by {abs(one.difference):.5f} in the median (p "
        f"{one.corrected:.2g}). It is better on {one.wins:.0%} of the images."
    )
