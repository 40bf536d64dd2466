"""The array types that the package speaks of, and what all values that hold arrays have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Int32 = NDArray[np.int32]
Image = NDArray[Any]
"""`(h, w)`, `(h, w, 1)` or `(h, w, 3)`: 8-bit, or floating point with black at 0 and white at 1."""

Scalar = TypeVar("Scalar", bound=np.generic)


def readonly(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same memory, contiguous, closed for writing: models are values."""
    array = np.ascontiguousarray(array)
    view = array.view()
    view.flags.writeable = False
    return view


def evenly_spread(count: int, most: int) -> NDArray[np.intp]:
    """At most so many of the numbers below `count`, evenly spread."""
    return np.linspace(0, count - 1, min(most, count)).round().astype(np.intp)


class Lean:
    """A dataclass whose pickles hold what it was made of, and not what was computed from that: they travel."""

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]


class Concise(Lean):
    """A dataclass with arrays: it says what it has in one line, and not every number of it.

    Such classes are made with `eq=False, repr=False`. Arrays have no equality that is true or false, so that two of
    these values are equal if they are the same one; they can be kept in sets, and be keys.
    """

    def __repr__(self) -> str:
        named = fields(self)  # type: ignore[arg-type]
        said = ", ".join(_brief(entry.name, getattr(self, entry.name)) for entry in named)
        return f"{type(self).__name__}({said})"


def _brief(name: str, value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{name} {value.shape}"
    if is_dataclass(value):
        return f"{name} {type(value).__name__}"
    if isinstance(value, (tuple, list, Mapping)):
        return f"{name} of {len(value)}"
    text = repr(value)
    return f"{name}={text}" if len(text) <= 60 else f"{name}={text[:57]}..."


class Frozen(dict[str, Any]):
    """A dictionary that stays as it is, and so does all that is in it: lists in it are tuples.

    It is written as JSON, copied and pickled like any other. `{**frozen}` is one that can be changed.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__({key: _frozen(value) for key, value in content.items()})

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the provenance of a model cannot be changed in place, only replaced.")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Frozen], tuple[dict[str, Any]]]:
        return Frozen, (dict(self),)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Frozen(value)
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
