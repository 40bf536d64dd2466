"""Landmark formats, one file each.

A module in this folder is a format: `EXTENSIONS`, `read(path) -> (v, 2)` and `write(path, points)`,
0-based with pixel centres at integers on our side, whatever the file's own convention is.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

from pliant.arrays import Float64, Floats


class Format(Protocol):
    EXTENSIONS: tuple[str, ...]

    def read(self, path: Path) -> Float64: ...

    def write(self, path: Path, points: Floats) -> None: ...


@cache
def formats_by_extension() -> dict[str, Format]:
    """Every format in this folder, by the extensions that it claims."""
    modules = [cast(Format, import_module(f"{__name__}.{module.name}")) for module in iter_modules(__path__)]
    return {extension: module for module in modules for extension in module.EXTENSIONS}


def read_landmarks(path: Path | str) -> Float64:
    """Landmarks `(v, 2)` of a file of any known format."""
    path = Path(path)
    try:
        return _format_of(path).read(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such landmark file.") from None


def write_landmarks(path: Path | str, points: Floats) -> None:
    """Write landmarks `(v, 2)` in the format that the file's extension names."""
    _format_of(Path(path)).write(Path(path), points)


def _format_of(path: Path) -> Format:
    known = formats_by_extension()
    if path.suffix.lower() not in known:
        raise ValueError(f"{path}: landmarks are read from files ending in {', '.join(sorted(known))}.")
    return known[path.suffix.lower()]
