"""What has happened to wrong landmarks, in a sentence, and where they would be without it.

Every guess is tried: a landmark that was swapped, mistyped or put on another fits if that is undone. If no guess
fits, the landmark was shifted, and its mend is the place where the others put it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float64
from pliant.data.suspects.usual import Bools, Judged, judge
from pliant.data.suspects.wrong import LEAST, LEAST_PIXELS, Findings
from pliant.shape import align, shape_size

Label = Callable[[int], str]

_ON_ANOTHER = 0.015
"""Two landmarks lie on each other if they are no further apart than this share of the object."""

_SEPARATE = 3
"""So many shifted landmarks of an image get a sentence each; more of them get one together."""

_MARGIN = 9.0
"""How much less a swap must cost than one wrong landmark, to be believed of another that would do as it is."""

_BELIEVED = 0.5
"""A number was mistyped if the landmark, once corrected, is off by less than this share of what it was off."""

_NOT_EASILY = 0.4
"""A landmark at this share of the limit may be one of several that are out of order."""

_PRIOR = 20.0
"""How much less two swapped landmarks must cost than as they are, if neither of them stands out: e^10 to 1."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What is wrong with landmarks of one shape: its kind, a sentence, and points `(v, 2)` without it."""

    kind: str
    reason: str
    landmarks: tuple[int, ...]
    severity: float
    mend: Float64


@dataclass(frozen=True, eq=False)
class _Scene:
    """One shape as `seen` by its right landmarks: `points (v, 2)` in the image, `side` is -1 if it was mirrored."""

    found: Findings
    number: int
    seen: Judged
    points: Float64
    side: Float64
    label: Label

    @property
    def limit(self) -> float:
        return self.found.limit

    def score(self, landmark: int, places: Float64) -> Float64:
        """How far places `(..., 2)` in the image are from where `landmark` is expected, in standard deviations."""
        frame = self.seen.pose.inverse().apply(np.reshape(places * self.side, (-1, 2)))
        away = frame - self.seen.expected[landmark]
        square = np.einsum("ki,ij,kj->k", away, self.seen.precisions[landmark], away)
        return np.asarray(np.sqrt(square) / self.found.usual[landmark]).reshape(np.shape(places)[:-1])

    @property
    def expected(self) -> Float64:
        """Where the landmarks `(v, 2)` are expected in the image."""
        return self.seen.pose.apply(self.seen.expected) * self.side

    @property
    def size(self) -> float:
        return float(shape_size(self.expected))

    def moved(self, landmarks: Sequence[int], places: Float64) -> Float64:
        """All points with some of them elsewhere."""
        mended = self.points.copy()
        mended[list(landmarks)] = places
        return mended

    def severity(self, landmarks: Sequence[int]) -> float:
        return max(1.0, float(np.max(self.seen.scores[list(landmarks)])) / self.limit)


def explained(
    found: Findings, number: int, points: Float64, mirrored: bool, others: Float64, label: Label
) -> Iterator[Finding]:
    """What is wrong with shape `number`, whose points `(v, 2)` in the image may be mirrored in `found`.

    `others (k, v, 2)` are the points of all images.
    """
    seen = found.judged(number)
    side = np.array([-1.0, 1.0]) if mirrored else np.array([1.0, 1.0])
    scene = _Scene(found, number, seen, points, side, label)
    left = [int(landmark) for landmark in np.flatnonzero(found.wrong[number])]
    for finding in _permuted(scene, left):
        left = [landmark for landmark in left if landmark not in finding.landmarks]
        yield finding
    shifted = []
    for landmark in left:
        guess = (
            _mistyped(scene, landmark)
            or _swapped_with_right(scene, landmark)
            or _mislabelled(scene, landmark)
            or _on_another(scene, landmark)
            or _copied(scene, landmark, others)
        )
        if guess is None:
            shifted.append(landmark)
        else:
            yield guess
    yield from _shifted(scene, shifted)


def _permuted(scene: _Scene, wrong: list[int]) -> Iterator[Finding]:
    """Wrong landmarks that are in each other's places, and perhaps others with them that stand out less."""
    wrong = [*wrong, *_uncertain(scene, wrong)]
    if len(wrong) < 2:
        return
    scores = np.array([scene.score(landmark, scene.points[wrong]) for landmark in wrong])
    takes, fits = _taken(wrong, scores, scene.limit)
    cycles = [cycle for cycle in _cycles(takes) if len(cycle) > 1 and all(fits[one] for one in cycle)]
    run = _reversed_run(cycles)
    if run:
        taken = [landmark for cycle in cycles for landmark in cycle if run[0] <= landmark <= run[1]]
        cycles = [cycle for cycle in cycles if cycle[0] not in taken]
        ends = " to ".join(_bare(scene.label, one) for one in run)
        reason = (
            f"the landmarks from {ends} seem to be numbered backwards: in reverse order, they are where "
            "other samples have them."
        )
        yield _rearranged(scene, "reversed", sorted(taken), takes, reason)
    for cycle in cycles:
        labels = [scene.label(landmark) for landmark in sorted(cycle)]
        within = _within(scene, cycle, scene.points[[takes[one] for one in cycle]])
        if len(cycle) == 2:
            kind, reason = "swapped", _swap_sentence(labels, within)
        else:
            kind = "out of order"
            reason = (
                f"{_listed(labels)} seem to be out of order: rearranged, they are within {within} of where "
                "other samples have them."
            )
        yield _rearranged(scene, kind, sorted(cycle), takes, reason)


def _uncertain(scene: _Scene, wrong: list[int]) -> list[int]:
    """Landmarks that pass for right, but not easily, and that lie where a wrong one should be."""
    passing = scene.found.known[scene.number] & ~scene.found.wrong[scene.number]
    passing &= scene.seen.scores > _NOT_EASILY * scene.limit
    return [
        int(other)
        for other in np.flatnonzero(passing)
        if any(scene.score(landmark, scene.points[other]) < scene.limit for landmark in wrong)
    ]


def _rearranged(
    scene: _Scene, kind: str, landmarks: list[int], takes: dict[int, int], reason: str
) -> Finding:
    places = scene.points[[takes[landmark] for landmark in landmarks]]
    return Finding(kind, reason, tuple(landmarks), scene.severity(landmarks), scene.moved(landmarks, places))


def _taken(wrong: list[int], scores: Float64, limit: float) -> tuple[dict[int, int], dict[int, bool]]:
    """Whose place each landmark takes, the best fit first, and whether it fits there."""
    left = scores.copy()
    takes, fits = {}, {}
    for _ in wrong:
        row, column = np.unravel_index(np.argmin(left), left.shape)
        takes[wrong[row]], fits[wrong[row]] = wrong[column], bool(scores[row, column] < limit)
        left[row], left[:, column] = np.inf, np.inf
    return takes, fits


def _cycles(takes: dict[int, int]) -> list[list[int]]:
    left = dict(takes)
    cycles = []
    while left:
        first = next(iter(left))
        cycle, following = [first], left.pop(first)
        while following != first:
            cycle.append(following)
            following = left.pop(following)
        cycles.append(cycle)
    return cycles


def _reversed_run(cycles: list[list[int]]) -> tuple[int, int] | None:
    """The first and last of a run in the opposite order: two swaps or more about one middle, without gap."""
    pairs = sorted(tuple(sorted(cycle)) for cycle in cycles if len(cycle) == 2)
    for first, last in pairs:
        inner = [(first + step, last - step) for step in range((last - first + 1) // 2)]
        if len(inner) > 1 and set(inner) <= set(pairs):
            return first, last
    return None


def _mistyped(scene: _Scene, landmark: int) -> Finding | None:
    """One number with the decimal point in the wrong place, or x and y in each other's."""
    x, y = scene.points[landmark]
    label = scene.label(landmark)
    guesses = [(f"x and y of {label} seem to be swapped", "exchanged", (y, x))]
    for factor, what in ((10.0, "small"), (0.1, "large")):
        guesses += [
            (f"the x of {label} seems to be ten times too {what}: {x:.4g}", "decimal", (x * factor, y)),
            (f"the y of {label} seems to be ten times too {what}: {y:.4g}", "decimal", (x, y * factor)),
            (f"the x and y of {label} seem to be ten times too {what}", "decimal", (x * factor, y * factor)),
        ]
    places = np.array([place for _, _, place in guesses])
    scores = scene.score(landmark, places)
    best = int(np.argmin(scores))
    if scores[best] >= min(scene.limit, _BELIEVED * float(scene.score(landmark, scene.points[landmark]))):
        return None
    words, kind, _ = guesses[best]
    within = _within(scene, [landmark], places[best][None])
    reason = f"{words}. Once corrected, it is within {within} of where other samples have it."
    return Finding(
        kind, reason, (landmark,), scene.severity([landmark]), scene.moved([landmark], places[best])
    )


def _swapped_with_right(scene: _Scene, landmark: int) -> Finding | None:
    """A wrong landmark and one that would do as it is, but fit better in each other's places."""
    right = np.flatnonzero(scene.found.known[scene.number] & ~scene.found.wrong[scene.number])
    near = right[scene.score(landmark, scene.points[right]) < scene.limit]
    before = scene.seen.cost / float(np.median(scene.found.usual)) ** 2 + scene.limit**2
    for other in map(int, near):
        if scene.score(other, scene.points[landmark]) >= scene.limit:
            continue
        pair = [landmark, other]
        swapped = scene.moved(pair, scene.points[pair[::-1]])
        wrong = scene.found.wrong[scene.number].copy()
        wrong[landmark] = False
        cost = _cost(scene, swapped, wrong)
        if cost < before - _MARGIN:
            within = _within(scene, pair, scene.points[pair[::-1]])
            labels = [scene.label(one) for one in sorted(pair)]
            reason = _swap_sentence(labels, within)
            return Finding("swapped", reason, tuple(sorted(pair)), scene.severity([landmark]), swapped)
    return None


def _cost(scene: _Scene, points: Float64, wrong: Bools) -> float:
    found = scene.found
    model = found.models[found.fold_of[scene.number]]
    seen = judge(model, points * scene.side, wrong | ~found.known[scene.number])
    return seen.cost / float(np.median(found.usual)) ** 2


def _mislabelled(scene: _Scene, landmark: int) -> Finding | None:
    """A landmark in the place of one that is missing."""
    for other in map(int, np.flatnonzero(~scene.found.known[scene.number])):
        if scene.score(other, scene.points[landmark]) < scene.limit:
            mend = scene.moved([other, landmark], np.array([scene.points[landmark], (np.nan, np.nan)]))
            label, missing = scene.label(landmark), scene.label(other)
            reason = f"{label} is where {missing} should be, and {missing} is missing: is it {missing}?"
            return Finding("mislabelled", reason, (landmark, other), scene.severity([landmark]), mend)
    return None


def _on_another(scene: _Scene, landmark: int) -> Finding | None:
    """A landmark on another that is right."""
    right = np.flatnonzero(scene.found.known[scene.number] & ~scene.found.wrong[scene.number])
    away = np.linalg.norm(scene.points[right] - scene.points[landmark], axis=1)
    nearest = int(np.argmin(away))
    other = int(right[nearest])
    usual = float(np.linalg.norm(scene.expected[landmark] - scene.expected[other]))
    if away[nearest] > _ON_ANOTHER * scene.size or usual < 2 * away[nearest]:
        return None
    label, there = scene.label(landmark), scene.label(other)
    reason = f"{label} is on {there}, {_pixels(usual)} from where other samples have it."
    return Finding(
        "on another",
        reason,
        (landmark,),
        scene.severity([landmark]),
        scene.moved([landmark], scene.expected[landmark]),
    )


def _copied(scene: _Scene, landmark: int, others: Float64) -> Finding | None:
    """A landmark with the very numbers that it has in another image; whole numbers may be alike by chance."""
    place = scene.points[landmark]
    same = np.flatnonzero(np.all(others[:, landmark] == place, axis=1))
    same = same[same != scene.number]
    if not len(same) or np.all(place == np.round(place)):
        return None
    off = float(np.linalg.norm(place - scene.expected[landmark]))
    label = scene.label(landmark)
    reason = (
        f"{label} has exactly the same numbers as in another image, and is {_pixels(off)} from where other "
        "samples have it: was it copied?"
    )
    return Finding(
        "copied",
        reason,
        (landmark,),
        scene.severity([landmark]),
        scene.moved([landmark], scene.expected[landmark]),
    )


def _shifted(scene: _Scene, landmarks: list[int]) -> Iterator[Finding]:
    expected = scene.expected
    groups = [[one] for one in landmarks] if len(landmarks) <= _SEPARATE else [landmarks]
    for group in groups:
        off = np.linalg.norm(scene.points[group] - expected[group], axis=1)
        if len(group) == 1:
            usual = _pixels(_usual_distance(scene, group[0]))
            away = _pixels(float(off[0]))
            reason = (
                f"{scene.label(group[0])} is {away} from where other samples have it (usually within "
                f"{usual})."
            )
        else:
            which = ", ".join(_bare(scene.label, one) for one in group)
            reason = (
                f"{len(group)} landmarks ({which}) are {off.min():.0f} to {_pixels(float(off.max()))} from "
                "where other samples have them."
            )
        mend = scene.moved(group, expected[group])
        yield Finding("shifted", reason, tuple(group), scene.severity(group), mend)


def _usual_distance(scene: _Scene, landmark: int) -> float:
    """How far from where it is expected this landmark is in 95 of 100 images, in pixels."""
    spread = np.linalg.inv(scene.seen.precisions[landmark]) * scene.found.usual[landmark] ** 2
    return 2.45 * float(np.sqrt(np.trace(spread) / 2)) * float(scene.seen.pose.scale)


def swapped_pairs(found: Findings, points: Float64, label: Label) -> Iterator[tuple[int, Finding]]:
    """Two landmarks, neither of which stands out, that would fit far better in each other's places.

    With P the precision, g = P d and x the difference of two landmarks i and j, swapping them changes the squared
    distance of a shape from the mean by 2 x'(g_i - g_j) + x'(P_ii + P_jj - 2 P_ij)x. Numbers of shapes and what
    was found.
    """
    first, second = np.triu_indices(points.shape[1], 1)
    right = found.known & ~found.wrong
    usual = float(np.median(found.usual)) ** 2
    # Where large deviations are frequent, so are gains by chance.
    needed = max(_PRIOR, found.limit**2 / 2)
    for fold, model in enumerate(found.models):
        blocks = model.blocks
        stiff = blocks[first, first] + blocks[second, second] - blocks[first, second] - blocks[second, first]
        for number in np.flatnonzero((found.fold_of == fold) & ~found.hopeless):
            shape = found.filled[number]
            pose = align(model.mean, shape)
            placed = pose.inverse().apply(shape)
            pulled = (model.precision @ (placed - model.mean).ravel()).reshape(-1, 2)
            between = placed[second] - placed[first]
            change = 2 * np.sum(between * (pulled[first] - pulled[second]), axis=1)
            change += np.einsum("pi,pij,pj->p", between, stiff, between)
            off = np.linalg.norm(between, axis=1)
            least = max(LEAST * float(shape_size(model.mean)), LEAST_PIXELS / float(pose.scale))
            sound = right[number, first] & right[number, second] & (off >= least)
            gain = np.where(sound, -change / usual, 0.0)
            best = int(np.argmax(gain))
            if gain[best] > needed:
                pair = [int(first[best]), int(second[best])]
                mend = points[number].copy()
                mend[pair] = mend[pair[::-1]]
                labels = [label(landmark) for landmark in pair]
                reason = (
                    f"{_listed(labels)} seem to be swapped: swapped back, they match other samples far "
                    "better."
                )
                severity = float(gain[best]) / needed
                yield int(number), Finding("swapped", reason, tuple(pair), severity, mend)


def _within(scene: _Scene, landmarks: Sequence[int], places: Float64) -> str:
    off = np.linalg.norm(places - scene.expected[list(landmarks)], axis=1)
    return _pixels(float(np.max(off)))


def _pixels(distance: float) -> str:
    return f"{distance:.0f} px" if distance >= 9.5 else f"{max(distance, 0.1):.1f} px"


def _swap_sentence(labels: Sequence[str], within: str) -> str:
    return (
        f"{_listed(labels)} seem to be swapped: swapped back, both are within {within} of where other "
        "samples have them."
    )


def _bare(label: Label, landmark: int) -> str:
    """The name of a landmark, or its number alone."""
    return label(landmark).removeprefix("landmark ")


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
