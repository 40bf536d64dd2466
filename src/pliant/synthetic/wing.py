"""One annotated wing of a fly, as a microscope shows it: dark veins in a clear membrane, and a scale bar."""

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pliant.synthetic.canvas import Array, Image, Mask, blur, darken, fill, ribbon, spline, taper
from pliant.synthetic.wing_anatomy import Wing, build_wing

_FINER = 4
_BAR = 0.5
"""The length of the scale bar in millimetres."""


def wing(
    index: int, seed: int = 0, image_size: int = 320
) -> tuple[NDArray[np.uint8], NDArray[np.float64], float]:
    """Draw one annotated wing of a fly under a microscope at random.

    Parameters
    ----------
    index : int
        Which wing.
    seed : int
        Another seed gives other wings. The same index and seed give the same wing at every `image_size`.
    image_size : int
        The width in pixels; the height is three quarters of it.

    Returns
    -------
    image : ndarray of uint8, shape (3 * image_size // 4, image_size, 3)
        The picture in RGB.
    points : ndarray, shape (14, 2)
        The landmarks as x and y, 0-based with pixel centres at integers, in the order of `WING_LANDMARKS`.
    spacing : float
        The length of a pixel in millimetres.

    Examples
    --------
    >>> import pliant
    >>> image, points, spacing = pliant.synthetic.wing(3, image_size=160)
    >>> image.shape, points.shape
    ((120, 160, 3), (14, 2))
    >>> length = spacing * (points[:, 0].max() - points[:, 0].min())
    >>> bool(1.5 < length < 2.8)
    True

    """
    rng = np.random.default_rng([seed, 0xF17, index])
    one = build_wing(rng, image_size)
    picture = _slide(image_size, one.spacing, rng)
    _paint_membrane(picture, one, rng)
    _paint_veins(picture, one, rng)
    _paint_bristles(picture, one, rng)
    _paint_hinge(picture, one, rng)
    height = 3 * image_size // 4
    _paint_scale_bar(picture, one.spacing, height)
    return _photographed(picture[:height], rng), one.points, one.spacing


def wing_shape(index: int, seed: int = 0, image_size: int = 320) -> tuple[NDArray[np.float64], float]:
    """The landmarks (14, 2) and the length of a pixel of one wing, without drawing it."""
    one = build_wing(np.random.default_rng([seed, 0xF17, index]), image_size)
    return one.points, one.spacing


def _slide(size: int, spacing: float, rng: Generator) -> Image:
    """An empty slide (size, size, 3) in linear light: a lamp that is not quite centred, and a little dust."""
    lamp, strength = rng.uniform(0.3, 0.7, 2), rng.uniform(0.15, 0.4)
    tint = np.array([0.86, 0.87, 0.86]) + rng.normal(0, 0.02, 3) + (0.02, 0.0, -0.03) * rng.standard_normal(1)
    places, sizes = rng.uniform(0, 1, (9, 2)), rng.uniform(0.004, 0.014, 9)
    outlines = rng.uniform(0.6, 1.2, (9, 8))
    specks = int(rng.integers(2, 10))

    place = (np.arange(size, dtype=np.float32) + 0.5) / size
    away = np.add.outer((place - lamp[1] * 0.75) ** 2, (place - lamp[0]) ** 2)
    picture = np.asarray((1 - strength * away)[..., None] * tint, np.float32)
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    for where, extent, outline in zip(places[:specks], sizes, outlines, strict=False):
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1) * outline[:, None] * extent / spacing
        darken(picture, fill(spline(where * size * (1, 0.75) + ring, 4, closed=True), size, 0.3), 0.55)
    return picture


def _paint_membrane(picture: Image, one: Wing, rng: Generator) -> None:
    """Clear, a little brown, with creases, and with a tiny hair on every cell."""
    size = len(picture)
    amber = rng.uniform(0.75, 1.15)
    shades = rng.normal(0, 0.02, 6)
    spread = rng.uniform(-0.5, 0.5, (90, 60, 2))
    outline = np.concatenate([one.margin, one.alula[1:]])
    mask = fill(outline, size)
    darken(picture, mask, 1 - amber * np.array([0.13, 0.17, 0.26]))
    # The cells between the veins are not equally thick.
    for upper, lower, shade in zip(one.veins[3:], one.veins[4:], shades, strict=False):
        darken(picture, fill(np.concatenate([upper, lower[::-1]]), size, 0.6), 0.97 + shade)
    for fold in one.folds:
        darken(picture, fill(ribbon(fold, 0.008 / one.spacing * taper(len(fold))), size, 0.4), 0.93)

    # Rows of hairs that point to the tip, one for each cell of the living wing.
    grid = (np.stack(np.meshgrid(np.arange(90), np.arange(60)), axis=2).swapaxes(0, 1) + spread) * 0.026
    grid[..., 0] += 0.013 * (np.arange(60) % 2)
    roots = (grid.reshape(-1, 2) - grid.reshape(-1, 2).mean(axis=0)) @ one.turn.T / one.spacing
    roots += (outline.min(axis=0) + outline.max(axis=0)) / 2
    hairs = _strokes(roots, roots + one.turn[:, 0] * 0.014 / one.spacing, size)
    darken(picture, Mask(hairs.alpha * _whole(mask, size), 0, 0), [0.72, 0.69, 0.64])


def _paint_veins(picture: Image, one: Wing, rng: Generator) -> None:
    """Brown tubes, darker at their walls than inside; the costa is the strongest of them."""
    brown = 1 - rng.uniform(0.88, 1.1) * np.array([0.58, 0.68, 0.78])
    widths = rng.uniform(0.85, 1.15)
    costa, trailing = one.margin[: len(one.margin) * 11 // 20], one.margin[len(one.margin) * 11 // 20 - 1 :]
    tubes = [(vein, 0.0135, 0.75) for vein in one.veins] + [(vein, 0.0125, 1.0) for vein in one.crossveins]
    tubes += [(costa, 0.021, 0.55), (trailing, 0.007, 0.8), (one.alula, 0.007, 1.0), (one.stub, 0.009, 0.1)]
    size = len(picture)
    outlines, lumens = [], []
    for vein, half_width, end in tubes:
        half = widths * half_width / one.spacing * np.linspace(1.0, end, len(vein))
        outlines.append(ribbon(vein, half))
        lumens.append(ribbon(vein, 0.4 * half))
    darken(picture, fill(outlines, size, 0.25), brown)
    darken(picture, fill(lumens, size, 0.3), [1.28, 1.3, 1.25])


def _paint_bristles(picture: Image, one: Wing, rng: Generator) -> None:
    """Stout bristles on the leading edge, fine hairs on the trailing one; all lean to the tip."""
    size = len(picture)
    jitter = rng.standard_normal((400, 2))
    steps = np.linalg.norm(np.diff(one.margin, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    tangent = np.gradient(one.margin, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    outward = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    for begin, end, gap, length, lean, factor in (
        (0.04, 0.47, 0.022, 0.034, 0.8, 0.35),
        (0.47, 0.97, 0.014, 0.036, -0.9, 0.6),
    ):
        places = np.arange(begin * along[-1], end * along[-1], gap / one.spacing)
        x, y, out_x, out_y, tangent_x, tangent_y = (
            np.interp(places, along, values) for values in (*one.margin.T, *outward.T, *tangent.T)
        )
        some = jitter[: len(places)]
        reach = length / one.spacing * (1 + 0.15 * some[:, :1])
        slope = lean * (1 + 0.15 * some[:, 1:])
        roots = np.stack([x, y], axis=1)
        towards = np.stack([out_x, out_y], axis=1) + slope * np.stack([tangent_x, tangent_y], axis=1)
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        darken(picture, _strokes(roots, roots + reach * towards, size), factor)


def _paint_hinge(picture: Image, one: Wing, rng: Generator) -> None:
    """The torn base: pieces of dark cuticle where the wing was cut from the fly."""
    size = len(picture)
    start, root = one.margin[0], one.points[7]
    wobble = rng.uniform(0.8, 1.2, (3, 10))
    angles = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    for number, (share, reach, deep) in enumerate(
        ((0.35, 0.085, 0.42), (0.75, 0.065, 0.5), (1.25, 0.05, 0.6))
    ):
        across, along = one.turn[:, 1], one.turn[:, 0]
        middle = start + share * 0.10 / one.spacing * across - 0.035 / one.spacing * along
        ring = np.cos(angles)[:, None] * along * 0.9 + np.sin(angles)[:, None] * across * 0.75
        patch = spline(middle + ring * (wobble[number] * reach / one.spacing)[:, None], 4, closed=True)
        darken(picture, fill(patch, size, 0.4), [deep, deep * 0.85, deep * 0.66])
    sinew = spline(np.stack([start - 0.05 / one.spacing * one.turn[:, 0], (start + root) / 2, root]), 8)
    darken(picture, fill(ribbon(sinew, 0.016 / one.spacing), size, 0.4), [0.5, 0.42, 0.34])


def _paint_scale_bar(picture: Image, spacing: float, height: int) -> None:
    """Half a millimetre in the lower right corner, with its length in words where there is room for them."""
    size = len(picture)
    right, bottom = 0.955 * size, height - 0.035 * size
    left, thick = right - _BAR / spacing, max(0.0045 * size, 0.75)
    bar = np.array(
        [(left, bottom - thick), (right, bottom - thick), (right, bottom + thick), (left, bottom + thick)]
    )
    darken(picture, fill(bar - 0.5, size), 0.02)
    if size < 200:
        return
    scale = size / 320 * 0.36
    (width, _), _ = cv2.getTextSize("0.5 mm", cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    fine = np.zeros((_FINER * size, _FINER * size), np.uint8)
    place = ((left + right - width) / 2, bottom - thick - 0.012 * size)
    cv2.putText(
        fine,
        "0.5 mm",
        (int(_FINER * place[0]), int(_FINER * place[1])),
        cv2.FONT_HERSHEY_SIMPLEX,
        _FINER * scale,
        255,
        max(1, round(_FINER * size / 400)),
        cv2.LINE_AA,
    )
    darken(picture, Mask(_coarse(fine, size), 0, 0), 0.02)


def _photographed(picture: Image, rng: Generator) -> NDArray[np.uint8]:
    """Linear light to 8 bits: focus, exposure and noise."""
    focus, gain, noise = rng.uniform(0.15, 0.6), rng.uniform(0.92, 1.1), rng.uniform(0.004, 0.012)
    seen = np.clip(gain * blur(picture, focus * picture.shape[1] / 320), 0.0, 1.0) ** (1 / 2.2)
    # Drawn last, so that their number, which depends on the size, moves no other draw.
    grain = rng.standard_normal(picture.shape, dtype=np.float32)
    return np.asarray(np.clip(np.rint(255 * (seen + noise * grain)), 0, 255), np.uint8)


def _strokes(starts: Array, ends: Array, size: int) -> Mask:
    """Hair lines from `starts` (n, 2) to `ends` (n, 2), all of them in one mask of the image."""
    fine = np.zeros((_FINER * size, _FINER * size), np.uint8)
    pairs = np.rint(((np.stack([starts, ends], axis=1) + 0.5) * _FINER - 0.5) * 16).astype(np.int32)
    thick = max(1, round(_FINER * size / 640))
    cv2.polylines(fine, list(pairs), False, 255, thick, cv2.LINE_8, 4)
    return Mask(_coarse(fine, size), 0, 0)


def _coarse(fine: NDArray[np.uint8], size: int) -> Image:
    return np.asarray(cv2.resize(fine, (size, size), interpolation=cv2.INTER_AREA), np.float32) / np.float32(
        255
    )


def _whole(mask: Mask, size: int) -> Image:
    """The opacity (size, size) of a mask in the whole image."""
    whole = np.zeros((size, size), np.float32)
    whole[mask.window] = mask.alpha
    return whole
