"""What landmarks an object has: their names, and the curves that some of them form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Curve:
    """Landmarks along a line, by their indices; the last is joined to the first if it is closed."""

    name: str
    points: tuple[int, ...]
    closed: bool = False


def described(names: Sequence[str], curves: Sequence[Curve]) -> dict[str, Any]:
    """Names and curves as a line of the history has them; a ValueError says what is wrong with them."""
    if not names or len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise ValueError("each landmark has a name of its own, and there is at least one.")
    if any(not 0 <= point < len(names) for curve in curves for point in curve.points):
        raise ValueError(f"a curve has a landmark that is not there: there are {len(names)}, counted from 0.")
    lines = [{"name": curve.name, "points": list(curve.points), "closed": curve.closed} for curve in curves]
    return {"names": list(names), "curves": lines}


def curves_in(said: Mapping[str, Any]) -> tuple[Curve, ...]:
    """The curves in a line of the history."""
    return tuple(Curve(curve["name"], tuple(curve["points"]), curve["closed"]) for curve in said["curves"])
