"""Plain text: a line `x y` for each landmark, or one number a line: x and y by turns.

Between two numbers stands white space, a comma or a semicolon. `nan` or `NA` is a missing landmark. Lines with # in
front are comments. Which pixel such a file calls the first is nobody's rule: 0 is taken for its centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes, one_object
from pliant.data.tables import about_commas, has_decimal_commas, number

NAME = "txt"
EXTENSIONS = (".txt",)
MANY = False

CONVENTION = Convention(
    reference="pliant's own, that of NumPy's savetxt: the centre of the first pixel is (0, 0)"
)
VARIANTS: Mapping[str, Convention] = {
    "1-based": Convention(
        reference="files made in MATLAB or R: the centre of the first pixel is (1, 1)", first_pixel=(1.0, 1.0)
    ),
    "bottom-left": Convention(
        reference="files of plotting tools: y upwards, 0 at the lower edge of the image, as in TPS",
        first_pixel=(0.0, 1.0),
        y_up=True,
    ),
}

_ENOUGH = 3
"""So many lines of numbers are landmarks; fewer could be anything."""


def recognises(path: Path, head: bytes) -> bool:
    """The ending, and lines of two numbers or of one; the last line of the head may be cut off.

    Numbers with decimal commas count too, so that `read` can say what is wrong with them.
    """
    if path.suffix.lower() not in EXTENSIONS:
        return False
    text = head.decode("utf-8", errors="replace")
    first = [row for _, row in _numbered(text) if row.strip()][:_ENOUGH]
    if len(first) == _ENOUGH and all(map(has_decimal_commas, first)):
        return True
    lines = _lines(text)
    try:
        rows = [[number(field, path, line) for field in fields] for line, fields in lines[:_ENOUGH]]
    except ValueError:
        return False
    return len(rows) == _ENOUGH and {len(row) for row in rows} in ({1}, {2})


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation, of the image beside the file."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    lines = _lines(text)
    widths = {len(fields) for _, fields in lines}
    if widths not in ({1}, {2}):
        line = next((line for line, fields in lines if len(fields) not in (1, 2)), 1)
        why = about_commas(dict(_numbered(text)).get(line, ""))
        raise ValueError(f"{path}, line {line}: expected two numbers on each line, or one on each.{why}")
    values = [number(field, path, line) for line, fields in lines for field in fields]
    if len(values) % 2:
        raise ValueError(f"{path}: {len(values)} numbers do not form pairs of x and y.")
    size = sizes("") if convention.needs_size else None
    return [Annotation("", convention.to_ours(np.array(values).reshape(-1, 2), size), size=size)]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a line `x y` for each landmark."""
    annotation = one_object(path, annotations)
    points = convention.to_theirs(annotation.points, annotation.size)
    path.write_text("".join(f"{x:.6f} {y:.6f}\n" for x, y in points), encoding="utf-8")


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """The fields of the lines that are neither empty nor comments, with the numbers of the lines."""
    split = ((line, row.replace(",", " ").replace(";", " ").split()) for line, row in _numbered(text))
    return [(line, fields) for line, fields in split if fields]


def _numbered(text: str) -> list[tuple[int, str]]:
    rows = enumerate(text.lstrip("\ufeff").splitlines(), start=1)
    return [(line, row) for line, row in rows if not row.lstrip().startswith("#")]
