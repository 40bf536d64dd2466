"""Files that say what an experiment consists of, and which shards have had a hand in it.

All shards of an experiment write the same plan, so that it does not matter which of them is first, or last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pliant.data.addresses import Source
from pliant.experiments.settings import Settings
from pliant.experiments.trial import Trial, trial_from
from pliant.experiments.units import Named, Unit, units_of
from pliant.files import replaced
from pliant.limits import parsed_json
from pliant.shards import Shard
from pliant.version import __version__

_SHARDS = "shards"
"""The folder with a file for each shard that was begun."""

_PLACES = ("train", "test", "images")
"""Settings that say where the images are: that may be another place on another machine."""


@dataclass(frozen=True)
class Plan:
    """What an experiment consists of: the content of its file, and the trials with the names of their rows."""

    content: Mapping[str, Any]
    named: Named

    @property
    def experiment(self) -> str:
        return str(self.content["experiment"])

    @cached_property
    def units(self) -> list[Unit]:
        return units_of(self.named)


def plan_of(folder: Path, name: str) -> Path:
    """The file that says what an experiment consists of."""
    return folder / f"{name}.json"


def is_experiment(folder: Source) -> bool:
    """Whether `pliant experiment` wrote to a folder; it does not write to addresses."""
    return isinstance(folder, Path) and any(map(_is_plan, folder.glob("*.json")))


def _is_plan(path: Path) -> bool:
    try:
        content = parsed_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"settings", "trials"} <= content.keys()


def make_plan(name: str, settings: Settings, named: Named, pictures: Sequence[Mapping[str, str]]) -> Plan:
    content = {
        "experiment": name,
        "pliant": __version__,
        "settings": settings.to_dict(),
        "pictures": list(pictures),
        "trials": [{"rows": rows, **trial.to_dict()} for trial, rows in named],
    }
    return Plan(json.loads(json.dumps(content)), named)


def write_plan(folder: Path, plan: Plan) -> None:
    """Write a plan in one step: other shards may be writing it now, or reading it."""
    folder.mkdir(parents=True, exist_ok=True)
    with replaced(plan_of(folder, plan.experiment)) as partial:
        partial.write_text(json.dumps(plan.content, indent=1) + "\n", encoding="utf-8")


def read_plan(path: Path) -> Plan:
    named: list[tuple[Trial, str]] = []
    try:
        content: dict[str, Any] = parsed_json(path.read_text(encoding="utf-8"))
        older = any("fitting" not in item for item in content["trials"])
        for item in content["trials"] if not older else ():
            trial = trial_from({key: value for key, value in item.items() if key != "rows"})
            named.append((trial, item["rows"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{path}: this plan of an experiment is damaged, or from another version of pliant: run it again, "
            "into a new folder."
        ) from None
    if older:
        raise ValueError(
            f"{path}: this experiment was run by an older version with a different row format: run it again, "
            "into a new folder."
        )
    return Plan({"experiment": path.stem, **content}, named)


def difference(one: Plan, other: Plan) -> str:
    """Why two plans of an experiment are not the same, as `noise is 0.05 and 0.1`; empty if they are.

    Sets may lie in different places, if their landmarks are the same.
    """
    ours, theirs = one.content["settings"], other.content["settings"]
    for key in dict.fromkeys([*ours, *theirs]):
        if key not in _PLACES and ours.get(key) != theirs.get(key):
            return f"{key.replace('_', '-')} is {_shown(ours.get(key))} and {_shown(theirs.get(key))}"
    versions = [plan.content.get("pliant", "an older one") for plan in (one, other)]
    if versions[0] != versions[1]:
        return f"the version of pliant is {versions[0]} and {versions[1]}"
    if [rows for _, rows in one.named] != [rows for _, rows in other.named]:
        places = [
            f"{key} is {_shown(ours.get(key))} and {_shown(theirs.get(key))}"
            for key in _PLACES
            if ours.get(key) != theirs.get(key)
        ]
        if places:
            return f"{', '.join(places)}, and their landmarks differ"
        return "the landmarks have changed in the meantime"
    return ""


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, list) else str(value)


def note_shard(folder: Path, name: str, shard: Shard) -> None:
    """Leave word that a shard of an experiment was begun, so that a merge knows how many there are."""
    path = folder / _SHARDS / f"{name}-{shard.number}-of-{shard.count}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as partial:
        partial.write_text(json.dumps({"experiment": name, "shard": str(shard)}) + "\n", encoding="utf-8")


def noted_shards(folder: Path, name: str) -> set[Shard]:
    """The shards of an experiment that were begun in a folder."""
    found = set()
    for path in (folder / _SHARDS).glob(f"{name}-*.json"):
        numbers = re.fullmatch(rf"{re.escape(name)}-([0-9]+)-of-([0-9]+)", path.stem)
        if numbers:
            found.add(Shard(int(numbers[1]), int(numbers[2])))
    return found
