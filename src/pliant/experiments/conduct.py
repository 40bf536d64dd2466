"""Run experiments by their names, and draw their report from what is on disk."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pliant.arrays import Float64
from pliant.crew import Jobs, crew_of
from pliant.experiments import (
    algorithms,
    alpha,
    composition,
    defaults,
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
from pliant.experiments.plans import Plan, difference, make_plan, note_shard, plan_of, read_plan, write_plan
from pliant.experiments.run import Data, name_trials, run
from pliant.experiments.settings import Settings, read_file, settings_of
from pliant.experiments.trial import Trial
from pliant.experiments.units import missing, own_units
from pliant.progress import Progress
from pliant.shards import Shard


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
    "defaults": defaults,
}
"""Six of the paper's, in its order, and four of our own."""


def chosen(
    name: str, file: Path | None, given: Mapping[str, Any], quick: bool = False
) -> dict[str, Settings]:
    """Choose the settings of an experiment.

    A setting comes from `given`, else from `quick`, else from the file, else from the paper.

    Parameters
    ----------
    name : str
        The name of an experiment, one of `EXPERIMENTS`, or `"all"`.
    file : Path or None
        A TOML file with a table `[experiment]`.
    given : mapping of str to object
        Settings by their names. `train` and `test` name folders of annotated images.
    quick : bool
        Use few images and starts, to try an experiment out.

    Returns
    -------
    dict of str to settings
        The settings of each experiment, by its name, for `conduct`.

    Raises
    ------
    ValueError
        If there is no such experiment or setting, or no folder to train or test on.

    Examples
    --------
    >>> import pliant
    >>> folders = {"train": ("photographs/",), "test": ("annotated/",)}
    >>> settings = pliant.experiments.chosen("rho", None, folders, quick=True)
    >>> settings["rho"].starts, settings["rho"].noise
    (1, 0.05)

    """
    if name not in (*EXPERIMENTS, "all"):
        raise ValueError(
            f"there is no experiment '{name}'. Known experiments: {', '.join(EXPERIMENTS)}, all, report."
        )
    kinds = {key: experiment.Settings for key, experiment in EXPERIMENTS.items()}
    table = {} if file is None else read_file(file, kinds)
    names = list(EXPERIMENTS) if name == "all" else [name]
    return {key: settings_for(key, table, given, quick) for key in names}


def settings_for(name: str, table: Mapping[str, Any], given: Mapping[str, Any], quick: bool) -> Settings:
    """The settings of an experiment, with sets to train and test on."""
    settings: Settings = settings_of(EXPERIMENTS[name].Settings, name, table, given, quick)
    if not settings.train:
        raise ValueError(f"{name}: give at least one folder to train on: train=FOLDER.")
    if len(settings.part) > 2:
        raise ValueError(
            f"{name}: part={','.join(settings.part)}: give one part for all sets, or two: one to train on, "
            "and one to test on."
        )
    if not settings.test and len(settings.part) == 2:
        settings = replace(settings, test=settings.train)
    if not settings.test and name != "objects" and not getattr(settings, "objects", ()):
        raise ValueError(f"{name}: give at least one folder to test on: test=FOLDER.")
    return settings


@dataclass(frozen=True)
class Conducted:
    """How much of an experiment a run did.

    Attributes
    ----------
    units : int
        How many units of work belong to this run.
    fitted : int
        How many of them it fitted. The others were done before.

    Examples
    --------
    >>> import pliant
    >>> pliant.experiments.Conducted(units=31, fitted=0).fitted  # everything was there already
    0

    """

    units: int
    fitted: int


def conduct(
    folder: Path,
    wanted: Mapping[str, Settings],
    *,
    jobs: Jobs = None,
    shard: Shard | None = None,
    skip_invalid: bool = False,
    progress: bool | None = None,
) -> dict[str, Conducted]:
    """Run experiments, or one shard of each, and write the results to a folder.

    What is there already is not fitted again. Shards may share the folder or have one each, and may run at the
    same time, in any order and more than once.

    Parameters
    ----------
    folder : Path
        The folder to write to.
    wanted : mapping of str to settings
        The settings of each experiment by its name, as `chosen` returns them.
    jobs : int, Crew or None
        Threads, all cores by default; or a cluster from `pliant.connect`.
    shard : Shard or None
        Which share of the work to do; by default all of it.
    skip_invalid : bool
        Leave out samples that cannot be used, with a warning.
    progress : bool or None
        Show progress: by default a bar in a terminal, and otherwise a line every half minute. False shows nothing.

    Returns
    -------
    dict of str to Conducted
        How much of each experiment was done.

    Raises
    ------
    ValueError
        If something could not be fitted. It is raised when everything else is done.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> given = {"train": ("photographs/",), "test": ("annotated/",), "algorithms": ("po-inv-gn",)}
    >>> small = {"size": 30.0, "scales": (1.0,), "shape_modes": (3,), "iterations": (2,), "starts": 1}
    >>> settings = pliant.experiments.chosen("algorithms", None, given | small)
    >>> pliant.experiments.conduct(Path("results"), settings, jobs=1, progress=False)
    {'algorithms': Conducted(units=1, fitted=1)}

    """
    crew = crew_of(jobs)
    conducted: dict[str, Conducted] = {}
    troubles: list[str] = []
    before: set[tuple[str, int]] = set()
    with Progress(progress) as bar:
        data = Data(crew.threads, bar, skip_invalid)
        for name, settings in wanted.items():
            named = name_trials(EXPERIMENTS[name].plan(settings), data)
            shown = pictures.planned(name, named)
            listed = [{"file": picture.file, "caption": picture.caption} for picture in shown]
            plan = make_plan(name, settings, named, listed)
            mine = plan.units
            if shard is not None:
                _check_same(folder, plan)
                mine = own_units(plan.units, shard)
                shown = [picture for picture in shown if plan.units[0] in mine and not picture.fits]
                # What two experiments have in common is done by the shard that has it in the first.
                mine = [unit for unit in mine if unit.name not in before]
                before |= {unit.name for unit in plan.units}
                note_shard(folder, name, shard)
            write_plan(folder, plan)
            left = missing(folder, mine)
            failed = run(folder, left, data, crew)
            conducted[name] = Conducted(len(mine), len(left))
            troubles += [f"{name}, {sentence}" for sentence in failed]
            if not failed:
                pictures.draw_missing(folder, shown, data, crew)
    if troubles:
        listed_troubles = "\n".join(f"  {sentence}" for sentence in troubles)
        raise ValueError(
            f"not everything could be fitted:\n{listed_troubles}\nFinished results are in {folder}. Run the "
            "same command again to continue."
        )
    return conducted


def _check_same(folder: Path, plan: Plan) -> None:
    """Shards of one folder are of one plan: another would take the place of the first."""
    path = plan_of(folder, plan.experiment)
    differing = difference(read_plan(path), plan) if path.is_file() else ""
    if differing:
        raise ValueError(
            f"{path}: earlier shards belong to another experiment: {differing}. Use a separate folder for "
            "this one with output=FOLDER."
        )


@dataclass(frozen=True)
class Drawn:
    """What `draw` drew.

    Attributes
    ----------
    written : list of Path
        The files of the report.
    conclusions : list of str
        What the experiments conclude, a sentence each.
    unfinished : list of str
        The experiments that are not complete, which are left out of the report.

    Examples
    --------
    >>> import pliant
    >>> pliant.experiments.Drawn([], ["All algorithms fit alike."], []).conclusions
    ['All algorithms fit alike.']

    """

    written: list[Path]
    conclusions: list[str]
    unfinished: list[str]


def draw(folder: Path, reference: Path | None = None, others: Path | None = None) -> Drawn:
    """Draw the report of a folder that experiments were written to.

    Parameters
    ----------
    folder : Path
        The folder.
    reference : Path or None
        A folder with the paper's figures, `paper_lfpw.csv` and `paper_runtime.csv`, to draw beside these.
    others : Path or None
        A CSV file with errors of other methods, in the columns test, method and error.

    Returns
    -------
    Drawn
        The files of the report, and what the experiments conclude.

    Raises
    ------
    ValueError
        If no experiment in the folder is complete.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> given = {"train": ("photographs/",), "test": ("annotated/",), "algorithms": ("po-inv-gn",)}
    >>> small = {"size": 30.0, "scales": (1.0,), "shape_modes": (3,), "iterations": (2,), "starts": 1}
    >>> settings = pliant.experiments.chosen("algorithms", None, given | small)
    >>> done = pliant.experiments.conduct(Path("results"), settings, jobs=1, progress=False)
    >>> str(pliant.experiments.draw(Path("results")).written[0].name)
    'report.html'

    """
    found: dict[str, Findings] = {}
    unfinished: list[str] = []
    paper, runtimes = read_reference(reference)
    for name, experiment in EXPERIMENTS.items():
        if not plan_of(folder, name).is_file():
            continue
        plan = read_plan(plan_of(folder, name))
        named = plan.named
        if missing(folder, plan.units):
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
        parts = [study.about(), *drawn.parts, *pictures.drawn(folder, plan.content.get("pictures", []))]
        found[name] = replace(drawn, parts=parts, settings=plan.content["settings"])
    if not found:
        raise ValueError(f"{folder}: there is no finished experiment here to draw.")
    conclusions = [one.conclusion for one in found.values() if one.conclusion]
    return Drawn(findings.write(folder, found), conclusions, unfinished)


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
            raise ValueError(
                f"{path}: the column '{lacking[0]}' is missing; the file needs {', '.join(columns)}."
            )
        return list(reader)
