"""Where in a JSON text its values are: what a parser forgets, and an editor needs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

_DECODE = json.JSONDecoder().raw_decode
_BLANK = re.compile(r"[ \t\r\n]*")

Element = tuple[Any, int, int]
"""A value of a list, and where it begins and ends."""


def members(text: str, at: int, apart: Collection[str] = ()) -> Iterator[tuple[str, Any, int, int]]:
    """The members of an object that begins at `at`: key, value, and where the value begins and ends.

    The value of a list that is to be taken `apart` is that of its elements.
    """
    if text[at] != "{":
        raise json.JSONDecodeError("expected an object", text, at)
    at = skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODE(text, at)
        at = skip(text, skip(text, at) + 1)
        if key in apart and text[at] == "[":
            value = list(elements(text, at))
            end = skip(text, value[-1][2] if value else at + 1) + 1
        else:
            value, end = _DECODE(text, at)
        yield key, value, at, end
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def elements(text: str, at: int) -> Iterator[Element]:
    """The elements of a list that begins at `at`."""
    at = skip(text, at + 1)
    while text[at] != "]":
        value, end = _DECODE(text, at)
        yield value, at, end
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def skip(text: str, at: int) -> int:
    """Where something else than a blank stands next."""
    match = _BLANK.match(text, at)
    return match.end() if match else at
