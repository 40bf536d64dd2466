"""Settings of experiments: the paper's by default, from one TOML file, or from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from pliant.experiments.trial import Modes, Training, Trial

TABLE = "experiment"


def sized(usual: Any, quick: Any) -> Any:
    """A setting that `--quick` makes smaller."""
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
    size: float = 150.0
    scales: tuple[float, ...] = (0.5, 1.0)
    shape_modes: tuple[Modes, ...] = (3, 12)
    appearance_variance: tuple[Modes, ...] = (0.75,)
    features: str = "dsift"
    motion: str = "piecewise-affine"
    mirror: bool = False
    points: str = "all"
    noise: float = 0.05
    starts: int = sized(3, 1)
    tries: int = 1
    seed: int = 0
    iterations: tuple[int, ...] = (24, 16)
    most_train: int = sized(0, 200)
    most_test: int = sized(0, 24)

    def training(self, **changes: Any) -> Training:
        """A model of these settings, but for some."""
        plain: dict[str, Any] = {
            "sets": self.train,
            "size": self.size,
            "scales": self.scales,
            "shape_modes": self.shape_modes,
            "appearance_variance": self.appearance_variance,
            "features": self.features,
            "motion": self.motion,
            "mirror": self.mirror,
            "most": self.most_train,
            "images": self.images,
            "format": self.format,
            "part": self.part[0] if self.part else "",
        }
        return Training(**{**plain, **changes})

    def trial(self, label: str, algorithm: str, **changes: Any) -> Trial:
        """A trial of these settings, but for some."""
        plain: dict[str, Any] = {
            "training": self.training(),
            "test": self.test,
            "test_part": self.part[-1] if self.part else "",
            "iterations": self.iterations,
            "noise": self.noise,
            "tries": self.tries,
            "seed": self.seed,
            "points": self.points,
            "most": self.most_test,
            "starts": self.starts,
        }
        return Trial(label=label, algorithm=algorithm, **{**plain, **changes})


Kind = TypeVar("Kind", bound=Settings)


def read_file(path: Path, known: Mapping[str, type[Settings]]) -> dict[str, Any]:
    """The table [experiment] of a TOML file, with a table in it for each experiment that differs."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: this is not a TOML file ({error}).") from None
    table = content.get(TABLE)
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{path}: there is no table [{TABLE}] in this file.")
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    _check_keys(f"{path}: [{TABLE}]", shared, Settings)
    for name, own in table.items():
        if isinstance(own, dict):
            if name not in known:
                raise ValueError(f"{path}: there is no experiment '{name}'. Known: {', '.join(known)}.")
            _check_keys(f"{path}: [{TABLE}.{name}]", own, known[name])
    return table


def settings_of(
    kind: type[Kind], name: str, table: Mapping[str, Any], given: Mapping[str, Any], quick: bool
) -> Kind:
    """The settings of one experiment: what was given comes first, then `quick`, then the file, then the paper."""
    values: dict[str, Any] = {}
    for source in (table, table.get(name, {})):
        values |= {_inside(key): value for key, value in source.items() if not isinstance(value, dict)}
    if quick:
        values |= {one.name: one.metadata["quick"] for one in fields(kind) if "quick" in one.metadata}
    values |= given
    return kind(**{one.name: _typed(one, values[one.name]) for one in fields(kind) if one.name in values})


_SPELT = {"format": "from"}
"""What options and files call a setting where it is not its name."""


def _inside(key: str) -> str:
    return {outside: name for name, outside in _SPELT.items()}.get(key, key.replace("-", "_"))


def _outside(name: str) -> str:
    return _SPELT.get(name, name.replace("_", "-"))


def _check_keys(where: str, given: Mapping[str, Any], kind: type[Settings]) -> None:
    known = {one.name for one in fields(kind)}
    unknown = sorted(key for key in given if _inside(key) not in known)
    if unknown:
        listed = ", ".join(sorted(map(_outside, known)))
        raise ValueError(f"{where} has no setting '{unknown[0]}'. Known: {listed}.")


def _typed(one: Field[Any], value: Any) -> Any:
    """A value as the dataclass wants it; one where several are meant is a tuple of one."""
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    kind = str(one.type).removeprefix("tuple[").removesuffix(", ...]")
    fits = {
        "str": lambda item: isinstance(item, str),
        "bool": lambda item: isinstance(item, bool),
        "int": lambda item: isinstance(item, int) and not isinstance(item, bool),
    }.get(kind, lambda item: isinstance(item, (int, float)) and not isinstance(item, bool))
    many = kind != one.type
    if not several or not all(map(fits, several)) or (len(several) > 1 and not many):
        words = {"str": "text", "bool": "true or false", "int": "whole number"}.get(kind, "number")
        raise ValueError(
            f"{_outside(one.name)} = {value!r}: this must be {'a list of ' if many else 'one '}{words}"
            f"{'s' if many else ''}."
        )
    # A count of modes and a share of the variance are told apart by the point: they stay as they were written.
    typed = [float(item) for item in several] if kind == "float" else several
    return tuple(typed) if many else typed[0]
