"""Manifests and tables of boxes: CSV, TSV or Parquet with a row for each image.

The column `image` is needed; `landmarks` (a landmark file), `group`, `split` and the box `left`, `top`, `right`,
`bottom` may be there. Files are paths from where the manifest lies, or addresses.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.addresses import Source, ending, inside, is_address, join, opened, parent, same_store
from pliant.data.archives import parquet_rows, parquet_titles
from pliant.data.names import from_text
from pliant.limits import brief_refusals

ENDINGS = (".csv", ".tsv", ".parquet")
BOX = ("left", "top", "right", "bottom")
COLUMNS = ("image", "landmarks", "group", "split", *BOX)


def read_manifest(source: Source) -> list[dict[str, str]] | None:
    """The rows of a manifest, values as text, empty where there is none; None for another table.

    A table is a manifest if it has a column `image` and either a column `landmarks` or no columns but `COLUMNS`:
    other columns would be coordinates.
    """
    with brief_refusals():
        columns = _columns(source)
        if "image" not in columns or not ("landmarks" in columns or set(columns) <= set(COLUMNS)):
            return None
        return list(_rows(source))


def read_boxes(source: Source) -> dict[str, Float64]:
    """Boxes `(k, 4)` by image name, from a table with image, left, top, right, bottom; a manifest will do.

    Other columns are left alone. An image in several rows has several boxes; a row without the four has none.
    """
    wanted = ("image", *BOX)
    boxes: dict[str, list[Float64]] = {}
    with brief_refusals():
        if not set(wanted) <= set(_columns(source)):
            raise ValueError(f"{source}, line 1: expected the columns {', '.join(wanted)}.")
        for row in _rows(source):
            box = box_in_row(row, row["where"])
            if box is not None:
                boxes.setdefault(row["image"].replace("\\", "/"), []).append(box)
    return {name: np.array(some) for name, some in boxes.items()}


def box_in_row(row: Mapping[str, str], where: str) -> Float64 | None:
    """Left, top, right and bottom `(4,)` of a row, if it has them."""
    values = [row.get(name, "") for name in BOX]
    if not any(values):
        return None
    try:
        box = np.array([float(value) for value in values])
    except ValueError:
        box = np.full(4, np.nan)
    if not np.isfinite(box).all():
        given = ", ".join(value[:60] for value in values)
        raise ValueError(f"{where}: {', '.join(BOX)} must be four numbers, not {given}.")
    return box


@brief_refusals()
def listed_file(name: str, where: str, source: Source, named: bool) -> Source:
    """The file that a manifest lists: an address only if the user named it, and of its own store if it has one."""
    if is_address(name):
        if named and (isinstance(source, Path) or same_store(name, source)):
            return name
        why = (
            "the manifest is in another store"
            if named
            else "the manifest was found in a folder: give the manifest itself"
        )
        raise ValueError(f"{where}: {name} is not read, because {why}.")
    if isinstance(source, Path):
        return join(parent(source), name)
    found = inside(parent(source), name)
    if found is None:
        raise ValueError(f"{where}: {name} is not in {parent(source)} or below it.")
    return found


def _columns(source: Source) -> list[str]:
    """The titles of a table, in lower case."""
    if ending(source) == ".parquet":
        with opened(source) as file:
            return [name.strip().lower() for name in parquet_titles(file, source)]
    with _text(source) as rows:
        return [name.strip().lower() for name in next(rows, [])]


def _rows(source: Source) -> Iterator[dict[str, str]]:
    """The rows of a table with the column `image`; `where` says which one it is."""
    columns = _columns(source)
    if ending(source) == ".parquet":
        with opened(source) as file:
            kept = [
                name
                for name, title in zip(parquet_titles(file, source), columns, strict=True)
                if title in COLUMNS
            ]
            for number, row in enumerate(parquet_rows(file, source, kept), start=1):
                yield _row([name.strip().lower() for name in row], row.values(), f"{source}, row {number}")
        return
    with _text(source) as rows:
        next(rows, None)
        for values in rows:
            if any(values):
                yield _row(columns, values, f"{source}, line {rows.line_num}")


@contextmanager
def _text(source: Source) -> Iterator[Any]:
    with (
        opened(source) as file,
        TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as text,
    ):
        try:
            yield csv.reader(text, delimiter="\t" if ending(source) == ".tsv" else ",")
        except csv.Error as error:
            raise ValueError(f"{source}: this is not a table of text ({error}).") from None


def _row(columns: Iterable[str], values: Iterable[Any], where: str) -> dict[str, str]:
    row = {
        name: "" if value is None else from_text(str(value).strip())
        for name, value in zip(columns, values, strict=False)
        if name in COLUMNS
    }
    if not row.get("image"):
        raise ValueError(f"{where}: there is no image in this row.")
    if any("\0" in value for value in row.values()):
        raise ValueError(f"{where}: this row has a null character, and no file has such a name.")
    return {**row, "where": where}
