"""A changed module put in the place of the one that is imported, without importing anything again.

Other modules hold the functions and classes of a module, and tests hold them too. So these stay the same objects
and only get the code and the defaults of the changed ones. Plain values at the level of the module are bound anew
wherever the old ones are.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def transplant(module: types.ModuleType, tree: ast.Module, values: Iterable[str] = ()) -> None:
    """Give the functions of a module the code of the tree, and rebind the `values` named, here and elsewhere."""
    new: dict[str, Any] = {
        name: getattr(module, name)
        for name in ("__name__", "__file__", "__package__", "__spec__", "__path__")
        if hasattr(module, name)
    }
    exec(compile(tree, module.__file__ or "", "exec"), new)
    closures = []
    for name, old in list(vars(module).items()):
        if name in new:
            _move(old, new[name], module.__name__, set())
            if _cells(old) != _cells(new[name]):
                # Python moves no code between closures over different numbers of variables.
                closures.append(name)
    for name in [*values, *closures]:
        old, value = getattr(module, name, None), new[name]
        kind = getattr(module, type(value).__name__, None)
        if (
            isinstance(kind, type)
            and kind is not type(value)
            and kind.__qualname__ == type(value).__qualname__
        ):
            object.__setattr__(value, "__class__", kind)
        setattr(module, name, value)
        for other in list(sys.modules.values()):
            # The same number may have the same name elsewhere, and be another value.
            if getattr(other, "__dict__", {}).get(name, _NOTHING) is old and _imports(other, module.__name__):
                setattr(other, name, value)


_NOTHING = object()


def _cells(value: Any) -> int:
    return len(value.__code__.co_freevars) if isinstance(value, types.FunctionType) else 0


def _imports(other: types.ModuleType, name: str) -> bool:
    """Whether a module imports from the one of this name."""
    file = Path(other.__file__ or "") if getattr(other, "__file__", None) else None
    return file is not None and file.suffix == ".py" and f"from {name} import" in file.read_text()


def _move(old: Any, new: Any, home: str, seen: set[int]) -> None:
    if id(old) in seen or old is new:
        return
    seen.add(id(old))
    for get in ("__wrapped__", "__func__", "fget", "func"):
        inner = vars(old).get(get) if hasattr(old, "__dict__") else None
        inner = (
            getattr(old, get, None) if inner is None and not isinstance(old, types.FunctionType) else inner
        )
        if inner is not None and hasattr(new, get):
            _move(inner, getattr(new, get), home, seen)
    if isinstance(old, functools._lru_cache_wrapper):
        old.cache_clear()
    elif isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
        if old.__module__ == home:
            if len(old.__code__.co_freevars) == len(new.__code__.co_freevars):
                old.__code__ = new.__code__
            before, after = old.__defaults__ or (), new.__defaults__ or ()
            if len(before) == len(after):
                old.__defaults__ = tuple(_default(*pair) for pair in zip(before, after, strict=True))
            for name, value in (new.__kwdefaults__ or {}).items():
                old.__kwdefaults__[name] = _default(old.__kwdefaults__[name], value)
    elif isinstance(old, type) and isinstance(new, type) and old.__module__ == home:
        for name, value in list(vars(old).items()):
            other = vars(new).get(name, value)
            _move(value, other, home, seen)
            if isinstance(value, bool | int | float | tuple) and name[:2] != "__" and value != other:
                setattr(old, name, other)


def _default(old: Any, new: Any) -> Any:
    """The new one if it is a number or a flag: a value of a class would be of a class that nobody else knows."""
    return new if isinstance(new, bool | int | float) else old


def assigned(tree: ast.Module, line: int) -> list[str]:
    """The names that the statement of the module which has this line assigns, if it is one that assigns."""
    for statement in tree.body:
        if statement.lineno <= line <= (statement.end_lineno or 0):
            match statement:
                case ast.Assign(targets=targets):
                    return [node.id for t in targets for node in ast.walk(t) if isinstance(node, ast.Name)]
                case ast.AnnAssign(target=ast.Name(id=name)):
                    return [name]
    return []


Block = tuple[str, list[ast.stmt], int]
"""A function's name and a number, a list of statements, and where the block begins: what is before may return."""

_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


def blocks(tree: ast.Module) -> Iterator[Block]:
    """The blocks of statements of all functions, outer ones first."""

    def below(node: ast.AST, name: str, count: list[int]) -> Iterator[Block]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}" if name else child.name
                yield from own(child, inner, [0]) if isinstance(child, ast.FunctionDef) else ()
                if isinstance(child, ast.ClassDef):
                    yield from below(child, inner, [0])
            else:
                yield from own(child, name, count)

    def own(node: ast.AST, name: str, count: list[int]) -> Iterator[Block]:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if name and isinstance(block, list):
                for place in range(len(block)):
                    if place == 0 or isinstance(block[place - 1], _COMPOUND):
                        yield f"{name}#{count[0]}", block, place
                        count[0] += 1
        yield from below(node, name, count)

    return below(tree, "", [0])


def block_of_lines(tree: ast.Module) -> dict[int, str]:
    """For each line in a function, the innermost block that it is in."""
    found: dict[int, str] = {}
    for name, block, place in blocks(tree):
        found.update(dict.fromkeys(range(block[place].lineno, (block[-1].end_lineno or 0) + 1), name))
    return found


def with_record(source: str, path: str, skipped: Iterable[str] = ()) -> ast.Module:
    """The tree of a source whose blocks, but for functions to be skipped, say that they run."""
    tree, without = ast.parse(source), set(skipped)
    # From the end, so that places stay where they are.
    for name, block, place in list(blocks(tree))[::-1]:
        if name.split("#")[0].split(".")[0] not in without:
            first = block[place]
            docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            place += int(docstring and place == 0)
            block[place:place] = ast.parse(f"__import__('builtins')._seen.add(({path!r}, {name!r}))").body
    return ast.fix_missing_locations(tree)
