"""COCO keypoints: one JSON for many images, three numbers a landmark: x, y and v.

v is 0 if the landmark is missing, 1 if it is hidden, and 2 if it can be seen. As in COCO's results, an
object may have a score: the confidence of a fit.

{"images": [{"id": 1, "file_name": "face.jpg", "width": 640, "height": 480}],
 "categories": [{"id": 1, "name": "face", "keypoints": ["nose", "chin"]}],
 "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "keypoints": [12, 60, 2, 0, 0, 0],
                  "num_keypoints": 1, "bbox": [10, 30, 100, 120], "iscrowd": 0}]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Convention, ImageSizes, box_around, known_score
from pliant.data.documents import entry, numbers, read_json
from pliant.data.landmark_names import landmark_names, without_numbers

NAME = "coco"
EXTENSIONS = (".json",)
MANY = True

CONVENTION = Convention(
    reference="cocodataset.org, Data format: keypoints are 0-indexed locations of pixels, while boxes are measured "
    "from the corner of the image (so reads detectron2, data/datasets/coco.py)"
)
VARIANTS: Mapping[str, Convention] = {
    "corner": Convention(
        reference="exports of tools that measure from the corner of the image and do not convert",
        first_pixel=(0.5, 0.5),
    )
}

_LISTS = r'"(images|annotations|categories|licenses)"\s*:\s*\['


def recognises(path: Path, head: bytes) -> bool:
    """A JSON object that begins with one of the keys of COCO, and has a list of images or of what is in them."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    begins = re.match(r'\s*\{\s*"(info|images|annotations|categories|licenses|type)"\s*:', text) is not None
    return begins and re.search(_LISTS, text) is not None


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each object with keypoints that is not a crowd."""
    document = read_json(path)
    images = {
        _identity(image, "id", f"{path}, images"): image
        for image in entry(document, "images", list, str(path))
    }
    names_of = {
        _identity(category, "id", f"{path}, categories"): [
            str(name)
            for name in (
                entry(category, "keypoints", list, f"{path}, categories") if category.get("keypoints") else ()
            )
        ]
        for category in (entry(document, "categories", list, str(path)) if "categories" in document else ())
    }
    annotations = []
    for where, identity, record in _records(path, document, images, "keypoints"):
        points = _points(entry(record, "keypoints", list, where), where)
        if not np.isfinite(points).any():
            continue
        names = names_of.get(_identity(record, "category_id", where), []) if "category_id" in record else []
        if names and len(names) != len(points):
            raise ValueError(
                f"{where}: there are {len(points)} keypoints, but its category has {len(names)} names."
            )
        image = images[identity]
        of_image = f"{path}, image {identity}"
        size = None
        if image.get("width") and image.get("height"):
            size = (entry(image, "width", int, of_image), entry(image, "height", int, of_image))
        annotations.append(
            Annotation(
                entry(image, "file_name", str, of_image),
                convention.to_ours(points),
                without_numbers(names),
                _box(record["bbox"], where) if record.get("bbox") else None,
                size,
                hidden=np.asarray(record["keypoints"][2::3], dtype=np.float64) == 1,
                score=known_score(record.get("score")),
            )
        )
    if not annotations:
        raise ValueError(f"{path}: no object in this file has keypoints.")
    return annotations


def _records(
    path: Path, document: Any, images: Mapping[Any, Any], needed: str
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The records of objects that are no crowds and have what is needed: where each is, its image's id, itself."""
    for index, record in enumerate(entry(document, "annotations", list, str(path))):
        where = f"{path}, annotation {record.get('id', index) if isinstance(record, dict) else index}"
        identity = _identity(record, "image_id", where)
        if record.get("iscrowd") or not record.get(needed):
            continue
        if identity not in images:
            raise ValueError(f"{where}: there is no image with the id {identity}.")
        yield where, identity, record


def read_boxes(path: Path) -> list[tuple[str, Float64]]:
    """The image and the edges `(4,)` of each object that is not a crowd, with keypoints or without."""
    document = read_json(path)
    images = {
        _identity(image, "id", f"{path}, images"): image
        for image in entry(document, "images", list, str(path))
    }
    boxes = []
    for where, identity, record in _records(path, document, images, "bbox"):
        name = entry(images[identity], "file_name", str, f"{path}, image {identity}")
        boxes.append((name, _box(record["bbox"], where)))
    return boxes


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write objects, with a category for each set of landmarks; one without a box gets that of its landmarks."""
    images: dict[str, dict[str, Any]] = {}
    categories: dict[tuple[str, ...], int] = {}
    records = []
    for number, annotation in enumerate(annotations, start=1):
        if not annotation.image:
            raise ValueError(f"{path}: COCO names its images, but these landmarks have no image.")
        image = images.setdefault(annotation.image, {"id": len(images) + 1, "file_name": annotation.image})
        if annotation.size is not None:
            image["width"], image["height"] = annotation.size
        seen = np.asarray(np.isfinite(annotation.points).all(axis=1))
        keypoints = np.zeros((len(seen), 3))
        hidden = np.zeros(len(seen), dtype=bool) if annotation.hidden is None else annotation.hidden
        keypoints[seen] = np.column_stack(
            [convention.to_theirs(annotation.points[seen]), np.where(hidden, 1, 2)[seen]]
        )
        left, top, right, bottom = box_around(annotation) + 0.5
        score = known_score(annotation.score)
        records.append(
            {
                "id": number,
                "image_id": image["id"],
                "category_id": categories.setdefault(landmark_names(annotation), len(categories) + 1),
                "keypoints": [_short(value) for value in keypoints.ravel()],
                "num_keypoints": int(seen.sum()),
                "bbox": [_short(value) for value in (left, top, right - left, bottom - top)],
                "area": _short((right - left) * (bottom - top)),
                "iscrowd": 0,
                **({} if score is None else {"score": _short(score)}),
            }
        )
    document = {
        "images": list(images.values()),
        "categories": [
            {
                "id": number,
                "name": f"object{number if number > 1 else ''}",
                "keypoints": names,
                "skeleton": [],
            }
            for names, number in categories.items()
        ],
        "annotations": records,
    }
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def _identity(record: object, key: str, where: str) -> int | str:
    """An id: a number in COCO itself, a text in the files of some tools."""
    if isinstance(record, dict) and isinstance(record.get(key), str):
        return entry(record, key, str, where)
    return entry(record, key, int, where)


def _points(values: list[Any], where: str) -> Float64:
    sentence = "the keypoints are not all x, y, v"
    flat = numbers(values, where, sentence)
    if flat.ndim != 1 or len(flat) % 3:
        raise ValueError(f"{where}: {sentence}.")
    triples = flat.reshape(-1, 3)
    points = triples[:, :2].copy()
    points[~(triples[:, 2] > 0)] = np.nan
    return points


def _box(values: Any, where: str) -> Float64:
    sentence = "the bbox is not x, y, width, height"
    edges = numbers(values, where, sentence)
    if edges.shape != (4,):
        raise ValueError(f"{where}: {sentence}.")
    with np.errstate(over="ignore", invalid="ignore"):
        edges[2:] += edges[:2]
    return edges - 0.5


def _short(value: float) -> float | int:
    """A number to a millionth of a pixel, and whole if it is."""
    short = round(float(value), 6)
    return int(short) if short.is_integer() else short
