"""Files at addresses such as `s3://bucket/faces` or `zip://faces::archive.zip`, read and written through fsspec.

An address is a string; what is a string without `://` is a path. Only the first part of a chain (`a::b`) moves
when a folder is joined with a name or a file is asked for its folder. Addresses come from the user: a name that is
read from a file is made a path or an address by `inside` alone, which never leaves the folder.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from urllib.parse import unquote

from pliant.files import open_plain, replaced

Source = Path | str
"""A file or folder: a path, or an address."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}

_MOST = 2**30
"""Bytes that are read at an address at once."""

_REFUSED = "reference"
"""fsspec's protocol for a file that lists addresses, as templates: whoever wrote that file chooses what is read."""


def is_address(text: Source) -> bool:
    return isinstance(text, str) and "://" in text


def as_source(text: Source) -> Source:
    """What a user typed: an address as it is, anything else as a path."""
    return text if is_address(text) else Path(text)


def join(folder: Source, name: str) -> Source:
    """A file in a folder. The name must be the user's or our own; see `inside` for names that were read."""
    if isinstance(folder, Path):
        return folder / name
    head, colons, rest = folder.partition("::")
    return f"{head if head.endswith('/') else head + '/'}{name}{colons}{rest}"


def inside(folder: Source, name: str) -> Source | None:
    """The file of this relative name in a folder or below it; None for a name that leads anywhere else."""
    # Servers decode what is quoted, so `%2e%2e` is a step upwards as well.
    for plain in (name.replace("\\", "/"), unquote(name).replace("\\", "/")):
        upwards = ".." in PurePosixPath(plain).parts
        elsewhere = plain.startswith("/") or Path(plain).drive or "://" in plain or "::" in plain
        if not plain or upwards or elsewhere:
            return None
    return join(folder, name.replace("\\", "/"))


def same_store(one: str, other: str) -> bool:
    """Whether two addresses are of the same bucket, server or archive, neither with a step upwards."""
    stores = []
    for address in (one, other):
        head, _, rest = address.partition("::")
        protocol, _, path = head.partition("://")
        if ".." in PurePosixPath(unquote(path).replace("\\", "/")).parts:
            return False
        # What is inside an archive has no bucket.
        stores.append((protocol, rest) if rest else (protocol, path.partition("/")[0]))
    return stores[0] == stores[1]


def parent(file: Source) -> Source:
    if isinstance(file, Path):
        return file.parent
    head, colons, rest = file.partition("::")
    protocol, _, path = head.rstrip("/").partition("://")
    return f"{protocol}://{path.rpartition('/')[0]}{colons}{rest}"


def plain_name(file: Source) -> str:
    """The last part: `face.jpg`."""
    return file.name if isinstance(file, Path) else PurePosixPath(file.partition("::")[0]).name


def path_in_store(address: str) -> str:
    """An address without its protocol and without what it is chained to: `bucket/faces/face.jpg`."""
    return address.partition("::")[0].partition("://")[2].strip("/")


def ending(file: Source) -> str:
    """`.jpg`, in lower case."""
    return PurePosixPath(plain_name(file)).suffix.lower()


def with_ending(file: Source, other: str) -> Source:
    if isinstance(file, Path):
        return file.with_suffix(other)
    return join(parent(file), PurePosixPath(plain_name(file)).stem + other)


def is_folder(source: Source) -> bool:
    if isinstance(source, Path):
        return source.is_dir()
    system, path = _system(source)
    with _sentences(source):
        return bool(system.isdir(path))


def is_file(source: Source) -> bool:
    if isinstance(source, Path):
        try:
            return source.is_file()
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return False
            raise
    system, path = _system(source)
    with _sentences(source):
        return bool(system.isfile(path))


def files_in(folder: Source) -> list[Source]:
    """Files of a folder that are not hidden, in the order of their names."""
    if isinstance(folder, Path):
        files: list[Source] = [path for path in folder.iterdir() if path.is_file()]
    else:
        system, path = _system(folder)
        with _sentences(folder):
            files = [
                _address(folder, system, entry["name"])
                for entry in system.ls(path, detail=True)
                if entry["type"] == "file"
            ]
    return sorted(file for file in files if not plain_name(file).startswith("."))


def size_in_bytes(source: Source) -> int | None:
    """Of a file, if that is known."""
    if isinstance(source, Path):
        return source.stat().st_size
    system, path = _system(source)
    with _sentences(source):
        size = system.size(path)
    return None if size is None else int(size)


def matching(pattern: str) -> list[Source]:
    """Files at addresses of a pattern, in the order of their names."""
    system, path = _system(pattern)
    with _sentences(pattern):
        return sorted(_address(pattern, system, name) for name in system.glob(path))


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """A file to read from, wherever it is."""
    if isinstance(source, Path):
        with open_plain(source) as file:
            yield file
        return
    system, path = _system(source)
    with _sentences(source), system.open(path, "rb") as file:
        yield file


@contextmanager
def written(target: Source, *, alone: bool = False) -> Iterator[Path]:
    """A path to write a file to, which takes the place of `target` in one step when the block ends without error.

    `alone` is that of `files.replaced`. What goes to an address is written beside nothing: a store shows a file
    when it has all of it.
    """
    if isinstance(target, Path):
        with replaced(target, alone=alone) as partial:
            yield partial
        return
    with TemporaryDirectory(prefix="pliant-") as passing:
        yield (partial := Path(passing) / plain_name(target))
        system, path = _system(target)
        with _sentences(target, "written"):
            system.put_file(str(partial), path)


def make_folder(folder: Source) -> None:
    """A folder that files can be written to; stores without folders need none."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
        return
    system, path = _system(folder)
    with _sentences(folder, "written"):
        system.makedirs(path, exist_ok=True)


def names_in(folder: Source) -> list[str]:
    """The names of all files in a folder as they are now, in order; none if there is no such folder."""
    if isinstance(folder, Path):
        return sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    system, path = _system(folder)
    with _sentences(folder):
        # Others write there as well, and what a file system has listed once it may list again.
        system.invalidate_cache()
        try:
            entries = system.ls(path, detail=True)
        except FileNotFoundError:
            return []
    return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "file")


def sizes_in(folder: Source) -> dict[str, int]:
    """Bytes of all files in a folder as they are now, by their names, in order; none if there is no such folder."""
    if isinstance(folder, Path):
        files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
        return {path.name: path.stat().st_size for path in files}
    system, path = _system(folder)
    with _sentences(folder):
        # Others write there as well, and what a file system has listed once it may list again.
        system.invalidate_cache()
        try:
            entries = system.ls(path, detail=True)
        except FileNotFoundError:
            return {}
    names = {PurePosixPath(entry["name"]).name: entry["size"] for entry in entries if entry["type"] == "file"}
    return dict(sorted(names.items()))


def remove(file: Source) -> None:
    """Remove a file, if it is there."""
    if isinstance(file, Path):
        file.unlink(missing_ok=True)
        return
    system, path = _system(file)
    with _sentences(file, "removed"), suppress(FileNotFoundError):
        system.rm_file(path)


def remove_folder(folder: Source) -> None:
    """Remove a folder with all that is in it, if it is there."""
    if isinstance(folder, Path):
        if folder.is_dir():
            shutil.rmtree(folder)
        return
    system, path = _system(folder)
    with _sentences(folder, "removed"), suppress(FileNotFoundError):
        system.rm(path, recursive=True)


def fetched(address: str) -> bytes:
    """All bytes of a file at an address; an archive may unpack to far more than any image or landmark file has."""
    with opened(address) as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError(f"{address}: there are more than {_MOST:,} bytes in this file: copy it to read it.")
    return content


def _system(address: str) -> tuple[Any, str]:
    """The file system that fsspec has for an address, and the path in it."""
    import fsspec

    protocol = address.partition("://")[0]
    if any(link.partition("://")[0] == _REFUSED for link in address.split("::")):
        raise ValueError(f"{address}: {_REFUSED}:// is not read, as such a file can name any other address.")
    try:
        with _sentences(address):
            system, path = fsspec.core.url_to_fs(address)
    except FileNotFoundError as error:
        raise ValueError(f"{address}: there is no {error.filename or error}.") from None
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        mend = f"pip install 'pliant[{extra}]'" if extra else str(error)
        raise ValueError(f"{address}: {protocol}:// needs a library that is not installed: {mend}.") from None
    return system, path


def _address(like: str, system: Any, name: str) -> str:
    """The address of a file that a file system names, in the manner of the address that was asked for."""
    head, colons, rest = like.partition("::")
    if not colons:
        return str(system.unstrip_protocol(name))
    return f"{head.partition('://')[0]}://{name.lstrip('/')}::{rest}"


@contextmanager
def _sentences(address: str, done: str = "read") -> Iterator[None]:
    """Each service fails with errors of its own; all of them become a sentence with the address."""
    try:
        yield
    except (ImportError, FileNotFoundError):
        raise
    except Exception as error:
        raise OSError(f"{address}: this address cannot be {done} ({error}).") from None
