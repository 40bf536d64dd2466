"""All that was annotated as one file in a format that others read, in pixels or in a unit of length."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from pliant.data.annotation import Annotation
from pliant.data.formats import write_annotations
from pliant.data.images import image_size, image_spacing
from pliant.data.names import to_text
from pliant.data.tables import coordinate_titles, number_text, write_rows
from pliant.studio.storage.collection import Collection
from pliant.studio.storage.marks import HIDDEN, METRES
from pliant.terminal import counted

_FILES = {
    "coco": ("landmarks.json", "application/json"),
    "tps": ("landmarks.tps", "text/plain"),
    "csv": ("landmarks.csv", "text/csv"),
    "dlib": ("landmarks.xml", "application/xml"),
    "pts": ("landmarks.zip", "application/zip"),
}
FORMATS = (*_FILES, *(f"csv-{unit}" for unit in METRES))
"""What `export` takes: `csv-mm` has coordinates in millimetres, `pts` is an archive with a file for each image."""

_NEED_SIZE = ("tps", "coco", "dlib")

_NO_SCALE = "has no scale"


@dataclass(frozen=True)
class Export:
    """A file to be downloaded: content, name and media type, and a sentence for each image that is not in it.

    Of a TPS file, `scales` says how many of its images have a scale, and how many there are.
    """

    content: bytes
    name: str
    media_type: str
    left_out: tuple[str, ...] = ()
    scales: tuple[int, int] | None = None

    @property
    def note(self) -> str:
        """What a person should know of it who expects more, in sentences; often nothing."""
        told = []
        if self.left_out:
            verb = "is" if len(self.left_out) == 1 else "are"
            told.append(
                f"{counted(len(self.left_out), 'image')} {verb} not in the export. {self.left_out[0]}"
            )
        if self.scales is not None and self.scales[0] < self.scales[1]:
            lack = self.scales[1] - self.scales[0]
            verb, them = ("has", "it") if lack == 1 else ("have", "them")
            told.append(
                f"{lack:,} of {counted(self.scales[1], 'image')} {verb} no scale, so the file has no SCALE for "
                f"{them}. Draw a scale bar (R)."
            )
        return " ".join(told)


def export(collection: Collection, format: str = "coco", unfinished: bool = False) -> Export:
    """The landmarks of all finished images.

    Parameters
    ----------
    collection
        What is open.
    format
        One of `FORMATS`.
    unfinished
        Also those in which at least one landmark is placed.

    Returns
    -------
    Export
        A ValueError says that there is nothing to export, or what the format cannot hold.

    """
    if format not in FORMATS:
        raise ValueError(f"There is no export '{format[:40]}'. Known formats: {', '.join(FORMATS)}.")
    left_out: list[str] = []
    found = list(_annotations(collection, format, unfinished, left_out))
    if not found and not left_out:
        raise ValueError("No image is finished yet, so there is nothing to export.")
    base, _, unit = format.partition("-")
    if unit:
        content, found = _lengths(collection, found, unit, left_out)
        return Export(content, f"landmarks-{unit}.csv", "text/csv", tuple(left_out))
    if not found:
        raise ValueError(f"Nothing can be exported. {left_out[0]}")
    name, media_type = _FILES[base]
    if base == "pts":
        return Export(_archive(found), name, media_type, tuple(left_out))
    with TemporaryDirectory() as passing:
        path = Path(passing) / name
        try:
            write_annotations(path, [annotation for _, annotation in found], base)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), name)) from None
        known = sum(annotation.spacing is not None for _, annotation in found)
        scales = (known, len(found)) if base == "tps" else None
        return Export(path.read_bytes(), name, media_type, tuple(left_out), scales)


Found = tuple[int, Annotation]


def _annotations(
    collection: Collection, format: str, unfinished: bool, left_out: list[str]
) -> Iterator[Found]:
    """Each image that is to be exported, in order; a sentence is noted for one that cannot be."""
    wanted = collection.begun if unfinished else collection.begun & collection.done
    for index in map(int, np.flatnonzero(wanted)):
        entry = collection.entries[index]
        try:
            marks = collection.marks(index)
            if not marks.placed:
                continue
            size = image_size(entry.source) if format in _NEED_SIZE else None
        except (ValueError, OSError) as error:
            left_out.append(f"{entry.key} is left out: {error}")
            continue
        spacing = collection.spacing(index)
        yield (
            index,
            Annotation(
                entry.name,
                marks.points,
                collection.own_names,
                size=size,
                spacing=None if spacing is None else spacing[0],
                hidden=np.asarray(marks.states == HIDDEN),
            ),
        )


def _lengths(
    collection: Collection, found: list[Found], unit: str, left_out: list[str]
) -> tuple[bytes, list[Found]]:
    """A table in a unit of length, from the centre of the first pixel, y downwards."""
    titles = coordinate_titles(len(collection.names), collection.own_names)
    rows = [["image", *(f"{title}_{unit}" for title in titles)]]
    kept = []
    for index, annotation in found:
        spacing = _spacing(collection, index, unit)
        key = collection.entries[index].key
        if isinstance(spacing, str):
            left_out.append(f"{key} {spacing}: draw a scale bar (R).")
            continue
        values = (annotation.points * spacing).ravel().tolist()
        rows.append([to_text(key), *map(number_text, values)])
        kept.append((index, annotation))
    if not kept:
        # Of images without any scale it is enough to say that once; what else is wrong concerns an image.
        known = [sentence for sentence in left_out if _NO_SCALE not in sentence]
        reason = f" {known[0]}" if known else " Draw a scale bar (R) in each."
        raise ValueError(f"No image has a scale with a unit, so nothing can be given in {unit}.{reason}")
    with TemporaryDirectory() as passing:
        path = Path(passing) / "landmarks.csv"
        write_rows(path, rows)
        return path.read_bytes(), kept


def _spacing(collection: Collection, index: int, unit: str) -> float | str:
    """The length of a pixel, or what the image has instead."""
    known = collection.spacing(index)
    if known is not None and known[1]:
        return known[0] * METRES[known[1]] / METRES[unit]
    source = collection.entries[index].source
    if source.suffix.lower() == ".dcm":
        try:
            millimetres = image_spacing(source)
        except (ValueError, OSError):
            millimetres = None
        if millimetres is not None:
            return millimetres * METRES["mm"] / METRES[unit]
    if known is not None:
        return "has a scale without a unit"
    return _NO_SCALE


def _archive(found: list[Found]) -> bytes:
    """A `.pts` file for each object, called as those beside images are."""
    archive, seen = io.BytesIO(), dict[str, int]()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file, TemporaryDirectory() as passing:
        path = Path(passing) / "one.pts"
        for _, annotation in found:
            image = PurePosixPath(to_text(annotation.image).replace("\\", "/"))
            number = seen.get(str(image), 0)
            seen[str(image)] = number + 1
            parts = [part for part in image.with_suffix("").parts if part not in ("..", "/")]
            write_annotations(path, [annotation], "pts")
            file.writestr("/".join(parts) + (f".{number}.pts" if number else ".pts"), path.read_bytes())
    return archive.getvalue()
