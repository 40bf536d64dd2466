"""The veins and the margin of one fly's wing, and the landmarks where they meet.

The plan is that of a fruit fly's wing seen from above: the hinge on the left, the leading edge on top, and five
long veins, L1 to L5, with two crossveins. Lengths are in millimetres here, and nothing knows the size of the image,
so that one index shows one wing at every resolution.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from pliant.arrays import Concise
from pliant.synthetic.canvas import Array, spline

WING_LANDMARKS = (
    "base of the costa",
    "end of L1",
    "end of L2",
    "end of L3",
    "end of L4",
    "end of L5",
    "notch of the alula",
    "root of L2 and L3",
    "fork of L2 and L3",
    "root of L4 and L5",
    "anterior crossvein, L3",
    "anterior crossvein, L4",
    "posterior crossvein, L4",
    "posterior crossvein, L5",
)
"""The names of the landmarks, in their order."""

# Along the leading edge from the hinge to the tip, and back along the trailing edge to the lobe at the base, in
# lengths of the wing. The notch between the two is a corner.
_MARGIN = np.array(
    [(0.03, -0.055), (0.10, -0.115), (0.20, -0.155), (0.32, -0.185), (0.44, -0.203), (0.56, -0.205), (0.68, -0.192),
     (0.79, -0.162), (0.88, -0.117), (0.95, -0.060), (0.992, 0.010), (0.995, 0.065), (0.965, 0.130), (0.90, 0.190),
     (0.80, 0.238), (0.68, 0.268), (0.56, 0.276), (0.45, 0.265), (0.35, 0.235), (0.26, 0.190), (0.185, 0.135)]
)  # fmt: skip
_ALULA = np.array(
    [(0.185, 0.135), (0.165, 0.178), (0.115, 0.182), (0.07, 0.150), (0.045, 0.095), (0.03, 0.050)]
)

_L1 = np.array([(0.05, -0.040), (0.13, -0.088), (0.22, -0.125), (0.32, -0.157), (0.39, -0.180)])
_STEM = np.array([(0.05, -0.040), (0.12, -0.050), (0.20, -0.072)])
_L2 = np.array([(0.20, -0.072), (0.30, -0.110), (0.42, -0.132), (0.55, -0.138), (0.67, -0.146)])
_L3 = np.array(
    [(0.20, -0.072), (0.30, -0.076), (0.42, -0.073), (0.56, -0.064), (0.70, -0.052), (0.86, -0.034)]
)
_L4 = np.array(
    [(0.11, 0.006), (0.24, 0.006), (0.36, 0.014), (0.48, 0.028), (0.60, 0.048), (0.72, 0.060), (0.86, 0.066)]
)  # fmt: skip
_L5 = np.array([(0.11, 0.006), (0.20, 0.046), (0.31, 0.084), (0.42, 0.122), (0.52, 0.170), (0.59, 0.214)])
_TRUNK = np.array([(0.045, -0.010), (0.08, 0.000)])
_L6 = np.array([(0.08, 0.050), (0.15, 0.088), (0.23, 0.118)])

_SAMPLES = 16


@dataclass(frozen=True, eq=False, repr=False)
class Wing(Concise):
    """Curves (n, 2) and landmarks `points (v, 2)` of one wing in pixels, and the length of a pixel in millimetres.

    `margin` runs from the base of the costa around the tip to the notch, `alula` around the lobe from there;
    `veins` are L1, the common roots of L2 and L3 and of L4 and L5, then L2 to L5. `crossveins` are the two of them,
    and `stub` is what flies have left of a sixth vein. `folds` are creases; `turn (2, 2)` is how the wing lies.
    """

    margin: Array
    alula: Array
    veins: tuple[Array, ...]
    crossveins: tuple[Array, ...]
    stub: Array
    folds: tuple[Array, ...]
    points: Array
    turn: Array
    spacing: float
    length: float


def build_wing(rng: Generator, image_size: int) -> Wing:
    """A wing drawn at random, as it lies in an image that is `image_size` wide and three quarters as high."""
    size, width, taper, bow, reach, sweep = rng.standard_normal(6)
    ends = rng.standard_normal(5) * (0.30, 0.30, 0.10, 0.10, 0.28)
    cross = rng.standard_normal(4) * (0.028, 0.018, 0.026, 0.022)
    bends = rng.standard_normal((4, 2)) * (0.006, 0.0025)
    jitter = rng.standard_normal((5, 2)) * (0.004, 0.003)
    field, lean = float(rng.choice([2.9, 3.2, 3.5])), rng.uniform(-12, 12)
    shift = rng.uniform(-0.03, 0.03, 2)
    creases = rng.uniform(0.0, 1.0, 3)

    length = 2.25 + 0.16 * size
    # Larger wings are a little broader: the allometry that people who measure wings look for.
    broad = 1 + 0.045 * width + 0.02 * size

    def bent(plan: Array) -> Array:
        x, y = plan.T
        further = x + 0.022 * reach * 4 * x * (1 - x)
        wider = y * broad * (1 + 0.07 * taper * (x - 0.5)) + 0.05 * bow * (x - 0.5) ** 2
        return np.asarray(np.stack([further + 0.06 * sweep * y, wider], axis=1) * length)

    margin = spline(bent(_MARGIN), _SAMPLES)
    last = len(_MARGIN) - 1
    # Where veins end is a place along the margin, counted in its points; the numbers are those of the plan.
    costa, (end_1, end_2, end_3, end_4, end_5) = 1.0, np.array([3.9, 7.1, 10.05, 11.35, 15.0]) + ends
    at = [_along(margin, place / last) for place in (costa, end_1, end_2, end_3, end_4, end_5)]

    root, fork, basal = (bent(point[None])[0] for point in (_STEM[0], _L2[0], _L4[0]))
    root, fork, basal = (
        point + length * move for point, move in zip((root, fork, basal), jitter[:3], strict=True)
    )
    veins = [
        spline(np.concatenate([root[None], bent(_L1[1:]), at[1][None]]), _SAMPLES),
        spline(np.stack([root, bent(_STEM[1:2])[0], fork]), _SAMPLES),
        spline(np.concatenate([bent(_TRUNK), basal[None]]), _SAMPLES),
    ]
    for plan, begin, end, bend in zip(
        (_L2, _L3, _L4, _L5), (fork, fork, basal, basal), at[2:], bends, strict=True
    ):
        inner = bent(plan[1:])
        t = np.linspace(0, 1, len(inner))
        inner[:, 1] += length * (bend[0] * np.sin(np.pi * t) + bend[1] * np.sin(2 * np.pi * t))
        veins.append(spline(np.concatenate([begin[None], inner, end[None]]), _SAMPLES))

    on = [
        _along(veins[number], share + move)
        for number, share, move in zip((4, 5, 5, 6), (0.335, 0.335, 0.585, 0.80), cross, strict=True)
    ]
    crossveins = [_arched(on[0], on[1], 0.04), _arched(on[2], on[3], 0.06)]
    lobe = bent(_ALULA)
    lobe[0] = margin[-1]
    folds = tuple(
        _between(veins[upper], veins[lower], 0.35 + 0.3 * creases[number])
        for number, (upper, lower) in enumerate(((3, 4), (5, 6)))
    )
    points = np.stack([*at, margin[-1], root, fork, basal, *on])

    spacing = field / image_size
    cosine, sine = np.cos(np.deg2rad(lean)), np.sin(np.deg2rad(lean))
    turn = np.array([[cosine, -sine], [sine, cosine]])
    middle = bent(np.array([[0.5, 0.03]]))[0]
    centre = np.array([0.5, 0.345]) + shift * (1.0, 0.5)

    def placed(curve: Array) -> Array:
        return np.asarray((curve - middle) @ turn.T / spacing + centre * image_size - 0.5)

    return Wing(
        margin=placed(margin),
        alula=placed(spline(lobe, _SAMPLES)),
        veins=tuple(placed(vein) for vein in veins),
        crossveins=tuple(placed(vein) for vein in crossveins),
        stub=placed(spline(bent(_L6), _SAMPLES)),
        folds=tuple(placed(fold) for fold in folds),
        points=placed(points),
        turn=turn,
        spacing=spacing,
        length=length,
    )


def _along(curve: Array, share: float) -> Array:
    """The point (2,) on a curve (n, 2) at a share of its samples."""
    place = np.clip(share, 0.0, 1.0) * (len(curve) - 1)
    before = min(int(place), len(curve) - 2)
    return np.asarray(curve[before] + (place - before) * (curve[before + 1] - curve[before]))


def _arched(start: Array, end: Array, height: float) -> Array:
    """A curve from one point to another that is bowed towards the tip by a share of its length."""
    across = end - start
    outward = np.array([across[1], -across[0]]) * height
    return spline(np.stack([start, (start + end) / 2 + outward, end]), _SAMPLES)


def _between(upper: Array, lower: Array, share: float) -> Array:
    """A curve between two others, over the middle of their length."""
    t = np.linspace(0.25, 0.85, 24)
    return np.stack([(1 - share) * _along(upper, s) + share * _along(lower, s) for s in t])
