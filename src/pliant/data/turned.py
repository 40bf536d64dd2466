"""Whether landmarks were counted from the other edge of the image: turned over, they would lie on the same things.

The same landmark looks alike in different images. So patches around each are compared between samples, as the
landmarks are and with y counted from the lower edge. In 40 draws of 24 fly wings, chest radiographs, fish and
faces, at most 21 % of the landmarks were more alike when turned over; in 125 draws of 8, at most 38 %. Turned
on purpose, all draws of 24 were noticed, and 115 of those of 8.
"""

from __future__ import annotations

import numpy as np

from pliant.appearance.tones import as_grey
from pliant.arrays import Float64, Image
from pliant.data.validation import Validated

_FEWEST, _MOST = 8, 24
"""How many samples tell, and how many are looked at."""

_REACH = 0.12
"""Half the side of a patch, as a share of the object's size."""

_SIDE = 9
_SHARE = 0.75
"""The share of landmarks that must be more alike when turned over, and by how much their correlation on average."""
_GAIN = 0.05


def turned_over(valid: Validated) -> str | None:
    """A sentence if the landmarks of most samples fit better with y counted from the other edge."""
    if len(valid.dataset) < _FEWEST:
        return None
    chosen = np.unique(np.linspace(0, len(valid.dataset) - 1, _MOST).astype(int))
    points = valid.points[chosen]
    known = ~np.isnan(points).any(axis=(0, 2))
    if known.sum() < 3:
        return None
    patches = np.array(
        [
            _both(valid.dataset[int(number)].image(), shape[known])
            for number, shape in zip(chosen, points, strict=True)
        ]
    )
    plain, turned = _alike(patches[:, 0]), _alike(patches[:, 1])
    share = float(np.mean(turned > plain))
    if share < _SHARE or np.mean(turned) < np.mean(plain) + _GAIN:
        return None
    return (
        f"{share:.0%} of the landmarks look more alike from image to image when they are flipped vertically: "
        "if their y is counted from the lower edge, read them with a format that says so, such as "
        "format=csv:bottom-left."
    )


def _both(image: Image, points: Float64) -> Float64:
    """Patches `(2, v, p)` without their mean and contrast, at the points and at those counted from below."""
    import cv2

    reach = max(_REACH * float(np.mean(np.ptp(points, axis=0))), 1.0)
    grey = np.asarray(cv2.GaussianBlur(as_grey(image), (0, 0), max(reach / 6, 0.5)))
    across, down = np.meshgrid(*[np.linspace(-reach, reach, _SIDE)] * 2)
    found = []
    for y in (points[:, 1], len(grey) - 1 - points[:, 1]):
        x_of = (points[:, :1] + across.reshape(1, -1)).astype(np.float32)
        y_of = (y[:, None] + down.reshape(1, -1)).astype(np.float32)
        values = cv2.remap(grey, x_of, y_of, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).astype(
            np.float64
        )
        values -= values.mean(axis=1, keepdims=True)
        # A patch that is nearly blank resembles nothing.
        found.append(values / (np.linalg.norm(values, axis=1, keepdims=True) + 1e-3))
    return np.array(found)


def _alike(patches: Float64) -> Float64:
    """The mean correlation `(v,)` of the patches `(k, v, p)` of each landmark in different samples."""
    count = len(patches)
    together = np.sum(patches.sum(axis=0) ** 2, axis=-1) - np.sum(patches**2, axis=(0, 2))
    return np.asarray(together / (count * (count - 1)))
