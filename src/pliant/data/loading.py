"""Loading data sets: the samples of folders, annotation files and manifests, at paths or addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NoReturn

from pliant.arrays import Floats, Image
from pliant.data import images, manifest
from pliant.data.addresses import (
    Source,
    as_source,
    ending,
    files_in,
    is_file,
    is_folder,
    join,
    matching,
    opened,
    parent,
    plain_name,
    with_ending,
)
from pliant.data.annotation import UNKNOWN_SIZE, Annotation
from pliant.data.archives import parquet_metadata
from pliant.data.dataset import Dataset, Sample
from pliant.data.formats import (
    HEAD,
    PLAIN_TEXT,
    endings_beside_images,
    find_format,
    formats,
)
from pliant.data.image_lookup import Listing, find_image, in_other_case, names_in, not_found
from pliant.data.landmark_files import annotations_in
from pliant.data.missing_images import absent
from pliant.data.sources import local_matches
from pliant.data.tables import first_rows
from pliant.files import real_path, require_plain

HELD_OUT = ".held-out.csv"
"""How the list of samples ends that a training has held out."""

_OF_RESULTS = b"pliant"
"""What the metadata of a Parquet file has if it is a table of results."""


def load_dataset(
    *sources: Source | Sequence[Source], images: Source | None = None, format: str = ""
) -> Dataset:
    """Load annotated images from one or several sources, which may be of different kinds.

    Images are read later, when you ask for them. An image without landmarks becomes a sample without points.

    Parameters
    ----------
    *sources : str, Path or sequence of them
        A folder of images with landmark files beside them (`face.jpg`, `face.pts`; for several objects in an
        image, `face.1.pts`, `face.2.pts`) or with one annotation file for all; an annotation file of any format; a
        manifest (CSV or Parquet with the column image and, if you like, landmarks, group, split, left, top, right,
        bottom); or a pattern (`faces/*.jpg`). Each may be an address (`s3://`, `gs://`,
        `zip://inner::archive.zip`).
    images : str, Path or None
        The folder of the images that an annotation file names; by default that of the file.
    format : str
        The format of landmark files, such as `"pts:0-based"`; by default their content decides.

    Returns
    -------
    Dataset
        The samples of all sources, in their order.

    Raises
    ------
    ValueError
        If a source does not exist or cannot be understood.

    Examples
    --------
    >>> import pliant
    >>> len(pliant.load_dataset("photographs/", "annotated/"))
    14
    >>> pliant.load_dataset("labels.xml")[0].points().shape
    (68, 2)
    >>> len(pliant.load_dataset("manifest.csv").part("test"))
    2

    """
    if not sources:
        raise ValueError("give at least one folder of images.")
    if format:
        find_format(format)  # a name that is wrong should be said once, not for every file
    if images is not None and not is_folder(as_source(images)):
        exists = "this is a file, not a folder." if is_file(as_source(images)) else "there is no such folder."
        raise ValueError(f"images={images}: {exists}")
    every: list[Source] = []
    for source in sources:
        every += [source] if isinstance(source, (str, Path)) else source
    samples = [sample for source in every for sample in _samples_of(source, images, format)]
    if images is not None:
        _require_used(as_source(images), samples)
    # Names, not paths: they end up in model files, which are passed on.
    return Dataset(tuple(samples), ", ".join(short_name(source) for source in every))


def _require_used(folder: Source, samples: Sequence[Sample]) -> None:
    """Refuse a folder of images that has none of those that were found: others would be used without a word."""
    found = [one.image_source for one in samples if isinstance(one.image_source, (Path, str))]
    if found and not any(_is_in(image, folder) for image in found):
        raise ValueError(
            f"images={folder}: none of the images is in this folder; {found[0]} was found without it. Give the "
            "folder that has the images, or leave it out."
        )


def _is_in(image: Source, folder: Source) -> bool:
    if isinstance(image, Path) and isinstance(folder, Path):
        return image.is_relative_to(folder) or real_path(image).is_relative_to(real_path(folder))
    return str(image).startswith(str(folder))


def as_dataset(given: Dataset | Source | Iterable[Sample]) -> Dataset:
    """A data set, whether it is one, is a place to load one from, or are samples."""
    if isinstance(given, (str, Path)):
        return load_dataset(given)
    if isinstance(given, Dataset):
        return given
    samples = tuple(given)
    if not all(isinstance(one, Sample) for one in samples):
        raise ValueError(
            "samples are images with their landmarks: make a data set of arrays with "
            "pliant.dataset_from_arrays(images, shapes)."
        )
    return Dataset(samples, "samples")


def _samples_of(source: Source, folder: Source | None, format: str) -> list[Sample]:
    """The samples of one source; `folder` is where its images are, and `format` the format of landmark files."""
    source = as_source(source)
    if is_folder(source):
        return _folder(source, folder, format)
    if not is_file(source):
        if isinstance(source, Path):
            require_plain(source)
        matches = matching(source) if isinstance(source, str) else local_matches(str(source))
        if not matches:
            raise ValueError(f"{source}: there is no such folder or file.")
        return _matched(matches, folder, format)
    if ending(source) in images.EXTENSIONS:
        raise ValueError(
            f"{source}: this is an image: give its folder, the file with its landmarks, or a pattern in "
            f"quotes, such as '{join(parent(source), f'*{ending(source)}')}'."
        )
    return _file(source, folder, format)


def _matched(matches: Sequence[Source], folder: Source | None, format: str) -> list[Sample]:
    """What a pattern names: images with the landmarks beside them, folders, annotation files."""
    pictures = [file for file in matches if ending(file) in images.EXTENSIONS]
    wanted = set(pictures)
    samples = [
        sample
        for place in dict.fromkeys(map(parent, pictures))
        for sample in _folder(place, folder, format)
        if sample.image_source in wanted
    ]
    # A pattern such as faces/* names landmark files too: they are read with their images.
    read = {sample.points_source for sample in samples if isinstance(sample.points_source, (Path, str))}
    others = (*images.EXTENSIONS, *endings_beside_images())
    alone = [file for file in matches if ending(file) not in others and file not in read]
    return samples + [sample for source in alone for sample in _samples_of(source, folder, format)]


def short_name(source: Source) -> str:
    """A source by its last two parts, without what is private in a path."""
    if isinstance(source := as_source(source), Path):
        return "/".join(real_path(source).parts[-2:])
    return "/".join([part for part in re.split(r"::|/", source) if part][-2:])


def _folder(folder: Source, pictures_in: Source | None, format: str) -> list[Sample]:
    files = files_in(folder)
    by_stem: dict[str, list[Source]] = {}
    for file in files:
        by_stem.setdefault(PurePosixPath(plain_name(file)).stem, []).append(file)
    pictured = {
        stem for stem, beside in by_stem.items() if any(ending(file) in images.EXTENSIONS for file in beside)
    }
    numbered: dict[str, list[tuple[int, Source]]] = {}
    for stem, beside in by_stem.items():
        image, dot, number = stem.rpartition(".")
        if dot and number.isdecimal() and image in pictured and stem not in pictured:
            landmarks = _landmarks(beside, pictured=True)
            numbered.setdefault(image, []).extend((int(number), file) for file in landmarks[:1])
    samples: list[Sample] = []
    for stem, beside in by_stem.items():
        pictures = [file for file in beside if ending(file) in images.EXTENSIONS]
        found: list[tuple[str, Source | Callable[[], Image]]] = [(str(file), file) for file in pictures]
        landmarks = _landmarks(beside, bool(pictures))[:1]
        if landmarks and not pictures:
            if stem.rpartition(".")[0] in numbered:
                continue
            made = _picture(landmarks[0], pictures_in)
            named = made if isinstance(made, (Path, str)) else landmarks[0]
            found = [(str(named), made)]
        objects = [*landmarks, *(file for _, file in sorted(numbered.get(stem, []), key=itemgetter(0)))]
        samples += [
            Sample(object_name(name, number), picture, points, format=format)
            for name, picture in found
            for number, points in enumerate(objects or [None])
        ]
    if all(sample.points_source is None for sample in samples):
        tables = _annotation_files(files)
        if len(tables) == 1:
            return _file(tables[0], folder if pictures_in is None else pictures_in, format, named=False)
        pictured = {PurePosixPath(sample.name.partition("::")[0]).stem for sample in samples}
        if pictures_in is not None and not samples:
            pictured = {PurePosixPath(plain_name(file)).stem for file in files_in(as_source(pictures_in))}
        if tables and all(PurePosixPath(plain_name(table)).stem in pictured for table in tables):
            return _one_each(tables, samples, folder if pictures_in is None else pictures_in, format)
        if tables:
            listed = ", ".join(plain_name(table) for table in tables[:5])
            more = f" and {len(tables) - 5:,} more" if len(tables) > 5 else ""
            raise ValueError(
                f"{folder}: {listed}{more} could each hold the landmarks of this folder: give one of them."
            )
    if not samples:
        below = (
            sorted(path.name for path in folder.iterdir() if path.is_dir())
            if isinstance(folder, Path)
            else []
        )
        more = f" and {len(below) - 5:,} more" if len(below) > 5 else ""
        hint = f" Its folders are {', '.join(below[:5])}{more}: give those that have images." if below else ""
        known = f" Images end in {', '.join(images.EXTENSIONS)}." if files else ""
        raise ValueError(f"{folder}: there are no images in this folder.{hint or known}")
    return samples


def _annotation_files(files: Sequence[Source]) -> list[Source]:
    """Those that hold the landmarks of many images, and are no results of pliant that lie beside them.

    Lists of held-out samples never count: they are to be named, or a model would be trained on them. Tables of fits
    count if there is nothing else, and of these the Parquet file, which the CSV file repeats.
    """
    tables = [file for file in files if not plain_name(file).endswith(HELD_OUT) and is_about_many(file)]
    if len(tables) < 2:
        return tables
    results = {file for file in tables if is_result(file)}
    others = [file for file in tables if file not in results]
    return others or [file for file in tables if ending(file) == ".parquet"] or tables


def is_result(file: Source) -> bool:
    """Whether a table is one that `train --hold-out`, `fit`, `track`, `evaluate` or `experiment` wrote."""
    if plain_name(file).endswith(HELD_OUT):
        return True
    if ending(file) not in (".csv", ".parquet"):
        return False
    with opened(file) as content:
        if ending(file) == ".parquet":
            return _OF_RESULTS in parquet_metadata(content, file)
        rows = first_rows(content.read(HEAD))
    return bool(rows) and set(rows[0]) >= {"image", "status", "seconds"}


def _landmarks(beside: Sequence[Source], pictured: bool) -> list[Source]:
    """Those of a few files that have landmarks, the likeliest first."""
    found = [file for other in endings_beside_images() for file in beside if ending(file) == other]
    return found + [file for file in beside if pictured and ending(file) == PLAIN_TEXT]


def object_name(image: str, number: int) -> str:
    """What the sample of an object is called, if it is the image's `number`-th, from 0."""
    return f"{image}, object {number + 1}" if number else image


def _one_each(tables: Sequence[Source], alone: Sequence[Sample], folder: Source, format: str) -> list[Sample]:
    """The samples of files that could hold many images and are called each like the one that it holds."""
    samples = [sample for table in tables for sample in _file(table, folder, format, named=False)]
    found = {sample.image_source for sample in samples if isinstance(sample.image_source, (Path, str))}
    return samples + [sample for sample in alone if sample.image_source not in found]


def _picture(landmarks: Source, folder: Source | None) -> Source | Callable[[], Image]:
    """The image of a landmark file that has none beside it."""
    if folder is not None:
        return _found("", landmarks, folder)
    # A name that is not there, so that validation reports landmarks whose image went missing.
    return with_ending(landmarks, ".jpg")


def _found(
    name: str, landmarks: Source, folder: Source | None, listing: Listing = names_in
) -> Source | Callable[[], Image]:
    """The image that a landmark file means; if it is not there, what says so when it is asked for."""
    try:
        image = find_image(name, landmarks, folder)
    except ValueError as error:
        return partial(absent, str(error), name, landmarks, folder, "")
    if image:
        return image
    there = in_other_case(name, landmarks, folder, listing)
    # What to do about it is said once for all images that are missing (`about_missing`).
    return partial(absent, f"{not_found(name, landmarks, folder, there)}.", name, landmarks, folder, there)


def _file(source: Source, folder: Source | None, format: str, named: bool = True) -> list[Sample]:
    """The samples of a file, which the user has `named`, or which was found in a folder."""
    rows = manifest.read_manifest(source) if ending(source) in manifest.ENDINGS else None
    if rows is not None:
        return _rows(rows, source, format, named)
    return _annotated(annotations_in(source, format, folder, or_unknown=True), source, folder)


def _rows(rows: Sequence[dict[str, str]], source: Source, format: str, named: bool) -> list[Sample]:
    """The samples of a manifest; without a column `landmarks`, a landmark file beside the image is taken."""
    endings = (*endings_beside_images(), PLAIN_TEXT)

    @cache
    def beside(place: Source) -> dict[str, Source]:
        files = files_in(place) if is_folder(place) else []
        return {plain_name(file): file for file in files if ending(file) in endings}

    samples = []
    for row in rows:
        where = row["where"]
        image = manifest.listed_file(row["image"], where, source, named)
        landmarks = row.get("landmarks")
        points = manifest.listed_file(landmarks, where, source, named) if landmarks else None
        if "landmarks" not in row:
            near = beside(parent(image))
            names = [plain_name(with_ending(image, other)) for other in endings]
            points = next((near[name] for name in names if name in near), None)
        box = manifest.box_in_row(row, row["where"])
        samples.append(
            Sample(str(image), image, points, row.get("group", ""), row.get("split", ""), box, format)
        )
    return samples


def _annotated(annotations: Sequence[Annotation], source: Source, folder: Source | None) -> list[Sample]:
    """The samples of an annotation file; an image that is not there is reported when it is asked for."""
    found = cache(partial(_found, landmarks=source, folder=folder, listing=cache(names_in)))
    samples: list[Sample] = []
    seen: Counter[str] = Counter()
    for annotation in annotations:
        image = annotation.pixels or found(annotation.image)
        points: Annotation | Callable[[], Floats] = annotation
        box = annotation.box
        if annotation.size == UNKNOWN_SIZE and (why := _unsized(image)):
            # Its coordinates mean nothing without the size of the image.
            points, box = partial(_no_points, why), None
        name = str(image) if isinstance(image, (Path, str)) else annotation.image or str(source)
        samples.append(Sample(object_name(name, seen[name]), image, points, annotation.group, box=box))
        seen[name] += 1
    return samples


def _unsized(image: Source | Callable[[], Image]) -> str:
    """Why the size of an image cannot be read; empty if it can."""
    if isinstance(image, partial) and image.func is absent:
        return str(image.args[0])
    try:
        if isinstance(image, (Path, str)):
            images.image_size(image)
    except images.ImageError as error:
        return str(error)
    return ""


def _no_points(sentence: str) -> NoReturn:
    raise images.ImageError(sentence)


def is_about_many(file: Source) -> bool:
    """Whether a file holds the landmarks of many images; only an ending that says so has it opened."""
    if ending(file) in manifest.ENDINGS and manifest.read_manifest(file) is not None:
        return True
    candidates = [
        module for module in formats().values() if module.MANY and ending(file) in module.EXTENSIONS
    ]
    if not candidates:
        return False
    with opened(file) as content:
        head = content.read(HEAD)
    path = file if isinstance(file, Path) else Path(plain_name(file))
    return any(module.recognises(path, head) for module in candidates)
