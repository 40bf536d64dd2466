"""Samples that are valid and yet look wrong: a person should see them before a model is trained on them.

Landmarks are judged by a Gaussian model of the shapes of the other samples (`usual.py`): those far from where the
right ones of the same image put them are wrong (`wrong.py`), and what has happened to them is guessed (`kinds.py`).
No threshold here depends on the object. `benchmarks/suspects.py` puts errors into real data and counts those found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from pliant.arrays import Float64
from pliant.data.suspects import whole
from pliant.data.suspects.edges import from_another_edge
from pliant.data.suspects.kinds import explained, swapped_pairs
from pliant.data.suspects.pictures import blank, duplicates, thumbnail
from pliant.data.suspects.stated import stated_otherwise
from pliant.data.suspects.suspect import COUNTED_FROM_0, Suspect, about_numbers
from pliant.data.suspects.usual import Bools
from pliant.data.suspects.wrong import Findings, beginning, find_wrong
from pliant.data.validation import Validated
from pliant.shape.facing import facing_alike, find_mirrored
from pliant.shape.missing import complete
from pliant.threads import one_blas_thread

__all__ = [
    "CHECKS", "COUNTED_FROM_0", "FEWEST", "Suspect", "about_numbers", "find_suspects", "from_another_edge",
    "suspicious_points",
]  # fmt: skip

CHECKS = (
    "facing", "order", "shape", "size", "rotation", "names", "resized", "scale", "blank", "duplicate", "turned",
)  # fmt: skip

FEWEST = 20
"""So many samples tell what is usual; among fewer, images alone are looked at."""

_LEAST_KNOWN = 4
"""Landmarks that an image must have, and images that a landmark must be in, to be compared with others."""

_SHAPE = 3.2
"""How many standard deviations all landmarks of a shape may be off together."""

_ORDER = {"swapped", "out of order", "reversed", "mislabelled"}
"""Kinds of findings that the check of the order makes; all others are the shape's."""


def find_suspects(
    valid: Validated,
    skip: Collection[str] = (),
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> list[Suspect]:
    """Suspicious samples, the worst first; `skip` names checks to leave out."""
    unknown = sorted(set(skip) - set(CHECKS))
    if unknown:
        raise ValueError(f"there is no check '{unknown[0]}'. Known checks: {', '.join(CHECKS)}.")
    if not len(valid.dataset):
        return []
    names = [sample.name for sample in valid.dataset]
    found = suspicious_points(valid.points, valid.sizes, valid.names, names, skip)
    found = list(from_another_edge(found, valid.points, lambda number: valid.dataset[number].image()))
    if not {"names", "resized", "scale"} <= set(skip):
        found += stated_otherwise(valid.dataset, valid.points, valid.sizes, skip)
    if "blank" not in skip or "duplicate" not in skip:
        shapes = complete(valid.points)
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            pictures = []
            for picture in pool.map(thumbnail, valid.dataset, shapes):
                pictures.append(picture)
                advance()
        thumbnails = np.array(pictures)
        if "blank" not in skip:
            found += blank(valid.dataset, thumbnails)
        if "duplicate" not in skip:
            found += duplicates(valid.dataset, thumbnails)
    return sorted(found, key=lambda suspect: -suspect.severity)


def suspicious_points(
    points: Float64,
    sizes: Sequence[tuple[int, int]] = (),
    landmarks: Sequence[str] = (),
    names: Sequence[str] = (),
    skip: Collection[str] = (),
    advance: Callable[[], None] = lambda: None,
) -> list[Suspect]:
    """What the landmarks alone say, the worst first, without looking at any image.

    Parameters
    ----------
    points
        Landmarks `(k, v, 2)` of k images; nan where one is missing.
    sizes
        Width and height of the images, if they are known.
    landmarks, names
        What the landmarks and the images are called, if they have names.
    skip
        Checks of `CHECKS` to leave out.
    advance
        Is called often, so that it can show that the search goes on, or raise an exception to stop it.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> points = np.array([face.points() for face in pliant.synthetic.faces(40)])
    >>> points[7, [36, 45]] = points[7, [45, 36]]
    >>> worst = suspicious_points(points)[0]
    >>> worst.number, worst.kind, worst.landmarks
    (7, 'swapped', (36, 45))

    """
    known: Bools = ~np.isnan(points[:, :, 0])
    # Landmarks that are hardly anywhere, and images that have hardly any, say nothing about each other.
    columns = np.flatnonzero(known.sum(axis=0) >= min(_LEAST_KNOWN, len(points)))
    rows = np.flatnonzero(known[:, columns].sum(axis=1) >= max(_LEAST_KNOWN, len(columns) / 2))

    def label(landmark: int) -> str:
        number = columns[landmark]
        return f"'{landmarks[number]}'" if len(landmarks) else f"landmark {number}"

    def named(row: int) -> str:
        return names[rows[row]] if len(names) else str(rows[row])

    part = points[np.ix_(rows, columns)]
    frames = [sizes[int(row)] for row in rows] if len(sizes) else []
    found = []
    for suspect in _suspicious(part, frames, label, named, skip, advance):
        number, mend = int(rows[suspect.number]), None
        if suspect.mend is not None:
            mend = points[number].copy()
            mend[columns] = suspect.mend
        here = tuple(int(columns[landmark]) for landmark in suspect.landmarks)
        found.append(replace(suspect, number=number, landmarks=here, mend=mend))
    return sorted(found, key=lambda suspect: -suspect.severity)


def _suspicious(
    points: Float64,
    sizes: Sequence[tuple[int, int]],
    label: Callable[[int], str],
    named: Callable[[int], str],
    skip: Collection[str],
    advance: Callable[[], None],
) -> list[Suspect]:
    mirrored = find_mirrored(points)
    found = list(whole.facing(mirrored, named))
    if len(points) >= FEWEST:
        known: Bools = ~np.isnan(points[:, :, 0])
        alike = facing_alike(complete(points), mirrored)
        with one_blas_thread():
            begun = beginning(alike, known)
            far = whole.typical(begun.distances)
            order = list(whole.disordered(alike, known, begun.mean, far, points, named))
            found += order
            found += whole.unusual_sizes(begun.poses, begun.mean, far, points, sizes, named)
            found += whole.unusual_rotations(begun.poses, named)
            if "shape" not in skip or "order" not in skip:
                apart = np.isin(np.arange(len(points)), [suspect.number for suspect in order])
                judged = find_wrong(alike, known, begun, apart, advance)
                found += _of_landmarks(judged, apart, points, mirrored, label, named)
    return [suspect for suspect in found if suspect.check not in skip]


def _of_landmarks(
    judged: Findings,
    apart: Bools,
    points: Float64,
    mirrored: Bools,
    label: Callable[[int], str],
    named: Callable[[int], str],
) -> Iterator[Suspect]:
    """What is wrong with single landmarks, or with so many that nobody can tell which."""
    findings = [
        (int(number), finding)
        for number in np.flatnonzero(judged.wrong.any(axis=1) & ~judged.hopeless & ~apart)
        for finding in explained(judged, int(number), points[number], bool(mirrored[number]), points, label)
    ]
    findings += [pair for pair in swapped_pairs(judged, points, label) if not apart[pair[0]]]
    for number, one in findings:
        check = "order" if one.kind in _ORDER else "shape"
        yield Suspect(
            number, named(number), check, one.reason, one.severity, one.landmarks, "", one.kind, one.mend
        )
    for number in map(int, np.flatnonzero(~apart)):
        overall = judged.overall[number]
        if judged.hopeless[number] or overall >= _SHAPE:
            reason = f"the whole shape is unusual: {overall:.1f} times the usual deviation."
            yield Suspect(number, named(number), "shape", reason, max(1.0, overall / _SHAPE), kind="unusual")
