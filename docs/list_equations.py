"""Write docs/explanation/equations.md: every numbered equation of the paper, and the lines that compute it.

python docs/list_equations.py
python docs/list_equations.py --paper paper.tex    # compare our list with the paper's LaTeX source as well

The list is docs/equations.csv. A comment in the source that ends in "eq. 48, 52" says that its line, or the next
one if it stands alone, computes these equations. An equation without such a line names what `stands_for` it.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "pliant"
LIST = DOCS / "equations.csv"
PAGE = DOCS / "explanation" / "equations.md"

PARTS = [
    (1, "Models (section 2)"),
    (10, "Costs (section 3.1)"),
    (25, "Compositions (section 3.2)"),
    (35, "Gauss-Newton (section 3.3.1)"),
    (70, "Newton (section 3.3.2)"),
    (101, "Efficient second-order minimisation (section 3.3.2)"),
    (111, "Wiberg (section 3.3.3)"),
    (125, "Weighted project-out (section 5.2)"),
    (126, "Second derivatives (appendix A)"),
]
"""The first equation of each part of the page, and its title."""

_MARKER = re.compile(r"\beq\. (\d+(?:, \d+)*)$")
_LIKE_A_MARKER = re.compile(r"\beqs?\b\.?\s*\d", re.IGNORECASE)


@dataclass(frozen=True)
class Equation:
    """An equation of the paper: what it says in our words, and what stands for it if no line computes it."""

    number: int
    label: str
    meaning: str
    stands_for: str
    note: str


@dataclass(frozen=True)
class Place:
    """A line of code, or the first line of a function or class if `whole`."""

    file: str
    name: str
    line: int
    code: str
    whole: bool = False


def read_list(text: str) -> list[Equation]:
    rows = csv.DictReader(io.StringIO(text))
    return [Equation(int(row.pop("number")), **row) for row in rows]


def marked_lines(source: Path) -> dict[int, list[Place]]:
    """The lines that markers in all files below `source` point to, by the number of the equation."""
    found: dict[int, list[Place]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, names = text.splitlines(), _names(text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or not _LIKE_A_MARKER.search(token.string):
                continue
            marker, before = _MARKER.search(token.string), token.line[: token.start[1]].strip()
            line = token.start[0] + (not before)
            code, file = before or lines[line - 1].strip(), path.relative_to(source).as_posix()
            if marker is None or not code or code.startswith("#"):
                raise ValueError(
                    f"{file}:{token.start[0]}: a marker of equations ends its comment, as in '# eq. 48, 52', and "
                    "stands behind its line of code or right above it."
                )
            place = Place(file, _around(names, line), line, code)
            for number in marker[1].split(", "):
                found[int(number)].append(place)
    return dict(found)


def named_place(source: Path, name: str) -> Place:
    """The function or class that is called `file.py:Class.function`."""
    file, _, symbol = name.partition(":")
    path = source / file
    if not path.is_file():
        raise ValueError(f"docs/equations.csv names {name}, and there is no file {file} in src/pliant.")
    spans = _names(path.read_text(encoding="utf-8"))
    if symbol not in spans:
        raise ValueError(f"docs/equations.csv names {name}, and there is no {symbol} in {file}.")
    return Place(file, symbol, spans[symbol][0], "", whole=True)


def faults(equations: Sequence[Equation], lines: Mapping[int, Sequence[Place]]) -> list[str]:
    """Sentences about what does not fit between our list and the markers in the source."""
    numbers = [equation.number for equation in equations]
    found = []
    if numbers != list(range(1, len(numbers) + 1)):
        found.append("docs/equations.csv must have one row for each equation, from 1 on, without a gap.")
    for number in sorted(lines.keys() - set(numbers)):
        where = ", ".join(f"{place.file}:{place.line}" for place in lines[number])
        found.append(f"{where} is marked with equation {number}, which docs/equations.csv does not have.")
    for equation in equations:
        if equation.number in lines and equation.stands_for:
            found.append(
                f"equation {equation.number} has a line at {lines[equation.number][0].file}: clear its stands_for "
                "in docs/equations.csv."
            )
        if equation.number not in lines and not equation.stands_for:
            found.append(
                f'equation {equation.number} has no line: mark the one that computes it with "# eq. '
                f'{equation.number}", or name what stands_for it in docs/equations.csv.'
            )
    return found


def numbered_in(tex: str) -> list[str]:
    """The labels of all equations that LaTeX numbers, in order, and "" for those without one.

    The paper has one number for each `equation` and `eqnarray`, because all rows are inside of `aligned`.
    """
    bodies = re.findall(r"\\begin\{(equation|eqnarray)\}(.*?)\\end\{\1\}", tex, re.DOTALL)
    labels = [re.search(r"\\label\{([^}]*)\}", body) for _, body in bodies]
    return ["" if label is None else label[1] for label in labels]


def page_of(equations: Sequence[Equation], source: Path) -> str:
    """The page, in Markdown."""
    lines = marked_lines(source)
    wrong = faults(equations, lines)
    if wrong:
        raise ValueError("\n".join(wrong))
    computed = sum(equation.number in lines for equation in equations)
    costs = sum("speed.md" in equation.note for equation in equations)
    rest = len(equations) - computed - costs
    out = [
        "# Equations of the paper",
        "",
        f"The paper numbers {len(equations)} equations. Lines of pliant compute {computed} of them. {costs} state "
        f"what an iteration costs, and {rest} are assumptions or steps of a derivation; for these, the table names "
        "the function or class that stands for them, *in italics*.",
        "",
        "A few lines compute many equations, because all algorithms are solves over the same inner products: see "
        "[the framework](framework.md). Where our line differs from the printed equation, the note says so, and "
        "[errata](errata.md) gives the reason. Lines about pixels are those of the reference kernel, which is the "
        "specification, and of `kernels/cpu.py`, which computes the same products without forming a Jacobian.",
        "",
        "`docs/list_equations.py` writes this page from comments in the source. A test fails if an equation has no "
        "line, or if the page names a line that has moved.",
    ]
    starts = [*(first for first, _ in PARTS[1:]), len(equations) + 1]
    for (first, title), stop in zip(PARTS, starts, strict=True):
        out += ["", f"## {title}", "", "| | what it says | where | note |", "| --- | --- | --- | --- |"]
        for equation in equations[first - 1 : stop - 1]:
            places = lines.get(equation.number) or [named_place(source, equation.stands_for)]
            where = "<br>".join(_link(place) for place in places)
            out.append(f"| {equation.number} | {equation.meaning} | {where} | {equation.note} |")
    return "\n".join([*out, "", *_by_line(lines), ""])


def _by_line(lines: Mapping[int, Iterable[Place]]) -> list[str]:
    """The marked lines themselves, file by file, with the numbers of their equations."""
    numbers: dict[Place, list[int]] = defaultdict(list)
    for number in sorted(lines):
        for place in lines[number]:
            numbers[place].append(number)
    out, file, name = ["## The lines", "", "Each marked line, and the equations that it computes."], "", ""
    for place in sorted(numbers, key=lambda place: (place.file, place.line)):
        if place.file != file:
            out += ["```"] if file else []
            out += ["", f"### {place.file}", "", "```text"]
            file, name = place.file, ""
        if place.name != name:
            out += [""] if name else []
            out.append(f"# {place.name}")
            name = place.name
        out.append(f"{place.code}  # {', '.join(map(str, numbers[place]))}")
    return [*out, "```"]


def _link(place: Place) -> str:
    """To the line on this page and in its file; a function or class that stands for an equation is in its file."""
    anchor = re.sub(r"[^\w-]", "", place.file)
    name = f"*`{place.name}`*" if place.whole else f"[`{place.name}`](#{anchor})"
    return f"{name}, [{place.file}:{place.line}](../../src/pliant/{place.file}#L{place.line})"


def _names(text: str) -> dict[str, tuple[int, int]]:
    """First and last line of all functions and classes of a file, by their names with what they are inside of."""
    found: dict[str, tuple[int, int]] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{outer}.{child.name}" if outer else child.name
                found[inner] = child.lineno, child.end_lineno or child.lineno
            visit(child, inner)

    visit(ast.parse(text), "")
    return found


def _around(names: Mapping[str, tuple[int, int]], line: int) -> str:
    """The innermost function or class around a line."""
    holding = [(stop - start, name) for name, (start, stop) in names.items() if start <= line <= stop]
    return min(holding)[1] if holding else "module"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the page of equations.")
    parser.add_argument("--paper", type=Path, help="the LaTeX source of the paper, to compare our list with")
    paper = parser.parse_args().paper
    equations = read_list(LIST.read_text(encoding="utf-8"))
    if paper is not None:
        theirs, ours = numbered_in(paper.read_text(encoding="utf-8")), [one.label for one in equations]
        if theirs != ours:
            sys.exit(
                f"{paper} and {LIST} differ: {sorted(set(theirs) ^ set(ours)) or 'their order is another'}"
            )
        print(f"{paper} numbers the same {len(theirs)} equations.")
    PAGE.write_text(page_of(equations, SOURCE), encoding="utf-8")


if __name__ == "__main__":
    main()
