"""How settings are declared, checked, changed, and written as plain values for JSON, TOML and command lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import cleandoc, get_annotations, getdoc
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar, Self, TypeVar

from pliant.files import open_plain
from pliant.limits import LARGEST_TOML, brief_refusals, parsed_toml
from pliant.settings.kinds import ALL, Kind

Value = TypeVar("Value")

Made = TypeVar("Made", bound="Settings")

_HOLD_OUT = "To hold samples out: rest, held_out = dataset.split(0.2)."
"""What `pliant train --hold-out` does is no setting."""


def setting(default: Value, kind: Kind, help: str) -> Value:
    """A field of settings: its default, what it may be, and what it does."""
    return field(default=default, metadata={"kind": kind, "help": help})


def declared(cls: type[Made]) -> type[Made]:
    """Have a dataclass of settings say what was meant where it is given a name that it does not know."""
    initialise: Callable[..., None] = cls.__init__

    @wraps(initialise)
    def init(self: Made, *values: Any, **given: Any) -> None:
        _require_known(cls, given)
        initialise(self, *values, **given)

    setattr(cls, "__init__", init)  # noqa: B010  mypy has no word for a method that takes anything.
    return cls


@dataclass(frozen=True)
class Settings:
    """What all settings share: checks, changes, and a plain form for JSON and TOML.

    The docstring of a subclass gets a section Parameters, made of what its settings were declared with.
    """

    TABLE: ClassVar[str] = ""
    """The table of a TOML file that has these settings, if there is one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = _documented(cls)

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _checked(one, getattr(self, one.name)))

    def changed(self, **changes: Any) -> Self:
        """Return the same settings with some of them changed.

        Parameters
        ----------
        **changes
            New values by the names of the settings.

        Returns
        -------
        Settings
            Checked settings of the same class.

        Raises
        ------
        TypeError
            If there is no setting of a name.
        ValueError
            If a value is wrong.

        Examples
        --------
        >>> import pliant
        >>> pliant.Fitting(sampling=0.5).changed(iterations=8).sampling
        0.5

        """
        _require_known(type(self), changes)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, ready for JSON and TOML.

        Settings within settings have a joined name (`stopping_tolerance`). None becomes `"none"`. A setting that
        is None or empty by default is left out unless you changed it.

        Returns
        -------
        dict of str to plain values
            `from_dict` makes the same settings of it.

        Examples
        --------
        >>> import pliant
        >>> settings = pliant.Starting(start="scan", tries=3)
        >>> settings.to_dict()
        {'start': 'scan', 'tries': 3, 'any_rotation': False, 'seed': 0}
        >>> pliant.Starting.from_dict(settings.to_dict()) == settings
        True

        """
        return {
            name: _plain(value)
            for name, value, default in _leaves(self)
            if not (value == default and default in (None, (), ""))
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *, ignore_unknown: bool = False) -> Self:
        """Make settings from the plain values that `to_dict` returns.

        Parameters
        ----------
        plain : mapping of str to plain values
            Settings by name, with hyphens or underscores. Missing settings have their default. Names from pliant
            0.1 work.
        ignore_unknown : bool
            Leave out unknown names instead of raising an error.

        Returns
        -------
        Settings
            Checked settings of the class that you call it on.

        Raises
        ------
        ValueError
            If a name is unknown or a value is wrong.

        Examples
        --------
        >>> import pliant
        >>> pliant.Fitting.from_dict({"iterations": [20, 10], "sampling": 0.5}).iterations
        (20, 10)

        """
        given: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        known = {name for name, _, _ in _leaves(cls())}
        for key, value in plain.items():
            name, value = as_named_now(key.replace("-", "_"), value)
            if name not in known:
                if ignore_unknown:
                    continue
                raise ValueError(f"there is no setting '{key}'. {nearest(name, known)}")
            outer, _, inner = name.partition("_")
            if name not in {one.name for one in fields(cls)}:
                nested.setdefault(outer, {})[inner] = value
            else:
                given[name] = value
        for outer, values in nested.items():
            given[outer] = replace(getattr(cls(), outer), **values)
        return cls(**given)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read settings from a TOML file, such as the one that `pliant train` writes beside a model.

        They are in the table with the name of the command. Other entries of the command in that table are ignored.

        Parameters
        ----------
        path : Path or str
            The file.

        Returns
        -------
        Settings
            Checked settings of the class that you call it on.

        Raises
        ------
        ValueError
            If the file does not exist, is not TOML, or has a wrong value. The message says which.

        Examples
        --------
        >>> import pliant
        >>> pliant.Fitting(sampling=0.5).save("fit.toml")
        >>> pliant.Fitting.load("fit.toml").sampling
        0.5

        """
        table = read_table(Path(path), cls.TABLE)
        known = {name for name, _, _ in _leaves(cls())}
        kept = {
            key: value for key, value in table.items() if as_named_now(key.replace("-", "_"), 0)[0] in known
        }
        with brief_refusals():
            try:
                return cls.from_dict(kept)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None

    def save(self, path: Path | str) -> None:
        """Write the settings to a TOML file that `load`, and a command with `--settings`, can read.

        Parameters
        ----------
        path : Path or str
            The file.

        Examples
        --------
        >>> import pliant
        >>> pliant.Tracking(look_every=5).save("track.toml")
        >>> pliant.Tracking.load("track.toml").look_every
        5

        """
        Path(path).write_text(as_toml({self.TABLE: self.to_dict()}), encoding="utf-8")


def read_table(path: Path, name: str) -> dict[str, Any]:
    """The table of this name in a TOML file."""
    try:
        with open_plain(path) as file:
            text = file.read(LARGEST_TOML + 1).decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: this is not a TOML file ({error}).") from None
    # As text files have them: the ends of lines may be those of Windows.
    table = parsed_toml(text.replace("\r\n", "\n"), path).get(name, {})
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{path}: this file has no table [{name}].")
    return table


def as_toml(tables: Mapping[str, Mapping[str, Any]], note: str = "") -> str:
    """Tables of plain values as TOML; what is None is left out."""
    lines = [f"# {note}", ""] if note else []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [
            f"{key.replace('_', '-')} = {_toml(value)}" for key, value in table.items() if value is not None
        ]
        lines.append("")
    return "\n".join(lines)


def options(settings: Settings) -> Iterator[tuple[str, Any, Kind, str]]:
    """Name, value, kind and help of every setting; those of settings within settings have the name of both."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if isinstance(value, Settings):
            for name, inner, kind, help in options(value):
                yield f"{one.name}_{name}", inner, kind, help
        else:
            yield one.name, value, one.metadata["kind"], one.metadata["help"]


def _leaves(settings: Settings) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and default of every setting."""
    defaults = {name: value for name, value, _, _ in options(type(settings)())}
    for name, value, _, _ in options(settings):
        yield name, value, defaults[name]


def _documented(cls: type[Settings]) -> str:
    """The docstring of settings with a section about each of them, before the examples."""
    # The class is no dataclass yet: what it inherits are fields, and what is its own are attributes.
    declared = {one.name: (one.type, one) for one in fields(cls)}
    for name, kind in get_annotations(cls).items():
        if isinstance(one := vars(cls).get(name), Field):
            declared[name] = kind, one
    lines = ["Parameters", "----------"]
    for name, (kind, one) in declared.items():
        lines += _described(name, str(kind), one)
    text, heading, examples = cleandoc(cls.__doc__ or "").partition("Examples\n--------\n")
    return "\n".join([text.rstrip(), "", *lines, "", heading + examples]).rstrip() + "\n"


def _described(name: str, kind: str, one: Field[Any]) -> list[str]:
    """What NumPy's style has for a parameter: a line with its type and default, and its help below."""
    if "kind" not in one.metadata:
        within: Any = one.default_factory
        default, help = f"{within.__name__}()", (getdoc(within) or "").partition("\n")[0]
    else:
        default, help = repr(one.default), one.metadata["help"]
        if choices := one.metadata["kind"].choices:
            kind = f"{{{', '.join(map(repr, choices))}}}{' or None' if kind.endswith('None') else ''}"
    lines = wrap(help, 90, break_on_hyphens=False)
    return [f"{name} : {kind}, default {default}", *(f"    {line}" for line in lines)]


def _checked(one: Field[Any], value: Any) -> Any:
    if "kind" not in one.metadata:
        if not isinstance(value, Settings) or type(value).__name__ != one.type:
            raise ValueError(f"{one.name}={shown(value)}: it must be {one.type}(...).")
        return value
    try:
        return one.metadata["kind"].check(value)
    except ValueError as error:
        raise ValueError(f"{one.name}={shown(value)}: {error}") from None


def shown(value: Any) -> str:
    """A value as a person would type it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(shown, value))
    return str(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say to somebody who gave a name that is not known: the name that was meant, or all there are."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"Known settings: {', '.join(known)}."


def _require_known(cls: type[Settings], given: Iterable[str]) -> None:
    known = {one.name for one in fields(cls)}
    for name in given:
        if name not in known:
            meant = _HOLD_OUT if name == "hold_out" else nearest(name, known)
            raise TypeError(f"there is no setting '{name}'. {meant}")


_FORMER = {"appearance_variance": "appearance_modes", "rescan_below": "trusted"}
"""What settings were called in pliant 0.1."""


def as_named_now(name: str, value: Any) -> tuple[str, Any]:
    """A setting under its present name. In 0.1, 1.0 was all of the variance."""
    if name != "appearance_variance":
        return _FORMER.get(name, name), value
    several = value if isinstance(value, (list, tuple)) else [value]
    return _FORMER[name], [ALL if isinstance(one, float) and one == 1 else one for one in several]


def _plain(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return getattr(value, "__name__", type(value).__name__) if callable(value) else value


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    # A JSON string is a TOML string as well, but for the one character that JSON leaves bare.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
