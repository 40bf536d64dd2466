"""Eyes, brows, nose and mouth, painted from the curves that pass through the annotated points."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from pliant.synthetic.anatomy import BROWS, EYES, INNER_LIPS, NOSTRILS, OUTER_LIPS, Head, View
from pliant.synthetic.canvas import (
    Array,
    Image,
    Mask,
    blur,
    darken,
    fill,
    paint,
    rgb,
    ribbon,
    smoothstep,
    spline,
    taper,
)
from pliant.synthetic.skin import Skin
from pliant.synthetic.traits import Expression, Identity, Light

_BROW_HAIRS = 46


def _crease(
    image: Image, view: View, curve: Array, half_width: float | Array, soft: float, factor: Sequence[float]
) -> None:
    """Darken `image` by `factor` (3,) along a curve (n, 2) of the image; widths are in head units."""
    outline = ribbon(curve, view.scale * half_width)
    darken(image, fill(outline, view.size, view.scale * soft), factor)


def paint_eyes(
    image: Image, head: Head, identity: Identity, expression: Expression, light: Light, skin: Skin
) -> None:
    """Both eyes: ball, iris, lids and lashes."""
    for eye, closure in zip(EYES, expression.lid_closure, strict=True):
        _paint_eye(image, head, eye, float(closure), identity, expression, light, skin)


def _paint_eye(
    image: Image,
    head: Head,
    eye: slice,
    closure: float,
    identity: Identity,
    expression: Expression,
    light: Light,
    skin: Skin,
) -> None:
    points, unit, size = head.points[eye], head.view.scale, head.view.size
    upper = spline(points[:4], 10)
    lower = spline(points[[3, 4, 5, 0]], 10)
    opening = fill(np.concatenate([upper, lower]), size)
    frontal = head.frontal[eye]
    up = head.view.project(head.surface.lift(frontal[1:3] - (0, 0.075)))
    crease = spline(np.stack([points[0], up[0], up[1], points[3]]), 8)
    _crease(image, head.view, crease, 0.02 * taper(len(crease)), 0.012, (0.62, 0.52, 0.5))
    paint(image, opening, _eyeball(opening, head, frontal, identity, expression, light, skin))
    # The upper lid throws a soft shadow on the ball, and its lashes make the darkest line of the eye.
    shade = fill(ribbon(upper, 0.035 * unit), size, 0.012 * unit)
    inside = Mask(_crop(shade, opening), opening.left, opening.top)
    darken(image, inside, 0.45)
    lash_colour = np.minimum(identity.hair, 0.12) * 0.25 + 0.004
    thick = (0.012 + 0.006 * closure) * unit
    lashes = fill(ribbon(upper, thick * taper(len(upper), 0.5, 0.5)), size, 0.003 * unit)
    paint(image, lashes, lash_colour, 0.9)
    _crease(image, head.view, lower, 0.007 * taper(len(lower), 0.6, 0.6), 0.004, (0.5, 0.4, 0.38))


def _crop(mask: Mask, window: Mask) -> Image:
    """`mask` restricted to, and multiplied by, another mask of the same image."""
    canvas = np.zeros_like(window.alpha)
    top, left = max(mask.top, window.top), max(mask.left, window.left)
    bottom = min(mask.top + mask.alpha.shape[0], window.top + window.alpha.shape[0])
    right = min(mask.left + mask.alpha.shape[1], window.left + window.alpha.shape[1])
    if bottom > top and right > left:
        canvas[top - window.top : bottom - window.top, left - window.left : right - window.left] = mask.alpha[
            top - mask.top : bottom - mask.top, left - mask.left : right - mask.left
        ]
    return np.asarray(canvas * window.alpha, np.float32)


def _eyeball(
    opening: Mask,
    head: Head,
    frontal: Array,
    identity: Identity,
    expression: Expression,
    light: Light,
    skin: Skin,
) -> Image:
    """Colour (h, w, 3) of the eyeball over the rectangle of its opening."""
    view, unit = head.view, head.view.scale
    half = identity.eye_half_width
    middle = (frontal[0] + frontal[3]) / 2 - (0, 0.012)
    centre = view.project(head.surface.lift(middle[None] + expression.gaze * half * (1.0, 0.55)))[0]
    across, down = view.facing_offsets(*opening.grid(), centre)
    radius = np.hypot(across, down)
    angle = np.arctan2(down, across)
    iris_radius, soft = 0.088, max(0.009, 0.6 / unit)
    white = rgb(0.80, 0.765, 0.735) * np.ones((*across.shape, 1), np.float32)
    pink = smoothstep(0.6, 1.05, np.abs(across + expression.gaze[0] * half) / half)[..., None]
    white *= 1 - pink * rgb(0.18, 0.42, 0.42)
    depth = smoothstep(0.0, 1.0, radius / iris_radius)[..., None]
    fibres = 1 + 0.16 * np.sin(23 * angle) * np.sin(7 * angle + 1)
    iris = identity.iris.astype(np.float32) * ((1.75 - 0.9 * depth) * fibres[..., None])
    iris *= 1 - 0.75 * smoothstep(0.74, 1.0, radius / iris_radius)[..., None]
    # Light enters the clear cornea on one side and glows on the other.
    towards = (view.rotation.T @ light.towards)[:2]
    iris *= 1 + 0.5 * np.clip(-(across * towards[0] + down * towards[1]) / iris_radius, -0.6, 1)[..., None]
    ball = white + smoothstep(iris_radius + soft, iris_radius - soft, radius)[..., None] * (iris - white)
    ball *= 1 - 0.97 * smoothstep(0.036 + soft, 0.036 - soft, radius)[..., None]
    falling = skin.light[opening.window].mean(axis=(0, 1)) * 0.55 + 0.45 * (light.ambient + 0.7 * light.key)
    ball *= falling.astype(np.float32)
    spark = np.hypot(across - 0.036 * np.sign(towards[0]) - 0.01 * towards[0], down + 0.034)
    ball += 0.95 * smoothstep(0.020 + soft, 0.020 - soft, spark)[..., None]
    return np.asarray(ball, np.float32)


def paint_brows(image: Image, head: Head, identity: Identity, skin: Skin, rng: Generator) -> None:
    """Both brows: a soft band under single hairs, thickest a third of the way from the nose."""
    unit, size = head.view.scale, head.view.size
    colour = np.minimum(identity.hair, 0.22) * 0.6 + 0.15 * identity.skin * identity.hair
    for brow, outwards in zip(BROWS, (-1, 1), strict=True):
        draws = rng.uniform(-1, 1, (_BROW_HAIRS, 3))
        curve = spline(head.points[brow], 12)[::outwards]
        t = np.linspace(0.0, 1.0, len(curve))
        half = identity.brow_thickness * unit * (0.62 + 0.55 * np.sin(np.pi * t**0.7)) * (1 - 0.72 * t**2.2)
        band = fill(ribbon(curve, half * 0.9), size, 0.016 * unit)
        light = skin.light[band.window]
        paint(image, band, colour * light, 0.72)
        # Hairs start across the band and lean outwards, ever flatter towards the tail.
        place = (np.arange(_BROW_HAIRS) + 0.5 + 0.4 * draws[:, 0]) / _BROW_HAIRS * (len(curve) - 1)
        index = np.clip(place.astype(int), 0, len(curve) - 2)
        along = curve[index + 1] - curve[index]
        along /= np.linalg.norm(along, axis=1, keepdims=True) + 1e-9
        normal = np.stack([along[:, 1], -along[:, 0]], axis=1) * outwards
        spread = half[index, None]
        steep = (1.0 - 0.8 * t[index])[:, None]
        root = curve[index] + normal * spread * (0.55 * draws[:, 1:2] - 0.2 * steep)
        end = root + along * spread * (1.0 + 0.3 * draws[:, 2:]) + normal * spread * 0.75 * steep
        side = np.stack([root[:, 1] - end[:, 1], end[:, 0] - root[:, 0]], axis=1)
        side *= 0.006 * unit / np.linalg.norm(side, axis=1, keepdims=True)
        strands = fill(list(np.stack([root - side, end, root + side], axis=1)), size)
        paint(image, strands, colour * 0.7 * skin.light[strands.window], 0.7)


def paint_nose(image: Image, head: Head) -> None:
    """Nostrils, the crease under the nose and the wings' outlines; the relief has shaded the rest."""
    unit, size, frontal = head.view.scale, head.view.size, head.frontal
    base = spline(head.points[NOSTRILS], 8)
    _crease(image, head.view, base, 0.018 * taper(len(base), 0.2, 0.2), 0.016, (0.62, 0.5, 0.48))
    middle, width = frontal[33], (frontal[35, 0] - frontal[31, 0]) / 2
    angle = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    for side, wing in ((-1, frontal[31]), (1, frontal[35])):
        hole = middle + np.array([side * 0.47 * width, -0.036])
        across = width * np.cos(angle)
        ring = hole + np.column_stack([0.29 * across, 0.021 * np.sin(angle) - 0.05 * side * across])
        outline = head.view.project(head.surface.lift(ring))
        darken(image, fill(outline, size, 0.007 * unit), [0.22, 0.13, 0.12])
        arc = wing + np.array([(0.0, 0.0), (0.032, -0.05), (0.008, -0.115), (-0.03, -0.15)]) * (side, 1)
        crease = spline(head.view.project(head.surface.lift(arc)), 8)
        _crease(image, head.view, crease, 0.010 * taper(len(crease), 0.8, 0.0), 0.009, (0.66, 0.55, 0.53))


def paint_mouth(
    image: Image, head: Head, identity: Identity, expression: Expression, skin: Skin, light: Light
) -> None:
    """The lips, and between them the teeth, the tongue and the dark."""
    unit, size, points = head.view.scale, head.view.size, head.points
    outer_points, inner_points = points[OUTER_LIPS], points[INNER_LIPS]
    outer = np.concatenate([spline(outer_points[:7], 8), spline(outer_points[[6, 7, 8, 9, 10, 11, 0]], 8)])
    inner_top, inner_bottom = spline(inner_points[:5], 8), spline(inner_points[[4, 5, 6, 7, 0]], 8)
    inner = np.concatenate([inner_top, inner_bottom])
    below = 0.045 * unit * head.view.rotation[:2, 1]
    under = spline(outer_points[7:12] + below, 8)
    _crease(image, head.view, under, 0.025 * taper(len(under)), 0.022, (0.72, 0.64, 0.62))
    _paint_smile_folds(image, head, expression)

    lips = fill(outer, size)
    tone = np.broadcast_to(identity.lips.astype(np.float32), (*lips.alpha.shape, 3)).copy()
    upper = fill(np.concatenate([spline(outer_points[:7], 8), inner_top[::-1]]), size, 0.01 * unit)
    tone *= 1 - 0.24 * _crop(upper, Mask(np.ones_like(lips.alpha), lips.left, lips.top))[..., None]
    paint(image, lips, tone * skin.light[lips.window], 0.93)
    # A moist highlight runs along the lower lip.
    gloss = spline((outer_points[8:11] + inner_points[5:8]) / 2, 8)
    shine = fill(ribbon(gloss, 0.014 * unit * taper(len(gloss))), size, 0.014 * unit)
    image[shine.window] += 0.11 * shine.alpha[..., None] * skin.light[shine.window]

    mouth = fill(inner, size, 0.004 * unit)
    seam = fill([ribbon(inner_top, 0.012 * unit), ribbon(inner_bottom, 0.008 * unit)], size, 0.01 * unit)
    darken(image, seam, [0.45, 0.36, 0.36])
    paint(image, mouth, _mouth_interior(mouth, head, expression, light))


def _mouth_interior(mouth: Mask, head: Head, expression: Expression, light: Light) -> Image:
    """Colour (h, w, 3) between the lips over the rectangle of `mouth`."""
    view, unit = head.view, head.view.scale
    inner = head.frontal[INNER_LIPS]
    across, down = view.facing_offsets(*mouth.grid(), head.points[62])
    half = (inner[4, 0] - inner[0, 0]) / 2
    falling = (light.ambient + light.key).astype(np.float32)
    colour = np.broadcast_to(rgb(0.045, 0.012, 0.012) * falling, (*across.shape, 3)).copy()
    open_height = inner[6, 1] - inner[2, 1]
    soft = max(0.008, 0.6 / unit)
    tongue = np.hypot(across / (0.75 * half), (down - open_height * 1.02) / (0.40 * open_height + 0.01))
    colour += smoothstep(1.05, 0.45, tongue)[..., None] * rgb(0.30, 0.07, 0.07) * falling * 0.8
    # Smiles bare the upper teeth; each tooth is a bright column between thin dark gaps.
    bared = 0.055 + 0.05 * max(expression.smile, 0.0)
    rise = 0.10 * max(expression.smile, 0.0) * (across / half) ** 2
    edge = bared - rise - 0.02 * (across / half) ** 2
    teeth = smoothstep(edge + soft, edge - soft, down) * smoothstep(0.97, 0.72, np.abs(across) / half)
    gap = 0.5 - np.abs(np.mod(across / 0.075, 1.0) - 0.5)
    enamel = rgb(0.74, 0.70, 0.62) * (1 - 0.22 * smoothstep(0.16, 0.0, gap)[..., None])
    enamel = enamel * (1 - 0.55 * (across / half) ** 2)[..., None] * falling * 0.78
    teeth *= float(np.clip((open_height - 0.02) / 0.05, 0.0, 1.0))
    colour += teeth[..., None] * (enamel - colour)
    # The upper lip shades what is just behind it.
    colour *= (0.55 + 0.45 * smoothstep(-0.02, 0.045, down + rise))[..., None]
    return blur(np.asarray(colour, np.float32), 0.004 * unit)


def _paint_smile_folds(image: Image, head: Head, expression: Expression) -> None:
    """The folds from the nose's wings past the mouth's corners, deeper with a smile."""
    frontal = head.frontal
    strength = 0.12 + 0.38 * max(expression.smile, 0.0)
    for side, wing, corner in ((-1, frontal[31], frontal[48]), (1, frontal[35], frontal[54])):
        beside = corner + np.array([side * 0.085, -0.05])
        bulge = (wing + beside) / 2 + (side * 0.05, -0.03)
        start, end = wing + np.array([side * 0.05, -0.07]), beside + np.array([-side * 0.01, 0.12])
        path = np.stack([start, bulge, beside, end])
        fold = spline(head.view.project(head.surface.lift(path)), 8)
        depth = (1 - 0.75 * strength, 1 - 0.95 * strength, 1 - strength)
        _crease(image, head.view, fold, 0.014 * taper(len(fold)), 0.02, depth)
