"""Landmark files at a path or an address."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pliant.data.addresses import Source, fetched, plain_name
from pliant.data.annotation import Annotation
from pliant.data.formats import read_annotations_with
from pliant.data.image_lookup import sizes_of_images


def annotations_in(
    source: Source, format: str, folder: Source | None, or_unknown: bool = False
) -> list[Annotation]:
    """All annotations in a file at a path or an address.

    If `or_unknown`, those that need the size of an image that cannot be read have `UNKNOWN_SIZE` as their size.
    """
    sizes = sizes_of_images(source, folder, or_unknown)
    if isinstance(source, Path):
        return read_annotations_with(source, format, sizes)
    # Formats read from paths. Landmark files are small: one at an address visits the disk for a moment.
    with TemporaryDirectory() as passing:
        path = Path(passing) / plain_name(source)
        path.write_bytes(fetched(source))
        try:
            found = read_annotations_with(path, format, sizes)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), source)) from None
    if any(annotation.pixels is not None for annotation in found):
        raise ValueError(
            f"{source}: this file holds the images themselves: copy it to this machine to read it."
        )
    return found


def annotation_in(source: Source, format: str, folder: Source | None) -> Annotation:
    """The annotation in a file that has one."""
    found = annotations_in(source, format, folder)
    if len(found) != 1:
        raise ValueError(f"{source}: this file has {len(found)} objects, but one was expected.")
    return found[0]
