"""Landmarks that were counted from the other edge of one image: they form a mirror image, and its object does not.

The landmarks of an object that faces the other way are mirrored too, and rightly so. The picture tells: the same
landmark looks alike in different images. Patches at the landmarks are compared with those of other images: in a
mirror where they are, and upright where they would be if x were counted from the right or y from below.

Of 12 wings and 8 pike whose landmarks were counted otherwise on purpose, all were told, with the right edge; of the
13 other pike that face the other way, none was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pliant.appearance.tones import as_grey
from pliant.arrays import Float64, Image
from pliant.data.suspects.suspect import Suspect
from pliant.shape import shape_size

_OTHERS = 16
"""So many other images are looked at."""

_REACH, _SIDE = 0.1, 9
"""Half the side of a patch, as a share of the object's size, and its pixels along a side."""

_GAIN = 0.08
"""How much more patches must correlate with those of other images for landmarks to be moved to another edge."""

_SYMMETRIC_GAIN = 0.02
"""The same where the object is symmetric, and exchanging left and right is the other guess."""


def from_another_edge(
    suspects: Sequence[Suspect], points: Float64, image_of: Callable[[int], Image]
) -> Iterator[Suspect]:
    """The suspects; of those that are mirror images, what the pictures say.

    Parameters
    ----------
    suspects
        What was found so far.
    points
        Landmarks `(k, v, 2)` of all images.
    image_of
        The image of a number.

    """
    mirrored = {one.number: one for one in suspects if one.kind == "mirrored"}
    usual = _usual_patches(set(mirrored), points, image_of) if mirrored else None
    if usual is None:
        yield from suspects
        return
    seen = {k: _looked_at(one, points[k], image_of, usual) for k, one in mirrored.items()}
    for one in suspects:
        if one.kind == "mirrored":
            yield seen[one.number]
        # Landmarks that are turned over are upside down, and no news.
        elif one.check != "rotation" or one.number not in seen or seen[one.number].kind == "mirrored":
            yield one


def _usual_patches(mirrored: set[int], points: Float64, image_of: Callable[[int], Image]) -> Float64 | None:
    """What landmarks look like on average, `(v, side, side)`; None if no other image can be read."""
    others = [k for k in range(len(points)) if k not in mirrored and not np.isnan(points[k]).any()]
    patches: list[Float64] = []
    for k in np.unique(np.linspace(0, max(len(others) - 1, 0), _OTHERS).astype(int)) if others else ():
        try:
            patches.append(_patches(image_of(others[k]), points[others[k]]))
        except (ValueError, OSError):
            continue  # Said where images are checked.
    return np.mean(patches, axis=0) if len(patches) >= 4 else None


def _looked_at(one: Suspect, points: Float64, image_of: Callable[[int], Image], usual: Float64) -> Suspect:
    try:
        image = image_of(one.number)
    except (ValueError, OSError):
        return one
    height, width = image.shape[:2]
    known = ~np.isnan(points[:, 0])
    as_is = _patches(image, points)
    facing = max(_alike(as_is[:, :, ::-1], usual, known), _alike(as_is[:, ::-1], usual, known))
    guesses = {
        "the x coordinates seem to be counted from the right edge": (width - 1, 0) + points * (-1, 1),
        "the y coordinates seem to be counted from the lower edge": (0, height - 1) + points * (1, -1),
        "x and y seem to be swapped": points[:, ::-1].copy(),
    }
    scores = [_alike(_patches(image, places), usual, known) for places in guesses.values()]
    best = int(np.argmax(scores))
    # On a symmetric object, exchanging left and right is the other guess, and as good as its picture is alike.
    exchanged = -1.0 if one.mend is None else _alike(_patches(image, one.mend), usual, known)
    if scores[best] < (facing + _GAIN if one.mend is None else exchanged + _SYMMETRIC_GAIN):
        return one
    reason = (
        f"{list(guesses)[best]}: once corrected, the landmarks are on the same features as in other images."
    )
    return replace(
        one,
        kind="other edge",
        reason=reason,
        severity=max(one.severity, 2.0),
        mend=list(guesses.values())[best],
    )


def _patches(image: Image, points: Float64) -> Float64:
    """Patches `(v, side, side)` at points `(v, 2)` without their mean and contrast."""
    import cv2

    places = np.where(np.isnan(points), 0.0, points)
    reach = max(_REACH * float(shape_size(points[~np.isnan(points[:, 0])])), 1.0)
    grey = np.asarray(cv2.GaussianBlur(as_grey(image), (0, 0), max(reach / 6, 0.5)))
    across, down = np.meshgrid(*[np.linspace(-reach, reach, _SIDE)] * 2)
    x = (places[:, :1] + across.reshape(1, -1)).astype(np.float32)
    y = (places[:, 1:] + down.reshape(1, -1)).astype(np.float32)
    values = cv2.remap(grey, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).astype(np.float64)
    values -= values.mean(axis=1, keepdims=True)
    # A patch that is nearly blank resembles nothing.
    values /= np.linalg.norm(values, axis=1, keepdims=True) + 1e-3
    return values.reshape(-1, _SIDE, _SIDE)


def _alike(patches: Float64, usual: Float64, known: np.ndarray) -> float:
    return float(np.mean(np.sum(patches * usual, axis=(1, 2))[known]))
