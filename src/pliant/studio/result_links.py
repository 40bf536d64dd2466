"""How results meet the open collection: where they and their images are, and which of its images these are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from pliant.arrays import Float64
from pliant.studio.desk import Studio
from pliant.studio.found_results import Search
from pliant.studio.open_results import Opened, Shelf
from pliant.studio.result_images import Gallery

_KEPT = 4
"""Results whose images are kept."""


@dataclass(eq=False)
class _Desk:
    """What this page keeps for a studio: results, images, and which image of the collection a path is."""

    shelf: Shelf = field(default_factory=Shelf)
    galleries: dict[str, tuple[Opened, Gallery]] = field(default_factory=dict)
    places: dict[str, int] | None = None


_desks: WeakKeyDictionary[Studio, _Desk] = WeakKeyDictionary()


def _desk(studio: Studio) -> _Desk:
    return _desks.setdefault(studio, _Desk())


def look(studio: Studio) -> Search:
    """All results that there are now."""
    return _desk(studio).shelf.search(_places(studio))


def open_by_id(studio: Studio, key: str) -> Opened:
    """A result of the list."""
    return _desk(studio).shelf.open(key, _places(studio))


def _places(studio: Studio) -> list[Path]:
    """Where results are looked for: what was named first."""
    named = [] if studio.results is None else [studio.results]
    root = getattr(studio.collection, "root", None)
    return [*named, *([Path(root)] if root is not None else [])]


def gallery_of(studio: Studio, opened: Opened) -> Gallery:
    """The images of a result; only those of results that were looked at last are kept."""
    kept = _desk(studio).galleries
    known = kept.get(opened.found.id)
    if known is not None and known[0] is opened:
        return known[1]
    gallery = Gallery(_near(studio, opened))
    kept[opened.found.id] = (opened, gallery)
    while len(kept) > _KEPT:
        kept.pop(next(iter(kept)))
    return gallery


def _near(studio: Studio, opened: Opened) -> Sequence[Path]:
    """Folders that names of images may be relative to, the likeliest first."""
    own = opened.found.path if opened.found.path.is_dir() else opened.found.path.parent
    sources = [Path(source) for source in opened.sources if "://" not in source]
    near = [Path.cwd(), own, *list(own.parents)[:3]]
    root = getattr(studio.collection, "root", None)
    near += [Path(root), Path(root).parent] if root is not None else []
    for source in sources:
        near += [folder / source for folder in near[:5]] + [(folder / source).parent for folder in near[:5]]
    return [folder for folder in dict.fromkeys(near) if folder.is_dir()]


def index_of(studio: Studio, path: Path) -> int | None:
    """The image of the collection that is this file."""
    desk = _desk(studio)
    if desk.places is None:
        desk.places = _by_path(studio)
    whole = os.path.realpath(path)
    return desk.places.get(_beside(str(path), {}), desk.places.get(whole))


def _by_path(studio: Studio) -> dict[str, int]:
    """The numbers of all images by their paths; folders are resolved once, as there are few of them."""
    folders: dict[str, str] = {}
    found: dict[str, int] = {}
    for index, entry in enumerate(studio.collection.entries):
        source = entry.source
        if isinstance(source, (str, Path)) and "://" not in str(source):
            found.setdefault(_beside(str(source), folders), index)
            if os.path.islink(source):
                found.setdefault(os.path.realpath(source), index)
    return found


def _beside(path: str, folders: dict[str, str]) -> str:
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def obstacle_to(studio: Studio, points: Float64 | None, index: int | None) -> str:
    """Why a fit cannot be corrected in Annotate, as the end of a sentence; empty if it can."""
    if index is None:
        return "its image is not in the folder that is open."
    if points is None:
        return "there is no fit."
    expected = len(studio.collection.names)
    if expected and len(points) != expected:
        return f"it has {len(points)} landmarks, and the images that are open have {expected}."
    return str(studio.collection.read_only)
