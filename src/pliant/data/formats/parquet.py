"""Parquet: a row an object, with the columns image, and lists x and y; `pliant fit` writes such tables.

Names of landmarks are a list `names` in each row, or one for all rows in the metadata under `landmark_names`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pliant.data.annotation import Annotation, Convention, ImageSizes, known_score
from pliant.data.archives import parquet_metadata, parquet_rows, parquet_titles
from pliant.data.documents import numbers
from pliant.data.formats.tps import pixel_length
from pliant.data.landmark_names import shared_names
from pliant.limits import parsed_json

NAME = "parquet"
EXTENSIONS = (".parquet",)
MANY = True

CONVENTION = Convention(reference="pliant's own: as inside, centres counted from 0")
VARIANTS: Mapping[str, Convention] = {}

_COLUMNS = ("image", "x", "y", "width", "height", "names", "group", "scale", "confidence")
_NAMES = b"landmark_names"


def names_metadata(names: Sequence[str]) -> dict[bytes, bytes]:
    """What the metadata of a table says about the names of all its landmarks."""
    return {_NAMES: json.dumps(list(names)).encode()} if names else {}


def names_in(metadata: Mapping[bytes, bytes] | None) -> tuple[str, ...]:
    """The names that the metadata of a table has; none if it says nothing that makes sense."""
    try:
        names: Any = parsed_json((metadata or {}).get(_NAMES, b"[]"))
    except ValueError:
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def recognises(path: Path, head: bytes) -> bool:
    """Parquet's first four bytes; a table without these columns gets a sentence when it is read."""
    return head.startswith(b"PAR1")


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """The rows that have landmarks; those of images that could not be fitted are left out."""
    with open(path, "rb") as file:
        titles = parquet_titles(file, path)
        missing = [name for name in ("image", "x", "y") if name not in titles]
        if missing:
            raise ValueError(
                f"{path}: there is no column {missing[0]}; landmarks need the columns image, x and y."
            )
        shared = names_in(parquet_metadata(file, path))
        rows = list(parquet_rows(file, path, _COLUMNS))
    annotations = []
    for number, row in enumerate(rows, start=1):
        x, y = row["x"], row["y"]
        if x is None and y is None:
            continue
        if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
            raise ValueError(f"{path}, row {number}: x and y must be lists of numbers of the same length.")
        points = numbers([x, y], f"{path}, row {number}", "x and y must be lists of numbers")
        if points.ndim != 2:
            raise ValueError(f"{path}, row {number}: x and y must be lists of numbers.")
        size = (row["width"], row["height"]) if row.get("width") and row.get("height") else None
        if size is not None and not all(isinstance(side, int) for side in size):
            raise ValueError(f"{path}, row {number}: width and height must be whole numbers.")
        names = row.get("names") or (shared if len(shared) == len(x) else ())
        if not isinstance(names, (list, tuple)):
            raise ValueError(f"{path}, row {number}: names must be a list.")
        annotations.append(
            Annotation(
                str(row["image"]),
                convention.to_ours(points.T),
                tuple(map(str, names)),
                size=size,
                group=str(row.get("group") or ""),
                spacing=pixel_length(str(row.get("scale") or "")),
                score=known_score(row.get("confidence")),
            )
        )
    return annotations


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write image, x and y, and what else is known; a missing landmark is nan."""
    import pyarrow as pa
    from pyarrow import parquet

    shared_names(path, annotations)
    columns: dict[str, list[Any]] = {
        "image": [annotation.image for annotation in annotations],
        "x": [convention.to_theirs(annotation.points)[:, 0].tolist() for annotation in annotations],
        "y": [convention.to_theirs(annotation.points)[:, 1].tolist() for annotation in annotations],
        "width": [annotation.size and annotation.size[0] for annotation in annotations],
        "height": [annotation.size and annotation.size[1] for annotation in annotations],
        "names": [list(annotation.names) or None for annotation in annotations],
        "group": [annotation.group for annotation in annotations],
    }
    if any(annotation.spacing is not None for annotation in annotations):
        columns["scale"] = [annotation.spacing for annotation in annotations]
    if any(annotation.score is not None for annotation in annotations):
        columns["confidence"] = [known_score(annotation.score) for annotation in annotations]
    parquet.write_table(pa.table(columns), path)
