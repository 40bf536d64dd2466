"""Where images are: the files that a user's words name, and the image that a landmark file means."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from glob import glob
from pathlib import Path

from pliant.data import images, manifest
from pliant.data.addresses import (
    Source,
    as_source,
    ending,
    files_in,
    inside,
    is_file,
    is_folder,
    join,
    matching,
    parent,
    plain_name,
    with_ending,
)
from pliant.data.annotation import ImageSizes, Size
from pliant.data.names import from_text
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
                raise ValueError(f"--part {part}: {argument} is a folder, and only a manifest has parts.")
            several = [file for file in files_in(source) if ending(file) in images.EXTENSIONS]
            if not several:
                raise ValueError(f"{source}: there are no images in this folder.")
        elif ending(source) in manifest.ENDINGS and is_file(source):
            several = _listed(source, part)
        elif part is not None:
            raise ValueError(f"--part {part}: {argument} is no manifest, and has no parts.")
        elif is_file(source):
            several = [source]
        else:
            if isinstance(source, Path):
                require_plain(source)
            several = matching(source) if isinstance(source, str) else local_matches(argument)
            several = [file for file in several if ending(file) in images.EXTENSIONS]
            if not several:
                raise ValueError(
                    f"{argument}: there is no such image or folder, and no image of that pattern."
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
        from pliant.data.loading import annotations_in

        return [image_of(annotation.image, table) for annotation in annotations_in(table, "", None)]
    wanted = [row for row in rows or () if part is None or row.get("split") == part]
    if not wanted:
        known = sorted({row.get("split", "") for row in rows or ()} - {""})
        have = f"Its parts are {', '.join(known)}." if known else "It gives nothing in a column split."
        raise ValueError(
            f"{table}: no row is in the part '{part}'. {have}" if part else f"{table}: it is empty."
        )
    return [manifest.listed_file(row["image"], row["where"], table, named=True) for row in wanted]


def image_of(name: str, landmarks: Source, folder: Source | None = None) -> Source:
    """The image that a landmark file means by `name`; without a name, the one of the same name as the file.

    It is looked for in `folder`, and beside the landmark file, with the folders in its name and without. A landmark
    file on this machine may name files of this machine anywhere; one at an address names what is in these places.
    No name is an address: of one that looks so, the last part is looked for.
    """
    places = [parent(landmarks)] if folder is None else [as_source(folder), parent(landmarks)]
    if name:
        plain = name.replace("\\", "/")
        names = [plain, plain.rsplit("/", 1)[-1]]
    else:
        names = [
            plain_name(with_ending(landmarks, other))
            for lower in images.EXTENSIONS
            for other in (lower, lower.upper())
        ]
    for place in places:
        for candidate in names:
            trusted = isinstance(landmarks, Path) and isinstance(place, Path)
            image = (
                join(place, candidate) if trusted and not _is_remote(candidate) else inside(place, candidate)
            )
            if image is not None and is_file(image):
                return image
    if not name:
        raise ValueError(
            f"{landmarks}: there is no image beside this file: say where images are with --images."
        )
    where = parent(landmarks) if folder is None else folder
    if _is_remote(plain):
        raise ValueError(
            f"{landmarks}: {name} is an address, which landmark files must not hold, and there is no "
            f"{names[-1]} in {where}: say where images are with --images."
        )
    raise ValueError(f"{landmarks}: the image {name} is not in {where}: say where images are with --images.")


def _is_remote(name: str) -> bool:
    """Whether a name, with slashes alone, is an address or that of a network share."""
    return "://" in name or name.startswith("//")


def sizes_of_images(landmarks: Source, folder: Source | None = None) -> ImageSizes:
    """A function that finds the size of an image that a landmark file names, reading its header alone."""

    @cache
    def size(name: str) -> Size:
        return images.image_size(image_of(from_text(name), landmarks, folder))

    return size


def local_matches(pattern: str) -> list[Source]:
    """Files and folders of a pattern that are not hidden, in the order of their names."""
    return sorted(Path(name) for name in glob(pattern, recursive=True) if not Path(name).name.startswith("."))
