"""What an experiment is done in: the fits of one trial from one start number, which are one file of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.experiments.rows import file_of
from pliant.experiments.trial import Sets, Trial
from pliant.settings import Training
from pliant.shards import Shard

Named = Sequence[tuple[Trial, str]]
"""Trials with the names of their rows."""


@dataclass(frozen=True)
class Unit:
    """The fits of a trial from start number `start`; `rows` is the name of the trial's rows."""

    trial: Trial
    rows: str
    start: int

    def __str__(self) -> str:
        return f"{self.trial.label}, start {self.start}"

    @property
    def name(self) -> tuple[str, int]:
        """What decides its rows: units of one name have the same."""
        return self.rows, self.start

    def file(self, folder: Path) -> Path:
        return file_of(folder, self.rows, self.start)


def model_of(trial: Trial) -> tuple[Training, Sets]:
    """What decides a trial's model."""
    return trial.training, trial.sets


def units_of(named: Named) -> list[Unit]:
    """All units of trials, nothing twice, those of one model after each other."""
    most: dict[str, Trial] = {}
    for trial, name in named:
        if name not in most or trial.starts > most[name].starts:
            most[name] = trial
    every = [Unit(trial, name, start) for name, trial in most.items() for start in range(trial.starts)]
    return [unit for group in by_model(every) for unit in group]


def by_model(units: Iterable[Unit]) -> list[list[Unit]]:
    """The units of each model, in their order."""
    groups: dict[tuple[Training, Sets], list[Unit]] = {}
    for unit in units:
        groups.setdefault(model_of(unit.trial), []).append(unit)
    return list(groups.values())


def missing(folder: Path, units: Iterable[Unit]) -> list[Unit]:
    """Those whose file is not there yet."""
    return [unit for unit in units if not unit.file(folder).is_file()]


def own_units(units: Sequence[Unit], shard: Shard) -> list[Unit]:
    """The units of one shard: they follow from all `units` of the plan alone, whatever is done already.

    To train a model takes long, so a model is trained by as few shards as can be. If there are fewer shards than
    models, each model belongs to one shard, with all its units: models are dealt to the shards in turn, as those
    that follow each other, such as the folds of one set, cost about the same. If there are more shards than models,
    a shard has one model: shards are dealt to the models in turn, and those of a model deal its units among them.
    Neighbours in a plan are alike there as well (two starts of one trial, an algorithm and its next relative), so
    no shard has all the slow ones. A shard for which no unit is left has nothing to do.

    Together, the shards have every unit once.
    """
    models = by_model(units)
    if shard.count <= len(models):
        return [unit for group in shard.of(models) for unit in group]
    if not models:
        return []
    turn, model = divmod(shard.number - 1, len(models))
    sharing = len(range(model, shard.count, len(models)))
    return Shard(turn + 1, sharing).of(models[model])
