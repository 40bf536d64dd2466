"""Small changes of Python source, one at a time: what a test ought to notice.

`mutations(source)` lists them in a fixed order. Each has a name that does not depend on line numbers: the function,
the line as it is written, the change, and which of its kind on that line. Text is left alone, and so is what no
test can see: annotations, decorators, messages of errors, and keywords that only change speed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
    ("sin", "cos"),
    ("sum", "mean"),
    ("exp", "log"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
)
NAMES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
"""Functions that are easily taken for each other."""

UNSEEN = frozenset({"strict", "optimize", "copy", "check_finite", "overwrite_a", "overwrite_b"})
"""Keywords that change speed, or only what happens after a mistake in the caller."""


@dataclass(frozen=True)
class Mutation:
    """A change of one file: where it is, what it does, and the source that has it."""

    function: str
    """The qualified name of the outermost function or class and what is in it; empty at the level of the module."""
    line: str
    """The line as it is written, without indentation."""
    number: int
    """Of the line, which changes when the file does."""
    change: str
    occurrence: int
    apply: Callable[[], ast.Module]

    @property
    def name(self) -> str:
        """What it is called in lists: it stays while the line and its function do."""
        again = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.function or '<module>'} | {self.line} | {self.change}{again}"


def mutations(source: str) -> list[Mutation]:
    """All mutations of a source."""
    lines, seen, out = source.splitlines(), Counter[tuple[str, str, str]](), []
    for position, (node, function, field) in enumerate(_walk(ast.parse(source))):
        for change in _changes(node, field):
            line = lines[node.lineno - 1].strip()
            seen[key := (function, line, change)] += 1

            def apply(position: int = position, change: str = change) -> ast.Module:
                return _changed(source, position, change)

            out.append(Mutation(function, line, node.lineno, change, seen[key], apply))
    return out


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str, str]]:
    """Nodes in the order of the source, each with the function that it is in and the role it has there."""

    def below(node: ast.AST, function: str, field: str) -> Iterator[tuple[ast.AST, str, str]]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
        elif hasattr(node, "lineno"):
            yield node, function, field
        for name, value in ast.iter_fields(node):
            if name in (
                "annotation",
                "returns",
                "decorator_list",
                "bases",
                "type_params",
                "exc",
                "format_spec",
            ):
                continue
            if isinstance(node, ast.AnnAssign) and name == "target":
                continue
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reshape") and name == "args":
                # NumPy takes any negative number for the dimension that is left.
                value = [child for child in value if not isinstance(child, ast.UnaryOp)]
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _left_alone(child):
                    yield from below(child, function, _role(node, name, child))

    return below(tree, "", "")


def _role(node: ast.AST, field: str, child: ast.AST) -> str:
    if isinstance(node, ast.Slice):
        return "bound"
    if isinstance(node, ast.Subscript) and field == "slice":
        return "index"
    if isinstance(node, ast.If | ast.While | ast.IfExp) and field == "test":
        return "test"
    return field


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.keyword) and node.arg in UNSEEN:
        return True
    # Aliases of types look like the algebra of values: `Cost = SSD | ProjectOut`.
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _of_names(node.value)


def _of_names(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _of_names(node.left) and _of_names(node.right)
    text = ast.unparse(node)
    return text == "None" or text.split("[")[0].rsplit(".")[-1][:1].isupper()


def _changes(node: ast.AST, field: str) -> list[str]:
    """What can be done to a node, in words."""
    found: list[str] = []
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC and not _joins_text(node):
            found.append(f"{_sign(op)} -> {_sign(ARITHMETIC[type(op)]())}")
        case ast.Compare(ops=ops):
            found += [f"{n}: {_word(op)} -> {_word(COMPARISON[type(op)]())}" for n, op in enumerate(ops)]
        case ast.BoolOp(op=op):
            found.append("and -> or" if isinstance(op, ast.And) else "or -> and")
        case ast.UnaryOp(op=ast.Not()):
            found.append("not x -> x")
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            found.append("-x -> x")
        case ast.Constant(value=bool()):
            found.append(f"{node.value} -> {not node.value}")
        case ast.Constant(value=int() | float()):
            found.append(f"{node.value!r} -> {_other(node.value)!r}")
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in NAMES and field == "func":
            found.append(f"{name} -> {NAMES[name]}")
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue() | ast.Break():
            found.append("removed")
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            found.append("removed")
    if isinstance(node, ast.AugAssign):
        found.append("removed")
    if field == "bound" and not isinstance(node, ast.Constant | ast.UnaryOp) and isinstance(node, ast.expr):
        found.append("bound + 1")
    if field == "test" and not isinstance(node, ast.Compare | ast.UnaryOp):
        found.append("branches swapped")
    return found


def _joins_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Text and tuples are joined by a plus: with a minus the line fails whenever it is reached."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return any(isinstance(s, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp) for s in sides) or any(
        isinstance(s, ast.Constant) and isinstance(s.value, str | bytes) for s in sides
    )


def _other(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    return 2 * value if value else 1.0


def _sign(op: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[2:-2]


def _word(op: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2]


def _changed(source: str, position: int, change: str) -> ast.Module:
    """The tree of the source with one change."""
    tree = ast.parse(source)
    target = next(node for n, (node, _, _) in enumerate(_walk(tree)) if n == position)
    return ast.fix_missing_locations(_Replace(target, change).visit(tree))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, change: str) -> None:
        self.target, self.change = target, change

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.target:
            return ast.copy_location(_replacement(node, self.change), node)
        return super().generic_visit(node)


def _replacement(node: ast.AST, change: str) -> ast.AST:
    if change == "removed":
        return ast.Pass()
    if change == "bound + 1" and isinstance(node, ast.expr):
        return ast.BinOp(node, ast.Add(), ast.Constant(1))
    if change == "branches swapped" and isinstance(node, ast.expr):
        return ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.BinOp() | ast.AugAssign():
            node.op = ARITHMETIC[type(node.op)]()
        case ast.Compare():
            number = int(change.split(":")[0])
            node.ops[number] = COMPARISON[type(node.ops[number])]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp():
            return node.operand
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value = _other(node.value)
        case ast.Name():
            node.id = NAMES[node.id]
        case ast.Attribute():
            node.attr = NAMES[node.attr]
    return node
