"""The length of a pixel: as files write it, and as a user gives it for images whose files do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath

from pliant.data.formats import tps
from pliant.data.formats.csv_wide import column_of
from pliant.data.formats.tps import pixel_length
from pliant.data.tables import read_rows
from pliant.files import require_plain

_SAME = 1e-6
"""Scales that differ by less than this are the same, written with other digits."""


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


def about_given(
    scale: float | Path | str,
    given: float | Mapping[str, float],
    images: Sequence[Sequence[str]],
    own: Sequence[float | None],
) -> list[str]:
    """A sentence if what a user gave as `scale` says nothing about these images, or is not used for some of them.

    `images` has the names that each goes by, and `own` the scales that their files give.
    """
    offered = [scale_of(given, *names) for names in images]
    plain = [PureWindowsPath(names[0]).name for names in images]
    if images and isinstance(given, Mapping) and not any(offered):
        named = PureWindowsPath(next(iter(given))).name
        which = f"none of the {len(plain):,} images" if len(plain) > 1 else "no image here"
        return [f"scale={scale}: this file names {which}: it has {named}, for example, and not {plain[0]}."]
    unused = [
        name
        for name, length, mine in zip(plain, offered, own, strict=True)
        if mine is not None and length is not None and not math.isclose(length, mine, rel_tol=_SAME)
    ]
    if not unused:
        return []
    have = (
        f"{len(unused):,} images, such as {unused[0]}, have a scale of their own"
        if len(unused) > 1
        else f"{unused[0]} has a scale of its own"
    )
    return [f"{have}, which was used in place of scale={scale}."]


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
    unread = next((one for one in specimens if one.image and one.unread_scale), None)
    if unread is not None:
        raise ValueError(f"{path}: {unread.unread_scale}: correct it.")
    found = {one.image: one.spacing for one in specimens if one.image and one.spacing is not None}
    if not found:
        raise ValueError(f"scale={path}: no specimen in this file has both IMAGE= and SCALE=.")
    return _also_plain(found)


def _of_table(path: Path) -> dict[str, float]:
    """Lengths from a table, whose columns may be apart by semicolons, as in spreadsheets with decimal commas."""
    try:
        rows = list(read_rows(path))
    except OSError:
        raise ValueError(f"scale={path}: this is neither a number nor a readable CSV or TPS file.") from None
    header = rows[0][1] if rows else []
    image, scale = column_of(header, "image"), column_of(header, "scale")
    if image is None or scale is None:
        raise ValueError(f"{path}: the first line must have the columns image and scale.")
    found = {}
    for line, row in rows[1:]:
        name, text = (row[column] if column < len(row) else "" for column in (image, scale))
        length = pixel_length(text)
        if length is None:
            raise ValueError(f"{path}, line {line}: the scale of {name:.60} must be a number above 0.")
        found[name] = length
    return _also_plain(found)


def _also_plain(found: Mapping[str, float]) -> dict[str, float]:
    """The same lengths, also by the names without folders."""
    return {**{PureWindowsPath(name).name: length for name, length in found.items()}, **found}
