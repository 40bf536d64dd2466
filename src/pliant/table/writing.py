"""How tables of fits are written: a few rows at a time, and there as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pliant.data.addresses import Source, written
from pliant.data.annotation import Size
from pliant.data.formats.parquet import names_metadata
from pliant.data.names import readable, to_text
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.table.columns import VERSION, Kind, schema_of
from pliant.trust.confidence import DEFAULT_BOUND

Row = Mapping[str, Any]

HEAD, KIND, NUMBER = b"pliant", b"pliant_table", b"pliant_table_version"
"""Keys of the metadata: what is said about the run (JSON), what wrote the table, and the version of its columns."""

_ROWS = 512
"""Rows that are in memory at once."""


def object_cells(
    image: str, result: FitResult, size: Size | None = None, bound: float = DEFAULT_BOUND
) -> list[dict[str, Any]]:
    """The cells of `cells_of` for each object of an image."""
    return [cells_of(image, fit, size, bound, number) for number, fit in enumerate(result.objects)]


def cells_of(
    image: str,
    result: FitResult,
    size: Size | None = None,
    bound: float = DEFAULT_BOUND,
    number: int = 0,
) -> dict[str, Any]:
    """The cells that all tables have, as plain values that JSON and Parquet can hold without rounding.

    `size` is the image's, width and height, if it could be read; `bound` is that of the confidence, and `number`
    that of the object. What only a fit has is None without one.
    """
    confidence = result.confidence(bound)
    cells: dict[str, Any] = {
        "image": image,
        "object": number,
        "status": str(result.status),
        "reason": readable(result.reason.removeprefix(f"{image}: ")),
        "confidence": None if np.isnan(confidence) else float(confidence),
        "cost": float(result.cost),
        "iterations": int(result.iterations),
        "seconds": float(result.seconds),
        "width": size and int(size[0]),
        "height": size and int(size[1]),
        "x": result.points[:, 0].tolist(),
        "y": result.points[:, 1].tolist(),
        "spread": None if result.spread is None else result.spread.tolist(),
        "hidden": None if result.hidden is None else result.hidden.astype(np.float64).tolist(),
    }
    if result.status is Status.FAILED:
        # Trying may have taken time all the same.
        cells |= {"cost": None, "iterations": None, "seconds": cells["seconds"] or None, "x": None, "y": None}
    return cells


def write_table(
    path: Source, rows: Iterable[Row], head: Mapping[str, Any], names: Sequence[str] = (), kind: Kind = "fits"
) -> None:
    """Write rows to a Parquet file; `head` is about the run, and `names` are those of the landmarks."""
    with table_writer(path, head, names, kind) as write:
        for row in rows:
            write(row)


@contextmanager
def table_writer(
    path: Source,
    head: Mapping[str, Any],
    names: Sequence[str] = (),
    kind: Kind = "fits",
    *,
    keep_when_stopped: bool = False,
) -> Iterator[Callable[[Row], None]]:
    """A function that adds a row to a table; what a row does not have is empty.

    The file appears when the block is left, or never if it is left by an error; with `keep_when_stopped`, it then
    has the rows that were written so far.
    """
    import pyarrow as pa
    from pyarrow import parquet

    about = {HEAD: json.dumps(head).encode(), KIND: kind.encode(), NUMBER: str(VERSION).encode()}
    schema = schema_of(kind).with_metadata({**about, **names_metadata(names)})
    waiting: list[Row] = []
    stopped: BaseException | None = None

    def flush() -> None:
        rows = waiting[:]
        # First, so that nothing is written twice, whenever this is interrupted.
        waiting.clear()
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema))

    def write(row: Row) -> None:
        waiting.append({**row, "image": to_text(row["image"])})
        if len(waiting) >= _ROWS:
            flush()

    # Its name is hidden until it is whole: readers of a folder leave such names out.
    with (
        written(path, alone=True) as partial,
        parquet.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        try:
            yield write
        except BaseException as error:
            if not keep_when_stopped:
                raise
            stopped = error
        flush()
    if stopped is not None:
        raise stopped
