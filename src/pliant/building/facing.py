"""Samples that face either way, brought to one side before a model is made of them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from pliant.data.dataset import Dataset
from pliant.data.validation import Validated
from pliant.shape.facing import facing_alike, find_mirrored, flipped, side
from pliant.shape.missing import complete

_NAMED = 3
"""How many of the samples that were turned round are named."""


class MixedFacings(UserWarning):
    """Warns that some training images show the object from its other side.

    These images were mirrored, and fits try both sides.

    Examples
    --------
    If you expect one side only, turn the warning into an error:

    >>> import pliant, warnings
    >>> faces = pliant.synthetic.faces(6, seed=1, image_size=64)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.MixedFacings)
    ...     model = pliant.train(faces, size=30, shape_modes=3, confidence=False, progress=False)

    """


def facing_one_way(valid: Validated, facing: str) -> Validated:
    """The samples with those mirrored that face another way, as the setting `facing` has it."""
    if facing == "as-is" or len(valid.dataset) < 2:
        return valid
    mirrored = find_mirrored(valid.points)
    if facing in ("left", "right"):
        found = side(facing_alike(complete(valid.points), mirrored))
        if not found:
            raise ValueError(
                f"facing={facing}: this is the side of the first landmark, but that landmark is in the "
                "middle of this object: give auto or both."
            )
        mirrored = mirrored if found == facing else ~mirrored
    if not np.any(mirrored):
        return valid
    unchanged = range(valid.points.shape[1])
    points = np.array(
        [
            flipped(shape, size[0]) if turned else shape
            for shape, size, turned in zip(valid.points, valid.sizes, mirrored, strict=True)
        ]
    )
    samples = tuple(
        sample.mirrored(unchanged).keeping(None, landmarks) if turned else sample
        for sample, landmarks, turned in zip(valid.dataset, points, mirrored, strict=True)
    )
    if facing == "auto":
        names = [valid.dataset[int(number)].name for number in np.flatnonzero(mirrored)]
        warnings.warn(_told(names, len(mirrored)), MixedFacings, stacklevel=4)
    return replace(
        valid,
        dataset=Dataset(samples, valid.dataset.source),
        points=points,
        mirrored=int(np.sum(mirrored)),
    )


def _told(names: list[str], samples: int) -> str:
    which = ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "")
    one = len(names) == 1
    return (
        f"{len(names)} of {samples} samples {'faces' if one else 'face'} the other way ({which}): they are "
        "mirrored for training, and fits of this model try both directions. Use facing=both to do the same "
        "without this warning, or facing=as-is to mirror nothing."
    )
