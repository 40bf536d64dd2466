"""Values on the wire: dataclasses as JSON, requests checked against their types, and types as JSON schemas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string"}


def to_json(value: Any) -> Any:
    """What `json.dumps` takes; numbers that are not finite are null, as JSON has none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_json(kind: Any, value: Any, where: str) -> Any:
    """A value of the type that is wanted; a ValueError says where there is something else."""
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _from_union(arguments, value, where)
    if origin is Literal:
        if not any(value is one or (type(value) is type(one) and value == one) for one in arguments):
            raise ValueError(f"{where} must be one of {', '.join(map(repr, arguments))}, not {value!r}.")
        return value
    if is_dataclass(kind):
        return _from_object(kind, value, where)
    if origin in (list, Sequence):
        return [from_json(arguments[0], one, f"{where}[{k}]") for k, one in enumerate(_list_in(value, where))]
    if origin is tuple:
        return _from_tuple(arguments, value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where} must be an object.")
        return {
            _key(arguments[0], key, where): from_json(arguments[1], one, f"{where}.{key}")
            for key, one in value.items()
        }
    return _from_plain(kind, value, where)


def _from_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in arguments:
        return None
    *others, last = (one for one in arguments if one is not NoneType)
    for wanted in others:
        try:
            return from_json(wanted, value, where)
        except ValueError:
            continue
    return from_json(last, value, where)


def _from_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _list_in(value, where)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(from_json(arguments[0], one, f"{where}[{k}]") for k, one in enumerate(items))
    if len(items) != len(arguments):
        raise ValueError(f"{where} must have {len(arguments)} entries, not {len(items)}.")
    pairs = zip(arguments, items, strict=True)
    return tuple(from_json(kind, one, f"{where}[{k}]") for k, (kind, one) in enumerate(pairs))


def _from_object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object.")
    hints = _hints(kind)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise ValueError(f"{where} has no '{unknown[0]}'. Known: {', '.join(hints)}.")
    given: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = from_json(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} lacks '{field.name}'.")
    return kind(**given)


def _from_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise ValueError(f"{where} is too large a number.") from None
    if kind not in _PLAIN or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{where} must be {_article(_PLAIN.get(kind, str(kind)))}.")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{where} must be a finite number.")
    return value


def from_text(kind: Any, text: str, where: str) -> Any:
    """A value of a plain type from an address, where everything is text."""
    arguments = [one for one in get_args(kind) if one is not NoneType]
    wanted = arguments[0] if get_origin(kind) in (Union, UnionType) else kind
    try:
        if wanted is bool:
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if wanted in (int, float):
            return from_json(wanted, wanted(text), where)
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"{where} must be {_article(_PLAIN[wanted])}, not '{text[:40]}'.") from None
    return from_json(wanted, text, where)


def schema(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type; those of dataclasses are put into `components`, by name."""
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {
            "anyOf": [{"type": "null"} if one is NoneType else schema(one, components) for one in arguments]
        }
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (list, Sequence) or (origin is tuple and Ellipsis in arguments):
        return {"type": "array", "items": schema(arguments[0], components)}
    if origin is tuple:
        items = [schema(one, components) for one in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema(arguments[1], components)}
    if is_dataclass(kind):
        return _object_schema(kind, components)
    if origin is np.ndarray:
        return {"type": "array", "description": "numbers, nested as the array has axes; null if missing"}
    return {}


def _object_schema(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in components:
        components[name] = {}  # so that a type that holds itself ends here
        hints = _hints(kind)
        needed = [
            one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING
        ]
        components[name] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "properties": {one.name: schema(hints[one.name], components) for one in fields(kind)},
            "required": needed,
        }
    return {"$ref": f"#/components/schemas/{name}"}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _list_in(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list.")
    return value


def _key(kind: Any, key: str, where: str) -> Any:
    return from_text(int, key, f"a key of {where}") if kind is int else key


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
