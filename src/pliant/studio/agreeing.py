"""Endpoints of the page Check for two annotators: another annotation of the same images is compared with ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory
from weakref import WeakKeyDictionary

import numpy as np

from pliant.arrays import Float64
from pliant.data.agreement import Agreement, compare, match_names
from pliant.data.annotation import Annotation
from pliant.data.formats import read_annotations
from pliant.data.images import EXTENSIONS, ImageError, image_size
from pliant.data.loading import load_dataset
from pliant.files import real_path
from pliant.shape.variance import Variation
from pliant.studio.annotating import as_points
from pliant.studio.desk import Studio
from pliant.studio.web.endpoints import Endpoints, Refused

endpoints = Endpoints("check")

_MOST_OFFERED = 200
_MOST_LISTED = 500

Points = Mapping[str, Float64]


@dataclass(frozen=True)
class Place:
    """A file or folder with another annotation, named from the folder that is open."""

    path: str


@dataclass(frozen=True)
class ByLandmark:
    """How far apart the two annotations of a landmark are, in pixels.

    `most` is what 95 of 100 images stay below; `bias` how far the second is from the first on average, and
    `bias_chance` the probability of such a bias if there were none.
    """

    name: str
    mean: float | None
    most: float | None
    bias: tuple[float | None, float | None]
    bias_chance: float | None


@dataclass(frozen=True)
class ByImage:
    """How far apart the two are in an image, as a share of the object's size."""

    row: int
    index: int
    name: str
    share: float | None


@dataclass(frozen=True)
class Table:
    """A Procrustes analysis of variance, and what it means."""

    rows: list[Variation]
    repeatability: float
    annotator_share: float
    systematic_share: float
    sentence: str


@dataclass(frozen=True)
class Comparison:
    """Two annotations compared: each landmark, each image (the worst first), and the analysis of variance."""

    name: str
    compared: int
    only_first: int
    only_second: int
    landmarks: list[ByLandmark]
    images: list[ByImage]
    variance: Table | None


@dataclass(frozen=True)
class Both:
    """An image with both annotations, and how far apart they are, in pixels."""

    index: int
    name: str
    width: int
    height: int
    first: list[tuple[float, float] | None]
    second: list[tuple[float, float] | None]
    distances: list[float | None]


_compared: WeakKeyDictionary[Studio, tuple[Comparison, Agreement]] = WeakKeyDictionary()


@endpoints.get("/api/agreement/places")
def places(studio: Studio) -> list[str]:
    """Files and folders next to the images that may hold another annotation."""
    root = _root(studio)
    shown = [
        path.name + ("/" if path.is_dir() else "")
        for path in sorted(root.iterdir())[: 50 * _MOST_OFFERED]
        if not path.name.startswith(".")
        and (path.is_dir() or path.suffix.lower() not in EXTENSIONS)
        and real_path(path) != real_path(studio.collection.side_folder)
    ]
    # A folder with a landmark file beside each image would fill the list.
    own = {Path(entry.key).stem for entry in studio.collection.entries[:50_000]}
    return [name for name in shown if name.endswith("/") or Path(name).stem not in own][:_MOST_OFFERED]


@endpoints.post("/api/agreement")
def compare_with(studio: Studio, body: Place) -> Comparison:
    """Compare with the annotation in a file or folder inside the open folder."""
    path = _inside(studio, body.path)
    if not path.exists():
        raise Refused(f"{body.path}: there is no such file or folder next to the images.", 404)
    if path.is_dir():
        dataset = load_dataset(path, images=_root(studio))
        second = {sample.name: sample.annotation() for sample in dataset if sample.points_source is not None}
        return _kept(studio, path.name, second)
    return _kept(studio, path.name, _by_image(read_annotations(path, images=_root(studio)), path.name))


@endpoints.post("/api/agreement/upload")
def compare_with_upload(studio: Studio, name: str, upload: bytes) -> Comparison:
    """Compare with the annotation in an uploaded file; the file is not kept."""
    plain = PureWindowsPath(PurePosixPath(name).name).name
    if not plain or plain.startswith("."):
        raise Refused("the file needs a name.", 400)
    with TemporaryDirectory() as folder:
        file = Path(folder) / plain
        file.write_bytes(upload)
        try:
            found = read_annotations(file, images=_root(studio))
        except ValueError as error:
            raise ValueError(str(error).replace(f"{folder}/", "")) from None
        return _kept(studio, plain, _by_image(found, plain))


@endpoints.get("/api/agreement")
def agreement(studio: Studio) -> Comparison | None:
    """The last comparison; empty before the first."""
    known = _compared.get(studio)
    return None if known is None else known[0]


@endpoints.get("/api/agreement/{row}")
def both(studio: Studio, row: int) -> Both:
    """One image of the last comparison with both annotations."""
    known = _compared.get(studio)
    if known is None or not 0 <= row < len(known[1].images):
        raise LookupError(f"the last comparison has no image {row}.")
    found = known[1]
    index = _index_of(studio)[found.images[row]]
    size = (0, 0)
    with suppress(ImageError):  # The page shows that there is no picture.
        size = image_size(studio.entry(index).source)
    return Both(
        index,
        found.images[row],
        *size,
        as_points(found.first[row]),
        as_points(found.second[row]),
        [_rounded(one) for one in found.distances[row]],
    )


def _kept(studio: Studio, name: str, second: Mapping[str, Annotation]) -> Comparison:
    collection = studio.collection
    first: dict[str, Float64] = {}
    for index in np.flatnonzero(collection.begun).tolist():
        try:
            first[collection.entries[index].key] = collection.marks(index).points
        except (ValueError, OSError):
            continue  # Said where the image is opened.
    pairs, only_first, only_second = match_names(list(first), list(second))
    if not pairs:
        raise Refused(f"{name} has no image in common with the open folder: images are matched by name.")
    count = len(collection.names)
    theirs: list[Float64] = []
    for key, other in pairs:
        annotation = second[other]
        if len(annotation.points) != count:
            raise Refused(
                f"{name} has {len(annotation.points)} landmarks in {key}, but there are {count} here: only "
                "the same landmarks can be compared."
            )
        theirs.append(annotation.points[_order(collection.own_names, annotation.names)])
    found = compare(
        [key for key, _ in pairs],
        np.array([first[key] for key, _ in pairs]),
        np.array(theirs),
        collection.names,
        only_first,
        only_second,
    )
    _compared[studio] = _described(studio, name, found), found
    return _compared[studio][0]


def _described(studio: Studio, name: str, found: Agreement) -> Comparison:
    mean, most, bias, chance = found.mean_distance, found.most_distance, found.bias, found.bias_chance
    index, shares, variance = _index_of(studio), found.of_images, found.variance
    return Comparison(
        name,
        len(found.images),
        len(found.only_first),
        len(found.only_second),
        [
            ByLandmark(
                landmark,
                _rounded(mean[k]),
                _rounded(most[k]),
                (_rounded(bias[k, 0]), _rounded(bias[k, 1])),
                _rounded(chance[k], 6),
            )
            for k, landmark in enumerate(found.names)
        ],
        [
            ByImage(row, index[found.images[row]], found.images[row], _rounded(shares[row], 5))
            for row in found.worst_first[:_MOST_LISTED]
        ],
        None
        if variance is None
        else Table(
            [variance.objects, variance.annotators, variance.rest],
            variance.repeatability,
            variance.annotator_share,
            variance.systematic,
            variance.sentence,
        ),
    )


def _order(ours: tuple[str, ...], theirs: tuple[str, ...]) -> list[int] | slice:
    """Where our landmarks are among theirs, if both have the same names; else they come in the same order."""
    if ours and sorted(ours) == sorted(theirs) and len(set(ours)) == len(ours):
        return [theirs.index(name) for name in ours]
    return slice(None)


def _by_image(annotations: list[Annotation], name: str) -> dict[str, Annotation]:
    """Annotations by the images that they name; one that names none is that of the image called like its file."""
    found: dict[str, Annotation] = {}
    for annotation in annotations:
        found.setdefault(annotation.image or name, annotation)
    return found


def _index_of(studio: Studio) -> dict[str, int]:
    return {entry.key: index for index, entry in enumerate(studio.collection.entries)}


def _root(studio: Studio) -> Path:
    """The folder that is open, or that of the file."""
    source = studio.collection.source
    return real_path(source if source.is_dir() else source.parent)


def _inside(studio: Studio, path: str) -> Path:
    """A path in the folder that is open, whatever links it has; a sentence for any other."""
    root = _root(studio)
    try:
        found = real_path(root / path)
    except (ValueError, OSError):
        raise Refused(f"'{path[:80]}' is not a path.", 400) from None
    if not path or "\0" in path or not found.is_relative_to(root):
        raise Refused(
            f"'{path[:80]}' is not in the open folder. Copy it there, or choose the file with the button.",
            403,
        )
    return found


def _rounded(value: float, digits: int = 3) -> float | None:
    return None if np.isnan(value) else round(float(value), digits)
