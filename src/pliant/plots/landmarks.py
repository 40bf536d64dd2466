"""Landmarks on images: alone, in a contact sheet, and with how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pliant.arrays import Floats, Image, Int32
from pliant.data.addresses import plain_name
from pliant.plots.axes import Box, Picture, dots, mesh, object_box, outlines, sheet, show
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pliant.data.dataset import Dataset, Sample
    from pliant.data.suspects import Suspect


_WIDE = 6
"""So many square pictures of the usual size stand in a row of a contact sheet."""

_EXPLAINED = 0.7
"""Inches below a contact sheet for its colours."""

_FIRST = 0.1
"""Where in the colour map the first landmark is: what is darker does not show on dark ground."""


def plot_samples(samples: Sequence[Sample], columns: int | None = None, style: Style = STYLE) -> Figure:
    """Draw a contact sheet of images with their landmarks, each the part around the object.

    Colours say the number of each landmark, so that a wrong order stands out.

    Parameters
    ----------
    samples : sequence of Sample
        A data set, or some of its samples.
    columns : int or None
        The largest number of images in a row; by default more if they are narrow, and fewer if they are wide.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure. Its last axis explains the colours.

    Examples
    --------
    >>> import pliant
    >>> figure = pliant.plots.plot_samples(pliant.load_dataset("photographs/")[:4], columns=2)
    >>> len(figure.axes)
    5

    """
    if not samples:
        raise ValueError("there are no samples to draw.")
    figure, axes, boxes, inches = _contact_sheet(samples, columns, 1.0, 0.0, style)
    most = max(len(sample.points()) for sample in samples)
    for axis, sample, box in zip(axes.flat, samples, boxes, strict=False):
        show(axis, sample.image(), style, box=box)
        _ordered(axis, sample.points(), most, style, inches)
    _explain_order(figure, axes, most, style)
    return figure


def _contact_sheet(
    samples: Sequence[Sample], columns: int | None, zoom: float, above: float, style: Style
) -> tuple[Figure, Any, list[Box], float]:
    """Axes for samples with `above` inches for titles, the part of each image to show, and the width of an axis.

    The cells have the shape that is usual among the parts, and a `zoom` of 1 is the size of one image among many.
    """
    boxes = [object_box(sample.image(), sample.points(), square=False) for sample in samples]
    wide = float(np.median([(right - left) / (bottom - top) for left, top, right, bottom in boxes]))
    stretch = float(np.sqrt(np.clip(wide, 0.2, 5)))
    columns = min(columns or round(_WIDE / zoom / stretch), len(samples))
    rows = -(-len(samples) // columns)
    width, height = zoom * style.cell * stretch, zoom * style.cell / stretch
    figure, axes = sheet(rows, columns, width * columns, (height + above) * rows + _EXPLAINED, style)
    for axis in axes.flat:
        axis.set_axis_off()
    return figure, axes, boxes, width


def _ordered(
    axis: Axes, points: Floats, most: int, style: Style, inches: float, marked: Sequence[int] = ()
) -> None:
    """Landmarks `(v, 2)` in the colours of `most` landmarks; those `marked` are large."""
    numbers = np.arange(len(points))
    shades, large = _FIRST + (1 - _FIRST) * numbers / max(1, most - 1), np.isin(numbers, marked)
    dots(axis, points[~large], style, inches=1.5 * inches, shades=shades[~large])
    dots(axis, points[large], style, "truth", inches=3 * inches, shades=shades[large])


def _explain_order(figure: Figure, axes: Any, most: int, style: Style) -> None:
    """Which colour is which landmark, below all pictures."""
    colours = ListedColormap(colormaps[style.order](np.linspace(_FIRST, 1, 256)))
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, max(1, most - 1)), colours),
        ax=axes,
        location="bottom",
        # The layout knows where titles are only if pictures begin at the top of their cells.
        panchor=(0.5, 1.0),
        shrink=min(1.0, max(0.4, 3 / figure.get_figwidth())),
        aspect=40,
        ticks=MaxNLocator(6, integer=True),
    )
    bar.set_label("number of the landmark, counted from 0", fontsize=style.font)
    bar.ax.tick_params(labelsize=0.9 * style.font)


def plot_suspects(
    dataset: Dataset, suspects: Sequence[Suspect], most: int = 24, style: Style = STYLE
) -> Figure:
    """Draw a contact sheet of suspects, the worst first, each with its reason and with the sample that it repeats.

    Landmarks have the colours of `plot_samples`. Those that stand out are large diamonds.

    Parameters
    ----------
    dataset : Dataset
        The samples that were checked, `valid.dataset` of a `DatasetCheck`.
    suspects : sequence of Suspect
        The suspects among them.
    most : int
        The largest number of images to draw.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> suspect = pliant.data.Suspect(2, faces[2].name, "order", "two landmarks are swapped", 1.5, (36, 45))
    >>> figure = pliant.plots.plot_suspects(faces, [suspect])

    """
    by_name = {sample.name: sample for sample in dataset}
    panels: list[tuple[Sample, tuple[int, ...], str]] = []
    for suspect in suspects:
        title = f"{plain_name(suspect.name)}: {suspect.reason}"
        panels.append((dataset[suspect.number], suspect.landmarks, title))
        if suspect.other:
            panels.append((by_name[suspect.other], (), f"{plain_name(suspect.other)}, for comparison"))
    panels = panels[:most]
    if not panels:
        raise ValueError("there are no suspects to draw.")
    figure, axes, boxes, inches = _contact_sheet([sample for sample, _, _ in panels], None, 1.3, 0.7, style)
    # The lines of a title must not touch the edge of the sheet, or the picture above.
    figure.set_layout_engine("constrained", h_pad=0.1)
    most = max(len(sample.points()) for sample, _, _ in panels)
    for axis, (sample, marked, title), box in zip(axes.flat, panels, boxes, strict=False):
        show(axis, sample.image(), style, box=box)
        axis.set_title(fill(title, round(19 * inches)), fontsize=0.75 * style.font)
        _ordered(axis, sample.points(), most, style, inches, marked)
    _explain_order(figure, axes, most, style)
    return figure


def plot_overlay(
    image: Image,
    points: Floats,
    style: Style = STYLE,
    *,
    contours: Sequence[Sequence[int]] = (),
    triangles: Int32 | None = None,
) -> Figure:
    """Draw an image with landmarks on it, and nothing else.

    Parameters
    ----------
    image : array, shape (h, w) or (h, w, 3)
        The image.
    points : array, shape (v, 2)
        The landmarks.
    style : Style
        Colours and sizes.
    contours : sequence of sequence of int
        Runs of landmark numbers to join with lines.
    triangles : array of int, shape (t, 3), or None
        A mesh to draw below the landmarks.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> image, points = pliant.synthetic.face(0, image_size=64)
    >>> figure = pliant.plots.plot_overlay(image, points, contours=[range(17)])
    >>> figure.savefig("face.png")

    """
    height, width = image.shape[:2]
    inches = 6 / max(height, width)
    size = (max(0.1, inches * width), max(0.1, inches * height))
    figure = Picture(figsize=size, dpi=style.dpi)
    axis = figure.add_axes((0, 0, 1, 1))
    show(axis, image, style)
    if triangles is not None:
        mesh(axis, points, triangles, style)
    outlines(axis, points, contours, style)
    dots(axis, points, style, inches=size[0])
    return figure


def plot_uncertainty(
    image: Image, points: Floats, covariance: Floats, deviations: float = 2.0, style: Style = STYLE
) -> Figure:
    """Draw landmarks with ellipses that show how uncertain they are.

    The figure shows the part of the image around the landmarks.

    Parameters
    ----------
    image : array, shape (h, w) or (h, w, 3)
        The image.
    points : array, shape (v, 2)
        The landmarks, in pixels of the image.
    covariance : array, shape (v, 2, 2)
        Their covariances in square pixels, such as `FitResult.covariance`.
    deviations : float
        How many standard deviations an ellipse reaches.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> image, points = pliant.synthetic.face(0, image_size=64)
    >>> figure = pliant.plots.plot_uncertainty(image, points, np.tile(np.eye(2), (68, 1, 1)))

    """
    if covariance.shape != (len(points), 2, 2):
        raise ValueError(
            f"{len(points)} points need a covariance of shape (v, 2, 2), not {covariance.shape}."
        )
    known = np.isfinite(points).all(axis=1) & np.isfinite(covariance).all(axis=(1, 2))
    variances, directions = np.linalg.eigh(covariance[known])
    axes_long = 2 * deviations * np.sqrt(np.maximum(variances, 0))
    angles = np.degrees(np.arctan2(directions[:, 1, 1], directions[:, 0, 1]))
    inches = 5.0
    box = object_box(image, points)
    tall = inches * (box[3] - box[1]) / (box[2] - box[0])
    figure, axes = sheet(1, 1, inches, tall + 0.25, style)
    axis = axes[0, 0]
    show(axis, image, style, f"ellipses: {deviations:g} standard deviations", box)
    for colour, width in (("black", 2.2), (style.lines, 1.2)):
        axis.add_collection(
            EllipseCollection(
                axes_long[:, 1],
                axes_long[:, 0],
                angles,
                units="xy",
                offsets=points[known],
                transOffset=axis.transData,
                facecolors="none",
                edgecolors=colour,
                linewidths=width,
            )
        )
    dots(axis, points, style, inches=0.4 * inches)
    return figure
