"""XML of CVAT 1.1, for images and for video: points, or a skeleton of named points.

<annotations>
  <image id="0" name="face.jpg" width="640" height="480">
    <points label="face" points="12.50,60.50;30.00,61.25"/>
    <skeleton label="face"><points label="nose" outside="0" points="12.50,60.50"/></skeleton>
  </image>
  <track id="0" label="face"><points frame="3" outside="0" points="12.50,60.50;30.00,61.25"/></track>
</annotations>

Several points in one element are the landmarks of one object, in their order. Elements of a single point, each with
a label of its own, are the named landmarks of one object, as those of a skeleton are; in an image with several such
objects CVAT's groups say which belong together. A box in the same group is the object's box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Convention, ImageSizes, Size
from pliant.data.documents import (
    attribute,
    image_size,
    number,
    read_xml,
    whole,
    whole_number,
    write_xml,
    xml_root,
)
from pliant.data.landmark_names import by_name, landmark_names, points_by_name, refuse_sparse, without_numbers

NAME = "cvat"
EXTENSIONS = (".xml",)
MANY = True

CONVENTION = Convention(
    reference="CVAT, XML annotation format 1.1: from 0 to the width and height of the image (its example reaches "
    "y = 1200.00 in an image of that height), so measured from the corner of the first pixel",
    first_pixel=(0.5, 0.5),
)
VARIANTS: Mapping[str, Convention] = {
    "0-based": Convention(reference="files made by programs that take CVAT's numbers for indices of pixels")
}

Where = Callable[[Element], str]
Named = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class _Object:
    """What is in one image: points in their order, or by name among the objects of the same kind."""

    image: str
    size: Size | None
    kind: str
    points: list[tuple[float, float]] | Named
    box: Float64 | None = None
    group: str = ""


def recognises(path: Path, head: bytes) -> bool:
    """XML whose root is annotations."""
    return xml_root(head) == "annotations"


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation for each object that has points; in a video all are of its group, the video."""
    root, where = read_xml(path)
    objects = [*_in_images(root, where), *_in_tracks(root, where, path)]
    kinds: dict[str, list[Named]] = {}
    for item in objects:
        if isinstance(item.points, dict):
            kinds.setdefault(item.kind, []).append(item.points)
    order = {
        kind: tuple(dict.fromkeys(name for named in some for name in named)) for kind, some in kinds.items()
    }
    for kind, some in kinds.items():
        refuse_sparse(path, some, order[kind])
    if "" in order:
        order[""] = by_name(order[""])
    annotations = []
    for item in objects:
        names = order[item.kind] if isinstance(item.points, dict) else ()
        points = (
            points_by_name(item.points, names) if isinstance(item.points, dict) else np.array(item.points)
        )
        if np.isfinite(points).any():
            ours = convention.to_ours(points)
            annotations.append(
                Annotation(item.image, ours, without_numbers(names), item.box, item.size, item.group)
            )
    if not annotations:
        raise ValueError(f"{path}: nothing in this file has points.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write CVAT for images; a skeleton where landmarks have names or one is missing, or else points."""
    root = Element("annotations")
    SubElement(root, "version").text = "1.1"
    images: dict[str, Element] = {}
    labels: dict[tuple[str, ...], str] = {}
    for group, annotation in enumerate(annotations, start=1):
        if not annotation.image:
            raise ValueError(f"{path}: CVAT's XML names its images, but these landmarks have no image.")
        if annotation.image not in images:
            element = SubElement(root, "image", id=str(len(images)), name=annotation.image)
            images[annotation.image] = element
            if annotation.size is not None:
                element.set("width", str(annotation.size[0]))
                element.set("height", str(annotation.size[1]))
        image = images[annotation.image]
        together = {"group_id": str(group)} if annotation.box is not None else {}
        points = convention.to_theirs(annotation.points)
        seen = np.asarray(np.isfinite(points).all(axis=1))
        if annotation.names or not seen.all() or len(points) == 1:
            names = landmark_names(annotation)
            label = labels.setdefault(names, f"object{len(labels) + 1 if labels else ''}")
            skeleton = SubElement(
                image, "skeleton", {"label": label, "source": "file", "z_order": "0"} | together
            )
            for name, point, here in zip(names, points, seen, strict=True):
                text = _text(point if here else np.zeros(2))
                outside = {"outside": str(int(not here)), "occluded": "0", "points": text}
                SubElement(skeleton, "points", {"label": name, "source": "file"} | outside)
        else:
            rest = {"points": ";".join(map(_text, points)), "z_order": "0"}
            SubElement(
                image, "points", {"label": "object", "source": "file", "occluded": "0"} | rest | together
            )
        if annotation.box is not None:
            sides = zip(("xtl", "ytl", "xbr", "ybr"), annotation.box + 0.5, strict=True)
            box = {"label": "box", "source": "file", "occluded": "0"} | {
                side: f"{at:.6f}" for side, at in sides
            }
            SubElement(image, "box", box | {"z_order": "0"} | together)
    write_xml(path, root)


def _in_images(root: Element, where: Where) -> Iterator[_Object]:
    for image in root.iter("image"):
        name, size = attribute(image, "name", where), image_size(image, where)
        boxes = {_group(box): _box(box, where) for box in image.iterfind("box") if _group(box)}
        single: dict[str, list[Element]] = {}
        for element in image:
            box = boxes.get(_group(element))
            if element.tag == "skeleton":
                yield _Object(name, size, f"skeleton {element.get('label')}", _named(element, where), box)
            elif element.tag == "points":
                points = _points(element, where)
                if len(points) > 1:
                    yield _Object(name, size, "points", points, box)
                else:
                    single.setdefault(_group(element), []).append(element)
        for group, elements in single.items():
            yield _Object(name, size, "", _named(elements, where), boxes.get(group))


def _in_tracks(root: Element, where: Where, path: Path) -> Iterator[_Object]:
    width, height = (
        whole_number(root.findtext(f".//original_size/{side}", "")) for side in ("width", "height")
    )
    size = (width, height) if width is not None and height is not None else None
    video = root.findtext("meta/*/source") or root.findtext("meta/*/name") or path.stem
    for track in root.iter("track"):
        kind = f"skeleton {track.get('label')}"
        for element in track:
            if element.tag not in ("points", "skeleton") or element.get("outside") == "1":
                continue
            # The names that CVAT gives to frames when it exports them.
            frame = f"frame_{whole(element, 'frame', where):06}.PNG"
            if element.tag == "skeleton":
                yield _Object(frame, size, kind, _named(element, where), group=video)
            else:
                yield _Object(frame, size, "points", _points(element, where), group=video)


def _named(elements: Iterable[Element], where: Where) -> Named:
    """The points by their labels, nan for one that is outside of the image or hidden."""
    found: Named = {}
    for element in elements:
        if element.tag != "points":
            continue
        name = attribute(element, "label", where)
        if name in found:
            raise ValueError(
                f"{where(element)}: one object has two points '{name}': group the points of each object, or "
                "use skeletons."
            )
        points = _points(element, where)
        if len(points) != 1:
            raise ValueError(f"{where(element)}: expected one point, found {len(points)}.")
        found[name] = (np.nan, np.nan) if element.get("outside") == "1" else points[0]
    return found


def _points(element: Element, where: Where) -> list[tuple[float, float]]:
    text = attribute(element, "points", where)
    points = []
    for pair in text.split(";"):
        try:
            x, y = (float(value) for value in pair.split(","))
        except ValueError:
            raise ValueError(f"{where(element)}: expected points x,y;x,y, found '{pair[:60]}'.") from None
        points.append((x, y))
    return points


def _box(element: Element, where: Where) -> Float64:
    return np.array([number(element, side, where) for side in ("xtl", "ytl", "xbr", "ybr")]) - 0.5


def _group(element: Element) -> str:
    return element.get("group_id", "")


def _text(point: Float64) -> str:
    return f"{point[0]:.6f},{point[1]:.6f}"
