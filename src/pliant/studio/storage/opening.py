"""What is in a folder, a manifest or an annotation file: its images in order, and where their landmarks belong.

No image is opened here, and of landmark files beside images only one is read: a folder of 100,000 opens at once.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pliant.data.addresses import is_address
from pliant.data.formats import PLAIN_TEXT, endings_beside_images, find_format, format_of, formats
from pliant.data.image_lookup import find_image
from pliant.data.images import EXTENSIONS
from pliant.data.loading import is_about_many, is_result, object_name
from pliant.data.manifest import ENDINGS, listed_file, read_manifest
from pliant.data.rewriting import open_file
from pliant.files import IrregularFile
from pliant.studio.storage.saving import Beside, Entry, Together, is_of_kind, usual_kind

_IMAGES = frozenset(EXTENSIONS)

SIDE_FOLDER = ".pliant-studio"
"""Where the history of a collection lies, beside what was opened."""

NEW_FILE = "landmarks.json"
"""What a folder without landmarks gets, in the format of COCO: it holds names, and what is hidden."""

_LOOKED_AT = 1000
"""So many landmark files tell what ending new ones get."""

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Listing:
    """What was found: images, landmarks, where the history belongs, and why nothing must be written, if so."""

    entries: Sequence[Entry]
    store: Beside | Together
    names: tuple[str, ...]
    count: int
    side: Path
    refusal: str = ""
    """A sentence if the landmarks cannot be written back without loss."""


def listed(source: Path, format: str = "", images: Path | None = None) -> Listing:
    """What is in a folder, a manifest or an annotation file; a ValueError says what is wrong with it.

    `images` is the folder of the images, if they are not beside their landmarks. A manifest has paths instead.
    """
    source = Path(os.path.abspath(source))
    if images is not None:
        if not images.is_dir():
            raise ValueError(f"images={images}: there is no such folder.")
        images = Path(os.path.abspath(images))
    if source.is_dir():
        return _folder(source, format, images)
    if not source.exists():
        raise ValueError(f"{source}: there is no such folder or file.")
    if source.suffix.lower() in EXTENSIONS:
        raise ValueError(f"{source}: this is an image: give its folder.")
    return _file(source, format, images)


def in_order(names: Iterable[str]) -> list[str]:
    """Names sorted as a person would: file2 before file10, and capital letters among the others."""
    return sorted(sorted(names), key=_natural)


def _natural(name: str) -> str:
    """What sorts as text where the name sorts as people have it: each number begins with how long it is."""
    return _DIGITS.sub(_with_length, name.casefold())


def _with_length(number: re.Match[str]) -> str:
    digits = number[0].lstrip("0")
    return f"{len(digits):03}{digits}"


def _files_in(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found if not entry.name.startswith(".") and entry.is_file()]


def _folder(folder: Path, format: str, images: Path | None) -> Listing:
    """The images of a folder, or those of the folder `images`, and the landmarks in the former."""
    place = folder if images is None else images
    files = _files_in(folder)
    shown = files if images is None else _files_in(images)
    pictures = {name: name.rpartition(".")[0] for name in shown if _ending(name) in _IMAGES}
    others = [name for name in files if _ending(name) not in _IMAGES]
    if not pictures:
        hint = " If they are in another folder, give it with images=FOLDER." if images is None else ""
        raise ValueError(
            f"{place}: there are no images in this folder. Images end in {', '.join(EXTENSIONS)}.{hint}"
        )
    beside = _beside(others, (*endings_beside_images(), PLAIN_TEXT))
    stems = set(pictures.values())
    if any(_belongs(stem, stems) for stem in beside):
        return _with_files_beside(folder, pictures, beside, format, place)
    tables = _tables(folder, others)
    if tables and all(name.rpartition(".")[0] in stems for name in tables):
        endings = tuple(sorted({_ending(name) for name in tables}))
        return _with_files_beside(folder, pictures, _beside(others, endings), format, place)
    if len(tables) > 1 and NEW_FILE in tables:
        tables = [NEW_FILE]
    if len(tables) > 1:
        some = ", ".join(in_order(tables)[:5])
        raise ValueError(f"{folder}: {some} could each hold the landmarks of this folder: give one of them.")
    if not tables:
        entries = [Entry(name, str(place), name, image=name) for name in in_order(pictures)]
        store = Together(entries, folder / NEW_FILE, "coco", None, images)
        return Listing(entries, store, (), 0, folder / SIDE_FOLDER / NEW_FILE)
    table = folder / tables[0]
    if table.suffix.lower() in ENDINGS and read_manifest(table) is not None:
        return _file(table, format, images, named=False)
    return _annotated(table, format, list(pictures), images)


def _beside(files: Sequence[str], endings: Sequence[str]) -> dict[str, str]:
    """Landmark files by their names without the ending; of several formats the one whose ending comes first."""
    rank = {ending: number for number, ending in enumerate(endings)}
    found: dict[str, str] = {}
    for name in files:
        stem, dot, ending = name.rpartition(".")
        ending = dot + ending.lower()
        if ending in rank and (stem not in found or rank[ending] < rank[_ending(found[stem])]):
            found[stem] = name
    return found


def _belongs(stem: str, images: Collection[str]) -> bool:
    """Whether a landmark file is that of an image: `face`, or `face.1` for one of several objects."""
    image, dot, number = stem.rpartition(".")
    return stem in images or (bool(dot) and number.isdecimal() and image in images)


def _ending(name: str) -> str:
    _, dot, ending = name.rpartition(".")
    return dot + ending.lower()


def _with_files_beside(
    folder: Path, pictures: Mapping[str, str], beside: Mapping[str, str], format: str, images: Path
) -> Listing:
    """A folder with a file for each image: `face.pts`, or `face.1.pts`, `face.2.pts` for several objects."""
    place, there = str(images), str(folder)
    numbered: dict[str, list[tuple[int, str]]] = {}
    pictured = set(pictures.values())
    for stem, file in beside.items():
        image, _, number = stem.rpartition(".")
        if number.isdecimal() and image in pictured and stem not in pictured:
            numbered.setdefault(image, []).append((int(number), file))
    entries = []
    for name in in_order(pictures):
        stem = pictures[name]
        file = beside.get(stem, "")
        if stem not in numbered:
            entries.append(Entry(name, place, name, f"{there}{os.sep}{file}" if file else "", name, 0))
        else:
            files = ([file] if file else []) + [other for _, other in sorted(numbered[stem])]
            for which, other in enumerate(files):
                path = f"{there}{os.sep}{other}"
                entries.append(Entry(object_name(name, which), place, name, path, name, which))
    return _beside_listing(entries, format, folder / SIDE_FOLDER / "beside images", folder)


def _beside_listing(entries: list[Entry], format: str, side: Path, folder: Path | None = None) -> Listing:
    """A listing of images with files of their own, of which the first that can be read tells what to expect."""
    files = [entry for entry in entries if entry.landmarks]
    usual = Counter(_ending(entry.landmarks) for entry in files[:_LOOKED_AT]).most_common(1)[0][0]
    first = next((entry for entry in files if _ending(entry.landmarks) == usual), files[0])
    found = _format_of(Path(first.landmarks), format)
    store = Beside(entries, found, usual, folder)
    for entry in files[:20]:
        try:
            file = open_file(Path(entry.landmarks), store.given, entry.source.parent)
            recorded = store.load(entries.index(entry))
        except ValueError:
            continue
        return Listing(entries, store, recorded.names, len(recorded.points), side, file.loss)
    open_file(Path(first.landmarks), format, first.source.parent)  # which says what is wrong with it
    return Listing(entries, store, (), 0, side)


def _format_of(path: Path, format: str) -> str:
    if format:
        find_format(format)
        return format
    return format_of(path)[0].NAME


def _tables(folder: Path, files: Sequence[str]) -> list[str]:
    """Files that could be about many images; if there are hundreds, their endings must do."""
    endings = {ending for module in formats().values() if module.MANY for ending in module.EXTENSIONS}
    endings |= set(ENDINGS)
    names = [name for name in files if _ending(name) in endings]
    found = []
    for name in names:
        try:
            if len(names) > 200 or is_about_many(folder / name):
                found.append(name)
        except (ValueError, IrregularFile):
            continue
    results = {table.name for table in map(Path, found) if is_result(folder / table)}
    return [name for name in found if name not in results] or found


def _leaves(name: str) -> bool:
    """Whether a name leads out of the folder that was opened: a file that was only found there has no such say."""
    plain = os.path.normpath(name.replace("\\", "/"))
    return os.path.isabs(plain) or plain.split(os.sep)[0] == os.pardir


def _file(source: Path, format: str, images: Path | None, named: bool = True) -> Listing:
    """What a manifest or an annotation file lists: one that was `named`, or one that was found in a folder."""
    rows = read_manifest(source) if source.suffix.lower() in ENDINGS else None
    if rows is None:
        return _annotated(source, format, None, images)
    endings = (*endings_beside_images(), PLAIN_TEXT)
    seen: Counter[str] = Counter()
    near: dict[str, dict[str, str]] = {}
    entries = []
    for row in rows:
        if not named and any(_leaves(row.get(column, "")) for column in ("image", "landmarks")):
            continue
        image = listed_file(row["image"], row["where"], source, named=False)
        if not isinstance(image, Path) or is_address(row.get("landmarks", "")):
            raise ValueError(
                f"{row['where']}: this is an address, but the studio works on files of this machine."
            )
        landmarks = row.get("landmarks")
        path = str(listed_file(landmarks, row["where"], source, named=False)) if landmarks else ""
        if not path and image.parent.is_dir():
            folder = str(image.parent)
            if folder not in near:
                near[folder] = _beside(_files_in(image.parent), endings)
            path = os.path.join(folder, near[folder][image.stem]) if image.stem in near[folder] else ""
        number, name = seen[row["image"]], row["image"].replace("\\", "/")
        seen[row["image"]] += 1
        entries.append(Entry(object_name(name, number), str(source.parent), name, path, name, number))
    entries.sort(key=lambda entry: _natural(entry.key))
    side = source.parent / SIDE_FOLDER / source.name
    if any(entry.landmarks for entry in entries):
        return _beside_listing(entries, format, side)
    target = source.with_name(f"{source.stem}-{NEW_FILE}")
    if target.exists():
        return _annotated(target, "", None, wanted=entries)
    return Listing(entries, Together(entries, target, "coco", None), (), 0, side)


def _annotated(
    path: Path,
    format: str,
    pictures: Sequence[str] | None,
    images: Path | None = None,
    wanted: Sequence[Entry] = (),
) -> Listing:
    """The images of an annotation file, and with them further ones: `pictures` of its folder, or those `wanted`.

    Its folder is that of `images`, if it was given.
    """
    folder = path.parent if images is None else images
    file = open_file(path, format, folder)
    kind = usual_kind(file)
    objects: Counter[str] = Counter(slot.image for slot in file.contents.slots if is_of_kind(slot, kind))
    place = str(folder)
    there = set(pictures if pictures is not None else _files_in(folder))
    entries: dict[str, Entry] = {}
    for name in file.contents.images:
        found = name if name in there else _found(name, path, folder)
        if pictures is not None and _leaves(found):
            continue
        for number in range(max(1, objects[name])):
            key = object_name(found, number)
            entries.setdefault(key, Entry(key, place, found, "", name, number))
    for name in pictures or ():
        entries.setdefault(name, Entry(name, place, name, "", name))
    for entry in wanted:
        entries.setdefault(entry.key, entry)
    ordered = [entries[key] for key in in_order(entries)]
    if not ordered:
        raise ValueError(f"{path}: there are no images in this file.")
    store = Together(ordered, path, file.format, file, images)
    return Listing(ordered, store, kind[1], kind[0], path.parent / SIDE_FOLDER / path.name, file.loss)


def _found(name: str, path: Path, folder: Path) -> str:
    """Where an image is that an annotation file names, from the folder of images; as named if it is nowhere."""
    try:
        image = find_image(name, path, folder)
    except ValueError:
        image = None
    return name or path.stem if image is None else os.path.relpath(image, folder).replace(os.sep, "/")
