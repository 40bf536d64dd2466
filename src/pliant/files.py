"""Plain files on this machine: told apart from pipes, folders and links that go round, and replaced in one step."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_FOR_READING = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class IrregularFile(OSError):
    """A folder, pipe, socket or device where a plain file is needed; the message is a sentence that names it."""


def open_plain(path: Path) -> BufferedReader:
    """A plain file to read bytes from; whatever else has that name is refused, and never waited for."""
    handle, _ = _opened(path)
    try:
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_plain(path: Path, most: int) -> bytes | None:
    """All bytes of such a file, or None if it has more than `most`.

    A file object would ask the system three times as often, and each time other threads take the interpreter away.
    """
    handle, size = _opened(path)
    try:
        if size > most:
            return None
        content = os.read(handle, size)
        while len(content) < size and (more := os.read(handle, size - len(content))):
            content += more
        return content
    finally:
        os.close(handle)


def _opened(path: Path) -> tuple[int, int]:
    """The handle of a plain file, and how many bytes it has."""
    if not hasattr(os, "O_NONBLOCK"):  # Windows, where pipes have no names in folders.
        require_plain(path)
    try:
        # To open a pipe would wait for its other end. What was opened is looked at, not what has its name by then.
        handle = os.open(path, _FOR_READING)
    except OSError:
        # A socket cannot be opened at all.
        require_plain(path)
        raise
    try:
        found = os.fstat(handle)
        _require_plain(path, found.st_mode)
    except BaseException:
        os.close(handle)
        raise
    return handle, found.st_size


def require_plain(path: Path) -> None:
    """Refuse what is there and no plain file, where a library opens files by their names; nothing there is fine."""
    if path.exists():
        _require_plain(path, path.stat().st_mode)
    elif os.path.islink(path):
        raise IrregularFile(f"{path}: this symbolic link is broken or circular.")


def _require_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise IrregularFile(f"{path}: this is {kind}, but a plain file is needed.")


def real_path(path: Path | str) -> Path:
    """The absolute path without links; where they go round, `Path.resolve` would raise a RuntimeError."""
    return Path(os.path.realpath(path))


@contextmanager
def replaced(path: Path, *, alone: bool = False, passing: Path | None = None) -> Iterator[Path]:
    """Where to write a new file, which takes the place of `path` in one step when the block ends.

    What was there stays until all bytes of the new one are on the disk; on any error it stays for good, and nothing
    is left of the new one. That has the same name, as some formats write their file's name into it, in a hidden
    folder of its own beside `path`, or in the folder `passing` on the same disk.

    `alone` says that nobody else writes this file now. The new one is then called `.part-` and the name, so that
    what a killed process left is written over by the next.
    """
    if alone:
        partial = path.with_name(f".part-{path.name}")
        try:
            with named_in_errors(path):
                yield partial
                _put(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return
    with named_in_errors(path), TemporaryDirectory(dir=passing or path.parent, prefix=".writing-") as hidden:
        yield (partial := Path(hidden) / path.name)
        _put(partial, path)


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """An error of the disk names this file: it has no name of its own, or a hidden one."""
    try:
        yield
    except OSError as error:
        hidden = any(part.startswith((".writing-", ".part-")) for part in Path(str(error.filename)).parts)
        if error.errno and (error.filename is None or hidden):
            error.filename = str(path)
        raise


def _put(partial: Path, path: Path) -> None:
    with open(partial, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
