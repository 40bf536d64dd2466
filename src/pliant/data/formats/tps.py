"""TPS of tpsDig and other tools of morphometrics: specimens with y upwards from the lower edge of the image.

LM=3
110.5 340
...
IMAGE=wing 01.jpg
ID=0
SCALE=0.0045

A coordinate that is negative or NA is a missing landmark, as geomorph's readland.tps has it with negNA. Points
of CURVES are appended to the landmarks, as there with readcurves, and an annotation knows which they are.
Coordinates stay in pixels: SCALE, the length of one pixel, is kept beside them, and so are ID and COMMENT.
Outlines are ignored, and so are specimens with LM=0 and no curve, which nobody has digitised yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.documents import whole_number
from pliant.data.tables import about_commas, is_missing

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


@dataclass(frozen=True, eq=False)
class Specimen:
    """A specimen as the file has it: `points (v, 2)` with y upwards in pixels, those of curves last.

    `curves` has the number of points of each curve, and `line` is where the specimen begins. `unread_scale` is that
    of an annotation.
    """

    line: int
    points: Float64
    curves: tuple[int, ...] = ()
    image: str = ""
    identity: str = ""
    comment: str = ""
    spacing: float | None = None
    unread_scale: str = ""


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a specimen; the sizes of the images are needed, as y is counted from below."""
    specimens = read_specimens(path)
    annotations = []
    for one in specimens:
        try:
            # A single specimen without a name is that of the image beside the file.
            size = sizes(one.image) if one.image or len(specimens) == 1 else None
        except ValueError:
            if one.image:
                raise
            size = None
        if size is None:
            raise ValueError(
                f"{path}, line {one.line}: this specimen has no IMAGE=, but y needs the height of the image."
            )
        annotations.append(
            Annotation(
                one.image,
                convention.to_ours(one.points, size),
                size=size,
                spacing=one.spacing,
                curves=one.curves,
                identity=one.identity,
                comment=one.comment,
                unread_scale=one.unread_scale,
            )
        )
    return annotations


def read_specimens(path: Path) -> list[Specimen]:
    """The specimens of a file in its own coordinates, for which no image is needed."""
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    specimens: list[Specimen] = []
    at = start = 0
    points: list[tuple[float, float]] = []
    curves: list[int] = []
    known: dict[str, str] = {}
    scale_at = 0

    def finish() -> None:
        if points:
            image, identity, comment, scale = (
                known.get(key, "") for key in ("IMAGE", "ID", "COMMENT", "SCALE")
            )
            unread = unread_length(scale, f"SCALE in line {scale_at}")
            known_of = (tuple(curves), image, identity, comment, pixel_length(scale), unread)
            specimens.append(Specimen(start, np.array(points), *known_of))

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
            start, curves, known = at, [], {}
            points = _block(path, lines, at, value)
            at += _count(path, at, value)
        elif key in ("CURVES", "OUTLINES"):
            for _ in range(_count(path, at, value)):
                at, found = _curve(path, lines, at)
                if key == "CURVES":
                    points += found
                    curves.append(len(found))
        else:
            known[key] = value
            scale_at = at if key == "SCALE" else scale_at
    finish()
    if not specimens:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    return specimens


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
        theirs[missing] = -1
        lines += landmark_lines(theirs, annotation.curves)
        lines += [f"IMAGE={annotation.image}", f"ID={annotation.identity or number}"]
        lines += [f"COMMENT={annotation.comment}"] if annotation.comment else []
        lines += [] if annotation.spacing is None else [f"SCALE={annotation.spacing:.10g}"]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def landmark_lines(points: Floats, curves: Sequence[int] = ()) -> list[str]:
    """The lines of a specimen's landmarks and curves, with points `(v, 2)` in the coordinates of the file."""
    rows = [f"{x:.5f} {y:.5f}" for x, y in points]
    fixed = len(rows) - sum(curves)
    if fixed < 0:
        # Somebody has taken points away: nothing is known of curves any more.
        fixed, curves = len(rows), ()
    lines = [f"LM={fixed}", *rows[:fixed]]
    lines += [f"CURVES={len(curves)}"] if curves else []
    for count in curves:
        lines += [f"POINTS={count}", *rows[fixed : fixed + count]]
        fixed += count
    return lines


def pixel_length(value: str) -> float | None:
    """The length of a pixel, with a decimal point or comma; what is no length is none, and stops no landmarks."""
    try:
        length = float(value.strip().replace(",", ".") if value.count(",") == 1 else value)
    except ValueError:
        return None
    return length if 0 < length < np.inf else None


def unread_length(value: str, name: str) -> str:
    """What to say, up to the full stop, of a value that should be the length of a pixel and is none."""
    if is_missing(value) or pixel_length(value) is not None:
        return ""
    return f"{name} is '{value[:60]}', which is not a number above 0"


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
                f"{about_commas(text)}"
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
