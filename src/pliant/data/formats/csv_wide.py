"""A table with one row an object: `image,x0,y0,x1,y1,...` or `image,nose_x,nose_y,...`.

It may have the columns `group` and `scale`, the length of a pixel.

An empty field, `nan` or `NA` is a missing landmark. Further columns are ignored. Fields may be separated by
semicolons or tabs. Landmarks that are numbered are put in the order of their numbers. Rows of `pliant fit` and
`evaluate` whose `status` is `failed` are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.formats.tps import pixel_length, unread_length
from pliant.data.landmark_names import shared_names
from pliant.data.tables import (
    coordinate_titles,
    first_rows,
    is_landmark_column,
    landmark_columns,
    landmarks_in,
    number_text,
    read_rows,
    write_rows,
)

NAME = "csv"
EXTENSIONS = (".csv",)
MANY = True

CONVENTION = Convention(
    reference="pliant's own, that of NumPy and OpenCV: the centre of the first pixel is (0, 0)"
)
VARIANTS: Mapping[str, Convention] = {
    "1-based": Convention(
        reference="tables made in MATLAB or R: the centre of the first pixel is (1, 1)",
        first_pixel=(1.0, 1.0),
    ),
    "bottom-left": Convention(
        reference="tables of plotting tools: y upwards, 0 at the lower edge of the image, as in TPS",
        first_pixel=(0.0, 1.0),
        y_up=True,
    ),
}

_IMAGE = ("image", "image_name", "image_path", "filename", "file_name", "file", "path", "name", "id")
"""What the column of the image may be called, in any case of letters; the first of them that is there counts."""


def recognises(path: Path, head: bytes) -> bool:
    """A header with an image and coordinates, where the image is a name and not a list of pixels."""
    rows = first_rows(head)
    if not rows or not any(map(is_landmark_column, rows[0])):
        return False
    column = image_column(rows[0])
    first = rows[1][column] if column is not None and len(rows) > 1 and column < len(rows[1]) else ""
    return column is not None and not _is_pixels(first)


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """An annotation a row."""
    rows = read_rows(path)
    header = next((row for _, row in rows), [])
    names, columns = landmark_columns(header, path)
    image = image_column(header)
    if image is None:
        raise ValueError(f"{path}, line 1: the table needs a column called image.")
    group, scale = column_of(header, "group"), column_of(header, "scale")
    status = header.index("status") if "status" in header else None
    annotations = []
    for line, row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"{path}, line {line}: there are {len(row)} fields but {len(header)} column titles."
            )
        if status is not None and row[status] == "failed":
            continue
        size = sizes(row[image]) if convention.needs_size else None
        points = convention.to_ours(landmarks_in(row, columns, path, line), size)
        of_group = row[group] if group is not None else ""
        length = row[scale] if scale is not None else ""
        annotations.append(
            Annotation(
                row[image],
                points,
                names,
                size=size,
                group=of_group,
                spacing=pixel_length(length),
                unread_scale=unread_length(length, f"the scale in line {line}"),
            )
        )
    if not annotations:
        raise ValueError(f"{path}: this table has no rows.")
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write a row an object; landmarks without names are numbered from 0."""
    names = shared_names(path, annotations)
    titles = coordinate_titles(len(names), annotations[0].names)
    grouped = any(annotation.group for annotation in annotations)
    scaled = any(annotation.spacing is not None for annotation in annotations)
    rows = [["image", *(["group"] if grouped else []), *(["scale"] if scaled else []), *titles]]
    for annotation in annotations:
        values = convention.to_theirs(annotation.points, annotation.size).ravel().tolist()
        about = [annotation.group] if grouped else []
        about += [length_text(annotation.spacing)] if scaled else []
        rows.append([annotation.image, *about, *map(number_text, values)])
    write_rows(path, rows)


def length_text(spacing: float | None) -> str:
    """The length of a pixel as a field has it, empty if it is unknown."""
    return "" if spacing is None else f"{spacing:.10g}"


def column_of(header: Sequence[str], title: str) -> int | None:
    """Where the column of this title is, in any case of letters."""
    titles = [other.lower() for other in header]
    return titles.index(title) if title in titles else None


def image_column(header: Sequence[str]) -> int | None:
    titles = [title.lower() for title in header]
    return next((titles.index(name) for name in _IMAGE if name in titles), None)


def _is_pixels(text: str) -> bool:
    return len(text.split()) > 8 and text.replace(" ", "").isdigit()
