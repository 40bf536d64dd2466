"""menpo `.ljson`: points as [y, x], null where one is missing.

{"version": 3, "groups": {"LJSON": {"labels": [{"label": "nose", "mask": [0]}],
                                    "landmarks": {"points": [[213.5, 108.2], [null, null]]}}}}

In version 2 the one group is the document itself; in version 1 each label has a list of points of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.documents import entry, numbers, read_json

NAME = "ljson"
EXTENSIONS = (".ljson",)
MANY = False

CONVENTION = Convention(
    reference="menpo, menpo/io/input/landmark.py: [y, x] as pixels are indexed, from 0 (its reader of .pts "
    "takes 1 off); centres at integers, as its images are sampled"
)
VARIANTS: Mapping[str, Convention] = {}


def recognises(path: Path, head: bytes) -> bool:
    """A JSON object that begins with one of the keys of LJSON, and has landmarks or the masks of labels."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    begins = re.match(r'\s*\{\s*"(version|groups|labels|landmarks)"\s*:', text) is not None
    return begins and re.search(r'"(landmarks|mask)"\s*:', text) is not None


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation for each group; names where every landmark has a label to itself."""
    document = read_json(path)
    version = entry(document, "version", int, str(path))
    if version == 1:
        groups: list[tuple[str, Any]] = [(str(path), _as_version_2(document, path))]
    elif version == 2:
        groups = [(str(path), document)]
    elif version == 3:
        named = entry(document, "groups", dict, str(path))
        groups = [(f"{path}, group {name}", group) for name, group in named.items()]
    else:
        raise ValueError(f"{path}: LJSON version {version} is not supported, only 1, 2 and 3.")
    annotations = []
    for where, group in groups:
        points = _points(entry(entry(group, "landmarks", dict, where), "points", list, where), where)
        annotations.append(Annotation("", convention.to_ours(points), _names(group, len(points), where)))
    if not annotations:
        raise ValueError(f"{path}: there are no landmarks in this file.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write version 3, with a label for each landmark that has a name."""
    groups = {}
    for index, annotation in enumerate(annotations):
        flipped = convention.to_theirs(annotation.points)[:, ::-1]
        points = [None if not np.isfinite(value) else round(value, 6) for value in flipped.ravel().tolist()]
        labels = [{"label": name, "mask": [number]} for number, name in enumerate(annotation.names)]
        groups["LJSON" if len(annotations) == 1 else f"LJSON{index}"] = {
            "labels": labels,
            "landmarks": {"points": list(zip(points[::2], points[1::2], strict=True))},
        }
    path.write_text(json.dumps({"version": 3, "groups": groups}) + "\n", encoding="utf-8")


def _as_version_2(document: Any, path: Path) -> dict[str, Any]:
    points: list[Any] = []
    labels = []
    for group in entry(document, "groups", list, str(path)):
        where = f"{path}, group {group.get('label') if isinstance(group, dict) else ''}"
        landmarks = entry(group, "landmarks", list, where)
        labels.append(
            {"label": group.get("label"), "mask": [*range(len(points), len(points) + len(landmarks))]}
        )
        points += [entry(landmark, "point", list, where) for landmark in landmarks]
    return {"landmarks": {"points": points}, "labels": labels}


def _points(rows: list[Any], where: str) -> Float64:
    points = numbers(rows, where, "the points are not all pairs of numbers")
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{where}: expected points [y, x], found an array of shape {points.shape}.")
    return points[:, ::-1]


def _names(group: Any, count: int, where: str) -> tuple[str, ...]:
    labels = entry(group, "labels", list, where) if group.get("labels") else []
    masks: dict[int, str] = {}
    for label in labels:
        mask = entry(label, "mask", list, where)
        if len(mask) == 1 and isinstance(mask[0], int):
            masks[mask[0]] = str(label.get("label"))
    complete = len(labels) == count and sorted(masks) == [*range(count)]
    return tuple(masks[index] for index in range(count)) if complete else ()
