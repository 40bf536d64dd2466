"""Finding where to start in an image that nobody has annotated: a detector, the usual placement, or a scan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pliant.arrays import Float64, Image
from pliant.model import Model
from pliant.starts.boxes import centre_box
from pliant.starts.detectors import (
    DETECTORS,
    Detector,
    detected,
    find_detector,
)
from pliant.starts.placement import (
    IMAGE,
    Placement,
    image_box,
    placed,
)
from pliant.starts.scan import (
    NothingFound,
    make_scan,
)

WAYS = ("auto", "detector", "placement", "scan", "centre")

RELIABLE = 0.15
"""Placement is a start of its own if nine of ten training images have a starting error below: docs/starts.md."""

_FEWEST = 8
"""An image with a side of fewer pixels has nothing in it."""

_TRIES = 5
"""Starts in an image, if not told otherwise: docs/starts.md has what more and fewer are worth."""

FindStarts = Callable[[Image], Float64]
"""From an image to starts `(k, v, 2)` or one box `(4,)`; a ValueError says why there is none."""


def find_starts(
    model: Model,
    way: str = "auto",
    *,
    detector: str | Detector | None = None,
    tries: int = _TRIES,
    every_box: bool = False,
    fallback: str | None = None,
    seed: int = 0,
) -> FindStarts:
    """A function that finds the starts in an image.

    `auto` is the detector that the model learned about, else the placement in the training images if that is much
    the same in all, else a scan. `detector` is the one that the model was trained with, if it has no name of its
    own. Of the `tries`, the first is the most likely start, and the others are drawn about it by the learned
    spread, from `seed`; a scan gives its best finds. Of a detector's boxes the first is taken, which for Haar's is
    the largest, or `every_box`. `fallback` is another way, for images in which the detector finds nothing.
    """
    if tries < 1:
        raise ValueError(f"tries = {tries!r}: try at least one start.")
    chosen = chosen_way(model, detector) if way == "auto" else way
    if chosen not in WAYS:
        raise ValueError(f"there is no way '{way}' to find a start. Known: {', '.join(WAYS)}.")
    find = _find(model, chosen, detector, tries, every_box, seed)
    otherwise = None if fallback is None else find_starts(model, fallback, tries=tries, seed=seed)

    def checked(image: Image) -> Float64:
        height, width = image.shape[:2]
        if min(height, width) < _FEWEST:
            raise ValueError(f"{width} x {height} pixels are too few to find anything in.")
        try:
            return find(image)
        except NothingFound:
            if otherwise is None:
                raise
            return otherwise(image)

    return checked


def chosen_way(model: Model, detector: str | Detector | None = None) -> str:
    """What `auto` stands for with this model."""
    if detector is not None or any(known.reference in DETECTORS for known in model.placements):
        return "detector"
    usual = _known(model, IMAGE)
    return "placement" if usual is not None and usual.error_90 < RELIABLE else "scan"


def _find(
    model: Model, way: str, detector: str | Detector | None, tries: int, every_box: bool, seed: int
) -> FindStarts:
    mean = model.levels[-1].shape.mean
    # The first is not moved. The others are the same for all images: one fit must not depend on another.
    moves = np.zeros((tries, 4))
    moves[1::2] = np.random.default_rng(seed).normal(size=(tries // 2, 4))
    # In pairs of opposites, so that a few do not all lean to one side.
    moves[2::2] = -moves[1 : tries - 1 : 2]
    if way == "centre":
        return centre_box
    if way == "scan":
        return make_scan(model, tries)
    if way == "placement":
        usual = _known(model, IMAGE)
        if usual is None:
            raise ValueError(
                "this model does not know where the object usually is: train it again, or start with a scan."
            )
        return lambda image: np.array([placed(usual, image_box(image), mean, move) for move in moves])
    name, run = _detector(model, detector)
    relation = _known(model, name)
    if relation is None:
        raise ValueError(
            f"this model has not learned where the object is in the boxes of {name}: train it with that detector."
        )
    return partial(_detect, name, run, relation, mean, moves, every_box)


def _detect(
    name: str,
    run: Detector,
    relation: Placement,
    mean: Float64,
    moves: Float64,
    every_box: bool,
    image: Image,
) -> Float64:
    boxes = detected(name, run, image)
    if not len(boxes):
        raise NothingFound(f"the detector {name} found nothing.")
    return np.array(
        [placed(relation, box, mean, move) for box in (boxes if every_box else boxes[:1]) for move in moves]
    )


def _detector(model: Model, detector: str | Detector | None) -> tuple[str, Detector]:
    if detector is not None:
        return find_detector(detector)
    learned = [known.reference for known in model.placements if known.reference != IMAGE]
    if not learned:
        raise ValueError(
            "this model has learned about no detector: train it with one, or start in another way "
            "(placement, scan, centre)."
        )
    if learned[0] not in DETECTORS:
        raise ValueError(
            f"this model was trained with the detector {learned[0]}: say where it is (--detector)."
        )
    return learned[0], DETECTORS[learned[0]]


def _known(model: Model, reference: str) -> Placement | None:
    return next((known for known in model.placements if known.reference == reference), None)
