"""The images that a user's words name: paths, folders, patterns, manifests and tables of landmarks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from glob import escape, iglob
from pathlib import Path

from pliant.data import images, manifest
from pliant.data.addresses import (
    Source,
    as_source,
    ending,
    few_enough,
    files_in,
    is_file,
    is_folder,
    matching,
)
from pliant.data.image_lookup import image_of
from pliant.data.landmark_files import annotations_in
from pliant.files import real_path, require_plain


def find_images(arguments: Sequence[str], part: str | None = None) -> list[str]:
    """The images that paths, addresses, folders, patterns and manifests name, each once.

    Those of a folder are in the order of their names. `part` are the rows of manifests that have this in the column
    split; images that come from elsewhere are in no part.
    """
    found: list[Source] = []
    for argument in arguments:
        source = as_source(argument)
        if is_folder(source):
            if part is not None:
                raise ValueError(f"part={part}: {argument} is a folder, but only a manifest has parts.")
            several = [file for file in files_in(source) if ending(file) in images.EXTENSIONS]
            if not several:
                raise ValueError(f"{source}: there are no images in this folder.")
        elif ending(source) in manifest.ENDINGS and is_file(source):
            several = _listed(source, part)
        elif part is not None:
            raise ValueError(f"part={part}: {argument} is not a manifest, so it has no parts.")
        elif is_file(source):
            several = [source]
        else:
            if isinstance(source, Path):
                require_plain(source)
            several = matching(source) if isinstance(source, str) else local_matches(argument)
            several = [file for file in several if ending(file) in images.EXTENSIONS]
            if not several:
                raise ValueError(
                    f"{argument}: there is no such image or folder, and no image matches that pattern."
                )
        found += several
    unique: dict[Source, Source] = {}
    for file in found:
        unique.setdefault(real_path(file) if isinstance(file, Path) else file, file)
    return [str(file) for file in unique.values()]


def _listed(table: Source, part: str | None) -> list[Source]:
    """The images of a manifest or of a part of it, or those that a table of landmarks names."""
    rows = manifest.read_manifest(table)
    if rows is None and part is None:
        return [image_of(annotation.image, table) for annotation in annotations_in(table, "", None)]
    wanted = [row for row in rows or () if part is None or row.get("split") == part]
    if not wanted:
        known = sorted({row.get("split", "") for row in rows or ()} - {""})
        have = f"Its parts are {', '.join(known)}." if known else "It has no values in a column split."
        raise ValueError(
            f"{table}: no row is in the part '{part}'. {have}" if part else f"{table}: this table is empty."
        )
    return [manifest.listed_file(row["image"], row["where"], table, named=True) for row in wanted]


def local_matches(pattern: str) -> list[Source]:
    """Files and folders of a pattern that are not hidden, in the order of their names."""
    found = (Path(name) for name in _matches(pattern))
    return few_enough((path for path in found if not path.name.startswith(".")), pattern)


def _matches(pattern: str) -> Iterator[str]:
    """What `glob` finds, but `**` enters no linked folder: two links of a folder to itself would never end."""
    parts = Path(pattern).parts
    if "**" not in parts:
        yield from iglob(pattern)
        return
    at = parts.index("**")
    rest = parts[at + 1 :] or ("*",)
    for top in iglob(os.path.join(*parts[:at])) if at else (os.curdir,):
        for folder, folders, _ in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from _matches(os.path.join(escape(folder), *rest))
