"""A table with one row a landmark: `image,landmark,x,y`, and perhaps `object` and `group`.

`landmark` is a name or a number. `object` tells several objects in one image apart. A landmark that an object
lacks, or whose x or y is empty, is missing. Landmarks come in the order of their numbers, or of their first rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.formats import csv_wide
from pliant.data.landmark_names import by_name, refuse_sparse, without_numbers
from pliant.data.tables import first_rows, number, number_text, read_rows, write_rows

NAME = "csv-long"
EXTENSIONS = (".csv",)
MANY = True

CONVENTION = csv_wide.CONVENTION
VARIANTS: Mapping[str, Convention] = csv_wide.VARIANTS

_COLUMNS = ("image", "landmark", "x", "y")


def recognises(path: Path, head: bytes) -> bool:
    """A header with the four columns."""
    rows = first_rows(head)
    return bool(rows) and set(_COLUMNS) <= {title.lower() for title in rows[0]}


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation an object, in the order of their first rows."""
    rows = read_rows(path)
    header = next((row for _, row in rows), [])
    titles = [title.lower() for title in header]
    for title in _COLUMNS:
        if title not in titles:
            raise ValueError(
                f"{path}, line 1: there is no column {title}; the table needs {', '.join(_COLUMNS)}."
            )
    objects: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    groups: dict[tuple[str, str], str] = {}
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"{path}, line {line}: there are {len(row)} fields but {len(header)} column titles."
            )
        fields = dict(zip(titles, row, strict=True))
        key, landmark = (fields["image"], fields.get("object", "")), fields["landmark"]
        if landmark in objects.setdefault(key, {}):
            raise ValueError(
                f"{path}, line {line}: landmark {landmark} of {key[0]} occurs twice: if an image has several "
                "objects, number them in a column called object."
            )
        objects[key][landmark] = (number(fields["x"], path, line), number(fields["y"], path, line))
        groups.setdefault(key, fields.get("group", ""))
    if not objects:
        raise ValueError(f"{path}: this table has no rows.")
    names = list(dict.fromkeys(landmark for found in objects.values() for landmark in found))
    if all(name.isdecimal() for name in names):
        names = list(by_name(names))
    refuse_sparse(path, list(objects.values()), names)
    annotations = []
    for key, found in objects.items():
        points = np.array([found.get(name, (np.nan, np.nan)) for name in names])
        size = sizes(key[0]) if convention.needs_size else None
        ours = convention.to_ours(points, size)
        annotations.append(Annotation(key[0], ours, without_numbers(names), size=size, group=groups[key]))
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a row a landmark, with further columns only if there is something to say in them."""
    images = [annotation.image for annotation in annotations]
    several, grouped = len(set(images)) < len(images), any(annotation.group for annotation in annotations)
    rows = [["image", *(["object"] if several else []), *(["group"] if grouped else []), *_COLUMNS[1:]]]
    seen: Counter[str] = Counter()
    for annotation in annotations:
        label = [str(seen[annotation.image])] if several else []
        seen[annotation.image] += 1
        label += [annotation.group] if grouped else []
        names = annotation.names or [str(i) for i in range(len(annotation.points))]
        theirs = convention.to_theirs(annotation.points, annotation.size)
        for name, point in zip(names, theirs.tolist(), strict=True):
            rows.append([annotation.image, *label, name, *map(number_text, point)])
    if len(rows) == 1:
        raise ValueError(f"{path}: there are no landmarks to write.")
    write_rows(path, rows)
