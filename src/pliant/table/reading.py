"""How tables of fits are read: rows of one file, or all that a folder has as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.data.addresses import Source, as_source, is_file, is_folder, join, opened
from pliant.data.addresses import names_in as files_in
from pliant.data.archives import refuse_bomb
from pliant.data.formats.parquet import names_in
from pliant.data.names import from_text
from pliant.limits import parsed_json
from pliant.table.columns import VERSION
from pliant.table.writing import HEAD, NUMBER, Row

TABLE, TRACK, ROWS = "fits.parquet", "track.parquet", "rows"
"""What the folders of `pliant fit`, `track` and `experiment` have: a file, a file, a folder of files."""

_ROWS = 512
"""Rows that are in memory at once, where they are read one after the other."""


def read_head(path: Source) -> dict[str, Any]:
    """What was written about the run of a table; a ValueError if the file is none of ours."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with _readable(path) as content:
            head: Any = parsed_json((parquet.read_schema(content).metadata or {})[HEAD])
    except FileNotFoundError:
        raise
    except (KeyError, ValueError, OSError, pa.ArrowException):
        head = None
    if not isinstance(head, dict):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote.")
    return head


def rows_of(path: Source, columns: Iterable[str] | None = None) -> Iterator[Row]:
    """The rows of a table, a few in memory at a time, with some of the columns or all.

    Before there was a column `object`, an image had one, with the number 0.
    """
    with _parquet(path) as file:
        there = file.schema_arrow.names
        wanted = list(there if columns is None else columns)
        always = {} if "object" in there or "object" not in wanted else {"object": 0}
        for batch in file.iter_batches(_ROWS, columns=[name for name in wanted if name in there]):
            for row in batch.to_pylist():
                yield always | ({**row, "image": _name(path, row["image"])} if "image" in row else row)


def read_fits(path: Path | str) -> dict[str, NDArray[Any]]:
    """Read a table of fits that `pliant fit`, `track`, `evaluate` or `experiment` wrote.

    Parameters
    ----------
    path : Path or str
        The file, or the folder that the command wrote to, or its address (`s3://bucket/fits`). All rows of an
        experiment's folder form one table.

    Returns
    -------
    dict of str to ndarray
        The columns of `docs/reference/table.md` that the table has, each with n rows. `points (n, v, 2)` holds the
        landmarks. A missing value is nan or an empty text. If rows have different numbers of landmarks, v is the
        largest, and the rest is nan. `costs` and `errors` of an experiment are arrays of lists, one for each
        level. `landmark_names (v,)` is empty if the landmarks have no names.

    Raises
    ------
    ValueError
        If there is no table, or it is not one of pliant's.

    Examples
    --------
    >>> import pliant
    >>> pliant.bulk.fit_images("faces.pliant", "new/", "fits", jobs=1)
    >>> fits = pliant.read_fits("fits")
    >>> fits["points"].shape, fits["status"].shape
    ((3, 68, 2), (3,))

    """
    import pyarrow as pa

    tables = [_table(file) for file in _files(as_source(path))]
    names = {names_in(table.schema.metadata) for table in tables}
    plain = [table.replace_schema_metadata(None) for table in tables]
    try:
        whole = pa.concat_tables(plain, promote_options="default")
        columns = {name: _array(path, name, whole.column(name)) for name in whole.column_names}
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote ({error!s:.200}).") from None
    if not all(columns[name].ndim == 2 and columns[name].dtype.kind == "f" for name in "xy"):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote: x and y are not numbers.")
    if columns["x"].shape != columns["y"].shape:
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote: x and y differ in length.")
    columns["points"] = np.stack([columns.pop("x"), columns.pop("y")], axis=-1)
    columns["landmark_names"] = np.array(names.pop() if len(names) == 1 else (), dtype=np.str_)
    if "frame" in columns and "time" not in columns:
        # The first tracks had the time of the frame under this name.
        columns["time"] = columns.pop("seconds")
    return columns


def _files(path: Source) -> list[Source]:
    """The files that are one table."""
    if is_folder(path):
        files = [file for name in (TABLE, TRACK) if is_file(file := join(path, name))][:1]
        rows = join(path, ROWS)
        files = files or [
            join(rows, name)
            for name in files_in(rows)
            if name.endswith(".parquet") and not name.startswith(".")
        ]
    else:
        files = [path] if is_file(path) else []
    if not files:
        raise ValueError(f"{path}: there is no such table of fits.")
    return files


@contextmanager
def _readable(path: Source) -> Iterator[Any]:
    """What pyarrow reads a file from: its path, which it maps, or the bytes at an address."""
    if isinstance(path, Path):
        yield path
        return
    with opened(path) as content:
        yield content


@contextmanager
def _parquet(path: Source) -> Iterator[Any]:
    """A Parquet file, open while the block runs; a sentence if it is damaged or would unpack to far too much.

    pyarrow is not asked what is said of single columns: where that is damaged, it ends the whole process.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # Alone: pyarrow would take parts of the path for columns.
        with _readable(path) as content, parquet.ParquetFile(content) as file:
            about = file.metadata
            announced = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
            rows = 8 * about.num_rows * about.num_columns
            refuse_bomb(path, _size_of(path, content), max(announced, rows))
            yield file
    except (pa.ArrowException, OSError, ArithmeticError, UnicodeError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(
            f"{path}: this is not a table of fits that pliant wrote, or it is damaged ({error!s:.200})."
        ) from None


def _size_of(path: Source, content: Any) -> int:
    if isinstance(path, Path):
        return path.stat().st_size
    end: int = content.seek(0, 2)
    content.seek(0)
    return end


def _name(path: Source, text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote: an image has no name.")
    return from_text(text)


def _table(path: Source) -> Any:
    with _parquet(path) as file:
        table = file.read()
    version = (table.schema.metadata or {}).get(NUMBER, b"1")
    if version.isdigit() and len(version) < 10 and int(version) > VERSION:
        raise ValueError(
            f"{path}: this table has version {int(version)}, but this pliant reads tables up to version "
            f"{VERSION}: update pliant."
        )
    if not {"status", "x", "y"} <= set(table.column_names):
        raise ValueError(f"{path}: this is not a table of fits that pliant wrote.")
    return table


def _array(path: Path | str, name: str, column: Any) -> NDArray[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        texts = ["" if text is None else text for text in column.to_pylist()]
        return np.array([from_text(text) for text in texts] if name == "image" else texts, dtype=np.str_)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_list(kind) and pa.types.is_list(kind.value_type):
        levels = np.empty(len(column), dtype=object)
        for number, value in enumerate(column.to_pylist()):
            levels[number] = value
        return levels
    array: NDArray[Any] = _together(path, column) if pa.types.is_list(kind) else column.to_numpy()
    return array


def _together(path: Path | str, column: Any) -> NDArray[np.float64]:
    """Lists of numbers as `(n, v)`, where v is the longest; the rest is nan."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    # A single long list makes all others as long.
    refuse_bomb(path, column.nbytes, 8 * len(lengths) * int(lengths.max(initial=0)))
    out = np.full((len(lengths), lengths.max(initial=0)), np.nan)
    out[np.arange(out.shape[1]) < lengths[:, None]] = pc.list_flatten(column).to_numpy()
    return out
