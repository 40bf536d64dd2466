"""iBUG `.pts`: a line `x y` for each landmark, with or without a header and braces.

version: 1
n_points: 68
{
108.215 213.512
...
}
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pliant.arrays import Float64, Floats

EXTENSIONS = (".pts",)

ONE_BASED = 1.0
"""The centre of the first pixel is (1, 1): the files were written for MATLAB (300-W, iBUG group, 2013)."""


def read(path: Path) -> Float64:
    """Landmarks `(v, 2)`, 0-based; missing values written as nan stay nan for validation to report."""
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
                        f"{path}, line {number}: '{text}' does not say how many points there are."
                    ) from None
            continue
        fields = text.replace(",", " ").split()
        try:
            x, y = (float(field) for field in fields)
        except ValueError:
            raise ValueError(f"{path}, line {number}: expected two numbers, found '{text[:60]}'.") from None
        points.append((x - ONE_BASED, y - ONE_BASED))
    if not points:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    if declared is not None and declared != len(points):
        raise ValueError(f"{path}: the header announces {declared} points, but {len(points)} follow.")
    return np.array(points)


def write(path: Path, points: Floats) -> None:
    """Write landmarks `(v, 2)`, 0-based, with the header that other tools expect."""
    lines = [f"{x + ONE_BASED:.6f} {y + ONE_BASED:.6f}" for x, y in points]
    path.write_text(
        "\n".join(["version: 1", f"n_points: {len(lines)}", "{", *lines, "}", ""]), encoding="utf-8"
    )
