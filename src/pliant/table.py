"""The table of fits: its columns, in one place, and how it is written to Parquet and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.data.annotation import Size
from pliant.data.formats.parquet import names_in, names_metadata
from pliant.data.names import from_text, readable, to_text
from pliant.data.tables import coordinate_titles
from pliant.files import replaced
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.trust.confidence import DEFAULT_BOUND

Row = Mapping[str, Any]

TABLE = "fits.parquet"

_ROWS = 512
"""Rows that are in memory at once, when a table is written."""

_KEY = b"pliant"
"""Where the head of the run is, among the metadata of the Parquet file."""


@dataclass(frozen=True)
class Fitted:
    """A fit of an image from a file; `size` is the image's, if it could be read.

    `bound` is that of the confidence: the probability that the error is below it.
    """

    image: str
    result: FitResult
    size: Size | None
    bound: float = DEFAULT_BOUND


def _if_fitted(value: Callable[[FitResult], Any]) -> Callable[[Fitted], Any]:
    """A value that only a fit has; without one, the cell is empty."""
    return lambda fitted: None if fitted.result.status is Status.FAILED else value(fitted.result)


def _confidence(fitted: Fitted) -> float | None:
    value = fitted.result.confidence(fitted.bound)
    return None if np.isnan(value) else value


def _spread(fitted: Fitted) -> list[float] | None:
    """The standard deviation of each landmark, in pixels of the image, if the model knows it."""
    covariance = fitted.result.covariance
    if covariance is None or fitted.result.model.confidence is None:
        return None
    return [float(value) for value in np.sqrt(np.trace(covariance, axis1=1, axis2=2) / 2)]


COLUMNS: Mapping[str, tuple[str, Callable[[Fitted], Any]]] = {
    "image": ("string", lambda fitted: fitted.image),
    "status": ("string", lambda fitted: str(fitted.result.status)),
    "reason": ("string", lambda fitted: readable(fitted.result.reason.removeprefix(f"{fitted.image}: "))),
    "confidence": ("float64", _confidence),
    "cost": ("float64", _if_fitted(lambda fit: float(fit.cost))),
    "iterations": ("int32", _if_fitted(lambda fit: int(fit.iterations))),
    "seconds": ("float64", _if_fitted(lambda fit: float(fit.seconds))),
    "width": ("int32", lambda fitted: fitted.size and fitted.size[0]),
    "height": ("int32", lambda fitted: fitted.size and fitted.size[1]),
    "x": ("points", _if_fitted(lambda fit: fit.points[:, 0].tolist())),
    "y": ("points", _if_fitted(lambda fit: fit.points[:, 1].tolist())),
    "spread": ("points", _spread),
}
"""The columns of the table: type, and value. `points` is one float64 for each landmark."""


def row_of(fitted: Fitted) -> Row:
    """A row: plain values that JSON and Parquet can hold without rounding."""
    return {name: value(fitted) for name, (_, value) in COLUMNS.items()}


def is_row_of(row: Row, image: str) -> bool:
    """Whether a row that was read from a file is one that `row_of` could have made for this image."""
    if row.keys() != COLUMNS.keys() or row["image"] != image or row["status"] not in list(Status):
        return False
    lengths = {len(row[name]) if isinstance(row[name], list) else None for name in ("x", "y")}
    fitted = row["status"] != Status.FAILED
    return (
        len(lengths) == 1
        and fitted == (row["x"] is not None)
        and all(_has_type(row[name], kind) for name, (kind, _) in COLUMNS.items())
    )


def _has_type(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "int32":
        return value is None or type(value) is int
    if kind == "points" and isinstance(value, list):
        return all(type(number) is float for number in value)
    return value is None or (kind == "float64" and type(value) is float)


def is_head(head: object) -> bool:
    """Whether this is what a run says about itself in its journal and its table."""
    return (
        isinstance(head, dict)
        and isinstance(head.get("settings"), dict)
        and {"landmarks", "draw"} <= head["settings"].keys()
        and {"annotations", "csv"} <= head.keys()
        and isinstance(head["annotations"], (str, type(None)))
    )


def write_table(path: Path, rows: Iterable[Row], head: Mapping[str, Any], names: Sequence[str] = ()) -> None:
    """Write rows to a Parquet file, a few at a time; the file is there as a whole or not at all.

    `head` is about the run, and `names` are those of the landmarks, if they have any.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema().with_metadata({_KEY: json.dumps(head).encode(), **names_metadata(names)})
    source = ({**row, "image": to_text(row["image"])} for row in rows)
    with replaced(path, alone=True) as partial, parquet.ParquetWriter(partial, schema) as writer:
        while some := list(islice(source, _ROWS)):
            writer.write_table(pa.Table.from_pylist(some, schema))


def read_head(path: Path) -> dict[str, Any]:
    """What was written about the run of a table; a ValueError if the file is none of ours."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        head: dict[str, Any] = json.loads((parquet.read_schema(path).metadata or {})[_KEY])
    except (KeyError, ValueError, pa.ArrowException):
        head = {}
    if not is_head(head):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote.")
    return head


def rows_of(path: Path, columns: Iterable[str] = COLUMNS) -> Iterator[Row]:
    """The rows of a table, a few in memory at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS, columns=list(columns)):
            for row in batch.to_pylist():
                yield {**row, "image": from_text(row["image"])} if "image" in row else row


def write_csv(path: Path, table: Path, landmarks: int, names: Sequence[str] = ()) -> None:
    """All columns of a table but `spread`, with two columns for each landmark as the format `csv` has them.

    An image that could not be fitted has empty cells there.
    """
    columns = [name for name, (kind, _) in COLUMNS.items() if kind != "points"]
    with _whole_csv(path) as rows:
        rows.writerow([*columns, *coordinate_titles(landmarks, names)])
        for row in rows_of(table, [*columns, "x", "y"]):
            points = [""] * (2 * landmarks) if row["x"] is None else np.ravel([row["x"], row["y"]], order="F")
            rows.writerow([to_text(row["image"]), *(row[name] for name in columns[1:]), *points])


def flagged_in(table: Path, below: float) -> list[tuple[float, str]]:
    """Confidence and image of the fits that a person should look at, the least trusted first."""
    rows = rows_of(table, ["image", "confidence"])
    return sorted(
        (row["confidence"], row["image"])
        for row in rows
        if row["confidence"] is not None and row["confidence"] < below
    )


def write_flagged(path: Path, table: Path, below: float) -> None:
    """What `flagged_in` has, as a table."""
    with _whole_csv(path) as rows:
        rows.writerow(["image", "confidence"])
        rows.writerows(
            [to_text(image), f"{confidence:.4f}"] for confidence, image in flagged_in(table, below)
        )


@contextmanager
def _whole_csv(path: Path) -> Iterator[Any]:
    """A writer of rows to a file that is there as a whole, or as it was before."""
    import csv

    with (
        replaced(path, alone=True) as partial,
        open(partial, "w", newline="", encoding="utf-8") as file,
    ):
        yield csv.writer(file)


def read_fits(path: Path | str) -> dict[str, NDArray[Any]]:
    """A table of `pliant fit`, `track` or `evaluate`, by its file or the folder of `fit`, as arrays of n rows.

    `points (n, v, 2)` stands for the columns x and y, and is nan where an image could not be fitted; other numbers
    that are not known are nan too. `seconds` is how long a fit took, and `time` that of a frame in its video. Of
    fits, `spread (n, v)` is the standard deviation of each landmark, if the model was calibrated.
    `landmark_names (v,)` is empty if they have none.
    """
    import pyarrow as pa
    from pyarrow import parquet

    path = Path(path) / TABLE if Path(path).is_dir() else Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such table of fits.")
    try:
        table = parquet.read_table(path)
    except pa.ArrowException:
        table = pa.table({})
    if not {"status", "x", "y"} <= set(table.column_names):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote.")
    columns: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_string(column.type):
            texts = column.to_pylist()
            texts = [from_text(text) for text in texts] if name == "image" else texts
            columns[name] = np.array(texts, dtype=np.str_)
        elif pa.types.is_null(column.type):
            columns[name] = np.full(len(column), np.nan)
        else:
            columns[name] = _together(column) if pa.types.is_list(column.type) else column.to_numpy()
    columns["points"] = np.stack([columns.pop("x"), columns.pop("y")], axis=-1)
    columns["landmark_names"] = np.array(names_in(table.schema.metadata), dtype=np.str_)
    if "frame" in columns and "time" not in columns:
        # Tracks of older versions have the time of the frame under this name.
        columns["time"] = columns.pop("seconds")
    return columns


def _together(column: Any) -> NDArray[np.float64]:
    """Lists of v numbers, or none, as `(n, v)`."""
    known = column.is_valid().to_numpy()
    values = column.combine_chunks().flatten().to_numpy()
    out = np.full((len(known), len(values) // max(known.sum(), 1)), np.nan)
    out[known] = values.reshape(known.sum(), out.shape[1])
    return out


def _schema() -> Any:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "float64": pa.float64(),
        "int32": pa.int32(),
        "points": pa.list_(pa.float64()),
    }
    return pa.schema([(name, types[kind]) for name, (kind, _) in COLUMNS.items()])
