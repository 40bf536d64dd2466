"""Model files: safetensors with a checksum, written in one step, read whole and checked, never executed.

A `.pliant` file is a valid safetensors file: eight bytes with the length of a JSON header, the header,
the arrays. Under `__metadata__` it has the strings `format`, `format_version`, `model` (settings,
provenance and all numbers that are not arrays, as JSON) and `checksum`. Loading copies the arrays, because a file
that is mapped and then cut off ends the process; nothing in the file can name code.
`docs/reference/model-file.md` has the whole layout.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.files import IrregularFile, replaced

FORMAT_VERSION = 1
_MAGIC = "pliant"
_UNSIGNED = "0" * 64
_LARGEST_HEADER = 16 * 2**20
_CHUNK = 2**20
"""Bytes that are read at a time: few enough to be in the cache when the checksum wants them."""

_DTYPES: Mapping[str, str] = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}


class ModelFileError(ValueError):
    """Raised for a file that is not a model, or is incomplete. The message is a sentence that names it.

    Examples
    --------
    >>> import pliant
    >>> try:
    ...     pliant.load("missing.pliant")
    ... except pliant.ModelFileError as error:
    ...     print(str(error).split(":")[0])
    missing.pliant

    """


def write_container(path: Path, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
    """Write named arrays and plain values that JSON has; on any error what was there before, or none, is left."""
    header, data = _header(arrays, numbers)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist.")
    with replaced(path) as partial, open(partial, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in data:
            file.write(array)


def read_container(path: Path | str, file: BufferedReader) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays, which nobody can write to, and the plain values; call it where errors are `refused`.

    `path` is what the file is called, which may lie elsewhere.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < 8:
        raise ModelFileError(f"{path}: this is not a pliant model: the file has only {size} bytes.")
    text, header = _read_header(path, file, size)
    metadata = header.pop("__metadata__")
    start = 8 + len(text)
    table = _read_table(path, header, start, size)
    data = _read_data(path, file, text, metadata["checksum"], size - start)
    arrays = {name: data[first:last].view(dtype).reshape(shape) for name, first, last, dtype, shape in table}
    numbers = json.loads(metadata["model"], parse_constant=_refuse_constant)
    try:
        # JSON can have half of a character, which can be neither printed nor written.
        json.dumps(numbers, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half a character") from None
    return arrays, numbers


@contextmanager
def refused(path: Path | str) -> Iterator[None]:
    """Whatever goes wrong while a model is made of a file becomes a ModelFileError that names the file."""
    try:
        # Numbers that overflow are not finite, and the checks say so.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ModelFileError, UserWarning):
        # A warning that the caller wants as an error speaks for itself.
        raise
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file.") from None
    except IrregularFile as error:
        raise ModelFileError(str(error)) from None
    except OSError as error:
        # Without a number, it is a sentence about an address already.
        said = f"{path}: this file cannot be read ({error.strerror})." if error.errno else str(error)
        raise ModelFileError(said) from None
    except MemoryError:
        raise ModelFileError(f"{path}: there is not enough memory for this model.") from None
    except Exception as error:
        # Whoever made the file may have meant any of Python's errors to be raised.
        said = str(error) if type(error) is ValueError else repr(error)
        raise ModelFileError(f"{path}: the model in this file is inconsistent ({said[:200]}).") from error


def _read_header(path: Path | str, file: BufferedReader, size: int) -> tuple[bytes, dict[str, Any]]:
    length = int.from_bytes(file.read(8), "little")
    if length > _LARGEST_HEADER:
        raise ModelFileError(f"{path}: this is not a pliant model.")
    if 8 + length > size:
        raise ModelFileError(f"{path}: this is not a pliant model, or it is cut off in its header.")
    text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"))
        metadata = header["__metadata__"]
        version = int(metadata["format_version"]) if metadata["format"] == _MAGIC else 0
        complete = {"model", "checksum"} <= metadata.keys()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ModelFileError(f"{path}: this is not a pliant model.") from None
    if version < 1 or not complete:
        raise ModelFileError(f"{path}: this is not a pliant model.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: this file has format {version}, but this pliant reads formats up to {FORMAT_VERSION}: "
            "update pliant."
        )
    return text, header


def _read_table(
    path: Path | str, header: Mapping[str, Any], start: int, size: int
) -> list[tuple[str, int, int, np.dtype[Any], tuple[int, ...]]]:
    """Name, first and last byte, type and shape of every array, each checked against the length of the file."""
    table = []
    end_of_last = 0
    try:
        entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
        for name, entry in entries:
            first, last = (operator.index(offset) for offset in entry["data_offsets"])
            shape = tuple(operator.index(extent) for extent in entry["shape"])
            dtype = np.dtype(_DTYPES[entry["dtype"]])
            if (
                first != end_of_last
                or first % dtype.itemsize
                or min(shape, default=0) < 0
                or last - first != math.prod(shape) * dtype.itemsize
            ):
                raise ValueError(name)
            if start + last > size:
                raise ModelFileError(
                    f"{path}: the file is cut off: it has {size} bytes, but {name!r} would end at "
                    f"{start + last}."
                )
            table.append((name, first, last, dtype, shape))
            end_of_last = last
    except ModelFileError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ModelFileError(f"{path}: the table of arrays in this file is damaged.") from None
    if start + end_of_last != size:
        raise ModelFileError(f"{path}: there are extra bytes after the model.")
    return table


def _read_data(
    path: Path | str, file: BufferedReader, header: bytes, checksum: object, size: int
) -> NDArray[np.uint8]:
    """All arrays as bytes that nobody can write to, if they are as they were written."""
    if not isinstance(checksum, str) or not re.fullmatch("[0-9a-f]{64}", checksum):
        raise ModelFileError(f"{path}: the checksum is damaged.")
    digest = hashlib.sha256(header.replace(checksum.encode(), _UNSIGNED.encode(), 1))
    data = np.empty(size, dtype=np.uint8)
    for start in range(0, size, _CHUNK):
        part = data[start : start + _CHUNK]
        # The file may have become shorter by now.
        if file.readinto(part.data) != len(part):
            raise ModelFileError(f"{path}: the file is cut off: it was changed while it was read.")
        digest.update(part.data)
    if digest.hexdigest() != checksum:
        raise ModelFileError(
            f"{path}: the checksum does not match: the file was changed or damaged after it was written."
        )
    data.flags.writeable = False
    return data


def _refuse_constant(name: str) -> float:
    raise ValueError(f"a number is {name}")


def _header(arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> tuple[bytes, list[memoryview]]:
    """The header, padded so that the arrays begin on a cache line, and the arrays' bytes in order."""
    # Wide elements first, so that every array is aligned to its element.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    table: dict[str, Any] = {
        "__metadata__": {
            "format": _MAGIC,
            "format_version": str(FORMAT_VERSION),
            "checksum": _UNSIGNED,
            "model": json.dumps(numbers, allow_nan=False),
        }
    }
    data, end = [], 0
    for name in order:
        array = np.ascontiguousarray(arrays[name])
        kind = next(key for key, dtype in _DTYPES.items() if np.dtype(dtype) == array.dtype)
        table[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
        data.append(array.reshape(-1).view(np.uint8).data)
    header = json.dumps(table).encode()
    header += b" " * (-(8 + len(header)) % 64)
    digest = hashlib.sha256(header)
    for view in data:
        digest.update(view)
    return header.replace(_UNSIGNED.encode(), digest.hexdigest().encode(), 1), data
