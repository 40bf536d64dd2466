"""DeepLabCut's tables: labelled frames (`CollectedData_*.csv`) and the poses of an analysed video.

scorer,ann,ann,ann,ann
bodyparts,nose,nose,tail,tail
coords,x,y,x,y
labeled-data/mouse1/img001.png,12.5,40,88,41.25

The image may be spread over three columns, as newer versions have it, or be the number of a video's frame. With a
row `individuals`, each individual that has landmarks in a frame is an annotation. A frame without any landmark was
not labelled, and is left out. The likelihood of an estimated pose is ignored. The group is the folder of the video.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.landmark_names import shared_names, without_numbers
from pliant.data.tables import first_rows, landmarks_in, number_text, read_rows, write_rows

NAME = "deeplabcut"
EXTENSIONS = (".csv",)
MANY = True

CONVENTION = Convention(
    reference="napari, in which DeepLabCut's frames are labelled, has the centre of the first pixel at (0, 0) "
    "(napari issue 310); DeepLabCut's own scaling is half a pixel loose about it (issue 2906)"
)
VARIANTS: Mapping[str, Convention] = {}

_SCORER = "pliant"


def recognises(path: Path, head: bytes) -> bool:
    """Rows called scorer and bodyparts (or individuals) at the top."""
    rows = first_rows(head)
    return len(rows) > 1 and rows[0][0] == "scorer" and rows[1][0] in ("bodyparts", "individuals")


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each individual in each labelled frame."""
    rows = read_rows(path, delimiter=",")
    header: dict[str, list[str]] = {}
    for line, row in rows:
        header[row[0]] = row
        if row[0] == "coords":
            break
        if row[0] not in ("scorer", "individuals", "bodyparts"):
            raise ValueError(f"{path}, line {line}: expected scorer, individuals, bodyparts or coords.")
    if "bodyparts" not in header or "coords" not in header:
        raise ValueError(f"{path}: the header rows bodyparts and coords are missing.")
    width = len(header["coords"])
    if any(len(row) != width for row in header.values()):
        raise ValueError(f"{path}: the header rows differ in length.")
    index = next((i for i in range(1, width) if header["coords"][i]), width)
    columns = landmark_places(path, header, index)
    annotations = []
    for line, row in rows:
        if len(row) != width:
            raise ValueError(f"{path}, line {line}: there are {len(row)} fields but {width} column titles.")
        image = "/".join(row[:index])
        folder = image.replace("\\", "/").rpartition("/")[0].rpartition("/")[2]
        for parts in columns.values():
            points = landmarks_in(row, list(parts.values()), path, line)
            if not np.isnan(points).all():
                names = without_numbers(list(parts))
                group = path.stem if image.isdecimal() else folder
                annotations.append(Annotation(image, convention.to_ours(points), names, group=group))
    if not annotations:
        raise ValueError(f"{path}: this table has no labelled frames.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a row an image in the form for one individual, with the image in one column."""
    names = shared_names(path, annotations)
    seen: set[str] = set()
    rows = [
        ["scorer", *[_SCORER] * (2 * len(names))],
        ["bodyparts", *(name for name in names for _ in "xy")],
        ["coords", *"xy" * len(names)],
    ]
    for annotation in annotations:
        if annotation.image in seen:
            raise ValueError(
                f"{path}: {annotation.image} has several objects, but this table has one row per image: "
                "choose csv."
            )
        seen.add(annotation.image)
        values = convention.to_theirs(annotation.points).ravel().tolist()
        rows.append([annotation.image, *map(number_text, values)])
    write_rows(path, rows)


def landmark_places(
    path: Path, header: Mapping[str, list[str]], index: int
) -> dict[str, dict[str, tuple[int, int]]]:
    """Where x and y of every body part of every individual are."""
    individuals = header.get("individuals", [""] * len(header["coords"]))
    places = {
        (individuals[i], header["bodyparts"][i], axis): i
        for i, axis in enumerate(header["coords"])
        if i >= index
    }
    columns: dict[str, dict[str, tuple[int, int]]] = {}
    for individual, part, axis in places:
        if axis == "x":
            if (individual, part, "y") not in places:
                raise ValueError(f"{path}: the body part {part} has an x but no y.")
            pair = places[individual, part, "x"], places[individual, part, "y"]
            columns.setdefault(individual, {})[part] = pair
    if not columns:
        raise ValueError(f"{path}: there are no columns x and y under coords.")
    return columns
