"""Kinds of settings: what a value may be, how it is written as text, and what is said of a wrong one.

A kind takes a value from Python, from JSON or from TOML, and gives it back as the setting has it: a tuple for a
list, a float for a whole number. Otherwise it raises a ValueError that says what the setting must be. Text, as a
command line has it, is parsed first; what cannot be parsed stays text, so that the check has the only word on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ALL = "all"
"""As many as there are."""

MODES = f"a count of modes (12), a share of the variance below 1 (0.75) or '{ALL}'"


@dataclass(frozen=True)
class Kind:
    """`check` is for values, `parse` for text, and `metavar` is what a command line shows for the value."""

    check: Callable[[Any], Any]
    parse: Callable[[str], Any] = str
    metavar: str = "<text>"
    choices: tuple[str, ...] = ()


def number(
    least: float = -math.inf,
    most: float = math.inf,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    what: str = "",
) -> Kind:
    """A finite number from `least` to `most`, or between `above` and `below`; `what` says so in words."""

    def check(value: Any) -> float:
        if not is_number(value) or not (least <= value <= most and above < value < below):
            raise ValueError(f"it must be {what or 'a number'}.")
        return float(value)

    return Kind(check, _parsed, "<number>")


def whole(least: int, what: str = "") -> Kind:
    """A whole number from `least`."""

    def check(value: Any) -> int:
        if not _is_whole(value) or value < least:
            raise ValueError(f"it must be {what or f'a whole number of at least {least}'}.")
        return int(value)

    return Kind(check, _parsed, "<integer>")


def count_or_all(what: str) -> Kind:
    """A number of things from 1, or all of them."""

    def check(value: Any) -> int | str:
        if isinstance(value, str) and value == ALL:
            return ALL
        if not _is_whole(value) or value < 1:
            raise ValueError(f"it must be a number of {what} of at least 1, or '{ALL}'.")
        return int(value)

    return Kind(check, _parsed, f"<integer>|{ALL}")


def text(what: str = "text") -> Kind:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"it must be {what}.")
        return value

    return Kind(check)


def choice(*names: str) -> Kind:
    """One of a few names."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"it must be {_or(names)}.")
        return str(value)

    return Kind(check, metavar="|".join(names), choices=names)


def flag() -> Kind:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError("it must be true or false.")
        return value

    return Kind(check, {"true": True, "false": False}.get, "")


def optional(kind: Kind) -> Kind:
    """The same, or None, which is written `none`."""

    def check(value: Any) -> Any:
        nothing = value is None or (isinstance(value, str) and value == "none")
        return None if nothing else kind.check(value)

    return Kind(check, kind.parse, kind.metavar, kind.choices)


def several(kind: Kind, what: str) -> Kind:
    """A value for each level, or one for all, written with commas."""

    def check(value: Any) -> tuple[Any, ...]:
        values = value if _is_sequence(value) else [value]
        try:
            checked = tuple(kind.check(item) for item in values)
        except ValueError:
            checked = ()
        if not checked:
            raise ValueError(f"it must be {what}.")
        return checked

    return Kind(check, lambda words: [kind.parse(word) for word in words.split(",")], f"{kind.metavar},...")


def unset(kind: Kind) -> Kind:
    """Values for the levels, or none at all: an empty tuple, which is left to others to fill."""

    def check(value: Any) -> tuple[Any, ...]:
        empty = value is None or (_is_sequence(value) and not len(value))
        return () if empty else tuple(kind.check(value))

    return Kind(check, kind.parse, kind.metavar)


def modes() -> Kind:
    """How many modes: a count, a share of the variance below 1, or all of them.

    1 is one mode. 1.0 could be one mode or all of the variance, and is neither.
    """

    def check(value: Any) -> int | float | str:
        if isinstance(value, str) and value == ALL:
            return ALL
        if _is_whole(value) and value >= 0:
            return int(value)
        if isinstance(value, str) and value.endswith("%") and is_number(share := _parsed(value[:-1])):
            value = share / 100
        if not is_number(value) or not 0 < value < 1:
            raise ValueError(f"it must be {MODES}.")
        return float(value)

    return Kind(check, _parsed, "<modes>")


def numbers_of_landmarks(count: int, what: str) -> Kind:
    """Rows of so many landmark numbers each, from 0: triangles, or pairs."""

    def check(value: Any) -> tuple[tuple[int, ...], ...]:
        given: Sequence[Any] = value if _is_sequence(value) else [()]
        rows = [tuple(row) if _is_sequence(row) else () for row in given]
        if not all(len(row) == count and all(map(_is_whole, row)) and min(row) >= 0 for row in rows):
            raise ValueError(f"it must be {what}.")
        return tuple(tuple(int(k) for k in row) for row in rows)

    return Kind(check, metavar="<file>")


def is_number(value: Any) -> bool:
    """Whether it is a finite number that a float can hold."""
    real = isinstance(value, (int, float)) or type(value).__module__ == "numpy"
    try:
        return real and not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, OverflowError):  # A whole number may be beyond all floats.
        return False


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_sequence(value: Any) -> bool:
    array = getattr(value, "ndim", 0) > 0
    return array or (isinstance(value, Sequence) and not isinstance(value, str))


def _parsed(text: str) -> Any:
    """`3` as a whole number and `0.5` as a number; everything else stays text."""
    # Python would also read 0_5 (as 5) and the digits of other scripts.
    if text.isascii() and "_" not in text:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
