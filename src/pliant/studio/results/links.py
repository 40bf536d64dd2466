"""How results meet the open collection: where they and their images are, and which of its images these are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from pliant.arrays import Float64
from pliant.data.images import ImageError
from pliant.shape import shape_size
from pliant.studio.desk import Studio
from pliant.studio.proposing.proposals import Proposal
from pliant.studio.results.found import Search
from pliant.studio.results.images import Gallery
from pliant.studio.results.opened import Opened, Shelf
from pliant.studio.web.endpoints import Refused

_KEPT = 4
"""Results whose images are kept."""

_LOOKED_AT = 100
"""Rows of a result in which an image of the collection is looked for."""

_UNSURE = 0.02
"""How uncertain a landmark is of which nothing is known, over the size of the object."""


@dataclass(eq=False)
class _Desk:
    """What this page keeps for a studio: results, images, and which image of the collection a path is."""

    shelf: Shelf = field(default_factory=Shelf)
    galleries: dict[str, tuple[Opened, Gallery]] = field(default_factory=dict)
    places: dict[tuple[str, int], int] | None = None


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
    return [*named, _folder(studio)]


def _folder(studio: Studio) -> Path:
    """The folder that is open, or that of the file that is."""
    source = Path(studio.collection.source)
    return source if source.is_dir() else source.parent


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
    near = [Path.cwd(), own, *list(own.parents)[:3], _folder(studio), _folder(studio).parent]
    for source in sources:
        near += [folder / source for folder in near[:5]] + [(folder / source).parent for folder in near[:5]]
    return [folder for folder in dict.fromkeys(near) if folder.is_dir()]


def index_of(studio: Studio, path: Path, number: int = 0) -> int | None:
    """Where the collection has an object of the image that is this file; its first if there is no other."""
    desk = _desk(studio)
    if desk.places is None:
        desk.places = _by_path(studio)
    for name in (_beside(str(path), {}), os.path.realpath(path)):
        if (name, 0) in desk.places:
            return desk.places.get((name, number), desk.places[name, 0])
    return None


def _by_path(studio: Studio) -> dict[tuple[str, int], int]:
    """Where each object of each image is in the collection; folders are resolved once, as there are few of them."""
    folders: dict[str, str] = {}
    found: dict[tuple[str, int], int] = {}
    for index, entry in enumerate(studio.collection.entries):
        path = os.path.join(entry.folder, entry.name)
        for name in (_beside(path, folders), os.path.realpath(path) if os.path.islink(path) else ""):
            if name:
                found.setdefault((name, entry.number), index)
                found.setdefault((name, 0), index)
    return found


def _beside(path: str, folders: dict[str, str]) -> str:
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def obstacle_to(studio: Studio, points: Float64 | None, index: int | None) -> str:
    """Why a fit cannot be corrected in Annotate, as the end of a sentence; empty if it can."""
    if index is None:
        return "its image is not in the open folder."
    if points is None:
        return "there is no fit."
    expected = len(studio.collection.names)
    if expected and len(points) != expected:
        return f"it has {len(points)} landmarks, but the open images have {expected}."
    return str(studio.collection.read_only)


def landmarks_of(opened: Opened, count: int) -> tuple[str, ...]:
    """The names of a result's landmarks; without any, their numbers from 0."""
    names = opened.landmark_names
    named = len(names) == len(set(names)) == count and all(name.strip() for name in names)
    return names if named else tuple(map(str, range(count)))


def landmarks_from_results(studio: Studio) -> tuple[str, ...]:
    """The landmarks of the newest result in the --results folder that has a fit of an open image; or none."""
    if studio.results is None:
        return ()
    shelf, places = _desk(studio).shelf, [studio.results]
    for found in shelf.search(places).results:
        try:
            opened = shelf.open(found.id, places)
            for number in range(min(opened.sheet.count, _LOOKED_AT)):
                points = opened.sheet.points(number)
                if points is not None and _is_open(studio, opened, number):
                    return landmarks_of(opened, len(points))
        except (Refused, ValueError, LookupError, OSError):
            continue  # Said where the result is opened.
    return ()


def _is_open(studio: Studio, opened: Opened, number: int) -> bool:
    """Whether the image of a row is one of the collection's."""
    try:
        path = gallery_of(studio, opened).find(opened.sheet.image(number), opened.sheet.size(number))
    except ImageError:
        return False
    return index_of(studio, path) is not None


def offer(
    points: Float64, lists: Mapping[str, Float64 | None], confidence: float | None, name: str
) -> Proposal:
    """A fit as a proposal: what is known about each landmark says which a person should look at first.

    That is how far it is from the truth, or how uncertain it was; otherwise all are alike.
    """
    size = float(shape_size(points))
    distances, spread = lists.get("distances"), lists.get("spread")
    known = None if distances is None else distances * size
    sigma = next(
        (some for some in (known, spread) if some is not None and len(some) == len(points)),
        np.full(len(points), _UNSURE * size),
    )
    sigma = np.where(np.isfinite(sigma), np.maximum(sigma, 1e-3), _UNSURE * size)
    there = np.flatnonzero(np.isfinite(points).all(axis=1))
    return Proposal(
        points=points,
        covariance=np.square(sigma)[:, None, None] * np.eye(2),
        order=there[np.argsort(-sigma[there], kind="stable")],
        confidence=float("nan") if confidence is None else confidence,
        model=0,
        reason=f"These points are a fit from the results “{name}”. Correct those that are wrong.",
        kept=there,
        beliefs=(),
        held={},
    )
