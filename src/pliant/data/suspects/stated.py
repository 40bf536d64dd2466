"""What landmark files say besides landmarks, against what is there: names, the size of the image, the scale."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation, Size
from pliant.data.dataset import Dataset
from pliant.data.landmark_names import differing_names, usual_names
from pliant.data.suspects.suspect import Suspect
from pliant.shape import shape_size

_MOST_OFF = 5.0
"""How many times larger or smaller than usual a scale may be, if the object then is that too."""

_FEWEST_SCALES = 4
"""So many scales tell which is usual."""

_SAME_SHAPE = 0.01
"""How far the sides of an image may have been stretched differently for it to have been resized as a whole."""

_CLEAR = 10.0
"""Of a severity that is no matter of degree."""


def stated_otherwise(
    dataset: Dataset, points: Float64, sizes: Sequence[Size], skip: Collection[str]
) -> Iterator[Suspect]:
    """What files say about samples with landmarks `(k, v, 2)` in images of these sizes, where it seems wrong."""
    known = {
        number: sample.annotation()
        for number, sample in enumerate(dataset)
        if isinstance(sample.points_source, (Path, str, Annotation))
    }
    named = [sample.name for sample in dataset]
    if "names" not in skip:
        annotations = list(known.values())
        for index, reason in differing_names(annotations, usual_names(annotations)).items():
            number = list(known)[index]
            yield Suspect(number, named[number], "names", reason, 1.0)
    if "resized" not in skip:
        yield from _resized(known, points, sizes, named)
    if "scale" not in skip:
        yield from _scales(known, points, named)


def _resized(
    known: Mapping[int, Annotation], points: Float64, sizes: Sequence[Size], named: Sequence[str]
) -> Iterator[Suspect]:
    for number, annotation in known.items():
        if annotation.size is None or annotation.size == sizes[number]:
            continue
        reason = _about_sizes(annotation.size, sizes[number])
        growth = np.array(sizes[number]) / annotation.size
        alike = abs(np.log(growth[0] / growth[1])) < _SAME_SHAPE
        # Pixels begin half a pixel before their centres.
        mend = (points[number] + 0.5) * growth - 0.5 if alike else None
        yield Suspect(
            number,
            named[number],
            "resized",
            reason,
            _CLEAR + float(growth.max()),
            kind="resized",
            mend=mend,
        )


def _about_sizes(stated: Size, found: Size) -> str:
    guess = "was it rotated" if stated == found[::-1] else "was it resized or replaced"
    return (
        f"the landmark file says that the image has {stated[0]} x {stated[1]} pixels, but it has {found[0]} x "
        f"{found[1]}: {guess} after it was annotated?"
    )


def _scales(known: Mapping[int, Annotation], points: Float64, named: Sequence[str]) -> Iterator[Suspect]:
    """Scales that cannot be read or are far from the usual, and samples without one among others that have one.

    Images of another magnification have another scale, but their objects do not have another size.
    """
    scales = {number: one.spacing for number, one in known.items() if one.spacing is not None}
    unread = {number: one.unread_scale for number, one in known.items() if one.unread_scale}
    for number, what in unread.items():
        yield Suspect(number, named[number], "scale", f"{what}.", 1.0, kind="unreadable scale")
    if len(scales) < _FEWEST_SCALES:
        return
    usual = float(np.median(list(scales.values())))
    lengths = {
        number: scale * float(shape_size(points[number][~np.isnan(points[number, :, 0])]))
        for number, scale in scales.items()
    }
    usual_length = float(np.median(list(lengths.values())))
    for number, scale in scales.items():
        off = max(scale / usual, usual / scale)
        object_off = max(lengths[number] / usual_length, usual_length / lengths[number])
        if min(off, object_off) > _MOST_OFF:
            reason = (
                f"the scale is {off:.3g} times {'larger' if scale > usual else 'smaller'} than usual: a pixel is "
                f"{scale:.4g} long, and {usual:.4g} in most samples."
            )
            severity = min(off, object_off) / _MOST_OFF
            yield Suspect(number, named[number], "scale", reason, severity, kind="scale of the file")
    if 2 * len(scales) > len(known):
        for number in known.keys() - scales.keys() - unread.keys():
            reason = f"the file gives no scale here, but it does for {len(scales)} of {len(known)} samples."
            yield Suspect(number, named[number], "scale", reason, 1.0, kind="no scale")
