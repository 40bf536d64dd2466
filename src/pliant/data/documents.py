"""Reading XML and JSON: nothing in a file can make the reader blow up, and what is wrong gets a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, ElementTree, TreeBuilder, indent
from xml.parsers import expat

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Size

Kind = TypeVar("Kind")

# Atomic and possessive: what was read as blank or comment is never read another way, which would take ages.
_PROLOG = r"(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*)?>)*+"
_FIRST_TAG = re.compile(_PROLOG + r"<([A-Za-z_][\w.-]*)[\s/>]", flags=re.DOTALL)

_KINDS = {dict: "an object", list: "a list", str: "text", int: "a whole number", float: "a number"}


def read_xml(path: Path) -> tuple[Element, Callable[[Element], str]]:
    """The root of an XML file, and a function that says where an element is: `file, line 12`.

    A document type is refused: that is where entities are defined which grow to gigabytes or name other files.
    """
    parser, builder = expat.ParserCreate(), TreeBuilder()
    lines: dict[Element, int] = {}
    refused: list[int] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def refuse(*_: object) -> None:
        refused.append(parser.CurrentLineNumber)
        raise ValueError

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: this is not XML ({expat.ErrorString(error.code)})."
        ) from None
    except (ValueError, LookupError) as error:
        if refused:
            raise ValueError(
                f"{path}, line {refused[0]}: a DOCTYPE is not read, because it can define entities: remove "
                "it."
            ) from None
        raise ValueError(f"{path}: the encoding declared in this XML cannot be read ({error}).") from None
    return builder.close(), lambda element: f"{path}, line {lines[element]}"


def write_xml(path: Path, root: Element) -> None:
    """Write an element and all that is in it, in UTF-8, indented."""
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def xml_root(head: bytes) -> str:
    """The tag of the first element in the first bytes of a file, empty if this is not XML."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    found = _FIRST_TAG.match(text)
    return found[1] if found else ""


def attribute(element: Element, name: str, where: Callable[[Element], str]) -> str:
    """An attribute that must be there."""
    value = element.get(name)
    if value is None:
        raise ValueError(f"{where(element)}: <{element.tag}> has no '{name}'.")
    return value


def number(element: Element, name: str, where: Callable[[Element], str]) -> float:
    """A number in an attribute that must be there."""
    text = attribute(element, name, where)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where(element)}: {name}='{text[:60]}' is not a number.") from None


def whole(element: Element, name: str, where: Callable[[Element], str]) -> int:
    """A whole number, 0 or above, in an attribute that must be there."""
    text = attribute(element, name, where)
    value = whole_number(text)
    if value is None:
        raise ValueError(f"{where(element)}: {name}='{text[:60]}' is not a whole number.")
    return value


def whole_number(text: str) -> int | None:
    """A whole number, 0 or above, of at most nine digits: more count neither pixels nor landmarks."""
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def image_size(element: Element, where: Callable[[Element], str]) -> Size | None:
    """The width and height in the attributes of an element, if it has them."""
    if element.get("width") is None or element.get("height") is None:
        return None
    return whole(element, "width", where), whole(element, "height", where)


def read_json(path: Path) -> Any:
    """What is in a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not JSON text in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: this is not JSON ({error.msg}).") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits.
        raise ValueError(f"{path}: a number in this JSON is too long to read.") from None
    except RecursionError:
        raise ValueError(f"{path}: this JSON is nested too deeply to hold landmarks.") from None


def numbers(values: object, where: str, what: str) -> Float64:
    """An array of what a JSON list has, with nan for null; `what` says in a sentence what it should have been."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{where}: {what}.") from None


def entry(record: object, key: str, kind: type[Kind], where: str) -> Kind:
    """What a JSON object has under a key, which must be there and of this kind."""
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected an object with '{key}', found '{str(record)[:60]}'.")
    if key not in record:
        raise ValueError(f"{where}: there is no '{key}'.")
    value = record[key]
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is float and isinstance(value, int):
        # Beyond 2**1023 an integer is no number for us; it stays one and is refused below.
        value = float(value) if abs(value) < 2**1023 else value
    if not isinstance(value, kind) or isinstance(record[key], bool):
        raise ValueError(f"{where}: '{key}' must be {_KINDS[kind]}, not '{str(value)[:60]}'.")
    return value
