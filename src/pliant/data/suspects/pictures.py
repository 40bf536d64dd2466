"""What pictures say: images that are blank where the object should be, and the same picture twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pliant.appearance.tones import as_grey
from pliant.arrays import Float32, Float64
from pliant.data.dataset import Dataset, Sample
from pliant.data.suspects.suspect import Suspect

_CONTRAST = 0.004
"""The standard deviation of grey values, from 0 to 1, below which an object cannot be seen."""

_ALIKE = 0.96
"""The correlation of two thumbnails, less what all samples have in common, beyond which they are one picture."""

_THUMBNAIL = 40


def thumbnail(sample: Sample, points: Float64) -> Float32:
    """The object in grey from 0 to 1, `(40, 40)`."""
    import cv2

    image = sample.image()
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.1 * (high - low)
    height, width = image.shape[:2]
    left, top = np.clip(np.floor(low - margin), 0, (width - 2, height - 2)).astype(int)
    right, bottom = np.clip(np.ceil(high + margin) + 1, (left + 2, top + 2), (width, height)).astype(int)
    part = as_grey(image[top:bottom, left:right])
    return np.asarray(cv2.resize(part, (_THUMBNAIL, _THUMBNAIL), interpolation=cv2.INTER_AREA))


def blank(dataset: Dataset, thumbnails: Float32) -> Iterator[Suspect]:
    contrast = thumbnails.std(axis=(1, 2))
    for number in np.flatnonzero(contrast < _CONTRAST):
        reason = "the image is nearly blank where the object should be."
        severity = float(_CONTRAST / max(contrast[number], _CONTRAST / 10))
        yield Suspect(int(number), dataset[int(number)].name, "blank", reason, severity)


def duplicates(dataset: Dataset, thumbnails: Float32) -> Iterator[Suspect]:
    """Samples that show an earlier one's picture, also if it was cropped, compressed or mirrored."""
    seen = np.flatnonzero(thumbnails.std(axis=(1, 2)) >= _CONTRAST)
    pictures = thumbnails[seen]
    plain, mirrored = _without_common(pictures), _without_common(pictures[:, :, ::-1])
    for row in range(1, len(seen)):
        # Against earlier ones alone, so that of two that are alike the second is the suspect.
        alike = plain[:row] @ plain[row]
        turned = mirrored[:row] @ plain[row]
        twin = int(np.argmax(np.maximum(alike, turned)))
        if max(alike[twin], turned[twin]) > _ALIKE:
            how = "is the same picture as" if alike[twin] >= turned[twin] else "is a mirrored copy of"
            likeness = float(max(alike[twin], turned[twin]))
            yield _duplicate(dataset, int(seen[row]), int(seen[twin]), how, likeness)


def _duplicate(dataset: Dataset, number: int, other: int, how: str, alike: float) -> Suspect:
    one, twin = dataset[number], dataset[other]
    leak = ""
    if one.split != twin.split:
        leak = f", and the two are in different parts ({one.split or 'none'}, {twin.split or 'none'})"
    elif one.group != twin.group:
        leak = f", and the two are in different groups ({one.group or 'none'}, {twin.group or 'none'})"
    # Whether two pictures are the same is no matter of degree, and weighs more than a landmark a little off.
    severity = 10 * alike / _ALIKE + (10 if leak else 0)
    near = twin.name.rsplit("/", 1)[-1]
    return Suspect(number, one.name, "duplicate", f"{how} {near}{leak}.", severity, other=twin.name)


def _without_common(pictures: Float32) -> Float32:
    """Pictures `(n, 40, 40)` as rows of length 1 without their mean, contrast, and what they have in common."""
    rows = pictures.reshape(len(pictures), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows -= rows.mean(axis=0)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), dtype=np.float32)
