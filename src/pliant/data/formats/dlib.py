"""dlib's XML, as imglab writes it: images, with boxes, with named parts.

<dataset><images>
  <image file='face.jpg' width='640' height='480'>
    <box top='30' left='10' width='100' height='120'>
      <part name='00' x='12' y='60'/>
...
A part that a box lacks is missing there. Parts are sorted by name, as dlib sorts them (and 2 before 10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Convention, ImageSizes, Size, box_around
from pliant.data.documents import attribute, image_size, number, read_xml, write_xml, xml_root
from pliant.data.landmark_names import by_name, names_seen, points_by_name, refuse_sparse, without_numbers

NAME = "dlib"
EXTENSIONS = (".xml",)
MANY = True

CONVENTION = Convention(
    reference="dlib, image_dataset_metadata.cpp: the index of a pixel, from 0; whole numbers, as dlib reads "
    "no others (string_cast<long>), so fractions are rounded in writing"
)
VARIANTS: Mapping[str, Convention] = {
    "fractions": Convention(
        reference="files of other tools (NaturalIntelligence/imglab, issue 56) that keep fractions of a pixel, "
        "which dlib itself refuses"
    )
}


def recognises(path: Path, head: bytes) -> bool:
    """XML whose root is a dataset."""
    return xml_root(head) == "dataset"


def read_boxes(path: Path) -> list[tuple[str, Float64]]:
    """The image and the edges `(4,)` of each box that is not to be ignored, with parts or without."""
    boxes, where = _boxes(path)
    return [(name, _edges(box, where)) for name, _, box in boxes]


def _edges(box: Element, where: Callable[[Element], str]) -> Float64:
    left, top, width, height = (number(box, side, where) for side in ("left", "top", "width", "height"))
    return np.array([left, top, left + width, top + height]) - 0.5


def _boxes(path: Path) -> tuple[list[tuple[str, Size | None, Element]], Callable[[Element], str]]:
    """Each box with the name and size of its image, and a function that says where an element is."""
    root, where = read_xml(path)
    with open(path, "rb") as file:
        latin = re.search(rb"encoding=.iso-8859-1", file.readline().lower()) is not None
    boxes: list[tuple[str, Size | None, Element]] = []
    for image in root.iter("image"):
        name, size = attribute(image, "file", where), image_size(image, where)
        if latin:
            name = _as_written(name)
        ignored = ("1", "true")
        boxes += [
            (name, size, box) for box in image.iterfind("box") if box.get("ignore", "").lower() not in ignored
        ]
    return boxes, where


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each box that has parts and is not to be ignored."""
    boxes, where = _boxes(path)
    parts: list[dict[str, tuple[float, float]]] = []
    for _, _, box in boxes:
        parts.append({})
        for part in box.iterfind("part"):
            name = attribute(part, "name", where)
            if name in parts[-1]:
                raise ValueError(f"{where(part)}: part '{name}' occurs twice in one box.")
            parts[-1][name] = number(part, "x", where), number(part, "y", where)
    names = by_name(name for found in parts for name in found)
    if not names:
        raise ValueError(f"{path}: no box in this file has parts.")
    refuse_sparse(path, parts, names)
    annotations = []
    for (image_name, size, box), found in zip(boxes, parts, strict=True):
        if found:
            annotations.append(
                Annotation(
                    image_name,
                    convention.to_ours(points_by_name(found, names)),
                    without_numbers(names),
                    _edges(box, where),
                    size,
                )
            )
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write the boxes of each image; an object without one gets the box around its landmarks, as dlib needs it."""
    names = names_seen(path, annotations, "dlib")
    exact = convention == VARIANTS["fractions"]
    root = Element("dataset")
    SubElement(root, "name").text = "landmarks"
    images, elements = SubElement(root, "images"), {}
    for annotation in annotations:
        if not annotation.image:
            raise ValueError(f"{path}: dlib's XML names its images, but these landmarks have no image.")
        if annotation.image not in elements:
            elements[annotation.image] = SubElement(images, "image", file=annotation.image)
            if annotation.size is not None:
                elements[annotation.image].set("width", str(annotation.size[0]))
                elements[annotation.image].set("height", str(annotation.size[1]))
        edges = box_around(annotation) + 0.5
        points = convention.to_theirs(annotation.points)
        if not exact:
            edges, points = np.floor(edges + 0.5), np.floor(points + 0.5)
        left, top, right, bottom = edges
        sides = {"top": top, "left": left, "width": right - left, "height": bottom - top}
        box = SubElement(
            elements[annotation.image], "box", {side: _text(value) for side, value in sides.items()}
        )
        for name, (x, y) in zip(names, points, strict=True):
            if np.isfinite(x) and np.isfinite(y):
                SubElement(box, "part", name=name, x=_text(x), y=_text(y))
    write_xml(path, root)


def _text(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _as_written(name: str) -> str:
    """A name in a file that declares ISO-8859-1: dlib always does, but copies the bytes of the file system."""
    try:
        return name.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name
