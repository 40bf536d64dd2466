"""The journal of a run: rows on disk from the moment they are known, a JSON line an image, until all are there.

A Parquet file cannot be read before its last byte is written, so it is made at the end. Until then the rows are
here, all objects of an image in one line, so that none of them is there without the others. A process may be killed
at any time, and files are damaged and edited: each line ends with a check of itself and of all lines before it, and
what is behind the last line that is right is dropped when the run goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from pliant.files import named_in_errors
from pliant.limits import parsed_json
from pliant.table import Row

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are not noticed there.
    fcntl = None  # type: ignore[assignment]

JOURNAL = "fits.unfinished.jsonl"

ROWS = "rows"
"""What a line has: the rows of an image, one for each object."""

_BEFORE = b', "check": "'
_AFTER = b'"}\n'
_DIGITS = 16
"""A line is a JSON object whose last key is the check."""


class Journal:
    """A journal to append the rows of images to; only one process has it at a time."""

    def __init__(self, path: Path, head: Mapping[str, Any] | None, length: int = 0) -> None:
        """Begin a journal with a head, or go on with the one that is there after its first `length` bytes."""
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | (0 if head is None else os.O_CREAT), 0o666)
        self._path = path
        _lock(self._file, path.parent)
        os.ftruncate(self._file, length)
        self._check = b""
        if length:
            os.lseek(self._file, length - _DIGITS - len(_AFTER), os.SEEK_SET)
            self._check = os.read(self._file, _DIGITS)
        if head is not None:
            self._write([head])

    def append(self, images: Iterable[Sequence[Row]]) -> None:
        """Add the rows of images in one write: the operating system has them when this returns."""
        self._write({ROWS: rows} for rows in images)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        # Floats are written so that they are read as the same bits; nan is fine for Python's reader.
        content = b""
        for line in lines:
            body = json.dumps(line).encode()[:-1]
            self._check = _check(self._check, body)
            content += body + _BEFORE + self._check + _AFTER
        with named_in_errors(self._path):
            while content:
                content = content[os.write(self._file, content) :]

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


@contextmanager
def only_one_writes(folder: Path) -> Iterator[None]:
    """While the block runs, no other process writes to this folder of an output; a ValueError if one does now."""
    if sys.platform == "win32":  # It opens no folders.
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    _lock(handle, folder.parent)
    try:
        yield
    finally:
        os.close(handle)


def _lock(handle: int, output: Path) -> None:
    """Lock a file until it is closed, or close it and say who is in the way."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(handle).st_nlink:
            raise BlockingIOError
    except BlockingIOError:
        os.close(handle)
        raise ValueError(f"{output}: another process is writing fits to this folder now.") from None


def whole_lines(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """The head and the other lines of a journal while they are right, each with the bytes up to its end."""
    end, check = 0, b""
    with open(path, "rb") as file:
        for line in file:
            end += len(line)
            body, _, said = line.rpartition(_BEFORE)
            check = _check(check, body)
            if said != check + _AFTER:
                return
            try:
                content = parsed_json(body + b"}")
            except ValueError:
                return
            yield content, end


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a journal."""
    lines = whole_lines(path)
    next(lines, None)
    return (row for line, _ in lines for row in line[ROWS])


def _check(before: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(before + body, digest_size=_DIGITS // 2).hexdigest().encode()
