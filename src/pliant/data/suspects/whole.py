"""Objects that are unusual as a whole: in a mirror, numbered backwards, far larger than the rest, or turned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pliant.arrays import Float64
from pliant.data.suspects.suspect import Suspect
from pliant.data.suspects.usual import Bools, robust_poses
from pliant.shape import Similarity, shape_size
from pliant.shape.symmetry import find_mirror

Named = Callable[[int], str]

_SPREADS = 6.0
"""How many (robust) standard deviations size and rotation may be from the usual."""

_LEAST_TURN = np.radians(45)
_LEAST_GROWTH = np.log(1.5)
_GAP = 1 / 3
"""The least gap, as a share of the least deviation, between what is usual and what is not."""

_FACTORS = (10.0, 100.0, 2.0, 4.0, 8.0, 3.0, 5.0, 2.54, 25.4)
"""Scales that people mistake: decimals, pictures that were shrunk, inches."""

_NEAR_FACTOR = np.log(1.25)


def facing(mirrored: Bools, named: Named) -> Iterator[Suspect]:
    for number in map(int, np.flatnonzero(mirrored)):
        reason = "the object faces the other way: it is mirrored, not rotated."
        yield Suspect(number, named(number), "facing", reason, 1.0, kind="mirrored")


def disordered(
    shapes: Float64, known: Bools, mean: Float64, distances: Float64, points: Float64, named: Named
) -> Iterator[Suspect]:
    """Shapes that fit the mean `(v, 2)` far better in a mirror, or from the last landmark to the first.

    `distances (k,)` say how far shapes `(k, v, 2)` are from the mean; `points (k, v, 2)` are those of the images.
    """
    far = np.flatnonzero(_is_far(distances))
    if not len(far):
        return
    some, here = shapes[far], known[far]
    mirror = np.array([-1.0, 1.0])
    others = {
        "left and right seem to be swapped: mirrored, the landmarks fit": (some * mirror, here),
        "the order seems to be reversed: from last to first, the landmarks fit": (
            some[:, ::-1],
            here[:, ::-1],
        ),
        "the order seems to be reversed and mirrored: turned over, the landmarks fit": (
            some[:, ::-1] * mirror,
            here[:, ::-1],
        ),
    }
    partners = _partners(np.delete(shapes, far, axis=0))
    nearer = np.array([typical(robust_poses(mean, *other)[1]) for other in others.values()])
    for row in np.flatnonzero(nearer.min(axis=0) < 0.5 * distances[far]):
        best = int(np.argmin(nearer[:, row]))
        number = int(far[row])
        ratio = float(distances[number] / max(nearer[best, row], 1e-9))
        reason = f"{list(others)[best]} {_times(ratio)} better."
        mend = points[number, ::-1].copy() if best == 1 else None
        if best == 0 and partners is not None:
            mend = points[number, partners]
        kind = ("mirrored", "reversed", "reversed")[best]
        yield Suspect(number, named(number), "order", reason, 10 + ratio, kind=kind, mend=mend)


def _partners(shapes: Float64) -> list[int] | None:
    """Which landmarks change places in a mirror; None if the object is not symmetric."""
    try:
        return [int(partner) for partner in find_mirror(shapes)]
    except ValueError:
        return None


def typical(distances: Float64) -> Float64:
    """The median `(k,)` of the distances `(k, v)` that are known."""
    return np.asarray(np.nanmedian(distances, axis=1))


def unusual_sizes(
    poses: Similarity,
    mean: Float64,
    distances: Float64,
    points: Float64,
    frames: Sequence[tuple[int, int]],
    named: Named,
) -> Iterator[Suspect]:
    """`distances (k,)` are as in `disordered`; `frames` are width and height of the images, if they are known."""
    sizes = _sizes(poses, mean, distances, points)
    usual = float(np.median(sizes))
    for number, severity in _far_out(np.log(sizes / usual), _LEAST_GROWTH):
        size = float(sizes[number])
        ratio = max(size / usual, usual / size)
        what = "larger" if size > usual else "smaller"
        mend = _rescaled(points[number], size / usual, frames[number] if len(frames) else None)
        guess = "" if mend is None else ": is the scale different?"
        reason = f"the object is {_times(ratio)} {what} than usual: {size:.0f} pixels instead of {usual:.0f}"
        reason += guess or "."
        yield Suspect(number, named(number), "size", reason, severity, kind="scale", mend=mend)


def _sizes(poses: Similarity, mean: Float64, distances: Float64, points: Float64) -> Float64:
    """The sizes `(k,)` of objects, whatever the order of their landmarks `(k, v, 2)`.

    The pose of a shape tells its size, unless most landmarks are not where the mean has them. Then the median
    distance between two landmarks does, which is the same in any order.
    """
    sizes = np.asarray(poses.scale * float(shape_size(mean)))
    lost = _is_far(distances)
    if np.any(lost):
        spreads = np.array([_spread(shape) for shape in points])
        sizes[lost] = spreads[lost] * float(np.median(sizes[~lost]) / np.median(spreads[~lost]))
    return sizes


def _is_far(distances: Float64) -> Bools:
    """Which shapes have most landmarks where others do not, by their typical `distances (k,)` from the mean."""
    return np.asarray(distances > 3 * np.median(distances))


def _spread(shape: Float64) -> float:
    """The median distance between two landmarks of a shape `(v, 2)`."""
    known = shape[~np.isnan(shape[:, 0])]
    first, second = np.triu_indices(len(known), 1)
    return max(float(np.median(np.linalg.norm(known[first] - known[second], axis=1))), 1e-9)


def _times(ratio: float) -> str:
    """A ratio in words, without digits that say nothing."""
    if ratio >= 1000:
        return "more than 1,000 times"
    return f"{float(f'{ratio:.2g}'):.0f} times" if ratio >= 9.5 else f"{ratio:.1f} times"


def _rescaled(points: Float64, ratio: float, frame: tuple[int, int] | None) -> Float64 | None:
    """The points in the scale that was meant, if it is one that people mistake and they then lie in the image."""
    factors = np.array([*_FACTORS, *(1 / factor for factor in _FACTORS)])
    away = np.abs(np.log(factors / ratio))
    best = int(np.argmin(away))
    if away[best] > _NEAR_FACTOR or frame is None:
        return None
    scaled = points / factors[best]
    outside = np.nanmin(scaled) < -1 or np.any(np.nanmax(scaled, axis=0) > np.array(frame))
    return None if outside else np.asarray(scaled)


def unusual_rotations(poses: Similarity, named: Named) -> Iterator[Suspect]:
    turns = np.exp(1j * poses.angle)
    centre = complex(np.median(turns.real), np.median(turns.imag))
    angles = np.angle(turns / (centre or 1))
    for number, severity in _far_out(angles, _LEAST_TURN):
        reason = f"the object is rotated by {np.degrees(angles[number]):+.0f} degrees from the usual."
        yield Suspect(number, named(number), "rotation", reason, severity, kind="turned")


def _far_out(values: Float64, least: float) -> Iterator[tuple[int, float]]:
    """Numbers of the values far from the median, by the spread of most of them, and how far beyond the limit.

    Values that follow each other without a gap belong together, however far out the last of them are.
    """
    away = np.abs(values - np.median(values))
    limit = max(_SPREADS * 1.4826 * float(np.median(away)), least)
    ordered = np.sort(away)
    within = int(np.searchsorted(ordered, limit, side="right"))
    while 0 < within < len(ordered) and ordered[within] - ordered[within - 1] < _GAP * least:
        within += 1
    limit = max(limit, float(ordered[within - 1])) if within else limit
    for number in np.flatnonzero(away > limit):
        yield int(number), float(away[number] / limit)
