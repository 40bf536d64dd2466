"""Compressed files: what they say they hold is weighed before it is unpacked.

A megabyte can unpack to a thousand. Landmarks do not shrink like that: a file may ask for a little memory, and
beyond that for so many times its own size.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_FREE = 64 * 2**20
"""Bytes that any file may unpack to."""

_GROWTH = 50
"""How many times its size a file may grow beyond them: names that are alike shrink a lot, coordinates hardly."""

_ROWS = 128
"""Rows of a table that are unpacked at a time."""


def refuse_bomb(where: object, stored: int, unpacked: int) -> None:
    """Raise a sentence if a file of `stored` bytes would unpack to far too many."""
    if unpacked > _FREE + _GROWTH * stored:
        raise ValueError(
            f"{where}: {stored:,} bytes would unpack to {unpacked:,}, too many for landmarks: this file is "
            "not read."
        )


def read_members(path: Path, wanted: Callable[[str], bool]) -> list[tuple[str, bytes]]:
    """Names and contents of the wanted files in a zip archive, in their order."""
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # A directory that is damaged is one of many errors.
        raise ValueError(f"{path}: this archive cannot be read ({error}).") from None
    with archive:
        members = [member for member in archive.infolist() if wanted(member.filename)]
        refuse_bomb(path, path.stat().st_size, sum(member.file_size for member in members))
        return [(member.filename, _unpacked(path, archive, member)) for member in members]


def _unpacked(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        return archive.read(member)
    except Exception as error:  # Each way of compressing has errors of its own, and encryption has one more.
        raise ValueError(f"{path}: {member.filename} cannot be unpacked ({error}).") from None


def read_array(content: bytes, where: object) -> NDArray[Any]:
    """The array of numbers or text in the bytes of a `.npy` file; its header announces no more than there is."""
    file = BytesIO(content)
    try:
        shape, in_columns, dtype = _array_header(file)
    except (
        Exception
    ) as error:  # The header is a Python literal: whatever the parser stumbles over, it is damaged.
        raise ValueError(
            f"{where}: this array cannot be read ({str(error) or type(error).__name__})."
        ) from None
    if dtype.hasobject:
        raise ValueError(
            f"{where}: this array cannot be read, because it holds Python objects: store names as text, "
            "dtype=str."
        )
    count, rest = math.prod(shape), len(content) - file.tell()
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or count * dtype.itemsize > rest:
        raise ValueError(
            f"{where}: this array cannot be read: its header declares {dtype} {shape}, but {rest} bytes "
            "follow."
        )
    values: NDArray[Any] = np.frombuffer(content, dtype, count, offset=file.tell())
    return values.reshape(shape, order="F" if in_columns else "C")


def _array_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} is not supported")


def parquet_titles(file: BinaryIO, where: object) -> list[str]:
    """The names of the columns of a Parquet file."""
    return list(_parquet(file, where).schema_arrow.names)


def parquet_metadata(file: BinaryIO, where: object) -> dict[bytes, bytes]:
    """What a Parquet file says about its table as a whole."""
    return dict(_parquet(file, where).schema_arrow.metadata or {})


def parquet_rows(file: BinaryIO, where: object, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, with those of the wanted columns that there are."""
    import pyarrow

    stored = file.seek(0, 2)
    schema = _parquet(file, where).schema_arrow
    present = [name for name in columns if name in schema.names]
    table = _parquet(file, where, [name for name in present if schema.field(name).type == pyarrow.string()])
    parts = table.metadata
    # Rows that are repeated take no room in the file. What is said of single columns is not asked for: where it is
    # damaged, pyarrow ends the whole process.
    announced = sum(parts.row_group(group).total_byte_size for group in range(parts.num_row_groups))
    refuse_bomb(where, stored, max(announced, 8 * parts.num_rows * len(present)))
    unpacked = 0
    try:
        for batch in table.iter_batches(batch_size=_ROWS, columns=present):
            unpacked += sum(map(_nbytes, batch.columns))
            refuse_bomb(where, stored, unpacked)
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ArithmeticError, UnicodeError) as error:
        raise ValueError(f"{where}: this Parquet file cannot be read ({error}).") from None


def _nbytes(column: Any) -> int:
    """How many bytes a column of a batch has once texts that are stored once stand in each row."""
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    texts = column.dictionary
    if not (pyarrow.types.is_string(texts.type) or pyarrow.types.is_large_string(texts.type)):
        return int(column.nbytes)
    longest = pyarrow.compute.max(pyarrow.compute.binary_length(texts)).as_py() or 0
    return int(column.nbytes) + longest * len(column)


def _parquet(file: BinaryIO, where: object, once: Sequence[str] = ()) -> Any:
    """A Parquet file; the texts of the columns `once` are not repeated in memory."""
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(file, read_dictionary=list(once))
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        raise ValueError(f"{where}: this Parquet file cannot be read ({error}).") from None
