"""Endpoints of the page Annotate: what is open, marks and their changes, proposals, and which image is next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from starlette.responses import Response

from pliant.arrays import Float64
from pliant.studio.desk import Studio
from pliant.studio.endpoints import Endpoints
from pliant.studio.marks import Change, Marks, Scale
from pliant.studio.pictures import picture_of

endpoints = Endpoints("annotate")

_MOST_LISTED = 1000


@dataclass(frozen=True)
class Curve:
    """Landmarks in a row, by their numbers from 0; drawn as a line, and resampled to even distances on demand."""

    name: str
    points: list[int]
    closed: bool = False


@dataclass(frozen=True)
class Object:
    """The landmarks of the object: their names, and the curves that they form."""

    names: list[str]
    curves: list[Curve]


@dataclass(frozen=True)
class KnownModel:
    """The model that proposes: how many landmarks, learned from how many images, and the how-manieth it is."""

    landmarks: int
    samples: int
    number: int


@dataclass(frozen=True)
class Project:
    """What is open. `read_only` is a sentence if nothing can be changed; `trouble` are sentences worth reading."""

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
    nearest image before it that has points, to copy from.
    """

    index: int
    name: str
    width: int
    height: int
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

    A change with an `id` that is known already counts once, so that it may be sent again after trouble.
    """

    id: str
    marks: dict[int, tuple[float | None, float | None, int]] | None = None
    finished: bool | None = None
    scale: Scale | None = None


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
