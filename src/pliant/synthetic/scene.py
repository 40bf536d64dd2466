"""What surrounds a face: the background, the body and the ears."""

import cv2
import numpy as np
from numpy.random import Generator

from pliant.synthetic.anatomy import Head
from pliant.synthetic.canvas import Array, Image, blur, darken, fill, paint, ribbon, spline
from pliant.synthetic.skin import irradiance
from pliant.synthetic.traits import Identity, Light, Style, muted

_BACKGROUND = 64
_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 64)), np.sin(np.linspace(0, 2 * np.pi, 64))], axis=1)


def background(size: int, rng: Generator) -> Image:
    """A cluttered room (size, size, 3), out of focus: a gradient, blobs, straight edges and texture."""
    low, high = muted(rng.uniform(0.02, 0.75, (2, 3)) ** 1.3).astype(np.float32)
    direction = rng.uniform(0, 2 * np.pi)
    centres = rng.uniform(0, 1, (14, 2))
    extents = rng.uniform(0.04, 0.22, (14, 2))
    turns = rng.uniform(0, np.pi, 14)
    colours = muted(rng.uniform(0.0, 0.8, (14, 3)) ** 1.5)
    opacity = rng.uniform(0.35, 1.0, 14)
    focus = rng.uniform(0.002, 0.018)
    texture_cells, texture_strength = int(rng.choice([6, 18, 48])), rng.uniform(0.0, 0.22)
    texture = rng.standard_normal((_BACKGROUND, _BACKGROUND, 1), dtype=np.float32)[
        :texture_cells, :texture_cells
    ]
    clutter = int(rng.integers(2, 11))

    # Out of focus, so half the resolution shows all there is.
    coarse = max(size // 2, 16)
    place = (np.arange(coarse, dtype=np.float32) + 0.5) / coarse - 0.5
    ramp = np.clip(np.add.outer(place * np.sin(direction), place * np.cos(direction)) + 0.5, 0, 1)
    image = np.asarray(low + ramp[..., None].astype(np.float32) * (high - low), np.float32)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    for k in range(clutter):
        shape = _CIRCLE if k % 3 == 0 else corners * (1.0, 2.6) if k % 3 == 1 else corners
        turn = np.array([[np.cos(turns[k]), -np.sin(turns[k])], [np.sin(turns[k]), np.cos(turns[k])]])
        outline = (centres[k] + (shape * extents[k]) @ turn.T) * coarse - 0.5
        paint(image, fill(outline, coarse), colours[k], opacity[k])
    image *= (
        1
        + np.float32(texture_strength)
        * cv2.resize(texture, (coarse, coarse), interpolation=cv2.INTER_CUBIC)[..., None]
    )
    image = np.clip(blur(image, focus * coarse), 0.0, 1.0)
    return np.asarray(cv2.resize(image, (size, size), interpolation=cv2.INTER_LINEAR), np.float32)


def paint_body(image: Image, head: Head, identity: Identity, style: Style, light: Light) -> None:
    """Neck and shoulders, upright even when the head is not."""
    view, unit, size = head.view, head.view.scale, head.view.size
    nape = view.project(np.array([[0.0, 0.55, -0.85]]))[0]
    lean = np.arctan2(view.rotation[1, 0], view.rotation[0, 0]) * 0.45
    turn = np.array([[np.cos(lean), -np.sin(lean)], [np.sin(lean), np.cos(lean)]])

    def place(points: list[tuple[float, float]]) -> Array:
        return np.asarray(nape + unit * np.array(points) @ turn.T)

    left = spline(place([(-0.62, -0.9), (-0.60, 0.35), (-0.70, 0.85), (-1.2, 1.15), (-1.9, 1.5)]), 8)
    right = spline(place([(0.62, -0.9), (0.60, 0.35), (0.70, 0.85), (1.2, 1.15), (1.9, 1.5)]), 8)
    bottom = place([(2.2, 6.0), (-2.2, 6.0)])
    neck = fill(np.concatenate([left[::-1], right, bottom]), size)
    x, y = neck.grid()
    (right_x, right_y), (middle_x, middle_y) = turn[:, 0].astype(np.float32), nape.astype(np.float32)
    across = right_x * (x - middle_x) + right_y * (y - middle_y)
    normal = _roundness(across / np.float32(0.72 * unit), -0.05)
    paint(image, neck, 0.86 * identity.skin.astype(np.float32) * irradiance(normal, light))

    collar_left, collar_right = place([(-0.66, 0.70)])[0], place([(0.66, 0.70)])[0]
    dip = place([(0.0, 1.18)])[0]
    collar = spline(np.stack([collar_left, dip, collar_right]), 10)
    shoulder_left = spline(place([(-0.66, 0.70), (-1.25, 1.08), (-2.4, 1.6), (-3.0, 6.0)]), 8)
    shoulder_right = spline(place([(0.66, 0.70), (1.25, 1.08), (2.4, 1.6), (3.0, 6.0)]), 8)
    shirt = fill(np.concatenate([shoulder_left[::-1], collar, shoulder_right]), size)
    x, y = shirt.grid()
    normal = _roundness((x - middle_x) / np.float32(2.6 * unit), -0.3)
    paint(image, shirt, style.shirt.astype(np.float32) * irradiance(normal, light))
    rim = fill(ribbon(collar, 0.03 * unit), size, 0.008 * unit)
    darken(image, rim, 0.75)
    # The head's shadow on neck and shoulders sets the jaw off.
    fallen = head.outline + unit * np.array([-0.12 * light.towards[0], 0.20])
    darken(image, fill(fallen, size, 0.11 * unit), 1 - 0.62 * np.array([0.92, 1.0, 1.0]))


def _roundness(across: Image, tilt: float) -> Image:
    """Normals (h, w, 3) of an upright cylinder; `across` (h, w) is -1 and 1 at its sides."""
    sideways = np.clip(across, -0.95, 0.95)
    level = np.float32(np.sqrt(1 - tilt**2))
    parts = [level * sideways, np.full_like(sideways, tilt), level * np.sqrt(1 - sideways**2)]
    return np.asarray(cv2.merge(parts), np.float32)


def paint_ears(image: Image, head: Head, identity: Identity, light: Light) -> None:
    """The ears in sight, just behind the first and the last jaw point; the face covers their roots."""
    view, unit, size = head.view, head.view.scale, head.view.size
    width = identity.face_width
    shell = np.array(
        [(0.0, 0.20, -0.02), (0.05, 0.24, -0.10), (0.10, 0.10, -0.22), (0.15, -0.15, -0.36),
         (0.15, -0.33, -0.36), (0.11, -0.42, -0.24), (0.04, -0.40, -0.08), (0.0, -0.28, 0.0)]
    )  # fmt: skip
    for side in (-1, 1):
        if side * view.rotation[2, 0] < -0.17:
            continue  # turned away
        ear = np.column_stack([side * (width * 0.985 + shell[:, 0]), shell[:, 1] + 0.02, shell[:, 2] - 0.74])
        outline = spline(view.project(ear), 6, closed=True)
        normal = view.rotation @ np.array([0.75 * side, 0.0, 0.66])
        colour = identity.skin * irradiance(normal[None, None], light)[0, 0] * (1.0, 0.9, 0.88)
        mask = fill(outline, size)
        paint(image, mask, colour)
        centre = view.project(ear).mean(axis=0)
        inner = centre + 0.62 * (outline - centre)
        darken(image, fill(inner, size, 0.035 * unit), [0.62, 0.5, 0.48])
        rim = fill(ribbon(np.concatenate([outline, outline[:1]]), 0.012 * unit), size, 0.012 * unit)
        darken(image, rim, [0.8, 0.72, 0.7])
