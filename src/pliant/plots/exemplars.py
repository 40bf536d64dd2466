"""Examples: where fits begin, which pixels they look at, and where they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pliant.arrays import Floats, Int32
from pliant.inputs import ImageSource, read
from pliant.plots.axes import dots, legend_below, object_box, sheet, show
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from pliant.motion import Frame

_WIDEST = 6
"""So many images stand in a row unless told otherwise."""


def plot_starts(
    images: Sequence[ImageSource],
    starts: Mapping[str, Sequence[Floats]],
    truths: Sequence[Floats] | None = None,
    style: Style = STYLE,
) -> Figure:
    """Starts of every image, a row for each and a column for each label, such as an amount of noise.

    All pictures of a row show the same part of the image.

    Parameters
    ----------
    images
        Files, samples, or arrays `(h, w)` or `(h, w, 3)`.
    starts
        A start `(v, 2)` for each image, by label.
    truths
        Landmarks `(v, 2)` of each image, drawn as well.
    style
        Colours and sizes.

    Returns
    -------
    Figure
        A Matplotlib figure.

    """
    if not starts or not len(images):
        raise ValueError("there are no starts to draw: give at least one image and one label.")
    for label, some in starts.items():
        if len(some) != len(images):
            raise ValueError(f"{label}: there are {len(some)} starts but {len(images)} images.")
    figure, axes = sheet(
        len(images), len(starts), style.cell * len(starts), style.cell * len(images) + 0.4, style
    )
    for number, (source, line) in enumerate(zip(images, axes, strict=True)):
        image = read(source)
        shapes = [some[number] for some in starts.values()]
        known = [] if truths is None else [truths[number]]
        box = object_box(image, *shapes, *known)
        for label, start, axis in zip(starts, shapes, line, strict=True):
            show(axis, image, style, label if number == 0 else "", box)
            for truth in known:
                dots(axis, truth, style, "truth", label="truth")
            dots(axis, start, style, "start", label="start")
    if truths is not None:
        legend_below(figure, axes[0, 0], style)
    return figure


def plot_sampling(frame: Frame, chosen: Mapping[str, Int32 | None], style: Style = STYLE) -> Figure:
    """The pixels of a reference frame that are looked at.

    Parameters
    ----------
    frame
        The reference frame, such as `model.levels[-1].motion.frame`.
    chosen
        Numbers of pixels `(k,)`, by label; None is all.
    style
        Colours and sizes.

    Returns
    -------
    Figure
        A Matplotlib figure.

    """
    if not chosen:
        raise ValueError("there is nothing to draw: give at least one label.")
    height, width = frame.shape
    cell = 1.4 * style.cell
    figure, axes = sheet(1, len(chosen), cell * len(chosen), cell * height / width + 0.6, style)
    for axis, (label, rows) in zip(axes[0], chosen.items(), strict=True):
        # Grey is what the frame has, white what is looked at, and black lies outside.
        picture = np.where(frame.mask, 90, 0).astype(np.uint8)
        columns, lines = (frame.pixels if rows is None else frame.pixels[rows]).T
        picture[lines, columns] = 255
        count = len(frame.pixels) if rows is None else len(rows)
        show(axis, picture, style, f"{label}\n{count:,} pixels")
        # One pixel is one square, however large the picture is.
        axis.images[0].set_interpolation("nearest")
    return figure


def plot_exemplars(
    images: Sequence[ImageSource],
    points: Mapping[str, Sequence[Floats]],
    truths: Sequence[Floats] | None = None,
    titles: Mapping[str, Sequence[str]] | None = None,
    *,
    columns: int = _WIDEST,
    style: Style = STYLE,
) -> Figure:
    """Fits of each label, such as an algorithm, on their images; below each other for the same image.

    The part of the image about the truth, or else about the fits, is drawn.

    Parameters
    ----------
    images
        Files, samples, or arrays `(h, w)` or `(h, w, 3)`.
    points
        What was found in each image, `(v, 2)`, by label.
    truths
        Landmarks `(v, 2)` of each image, drawn as well.
    titles
        What stands above each picture, by label.
    columns
        Most images in a row.
    style
        Colours and sizes.

    Returns
    -------
    Figure
        A Matplotlib figure.

    """
    if not points or not len(images):
        raise ValueError("there are no fits to draw: give at least one image and one label.")
    for label, some in points.items():
        if len(some) != len(images):
            raise ValueError(f"{label}: there are {len(some)} fits but {len(images)} images.")
    columns = min(columns, len(images))
    bands = -(-len(images) // columns)
    rows = bands * len(points)
    tall = style.cell + (0.03 * style.font if titles else 0.0)
    figure, axes = sheet(rows, columns, style.cell * columns + 0.3, tall * rows + 0.4, style)
    for axis in axes.flat:
        axis.set_axis_off()
    for number, source in enumerate(images):
        image = read(source)
        band, column = divmod(number, columns)
        about = [some[number] for some in points.values()] if truths is None else [truths[number]]
        box = object_box(image, *about)
        for place, (label, some) in enumerate(points.items()):
            axis = axes[band * len(points) + place, column]
            show(axis, image, style, titles[label][number] if titles else "", box)
            if truths is not None:
                dots(axis, truths[number], style, "truth", label="truth")
            dots(axis, some[number], style, "fit", label="fit")
            if column == 0:
                axis.set_axis_on()
                axis.set(xticks=[], yticks=[], frame_on=False)
                axis.set_ylabel(label, fontsize=style.font)
    if truths is not None:
        legend_below(figure, axes[0, 0], style)
    return figure
