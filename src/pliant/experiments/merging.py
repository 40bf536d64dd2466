"""Shards of an experiment put together: they are checked, collected in one folder, and what is missing is named."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.crew import Threads
from pliant.data.addresses import Source
from pliant.data.validation import SamplesLeftOut
from pliant.experiments import pictures
from pliant.experiments.conduct import EXPERIMENTS
from pliant.experiments.plans import (
    Plan,
    difference,
    is_experiment,
    note_shard,
    noted_shards,
    plan_of,
    read_plan,
    write_plan,
)
from pliant.experiments.run import Data, name_trials
from pliant.experiments.units import Unit, missing, own_units
from pliant.files import real_path, replaced
from pliant.progress import Progress
from pliant.shards import Shard
from pliant.table import read_head

_NAMED = 4
"""Units that a sentence names."""


@dataclass(frozen=True)
class Merged:
    """What `merge_experiments` put together.

    Attributes
    ----------
    output : Path
        The folder with everything.
    experiments : tuple of str
        The experiments in it.
    units : int
        How many units of work they have.
    copied : int
        How many units came from another folder.
    twice : int
        How many units were in more than one folder.
    missing : tuple of str
        Sentences about units that are not there, with the command that makes them.
    unfinished : tuple of str
        The experiments that lack something.
    damaged : tuple of str
        Sentences about files that cannot be read.
    notes : tuple of str
        Sentences about pictures that could not be drawn.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> pliant.experiments.Merged(Path("results"), ("rho",), 6, 4, 0, (), (), (), ()).complete
    True

    """

    output: Path
    experiments: tuple[str, ...]
    units: int
    copied: int
    twice: int
    missing: tuple[str, ...]
    unfinished: tuple[str, ...]
    damaged: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.missing and not self.damaged


def merge_experiments(
    folders: Sequence[Source], output: Source | None = None, *, progress: bool | None = None
) -> Merged:
    """Collect what shards of experiments wrote in one folder. `draw` makes the report from it.

    Parameters
    ----------
    folders : sequence of Path
        Where the shards wrote: one folder that they share, or several.
    output : Path or None
        Where to collect everything; by default the first folder. Files that are there already stay.
    progress : bool or None
        Show progress while images are read for pictures: by default a bar in a terminal, and otherwise a line
        every half minute. False shows nothing.

    Returns
    -------
    Merged
        What was found, and what is missing.

    Raises
    ------
    ValueError
        If folders belong to different experiments, or to one with different settings.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> given = {"train": ("photographs/",), "test": ("annotated/",), "algorithms": ("po-inv-gn",)}
    >>> small = {"size": 30.0, "scales": (1.0,), "shape_modes": (3,), "iterations": (2,), "starts": 1}
    >>> settings = pliant.experiments.chosen("algorithms", None, given | small)
    >>> first = pliant.experiments.Shard.parse("1/2")
    >>> done = pliant.experiments.conduct(Path("one"), settings, jobs=1, shard=first, progress=False)
    >>> pliant.experiments.merge_experiments([Path("one")], Path("both"), progress=False).experiments
    ('algorithms',)

    """
    places = []
    for folder in folders:
        if not isinstance(folder, Path) or not is_experiment(folder):
            raise ValueError(f"{folder}: there is no experiment here: no file in it is a plan.")
        places.append(folder)
    output = places[0] if output is None else output
    if not isinstance(output, Path):
        raise ValueError(f"output={output}: experiments can only be written to folders, not to addresses.")
    known = [output] if is_experiment(output) else []
    sources = list({real_path(folder): folder for folder in (*places, *known)}.values())
    # What is there already is taken first.
    sources.sort(key=lambda folder: folder != output)
    plans = _plans(sources)
    copied = twice = 0
    lacking: list[str] = []
    damaged: list[str] = []
    notes: list[str] = []
    begun = {name: {shard for folder in sources for shard in noted_shards(folder, name)} for name in plans}
    for name, plan in plans.items():
        write_plan(output, plan)
        for shard in begun[name]:
            note_shard(output, name, shard)
        for unit in plan.units:
            good, bad = _good_and_bad(unit, sources)
            twice += len(good) > 1
            damaged += [] if good else bad
            if good and good[0] != unit.file(output):
                _copy(good[0], unit.file(output))
                copied += 1
        for picture in plan.content.get("pictures", []):
            _copy_first((folder / pictures.FOLDER / Path(picture["file"]).name for folder in sources), output)
    for name, plan in plans.items():
        lacking += _missing(plan, output, begun[name], plans)
    unfinished = tuple(name for name, plan in plans.items() if missing(output, plan.units))
    for name, plan in plans.items():
        if not damaged and name not in unfinished:
            notes += _draw_pictures(output, plan, progress)
    units = len({unit.name for plan in plans.values() for unit in plan.units})
    return Merged(
        output,
        tuple(plans),
        units,
        copied,
        twice,
        tuple(lacking),
        unfinished,
        tuple(dict.fromkeys(damaged)),
        tuple(notes),
    )


def _plans(folders: Iterable[Path]) -> dict[str, Plan]:
    """The plan of each experiment, which must be the same in all folders that have one."""
    found: dict[str, tuple[Path, Plan]] = {}
    for folder in folders:
        for name in EXPERIMENTS:
            path = plan_of(folder, name)
            if not path.is_file():
                continue
            plan = read_plan(path)
            first, known = found.setdefault(name, (path, plan))
            differing = difference(known, plan)
            if differing:
                raise ValueError(
                    f"{first} and {path} are from different experiments: {differing}. Merge shards of one "
                    "experiment only."
                )
    return {name: found[name][1] for name in EXPERIMENTS if name in found}


def _good_and_bad(unit: Unit, folders: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """The files of a unit that can be read, and sentences about those that cannot."""
    good, bad = [], []
    for path in (unit.file(folder) for folder in folders):
        if path.is_file():
            try:
                read_head(path)
                good.append(path)
            except ValueError:
                bad.append(
                    f"{path}: the rows of {unit} are damaged. Delete this file and run its shard again."
                )
    return good, bad


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as partial:
        shutil.copyfile(source, partial)


def _copy_first(sources: Iterable[Path], output: Path) -> None:
    """Copy the first of several files that is there into the folder of pictures."""
    found = next((path for path in sources if path.is_file()), None)
    if found is not None and found.parent.parent != output:
        _copy(found, output / pictures.FOLDER / found.name)


def _missing(plan: Plan, output: Path, begun: set[Shard], plans: Mapping[str, Plan]) -> list[str]:
    """Sentences about units that are not there: by shards, if it is known how many there were to be."""
    name, left = plan.experiment, missing(output, plan.units)
    earlier = list(plans)[: list(plans).index(name)]
    elsewhere = {unit.name for one in earlier for unit in plans[one].units}
    # They are named where they come first.
    left = [unit for unit in left if unit.name not in elsewhere]
    counts = {shard.count for shard in begun}
    again = f"Run pliant experiment {name} again with the same options"
    if not left:
        return []
    if len(counts) != 1:
        return [f"{name}: {_listed(left)} missing. {again} and --output {output} to continue."]
    sentences = []
    count = counts.pop()
    for shard in (Shard(number, count) for number in range(1, count + 1)):
        own = {unit.name for unit in own_units(plan.units, shard)}
        some = [unit for unit in left if unit.name in own]
        if some:
            state = "" if shard in begun else " was not run"
            what = f"shard {shard}{state}: {_listed(some)} missing"
            sentences.append(f"{name}, {what}. {again} and --shard {shard}.")
    return sentences


def _listed(units: Sequence[Unit]) -> str:
    named = "; ".join(map(str, units[:_NAMED]))
    more = f"; and {len(units) - _NAMED} more" if len(units) > _NAMED else ""
    return f"{named}{more} {'is' if len(units) == 1 else 'are'}"


def _draw_pictures(output: Path, plan: Plan, progress: bool | None) -> list[str]:
    """Draw the pictures of fits, which need the rows of all shards, if the images can be read here."""
    wanted = [
        picture
        for picture in pictures.planned(plan.experiment, plan.named)
        if picture.fits and not (output / pictures.FOLDER / picture.file).is_file()
    ]
    if not wanted:
        return []
    try:
        with Progress(progress) as bar, warnings.catch_warnings():
            # The shards have said it.
            warnings.simplefilter("ignore", SamplesLeftOut)
            crew = Threads()
            data = Data(crew.threads, bar, skip_invalid=True)
            trials = [trial for trial, _ in plan.named]
            if [rows for _, rows in name_trials(trials, data)] != [rows for _, rows in plan.named]:
                raise ValueError("the images or their landmarks have changed since.")
            pictures.draw_missing(output, wanted, data, crew)
    except (ValueError, OSError) as error:
        return [f"{plan.experiment}: the report has no pictures of fits: {error}"]
    return []
