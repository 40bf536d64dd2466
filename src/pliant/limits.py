"""What a stranger's file may ask of the parsers, and how much of it a sentence repeats.

Python's parsers end in a RecursionError where brackets are nested by the thousand, and `tomllib` takes the square
of the length of a dotted key. Here both are refusals like any other.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LARGEST_TOML = 2**20
"""Bytes of a TOML file."""

_MOST_DOTS = 2000
"""Dots on one line of TOML: a key of 45,000 parts took 2.6 s to read, and one of 2,000 takes 5 ms."""

_DEEPEST_TOML = 32
"""Tables and lists within each other."""

_LONGEST_SENTENCE = 1800


def parsed_json(text: str | bytes) -> Any:
    """What `json.loads` returns; a ValueError for whatever cannot be read, brackets without end among it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("this JSON is nested too deeply") from None


def parsed_toml(text: str, where: object) -> dict[str, Any]:
    """The tables in a TOML text; a ValueError with a sentence that begins with `where` if it cannot be read."""
    if len(text) > LARGEST_TOML:
        raise ValueError(f"{where}: this TOML file has more than {LARGEST_TOML // 1024:,} KB.")
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise ValueError(f"{where}: a line of this TOML file has more than {_MOST_DOTS:,} dots.")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: this is not a TOML file ({error}).") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits.
        raise ValueError(f"{where}: a number in this TOML file is too long to read.") from None
    except RecursionError:
        content = None
    if content is None or not _is_shallow(content):
        raise ValueError(f"{where}: the tables and lists in this TOML file are nested too deeply.")
    return content


@contextmanager
def brief_refusals() -> Iterator[None]:
    """A ValueError whose sentence repeats a long piece of a file says less of it, in whole characters."""
    try:
        yield
    except ValueError as error:
        said = _brief(str(error))
        if said == str(error) or type(error) is not ValueError:
            raise
        raise ValueError(said) from None


def _brief(said: str) -> str:
    try:
        said.encode("utf-8", "surrogateescape")
    except (
        UnicodeEncodeError
    ):  # Half a character, which JSON can have, and which can be neither shown nor sent.
        said = said.encode("utf-8", "backslashreplace").decode()
    long = len(said) > _LONGEST_SENTENCE
    return f"{said[: _LONGEST_SENTENCE - 300]} ... {said[-200:]}" if long else said


def _is_shallow(content: Any) -> bool:
    level = [content]
    for _ in range(_DEEPEST_TOML):
        inside = [value.values() if isinstance(value, dict) else value for value in level]
        level = [one for some in inside for one in some if isinstance(one, (dict, list))]
    return not level
