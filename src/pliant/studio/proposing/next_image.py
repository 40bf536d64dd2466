"""Which image next: what the model is unsure of, and what is unlike the images that are done, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Float32, Float64, Image

_SIDE = 16
"""Of the small grey pictures that images are compared by."""

_UNLIKE = 1.5
"""An image is unlike others from so many times the usual distance to the nearest one."""

_UNLIKE_DONE = "This image differs from the ones done so far."


@dataclass(frozen=True)
class Doubt:
    """What a model thinks of its proposal for an image.

    `wrong` is the number of points that it expects to be wrong, of `points`; the worst is off by `deviation` pixels
    or so, and is called `name`.
    """

    wrong: float
    points: int
    deviation: float
    name: str


@dataclass(frozen=True)
class Suggestion:
    """An image to annotate next, by its number among the open ones, and why."""

    index: int
    reason: str


def thumbnail(image: Image) -> Float32:
    """A small grey picture `(256,)` of an image, of which only differences matter: its mean is 0, its length 1."""
    grey = as_grey_bytes(image)
    small = cv2.resize(np.asarray(grey), (_SIDE, _SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
    flat = (small - small.mean()).ravel()
    return np.asarray(flat / max(float(np.linalg.norm(flat)), 1e-6), dtype=np.float32)


def suggestions(
    done: Sequence[Float32], still_open: Sequence[Float32], doubts: Mapping[int, Doubt] | None = None
) -> list[Suggestion]:
    """Open images in the order in which they teach most, the first one first.

    Parameters
    ----------
    done, still_open
        Their thumbnails `(256,)`.
    doubts
        What the model thinks of open images, by their numbers; empty, if there is no model yet, or it has not
        looked at any. A reason stays on the page while a model is learned, so none says that there is none.

    """
    if not still_open:
        return []
    pictures = np.array(still_open)
    apart = _distances(pictures, pictures)
    if not done and not doubts:
        first = int(np.argmin(np.median(apart, axis=1)))
        rest = _spread(apart, [first])
        return [
            Suggestion(first, "This image is typical of many."),
            *(Suggestion(k, "This image differs from the earlier ones.") for k in rest),
        ]
    if not doubts:
        nearest = _distances(pictures, np.array(done)).min(axis=1)
        order = np.argsort(-nearest, kind="stable")
        return [Suggestion(int(k), _UNLIKE_DONE) for k in order]
    return _by_model(pictures, np.array(done) if done else pictures[:0], apart, doubts)


def _by_model(
    pictures: Float32, done: Float32, apart: Float64, doubts: Mapping[int, Doubt]
) -> list[Suggestion]:
    """By how much the model is unsure of, and how far an image is from those that are done; both by rank."""
    count = len(pictures)
    wrong = np.array([doubts[k].wrong / doubts[k].points if k in doubts else np.nan for k in range(count)])
    unsure = np.nan_to_num(wrong, nan=float(np.nanmedian(wrong)) if doubts else 0.0)
    nearest = _distances(pictures, done).min(axis=1) if len(done) else np.ones(count)
    usual = float(np.median(nearest)) or 1.0
    value = unsure / max(float(np.median(unsure)), 0.02) + 0.5 * nearest / usual
    order: list[int] = []
    left = value.copy()
    for _ in range(count):
        best = int(np.argmax(left))
        order.append(best)
        left[best] = -np.inf
        # Its neighbours will be known once it is done.
        near = np.isfinite(left)
        left[near] -= 0.5 * np.exp(-((apart[best][near] / usual) ** 2))
    return [Suggestion(k, _reason(doubts.get(k), nearest[k] / usual)) for k in order]


def _reason(doubt: Doubt | None, distance: float) -> str:
    if distance > _UNLIKE and (doubt is None or doubt.wrong < 0.25 * doubt.points):
        return _UNLIKE_DONE
    if doubt is None:
        return "This image is new to the model."
    count = round(doubt.wrong)
    if count < 1:
        return "The model is sure of all points here."
    points = "1 point" if count == 1 else f"{count} points"
    return f"The model is unsure of {points} here (± {doubt.deviation:.0f} px at '{doubt.name}')."


def _spread(apart: Float64, chosen: list[int]) -> list[int]:
    """The others in an order in which each is as far as possible from all before it."""
    nearest = apart[chosen].min(axis=0)
    rest: list[int] = []
    seen = set(chosen)
    for _ in range(len(apart) - len(chosen)):
        best = max((k for k in range(len(apart)) if k not in seen), key=lambda k: nearest[k])
        rest.append(best)
        seen.add(best)
        nearest = np.minimum(nearest, apart[best])
    return rest


def _distances(one: Float32, other: Float32) -> Float64:
    """Distances `(a, b)` of pictures `(a, n)` from others `(b, n)`."""
    products = np.clip(one @ other.T, -1.0, 1.0).astype(np.float64)
    return np.asarray(np.sqrt(np.maximum(2 - 2 * products, 0.0)))
