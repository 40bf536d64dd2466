"""Landmarks painted into the pixels, for thousands of pictures and for videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from pliant.appearance.tones import as_bytes
from pliant.arrays import Floats, Image
from pliant.plots.axes import object_box
from pliant.plots.lettering import write_caption, write_labels
from pliant.plots.style import STYLE, Kind, Style

_SHIFT = 6
"""OpenCV takes coordinates as 64ths of a pixel."""

_CORNERS = np.linspace(0, 2 * np.pi, 20, endpoint=False)
_DISC = np.stack([np.cos(_CORNERS), np.sin(_CORNERS)], axis=1)
"""A round polygon: OpenCV's own circles of a few pixels have four corners."""


def paint_overlay(
    image: Image,
    points: Floats,
    style: Style = STYLE,
    *,
    kind: Kind = "fit",
    contours: Sequence[Sequence[int]] = (),
    labels: Sequence[str] = (),
    crop: bool = False,
    longest: int | None = None,
    hollow: NDArray[np.bool_] | None = None,
    colours: Sequence[str] = (),
) -> NDArray[np.uint8]:
    """Paint landmarks into the pixels of an image.

    Landmarks are as large as in `plot_overlay`, but at most a fortieth of the object.

    Parameters
    ----------
    image : array, shape (h, w) or (h, w, 3)
        The image.
    points : array, shape (v, 2) or (k, v, 2)
        The landmarks of one object or of several. Unknown landmarks (nan) are left out.
    style : Style
        Colours and sizes.
    kind : {'fit', 'start', 'truth'}
        What the landmarks are, which decides their colour.
    contours : sequence of sequence of int
        Runs of landmark numbers to join with lines.
    labels : sequence of str, length v
        Short texts to write beside the landmarks, such as their names.
    crop : bool
        Show only the part of the image around the landmarks.
    longest : int or None
        The number of pixels along the longer side; by default that of the image or of the part.
    hollow : array of bool, shape (v,) or (k, v), or None
        Landmarks to paint as rings, such as `FitResult.doubtful`.
    colours : sequence of str, length k
        A colour for each object, in place of that of `kind`.

    Returns
    -------
    ndarray of uint8, shape (h', w', 3)
        The picture in RGB.

    Examples
    --------
    >>> import pliant
    >>> image, points = pliant.synthetic.face(0, image_size=64)
    >>> pliant.plots.paint_overlay(image, points, longest=128).shape
    (128, 128, 3)

    """
    if len(labels) not in (0, points.shape[-2]):
        raise ValueError(f"{points.shape[-2]} landmarks need {points.shape[-2]} labels, not {len(labels)}.")
    if crop:
        left, top, right, bottom = object_box(image, points)
        image, points = image[top:bottom, left:right], points - (left, top)
    canvas = _eight_bit(image)
    height, width = canvas.shape[:2]
    zoom = 1.0 if longest is None else longest / max(height, width)
    if zoom != 1:
        size = (max(1, round(width * zoom)), max(1, round(height * zoom)))
        smoothing = cv2.INTER_AREA if zoom < 1 else cv2.INTER_LINEAR
        canvas = np.asarray(cv2.resize(canvas, size, interpolation=smoothing), dtype=np.uint8)
        points = (points + 0.5) * (size[0] / width, size[1] / height) - 0.5
    shapes = points.reshape(-1, *points.shape[-2:])
    rings = np.broadcast_to(False if hollow is None else hollow, shapes.shape[:2])
    for shape, ring, colour in zip(shapes, rings, colours or [style.colour(kind)] * len(shapes), strict=True):
        canvas = _painted(canvas, shape, style, colour, contours, labels, ring)
    return canvas


def _painted(
    canvas: NDArray[np.uint8],
    points: Floats,
    style: Style,
    name: str,
    contours: Sequence[Sequence[int]],
    labels: Sequence[str],
    hollow: NDArray[np.bool_],
) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)` with the landmarks `(v, 2)` of one object in a colour, some of them `hollow (v,)`."""
    # Far outside, coordinates would overflow, and nothing would be seen of them; nan is not near either.
    near = np.all(np.abs(points) < 2**20, axis=1)
    if not near.any():
        return canvas
    diameter = style.marker / 72 * max(canvas.shape[:2]) / 6
    spread = float(np.ptp(points[near], axis=0).max())
    diameter = max(2.0, min(diameter, spread / 40 or diameter))
    places = np.rint(np.where(near[:, None], points, 0) * 2**_SHIFT).astype(np.int32)
    line = max(1, round(diameter / 4))
    for contour in contours:
        run = places[[number for number in contour if near[number]]]
        for colour, thickness in (((0, 0, 0), line + 2), (_rgb(style.lines), line)):
            cv2.polylines(canvas, [run], False, colour, thickness, cv2.LINE_AA, _SHIFT)
    colour = _rgb(name)
    if labels:  # below the landmarks, which are what the picture is about
        shown = [label for label, known in zip(labels, near, strict=True) if known]
        canvas = write_labels(canvas, np.asarray(points[near], dtype=np.float64), shown, colour, diameter)
    inner = np.rint(_DISC * (diameter / 2 * 2**_SHIFT)).astype(np.int32)
    outer = np.rint(_DISC * ((diameter / 2 + max(0.6, 0.1 * diameter)) * 2**_SHIFT)).astype(np.int32)
    for place in places[near & ~hollow]:
        cv2.fillConvexPoly(canvas, place + outer, (0, 0, 0), cv2.LINE_AA, _SHIFT)
        cv2.fillConvexPoly(canvas, place + inner, colour, cv2.LINE_AA, _SHIFT)
    for point in points[near & hollow]:
        _paint_ring(canvas, point, colour, diameter)
    return canvas


def _paint_ring(
    canvas: NDArray[np.uint8], point: Floats, colour: tuple[int, int, int], diameter: float
) -> None:
    """Paint a ring about a point, somewhat larger than a disc, through which the picture `(h, w, 3)` is seen."""
    radius, edge = 0.85 * diameter, max(0.6, 0.1 * diameter)
    left, top = np.clip(np.floor(point - radius - 2 * edge - 1), 0, canvas.shape[1::-1]).astype(int)
    right, bottom = np.clip(np.ceil(point + radius + 2 * edge + 2), 0, canvas.shape[1::-1]).astype(int)
    before = canvas[top:bottom, left:right].copy()
    if not before.size:
        return

    def disc(size: float) -> NDArray[np.int32]:
        return np.asarray(np.rint((point - (left, top) + size * _DISC) * 2**_SHIFT), dtype=np.int32)

    painted, hole = before.copy(), np.zeros(before.shape[:2], np.uint8)
    inside = radius - max(1.5, diameter / 4)
    for size, tone in ((radius + edge, (0, 0, 0)), (radius, colour), (inside, (0, 0, 0))):
        cv2.fillConvexPoly(painted, disc(size), tone, cv2.LINE_AA, _SHIFT)
    cv2.fillConvexPoly(hole, disc(inside - edge), (255,), cv2.LINE_AA, _SHIFT)
    seen = hole[:, :, None] / 255
    canvas[top:bottom, left:right] = np.rint(seen * before + (1 - seen) * painted)


def write_overlay(
    path: Path | str,
    image: Image,
    points: Floats,
    style: Style = STYLE,
    *,
    labels: Sequence[str] = (),
    crop: bool = False,
    longest: int | None = 600,
    hollow: NDArray[np.bool_] | None = None,
    colours: Sequence[str] = (),
    caption: str = "",
) -> None:
    """Paint landmarks into an image and write it as PNG or JPEG; the name of the file decides.

    Parameters
    ----------
    path : Path or str
        The file to write.
    image : array, shape (h, w) or (h, w, 3)
        The image.
    points : array, shape (v, 2) or (k, v, 2)
        The landmarks of one object or of several. Unknown landmarks (nan) are left out.
    style : Style
        Colours and sizes.
    labels : sequence of str, length v
        Short texts to write beside the landmarks, such as their names.
    crop : bool
        Show only the part of the image around the landmarks.
    longest : int or None
        The number of pixels along the longer side; None keeps that of the image or of the part.
    hollow : array of bool, shape (v,) or (k, v), or None
        Landmarks to paint as rings, such as `FitResult.doubtful`.
    colours : sequence of str, length k
        A colour for each object, in place of that of `kind`.
    caption : str
        A line of text in the upper left corner, in the colour of the first object.

    Examples
    --------
    >>> import pliant
    >>> image, points = pliant.synthetic.face(0, image_size=64)
    >>> pliant.plots.write_overlay("face.png", image, points, longest=128)
    >>> pliant.read_image("face.png").shape
    (128, 128, 3)

    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"{path}: a painted picture must be a .png or a .jpg file.")
    picture = paint_overlay(
        image, points, style, labels=labels, crop=crop, longest=longest, hollow=hollow, colours=colours
    )
    if caption:
        picture = write_caption(picture, caption, _rgb(colours[0] if colours else style.fit), 1 / 40)
    path.write_bytes(encoded(picture, path.suffix.lower()))


def paint_caption(picture: NDArray[np.uint8], text: str, colour: str) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)`, 8-bit RGB, with a line of text in its upper left corner."""
    return write_caption(picture, text, _rgb(colour))


def paint_number(picture: NDArray[np.uint8], points: Floats, text: str, colour: str) -> NDArray[np.uint8]:
    """The picture `(h, w, 3)`, 8-bit RGB, with a text above the object with these landmarks `(v, 2)`, if known."""
    if not np.all(np.isfinite(points)):
        return picture
    top = np.array([[points[:, 0].mean(), points[:, 1].min()]])
    return write_labels(picture, top, [text], _rgb(colour), 0.06 * float(np.ptp(points, axis=0).mean()))


def encoded(picture: NDArray[np.uint8], ending: str) -> bytes:
    """The content of a file with a picture `(h, w, 3)`, 8-bit RGB, of the kind that its ending stands for."""
    _, content = cv2.imencode(ending, picture[:, :, ::-1])
    return content.tobytes()


def _eight_bit(image: Image) -> NDArray[np.uint8]:
    """A copy as 8-bit RGB."""
    pixels = as_bytes(image)
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)
    return np.array(pixels, order="C")


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = (round(255 * part) for part in to_rgb(colour))
    return red, green, blue
