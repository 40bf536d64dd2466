"""Manifests: a table (CSV or Parquet) with a row for each image.

The column `image` is needed; `landmarks` (a landmark file), `group`, `split` and the box `left`, `top`, `right`,
`bottom` may be there. Files are paths from where the manifest lies, or addresses.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.addresses import Source, ending, opened

ENDINGS = (".csv", ".parquet")
BOX = ("left", "top", "right", "bottom")
COLUMNS = ("image", "landmarks", "group", "split", *BOX)


def read_manifest(source: Source) -> list[dict[str, str]] | None:
    """The rows of a manifest, values as text, empty where there is none; None for another table.

    A table is a manifest if it has a column `image` and either a column `landmarks` or no columns but `COLUMNS`:
    other columns would be coordinates.
    """
    if ending(source) == ".parquet":
        return _parquet(source)
    with (
        opened(source) as file,
        TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as text,
    ):
        rows = csv.reader(text)
        columns = [name.strip().lower() for name in next(rows, [])]
        if not _is_manifest(columns):
            return None
        return [
            _row(dict(zip(columns, values, strict=False)), f"{source}, line {rows.line_num}")
            for values in rows
            if any(values)
        ]


def box_of(row: Mapping[str, str], where: str) -> Float64 | None:
    """Left, top, right and bottom `(4,)` of a row, if it has them."""
    values = [row.get(name, "") for name in BOX]
    if not any(values):
        return None
    try:
        box = np.array([float(value) for value in values])
    except ValueError:
        raise ValueError(
            f"{where}: {', '.join(BOX)} must be four numbers, not {', '.join(values)}."
        ) from None
    return box


def _parquet(source: Source) -> list[dict[str, str]] | None:
    import pyarrow
    import pyarrow.parquet

    try:
        with opened(source) as file:
            table = pyarrow.parquet.ParquetFile(file)
            columns = [name.strip().lower() for name in table.schema_arrow.names]
            if not _is_manifest(columns):
                return None
            rows = table.read().to_pylist()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{source}: this Parquet file cannot be read ({error}).") from None
    return [
        _row(dict(zip(columns, row.values(), strict=True)), f"{source}, row {number}")
        for number, row in enumerate(rows, start=1)
    ]


def _is_manifest(columns: Sequence[str]) -> bool:
    return "image" in columns and ("landmarks" in columns or set(columns) <= set(COLUMNS))


def _row(values: Mapping[str, Any], where: str) -> dict[str, str]:
    row = {
        name: "" if value is None else str(value).strip() for name, value in values.items() if name in COLUMNS
    }
    if not row.get("image"):
        raise ValueError(f"{where}: there is no image in this row.")
    return {**row, "where": where}
