"""Semi-landmarks, declared: which landmarks slide, and between which neighbours.

A landmark on a smooth curve is known across the curve and not along it. So it may slide along its tangent when
shapes are superimposed. Two kinds of files say which landmarks do. The table that geomorph's `define.sliders`
writes has a row for each, with landmarks counted from 1:

    before,slide,after
    1,16,17
    16,17,2

A TOML file names whole curves, with numbers from 1 or with the names of landmarks:

    [[curve]]
    name = "leading edge"
    points = [1, "16-20", 2]

The first and the last point of a curve stay where they are, and so do those listed as `fixed`. All others slide
between the points before and after them. A curve that is `closed` has no ends.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.files import open_plain, replaced
from pliant.limits import brief_refusals, parsed_toml

Sliders = NDArray[np.intp]
"""`(s, 3)`: numbers from 0 of the landmark before, the one that slides, and the one after, a row for each."""

_HEADER = ("before", "slide", "after")
_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")
_CURVE_KEYS = {"name", "points", "fixed", "closed"}
_MOST_POINTS = 100_000
"""Of a curve: a few letters such as '1-99999' stand for many."""


def read_sliders(path: Path | str, landmarks: int, names: Sequence[str] = ()) -> Sliders:
    r"""Read which landmarks slide, from a table or a TOML file.

    Parameters
    ----------
    path : Path or str
        A CSV file with the columns before, slide and after (what geomorph's `define.sliders` writes), or a TOML
        file with a `[[curve]]` for each curve. Both count landmarks from 1, as R and tpsDig do.
    landmarks : int
        How many landmarks there are, including those that slide.
    names : sequence of str
        The names of the landmarks, if the TOML file uses names.

    Returns
    -------
    ndarray of int, shape (s, 3)
        The landmark before, the one that slides, and the one after, counted from 0.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> _ = Path("wing.toml").write_text("[[curve]]\npoints = [1, '4-6', 2]")
    >>> pliant.morphometrics.read_sliders("wing.toml", landmarks=6)
    array([[0, 3, 4],
           [3, 4, 5],
           [4, 5, 1]])

    """
    path = Path(path)
    try:
        with open_plain(path) as file:
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such sliders file.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: this is not text: sliders must be a CSV or TOML file.") from None
    with brief_refusals():
        if path.suffix.lower() == ".toml":
            found = [
                row for number, curve in _curves(path, text) for row in _rows(path, number, curve, names)
            ]
        else:
            found = list(_table(path, text))
        # Before they are numbers of a fixed size.
        strange = next((one for row in found for one in row if not 0 <= one < landmarks), None)
        if strange is not None:
            raise ValueError(
                f"{path}: there is no landmark {_shown(strange + 1)}: there are {landmarks}, counted from 1."
            )
        return checked_sliders(np.array(found, dtype=np.intp).reshape(-1, 3), landmarks, str(path))


def write_sliders(path: Path | str, sliders: Sliders) -> None:
    """Write sliders `(s, 3)` as geomorph reads them: a CSV file with landmarks counted from 1."""
    rows = [_HEADER, *((np.asarray(sliders) + 1).tolist())]
    with replaced(Path(path)) as partial:
        partial.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def sliders_of_curves(landmarks: int, curves: Sequence[int]) -> Sliders:
    """Return the sliders of a TPS file with curves: all points of a curve except its two ends.

    Parameters
    ----------
    landmarks : int
        How many landmarks there are, including the points of curves.
    curves : sequence of int
        The number of points of each curve. They are the last landmarks, one curve after the other.

    Returns
    -------
    ndarray of int, shape (s, 3)
        The landmark before, the one that slides, and the one after, counted from 0.

    Examples
    --------
    >>> import pliant
    >>> pliant.morphometrics.sliders_of_curves(landmarks=6, curves=[4])
    array([[2, 3, 4],
           [3, 4, 5]])

    """
    first, rows = landmarks - sum(curves), []
    for count in curves:
        rows += [(point - 1, point, point + 1) for point in range(first + 1, first + count - 1)]
        first += count
    return np.array(rows, dtype=np.intp).reshape(-1, 3)


def checked_sliders(sliders: Sliders, landmarks: int, where: str = "sliders") -> Sliders:
    """The sliders, if they can slide; else a ValueError with a sentence that names the landmark, from 1."""
    if not len(sliders):
        raise ValueError(f"{where}: no landmark slides: leave out the file, or give the points of a curve.")
    if sliders.ndim != 2 or sliders.shape[1] != 3:
        raise ValueError(
            f"{where}: sliders must have three columns (before, slide, after), not the shape {sliders.shape}."
        )
    seen: set[int] = set()
    for before, slide, after in sliders.tolist():
        for landmark in (before, slide, after):
            if not 0 <= landmark < landmarks:
                raise ValueError(
                    f"{where}: there is no landmark {landmark + 1}: there are {landmarks}, counted from 1."
                )
        if slide in seen:
            raise ValueError(f"{where}: landmark {slide + 1} slides twice: give it one row, or one curve.")
        if len({before, slide, after}) < 3:
            raise ValueError(
                f"{where}: landmark {slide + 1} slides between {before + 1} and {after + 1}: the three must differ."
            )
        seen.add(slide)
    if landmarks - len(seen) < 2:
        raise ValueError(f"{where}: every landmark slides, but at least two must stay fixed.")
    return sliders


def _shown(number: int) -> str:
    """A number that a file has for a landmark: Python writes no number of more than 4,300 digits."""
    return str(number) if abs(number) < 10**18 else "with a number of more than 18 digits"


def _table(path: Path, text: str) -> Iterator[tuple[int, ...]]:
    try:
        rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ValueError(f"{path}: this is not a table ({error}).") from None
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if not set(_HEADER) <= set(header):
        raise ValueError(
            f"{path}: the first line must have the columns before, slide and after, as written by geomorph's "
            "define.sliders."
        )
    columns = [header.index(name) for name in _HEADER]
    for number, row in enumerate(rows[1:], start=2):
        try:
            yield tuple(int(row[column]) - 1 for column in columns)
        except (ValueError, IndexError):
            raise ValueError(
                f"{path}, row {number}: expected three landmark numbers, found '{','.join(row)[:60]}'."
            ) from None


def _curves(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    content = parsed_toml(text.replace("\r\n", "\n"), path)
    curves = content.get("curve")
    unknown = sorted(content.keys() - {"curve"})
    if unknown or not isinstance(curves, list) or not all(isinstance(curve, dict) for curve in curves):
        found = f"found '{unknown[0]}'" if unknown else "there is none"
        raise ValueError(f"{path}: expected tables [[curve]] with points = [...]; {found}.")
    for number, curve in enumerate(curves, start=1):
        unknown = sorted(curve.keys() - _CURVE_KEYS)
        if unknown:
            known = ", ".join(sorted(_CURVE_KEYS))
            raise ValueError(
                f"{path}: curve {number} has no setting '{unknown[0]}'. Known settings: {known}."
            )
        yield number, curve


def _rows(path: Path, number: int, curve: dict[str, Any], names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The sliders of one curve of a TOML file."""
    where = f"{path}: curve {curve.get('name', number)}"
    points = _listed(where, curve, "points", names)
    fixed = set(_listed(where, curve, "fixed", names))
    closed = curve.get("closed", False)
    if not isinstance(closed, bool):
        raise ValueError(f"{where}: closed must be true or false.")
    if len(points) < 3:
        raise ValueError(f"{where} has {len(points)} points: a curve needs at least three for one to slide.")
    stray = sorted(fixed - set(points))
    if stray:
        raise ValueError(
            f"{where}: landmark {stray[0] + 1} is fixed, but it is not one of the curve's points."
        )
    if closed:
        points = [points[-1], *points, points[0]]
    for before, slide, after in zip(points, points[1:], points[2:], strict=False):
        if slide not in fixed:
            yield before, slide, after


def _list(where: str, curve: dict[str, Any], key: str) -> list[Any]:
    value = curve.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{where}: {key} must be a list of landmarks, such as [1, 2, 3].")
    return value


def _listed(where: str, curve: dict[str, Any], key: str, names: Sequence[str]) -> list[int]:
    """All landmarks of a list, from 0."""
    points: list[int] = []
    for entry in _list(where, curve, key):
        points += _points(where, entry, names)
        if len(points) > _MOST_POINTS:
            raise ValueError(f"{where}: {key} has more than {_MOST_POINTS:,} landmarks.")
    return points


def _points(where: str, entry: Any, names: Sequence[str]) -> list[int]:
    """The landmarks, from 0, that an entry stands for: a number, a name, or a range such as '16-20'."""
    if isinstance(entry, str) and entry in names:
        if list(names).count(entry) > 1:
            raise ValueError(f"{where}: several landmarks are called '{entry}': use numbers.")
        return [list(names).index(entry)]
    if type(entry) is int:
        return [entry - 1]
    if isinstance(entry, str) and len(entry) < 40 and (span := _RANGE.fullmatch(entry.strip())):
        first, last = int(span[1]), int(span[2])
        step = 1 if last >= first else -1
        if abs(last - first) < _MOST_POINTS:
            return list(range(first - 1, last - 1 + step, step))
    known = (
        f"The names are {', '.join(names[:8])}{'...' if len(names) > 8 else ''}."
        if names
        else ("These landmarks have no names: use numbers from 1.")
    )
    raise ValueError(f"{where}: there is no landmark {entry!r:.60}. {known}")
