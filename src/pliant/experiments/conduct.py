"""Run experiments by their names, and draw their report from what is on disk."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pliant.arrays import Float64
from pliant.experiments import (
    algorithms,
    alpha,
    composition,
    experts,
    findings,
    newton,
    objects,
    pictures,
    rho,
    rows,
    sampling,
    transfer,
)
from pliant.experiments.findings import Findings, Study
from pliant.experiments.run import Data, missing, name_trials, run
from pliant.experiments.settings import Settings, read_file, settings_of
from pliant.experiments.trial import Trial, trial_from
from pliant.progress import Progress
from pliant.threads import cores


class Experiment(Protocol):
    """What the file of an experiment has."""

    TITLE: str
    Settings: type[Any]

    def plan(self, settings: Any) -> list[Trial]: ...

    def report(self, study: Study) -> Findings: ...


EXPERIMENTS: dict[str, Experiment] = {
    "algorithms": algorithms,
    "rho": rho,
    "alpha": alpha,
    "sampling": sampling,
    "transfer": transfer,
    "objects": objects,
    "newton": newton,
    "composition": composition,
    "experts": experts,
}
"""Six of the paper's, in its order, and three of our own."""


def chosen(
    name: str, file: Path | None, given: Mapping[str, Any], quick: bool = False
) -> dict[str, Settings]:
    """The settings of an experiment, or of all: what is given, then `quick`, then a TOML file, then the paper's."""
    if name not in (*EXPERIMENTS, "all"):
        raise ValueError(f"there is no experiment '{name}'. Known: {', '.join(EXPERIMENTS)}, all, report.")
    kinds = {key: experiment.Settings for key, experiment in EXPERIMENTS.items()}
    table = {} if file is None else read_file(file, kinds)
    names = list(EXPERIMENTS) if name == "all" else [name]
    return {key: settings_for(key, table, given, quick) for key in names}


def settings_for(name: str, table: Mapping[str, Any], given: Mapping[str, Any], quick: bool) -> Settings:
    """The settings of an experiment, with sets to train and test on."""
    settings: Settings = settings_of(EXPERIMENTS[name].Settings, name, table, given, quick)
    if not settings.train:
        raise ValueError(f"{name}: name at least one folder to train on: train=FOLDER.")
    if len(settings.part) > 2:
        raise ValueError(
            f"{name}: part={','.join(settings.part)}: name one part for all sets, or two: to train on, and "
            "to test on."
        )
    if not settings.test and len(settings.part) == 2:
        settings = replace(settings, test=settings.train)
    if not settings.test and name != "objects":
        raise ValueError(f"{name}: name at least one folder to test on: test=FOLDER.")
    return settings


def conduct(
    folder: Path,
    wanted: Mapping[str, Settings],
    *,
    jobs: int | None = None,
    skip_invalid: bool = False,
    progress: bool | None = None,
) -> None:
    """Run experiments into a folder; what is there already is not fitted again."""
    with Progress(progress) as bar:
        data = Data(jobs or cores(), bar, skip_invalid)
        for name, settings in wanted.items():
            named = name_trials(EXPERIMENTS[name].plan(settings), data)
            shown = pictures.planned(name, named)
            folder.mkdir(parents=True, exist_ok=True)
            content = {
                "experiment": name,
                "settings": settings.to_dict(),
                "pictures": [{"file": picture.file, "caption": picture.caption} for picture in shown],
                "trials": [{"rows": rows_name, **trial.to_dict()} for trial, rows_name in named],
            }
            plan_of(folder, name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            run(folder, missing(folder, named), data, jobs)
            pictures.draw_missing(folder, shown, data, jobs)


def plan_of(folder: Path, name: str) -> Path:
    """The file that says what an experiment consists of."""
    return folder / f"{name}.json"


@dataclass(frozen=True)
class Drawn:
    """The files of a report, what its experiments conclude, and those that are not complete."""

    written: list[Path]
    conclusions: list[str]
    unfinished: list[str]


def draw(folder: Path, reference: Path | None = None, others: Path | None = None) -> Drawn:
    """Draw the report of a folder from its rows alone."""
    found: dict[str, Findings] = {}
    unfinished: list[str] = []
    paper, runtimes = read_reference(reference)
    for name, experiment in EXPERIMENTS.items():
        if not plan_of(folder, name).is_file():
            continue
        content, named = _read_plan(plan_of(folder, name))
        if missing(folder, named):
            unfinished.append(name)
            continue
        labels: dict[str, list[tuple[Trial, str]]] = {}
        for trial, rows_name in named:
            labels.setdefault(trial.label, []).append((trial, rows_name))
        study = Study(
            trials=[trial for trial, _ in named],
            fits={label: rows.fits_of(folder, some) for label, some in labels.items()},
            paper=paper,
            runtimes=runtimes,
            others=read_others(others),
        )
        drawn = experiment.report(study)
        parts = [study.about(), *drawn.parts, *pictures.drawn(folder, content.get("pictures", []))]
        found[name] = replace(drawn, parts=parts, settings=content["settings"])
    if not found:
        raise ValueError(f"{folder}: there is no finished experiment here to draw.")
    conclusions = [one.conclusion for one in found.values() if one.conclusion]
    return Drawn(findings.write(folder, found), conclusions, unfinished)


def _read_plan(path: Path) -> tuple[dict[str, Any], list[tuple[Trial, str]]]:
    """What an experiment consists of: the file's content, and the trials with the names of their rows."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if any("fitting" not in item for item in content["trials"]):
        raise ValueError(
            f"{path}: this experiment is of an older version, whose rows are others: run it again, into a new "
            "folder."
        )
    named = [(item.pop("rows"), trial_from(item)) for item in content["trials"]]
    return content, [(trial, name) for name, trial in named]


def read_reference(
    folder: Path | None,
) -> tuple[dict[str, dict[str, float]], dict[tuple[str, int, int], float]]:
    """The paper's errors by algorithm, and its milliseconds by algorithm, iterations and percent of the pixels."""
    if folder is None:
        return {}, {}
    paper = {
        row["algorithm"]: {name: float(row[name]) for name in findings.FIGURES}
        for row in _csv(folder / "paper_lfpw.csv", ("algorithm", *findings.FIGURES))
    }
    columns = ("algorithm", "iterations", "sampling_percent", "milliseconds")
    runtimes = {
        (row["algorithm"], int(row["iterations"]), int(row["sampling_percent"])): float(row["milliseconds"])
        for row in _csv(folder / "paper_runtime.csv", columns)
    }
    return paper, runtimes


def read_others(path: Path | None) -> dict[str, dict[str, Float64]]:
    """Errors of other methods `(k,)` by test set and method, from a CSV file with columns test, method, error."""
    if path is None:
        return {}
    errors: dict[str, dict[str, list[float]]] = {}
    for number, row in enumerate(_csv(path, ("test", "method", "error")), start=2):
        try:
            value = float(row["error"])
        except ValueError:
            raise ValueError(f"{path}, line {number}: the error '{row['error']}' is not a number.") from None
        errors.setdefault(row["test"], {}).setdefault(row["method"], []).append(value)
    return {
        test: {method: np.array(some) for method, some in methods.items()} for test, methods in errors.items()
    }


def _csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file.")
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        lacking = [name for name in columns if name not in (reader.fieldnames or ())]
        if lacking:
            raise ValueError(f"{path}: the column '{lacking[0]}' is missing; it needs {', '.join(columns)}.")
        return list(reader)
