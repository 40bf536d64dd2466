"""iBUG `.pts`: a line `x y` for each landmark, with or without a header and braces.

version: 1
n_points: 68
{
108.215 213.512
...
}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.tables import about_commas

NAME = "pts"
EXTENSIONS = (".pts",)
MANY = False

CONVENTION = Convention(
    reference="300-W (iBUG group, 2013): written by MATLAB, the centre of the first pixel is (1, 1)",
    first_pixel=(1.0, 1.0),
)
VARIANTS: Mapping[str, Convention] = {
    "0-based": Convention(reference="files of tools that count from 0, such as menpo's exports")
}


def recognises(path: Path, head: bytes) -> bool:
    """A line of text with `version:` or `n_points:`, or the ending and a line of two numbers."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    if re.match(r"\s*(version\s*:|n_points\s*:)", text):
        return True
    return path.suffix.lower() in EXTENSIONS


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation; missing values written as nan stay nan."""
    declared: int | None = None
    points: list[tuple[float, float]] = []
    for number, line in enumerate(
        path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), start=1
    ):
        text = line.strip()
        if not text or text in "{}" or text.startswith(("#", "//")):
            continue
        key, colon, value = text.partition(":")
        if colon:
            if key.strip().lower() == "n_points":
                try:
                    declared = int(value)
                except ValueError:
                    raise ValueError(
                        f"{path}, line {number}: '{text}' does not give the number of points."
                    ) from None
            continue
        fields = text.replace(",", " ").split()
        try:
            x, y = (float(field) for field in fields)
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected two numbers, found '{text[:60]}'.{about_commas(text)}"
            ) from None
        points.append((x, y))
    if not points:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    if declared is not None and declared != len(points):
        raise ValueError(f"{path}: the header gives {declared} points, but {len(points)} follow.")
    return [Annotation("", convention.to_ours(np.array(points)))]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write one annotation, with the header that other tools expect."""
    if len(annotations) != 1:
        raise ValueError(f"{path}: a .pts file holds one object, but there are {len(annotations)}.")
    lines = [f"{x:.6f} {y:.6f}" for x, y in convention.to_theirs(annotations[0].points)]
    path.write_text(
        "\n".join(["version: 1", f"n_points: {len(lines)}", "{", *lines, "}", ""]), encoding="utf-8"
    )
