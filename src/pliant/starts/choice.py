"""Finding where to start in an image that nobody has annotated: a detector, the usual placement, or a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.model import Model, as_model
from pliant.settings import Detector, Fitting, Starting
from pliant.starts.boxes import centre_box
from pliant.starts.detectors import (
    DETECTORS,
    detected,
    find_detector,
)
from pliant.starts.found import NothingFound
from pliant.starts.placement import (
    IMAGE,
    Placement,
    image_box,
    placed,
)
from pliant.starts.scan import judge_of, make_object_search, make_scan

RELIABLE = 0.15
"""Placement is a start of its own if nine of ten training images have a starting error below this.

It matters where nobody can say whether a fit is to be trusted. Otherwise the placement is tried in any case.
"""

_SUSPECTS, _PATIENCE = 20, 3
"""Objects that a scan may suspect in an image, and how many of them in a row may be none."""

_FEWEST = 8
"""An image with a side of fewer pixels has nothing in it."""

FindStarts = Callable[[Image], Float64]
"""From an image to starts `(k, v, 2)` or one box `(4,)`; a ValueError says why there is none."""

FindObjects = Callable[[Image], list[Floats]]
"""From an image to starts of each object that may be there, `(k, v, 2)` or a box `(4,)`, the likeliest first; a
ValueError says why there is none."""


@dataclass(frozen=True)
class Way:
    """A way of finding where fits begin.

    `several` says whether it may find more than one object. After `patience` fits in a row that are not trusted,
    the rest of what it suspects is given up.
    """

    name: str
    find: FindObjects
    several: bool = False
    patience: int | None = None


@dataclass(frozen=True)
class Chain:
    """Ways of starting, the cheapest first, to be tried until a fit is trusted."""

    ways: tuple[Way, ...]


def find_starts(
    model: Model | Path | str, settings: Starting | str | None = None, **changes: Any
) -> FindStarts:
    """Return a function that finds the starts in an image.

    The function gives starts for one object. `fit` without starts finds all objects, and tries several ways.

    Parameters
    ----------
    model : Model, str or Path
        The model to look for, or its file. `auto` uses the detector that the model learned about, else the
        placement in its training images if that is much the same in all, else a scan.
    settings : Starting, str or None
        How to look; `Starting()` by default, and a string is a way to start. The first of the `tries` is the most
        likely start; the others are drawn around it with the learned spread, from `seed`. A scan gives its best
        finds. `docs/explanation/starts.md` measures what more and fewer tries are worth. If the model was trained
        with a detector that has no name, give the same one as `detector`. Its first box is used; that of Haar's is
        the largest.
    **changes
        Settings by their names, in place of those in `settings`.

    Returns
    -------
    callable
        From an image, `(h, w)` or `(h, w, 3)`, to starts `(k, v, 2)` or one box `(4,)`. It raises a ValueError
        that says why there is no start.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> find = pliant.find_starts(model, "placement", tries=3)
    >>> starts = find(pliant.read_image("new.jpg"))
    >>> starts.shape
    (3, 68, 2)
    >>> pliant.fit(model, "new.jpg", starts).points.shape
    (68, 2)

    """
    model = as_model(model)
    if isinstance(settings, str):
        settings = Starting(start=settings)
    settings = (settings or Starting()).changed(**changes)
    if settings.start == "landmarks":
        raise ValueError("start=landmarks: landmarks cannot be found in an image; give them as starts.")
    chosen = chosen_way(model, settings.detector) if settings.start == "auto" else settings.start
    if chosen == "scan":
        # The best finds in all of the image compete, wherever they are.
        find: FindStarts = make_scan(model, settings.tries, settings.any_rotation, _listens(settings))
    else:
        find = partial(_first, _find(model, chosen, settings))
    if chosen == "detector" and settings.fallback is not None:
        find = _either(find, find_starts(model, settings, start=settings.fallback, fallback=None))
    return _looked_at(find)


def find_chain(model: Model, settings: Starting | None = None, **changes: Any) -> Chain:
    """The ways of starting that settings ask for.

    With `auto`: all boxes of the detector that the model knows, the usual place if it knows one, and a scan. Of a
    model that is not calibrated, nobody knows whether its fits are to be trusted: the usual place is then a way
    only if it is much the same in all training images.
    """
    settings = (settings or Starting()).changed(**changes)
    if settings.start != "auto":
        return Chain((_way(model, settings.start, settings),))
    if settings.fallback is not None:
        raise ValueError(
            f"fallback={settings.fallback}: start=auto tries other ways anyway; use fallback with "
            "start=detector."
        )
    names = ["detector"] if _knows_detector(model, settings.detector) else []
    usual = _known(model, IMAGE)
    if usual is not None and (model.confidence is not None or usual.error_90 < RELIABLE):
        names.append("placement")
    return Chain(tuple(_way(model, name, settings) for name in [*names, "scan"]))


def chosen_way(model: Model, detector: str | Detector | None = None) -> str:
    """What `auto` begins with."""
    if _knows_detector(model, detector):
        return "detector"
    usual = _known(model, IMAGE)
    return "placement" if usual is not None and usual.error_90 < RELIABLE else "scan"


def described_way(model: Model, settings: Starting) -> str:
    """Where fits begin, in words: what `auto` stands for is said."""
    if settings.start != "auto":
        return settings.start
    ways = [_described(model, way.name) for way in find_chain(model, settings).ways]
    return f"{', then '.join(ways)}, chosen by auto"


def _described(model: Model, way: str) -> str:
    known = next((p for p in model.placements if (p.reference == IMAGE) == (way == "placement")), None)
    if known is None or way == "scan":
        return way
    return f"{way} (starting error {known.error:.3f} in training, {known.error_90:.3f} for 9 of 10)"


def _way(model: Model, name: str, settings: Starting) -> Way:
    find = _find(model, name, settings)
    if name == "detector" and settings.fallback is not None:
        find = _either(find, _find(model, settings.fallback, settings))
    patience = _PATIENCE if name == "scan" else None
    return Way(name, _looked_at(find), several=name in ("detector", "scan"), patience=patience)


def _either(find: Callable[[Image], Any], otherwise: Callable[[Image], Any]) -> Callable[[Image], Any]:
    """The one, or the other where that finds nothing."""

    def found(image: Image) -> Any:
        try:
            return find(image)
        except NothingFound:
            return otherwise(image)

    return found


def _first(find: FindObjects, image: Image) -> Float64:
    return np.asarray(find(image)[0], dtype=np.float64)


def _looked_at(find: Callable[[Image], Any]) -> Callable[[Image], Any]:
    """The same for images that are large enough to have something in them."""

    def checked(image: Image) -> Any:
        height, width = image.shape[:2]
        if min(height, width) < _FEWEST:
            raise ValueError(f"{width} x {height} pixels are too few to find anything.")
        return find(image)

    return checked


def _find(model: Model, way: str, settings: Starting) -> FindObjects:
    tries, mean = settings.tries, model.levels[-1].shape.mean
    # The first is not moved. The others are the same for all images: one fit must not depend on another.
    moves = np.zeros((tries, 4))
    moves[1::2] = np.random.default_rng(settings.seed).normal(size=(tries // 2, 4))
    # In pairs of opposites, so that a few do not all lean to one side.
    moves[2::2] = -moves[1 : tries - 1 : 2]
    if way == "centre":
        return lambda image: [centre_box(image)]
    if way == "scan":
        listens = _listens(settings)
        # A network moves each suspect to where it sees it: more starts take time and find no more.
        each = tries if judge_of(model, listens) is None else 1
        look = make_object_search(model, _SUSPECTS, each, settings.any_rotation, listens)
        return lambda image: [*look(image)]
    if way == "placement":
        usual = _known(model, IMAGE)
        if usual is None:
            raise ValueError(
                "this model does not know where the object usually is: train it again, or start with a scan."
            )
        return lambda image: [np.array([placed(usual, image_box(image), mean, move) for move in moves])]
    name, run = _detector(model, settings.detector)
    relation = _known(model, name)
    if relation is None:
        raise ValueError(
            f"this model has not learned where the object is in the boxes of {name}: train it with that "
            "detector."
        )
    return partial(_detect, name, run, relation, mean, moves)


def _detect(
    name: str, run: Detector, relation: Placement, mean: Float64, moves: Float64, image: Image
) -> list[Floats]:
    boxes = detected(name, run, image)
    if not len(boxes):
        raise NothingFound(f"the detector {name} found nothing.")
    return [np.array([placed(relation, box, mean, move) for move in moves]) for box in boxes]


def _listens(settings: Starting) -> bool:
    """Whether the model's expert may help to find: unless fits are told not to listen to it."""
    return not isinstance(settings, Fitting) or settings.experts


def _knows_detector(model: Model, detector: str | Detector | None) -> bool:
    return detector is not None or any(known.reference in DETECTORS for known in model.placements)


def _detector(model: Model, detector: str | Detector | None) -> tuple[str, Detector]:
    if detector is not None:
        return find_detector(detector)
    learned = [known.reference for known in model.placements if known.reference != IMAGE]
    if not learned:
        raise ValueError(
            "this model was trained without a detector: train it with one, or start in another way "
            "(placement, scan, centre)."
        )
    if learned[0] not in DETECTORS:
        raise ValueError(
            f"this model was trained with the detector {learned[0]}: give its file, as in "
            "detector=file.py:function."
        )
    return learned[0], DETECTORS[learned[0]]


def _known(model: Model, reference: str) -> Placement | None:
    return next((known for known in model.placements if known.reference == reference), None)
