"""Hair in layers: behind the neck, on the skull, beside the face and before it."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator

from pliant.synthetic.anatomy import BROWS, Head, View
from pliant.synthetic.canvas import Array, Image, Mask, darken, fill, paint, smoothstep, spline
from pliant.synthetic.skin import irradiance
from pliant.synthetic.traits import Identity, Light, Style

_CENTRE = np.array([0.0, -0.47, -0.92])
_RADII = np.array([1.03, 1.08, 1.15])
_TURN = np.linspace(0, 2 * np.pi, 64, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)
_ROWS, _STRANDS = 12, 420


@dataclass(frozen=True)
class Hair:
    """A head of hair: the dome it covers, its strands' brightness (rows, strands), and its colour (3,)."""

    axes: Array
    centre: Array
    whorl: Array
    strands: Image
    curly: bool
    colour: Array

    def outline(self) -> Array:
        """The dome's silhouette (64, 2)."""
        return np.asarray(_CIRCLE @ self.axes.T + self.centre)


def grow(head: Head, identity: Identity, style: Style, rng: Generator) -> Hair:
    """The hair of one person; a bald one gets the bare dome of the skull."""
    strands = rng.standard_normal((_ROWS, _STRANDS), dtype=np.float32)
    axes, centre = _silhouette(head.view, 0.0 if style.bald else style.volume)
    return Hair(axes, centre, style.whorl, strands, style.curly, identity.hair)


def _silhouette(view: View, swell: float) -> tuple[Array, Array]:
    """Axes (2, 2) and centre (2,) of the ellipse that an ellipsoid of a skull projects to."""
    shape = view.scale * view.rotation[:2] * (_RADII * (1 + swell))
    lift = _CENTRE - (0.0, 0.25 * swell, 0.0)
    axes = np.linalg.cholesky(shape @ shape.T)
    return np.asarray(axes, np.float64), np.asarray(view.project(lift[None])[0])


def _strands(mask: Mask, hair: Hair) -> Image:
    """The strands' pattern (h, w), of about unit variance, over a mask's rectangle."""
    x, y = mask.grid()
    back = np.linalg.inv(hair.axes).astype(np.float32)
    u, v = x - np.float32(hair.centre[0]), y - np.float32(hair.centre[1])
    across = back[0, 0] * u + back[0, 1] * v - np.float32(hair.whorl[0])
    down = back[1, 0] * u + back[1, 1] * v - np.float32(hair.whorl[1])
    if hair.curly:
        # Ringlets: the same noise, read along wavy lines that cross the strands.
        columns = 26 * across + 1.6 * np.sin(9 * down), 60 * across + 2 * np.sin(17 * down)
        rows = 5 * down + 0.8 * np.sin(11 * across), 17 * down + 1.2 * np.sin(23 * across)
    else:
        # Straight hair leaves the whorl like spokes and then bends down.
        distance = cv2.magnitude(across, down)
        turn = cv2.phase(down + 0.25 + 0.25 * distance, across) / np.float32(2 * np.pi)
        columns = turn * (_STRANDS // 3), turn * _STRANDS
        rows = 0.7 * distance, 2.2 * distance
    broad, fine = (
        cv2.remap(hair.strands, column, row, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
        for column, row in zip(columns, rows, strict=True)
    )
    return np.asarray(np.float32(0.8) * broad + np.float32(0.6) * fine, np.float32)


def _tress(mask: Mask, pattern: Image, hair: Hair, light: Light) -> Image:
    """Colour (h, w, 3) of hair over a mask's rectangle."""
    normal = dome_normals(mask, hair)
    half = light.towards + np.array([0.0, -0.25, 1.0])
    facing = cv2.transform(normal, half[None] / np.linalg.norm(half))
    gloss = np.maximum(facing, 0) ** 14 * np.clip(1 + 0.6 * pattern, 0.1, 2.5)
    own, sheen = hair.colour.astype(np.float32), 0.10 * (0.25 + hair.colour.astype(np.float32))
    tone = cv2.merge([np.clip(0.86 + 0.26 * pattern, 0.25, 1.7), gloss])
    return np.asarray(
        cv2.transform(tone, np.column_stack([own, sheen])) * irradiance(normal, light), np.float32
    )


def dome_normals(mask: Mask, hair: Hair) -> Image:
    """Normals (h, w, 3) of the dome over a mask's rectangle, as if its ellipse were a sphere's disc."""
    x, y = mask.grid()
    radius = np.float32(np.sqrt(np.linalg.det(hair.axes)))
    u, v = (x - np.float32(hair.centre[0])) / radius, (y - np.float32(hair.centre[1])) / radius
    shrink = 1 / np.maximum(cv2.magnitude(u, v) / np.float32(0.95), 1)
    u, v = u * shrink, v * shrink
    return np.asarray(cv2.merge([u, v, np.sqrt(1 - u * u - v * v)]), np.float32)


def _ragged(mask: Mask, pattern: Image, roughness: float) -> Mask:
    """A blurred mask sharpened again, its edge broken up by single strands."""
    edge = 4 * mask.alpha * (1 - mask.alpha)
    return Mask(smoothstep(0.3, 0.7, mask.alpha + roughness * pattern * edge), mask.left, mask.top)


def paint_back(image: Image, head: Head, hair: Hair, style: Style, light: Light) -> None:
    """Long hair behind neck and shoulders."""
    if style.long_hair:
        reach = 1.05 + style.volume
        half = np.array(
            [(reach, -0.7, -0.9), (reach + 0.12, 0.3, -0.9), (reach + 0.16, 1.1, -0.8), (0.95, 1.8, -0.75)]
        )
        _paint_tress(image, _both_sides(head, half), head.view, hair, light, dim=0.55)


def paint_cap(image: Image, head: Head, hair: Hair, identity: Identity, style: Style, light: Light) -> None:
    """The dome above and behind the face: hair, or skin on a bald head."""
    if style.bald:
        mask = fill(hair.outline(), head.view.size)
        paint(image, mask, identity.skin.astype(np.float32) * irradiance(dome_normals(mask, hair), light))
    else:
        _paint_tress(image, hair.outline(), head.view, hair, light)


def paint_locks(image: Image, head: Head, hair: Hair, style: Style, light: Light) -> None:
    """Long hair beside the face, over the ears; the face, painted later, hides what is behind it."""
    if not style.long_hair:
        return
    reach = 1.08 + style.volume
    lock = np.array(
        [(0.80, -0.95, -0.55), (0.97, -0.35, -0.8), (0.99, 0.4, -0.75), (0.93, 1.2, -0.65),
         (0.98, 1.62, -0.65), (reach + 0.10, 1.5, -0.8), (reach + 0.10, 0.6, -0.92),
         (reach, -0.4, -0.95), (0.95, -0.95, -0.9)]
    )  # fmt: skip
    for side in (-1, 1):
        outline = spline(head.view.project(lock * (side, 1, 1)), 6, closed=True)
        _paint_tress(image, outline, head.view, hair, light)


def _both_sides(head: Head, half: Array) -> Array:
    """An outline (n, 2) from its right half (m, 3), mirrored and joined by splines."""
    right = spline(head.view.project(half), 8)
    left = spline(head.view.project(half * (-1, 1, 1)), 8)
    return np.concatenate([right, left[::-1]])


def _paint_tress(
    image: Image, outline: Array, view: View, hair: Hair, light: Light, dim: float = 1.0
) -> None:
    mask = fill(outline, view.size, 0.02 * view.scale)
    pattern = _strands(mask, hair)
    paint(
        image,
        _ragged(mask, pattern, 0.45 if hair.curly else 0.25),
        _tress(mask, pattern, hair, light) * np.float32(dim),
    )


def face_mask(head: Head, hair: Hair, style: Style) -> Mask:
    """Where skin shows: inside the face's outline, crisp at the jaw, and below the hairline, ragged there."""
    whole = fill(head.outline, head.view.size)
    if style.bald:
        return whole
    half = float(head.surface.outline[:, 0].max())
    x = np.linspace(-half, half, 25)
    y = style.hairline + (-0.36 - style.hairline) * np.abs(x / half) ** 3.2
    y += style.widow_peak * np.exp(-((x / 0.16) ** 2)) + style.hair_slope * x
    y -= style.temples * np.exp(-(((np.abs(x) / half - 0.6) / 0.2) ** 2))
    line = head.view.project(head.surface.lift(np.column_stack([x, y])))
    below = _hang(head, line)
    soft = fill(below, head.view.size, 0.035 * head.view.scale)
    shown = np.zeros((head.view.size, head.view.size), np.float32)
    shown[soft.window] = _ragged(soft, _strands(soft, hair), 0.25).alpha
    return Mask(whole.alpha * shown[whole.window], whole.left, whole.top)


def _hang(head: Head, line: Array) -> Array:
    """The outline of everything below a `line` (n, 2) drawn across the face from left to right."""
    turn = head.view.rotation[:2, :2] @ np.array([[1.0, 0.0], [0.0, 1.0]])
    across, down = turn[:, 0] * head.view.scale, turn[:, 1] * head.view.scale
    corners = [line[-1] + across, line[-1] + across + 3 * down, line[0] - across + 3 * down, line[0] - across]
    return np.concatenate([line, corners])


def paint_fringe(image: Image, head: Head, hair: Hair, style: Style, light: Light) -> None:
    """Hair over the forehead, down to or over the brows, with its shadow."""
    if style.bald or style.fringe == 0.0:
        return
    view = head.view
    half = 0.93 * float(head.surface.outline[:, 0].max())
    brow = min(head.frontal[part][:, 1].min() for part in BROWS)
    low = style.hairline + style.fringe * (brow + 0.08 - style.hairline)
    x = np.linspace(-half, half, 17)
    y = low + style.fringe_slope * x * style.fringe + 0.12 * np.abs(x / half) ** 3
    crown_y = -1.15 - 0.2 * (1 - (x / half) ** 2)
    edge = head.surface.lift(np.column_stack([x, y])) + np.array([0.0, 0.0, 0.05])
    top = head.surface.lift(np.column_stack([x * 0.85, crown_y])) + np.array([0.0, 0.0, 0.02])
    outline = np.concatenate([view.project(edge), view.project(top)[::-1]])
    drop = view.scale * np.array([-0.04 * light.towards[0], 0.05])
    shadow = fill(outline + drop, view.size, 0.04 * view.scale)
    darken(image, shadow, [0.68, 0.6, 0.58])
    mask = fill(outline, view.size, 0.035 * view.scale)
    pattern = _strands(mask, hair)
    paint(image, _ragged(mask, pattern, 0.4), _tress(mask, pattern, hair, light))
