"""The image that a landmark file means, and how large it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pliant.data import images
from pliant.data.addresses import (
    Source,
    as_source,
    inside,
    is_file,
    join,
    parent,
    plain_name,
    with_ending,
)
from pliant.data.annotation import UNKNOWN_SIZE, ImageSizes, Size
from pliant.data.names import from_text


def image_of(name: str, landmarks: Source, folder: Source | None = None) -> Source:
    """The image that a landmark file means by `name`, as `find_image` finds it; without one, an error."""
    image = find_image(name, landmarks, folder)
    if image is None:
        raise ValueError(f"{not_found(name, landmarks, folder)}{'.' if folder is not None else _GIVE}")
    return image


def find_image(name: str, landmarks: Source, folder: Source | None = None) -> Source | None:
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
            if image is not None and is_file(image, listed=True):
                return image
    return None


_GIVE = ": give the folder of the images with images=FOLDER."


def not_found(name: str, landmarks: Source, folder: Source | None) -> str:
    """What to say about an image that is not there, up to the full stop: its name, and where it was looked for."""
    if not name:
        there = "" if folder is None else f", and none of the same name in {named(folder)}"
        return f"{landmarks}: there is no image next to this file{there}"
    plain = name.replace("\\", "/")
    where = f"in {named(parent(landmarks) if folder is None else folder)}"
    where += "" if folder is None else " or next to this file"
    if _is_remote(plain):
        return (
            f"{landmarks}: {name} is an address, which a landmark file must not contain, and there is no "
            f"{plain.rsplit('/', 1)[-1]} {where}"
        )
    return f"{landmarks}: the image {name} is not {where}"


def named(folder: Source) -> str:
    """What to call a folder in a sentence."""
    return "this folder" if str(folder) == "." else str(folder)


def _is_remote(name: str) -> bool:
    """Whether a name, with slashes alone, is an address or that of a network share."""
    return "://" in name or name.startswith("//")


def sizes_of_images(landmarks: Source, folder: Source | None = None, or_unknown: bool = False) -> ImageSizes:
    """A function that finds the size of an image that a landmark file names, reading its header alone.

    If `or_unknown`, an image that is not there or cannot be read is no error, and has the `UNKNOWN_SIZE`.
    """

    @cache
    def size(name: str) -> Size:
        try:
            return images.image_size(image_of(from_text(name), landmarks, folder))
        except ValueError:
            if or_unknown and name:
                return UNKNOWN_SIZE
            raise

    return size
