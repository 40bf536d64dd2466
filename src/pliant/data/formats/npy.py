"""NumPy's `.npy`: an array `(v, 2)` of x and y beside its image; nan is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes, one_object
from pliant.data.archives import read_array

NAME = "npy"
EXTENSIONS = (".npy",)
MANY = False

CONVENTION = Convention(
    reference="pliant's own, that of NumPy's indices: the centre of the first pixel is (0, 0), x before y"
)
VARIANTS: Mapping[str, Convention] = {}


def recognises(path: Path, head: bytes) -> bool:
    """The first six bytes."""
    return head.startswith(b"\x93NUMPY")


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation; arrays of Python objects are never unpickled."""
    points = read_array(path.read_bytes(), path)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points) or points.dtype.kind not in "fiu":
        raise ValueError(f"{path}: expected numbers of shape (v, 2), found {points.dtype} {points.shape}.")
    return [Annotation("", convention.to_ours(points))]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write the landmarks of one annotation in float64."""
    points = convention.to_theirs(one_object(path, annotations).points)
    with open(path, "wb") as file:
        np.save(file, points, allow_pickle=False)
