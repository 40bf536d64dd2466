"""What is random about a face: one frozen record a subject, each drawn from the generator in a fixed order.

Lengths are in head units: half the width of an average face is 1. Colours are linear-light RGB in [0, 1].
Nothing here knows the size of the image, so that one index shows one face at every resolution.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]

SKIN_TONES = ("f6d9c6", "ecc1a2", "d9a47f", "bf865f", "9a6544", "71472f", "4a2f22")
HAIR_COLOURS = ("15110f", "2a1b13", "4a2e1c", "7a4f2a", "a97b45", "d0b078", "8c3f1f", "8f8a86", "d5d2cd")
EYE_COLOURS = ("3a2413", "57371b", "7a5a2c", "6b7a45", "5f7f8c", "4a76a8", "7d8a92")


def linear_rgb(code: str) -> Array:
    """Linear-light RGB (3,) of a hexadecimal sRGB colour such as "f6d9c6"."""
    encoded = np.array([int(code[i : i + 2], 16) for i in (0, 2, 4)]) / 255.0
    return np.asarray(encoded**2.2, np.float64)


def muted(colours: Array) -> Array:
    """Colours (..., 3) with most of their saturation taken out: rooms and shirts are seldom garish."""
    grey = colours.mean(axis=-1, keepdims=True)
    return np.asarray(grey + 0.42 * (colours - grey))


@dataclass(frozen=True)
class Identity:
    """The bones and the colours of one person, expression apart."""

    face_width: float
    chin_y: float
    jaw_squareness: float
    chin_point: float
    head_depth: float
    eye_x: float
    eye_y: float
    eye_half_width: float
    eye_height: float
    eye_tilt: float
    brow_gap: float
    brow_arch: float
    brow_tilt: float
    brow_length: float
    brow_thickness: float
    nose_tip_y: float
    nose_width: float
    nose_height: float
    mouth_y: float
    mouth_width: float
    upper_lip: float
    lower_lip: float
    asymmetry: Array
    skin: Array
    lips: Array
    hair: Array
    iris: Array
    blush: float
    freckles: float
    stubble: float
    beard: float


@dataclass(frozen=True)
class Expression:
    """What the muscles do. Openings and strengths are in [0, 1] unless a sign makes sense."""

    mouth_open: float
    smile: float
    pucker: float
    mouth_shift: float
    smile_slant: float
    brow_raise: Array
    frown: float
    lid_closure: Array
    gaze: Array


@dataclass(frozen=True)
class Pose:
    """Head rotation in radians, the share of the image that the points span, and the place in the slack."""

    yaw: float
    pitch: float
    roll: float
    width_share: float
    place: Array


@dataclass(frozen=True)
class Light:
    """One key light `towards` (3,) (x right, y down, z to the viewer), ambient light, and the camera."""

    towards: Array
    key: Array
    ambient: Array
    shadow: float
    shine: float
    gain: float
    gamma: float
    blur: float
    noise: float


@dataclass(frozen=True)
class Style:
    """Hair and things worn."""

    bald: bool
    long_hair: bool
    curly: bool
    volume: float
    hairline: float
    widow_peak: float
    temples: float
    hair_slope: float
    whorl: Array
    fringe: float
    fringe_slope: float
    glasses: str
    frame: Array
    frame_size: float
    shirt: Array


def _spread(rng: Generator, mean: float, deviation: float) -> float:
    """A normal draw, limited to two deviations so that no two features collide."""
    return mean + deviation * float(np.clip(rng.standard_normal(), -2.0, 2.0))


def _along(codes: tuple[str, ...], position: float) -> Array:
    """The colour at `position` in [0, 1] along a list of colours, (3,)."""
    palette = np.array([linear_rgb(code) for code in codes])
    place = np.linspace(0.0, 1.0, len(codes))
    return np.array([np.interp(position, place, palette[:, channel]) for channel in range(3)])


def draw_identity(rng: Generator) -> Identity:
    """A person."""
    melanin = float(rng.beta(0.95, 1.15))
    skin = _along(SKIN_TONES, melanin) * (1.0 + 0.05 * rng.uniform(-1, 1, 3))
    lip_red = linear_rgb("b8403f") * (1.0 - 0.5 * melanin)
    lips = skin * (0.80, 0.52, 0.52) + rng.uniform(0.1, 0.75) * (lip_red - skin * (0.80, 0.52, 0.52))
    # Dark skin goes with dark hair and eyes far more often than not.
    fair = melanin < 0.45
    hair_code = HAIR_COLOURS[int(rng.integers(len(HAIR_COLOURS)))]
    dark_code = HAIR_COLOURS[int(rng.integers(2))]
    iris_code = EYE_COLOURS[int(rng.integers(len(EYE_COLOURS)))]
    dark_iris = EYE_COLOURS[int(rng.integers(2))]
    bearded, unshaven = rng.random(2) < (0.16, 0.3)
    return Identity(
        face_width=_spread(rng, 1.0, 0.045),
        chin_y=_spread(rng, 1.24, 0.07),
        jaw_squareness=_spread(rng, 0.0, 1.0),
        chin_point=_spread(rng, 0.03, 0.03),
        head_depth=_spread(rng, 1.03, 0.04),
        eye_x=_spread(rng, 0.44, 0.02),
        eye_y=_spread(rng, -0.31, 0.03),
        eye_half_width=_spread(rng, 0.19, 0.014),
        eye_height=_spread(rng, 0.082, 0.012),
        eye_tilt=_spread(rng, 0.012, 0.018),
        brow_gap=_spread(rng, 0.235, 0.03),
        brow_arch=_spread(rng, 0.085, 0.022),
        brow_tilt=_spread(rng, 0.006, 0.022),
        brow_length=_spread(rng, 0.60, 0.03),
        brow_thickness=_spread(rng, 0.052, 0.014),
        nose_tip_y=_spread(rng, 0.2, 0.04),
        nose_width=_spread(rng, 0.205, 0.024),
        nose_height=_spread(rng, 1.0, 0.12),
        mouth_y=_spread(rng, 0.67, 0.03),
        mouth_width=_spread(rng, 0.37, 0.03),
        upper_lip=_spread(rng, 0.088, 0.018),
        lower_lip=_spread(rng, 0.112, 0.02),
        asymmetry=np.clip(rng.standard_normal(6), -2.0, 2.0) * 0.010,
        skin=skin,
        lips=np.clip(lips, 0.02, 0.9),
        hair=linear_rgb(hair_code if fair else dark_code) * (1.0 + 0.05 * rng.uniform(-1, 1, 3)),
        iris=linear_rgb(iris_code if fair else dark_iris),
        blush=float(rng.uniform(0.1, 0.6)),
        freckles=float(max(0.0, rng.uniform(-1.5, 1.0))),
        stubble=float(rng.uniform(0.2, 0.7)) * float(unshaven),
        beard=float(rng.uniform(0.55, 0.95)) * float(bearded),
    )


def draw_expression(rng: Generator) -> Expression:
    """A moment: mouths are closed, ajar or wide in about equal parts; a blink is rare."""
    opening = float(rng.choice([0.0, rng.uniform(0.0, 0.35), rng.uniform(0.3, 1.0)], p=[0.4, 0.3, 0.3]))
    raised = _spread(rng, 0.0, 0.5)
    closure = float(rng.choice([rng.uniform(0.0, 0.25), rng.uniform(0.2, 0.6), 1.0], p=[0.76, 0.18, 0.06]))
    return Expression(
        mouth_open=opening,
        smile=float(rng.uniform(-0.35, 1.0)),
        pucker=float(max(0.0, rng.uniform(-2.0, 1.0))),
        mouth_shift=_spread(rng, 0.0, 0.014),
        smile_slant=_spread(rng, 0.0, 0.2),
        brow_raise=raised + 0.16 * np.clip(rng.standard_normal(2), -2.0, 2.0),
        frown=float(max(0.0, rng.uniform(-1.6, 1.0))),
        lid_closure=np.clip(closure + 0.04 * rng.standard_normal(2), 0.0, 1.0),
        gaze=rng.uniform(-1, 1, 2) * (0.42, 0.22),
    )


def draw_pose(rng: Generator) -> Pose:
    """Where the head points and how large it is."""
    yaw, pitch, roll = np.deg2rad([15.0, 7.5, 9.0]) * np.clip(rng.standard_normal(3), -2.0, 2.0)
    return Pose(
        yaw=float(yaw),
        pitch=float(pitch),
        roll=float(roll),
        width_share=float(rng.uniform(0.46, 0.64)),
        place=rng.uniform(-1, 1, 2),
    )


def draw_light(rng: Generator) -> Light:
    """A key light from the front half of the sky, warm or cool, over ambient light of its own tint."""
    azimuth, elevation = np.deg2rad([rng.uniform(-65, 65), rng.uniform(-5, 55)])
    towards = [np.sin(azimuth) * np.cos(elevation), -np.sin(elevation), np.cos(azimuth) * np.cos(elevation)]
    warmth = rng.uniform(-1, 1, 2)
    tint = np.array([0.16, 0.0, -0.20])
    ambient = float(rng.uniform(0.28, 0.72))
    return Light(
        towards=np.array(towards),
        key=(1.0 + warmth[0] * tint) * (1.28 - ambient),
        ambient=(1.0 + 0.7 * warmth[1] * tint) * ambient,
        shadow=float(rng.uniform(0.35, 0.9)),
        shine=float(rng.uniform(0.1, 0.5)),
        gain=float(np.exp(_spread(rng, 0.0, 0.16))),
        gamma=float(np.exp(_spread(rng, 0.0, 0.09))),
        blur=float(rng.uniform(0.0, 0.7)),
        noise=float(rng.uniform(0.002, 0.016)),
    )


def draw_style(rng: Generator) -> Style:
    """Hair, glasses for about one in seven, a shirt."""
    long_hair = bool(rng.random() < 0.42)
    fringed = rng.random() < 0.25
    shape = str(rng.choice(["none", "round", "square", "aviator"], p=[0.85, 0.05, 0.06, 0.04]))
    frame = [linear_rgb("15151a"), linear_rgb("4a2a18"), linear_rgb("8a8378"), linear_rgb("5a1f24")]
    return Style(
        bald=bool(rng.random() < 0.09) and not long_hair,
        long_hair=long_hair,
        curly=bool(rng.random() < 0.3),
        volume=float(rng.uniform(0.04, 0.2)),
        hairline=float(rng.uniform(-1.13, -0.9)),
        widow_peak=_spread(rng, 0.0, 0.05),
        temples=float(max(0.0, rng.uniform(-0.1, 0.16))),
        hair_slope=_spread(rng, 0.0, 0.06),
        whorl=rng.uniform((-0.5, -1.15), (0.5, -0.68)),
        fringe=float(rng.uniform(0.35, 1.0)) * float(fringed),
        fringe_slope=float(rng.uniform(-0.35, 0.35)),
        glasses=shape,
        frame=frame[int(rng.integers(4))],
        frame_size=float(rng.uniform(0.27, 0.32)),
        shirt=muted(rng.uniform(0.02, 0.6, 3)),
    )
