"""TPS of tpsDig and other tools of morphometrics: specimens with y upwards from the lower edge of the image.

LM=3
110.5 340
...
IMAGE=wing 01.jpg
ID=0
SCALE=0.0045

A coordinate that is negative or NA is a missing landmark, as geomorph's readland.tps has it with negNA. Points of
CURVES are appended to the landmarks, as there with readcurves. Coordinates stay in pixels: SCALE, the length of one
pixel, is kept beside them. Outlines, comments and IDs are ignored, and so are specimens with LM=0, which nobody has
digitised yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.documents import whole_number

NAME = "tps"
EXTENSIONS = (".tps",)
MANY = True

CONVENTION = Convention(
    reference="tpsDig counts from the lower left and leaves open where in the pixel; StereoMorph (TPSToShapes) "
    "and ml-morph turn its y into height - y from the top",
    first_pixel=(0.0, 1.0),
    y_up=True,
    negative_is_missing=True,
)
VARIANTS: Mapping[str, Convention] = {
    "height-1": Convention(
        reference="tools that flip pixel indices: y is height - 1 - y from the top, the lowest row being 0",
        y_up=True,
        negative_is_missing=True,
    )
}

_KEY = re.compile(r"([A-Za-z]\w*)\s*=\s*(.*)")


def recognises(path: Path, head: bytes) -> bool:
    """The first line that is not empty is `LM=` and a number."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    return re.match(r"\s*LM3?\s*=\s*\d+\s*[\r\n]", text, re.IGNORECASE) is not None


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a specimen; the sizes of the images are needed, as y is counted from below."""
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    annotations: list[Annotation] = []
    at, start, image = 0, 0, ""
    spacing: float | None = None
    points: list[tuple[float, float]] = []

    def finish() -> None:
        if not points:
            return
        try:
            # A single specimen without a name is that of the image beside the file.
            size = sizes(image) if image or (not annotations and at >= len(lines)) else None
        except ValueError:
            if image:
                raise
            size = None
        if size is None:
            raise ValueError(
                f"{path}, line {start}: this specimen has no IMAGE=, but y needs the height of the image."
            )
        ours = convention.to_ours(np.array(points), size)
        annotations.append(Annotation(image, ours, size=size, spacing=spacing))

    while at < len(lines):
        text = lines[at].strip()
        at += 1
        if not text:
            continue
        match = _KEY.fullmatch(text)
        if not match:
            raise ValueError(f"{path}, line {at}: expected LM=, IMAGE= or another key, found '{text[:60]}'.")
        key, value = match[1].upper(), match[2].strip()
        if key == "LM3":
            raise ValueError(
                f"{path}, line {at}: LM3= has landmarks in 3D, but pliant reads landmarks of images."
            )
        if key == "LM":
            finish()
            start, image, spacing = at, "", None
            points = _block(path, lines, at, value)
            at += _count(path, at, value)
        elif key in ("CURVES", "OUTLINES"):
            for _ in range(_count(path, at, value)):
                at, found = _curve(path, lines, at)
                if key == "CURVES":
                    points += found
        elif key == "IMAGE":
            image = value
        elif key == "SCALE":
            spacing = _scale(value)
    finish()
    if not annotations:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write specimens as tpsDig does, with -1 -1 for a missing landmark."""
    lines = []
    for number, annotation in enumerate(annotations):
        theirs = convention.to_theirs(annotation.points, annotation.size)
        missing = np.isnan(annotation.points).any(axis=1)
        outside = np.flatnonzero(~missing & convention.unspeakable(annotation.points, annotation.size))
        if len(outside):
            raise ValueError(
                f"{path}: landmark {outside[0]} of {annotation.image} is left of or below the image, and a "
                "negative coordinate in TPS marks a missing landmark: choose csv."
            )
        lines.append(f"LM={len(theirs)}")
        theirs[missing] = -1
        lines += [f"{x:.5f} {y:.5f}" for x, y in theirs]
        lines += [f"IMAGE={annotation.image}", f"ID={number}"]
        lines += [] if annotation.spacing is None else [f"SCALE={annotation.spacing:.10g}"]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _scale(value: str) -> float | None:
    """The length of a pixel; what is no length says nothing about the landmarks, and does not stop them."""
    try:
        length = float(value)
    except ValueError:
        return None
    return length if 0 < length < np.inf else None


def _count(path: Path, line: int, value: str) -> int:
    count = whole_number(value)
    if count is None:
        raise ValueError(f"{path}, line {line}: '{value[:60]}' is not a count.")
    return count


def _block(path: Path, lines: Sequence[str], at: int, value: str) -> list[tuple[float, float]]:
    """The points that are announced before line `at`, counted from 0."""
    count = _count(path, at, value)
    points = []
    for number in range(at, at + count):
        text = lines[number].strip() if number < len(lines) else "the end of the file"
        try:
            x, y = (np.nan if field.upper() == "NA" else float(field) for field in text.split())
        except ValueError:
            raise ValueError(
                f"{path}, line {number + 1}: expected point {number - at + 1} of {count}, found '{text[:60]}'."
            ) from None
        points.append((x, y) if x >= 0 and y >= 0 else (np.nan, np.nan))
    return points


def _curve(path: Path, lines: Sequence[str], at: int) -> tuple[int, list[tuple[float, float]]]:
    """Where a curve ends, and its points."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    match = _KEY.fullmatch(lines[at].strip()) if at < len(lines) else None
    if not match or match[1].upper() != "POINTS":
        raise ValueError(f"{path}, line {at + 1}: expected POINTS= for a curve.")
    points = _block(path, lines, at + 1, match[2].strip())
    return at + 1 + len(points), points
