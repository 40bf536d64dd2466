"""Lists as WFLW has them: a line of numbers and a name for each face.

x0 y0 ... x97 y97 x_min y_min x_max y_max pose expression illumination make-up occlusion blur image name

Box and attributes are left out in WFLW's `list_98pt_train.txt` and in lists made after 300-W. They are taken to be
there if the last six numbers are 0 or 1 and a box is before them; so any number of points can be read. Attributes
are not kept: they are written as 0 behind the boxes, if every annotation has one, and left out with them otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data import images
from pliant.data.annotation import Annotation, Convention, ImageSizes, all_there

NAME = "wflw"
EXTENSIONS = (".txt",)
MANY = True

CONVENTION = Convention(
    reference="WFLW (Wu et al. 2018): its README names the fields and does not say what 0 is; taken to be the "
    "centre of the first pixel, as HRNet's reader takes it"
)
VARIANTS: Mapping[str, Convention] = {}

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LINE = re.compile(rf"((?:{_NUMBER}[ \t]+){{6,}}+)(.+)")
"""A line without white space at its ends. Numbers are possessive: none of them is tried as a part of the name."""


def recognises(path: Path, head: bytes) -> bool:
    """The first line is six numbers or more and the name of an image."""
    line = head.decode("utf-8", errors="replace").lstrip("\ufeff").lstrip().split("\n", 1)[0].strip()
    return bool(_LINE.fullmatch(line)) and line.lower().endswith(images.EXTENSIONS)


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a line."""
    annotations: list[Annotation] = []
    first: tuple[int, bool] | None = None
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    for line, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        match = _LINE.fullmatch(text.strip())
        if not match:
            raise ValueError(
                f"{path}, line {line}: expected numbers and an image, found '{text.strip()[:60]}'."
            )
        values = np.array(match[1].split(), dtype=np.float64)
        first = first or (len(values), has_box(values))
        if len(values) != first[0]:
            raise ValueError(
                f"{path}, line {line}: there are {len(values)} numbers, but {first[0]} on earlier lines."
            )
        if len(values) % 2:
            raise ValueError(f"{path}, line {line}: {len(values)} numbers do not form pairs of x and y.")
        if first[1] and not has_box(values):
            raise ValueError(
                f"{path}, line {line}: the box and the six attributes are missing, but earlier lines have "
                "them."
            )
        points = values[:-10] if first[1] else values
        box = convention.to_ours(values[-10:-6].reshape(2, 2)).ravel() if first[1] else None
        annotations.append(Annotation(match[2], convention.to_ours(points.reshape(-1, 2)), box=box))
    if not annotations:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a line an object, with its box if all have one."""
    boxed = all(annotation.box is not None for annotation in annotations)
    lines = []
    for annotation in annotations:
        points = all_there(path, annotation, "a WFLW list")
        if len(points) < 3 or len(points) != len(annotations[0].points):
            raise ValueError(
                f"{path}: a WFLW list has at least three landmarks, and the same number on every line, but "
                f"{annotation.image} has {len(points)}."
            )
        fields = [f"{value:.6f}" for value in convention.to_theirs(points).ravel()]
        if boxed and annotation.box is not None:
            fields += [f"{value:.6f}" for value in convention.to_theirs(annotation.box.reshape(2, 2)).ravel()]
            fields += ["0"] * 6
        line = " ".join([*fields, annotation.image])
        match = _LINE.fullmatch(line)
        if not match or match[2] != annotation.image:
            raise ValueError(
                f"{path}: the image name '{annotation.image}' looks like a number in this format: rename it."
            )
        if not boxed and has_box(np.array(fields, dtype=np.float64)):
            raise ValueError(
                f"{path}: the last landmarks of {annotation.image} look like attributes in this format: "
                "choose csv."
            )
        lines.append(line)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def has_box(values: Float64) -> bool:
    """Whether a box and six attributes end the line."""
    if len(values) < 12 or not np.isin(values[-6:], (0, 1)).all():
        return False
    left, top, right, bottom = values[-10:-6]
    return bool(left < right and top < bottom)
