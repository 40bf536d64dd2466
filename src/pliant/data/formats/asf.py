"""Shape files `.asf` of AAM-API, known from the IMM face database: points relative to the size of the image.

# number of model points
58
# <path#> <type> <x rel.> <y rel.> <point#> <connects from> <connects to>
0  0  0.36406250  0.74583333  0  12  1
...
# host image
01-1m.jpg
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.documents import whole_number

NAME = "asf"
EXTENSIONS = (".asf",)
MANY = False

CONVENTION = Convention(
    reference="M. B. Stegmann, AAM-API, CAAMShape::Rel2Abs (read in its port in MIPAV): a pixel coordinate over "
    "the width and height; where the first pixel lies is not said, its index 0 is taken for its centre",
    unit="share",
)
VARIANTS: Mapping[str, Convention] = {}

_OPEN_PATH = 4
"""The type of a point that was annotated, on an open path."""


def recognises(path: Path, head: bytes) -> bool:
    """Under the comments a line with a number, and then one of a point."""
    lines = [text for _, text in _lines(head.decode("utf-8", errors="replace"))]
    if len(lines) < 2 or not lines[0].isdecimal():
        return False
    try:
        fields = [float(field) for field in lines[1].split()]
    except ValueError:
        return False
    return len(fields) >= 7 and all(field.is_integer() for field in fields[:2] + fields[4:7])


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation, of the host image that the last line names."""
    lines = _lines(path.read_text(encoding="utf-8-sig", errors="replace"))
    count = whole_number(lines[0][1]) if lines else None
    if count is None:
        raise ValueError(f"{path}: the first line must give the number of points.")
    points = []
    for number, text in lines[1 : 1 + count]:
        try:
            _, _, x, y, _, _, _ = (float(field) for field in text.split()[:7])
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected a point of seven numbers, found '{text[:60]}'."
            ) from None
        points.append((x, y))
    rest = [text for _, text in lines[1 + count :]]
    if len(points) < count or len(rest) > 1:
        raise ValueError(
            f"{path}: the header gives {count} points, but {len(points) + len(rest)} lines follow."
        )
    if not points:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    image = "" if not rest or rest[0] == path.stem else rest[0]
    size = sizes(image)
    return [Annotation(image, convention.to_ours(np.array(points), size), size=size)]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write one annotation, its landmarks on one open path; an image without a name is called as the file."""
    if len(annotations) != 1:
        raise ValueError(f"{path}: an .asf file holds one object, but there are {len(annotations)}.")
    [annotation] = annotations
    missing = np.flatnonzero(~np.isfinite(annotation.points).all(axis=1))
    if len(missing):
        raise ValueError(f"{path}: landmark {missing[0]} is missing, and an .asf file cannot store that.")
    last = len(annotation.points) - 1
    points = [
        f"0\t{_OPEN_PATH}\t{x:.10f}\t{y:.10f}\t{index}\t{max(index - 1, 0)}\t{min(index + 1, last)}"
        for index, (x, y) in enumerate(convention.to_theirs(annotation.points, annotation.size))
    ]
    fields = "<path#> <type> <x rel.> <y rel.> <point#> <connects from> <connects to>"
    lines = ["# AAM Shape File", "", "# number of model points", str(len(points)), ""]
    lines += [f"# model points: {fields}", *points, "", "# host image", annotation.image or path.stem, ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines that are neither empty nor comments, with their numbers."""
    lines = enumerate((line.strip() for line in text.lstrip("\ufeff").splitlines()), start=1)
    return [(number, line) for number, line in lines if line and not line.startswith("#")]
