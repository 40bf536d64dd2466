"""Draw docs/pictures/map.svg: the rooms of pliant in rows, and the way of an image through train and fit.

python docs/draw_map.py

Rooms and rows come from the real imports (rooms.py), and what a room answers from its docstring: a new room needs
nothing here. The two journeys are ours; each step must be called from a file that imports it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rooms import SOURCE, Imports, Part, modules_in, parts_of, read_imports, rows_of

PICTURE = Path(__file__).parent / "pictures" / "map.svg"

Steps = Sequence[tuple[str, str]]
"""What is called (`module:name`), and what happens to the image there."""


@dataclass(frozen=True)
class Journey:
    """The way of an image: its title, its colour, and its steps in order."""

    title: str
    colour: str
    steps: Steps


JOURNEYS = (
    Journey(
        "An image through train",
        "#B84A00",
        (
            ("training:train", "the data set comes in"),
            ("building.build:checked_samples", "it is one of the samples"),
            ("data.validation:usable", "it is read and checked"),
            ("tuning.search:search", "held-out fits choose settings"),
            ("shape:train_shape_model", "its landmarks shape the model"),
            ("starts.filter_learning:learn_filter", "the model learns to find the object"),
            ("building.components:find_components", "level by level:"),
            ("building.vectors:all_vectors", "it becomes a vector"),
            ("appearance.view:feature_view", "its features, at the level's scale"),
            ("motion:PiecewiseAffine", "warped to the mean shape"),
            ("pca:Accumulator", "one row of the principal components"),
            ("kernels.cpu:basis_slopes", "slopes of the basis, computed once"),
            ("model:Model", "the model is a value"),
            ("tuning.experts:teach", "an expert learns from it"),
            ("trust.calibration:calibrate", "held-out fits teach how far to trust"),
            ("store:save", "saved, it is one file"),
        ),
    ),
    Journey(
        "An image through fit",
        "#00609C",
        (
            ("batch:fit", "a block of images comes in"),
            ("inputs:read", "it is read"),
            ("starts.choice:find_chain", "where is the object?"),
            ("fitting.fitter:Fitter", "coarse to fine:"),
            ("fitting.guided:guides", "an expert looks, if there is one"),
            ("experts.sightings:Sightings", "where it has seen landmarks"),
            ("appearance.view:feature_view", "its features, at the level's scale"),
            ("fitting.loop:iterate", "again and again:"),
            ("kernels.system:System", "its pixels become inner products"),
            ("fitting.solve:increments", "the algorithm solves for a step"),
            ("motion:compose", "the step moves the warp"),
            ("trust.evidence:gather", "what speaks for the fit"),
            ("fitting.result:FitResult", "landmarks, status, confidence"),
        ),
    ),
)

WIDTH, EDGE, GAP = 920, 16, 14
LINE, ROUND = 16, 10
INK, PALE, PAPER, WALL = "#1F2328", "#57606A", "#FCFCFA", "#8C959F"
FOLDER, FILE = "#EEF2F6", "#F8F4E8"


@dataclass(frozen=True)
class Box:
    """A part of a room as it is drawn: where it lies, its name, what it answers, and its steps of the journeys."""

    part: Part
    x: float
    y: float
    width: float
    height: float
    words: tuple[str, ...]
    folder: bool
    steps: tuple[tuple[int, int], ...]

    def place(self, journey: int, step: int) -> tuple[float, float]:
        """The middle of the disc of a step."""
        at = self.steps.index((journey, step))
        return self.x + self.width - 16 - (len(self.steps) - 1 - at) * (2 * ROUND + 5), self.y + 16


def callers(steps: Steps, imports: Imports) -> list[int | None]:
    """For each step the latest one before it whose file imports it; the first step has none."""
    modules = [name.partition(":")[0] for name, _ in steps]
    found: list[int | None] = [None]
    for number, module in enumerate(modules[1:], 1):
        before = [k for k in range(number) if module in imports[modules[k]] or module == modules[k]]
        if not before:
            raise ValueError(
                f"docs/draw_map.py: no step before {steps[number][0]} is in a file that imports {module}. "
                "Name the step that calls it first."
            )
        found.append(before[-1])
    return found


def check_steps(steps: Steps, source: Path) -> None:
    """A sentence, if a journey names what is not there."""
    modules = modules_in(source)
    for name, _ in steps:
        module, _, symbol = name.partition(":")
        if module not in modules:
            raise ValueError(f"docs/draw_map.py names {name}, and there is no module {module} in src/pliant.")
        if symbol not in _bound(ast.parse(modules[module].read_text(encoding="utf-8"))):
            raise ValueError(f"docs/draw_map.py names {name}, and there is no {symbol} in {module}.")


def laid_out(rows: Sequence[Sequence[Part]], source: Path, journeys: Sequence[Journey]) -> list[Box]:
    """The boxes, row by row: files are as wide as their names, and folders share what is left."""
    modules, boxes, y = modules_in(source), list[Box](), 64.0
    whole = {
        part.room: sum(other.room == part.room for row in rows for other in row) == 1
        for row in rows
        for part in row
    }
    for row in rows:
        steps = [_steps_in(part, journeys) for part in row]
        folders = [(source / part.room).is_dir() for part in row]
        narrow = [28 + 9 * len(part.room) + 25 * len(some) for part, some in zip(row, steps, strict=True)]
        files = sum(width for width, folder in zip(narrow, folders, strict=True) if not folder)
        room = WIDTH - 2 * EDGE - GAP * (len(row) - 1) - files
        share = min(room / max(sum(folders), 1), 520)
        widths = [share if folder else width for width, folder in zip(narrow, folders, strict=True)]
        words = [
            _wrapped(_answer(part, modules, whole[part.room]), width) if folder else ()
            for part, width, folder in zip(row, widths, folders, strict=True)
        ]
        height = 34 + LINE * max(map(len, words)) + 3 * any(words)
        x = (WIDTH - sum(widths) - GAP * (len(row) - 1)) / 2
        for part, width, own, folder, some in zip(row, widths, words, folders, steps, strict=True):
            boxes.append(Box(part, x, y, width, height, own, folder, some))
            x += width + GAP
        y += height + GAP
    return boxes


def draw(source: Path, journeys: Sequence[Journey] = JOURNEYS) -> str:
    """The picture, as SVG."""
    imports = read_imports(source)
    for journey in journeys:
        check_steps(journey.steps, source)
    boxes = laid_out(rows_of(parts_of(imports), imports), source, journeys)
    bottom = max(box.y + box.height for box in boxes) + 30
    height = bottom + 30 + 22 * max((len(journey.steps) for journey in journeys), default=0) + EDGE
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        'font-family="Helvetica, Arial, sans-serif">',
        "<title>The rooms of pliant, and the way of an image through train and fit</title>",
        f'<rect width="{WIDTH}" height="{height:.0f}" rx="10" fill="{PAPER}"/>',
        _text(EDGE, 34, "The rooms of pliant", 20, INK, bold=True),
        _text(WIDTH - EDGE, 34, "every import points downwards", 14, PALE, end=True),
        _text(EDGE, 53, "blue boxes are folders, yellow ones are files", 13, PALE),
    ]
    out += [_walls(box) for box in boxes]
    for number, journey in enumerate(journeys):
        out += _arrows(number, journey, boxes, imports)
    out += [_words(box) for box in boxes]
    for number, journey in enumerate(journeys):
        out += _discs(number, journey, boxes)
        out += _legend(number, journey, bottom + 12)
    return "\n".join([*out, "</svg>", ""])


def _walls(box: Box) -> str:
    fill = FOLDER if box.folder else FILE
    return (
        f'<rect data-room="{box.part.room}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="{fill}" stroke="{WALL}"/>'
    )


def _words(box: Box) -> str:
    """Name and answer, with a rim in the colour of the box, so that arrows do not cross letters out."""
    name = _text(box.x + 11, box.y + 21, box.part.room, 15, INK, bold=True)
    lines = [_text(box.x + 11, box.y + 40 + LINE * k, line, 13, PALE) for k, line in enumerate(box.words)]
    rim = f'stroke="{FOLDER if box.folder else FILE}" stroke-width="4" paint-order="stroke"'
    return f'<g {rim} stroke-linejoin="round">{name}{"".join(lines)}</g>'


def _arrows(number: int, journey: Journey, boxes: Sequence[Box], imports: Imports) -> Iterator[str]:
    """From the step that calls to the one that is called, where these are in different boxes."""
    place = _places(journey, boxes)
    for step, caller in enumerate(callers(journey.steps, imports)):
        if caller is None or place[step] is place[caller]:
            continue
        (x, y), (u, v) = place[caller].place(number, caller), place[step].place(number, step)
        bend = min((v - y) / 2, 90)
        names = [journey.steps[k][0].partition(":")[0] for k in (caller, step)]
        yield (
            f'<path data-from="{names[0]}" data-to="{names[1]}" d="M{x:.1f} {y + ROUND:.1f}C{x:.1f} {y + bend:.1f} '
            f'{u:.1f} {v - bend:.1f} {u:.1f} {v - ROUND:.1f}" fill="none" stroke="{journey.colour}" '
            'stroke-width="1.6" stroke-opacity="0.55"/>'
        )


def _discs(number: int, journey: Journey, boxes: Sequence[Box]) -> Iterator[str]:
    for step, box in enumerate(_places(journey, boxes)):
        x, y = box.place(number, step)
        yield _disc(x, y, step + 1, journey.colour)


def _legend(number: int, journey: Journey, top: float) -> Iterator[str]:
    """The steps of a journey in words."""
    left = EDGE + number * (WIDTH - 2 * EDGE) / 2
    yield _text(left, top, journey.title, 16, journey.colour, bold=True)
    for step, (name, words) in enumerate(journey.steps):
        y = top + 27 + 22 * step
        yield _disc(left + ROUND, y - 4, step + 1, journey.colour)
        yield _text(left + 28, y, words, 13.5, INK)
        yield _text(left + 282, y, name.partition(":")[2], 12.5, PALE, mono=True)


def _places(journey: Journey, boxes: Sequence[Box]) -> list[Box]:
    """The box of each step."""
    modules = [name.partition(":")[0] for name, _ in journey.steps]
    return [next(box for box in boxes if module in box.part.modules) for module in modules]


def _steps_in(part: Part, journeys: Sequence[Journey]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (number, step)
        for number, journey in enumerate(journeys)
        for step, (name, _) in enumerate(journey.steps)
        if name.partition(":")[0] in part.modules
    )


def _answer(part: Part, modules: Mapping[str, Path], whole: bool) -> str:
    """What a room is for, in the words of its docstring; the files of a part, if there are several parts."""
    if not whole:
        return ", ".join(sorted(module.partition(".")[2] or "__init__" for module in part.modules))
    text = ast.get_docstring(ast.parse(modules[part.room].read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("`", "")


def _wrapped(text: str, width: float) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, int((width - 20) / 7)))


def _bound(tree: ast.Module) -> set[str]:
    """Names that a module defines or imports at its top."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def _disc(x: float, y: float, number: int, colour: str) -> str:
    disc = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{ROUND}" fill="{colour}"/>'
    return disc + (
        f'<text x="{x:.1f}" y="{y + 4.2:.1f}" font-size="12" font-weight="bold" fill="#FFFFFF" '
        f'text-anchor="middle">{number}</text>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    size: float,
    colour: str,
    *,
    bold: bool = False,
    end: bool = False,
    mono: bool = False,
) -> str:
    more = ' font-weight="bold"' * bold + ' text-anchor="end"' * end + ' font-family="monospace"' * mono
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>{escape(words)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(SOURCE), encoding="utf-8")
