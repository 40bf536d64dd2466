"""Settings of experiments: the paper's by default, from one TOML file, or from the command line.

What is trained and how it is fitted are settings of `train` and `fit`: here they stand beside the experiment's own,
in one table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pliant.experiments.trial import PAPER, PAPER_FITTING, Sets, Trial
from pliant.limits import brief_refusals
from pliant.settings import Fitting, Training
from pliant.settings.declaring import Settings as Declared
from pliant.settings.declaring import as_named_now, nearest, options, read_table
from pliant.settings.kinds import is_number

TABLE = "experiment"


def sized(usual: Any, quick: Any) -> Any:
    """A setting that `quick` makes smaller."""
    return field(default=usual, metadata={"quick": quick})


def steps(count: int) -> tuple[float, ...]:
    """So many numbers from 0 to 1."""
    return tuple(round(k / (count - 1), 6) for k in range(count))


@dataclass(frozen=True)
class Settings:
    """What all experiments have. The defaults are the paper's.

    `images`, `format` and `part` are how sets are read, as in other commands; of two parts of manifests, the first
    is trained and the second tested on. `most_train` and `most_test` are how many images of a set are used at most,
    evenly taken from it; 0 is all.
    """

    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    images: str = ""
    format: str = ""
    part: tuple[str, ...] = ()
    training: Training = PAPER
    fitting: Fitting = PAPER_FITTING
    points: str = "all"
    noise: float = 0.05
    starts: int = sized(3, 1)
    most_train: int = sized(0, 200)
    most_test: int = sized(0, 24)

    @property
    def iterations(self) -> tuple[int, ...]:
        """Most iterations at each level."""
        fitting = self.fitting.suited_to(self.training, len(self.training.scales))
        return fitting.iterations or ()

    def sets(self, **changes: Any) -> Sets:
        """What models learn from, but for some changes."""
        part = self.part[0] if self.part else ""
        sets = Sets(self.train, most=self.most_train, images=self.images, format=self.format, part=part)
        return replace(sets, **changes)

    def trial(self, label: str, algorithm: str, fitting: Fitting | None = None, **changes: Any) -> Trial:
        """A trial of these settings, but for some."""
        plain: dict[str, Any] = {
            "sets": self.sets(),
            "test": self.test,
            "test_part": self.part[-1] if self.part else "",
            "training": self.training,
            "noise": self.noise,
            "points": self.points,
            "most": self.most_test,
            "starts": self.starts,
        }
        chosen = (fitting or self.fitting).changed(algorithm=algorithm)
        return Trial(label=label, fitting=chosen, **{**plain, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain values in one table, as files have them."""
        plain: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Declared):
                known = _known(value)
                plain |= {name: some for name, some in value.to_dict().items() if name in known}
            else:
                plain[one.name] = value
        return plain


Kind = TypeVar("Kind", bound=Settings)

_ELSEWHERE = {
    Training: {"missing", "skip_invalid", "detector", "confidence", "licence", "seed"},
    Fitting: {
        "start",
        "detector",
        "fallback",
        "any_rotation",
        "objects",
        "trusted",
        "algorithm",
        "experts",
        "cascade",
    },
}
"""Settings that mean nothing here: samples are checked before, starts are drawn, and `algorithms` are tried.

`experts` and `cascade` are what is trained: a model that has them is fitted with them.
"""


def _known(values: Training | Fitting | Declared) -> set[str]:
    """The settings of training or fitting that an experiment has."""
    return {name for name, *_ in options(values)} - _ELSEWHERE[type(values)]


def read_file(path: Path, known: Mapping[str, type[Settings]]) -> dict[str, Any]:
    """The table [experiment] of a TOML file, with a table in it for each experiment that differs."""
    table = read_table(path, TABLE)
    with brief_refusals():
        _check_table(path, table, known)
    return table


def _check_table(path: Path, table: Mapping[str, Any], known: Mapping[str, type[Settings]]) -> None:
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    _check_keys(f"{path}: [{TABLE}]", shared, Settings)
    for name, own in table.items():
        if isinstance(own, dict):
            if name not in known:
                raise ValueError(
                    f"{path}: there is no experiment '{name}'. Known experiments: {', '.join(known)}."
                )
            _check_keys(f"{path}: [{TABLE}.{name}]", own, known[name])


def settings_of(
    kind: type[Kind], name: str, table: Mapping[str, Any], given: Mapping[str, Any], quick: bool
) -> Kind:
    """The settings of one experiment: what was given comes first, then `quick`, then the file, then the paper."""
    values: dict[str, Any] = {}
    for source in (table, table.get(name, {})):
        values |= dict(_inside(key, value) for key, value in source.items() if not isinstance(value, dict))
    if quick:
        values |= {one.name: one.metadata["quick"] for one in fields(kind) if "quick" in one.metadata}
    values |= given
    chosen: dict[str, Any] = {}
    for one in fields(kind):
        if isinstance(one.default, Declared):
            known = _known(one.default)
            own = {key: value for key, value in values.items() if key in known}
            chosen[one.name] = one.default.from_dict({**one.default.to_dict(), **own})
        elif one.name in values:
            chosen[one.name] = _typed(one, values[one.name])
    return kind(**chosen)


_SPELT = {"format": "from"}
"""What options and files call a setting where it is not its name."""


def _inside(key: str, value: Any) -> tuple[str, Any]:
    """A setting of a file under the name that it has inside, and now."""
    names = {outside: name for name, outside in _SPELT.items()}
    return as_named_now(names.get(key, key.replace("-", "_")), value)


def _outside(name: str) -> str:
    return _SPELT.get(name, name.replace("_", "-"))


def _check_keys(where: str, given: Mapping[str, Any], kind: type[Settings]) -> None:
    known: set[str] = set()
    for one in fields(kind):
        known |= _known(one.default) if isinstance(one.default, Declared) else {one.name}
    unknown = sorted(key for key in given if _inside(key, 0)[0] not in known)
    if unknown:
        meant = nearest(_outside(unknown[0]), map(_outside, known))
        raise ValueError(f"{where} has no setting '{unknown[0]}'. {meant}")


def _typed(one: Field[Any], value: Any) -> Any:
    """A value as the dataclass wants it; one where several are meant is a tuple of one."""
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    kind = str(one.type).removeprefix("tuple[").removesuffix(", ...]")
    fits = {
        "str": lambda item: isinstance(item, str),
        "int": lambda item: isinstance(item, int) and not isinstance(item, bool),
    }.get(kind, is_number)
    many = kind != one.type
    if not several or not all(map(fits, several)) or (len(several) > 1 and not many):
        words = {"str": "text", "int": "whole number"}.get(kind, "number")
        raise ValueError(
            f"{_outside(one.name)} = {value!r:.60}: this must be {'a list of ' if many else 'one '}{words}"
            f"{'s' if many else ''}."
        )
    typed = [float(item) for item in several] if kind == "float" else several
    return tuple(typed) if many else typed[0]
