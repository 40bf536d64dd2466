"""Point lists of 3D Slicer: `.fcsv`, beside the image that the points were set in.

# Markups fiducial file version = 5.2
# CoordinateSystem = LPS
# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID
1,12.5,40,0,0,0,0,1,1,1,0,nose,,,2,0

Positions are millimetres of a volume, and what a millimetre is in pixels is not in the file: one is taken for one.
That is right for a picture that Slicer loaded with its own spacing of 1 and origin of 0, as it does with PNG; it is
wrong if the picture names its resolution, as many JPEG files do (25.4 / dpi is the spacing then), or was centred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation, Convention, ImageSizes, one_object
from pliant.data.landmark_names import without_numbers
from pliant.data.tables import number, number_text, read_rows, write_rows

NAME = "fcsv"
EXTENSIONS = (".fcsv",)
MANY = False

CONVENTION = Convention(
    reference="Slicer and ITK have the origin in the centre of the first voxel; x and y of LPS run right and down "
    "the picture, those of RAS have the opposite sign (slicer.readthedocs.io, Markups and Coordinate systems)"
)
VARIANTS: Mapping[str, Convention] = {}

_SIGNS = {"RAS": -1.0, "0": -1.0, "LPS": 1.0, "1": 1.0, "IJK": 1.0, "2": 1.0}
"""What turns a position right and down, by the name of the coordinate system, which was a number until 4.10."""

_LABEL, _STATUS = 11, 14
_DEFINED, _MISSING = 2, 3
"""Two values of Slicer's position status; 0 is undefined and 1 a preview."""


def recognises(path: Path, head: bytes) -> bool:
    """The first line is that of Slicer's markups."""
    return head.removeprefix(b"\xef\xbb\xbf").startswith(b"# Markups fiducial file")


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation; points that are undefined or missing are nan."""
    system = ""
    positions: list[list[float]] = []
    labels = []
    for line, row in read_rows(path, delimiter=","):
        if row[0].startswith("#"):
            key, _, value = row[0].lstrip("# ").partition("=")
            system = value.strip().upper() if key.strip() == "CoordinateSystem" else system
            continue
        if len(row) < 4:
            raise ValueError(
                f"{path}, line {line}: expected an id, x, y and z, found '{','.join(row)[:60]}'."
            )
        defined = len(row) <= _STATUS or number(row[_STATUS], path, line) == _DEFINED
        positions.append([number(field, path, line) if defined else np.nan for field in row[1:4]])
        labels.append(row[_LABEL] if len(row) > _LABEL else "")
    if not positions:
        raise ValueError(f"{path}: there are no points in this file.")
    if system not in _SIGNS:
        raise ValueError(
            f"{path}: the line '# CoordinateSystem = LPS' or RAS is missing, or it is '{system}'."
        )
    points = np.array(positions)
    depth = points[~np.isnan(points).any(axis=1), 2]
    if len(depth) and np.ptp(depth) > 1:
        raise ValueError(
            f"{path}: the points are in several slices (z from {depth.min():g} to {depth.max():g}), but "
            "pliant reads points of one picture."
        )
    points[np.isnan(points).any(axis=1)] = np.nan
    ours = convention.to_ours(points[:, :2] * _SIGNS[system])
    return [Annotation("", ours, without_numbers(labels) if all(labels) else ())]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write one annotation in LPS, as Slicer does since 4.11."""
    annotation = one_object(path, annotations)
    names = annotation.names or [str(i) for i in range(len(annotation.points))]
    rows = []
    for i, (x, y) in enumerate(convention.to_theirs(annotation.points).tolist()):
        missing = np.isnan(x) or np.isnan(y)
        place = ["0", "0", "0"] if missing else [number_text(x), number_text(y), "0"]
        shown, status = ("0", _MISSING) if missing else ("1", _DEFINED)
        rows.append(
            [str(i + 1), *place, "0", "0", "0", "1", shown, shown, "0", names[i], "", "", str(status), "0"]
        )
    head = (
        "# Markups fiducial file version = 5.2\n# CoordinateSystem = LPS\n"
        "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
    )
    write_rows(path, rows, head)
