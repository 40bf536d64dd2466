"""How the house stands: lines, wide and long functions, import cycles, and places that name a training setting.

python benchmarks/house.py [FOLDER OF A CHECKOUT]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
SOURCE = ROOT / "src" / "pliant"
TRACED = "memory_gb", "colour", "shape_modes"
"""Training settings whose names are looked for."""


def main() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    functions = [
        (f"{path.relative_to(SOURCE)}:{node.name}", node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    print(f"{sum(lines.values())} lines in {len(files)} files; above 400 lines: ", end="")
    print(", ".join(f"{p.relative_to(SOURCE)} {n}" for p, n in lines.items() if n > 400) or "none")
    wide = sorted(((parameters(node), name) for name, node in functions), reverse=True)
    print(f"\nnine parameters or more: {sum(count >= 9 for count, _ in wide)} functions; the ten widest:")
    for count, name in wide[:10]:
        print(f"  {count:3d}  {name}")
    long = sorted(((body_lines(node), name) for name, node in functions), reverse=True)
    above = sum(count > 60 for count, _ in long)
    print(f"\nabove 60 lines, without signature and docstring: {above} functions; the ten longest:")
    for count, name in long[:10]:
        print(f"  {count:3d}  {name}")
    modules = {module_of(path): tree for path, tree in trees.items()}
    for kind in ("at the top of files", "deferred ones too"):
        graph = {
            name: set(imports(name, tree, set(modules), deferred=kind.startswith("deferred")))
            for name, tree in modules.items()
        }
        cycles = [part for part in components(graph) if len(part) > 1]
        print(f"\nimport cycles, {kind}: {len(cycles)}")
        for cycle in cycles:
            print(f"  {len(cycle)} modules: {', '.join(sorted(cycle))}")
    for setting in TRACED:
        named = [
            f"{path.relative_to(SOURCE)} {count}"
            for path in files
            if (count := len(re.findall(rf"\b{setting}\b", path.read_text(encoding="utf-8"))))
        ]
        print(f"\n{setting} is named in {len(named)} files: {', '.join(named)}")


def parameters(node: ast.FunctionDef) -> int:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([one for one in every if one.arg not in ("self", "cls")])


def body_lines(node: ast.FunctionDef) -> int:
    """Lines of what a function does: the options of a command and docstrings with examples are not counted."""
    documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    body = node.body[1:] if documented else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def module_of(path: Path) -> str:
    parts = ("pliant", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name: str, tree: ast.AST, known: set[str], deferred: bool) -> Iterator[str]:
    """Modules of ours that a module imports when it runs; what is for type checkers alone does not count."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += [(child, inside) for child in node.orelse]
            continue
        function = isinstance(node, (ast.FunctionDef, ast.Lambda))
        waiting += [(child, inside or function) for child in ast.iter_child_nodes(node)]
        if inside and not deferred:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known and alias.name != name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found = whole if whole in known else node.module
                if found in known and found != name:
                    yield found


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts, after Tarjan."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            found.append(part)

    for name in graph:
        if name not in index:
            visit(name)
    return found


if __name__ == "__main__":
    main()
