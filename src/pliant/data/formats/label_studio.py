"""Label Studio's JSON: a list of tasks, each with an image and regions, in percent of its width and height.

[{"data": {"image": "face.jpg"}, "annotations": [{"result": [
   {"id": "a", "type": "keypointlabels", "original_width": 640, "original_height": 480,
    "value": {"x": 1.95, "y": 12.6, "width": 0.5, "keypointlabels": ["nose"]}}]}]}]

The labels are the landmarks' names; landmarks are sorted by them (2 before 10), and those that an object lacks are
missing. The keypoints of a task are one object, or one for each rectangle that they have as their parent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import UNKNOWN_SIZE, Annotation, Convention, ImageSizes, Size, box_around
from pliant.data.documents import entry, read_json
from pliant.data.landmark_names import by_name, names_seen, points_by_name, refuse_sparse, without_numbers

NAME = "label-studio"
EXTENSIONS = (".json",)
MANY = True

CONVENTION = Convention(
    reference="labelstud.io, KeyPointLabels: percent of the image's size; from its corner, as snap='pixel' puts a "
    "keypoint half a pixel into its pixel (snapPointToPixel)",
    first_pixel=(0.5, 0.5),
    unit="percent",
)
VARIANTS: Mapping[str, Convention] = {
    "0-based": Convention(
        reference="files made by programs that divide indices of pixels by the size", unit="percent"
    )
}

_RECTANGLES = ("rectanglelabels", "rectangle")


def recognises(path: Path, head: bytes) -> bool:
    """A JSON list of objects with keypoints, or with annotations of data."""
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    if not re.match(r"\s*\[\s*\{", text):
        return False
    return '"keypointlabels"' in text or re.search(r'"(annotations|completions)"\s*:\s*\[', text) is not None


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each object: of each task the ground truth, or else what was changed last."""
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise ValueError(f"{path}: expected a list of tasks, as in Label Studio's JSON export.")
    objects = []
    for index, task in enumerate(tasks):
        where = f"{path}, task {task.get('id', index) if isinstance(task, dict) else index}"
        results = _results(task, where)
        if results:
            image = _image(task, where, sizes)
            size = _size(results, where) or sizes(image)
            objects += [(image, size, named, box) for named, box in _objects(results, where)]
    names = by_name(name for _, _, named, _ in objects for name in named)
    if not objects:
        raise ValueError(f"{path}: no task in this file has keypoints with labels.")
    refuse_sparse(path, [named for _, _, named, _ in objects], names)
    annotations = []
    for image, size, named, box in objects:
        points = convention.to_ours(points_by_name(named, names), size)
        if box is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                box = (box.reshape(2, 2) * size / 100.0).ravel() - 0.5
        annotations.append(Annotation(image, points, without_numbers(names), box, size))
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a task for each image. Objects with boxes, and several in an image, have rectangles as parents."""
    names = names_seen(path, annotations, "Label Studio")
    tasks: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        if not annotation.image:
            raise ValueError(f"{path}: Label Studio's tasks name images, but these landmarks have no image.")
        tasks.setdefault(annotation.image, []).append(annotation)
    document = []
    for number, (image, objects) in enumerate(tasks.items(), start=1):
        regions: list[dict[str, Any]] = []
        for annotation in objects:
            boxed = annotation.box is not None or len(objects) > 1
            regions += _regions(annotation, names, convention, boxed, f"{number}-{len(regions)}")
        document.append({"id": number, "data": {"image": image}, "annotations": [{"result": regions}]})
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def _regions(
    annotation: Annotation, names: Sequence[str], convention: Convention, boxed: bool, identity: str
) -> Iterator[dict[str, Any]]:
    """An object's rectangle, if it has one, and its keypoints."""
    assert annotation.size is not None
    width, height = annotation.size
    base = {"to_name": "image", "original_width": width, "original_height": height, "image_rotation": 0}
    parent = {}
    if boxed:
        edges = (box_around(annotation) + 0.5).reshape(2, 2) * 100 / annotation.size
        (left, top), (right, bottom) = edges.tolist()
        sides = {"x": left, "y": top, "width": right - left, "height": bottom - top, "rotation": 0}
        value: dict[str, Any] = sides | {"rectanglelabels": ["object"]}
        yield base | {"id": identity, "type": "rectanglelabels", "from_name": "boxes", "value": value}
        parent = {"parentID": identity}
    points = convention.to_theirs(annotation.points, annotation.size).tolist()
    for name, (x, y) in zip(names, points, strict=True):
        if np.isfinite(x) and np.isfinite(y):
            value = {"x": round(x, 9), "y": round(y, 9), "width": 0.5, "keypointlabels": [name]}
            kind = {"id": f"{identity}-{name}", "type": "keypointlabels", "from_name": "landmarks"}
            yield base | kind | parent | {"value": value}


def _results(task: Any, where: str) -> list[Any]:
    """The regions of a task: none if nobody worked on it."""
    if isinstance(task, dict) and "annotations" not in task and "completions" not in task:
        raise ValueError(
            f"{where}: there are no 'annotations': export from Label Studio as JSON, not as JSON-MIN."
        )
    key = "annotations" if isinstance(task, dict) and "annotations" in task else "completions"
    done = [
        work
        for work in entry(task, key, list, where)
        if entry(work, "result", list, where) and not work.get("was_cancelled")
    ]
    if not done:
        return []
    best = max(done, key=lambda work: (bool(work.get("ground_truth")), str(work.get("updated_at", ""))))
    return entry(best, "result", list, where)


def _objects(
    results: list[Any], where: str
) -> Iterator[tuple[dict[str, tuple[float, float]], Float64 | None]]:
    """The keypoints of each object by label, and its box, in percent."""
    boxes: dict[str, Float64] = {}
    objects: dict[str, dict[str, tuple[float, float]]] = {}
    for region in results:
        kind = entry(region, "type", str, where)
        if kind not in ("keypointlabels", *_RECTANGLES):
            continue
        of_region = f"{where}, region {region.get('id')}"
        if region.get("image_rotation"):
            raise ValueError(
                f"{of_region}: the image was rotated in Label Studio: rotate the image file instead."
            )
        value = entry(region, "value", dict, of_region)
        x, y = entry(value, "x", float, of_region), entry(value, "y", float, of_region)
        if kind == "keypointlabels":
            labels = entry(value, "keypointlabels", list, of_region)
            if not labels:
                raise ValueError(f"{of_region}: this keypoint has no label.")
            found = objects.setdefault(str(region.get("parentID") or ""), {})
            if str(labels[0]) in found:
                raise ValueError(
                    f"{of_region}: one object has two keypoints '{labels[0]}': give the keypoints of each "
                    "object a rectangle as their parent."
                )
            found[str(labels[0])] = x, y
        elif not value.get("rotation"):
            width, height = entry(value, "width", float, of_region), entry(value, "height", float, of_region)
            boxes[str(region.get("id"))] = np.array([x, y, x + width, y + height])
    for parent, found in objects.items():
        alone = len(boxes) == len(objects) == 1
        yield found, next(iter(boxes.values())) if alone else boxes.get(parent)


def _size(results: list[Any], where: str) -> Size | None:
    for region in results:
        if isinstance(region, dict) and "original_width" in region:
            sides = [entry(region, f"original_{side}", float, where) for side in ("width", "height")]
            if not all(0 < side < np.inf for side in sides):
                raise ValueError(f"{where}: an image cannot be {sides[0]:g} x {sides[1]:g} pixels.")
            return int(sides[0]), int(sides[1])
    return None


def _image(task: Any, where: str, sizes: ImageSizes) -> str:
    """The name of a task's image, without what Label Studio puts around it when it stores or serves one."""
    data = entry(task, "data", dict, where)
    texts = [
        value for value in (data.get("image"), data.get("img"), *data.values()) if isinstance(value, str)
    ]
    if not texts:
        raise ValueError(f"{where}: the data does not name an image.")
    name = texts[0]
    try:
        address = urlsplit(name)
    except ValueError:  # It begins like an address and is none.
        return name
    if "d" in parse_qs(address.query):
        return parse_qs(address.query)["d"][0]
    if not (address.scheme and address.netloc) and not name.startswith("/data/"):
        return name
    name = unquote(address.path).rsplit("/", 1)[-1]
    original = re.sub(r"^[0-9a-f]{8}-", "", name)
    for candidate in (name, original):
        with suppress(ValueError, OSError):
            if sizes(candidate) != UNKNOWN_SIZE:
                return candidate
    return name
