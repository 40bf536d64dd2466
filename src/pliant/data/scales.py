"""The length of a pixel: as files write it, and as a user gives it for images whose files do not."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath

from pliant.data.formats import tps
from pliant.data.formats.tps import pixel_length
from pliant.files import require_plain

_COLUMNS = {"image", "scale"}


def given_scale(scale: float | Path | str) -> float | Mapping[str, float]:
    """What a user gives as a scale: one length for all images, or lengths by the names of images.

    A file is a TPS file with SCALE, or a CSV table with the columns image and scale, such as the list of held-out
    samples.
    """
    length = pixel_length(str(scale))
    if length is not None:
        return length
    if _is_number(str(scale)):
        raise ValueError(f"scale={scale}: the length of a pixel must be above 0.")
    path = Path(str(scale))
    require_plain(path)
    return _of_tps(path) if path.suffix.lower() in tps.EXTENSIONS else _of_table(path)


def scale_of(given: float | Mapping[str, float], *names: str) -> float | None:
    """The length of a pixel of the image that goes by one of these names; folders in names do not matter."""
    if not isinstance(given, Mapping):
        return given
    wanted = (*names, *(PureWindowsPath(name).name for name in names))
    return next((given[name] for name in wanted if name in given), None)


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _of_tps(path: Path) -> dict[str, float]:
    try:
        specimens = tps.read_specimens(path)
    except OSError:
        raise ValueError(f"scale={path}: this file cannot be read.") from None
    found = {one.image: one.spacing for one in specimens if one.image and one.spacing is not None}
    if not found:
        raise ValueError(f"scale={path}: no specimen in this file has both IMAGE= and SCALE=.")
    return _also_plain(found)


def _of_table(path: Path) -> dict[str, float]:
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ValueError(f"scale={path}: this is neither a number nor a readable CSV or TPS file.") from None
    if not rows or not set(rows[0]) >= _COLUMNS:
        raise ValueError(f"{path}: the first line must have the columns image and scale.")
    found = {}
    for number, row in enumerate(rows, start=2):
        length = pixel_length(row["scale"] or "")
        if length is None:
            raise ValueError(
                f"{path}, row {number}: the scale of {row['image']!s:.60} must be a number above 0."
            )
        found[row["image"]] = length
    return _also_plain(found)


def _also_plain(found: Mapping[str, float]) -> dict[str, float]:
    """The same lengths, also by the names without folders."""
    return {**{PureWindowsPath(name).name: length for name, length in found.items()}, **found}
