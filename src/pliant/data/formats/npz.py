"""NumPy's `.npz`: `points (k, v, 2)` of x and y and `images (k,)`, which names them.

There may be `names (v,)`, `groups (k,)` and `boxes (k, 4)`. nan is missing. Boxes are left, top, right, bottom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.archives import read_array, read_members
from pliant.data.formats import npy
from pliant.data.landmark_names import shared_names

NAME = "npz"
EXTENSIONS = (".npz",)
MANY = True

CONVENTION = npy.CONVENTION
VARIANTS: Mapping[str, Convention] = {}

_ARRAYS = ("points", "images", "names", "groups", "boxes")
"""Others are left alone, and not even unpacked."""


def recognises(path: Path, head: bytes) -> bool:
    """A zip file whose first member is an array."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    return head.startswith(b"PK\x03\x04") and name.endswith(b".npy")


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a row; arrays of Python objects are never unpickled."""
    members = read_members(path, lambda name: name.removesuffix(".npy") in _ARRAYS)
    arrays = {
        name.removesuffix(".npy"): read_array(content, f"{path}, {name.removesuffix('.npy')}")
        for name, content in members
    }
    if "points" not in arrays or "images" not in arrays:
        raise ValueError(
            f"{path}: expected the arrays points (k, v, 2) and images (k,), found {', '.join(arrays) or 'none'}."
        )
    points, images = arrays["points"], arrays["images"]
    if points.ndim != 3 or points.shape[2] != 2 or 0 in points.shape or points.dtype.kind not in "fiu":
        raise ValueError(
            f"{path}: points must be numbers of shape (k, v, 2), not {points.dtype} {points.shape}."
        )
    count, landmarks = points.shape[:2]
    shapes = {"images": (count,), "names": (landmarks,), "groups": (count,), "boxes": (count, 4)}
    for key, shape in shapes.items():
        kinds = "fiu" if key == "boxes" else "U"
        if key in arrays and (arrays[key].shape != shape or arrays[key].dtype.kind not in kinds):
            kind = "numbers" if key == "boxes" else "text"
            raise ValueError(
                f"{path}: {key} must be {kind} {shape}, not {arrays[key].dtype} {arrays[key].shape}."
            )
    names = tuple(str(name) for name in arrays.get("names", ()))
    groups = arrays.get("groups", np.full(count, ""))
    boxes = arrays.get("boxes", np.full((count, 4), np.nan))
    return [
        Annotation(
            str(images[i]),
            convention.to_ours(points[i]),
            names,
            box=None if np.isnan(boxes[i]).any() else convention.to_ours(boxes[i].reshape(2, 2)).ravel(),
            group=str(groups[i]),
        )
        for i in range(count)
    ]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write annotations that have the same landmarks."""
    shared_names(path, annotations)
    arrays: dict[str, NDArray[Any]] = {
        "points": np.stack([convention.to_theirs(annotation.points) for annotation in annotations]),
        "images": np.array([annotation.image for annotation in annotations], dtype=str),
    }
    if annotations[0].names:
        arrays["names"] = np.array(annotations[0].names, dtype=str)
    if any(annotation.group for annotation in annotations):
        arrays["groups"] = np.array([annotation.group for annotation in annotations], dtype=str)
    if any(annotation.box is not None for annotation in annotations):
        boxes = [
            np.full(4, np.nan) if annotation.box is None else annotation.box for annotation in annotations
        ]
        arrays["boxes"] = np.stack([convention.to_theirs(box.reshape(2, 2)).ravel() for box in boxes])
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
