"""Pictures of data sets, models and fits. Each function returns a Matplotlib figure: save it as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pliant.arrays import Float64, Floats, Image
from pliant.data.dataset import Sample
from pliant.fitting.result import FitResult
from pliant.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any colour vision can tell apart.
_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7")
_MESH = "#56B4E9"
_POINTS = "#F0E442"
_START = "#56B4E9"

_DEVIATIONS = (-3.0, -1.5, 0.0, 1.5, 3.0)
"""Where along a mode its instances are drawn."""


def plot_samples(samples: Sequence[Sample], columns: int = 6) -> Figure:
    """A contact sheet of images with their landmarks."""
    rows = -(-len(samples) // columns)
    figure = Figure(figsize=(1.7 * columns, 1.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, sample in zip(axes.flat, samples, strict=False):
        _show(axis, sample.image(), sample.points())
    return figure


def plot_mean(model: Model) -> Figure:
    """The mean instance, its mesh and its landmarks."""
    picture, points = model.draw(height=480)
    figure = Figure(figsize=(8.4, 2.8 * picture.shape[0] / picture.shape[1] + 0.3), layout="constrained")
    plain, mesh, dotted = figure.subplots(1, 3)
    _show(plain, picture, title="mean")
    _show(mesh, picture, title=f"{len(model.texture.frame.triangles)} triangles")
    mesh.triplot(points[:, 0], points[:, 1], model.texture.frame.triangles, color=_MESH, linewidth=0.7)
    _show(dotted, picture, points, title=f"{len(points)} landmarks")
    return figure


def plot_modes(model: Model, shape: int = 3, texture: int = 3) -> Figure:
    """The leading modes of shape and of texture, each from -3 to +3 standard deviations."""
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
        raise ValueError("this model has none of the modes that were to be drawn.")
    picture, _ = model.draw()
    tall = 1.7 * picture.shape[0] / picture.shape[1]
    figure = Figure(figsize=(1.7 * len(_DEVIATIONS) + 0.5, tall * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(_DEVIATIONS), squeeze=False)
    for deviation, axis in zip(_DEVIATIONS, axes[0], strict=True):
        axis.set_title(f"{deviation:+g} sd", fontsize=9)
    for (kind, mode, share), line in zip(rows, axes, strict=True):
        for deviation, axis in zip(_DEVIATIONS, line, strict=True):
            along = np.append(np.zeros(mode), deviation)
            drawn = model.draw(along) if kind == "shape" else model.draw(texture_deviations=along)
            _show(axis, drawn[0])
        line[0].set_axis_on()
        line[0].set(xticks=[], yticks=[], frame_on=False)
        line[0].set_ylabel(f"{kind} {mode + 1}\n{share:.0%} of variance", fontsize=8)
    return figure


def plot_reconstructions(model: Model, samples: Sequence[Sample]) -> Figure:
    """Images in one row, and below each the texture model's nearest version of the object."""
    figure = Figure(figsize=(1.7 * len(samples), 3.5), layout="constrained")
    axes = figure.subplots(2, len(samples), squeeze=False)
    for (above, below), sample in zip(axes.T, samples, strict=True):
        _show(above, sample.image())
        _show(below, model.reconstruct(sample.image(), sample.points()))
    return figure


def plot_variance(model: Model) -> Figure:
    """How much of the variance the leading modes explain together, at every level."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for level, colour in zip(model.levels, _COLOURS * len(model.levels), strict=False):
        label = f"scale {level.scale:g}"
        _cumulative(left, level.shape.eigenvalues, level.shape.total_variance, label, colour)
        _cumulative(right, level.appearance.eigenvalues, level.appearance.total_variance, label, colour)
    left.set(xlabel="shape modes", ylabel="variance explained")
    right.set(xlabel=f"appearance modes ({model.levels[-1].features})")
    for axis in (left, right):
        axis.set_ylim(0, 1)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="lower right")
    return figure


def plot_fit(result: FitResult, image: Image) -> Figure:
    """The image with the start and the fit, the model's version of it, and the cost at every iteration.

    The cost is drawn if the fit has a trace, level after level.
    """
    fitted = not result.reason
    panels = 1 + fitted + bool(result.trace)
    tall = 2.8 * image.shape[0] / image.shape[1]
    figure = Figure(figsize=(2.8 * panels + 0.4, min(max(tall, 2.0), 6.0) + 0.5), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    if not fitted:
        _show(axes[0], image, title=fill(result.reason, 50))
        _dots(axes[0], result.start, _START)
        return figure
    _show(axes[0], image, title=f"{result.algorithm}: {result.status}")
    _dots(axes[0], result.start, _START, "start", size=6)
    _dots(axes[0], result.points, _POINTS, "fit", size=6)
    axes[0].legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2, frameon=False, fontsize=8, markerscale=2
    )
    _show(axes[1], result.reconstruction(image), title="reconstruction")
    if result.trace:
        _costs(axes[2], result)
    return figure


def plot_fits(fits: Sequence[FitResult], images: Sequence[Image]) -> Figure:
    """Images in two rows: above with the starts, below with the fits."""
    figure = Figure(figsize=(1.7 * len(fits), 3.5), layout="constrained")
    axes = figure.subplots(2, len(fits), squeeze=False)
    for (above, below), result, image in zip(axes.T, fits, images, strict=True):
        _show(above, image)
        _dots(above, result.start, _START)
        _show(below, image, result.points)
    return figure


def plot_overlay(image: Image, points: Floats) -> Figure:
    """Nothing but the image and the landmarks `(v, 2)` on it."""
    height, width = image.shape[:2]
    inches = 6 / max(height, width)
    figure = Figure(figsize=(max(0.1, inches * width), max(0.1, inches * height)))
    axis = figure.add_axes((0, 0, 1, 1))
    _show(axis, image)
    _dots(axis, points, _POINTS, size=12)
    axis.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return figure


def _costs(axis: Axes, result: FitResult) -> None:
    done = 0
    for level, colour in zip(result.trace, _COLOURS * len(result.trace), strict=False):
        steps = done + np.arange(len(level.costs))
        axis.plot(steps, level.costs, color=colour, marker="o", markersize=3, label=f"scale {level.scale:g}")
        done += max(0, len(level.costs) - 1)
    axis.set_title("cost", fontsize=9)
    axis.set_xlabel("iteration", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.locator_params(axis="x", integer=True)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _cumulative(axis: Axes, variances: Float64, total: float, label: str, colour: str) -> None:
    explained = np.concatenate([[0], np.cumsum(variances)]) / max(total, 1e-300)
    axis.plot(explained, color=colour, label=label, marker="o" if len(variances) < 20 else None, markersize=3)


def _show(axis: Axes, image: Image, points: Floats | None = None, title: str = "") -> None:
    """An image with pixel centres at integers, and landmarks on it."""
    whitest = np.iinfo(image.dtype).max if np.issubdtype(image.dtype, np.integer) else 1
    picture = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
    axis.imshow(picture / whitest, cmap="gray", vmin=0, vmax=1, interpolation="antialiased")
    axis.set_axis_off()
    if points is not None:
        _dots(axis, points, _POINTS)
    if title:
        axis.set_title(title, fontsize=9)


def _dots(axis: Axes, points: Floats, colour: str, label: str | None = None, size: float = 3) -> None:
    axis.scatter(
        points[:, 0], points[:, 1], s=size, color=colour, edgecolors="black", linewidths=0.25, label=label
    )
