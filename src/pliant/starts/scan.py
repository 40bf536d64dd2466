"""Looking for the object all over an image, with nothing but the model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pliant.arrays import Float64, Image
from pliant.experts.network import NetworkExpert, has_engine
from pliant.model import Model
from pliant.shape.facing import flipped, other_way
from pliant.starts.filtering import search, turns_of
from pliant.starts.found import NothingFound, check_sides, separated
from pliant.starts.judging import judged
from pliant.starts.windows import make_window_scan

LEAST = -0.5
"""Answers of the filter below this are no finds: it was 1 for objects in training, and -1 for all else."""

_PEAKS = 300
"""Most finds, before those of one object are put together."""

_JUDGED = 30
"""Suspects that a network looks at, or as many as are wanted if these are more."""

_TOGETHER = 2
"""Starts on one object, before those on the next."""


def make_scan(
    model: Model, best: int = 5, any_rotation: bool = False, experts: bool = True
) -> Callable[[Image], Float64]:
    """A function that finds the `best` starts `(k, v, 2)` in an image, the most likely first.

    They are on several places, if there are several that look like the object: a fit tells which is one. With
    `any_rotation` the object may be turned by any angle.
    """
    if model.object_filter is None:
        return make_window_scan(model, best)
    look = make_object_search(model, best, best, any_rotation, experts)

    def scan(image: Image) -> Float64:
        objects = look(image)
        first = [start for starts in objects for start in starts[:_TOGETHER]]
        more = [start for starts in objects for start in starts[_TOGETHER:]]
        return np.array([*first, *more][:best])

    return scan


def make_object_search(
    model: Model, most: int = 20, starts: int = 5, any_rotation: bool = False, experts: bool = True
) -> Callable[[Image], list[Float64]]:
    """A function that finds up to `most` separate objects in an image, the most likely first.

    Each object is up to `starts` starts `(k, v, 2)`, k >= 1, the best first; different objects do not overlap much.
    Not all of them are objects: a fit with its confidence tells. The function raises `NothingFound`, a ValueError
    with a sentence, where there is none. An object that may face both ways is looked for in
    the mirror image too. With `experts`, the network of a model that has one says which are the most likely. Make
    it once for many images: threads may share it.
    """
    judge = judge_of(model, experts)
    if judge is None:
        return _make_search(model, most, starts, any_rotation)
    suspects = _make_search(model, max(_JUDGED, most), starts, any_rotation)
    return lambda image: judged(judge, image, suspects(image), most, starts, model.faces_both_ways)


def judge_of(model: Model, experts: bool = True) -> NetworkExpert | None:
    """The network that says which of the suspects are objects, if the model has one and it is to be asked."""
    network = model.expert
    return network if experts and isinstance(network, NetworkExpert) and has_engine() else None


def _make_search(
    model: Model, most: int, starts: int, any_rotation: bool
) -> Callable[[Image], list[Float64]]:
    """The same, by what was learned about windows alone."""
    found = model.object_filter
    if found is None:
        window_scan = make_window_scan(model, most * starts)
        return lambda image: separated(window_scan(image), most, starts)
    turns = turns_of(found, any_rotation)

    def look(image: Image) -> list[Float64]:
        check_sides(image)
        answers, shapes = search(found, image, turns, LEAST, _PEAKS)
        if model.faces_both_ways:
            others, mirrored = search(found, np.ascontiguousarray(image[:, ::-1]), turns, LEAST, _PEAKS)
            # Where they are and not which way they face: fits try both, and see more of it.
            there = [flipped(other_way(found.shape, shape), image.shape[1]) for shape in mirrored]
            best = np.argsort(-np.concatenate([answers, others]), kind="stable")[:_PEAKS]
            shapes = np.array([*shapes, *there]).reshape(-1, *found.shape.shape)[best]
        if not len(shapes):
            raise NothingFound("the scan found nothing in this image that looks like the object.")
        return separated(shapes, most, starts)

    return look


def find_objects(model: Model, image: Image, most: int = 20, any_rotation: bool = False) -> list[Float64]:
    """Up to `most` separate objects in an image `(h, w)` or `(h, w, 3)`: starts `(k, v, 2)` each, best first."""
    return make_object_search(model, most, any_rotation=any_rotation)(image)
