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


@dataclass(frozen=True)
class Landmarks:
    """The landmarks of a collection: how many, their own names if they have any, and curves.

    `had` is how many there were before others were added: files may have so few until they are written again, and
    of the further ones nobody knows anything where they have no place.
    """

    count: int
    own_names: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    had: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names, or numbers from 0."""
        return self.own_names or tuple(map(str, range(self.count)))

    def refusal(self, count: int, begun: bool, grows: bool) -> str:
        """Why there cannot be so many, once any is placed (`begun`), in files that may grow or not; or nothing."""
        if not begun or count == self.count:
            return ""
        already = f"there are {self.count} landmarks, and some are already placed"
        if count < self.count:
            return f"{already}: none can be removed."
        return "" if grows else f"{already}: files of this format cannot change their number."

    def fits(self, have: int) -> bool:
        """Whether a file may have so many."""
        return have == 0 or self.had <= have <= self.count


def described(names: Sequence[str], curves: Sequence[Curve]) -> dict[str, Any]:
    """Names and curves as a line of the history has them; a ValueError says what is wrong with them."""
    if not names or len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise ValueError("there must be at least one landmark, and each needs its own name.")
    if any(not 0 <= point < len(names) for curve in curves for point in curve.points):
        raise ValueError(
            f"a curve uses a landmark that does not exist: there are {len(names)}, counted from 0."
        )
    lines = [{"name": curve.name, "points": list(curve.points), "closed": curve.closed} for curve in curves]
    return {"names": list(names), "curves": lines}


def landmarks_in(said: Mapping[str, Any]) -> Landmarks:
    """The landmarks that a line of the history describes."""
    curves = tuple(Curve(curve["name"], tuple(curve["points"]), curve["closed"]) for curve in said["curves"])
    names = tuple(said["names"])
    return Landmarks(len(names), names, curves, said.get("had", len(names)))
