"""Starts that somebody has written down: boxes in a table, or landmarks that an image has already."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path, PurePath

import numpy as np

from pliant.arrays import Float64, Image
from pliant.data import formats, manifest
from pliant.data.addresses import Source, as_source, is_file, with_ending
from pliant.data.dataset import Sample
from pliant.data.formats import endings_beside_images
from pliant.data.landmark_files import annotation_in
from pliant.inputs import ImageSource


def known_landmarks(source: ImageSource, image: Image) -> Float64:
    """The landmarks `(n, 1, v, 2)` of a sample, or of the landmark files of n objects beside an image."""
    if isinstance(source, Sample):
        return source.points()[None, None]
    if not isinstance(source, (str, Path)):
        raise ValueError("an array has no landmarks to start from: give them as starts.")
    for ending in endings_beside_images():
        files = _beside(as_source(source), ending)
        if files:
            return np.array([[annotation_in(file, "", None).points] for file in files])
    raise ValueError(f"{source}: there is no landmark file beside this image to start from.")


def _beside(image: Source, ending: str) -> list[Source]:
    """The landmark files beside an image: `NAME.pts`, or of several objects `NAME.1.pts`, `NAME.2.pts`."""
    files = [
        file
        for file in (with_ending(image, ending), with_ending(image, f".1{ending}"))
        if is_file(file, listed=True)
    ]
    for number in count(2):
        file = with_ending(image, f".{number}{ending}")
        if not is_file(file, listed=True):
            return files
        files.append(file)
    raise AssertionError  # Numbers do not end.


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
