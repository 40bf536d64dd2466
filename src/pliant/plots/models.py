"""What a model has learned: its mean, its modes, and how much they explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pliant.arrays import Float64
from pliant.plots.axes import dots, dress, mesh, sheet, show
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pliant.data.dataset import Sample
    from pliant.model import Model

_DEVIATIONS = (-3.0, -1.5, 0.0, 1.5, 3.0)
"""Where along a mode its instances are drawn."""


def plot_mean(model: Model, style: Style = STYLE) -> Figure:
    """Draw the mean instance of a model with its mesh and its landmarks.

    Parameters
    ----------
    model : Model
        The model.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> figure = pliant.plots.plot_mean(pliant.load("faces.pliant"))

    """
    picture, points = model.draw(height=480)
    tall = 2.8 * picture.shape[0] / picture.shape[1]
    figure, axes = sheet(1, 3, 8.4, tall + 0.3, style)
    plain, meshed, dotted = axes[0]
    show(plain, picture, style, "mean")
    show(meshed, picture, style, f"{len(model.texture.frame.triangles)} triangles")
    mesh(meshed, points, model.texture.frame.triangles, style)
    show(dotted, picture, style, f"{len(points)} landmarks")
    dots(dotted, points, style, inches=2.8)
    return figure


def plot_modes(model: Model, shape: int = 3, texture: int = 3, style: Style = STYLE) -> Figure:
    """Draw the leading modes of shape and of texture, each from -3 to +3 standard deviations.

    Parameters
    ----------
    model : Model
        The model.
    shape, texture : int
        The largest number of modes of each kind.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> figure = pliant.plots.plot_modes(pliant.load("faces.pliant"), shape=1, texture=1)

    """
    parts = [
        ("shape", shape, model.levels[-1].shape.eigenvalues, model.levels[-1].shape.total_variance),
        ("texture", texture, model.texture.pca.eigenvalues, model.texture.pca.total_variance),
    ]
    rows = [
        (kind, mode, variances[mode] / total)
        for kind, count, variances, total in parts
        for mode in range(min(count, len(variances)))
    ]
    if not rows:
        raise ValueError("this model has none of the requested modes.")
    picture, _ = model.draw()
    # A flat object leaves the two lines of its label enough room.
    tall = max(style.cell * picture.shape[0] / picture.shape[1], 0.045 * style.font)
    width = style.cell * len(_DEVIATIONS) + 1.2
    figure, axes = sheet(len(rows), len(_DEVIATIONS), width, tall * len(rows) + 0.3, style)
    for deviation, axis in zip(_DEVIATIONS, axes[0], strict=True):
        axis.set_title("mean" if deviation == 0 else f"{deviation:+g} sd", fontsize=style.font)
    for (kind, mode, share), line in zip(rows, axes, strict=True):
        for deviation, axis in zip(_DEVIATIONS, line, strict=True):
            along = np.append(np.zeros(mode), deviation)
            drawn = model.draw(along) if kind == "shape" else model.draw(texture_deviations=along)
            show(axis, drawn[0], style)
        line[0].set_axis_on()
        line[0].set(xticks=[], yticks=[], frame_on=False)
        label = f"{kind} {mode + 1}\n{share:.0%} of variance"
        line[0].set_ylabel(label, fontsize=style.font, rotation=0, ha="right", va="center")
    return figure


def plot_reconstructions(model: Model, samples: Sequence[Sample], style: Style = STYLE) -> Figure:
    """Draw images in one row, and below each the nearest version of the object in the texture model.

    Parameters
    ----------
    model : Model
        The model.
    samples : sequence of Sample
        Images with landmarks.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")[:2]
    >>> figure = pliant.plots.plot_reconstructions(pliant.load("faces.pliant"), faces)
    >>> len(figure.axes)
    4

    """
    figure, axes = sheet(2, len(samples), style.cell * len(samples), 2.06 * style.cell, style)
    for (above, below), sample in zip(axes.T, samples, strict=True):
        show(above, sample.image(), style)
        show(below, model.reconstruct(sample.image(), sample.points()), style)
    return figure


def plot_variance(model: Model, style: Style = STYLE) -> Figure:
    """Draw how much of the variance the leading modes explain together, at every level.

    Parameters
    ----------
    model : Model
        The model.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> figure = pliant.plots.plot_variance(pliant.load("faces.pliant"))

    """
    figure, axes = sheet(1, 2, 7.2, 2.8, style)
    left, right = axes[0]
    for number, level in enumerate(model.levels):
        label = f"scale {level.scale:g}"
        for axis, part in ((left, level.shape), (right, level.appearance)):
            _cumulative(axis, part.eigenvalues, part.total_variance, label, number, style)
    dress(left, style, x="shape modes", y="variance explained")
    dress(right, style, x=f"appearance modes ({model.levels[-1].features})")
    for axis in (left, right):
        axis.set_ylim(0, 1.02)
        axis.yaxis.set_major_formatter("{x:.0%}")
        axis.locator_params(axis="x", integer=True)
        axis.legend(fontsize=0.9 * style.font, loc="lower right")
    return figure


def _cumulative(axis: Axes, variances: Float64, total: float, label: str, number: int, style: Style) -> None:
    explained = np.concatenate([[0], np.cumsum(variances)]) / max(total, 1e-300)
    axis.plot(explained, label=label, markevery=max(1, len(variances) // 12), **style.curve(number))
