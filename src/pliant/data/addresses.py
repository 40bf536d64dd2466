"""Files at addresses such as `s3://bucket/faces` or `zip://faces::archive.zip`, read and written through fsspec.

An address is a string; what is a string without `://` is a path. Only the first part of a chain (`a::b`) moves
when a folder is joined with a name or a file is asked for its folder. Addresses come from the user: a name that is
read from a file is made a path or an address by `inside` alone, which never leaves the folder.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from urllib.parse import unquote
from uuid import uuid4

from pliant.files import open_plain, replaced

Source = Path | str
"""A file or folder: a path, or an address."""

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}

_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Protocols of stores that have buckets of objects: they need no folders, and show an object when it is whole."""

_MOST = 2**30
"""Bytes that are read at an address at once."""

_MOST_MATCHES = 10_000_000
"""Files of a pattern, each of which takes some hundred bytes of memory before the first is read."""

_ATTEMPTS = 5
"""How often a folder is removed that others still write to."""

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
    return _is(source, "directory")


def is_file(source: Source, *, listed: bool = False) -> bool:
    """Whether there is such a file now; if `listed`, as of when `files_in` last listed its folder, if it has."""
    if isinstance(source, Path):
        try:
            return source.is_file()
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return False
            raise
    return _is(source, "file", listed)


def _is(address: str, kind: str, listed: bool = False) -> bool:
    system, path = _system(address, listed)
    with _sentences(address):
        if _protocol(address) not in _STORES:
            return bool(system.isfile(path) if kind == "file" else system.isdir(path))
        try:
            # Not `isfile`: that takes a store that cannot be asked for one that has no such file.
            return bool(system.info(path)["type"] == kind)
        except FileNotFoundError:
            return False


def files_in(folder: Source) -> list[Source]:
    """Files of a folder that are not hidden, in the order of their names."""
    if isinstance(folder, Path):
        files: list[Source] = [path for path in folder.iterdir() if path.is_file()]
    else:
        system, path = _system(folder, listed=True)
        with _sentences(folder):
            system.invalidate_cache(path)
            files = [_address(folder, system, name) for name in _files(system.ls(path, detail=True))]
    return sorted(file for file in files if not plain_name(file).startswith("."))


def size_in_bytes(source: Source, *, listed: bool = False) -> int | None:
    """Of a file, if that is known; `listed` is that of `is_file`."""
    if isinstance(source, Path):
        return source.stat().st_size
    system, path = _system(source, listed)
    with _sentences(source):
        size = system.size(path)
    return None if size is None else int(size)


def matching(pattern: str) -> list[Source]:
    """Files at addresses of a pattern, in the order of their names."""
    system, path = _system(pattern)
    with _sentences(pattern):
        entries = system.glob(path, detail=True).values()
        found = [_address(pattern, system, name) for name in _files(entries)]
    return few_enough(found, pattern)


def few_enough(found: Iterable[Source], pattern: str) -> list[Source]:
    """What a pattern matches, each once and in order; a ValueError if that is more than a run can hold."""
    unique = set(islice(found, _MOST_MATCHES + 1))
    if len(unique) > _MOST_MATCHES:
        raise ValueError(
            f"{pattern}: this pattern matches more than {_MOST_MATCHES:,} files: narrow it, or list the files in a "
            "manifest."
        )
    return sorted(unique)


@contextmanager
def opened(source: Source) -> Iterator[BinaryIO]:
    """A file to read from, wherever it is."""
    if isinstance(source, Path):
        with open_plain(source) as file:
            yield file
        return
    system, path = _system(source)
    with _sentences(source):
        try:
            file = system.open(path, "rb")
        except KeyError:  # What an archive has no file of that name says before fsspec 2026.9.
            raise FileNotFoundError from None
    # What the reader makes of the bytes is not the service's fault.
    with _sentences(source, through=(ValueError, LookupError, TypeError, MemoryError, UserWarning)), file:
        yield file


@contextmanager
def written(target: Source, *, alone: bool = False) -> Iterator[Path]:
    """A path to write a file to, which takes the place of `target` in one step when the block ends without error.

    `alone` is that of `files.replaced`. What goes to an address is written on this machine first.
    """
    if isinstance(target, Path):
        with replaced(target, alone=alone) as partial:
            yield partial
        return
    with TemporaryDirectory(prefix="pliant-") as passing:
        # A key may be longer than a name can be here; some formats write their file's ending into it.
        yield (partial := Path(passing) / f"file{ending(target)[:20]}")
        system, path = _system(target)
        with _sentences(target, "written"):
            if not _renames(system):
                # It shows a file when it has all of it.
                system.put_file(str(partial), path)
                return
            hidden = f"{path.rpartition('/')[0]}/.part-{uuid4().hex}"
            try:
                system.put_file(str(partial), hidden)
                system.mv(hidden, path)
            except BaseException:
                with suppress(Exception):
                    system.rm_file(hidden)
                raise


def _renames(system: Any) -> bool:
    """Whether a file system has a way of its own to give a file another name; to copy it would not be one step."""
    from fsspec import AbstractFileSystem

    return type(system).mv is not AbstractFileSystem.mv


def make_folder(folder: Source) -> None:
    """Make a folder that files can be written to. Stores need none, and their buckets are not ours to make."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    elif _protocol(folder) in _STORES:
        require_folder(folder)
    else:
        system, path = _system(folder)
        with _sentences(folder, "written"):
            system.makedirs(path, exist_ok=True)


def require_folder(folder: Source) -> None:
    """Refuse a folder that is not there, or whose bucket is not, before any work is done that should end in it."""
    if _protocol(folder) in _STORES:
        system, path = _system(str(folder))
        bucket = path.partition("/")[0]
        if not bucket:
            raise ValueError(f"{folder}: an address needs a bucket and a name in it: s3://bucket/name.")
        with _sentences(str(folder)):
            # A question that the store refuses to answer says more than "no such bucket" would.
            with suppress(FileNotFoundError):
                system.info(f"{path}/.pliant")
            there = bool(system.exists(bucket))
        if not there:
            raise ValueError(
                f"{folder}: the bucket {bucket} does not exist: create it first, or use another."
            )
    elif not is_folder(folder):
        raise ValueError(f"{folder}: this folder does not exist.")


def require_folder_of(file: Source) -> None:
    """Refuse a file whose folder is not there."""
    if not isinstance(file, Path):
        require_folder(parent(file))
    elif not file.parent.is_dir():
        raise ValueError(f"{file}: the folder {file.parent} does not exist.")


def names_in(folder: Source) -> list[str]:
    """The names of all files in a folder as they are now, in order; none if there is no such folder."""
    return list(sizes_in(folder))


def sizes_in(folder: Source) -> dict[str, int]:
    """Bytes of all files in a folder as they are now, by their names, in order; none if there is no such folder."""
    if isinstance(folder, Path):
        sizes = {}
        # Others write and remove there as well, and may remove all of it.
        with suppress(FileNotFoundError):
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        sizes[entry.name] = entry.stat().st_size
        return dict(sorted(sizes.items()))
    system, path = _system(folder)
    with _sentences(folder):
        try:
            entries = {entry["name"]: entry for entry in system.ls(path, detail=True)}
        except FileNotFoundError:
            return {}
    files = _files(entries.values())
    return {PurePosixPath(name).name: entries[name]["size"] for name in sorted(files)}


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
        # Others may remove files there meanwhile, or write some.
        for _ in range(_ATTEMPTS):
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
        if folder.is_dir():
            shutil.rmtree(folder)
        return
    system, path = _system(folder)
    with _sentences(folder, "removed"), suppress(FileNotFoundError):
        system.rm(path, recursive=True)


def fetched(address: str) -> bytes:
    """All bytes of a file at an address; an archive may unpack to far more than any image or landmark file has."""
    content = _in_one_request(address)
    if content is None:
        with opened(address) as file:
            content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise ValueError(
            f"{address}: this file is larger than {_MOST:,} bytes: copy it to this machine to read it."
        )
    return content


def _files(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of files in a listing; an object whose name ends in a slash is how some tools make a folder."""
    return [entry["name"] for entry in entries if entry["type"] == "file" and not entry["name"].endswith("/")]


def _in_one_request(address: str) -> bytes | None:
    """What `fetched` wants, if it can be had without a look at the file's length: a store would be asked twice."""
    if _protocol(address) not in _STORES:
        return None
    system, path = _system(address)
    with _sentences(address):
        try:
            return bytes(system.cat_file(path, start=0, end=_MOST + 1))
        except OSError as error:
            # An empty object has no first byte.
            if error.errno != errno.EINVAL:
                raise
    return None


def _protocol(address: Source) -> str:
    """The protocol of an address without a chain; empty for anything else."""
    return address.partition("://")[0] if isinstance(address, str) and "::" not in address else ""


def _system(address: str, listed: bool = False) -> tuple[Any, str]:
    """The file system that fsspec has for an address, and the path in it.

    Others write to stores as well. One that is `listed` answers from what `files_in` found, which saves a request
    for each file of a data set; others always ask.
    """
    import fsspec

    protocol = address.partition("://")[0]
    links = {link.partition("://")[0] for link in address.split("::")}
    if _REFUSED in links:
        raise ValueError(
            f"{address}: {_REFUSED}:// is not read, because such a file can point to any other address."
        )
    try:
        with _sentences(address, through=FileNotFoundError):
            stores = links.intersection(_STORES)
            options = {link: {"use_listings_cache": listed} for link in stores}
            system, path = fsspec.core.url_to_fs(address, **options)
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
def _sentences(
    address: str, done: str = "read", through: type[Exception] | tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Each service fails with errors of its own; all but those `through` become a sentence with the address."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        if isinstance(error, through):
            raise
        if isinstance(error, FileNotFoundError) and done == "read":
            raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", address) from None
        raise OSError(f"{address}: this address cannot be {done} ({error}).") from None
