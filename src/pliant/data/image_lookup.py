"""The image that a landmark file means, and how large it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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

Listing = Callable[[Path], Mapping[str, str]]
"""The names of files in a folder by their lower case, as `names_in` finds them."""


def names_in(folder: Path) -> dict[str, str]:
    """The names in a folder by their lower case; none if it cannot be listed. Large folders take long: cache it."""
    try:
        return {name.lower(): name for name in os.listdir(folder)}
    except OSError:
        return {}


def image_of(
    name: str, landmarks: Source, folder: Source | None = None, listing: Listing = names_in
) -> Source:
    """The image that a landmark file means by `name`, as `find_image` finds it; without one, an error."""
    image = find_image(name, landmarks, folder)
    if image is None:
        there = in_other_case(name, landmarks, folder, listing)
        what_to_do = "." if there or folder is not None else _GIVE
        raise ValueError(f"{not_found(name, landmarks, folder, there)}{what_to_do}")
    return image


def find_image(name: str, landmarks: Source, folder: Source | None = None) -> Source | None:
    """The image that a landmark file means by `name`; without a name, the one of the same name as the file.

    It is looked for in `folder`, and beside the landmark file, with the folders in its name and without. A landmark
    file on this machine may name files of this machine anywhere; one at an address names what is in these places.
    No name is an address: of one that looks so, the last part is looked for.
    """
    if name:
        names = _names_for(name)
    else:
        names = [
            plain_name(with_ending(landmarks, other))
            for lower in images.EXTENSIONS
            for other in (lower, lower.upper())
        ]
    for place in _places(landmarks, folder):
        for candidate in names:
            trusted = isinstance(landmarks, Path) and isinstance(place, Path)
            image = (
                join(place, candidate) if trusted and not _is_remote(candidate) else inside(place, candidate)
            )
            if image is not None and is_file(image, listed=True):
                return image
    return None


def in_other_case(name: str, landmarks: Source, folder: Source | None, listing: Listing) -> str:
    """The name of a file where this image was looked for, if it differs in upper and lower case alone."""
    for place in _places(landmarks, folder) if name else ():
        for candidate in _names_for(name):
            # Folders that a name leads to elsewhere are not listed.
            image = inside(place, candidate)
            if isinstance(image, Path) and (there := listing(image.parent).get(image.name.lower())):
                return there
    return ""


def _places(landmarks: Source, folder: Source | None) -> list[Source]:
    return [parent(landmarks)] if folder is None else [as_source(folder), parent(landmarks)]


def _names_for(name: str) -> list[str]:
    """The name with its folders, and without."""
    plain = name.replace("\\", "/")
    return [plain, plain.rsplit("/", 1)[-1]]


_GIVE = ": give the folder of the images with images=FOLDER."


def not_found(name: str, landmarks: Source, folder: Source | None, there: str = "") -> str:
    """What to say about an image that is not there, up to the full stop: its name, and where it was looked for.

    `there` is what `in_other_case` has found.
    """
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
    but = f", but there is {there}: {OTHER_CASE}" if there else ""
    return f"{landmarks}: the image {name} is not {where}{but}"


OTHER_CASE = "the names differ in upper and lower case"


def named(folder: Source) -> str:
    """What to call a folder in a sentence."""
    said = {".": "this folder", "..": "the folder above this one"}.get(str(folder), str(folder))
    # A full stop behind dots would be taken for one more of them.
    return f"'{said}'" if said.endswith(".") else said


def _is_remote(name: str) -> bool:
    """Whether a name, with slashes alone, is an address or that of a network share."""
    return "://" in name or name.startswith("//")


def sizes_of_images(landmarks: Source, folder: Source | None = None, or_unknown: bool = False) -> ImageSizes:
    """A function that finds the size of an image that a landmark file names, reading its header alone.

    If `or_unknown`, an image that is not there or cannot be read is no error, and has the `UNKNOWN_SIZE`.
    """
    listing = cache(names_in)

    @cache
    def size(name: str) -> Size:
        try:
            return images.image_size(image_of(from_text(name), landmarks, folder, listing))
        except ValueError:
            if or_unknown and name:
                return UNKNOWN_SIZE
            raise

    return size
