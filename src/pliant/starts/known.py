"""Starts that somebody has written down: boxes in a table, or landmarks that an image has already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

import numpy as np

from pliant.arrays import Float64, Image
from pliant.data import formats, manifest
from pliant.data.addresses import as_source, is_file, with_ending
from pliant.data.dataset import Sample
from pliant.data.formats import endings_beside_images
from pliant.data.landmark_files import annotation_in
from pliant.inputs import ImageSource


def known_landmarks(source: ImageSource, image: Image) -> Float64:
    """The landmarks `(v, 2)` of a sample, or of the landmark file beside an image."""
    if isinstance(source, Sample):
        return source.points()
    if not isinstance(source, (str, Path)):
        raise ValueError("an array has no landmarks to start from: give them as starts.")
    for ending in endings_beside_images():
        beside = with_ending(as_source(source), ending)
        if is_file(beside):
            return annotation_in(beside, "", None).points
    raise ValueError(f"{source}: there is no landmark file beside this image to start from.")


def boxes_in(file: Path) -> Callable[[str], Float64]:
    """A function from the name of an image to its boxes `(k, 4)` in a table or a landmark file."""
    if file.suffix.lower() in manifest.ENDINGS:
        named = manifest.read_boxes(file)
    else:
        found: dict[str, list[Float64]] = {}
        for name, box in formats.read_boxes(file):
            found.setdefault(name.replace("\\", "/"), []).append(box)
        if not found:
            raise ValueError(f"{file}: there are no boxes in this file.")
        named = {name: np.array(some) for name, some in found.items()}
    by_path = {PurePath(name): some for name, some in named.items()}

    def of_image(name: str) -> Float64:
        # The longest name in the table that the path ends with: with folders, or without.
        parts = Path(name).absolute().parts
        for first in range(len(parts)):
            boxes = by_path.get(PurePath(*parts[first:]))
            if boxes is not None:
                return boxes
        raise ValueError(f"{name}: {file} has no box for this image.")

    return of_image
