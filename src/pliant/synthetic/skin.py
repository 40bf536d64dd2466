"""Lit skin: colour and shading worked out on the unrolled face, then seen from the camera.

The unrolled face is the frontal (x, y) plane of the height field. Rays from the image's pixels are marched
on to that field, so that a turned nose hides the cheek behind it.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pliant.synthetic.anatomy import EYES, Head
from pliant.synthetic.canvas import Array, Image, blur, rgb, smoothstep
from pliant.synthetic.traits import Identity, Light

_STEP = 1 / 56
_GRID_X = np.arange(-1.36, 1.36, _STEP)
_GRID_Y = np.arange(-1.66, 1.72, _STEP)
_MARCH = np.linspace(0.62, -1.45, 24, dtype=np.float32)


@dataclass(frozen=True)
class Skin:
    """Skin as the camera sees it: lit colour (s, s, 3), and the light alone (s, s, 3) for what lies on it."""

    colour: Image
    light: Image


def irradiance(normal: NDArray[np.floating], light: Light) -> Image:
    """Light (h, w, 3) that falls on surfaces of unit `normal` (h, w, 3), camera frame, without shadows."""
    # Wrapped a little past the terminator, as light scatters in skin, hair and rooms; more sky from above.
    wrap = 0.15
    key, sky = np.append(light.towards, wrap) / (1 + wrap), (0.0, -0.18, 0.0, 0.82)
    parts = cv2.transform(np.asarray(normal, np.float32), np.array([key, sky]))
    np.maximum(parts[..., 0], 0.0, out=parts[..., 0])
    return np.asarray(cv2.transform(parts, np.column_stack([light.key, light.ambient])), np.float32)


def lit_skin(head: Head, identity: Identity, light: Light, rng: Generator) -> Skin:
    """The head's skin, in an array of the image's size; black off the face's bounding box."""
    height = head.surface.relief(_GRID_X, _GRID_Y)
    albedo, smoothness = _albedo(head, identity, rng)
    falling, glint = _lighting(height, head.view.rotation, light)
    colour = albedo * falling + (glint * smoothness)[..., None]
    window, map_x, map_y = _march(height, head)
    seen = np.zeros((2, head.view.size, head.view.size, 3), np.float32)
    for layer, values in zip(seen, (colour, falling), strict=True):
        layer[window] = cv2.remap(values, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return Skin(colour=seen[0], light=seen[1])


def _lighting(height: Image, rotation: Array, light: Light) -> tuple[Image, Image]:
    """Light (h, w, 3) and specular glint (h, w) over the unrolled face."""
    slope_x = cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=1 / (8 * _STEP))
    slope_y = cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=1 / (8 * _STEP))
    steep = 1 / np.sqrt(slope_x**2 + slope_y**2 + 1)
    normal = np.asarray(cv2.merge([-slope_x * steep, -slope_y * steep, steep]), np.float32)
    towards = (rotation.T @ light.towards).astype(np.float32)
    viewer = rotation[2].astype(np.float32)
    falling = irradiance(normal @ rotation.T.astype(np.float32), light)
    shade = light.shadow * _cast_shadow(height, towards)
    falling -= (
        shade[..., None]
        * (np.clip(normal @ towards + 0.15, 0, 1) / 1.15)[..., None]
        * light.key.astype(np.float32)
    )
    # Hollows see less of the sky.
    hollow = blur(height, 0.11 / _STEP) - height
    open_sky = 1.0 - np.clip(2.6 * hollow, -0.12, 0.5)
    # Blood makes shade on skin warm rather than grey.
    falling *= cv2.merge([np.sqrt(open_sky), open_sky, open_sky])
    half = towards + viewer
    half /= np.linalg.norm(half)
    glint = light.shine * 0.22 * np.clip(normal @ half, 0, 1) ** 22 * (1 - shade) * light.key.mean()
    return np.asarray(falling, np.float32), np.asarray(glint, np.float32)


def _cast_shadow(height: Image, towards: NDArray[np.floating]) -> Image:
    """How much (h, w) of the key light nose and brows take from what lies behind them, in [0, 1]."""
    excess = np.zeros_like(height)
    rows, columns = height.shape
    for distance in np.linspace(0.05, 0.5, 9):
        shift = np.array([[1, 0, towards[0] * distance / _STEP], [0, 1, towards[1] * distance / _STEP]])
        there = cv2.warpAffine(
            height,
            shift,
            (columns, rows),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        np.maximum(excess, there - height - towards[2] * distance, out=excess)
    return blur(smoothstep(0.0, 0.09, excess), 1.6)


def _albedo(head: Head, identity: Identity, rng: Generator) -> tuple[Image, Image]:
    """Colour (h, w, 3) and smoothness (h, w) of the unrolled face, from blush and freckles to a beard."""
    x, y = np.meshgrid(_GRID_X.astype(np.float32), _GRID_Y.astype(np.float32))
    points = head.frontal
    rows, columns = x.shape
    mottle = _noise(rng, 22, (columns, rows))
    grain = _noise(rng, 150, (columns, rows))

    def spot(centre: Array, wide: float, tall: float) -> Image:
        squared = ((_GRID_X - centre[0]) / wide) ** 2, ((_GRID_Y - centre[1]) / tall) ** 2
        return np.outer(np.exp(-0.5 * squared[1]), np.exp(-0.5 * squared[0])).astype(np.float32)

    red = spot(points[30], 0.12, 0.12) + spot(points[8] - (0, 0.15), 0.2, 0.1) * 0.5
    dark = np.zeros_like(x)
    for side, eye in zip((-1, 1), EYES, strict=True):
        centre = points[eye].mean(axis=0)
        red += spot(np.array([side * 0.52, 0.17]), 0.2, 0.15)
        above, below = centre - np.array([0.0, 0.07]), centre + np.array([0.0, 0.1])
        dark += spot(above, 0.19, 0.06) + 0.8 * spot(below, 0.16, 0.05)
    skin = identity.skin.astype(np.float32)
    colour = np.broadcast_to(skin, (*x.shape, 3)) * (1 + 0.035 * mottle + 0.02 * grain)[..., None]
    flush = identity.blush * red
    colour *= np.stack([1 - 0.02 * flush, 1 - 0.26 * flush, 1 - 0.22 * flush], axis=2)
    colour *= (1 - 0.14 * np.clip(dark, 0, 1))[..., None] * rgb(1.0, 0.985, 0.98)
    freckle = smoothstep(1.1, 2.2, grain) * identity.freckles * np.clip(red + 0.3, 0, 1)
    colour *= 1 - 0.45 * freckle[..., None] * rgb(0.5, 0.85, 1.0)
    cover = np.zeros_like(x)
    if identity.stubble or identity.beard:
        region = _beard_region(x, y + 0.025 * mottle + 0.012 * grain, points)
        shaven = 0.32 * identity.stubble * region * np.clip(1 + 0.2 * grain, 0, 2)
        grown = identity.beard * smoothstep(0.0, 0.8, region * (1 + 0.12 * grain))
        cover = shaven + grown * (1 - shaven)
        hair = (
            np.minimum(identity.hair, 0.3).astype(np.float32) * np.clip(0.8 + 0.22 * grain, 0.3, 2)[..., None]
        )
        colour += cover[..., None] * (hair - colour)
    return np.asarray(colour, np.float32), np.asarray(1 - 0.85 * cover, np.float32)


def _beard_region(x: Image, y: Image, points: Array) -> Image:
    """Where a beard grows (h, w): below a line from the ears past the mouth's corners, and a moustache."""
    across = np.abs(x - points[8, 0])
    nose, mouth, bottom = points[33, 1], points[51, 1], points[57, 1]
    corner = (points[54, 0] - points[48, 0]) / 2
    sideways = [0.0, corner, corner + 0.12, 0.72, 0.86, 0.95, 1.02]
    edge = np.interp(
        np.abs(_GRID_X - points[8, 0]), sideways, [mouth, mouth, mouth - 0.06, 0.42, 0.20, -0.08, -0.5]
    )
    chin = smoothstep(-0.08, 0.20, y - edge.astype(np.float32))
    lip = smoothstep(nose + 0.02, nose + 0.11, y) * smoothstep(corner + 0.12, corner - 0.06, across)
    lip *= smoothstep(bottom, mouth, y)
    return np.asarray(np.maximum(chin, 0.9 * lip), np.float32)


def _noise(rng: Generator, cells: int, shape: tuple[int, int]) -> Image:
    """Smooth noise of unit variance: `cells` x `cells` draws enlarged to `shape` (width, height)."""
    coarse = rng.standard_normal((cells, cells), dtype=np.float32)
    return np.asarray(cv2.resize(coarse, shape, interpolation=cv2.INTER_CUBIC), np.float32)


def _march(height: Image, head: Head) -> tuple[tuple[slice, slice], Image, Image]:
    """Where on the unrolled face (columns and rows of `height`) the pixels of a window about the face look.

    A pixel's ray meets the plane z = d at A^-1 (pixel - offset - d b), with [A b] the projection. Going from
    the front, the first plane that lies below the surface brackets the hit, and a secant step places it.
    """
    view = head.view
    pad = 0.1 * view.scale
    left, top = (int(v) for v in np.clip(head.outline.min(axis=0) - pad, 0, view.size - 2))
    right, bottom = (int(v) for v in np.clip(head.outline.max(axis=0) + pad, (left + 2, top + 2), view.size))
    # Half the image's resolution is enough for a smooth surface.
    rows, columns = (bottom - top + 1) // 2, (right - left + 1) // 2
    inverse = np.linalg.inv(view.scale * view.rotation[:2, :2])
    slide = (inverse @ (view.scale * view.rotation[:2, 2])).astype(np.float32)
    u = left + (np.arange(columns) + 0.5) * (right - left) / columns - 0.5 - view.offset[0]
    v = top + (np.arange(rows) + 0.5) * (bottom - top) / rows - 0.5 - view.offset[1]
    x = np.add.outer(inverse[0, 1] * v, inverse[0, 0] * u).astype(np.float32)
    y = np.add.outer(inverse[1, 1] * v, inverse[1, 0] * u).astype(np.float32)
    near = (x - _MARCH[:, None, None] * slide[0] - np.float32(_GRID_X[0])) / np.float32(_STEP)
    down = (y - _MARCH[:, None, None] * slide[1] - np.float32(_GRID_Y[0])) / np.float32(_STEP)
    there = cv2.remap(
        height,
        near.reshape(-1, columns),
        down.reshape(-1, columns),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    above = np.asarray(there, np.float32).reshape(near.shape) - _MARCH[:, None, None]
    below = above > 0
    below[-1] = True
    hit = np.maximum(below.argmax(axis=0), 1)[None]
    after = np.take_along_axis(above, hit, 0)[0]
    before = np.take_along_axis(above, hit - 1, 0)[0]
    share = np.clip(after / np.where(after > before, after - before, 1), 0, 1)
    depth = _MARCH[hit[0]] + share * (_MARCH[0] - _MARCH[1])
    maps = (
        (x - depth * slide[0] - np.float32(_GRID_X[0])) / np.float32(_STEP),
        (y - depth * slide[1] - np.float32(_GRID_Y[0])) / np.float32(_STEP),
    )
    size = (right - left, bottom - top)
    map_x, map_y = (cv2.resize(m.astype(np.float32), size, interpolation=cv2.INTER_LINEAR) for m in maps)
    window = slice(top, bottom), slice(left, right)
    return window, np.asarray(map_x, np.float32), np.asarray(map_y, np.float32)
