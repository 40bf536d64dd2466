"""One annotated chest, as a digital radiograph shows it: 12 bits in 16, dense tissue bright."""

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pliant.synthetic.canvas import Array, Image, Mask, blur, fill, ribbon, smoothstep
from pliant.synthetic.chest_anatomy import Chest, build_chest, grow_vessels

_FINER = 4


def chest(
    index: int, seed: int = 0, image_size: int = 256
) -> tuple[NDArray[np.uint16], NDArray[np.float64], float]:
    """Draw one annotated chest radiograph at random.

    Parameters
    ----------
    index : int
        Which chest.
    seed : int
        Another seed gives other chests. The same index and seed give the same chest at every `image_size`.
    image_size : int
        Width and height, in pixels.

    Returns
    -------
    image : ndarray of uint16, shape (image_size, image_size)
        The grey picture, 12 bits in 16.
    points : ndarray, shape (28, 2)
        The landmarks as x and y, 0-based with pixel centres at integers, in the order of `CHEST_LANDMARKS`.
    spacing : float
        The length of a pixel in millimetres.

    Examples
    --------
    >>> import pliant
    >>> image, points, spacing = pliant.synthetic.chest(3, image_size=64)
    >>> image.shape, image.dtype, points.shape
    ((64, 64), dtype('uint16'), (28, 2))
    >>> 360 <= 64 * spacing <= 430
    True

    """
    rng = np.random.default_rng([seed, 0xC4E57, index])
    one = build_chest(rng, image_size)
    thickness = _tissue(one, image_size, rng)
    return _exposed(thickness, one, rng), one.points, one.spacing


def chest_shape(index: int, seed: int = 0, image_size: int = 256) -> tuple[NDArray[np.float64], float]:
    """The landmarks (28, 2) and the length of a pixel of one chest, without drawing it."""
    one = build_chest(np.random.default_rng([seed, 0xC4E57, index]), image_size)
    return one.points, one.spacing


def _tissue(one: Chest, size: int, rng: Generator) -> Image:
    """How much the rays meet on their way (size, size): soft parts and bones add up, air takes away."""
    fat, aeration, bones, breast = rng.uniform((0.92, 0.9, 0.75, 0.0), (1.1, 1.08, 1.2, 1.0))
    millimetre = 1 / one.spacing
    thickness = np.zeros((size, size), np.float32)
    torso = fill(one.torso, size, 1.2 * millimetre)
    thickness[torso.window] += 0.34 * fat * torso.alpha
    _add_round(thickness, one.torso, size, 75 * millimetre, 0.34 * fat)
    inside = np.zeros_like(thickness)
    for outline in one.lungs:
        # A lung is thickest in its middle, and its edge is sharp all the same.
        lung = fill(outline, size, 0.7 * millimetre)
        _add(inside, lung, 1.0)
        _add(thickness, lung, -0.26 * aeration)
        _add_round(thickness, outline, size, 24 * millimetre, -0.22 * aeration)
    thickness += _middle(one, size, millimetre, inside)
    _add_spine(thickness, one, size, millimetre)
    thickness += inside * _vessels(one, size, millimetre, rng)
    _add_bones(thickness, one, size, millimetre, bones)
    if breast > 0.55:
        _add_breasts(thickness, one, size, millimetre)
    _add(thickness, fill(one.stomach, size, 1.5 * millimetre), -0.14)
    return thickness


def _middle(one: Chest, size: int, millimetre: float, inside: Image) -> Image:
    """The heart, the great vessels above it and the belly below: they touch, and hide each other's edges."""
    heart = 0.20 * _whole(fill(one.heart, size, 0.9 * millimetre), size)
    _add_round(heart, one.heart, size, 16 * millimetre, 0.07)
    great = one.points[[17, 16, 27, 26, 24, 20, 19, 18, 7, 8]]
    neck = great[[0, -1]] + np.array([(-10, -75), (10, -75)]) * millimetre
    vessels = 0.20 * _whole(fill(np.concatenate([great, neck[::-1]]), size, 3 * millimetre), size)
    top = one.points[[0, 9], 1].mean()
    dome = one.points[[6, 15], 1].mean()
    y = np.arange(size, dtype=np.float32)[:, None]
    vessels *= smoothstep(top - 45 * millimetre, top + 60 * millimetre, y)
    belly = 0.24 * smoothstep(dome - 12 * millimetre, dome + 55 * millimetre, y) * (1 - np.clip(inside, 0, 1))
    belly *= blur(_whole(fill(one.torso, size), size), 12 * millimetre)
    return np.asarray(np.maximum(np.maximum(heart, vessels), belly), np.float32)


def _vessels(one: Chest, size: int, millimetre: float, rng: Generator) -> Image:
    """The branches in the lungs (size, size); where they cross, the thicker one shows."""
    veil = np.zeros((size, size), np.float32)
    for half_width, curves in grow_vessels(one, rng).items():
        outlines = [ribbon(curve, max(half_width, 0.2)) for curve in curves]
        branches = _whole(fill(outlines, size, 0.5 * millimetre), size)
        np.maximum(veil, np.float32(0.03 + 0.022 * half_width * one.spacing) * branches, out=veil)
    return veil


def _add_spine(thickness: Image, one: Chest, size: int, millimetre: float) -> None:
    """The spine, and the airway in front of it."""
    upper, lower = one.vertebrae[:-1], one.vertebrae[1:]
    along = (one.vertebrae[-1] - one.vertebrae[0]) / np.linalg.norm(one.vertebrae[-1] - one.vertebrae[0])
    across = np.array([-along[1], along[0]]) * millimetre
    _add(thickness, fill(ribbon(one.vertebrae, 17 * millimetre), size, 2.5 * millimetre), 0.07)
    for top, bottom in zip(upper, lower, strict=True):
        gap = 0.1 * (bottom - top)
        body = np.stack([top + gap, top + gap, bottom - gap, bottom - gap]) + np.outer(
            [15, -15, -15, 15], across
        )
        _add(thickness, fill(body, size, 1.2 * millimetre), 0.035)
        knob = (top + bottom) / 2
        process = knob + np.array([(-2, -5), (2, -5), (2, 5), (-2, 5)]) * millimetre
        _add(thickness, fill(process, size, 0.8 * millimetre), 0.04)
    _add(thickness, fill(ribbon(one.airway, 7.5 * millimetre), size, 1.5 * millimetre), -0.10)


def _add_bones(thickness: Image, one: Chest, size: int, millimetre: float, strength: float) -> None:
    """Ribs, collar bones and shoulder blades: each with a brighter rim, where the rays meet its wall edge-on."""
    for rib in one.ribs:
        for part, half_width, dense in ((rib[: one.back], 5.2, 0.06), (rib[one.back - 1 :], 6.0, 0.03)):
            _add_bone(thickness, ribbon(part, half_width * millimetre), size, millimetre, strength * dense)
    for bone in one.clavicles:
        wide = np.linspace(7.5, 5.0, len(bone)) * millimetre
        _add_bone(thickness, ribbon(bone, wide), size, millimetre, 0.075 * strength)
    for blade in one.scapulae:
        _add_bone(thickness, blade, size, millimetre, 0.05 * strength)


def _add_bone(thickness: Image, outline: Array, size: int, millimetre: float, dense: float) -> None:
    _add(thickness, fill(outline, size, 0.6 * millimetre), dense)
    wall = ribbon(np.concatenate([outline, outline[:1]]), 0.7 * millimetre)
    _add(thickness, fill(wall, size, 0.4 * millimetre), 0.7 * dense)


def _add_breasts(thickness: Image, one: Chest, size: int, millimetre: float) -> None:
    angles = np.linspace(0, 2 * np.pi, 40)
    for dome in (one.points[5], one.points[14]):
        ring = dome + np.array([0, -22]) * millimetre
        circle = ring + np.stack([52 * np.cos(angles), 46 * np.sin(angles)], axis=1) * millimetre
        _add(thickness, fill(circle, size, 3 * millimetre), 0.05)


def _exposed(thickness: Image, one: Chest, rng: Generator) -> NDArray[np.uint16]:
    """What the detector has: scatter, a curve, a marker of lead, and grains of 12 bits."""
    size = len(thickness)
    contrast, offset, gain = rng.uniform(0.9, 1.15), rng.uniform(60, 260), rng.uniform(2900, 3600)
    noise = rng.uniform(0.006, 0.014)
    scattered = 0.86 * thickness + 0.14 * blur(thickness, 0.06 * size)
    bright = np.asarray(1.02 * (1 - np.exp(-1.5 * contrast * np.clip(scattered, 0, None))), np.float32)
    _add(bright, _letter(size), 0.9)
    bright = blur(bright, 0.5 * size / 256)
    # Drawn last, so that their number, which depends on the size, moves no other draw.
    grain = rng.standard_normal(thickness.shape, dtype=np.float32)
    grain *= noise * np.sqrt(0.3 + bright) * np.float32(min(1.6, np.sqrt(size / 256)))
    return np.asarray(np.clip(np.rint(offset + gain * (bright + grain)), 0, 4095), np.uint16)


def _letter(size: int) -> Mask:
    """The L of lead at the patient's left shoulder."""
    fine = np.zeros((_FINER * size, _FINER * size), np.uint8)
    place = (int(0.915 * _FINER * size), int(0.10 * _FINER * size))
    scale = _FINER * size / 256 * 0.55
    cv2.putText(
        fine,
        "L",
        place,
        cv2.FONT_HERSHEY_SIMPLEX,
        scale,
        255,
        max(1, round(_FINER * size / 170)),
        cv2.LINE_AA,
    )
    alpha = np.asarray(cv2.resize(fine, (size, size), interpolation=cv2.INTER_AREA), np.float32)
    return Mask(alpha / np.float32(255), 0, 0)


def _add(thickness: Image, mask: Mask, amount: float) -> None:
    thickness[mask.window] += np.float32(amount) * mask.alpha


def _add_round(thickness: Image, outline: Array, size: int, depth: float, amount: float) -> None:
    """Add what is round: nothing at the outline, all of the amount from `depth` pixels inside."""
    mask = fill(outline, size)
    solid = (_whole(mask, size) > 0.5).astype(np.uint8)
    away = np.asarray(cv2.distanceTransform(solid, cv2.DIST_L2, 5), np.float32)
    bulge = np.sqrt(1 - (1 - np.clip(away / np.float32(depth), 0, 1)) ** 2)
    thickness += np.float32(amount) * bulge


def _whole(mask: Mask, size: int) -> Image:
    """The opacity (size, size) of a mask in the whole image."""
    whole = np.zeros((size, size), np.float32)
    whole[mask.window] = mask.alpha
    return whole
