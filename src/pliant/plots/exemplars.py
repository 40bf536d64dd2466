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
    """Draw the starts of every image: a row for each image, a column for each label, such as an amount of noise.

    All pictures of a row show the same part of the image.

    Parameters
    ----------
    images : sequence of str, Path, Sample or array, shape (h, w) or (h, w, 3)
        The images.
    starts : mapping of str to sequence of array, shape (v, 2)
        A start for each image, by label.
    truths : sequence of array, shape (v, 2), or None
        The landmarks of each image, which are drawn too.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> starts = {"near": [sample.points() + 1], "far": [sample.points() + 8]}
    >>> figure = pliant.plots.plot_starts([sample], starts, [sample.points()])
    >>> len(figure.axes)
    2

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
    """Draw the pixels of a reference frame that a fit looks at.

    Parameters
    ----------
    frame : Frame
        The reference frame with f pixels, such as `model.levels[-1].motion.frame`.
    chosen : mapping of str to array of int, shape (k,), or None
        The numbers of the pixels, by label; None is all of them.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> frame = pliant.load("faces.pliant").levels[-1].motion.frame
    >>> figure = pliant.plots.plot_sampling(frame, {"all": None, "a quarter": frame.sample(0.25)})
    >>> len(figure.axes)
    2

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
    """Draw the fits of each label, such as an algorithm, on their images; fits of one image are in one column.

    The figure shows the part of the image around the truth, or around the fits if there is no truth.

    Parameters
    ----------
    images : sequence of str, Path, Sample or array, shape (h, w) or (h, w, 3)
        The images.
    points : mapping of str to sequence of array, shape (v, 2)
        The landmarks that were found in each image, by label.
    truths : sequence of array, shape (v, 2), or None
        The true landmarks of each image, which are drawn too.
    titles : mapping of str to sequence of str, or None
        A title for each picture, by label.
    columns : int
        The largest number of images in a row.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> points = {"one": [sample.points() + 1], "another": [sample.points() - 1]}
    >>> figure = pliant.plots.plot_exemplars([sample], points, [sample.points()])

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
