"""Landmarks on images: alone, in a contact sheet, and with how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from pliant.arrays import Floats, Image, Int32
from pliant.data.addresses import plain_name
from pliant.data.suspects import Suspect, about_numbers
from pliant.plots.axes import Picture, dots, mesh, object_box, outlines, sheet, show
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from pliant.data.dataset import Dataset, Sample


def plot_samples(samples: Sequence[Sample], columns: int = 6, style: Style = STYLE) -> Figure:
    """Draw a contact sheet of images with their landmarks.

    Parameters
    ----------
    samples : sequence of Sample
        A data set, or some of its samples.
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
    >>> figure = pliant.plots.plot_samples(pliant.load_dataset("photographs/")[:4], columns=2)
    >>> len(figure.axes)
    4

    """
    if not samples:
        raise ValueError("there are no samples to draw.")
    columns = min(columns, len(samples))
    rows = -(-len(samples) // columns)
    figure, axes = sheet(rows, columns, style.cell * columns, style.cell * rows, style)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, sample in zip(axes.flat, samples, strict=False):
        show(axis, sample.image(), style)
        dots(axis, sample.points(), style)
    return figure


def plot_suspects(
    dataset: Dataset, suspects: Sequence[Suspect], most: int = 24, style: Style = STYLE
) -> Figure:
    """Draw a contact sheet of suspects, the worst first, each with its reason and with the sample that it repeats.

    Landmarks that stand out are larger, and have the colour and shape of the truth.

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
    columns = min(5, len(panels))
    rows = -(-len(panels) // columns)
    cell = 1.3 * style.cell
    figure, axes = sheet(rows, columns, cell * columns, (cell + 0.7) * rows, style)
    for axis in axes.flat:
        axis.set_axis_off()
    if counted_how := about_numbers(title for _, _, title in panels):
        figure.supxlabel(fill(counted_how, 42 * columns), fontsize=0.75 * style.font)
    for axis, (sample, marked, title) in zip(axes.flat, panels, strict=False):
        image, points = sample.image(), sample.points()
        show(axis, image, style, box=object_box(image, points))
        axis.set_title(fill(title, 42), fontsize=0.75 * style.font)
        dots(axis, np.delete(points, list(marked), axis=0), style, inches=cell)
        dots(axis, points[list(marked)], style, "truth", inches=3 * cell)
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
