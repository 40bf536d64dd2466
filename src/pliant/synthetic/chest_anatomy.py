"""The lungs, the heart and the bones of one chest, as they lie in a radiograph from behind.

Lengths are in millimetres, x to the right of the picture, which is the patient's left, and y downwards. Nothing
here knows the size of the image, so that one index shows one chest at every resolution.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from pliant.arrays import Concise
from pliant.synthetic.canvas import Array, spline

CHEST_LANDMARKS = (
    "right lung, apex",
    "right lung, upper side",
    "right lung, middle side",
    "right lung, widest",
    "right lung, costophrenic angle",
    "right lung, side of the dome",
    "right lung, top of the dome",
    "right lung, hilum",
    "right lung, upper mediastinum",
    "left lung, apex",
    "left lung, upper side",
    "left lung, middle side",
    "left lung, widest",
    "left lung, costophrenic angle",
    "left lung, side of the dome",
    "left lung, top of the dome",
    "left lung, aortic knob",
    "left lung, upper mediastinum",
    "heart, upper right",
    "heart, right border",
    "heart, farthest right",
    "heart, right cardiophrenic angle",
    "heart, lower border",
    "heart, apex",
    "heart, farthest left",
    "heart, left border",
    "heart, left atrium",
    "heart, upper left",
)
"""The names of the landmarks, in their order: right and left are the patient's, who looks at you."""

RIGHT_LUNG = (0, 1, 2, 3, 4, 5, 6, 21, 20, 19, 18, 7, 8)
"""The numbers of the landmarks around the right lung, in turn. Where it touches the heart, they share them."""

LEFT_LUNG = (9, 10, 11, 12, 13, 14, 15, 23, 24, 25, 26, 27, 16, 17)
"""The numbers of the landmarks around the left lung, in turn. Where it touches the heart, they share them."""

HEART = (18, 19, 20, 21, 22, 23, 24, 25, 26, 27)
"""The numbers of the landmarks around the heart, in turn."""

_RIGHT = np.array(
    [(-56, -136), (-97, -108), (-121, -52), (-134, 36), (-132, 98), (-102, 78), (-66, 66), (-34, -22), (-27, -88)]
)  # fmt: skip
_LEFT = np.array(
    [(56, -136), (97, -108), (121, -52), (135, 40), (134, 106), (112, 90), (98, 85), (37, -50), (29, -90)]
)
_HEART = np.array(
    [(-26, -2), (-36, 20), (-40, 42), (-31, 72), (14, 92), (70, 90), (86, 66), (73, 36), (52, 6), (39, -20)]
)


@dataclass(frozen=True, eq=False, repr=False)
class Chest(Concise):
    """Outlines (n, 2) and landmarks `points (v, 2)` of one chest in pixels, and the millimetres in a pixel.

    `lungs` are the right one and the left one, `ribs` run from the spine around the side to the front, `back` being
    how many points of each (n, 2) lie behind.
    """

    torso: Array
    lungs: tuple[Array, Array]
    heart: Array
    ribs: tuple[Array, ...]
    back: int
    clavicles: tuple[Array, Array]
    scapulae: tuple[Array, Array]
    vertebrae: Array
    airway: Array
    stomach: Array
    points: Array
    spacing: float


def build_chest(rng: Generator, image_size: int) -> Chest:
    """A chest drawn at random, as it lies in a square image."""
    wide, tall, breath, tilt, narrow, tower = rng.standard_normal(6)
    swollen, drop, lie, knob = rng.standard_normal(4)
    own = rng.standard_normal((28, 2)) * 1.3
    field, lean = float(rng.choice([360.0, 390.0, 430.0])), rng.uniform(-3, 3)
    shift = rng.uniform(-0.025, 0.025, 2)
    air = rng.uniform(0.7, 1.2, 4)

    right, left = (_lung(side, tall, breath, narrow, tower) for side in (_RIGHT, _LEFT))
    left[:, 1] += 2.5 * tilt * (left[:, 1] > 60)
    heart = _heart(swollen, drop + 0.7 * breath, lie)
    left[7, 0] += 3.0 * knob
    # The left dome lies between the heart's apex and the side, whatever size the heart has.
    left[5, 0] = max(left[5, 0], 0.45 * heart[5, 0] + 0.55 * left[4, 0])
    left[6] = (left[5] + heart[5]) / 2 - (0, 2)
    across = 1 + 0.05 * wide
    points = np.concatenate([right, left, heart]) * (across, 1.0) + own

    turn = _turn(np.deg2rad(lean))
    spacing = field / image_size
    centre = (np.array([0.5, 0.51]) + shift) * image_size - 0.5

    def placed(curve: Array) -> Array:
        return np.asarray(curve @ turn / spacing + centre)

    side = points[[2, 3, 11, 12], 0]
    ribs, back = _ribs(side, tall, breath)
    return Chest(
        torso=placed(_torso(across)),
        lungs=(
            placed(spline(points[list(RIGHT_LUNG)], 12, closed=True)),
            placed(spline(points[list(LEFT_LUNG)], 12, closed=True)),
        ),
        heart=placed(spline(points[list(HEART)], 12, closed=True)),
        ribs=tuple(placed(rib) for rib in ribs),
        back=back,
        clavicles=(placed(_clavicle(-1, across, tower)), placed(_clavicle(1, across, tower))),
        scapulae=(placed(_scapula(-1, across)), placed(_scapula(1, across))),
        vertebrae=placed(np.stack([np.zeros(21), np.linspace(-266, 266, 21)], axis=1)),
        airway=placed(np.array([(0, -260), (0, -120), (2, -70), (4, -38)])),
        stomach=placed(_bubble(points[15] + (-14, 22), air)),
        points=placed(points),
        spacing=spacing,
    )


def _lung(plan: Array, tall: float, breath: float, narrow: float, tower: float) -> Array:
    """A lung's own landmarks (9, 2): taller, with a deeper breath, narrower at the top, and a higher apex."""
    x, y = plan.astype(np.float64).T
    up = (90 - y) / 226
    outer = x * (1 - 0.05 * narrow * np.clip(up, 0, 1) + 0.008 * breath * (1 - up))
    deeper = y * (1 + 0.03 * tall) + 7.0 * breath * np.clip(1 - up, 0, 1.2) ** 2
    deeper[0] -= 2.5 * tower
    deeper[[5, 6]] -= 1.5 * tower
    return np.stack([outer, deeper], axis=1)


def _heart(swollen: float, drop: float, lie: float) -> Array:
    """The heart's landmarks (10, 2): larger, lower, and steeper or flatter."""
    pivot = np.array([0.0, -20.0])
    moved = (_HEART - pivot) * (1 + 0.10 * swollen, 1 + 0.03 * swollen)
    moved = moved @ _turn(np.deg2rad(4.0 * lie))
    moved[:, 1] += 3.0 * drop * np.clip(moved[:, 1] / 100, 0, 1)
    return np.asarray(moved + pivot)


def _torso(across: float) -> Array:
    half = np.array(
        [(-38, -260), (-40, -188), (-66, -169), (-120, -158), (-172, -144), (-212, -106), (-224, -48), (-200, 4),
         (-176, 44), (-169, 90), (-168, 150), (-172, 280)]
    )  # fmt: skip
    edge = spline(half * (across, 1.0), 8)
    return np.concatenate([edge, (edge * (-1, 1))[::-1]])


def _ribs(side: Array, tall: float, breath: float) -> tuple[list[Array], int]:
    """Nine pairs: from the spine up and out, around the side, and down to the front."""
    ribs = []
    for number in range(9):
        height = -128 + 24.5 * number * (1 + 0.03 * tall) + 0.5 * breath * number
        reach = np.interp(number, [0, 1, 3, 6, 9], [0.62, 0.80, 0.95, 1.03, 1.0])
        for sign, wall in ((-1, -side[:2].min()), (1, side[2:].max())):
            out = reach * wall
            rib = np.array(
                [(20, height), (0.35 * out, height - 9), (0.68 * out, height + 1), (0.93 * out, height + 24),
                 (1.01 * out, height + 46), (0.93 * out, height + 64), (0.70 * out, height + 78),
                 (0.48 * out, height + 84)]
            )  # fmt: skip
            ribs.append(spline(rib * (sign, 1.0), 8))
    return ribs, 4 * 8 + 1


def _clavicle(sign: int, across: float, tower: float) -> Array:
    bone = np.array([(15, -92), (40, -104), (72, -107), (105, -117), (138, -128), (156, -127)], np.float64)
    bone[:, 1] += 2.0 * tower
    return spline(bone * (sign * across, 1.0), 8)


def _scapula(sign: int, across: float) -> Array:
    blade = np.array([(150, -118), (176, -112), (168, -60), (150, 2), (138, 6), (136, -50)], np.float64)
    return spline(blade * (sign * across, 1.0), 6, closed=True)


def _bubble(middle: Array, radii: Array) -> Array:
    """Gas in the stomach, flat below the left dome: an outline around its middle (2,)."""
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack([22 * radii[0] * np.cos(angles), 9 * radii[1] * np.sin(angles)], axis=1)
    return np.asarray(middle + ring)


def grow_vessels(one: Chest, rng: Generator) -> dict[float, list[Array]]:
    """Branches from both hila into the lungs, ever finer: curves (n, 2) in pixels, by their half width."""
    found: dict[float, list[Array]] = {}
    points, millimetre = one.points, 1 / one.spacing
    right, left = points[7] + np.array([2, 22]) * millimetre, points[27] + np.array([4, 8]) * millimetre
    for hilum, lung in ((right, points[[0, 3, 5]]), (left, points[[9, 12, 14]])):
        for share in np.linspace(0.0, 1.0, 9):
            aim = (_towards(lung, share) - hilum) @ _turn(rng.normal(0, 0.12))
            start = hilum + rng.normal(0, 1, 2) * (4.0, 9.0) * millimetre
            _grow(found, start, aim * rng.uniform(0.4, 0.55), 3.1 * millimetre, 3, rng)
    return found


def _towards(corners: Array, share: float) -> Array:
    """A point (2,) on the way over three corners (3, 2)."""
    return np.array([np.interp(share, [0, 0.5, 1], corners[:, axis]) for axis in (0, 1)])


def _grow(
    found: dict[float, list[Array]], start: Array, step: Array, half_width: float, forks: int, rng: Generator
) -> None:
    """One branch, and its two daughters."""
    bend = rng.normal(0, 0.08) * np.array([-step[1], step[0]])
    branch = spline(np.stack([start, start + 0.5 * step + bend, start + step]), 5)
    found.setdefault(half_width, []).append(branch)
    for angle in rng.uniform(0.25, 0.5, 2) * (1, -1) if forks else ():
        daughter = step @ _turn(angle) * rng.uniform(0.5, 0.7)
        _grow(found, start + step, daughter, 0.62 * half_width, forks - 1, rng)


def _turn(angle: float) -> Array:
    """The matrix (2, 2) that turns rows by an angle in radians."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
