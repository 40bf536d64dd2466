"""Endpoints of the page Annotate: what is open, marks and their changes, proposals, and which image is next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from starlette.responses import Response

from pliant.arrays import Float64
from pliant.data.images import ImageError, image_size
from pliant.studio.desk import KnownModel, Studio
from pliant.studio.proposing.apprentice import Proposal
from pliant.studio.storage.exporting import export
from pliant.studio.storage.landmarks import Curve
from pliant.studio.storage.marks import Change, Scale
from pliant.studio.web.endpoints import Endpoints
from pliant.studio.web.pictures import picture_of
from pliant.studio.web.wire import from_text, to_json

endpoints = Endpoints("annotate")

_MOST_LISTED = 1000


@dataclass(frozen=True)
class Object:
    """The landmarks of the object: their names, and the curves that they form."""

    names: list[str]
    curves: list[Curve]


@dataclass(frozen=True)
class Project:
    """What is open. `read_only` is a sentence if nothing can be changed."""

    name: str
    source: str
    format: str
    read_only: str
    count: int
    done: int
    names: list[str]
    curves: list[Curve]
    model: KnownModel | None
    demo: bool


@dataclass(frozen=True)
class Listed:
    """An image in the list: untouched, begun or finished."""

    index: int
    name: str
    state: Literal["untouched", "begun", "finished"]


@dataclass(frozen=True)
class Listing:
    """A part of the list of images; `total` counts all that are shown by the same rule."""

    total: int
    images: list[Listed]


@dataclass(frozen=True)
class ImageView:
    """An image and what a person has said about it: points (null if not placed) and their states.

    A state is -1 if nobody has looked, 0 if the landmark is absent, 1 if hidden, 2 if visible. `previous` is the
    nearest image before it that has points, to copy from. `trouble` is a sentence if the image cannot be read.
    """

    index: int
    name: str
    width: int
    height: int
    trouble: str
    points: list[tuple[float, float] | None]
    states: list[int]
    finished: bool
    scale: Scale | None
    revision: int
    previous: int | None
    can_undo: bool
    can_redo: bool


@dataclass(frozen=True)
class Proposed:
    """Where a model sees the landmarks: points, their covariances (xx, xy, yy), and the least certain first."""

    points: list[tuple[float, float]]
    deviations: list[tuple[float, float, float]]
    order: list[int]
    confidence: float | None
    model: int
    reason: str


@dataclass(frozen=True)
class NewChange:
    """A patch of an image's marks: landmarks by number, each x, y (null if it is nowhere) and state.

    A change with an `id` that is known already counts once, so that it may be sent again after trouble. False for
    `scale` takes the bar away.
    """

    id: str
    marks: dict[int, tuple[float | None, float | None, int]] = field(default_factory=dict)
    finished: bool | None = None
    scale: Literal[False] | Scale | None = None


@dataclass(frozen=True)
class NewChanges:
    """Changes of one image by one page."""

    client: str
    changes: list[NewChange]


@dataclass(frozen=True)
class Who:
    """Which page asks."""

    client: str


@dataclass(frozen=True)
class Shape:
    """Points of all landmarks, and the numbers of those that a person has fixed."""

    points: list[tuple[float, float] | None]
    fixed: list[int]


@dataclass(frozen=True)
class Points:
    """Points of all landmarks."""

    points: list[tuple[float, float] | None]


@dataclass(frozen=True)
class Next:
    """Which image to do next, and why."""

    index: int
    reason: str


@endpoints.get("/api/project")
def project(studio: Studio) -> Project:
    """The open collection, its landmarks, and the model that makes proposals."""
    collection = studio.collection
    return Project(
        name=collection.name,
        source=str(collection.source),
        format=collection.format,
        read_only=collection.read_only,
        count=len(collection),
        done=len(collection.finished()),
        names=list(collection.names),
        curves=list(collection.curves),
        model=studio.known_model(),
        demo=studio.demo,
    )


@endpoints.put("/api/object")
def describe_object(studio: Studio, body: Object) -> Project:
    """Set the landmarks of the object; landmarks that are already placed cannot be removed."""
    studio.describe(body.names, body.curves)
    return project(studio)


@endpoints.get("/api/images")
def images(
    studio: Studio, first: int = 0, count: int = 100, show: Literal["all", "todo", "done"] = "all"
) -> Listing:
    """A part of the list of images."""
    collection = studio.collection
    done, begun = collection.done, collection.begun
    wanted = {"all": np.ones_like(done), "todo": ~done, "done": done}[show]
    chosen = np.flatnonzero(wanted)
    first = max(first, 0)
    part = chosen[first : first + min(max(count, 0), _MOST_LISTED)].tolist()
    listed = [
        Listed(index, collection.entries[index].key, _state(bool(begun[index]), bool(done[index])))
        for index in part
    ]
    return Listing(len(chosen), listed)


@endpoints.get("/api/images/{index}")
def image(studio: Studio, index: int) -> ImageView:
    """An image's size, points and states."""
    collection = studio.collection
    entry, marks = studio.entry(index), collection.marks(index)
    trouble, size = "", (0, 0)
    try:
        size = image_size(entry.source)
    except ImageError as error:
        trouble = str(error)
    return ImageView(
        index=index,
        name=entry.key,
        width=size[0],
        height=size[1],
        trouble=trouble,
        points=as_points(marks.points),
        states=marks.states.tolist(),
        finished=marks.finished,
        scale=marks.scale,
        revision=collection.revision(index),
        previous=collection.previous(index),
        can_undo=collection.can_undo(index),
        can_redo=collection.can_redo(index),
    )


@endpoints.get("/api/images/{index}/picture")
def picture(studio: Studio, index: int, width: int | None = None) -> Response:
    """The image, upright and in a format for browsers, at most as wide as requested."""
    entry = studio.entry(index)
    return picture_of(entry.source, None if width is None else min(max(width, 8), 4096))


@endpoints.post("/api/images/{index}/changes")
def change_image(studio: Studio, index: int, body: NewChanges) -> ImageView:
    """Change marks; the changes are on disk before the answer is sent."""
    for new in body.changes:
        studio.apply(index, Change(new.id, body.client, new.marks, new.finished, new.scale))
    return image(studio, index)


@endpoints.post("/api/images/{index}/undo")
def undo(studio: Studio, index: int, body: Who) -> ImageView:
    """Undo the last change of an image."""
    studio.entry(index)
    studio.collection.undo(index, body.client)
    studio.learn()
    return image(studio, index)


@endpoints.post("/api/images/{index}/redo")
def redo(studio: Studio, index: int, body: Who) -> ImageView:
    """Redo the last undone change of an image."""
    studio.entry(index)
    studio.collection.redo(index, body.client)
    studio.learn()
    return image(studio, index)


@endpoints.get("/api/images/{index}/history")
def history(studio: Studio, index: int) -> list[dict[str, Any]]:
    """Every change of an image, oldest first."""
    return [to_json(entry) for entry in studio.collection.history(index)]


@endpoints.get("/api/images/{index}/proposal")
def proposal(studio: Studio, index: int) -> Proposed | None:
    """Landmarks that the model proposes for an image; empty if there is no model yet."""
    return _proposed(studio.proposal(index))


@endpoints.get("/api/images/{index}/template")
def template(studio: Studio, index: int) -> Points | None:
    """The mean of the finished shapes, laid into an image as they lie in theirs; empty before the first."""
    mean = studio.template(index)
    return None if mean is None else Points(as_points(mean))


@endpoints.post("/api/images/{index}/refit")
def refit(studio: Studio, index: int, body: Shape) -> Proposed | None:
    """Landmarks that the model proposes if some are fixed."""
    return _proposed(studio.proposal(index, from_points(body.points), body.fixed))


@endpoints.post("/api/images/{index}/follow")
def follow(studio: Studio, index: int, body: Shape) -> Points:
    """The most plausible shape through the fixed points, from the shape model alone: instant."""
    return Points(as_points(studio.followed(index, from_points(body.points), body.fixed)))


@endpoints.get("/api/export")
def export_marks(studio: Studio, format: str = "coco", unfinished: bool = False) -> Response:
    """All finished images as one file: coco, tps, csv, dlib, pts (an archive), or csv-mm and other units."""
    made = export(studio.collection, format, unfinished)
    # Header lines hold Latin letters alone, so what is missing is told to the pages.
    if made.note:
        studio.events.tell("note", sentence=made.note)
    headers = {
        "Content-Disposition": f'attachment; filename="{made.name}"',
        "X-Left-Out": str(len(made.left_out)),
    }
    return Response(made.content, media_type=made.media_type, headers=headers)


@endpoints.get("/api/next")
def next_image(
    studio: Studio, after: int = -1, order: Literal["model", "list"] = "model", skipped: str = ""
) -> Next | None:
    """The image to do next, and why; skipped images (2,7,9) come last. Empty if all are finished."""
    passed = {from_text(int, number, "skipped") for number in skipped.split(",") if number}
    found = studio.next_image(after, order, passed)
    return None if found is None else Next(*found)


def as_points(points: Float64) -> list[tuple[float, float] | None]:
    """Points `(v, 2)` for the wire: null where there is none."""
    return [None if x != x else (round(x, 4), round(y, 4)) for x, y in points.tolist()]


def from_points(points: Sequence[tuple[float, float] | None]) -> Float64:
    """Points `(v, 2)` from the wire."""
    return np.array([(np.nan, np.nan) if point is None else point for point in points], dtype=np.float64)


def _proposed(found: Proposal | None) -> Proposed | None:
    if found is None:
        return None
    spread = found.covariance
    return Proposed(
        points=[(round(x, 4), round(y, 4)) for x, y in found.points.tolist()],
        deviations=np.stack([spread[:, 0, 0], spread[:, 0, 1], spread[:, 1, 1]], axis=-1).tolist(),
        order=found.order.tolist(),
        confidence=found.confidence,
        model=found.model,
        reason=found.reason,
    )


def _state(begun: bool, done: bool) -> Literal["untouched", "begun", "finished"]:
    if done:
        return "finished"
    return "begun" if begun else "untouched"
