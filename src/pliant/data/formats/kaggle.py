"""Kaggle's facial keypoints: columns `left_eye_center_x,left_eye_center_y,...` and `Image` with the pixels.

The pixels are grey values from 0 to 255, row by row, with spaces between them. The competition's images are
96 x 96; any square is read. Images have no names in the file: they are called `row 1`, `row 2`, ..., or by their
`ImageId` if it has such a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path

import numpy as np

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Image
from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.images import as_pixels
from pliant.data.landmark_names import shared_names
from pliant.data.tables import (
    first_rows,
    is_landmark_column,
    landmark_columns,
    landmarks_in,
    number_text,
    read_rows,
    write_rows,
)

NAME = "kaggle"
EXTENSIONS = (".csv",)
MANY = True

CONVENTION = Convention(
    reference="Kaggle's Facial Keypoints Detection, data page: real-valued (x, y) in the space of pixel indices, "
    "which are taken to begin at 0"
)
VARIANTS: Mapping[str, Convention] = {}


def recognises(path: Path, head: bytes) -> bool:
    """Coordinates in the header, and numbers in a column called Image."""
    rows = first_rows(head)
    if len(rows) < 2 or "Image" not in rows[0] or not any(map(is_landmark_column, rows[0])):
        return False
    column = rows[0].index("Image")
    return column < len(rows[1]) and re.fullmatch(r"\d+( +\d+){8,} *", rows[1][column]) is not None


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a row, with its image."""
    rows = read_rows(path)
    header = next((row for _, row in rows), [])
    names, columns = landmark_columns(header, path)
    if "Image" not in header:
        raise ValueError(f"{path}, line 1: there is no column Image with the pixels.")
    image, label = header.index("Image"), header.index("ImageId") if "ImageId" in header else None
    annotations: list[Annotation] = []
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"{path}, line {line}: there are {len(row)} fields but {len(header)} column titles."
            )
        pixels = _pixels(row[image], path, line)
        annotations.append(
            Annotation(
                row[label] if label is not None else f"row {len(annotations) + 1}",
                convention.to_ours(landmarks_in(row, columns, path, line)),
                names,
                size=(pixels.shape[1], pixels.shape[0]),
                pixels=lambda pixels=pixels: pixels,  # type: ignore[misc]
            )
        )
    if not annotations:
        raise ValueError(f"{path}: this table has no rows.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write rows with their pixels in grey; names of images are lost, as the format has no place for them."""
    names = shared_names(path, annotations)
    rows = [[*(f"{name}_{axis}" for name in names for axis in "xy"), "Image"]]
    for annotation in annotations:
        if annotation.pixels is None:
            raise ValueError(
                f"{path}: a kaggle table holds the images themselves, but the pixels of {annotation.image} "
                "are not available: choose csv, which holds image names."
            )
        grey = as_grey_bytes(as_pixels(annotation.pixels()))
        if grey.shape[0] != grey.shape[1]:
            raise ValueError(
                f"{path}: images in a kaggle table are square, but {annotation.image} has "
                f"{grey.shape[1]} x {grey.shape[0]} pixels: choose csv."
            )
        values = convention.to_theirs(annotation.points).ravel().tolist()
        rows.append([*map(number_text, values), " ".join(map(str, grey.ravel().tolist()))])
    write_rows(path, rows)


def _pixels(text: str, path: Path, line: int) -> Image:
    try:
        values = bytes(map(int, text.split()))
    except ValueError:
        raise ValueError(
            f"{path}, line {line}: the pixels of an image must be integers from 0 to 255."
        ) from None
    side = isqrt(len(values))
    if not values or side * side != len(values):
        raise ValueError(f"{path}, line {line}: {len(values)} pixels do not make a square image.")
    return np.frombuffer(values, dtype=np.uint8).reshape(side, side)
