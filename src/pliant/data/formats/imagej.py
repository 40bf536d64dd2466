"""Points of ImageJ, read and written by roifile (`pip install 'pliant[imagej]'`).

A `.roi` of the point or multi-point tool lies beside its image. A `.zip` of the ROI Manager is read too,
where a user names it: its ROIs together are the landmarks of one image, in their order. ROIs of one point each name
their landmarks, unless ImageJ made up the name from the position.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Convention, ImageSizes, all_there, one_object
from pliant.data.archives import read_members

NAME = "imagej"
EXTENSIONS = (".roi",)
MANY = False

CONVENTION = Convention(
    reference="ImageJ's ij/gui/Roi.java: integer coordinates of points and lines are centres of pixels (of areas, "
    "their upper left corners); until 1.52t this depended on a preference"
)
VARIANTS: Mapping[str, Convention] = {}

_MADE_UP = re.compile(r"\d+-\d+(-\d+)?")


def recognises(path: Path, head: bytes) -> bool:
    """The first four bytes of a ROI, or a zip file whose first member is one."""
    return head.startswith(b"Iout") or (_is_zip(head) and _first_member(head).endswith(b".roi"))


def read(path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]:
    """One annotation."""
    roifile = _library(path)
    with open(path, "rb") as file:
        zipped = _is_zip(file.read(4))
    members = (
        read_members(path, lambda name: name.endswith(".roi")) if zipped else [(path.name, path.read_bytes())]
    )
    try:
        rois = [(name, roifile.ImagejRoi.frombytes(member)) for name, member in members]
    except Exception as error:  # roifile stumbles over damage in many ways, and has no error of its own.
        raise ValueError(f"{path}: this ROI is damaged ({error}).") from None
    points = [_points(path, name, roi, roifile) for name, roi in rois]
    if sum(map(len, points)) == 0:
        raise ValueError(f"{path}: there are no points in this file.")
    slices = {(roi.position, roi.z_position, roi.t_position) for _, roi in rois}
    if len(slices) > 1:
        raise ValueError(
            f"{path}: the points are in several slices of a stack, but pliant reads points of one image."
        )
    names = tuple(roi.name or Path(name).stem for name, roi in rois)
    named = all(len(some) == 1 for some in points) and not any(map(_MADE_UP.fullmatch, names))
    return [
        Annotation("", convention.to_ours(np.concatenate(points)), names if named and len(rois) > 1 else ())
    ]


def write(path: Path, annotations: Sequence[Annotation], convention: Convention) -> None:
    """Write one annotation as a multi-point ROI, or with a name for each landmark if the ending is .zip."""
    roifile = _library(path)
    annotation = one_object(path, annotations)
    points = convention.to_theirs(all_there(path, annotation, "ImageJ"))
    if path.suffix.lower() != ".zip":
        path.write_bytes(_roi(roifile, points, path.stem).tobytes())
        return
    names = annotation.names or [f"landmark {i}" for i in range(len(points))]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for i, name in enumerate(names):
            member = f"{i:04d} {name}.roi".replace("/", "_")
            file.writestr(member, _roi(roifile, points[i : i + 1], name).tobytes())


def _library(path: Path) -> Any:
    try:
        import roifile
    except ImportError:
        raise ValueError(f"{path}: ImageJ ROIs need roifile: pip install 'pliant[imagej]'.") from None
    return roifile


def _roi(roifile: Any, points: Float64, name: str) -> Any:
    roi = roifile.ImagejRoi.frompoints(points, name=name)
    roi.roitype = roifile.ROI_TYPE.POINT
    return roi


def _points(path: Path, name: str, roi: Any, roifile: Any) -> Float64:
    if roi.roitype != roifile.ROI_TYPE.POINT:
        raise ValueError(f"{path}: {name} is a {roi.roitype.name.lower()}, not a point: leave it out.")
    if roi.counter_positions is not None and len(np.unique(roi.counter_positions)) > 1:
        raise ValueError(f"{path}: the points of {name} are in several slices of a stack.")
    # roifile may turn what is not finite into whole numbers; what it does not, is refused when all is read.
    with np.errstate(invalid="ignore"):
        return np.asarray(roi.coordinates(), dtype=np.float64).reshape(-1, 2)


def _is_zip(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04")


def _first_member(head: bytes) -> bytes:
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]
