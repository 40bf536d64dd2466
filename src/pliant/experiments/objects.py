"""Experiment 6 (section 5.6): other kinds of objects, by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from pliant.data.loading import short_name
from pliant.experiments import transfer
from pliant.experiments.findings import Findings, Study
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial

TITLE = "Other objects"


@dataclass(frozen=True)
class Settings(transfer.Settings):
    """Every folder to train on is an object of its own; each of its `folds` is fitted by a model of the rest."""

    folds: int = sized(10, 3)


def plan(settings: Settings) -> list[Trial]:
    return [
        settings.trial(
            f"{group_of(folder)}: {label}",
            name,
            fitting,
            sets=settings.sets(sources=(folder,), folds=settings.folds, fold=fold),
            test=(folder,),
            training=training,
            group=group_of(folder),
        )
        for folder in settings.train
        for fold in range(settings.folds)
        for label, name, fitting, training in transfer.ways(settings)
    ]


def group_of(folder: str) -> str:
    return PurePosixPath(short_name(folder)).name


def report(study: Study) -> Findings:
    return transfer.grouped_report(study, "objects", TITLE, {})
