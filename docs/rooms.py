"""The rooms of pliant, from its real imports: what tests/test_package.py holds to layers and draw_map.py draws.

A room is a folder or a file in src/pliant. Rooms stand in rows, so that every import between them points to a lower
row. A room whose files are needed at several heights is drawn in several rows: the values that a model holds are
below it, and what learns them is above.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "pliant"

COMFORTS = {
    # A data set shows itself in a notebook; the import waits until it does.
    "data.dataset": {"plots.notebook"},
}
"""Imports that point outwards: methods for the user's comfort."""

DOORS = frozenset({"", "__main__"})
"""The package and its command, which stand for the whole house."""

Imports = Mapping[str, frozenset[str]]
"""The modules of the package that each module imports."""


@dataclass(frozen=True)
class Part:
    """Modules of one room that are drawn together."""

    room: str
    modules: frozenset[str]


def modules_in(source: Path) -> dict[str, Path]:
    """All modules below the folder of a package by their names in it: `fitting.loop`, and `""` for the package."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, modules: Iterable[str], package: str = "pliant") -> set[str]:
    """Modules that a file imports when it runs, at its top or later, but not for type checkers alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix(f"{package}.")
                found.add(f"{package}.{inner}" if inner in modules else node.module)
    return {name.removeprefix(f"{package}.") for name in found if name.startswith(f"{package}.")}


def read_imports(source: Path) -> dict[str, frozenset[str]]:
    """What imports what, without the doors of the house and comforts.

    Files that import nothing and that nobody imports are left out: they are the empty `__init__.py` of folders.
    """
    modules = modules_in(source)
    inner = modules.keys() - DOORS
    graph = {
        name: frozenset(imports_of(modules[name], modules) & inner - COMFORTS.get(name, set()) - {name})
        for name in sorted(inner)
    }
    needed = frozenset().union(*graph.values())
    return {name: found for name, found in graph.items() if found or name in needed}


def room_of(module: str) -> str:
    return module.partition(".")[0]


def parts_of(imports: Imports) -> list[Part]:
    """The rooms, each whole if it can stand at one height; lower ones come first.

    A room can be placed once all that it imports is there. When none can be placed as a whole, the part of a room
    that can be is placed instead: the part which lets most of the others follow.
    """
    left: dict[str, frozenset[str]] = {}
    for module in sorted(imports):
        left[room_of(module)] = left.get(room_of(module), frozenset()) | {module}
    parts: list[Part] = []
    while left:
        whole, left, placed = _placed(imports, left, _modules(parts))
        parts += whole
        if not left:
            break
        tries = {room: _ready(imports, some, placed) for room, some in left.items()}
        stuck = {
            room: (
                len(_placed(imports, {**left, room: left[room] - some}, placed | some)[1]),
                len(left[room] - some),
            )
            for room, some in tries.items()
            if some
        }
        if not stuck:
            raise ValueError(f"imports go round between some files of {', '.join(sorted(left))}.")
        best = min(stuck, key=lambda room: stuck[room])
        parts.append(Part(best, tries[best]))
        left[best] -= tries[best]
    return parts


def rows_of(parts: Iterable[Part], imports: Imports) -> list[list[Part]]:
    """Parts by height, the highest row first.

    A part that no other imports is in the highest row: people enter the house there. Every other one stands right
    below the lowest one that imports it.
    """
    parts = list(parts)
    part_of = {module: part for part in parts for module in part.modules}
    depths = dict.fromkeys(parts, 0)
    for part in reversed(parts):
        below = {part_of[name] for module in part.modules for name in imports[module]} - {part}
        depths |= {other: max(depths[other], depths[part] + 1) for other in below}
    rows = [[part for part in parts if depths[part] == depth] for depth in range(max(depths.values()) + 1)]
    return [sorted(row, key=lambda part: part.room) for row in rows]


def _placed(
    imports: Imports, left: Mapping[str, frozenset[str]], placed: frozenset[str]
) -> tuple[list[Part], dict[str, frozenset[str]], frozenset[str]]:
    """Rooms that can be placed as a whole, one after the other; what is left then, and all that is placed."""
    rest, parts = dict(left), []
    while True:
        ready = [room for room, some in rest.items() if _ready(imports, some, placed) == some]
        if not ready:
            return parts, rest, placed
        for room in ready:
            parts.append(Part(room, rest.pop(room)))
            placed |= parts[-1].modules


def _ready(imports: Imports, modules: frozenset[str], placed: frozenset[str]) -> frozenset[str]:
    """The modules that import each other and what is placed, and nothing else."""
    while True:
        kept = frozenset(module for module in modules if imports[module] <= placed | modules)
        if kept == modules:
            return kept
        modules = kept


def _modules(parts: Iterable[Part]) -> frozenset[str]:
    return frozenset().union(*(part.modules for part in parts))
