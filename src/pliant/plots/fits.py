"""Single fits: where they began and ended, and how they got there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from pliant.arrays import Float64, Floats, Image
from pliant.plots.axes import dots, dress, object_box, outlines, sheet, show
from pliant.plots.captions import caption_of, is_trusted
from pliant.plots.errors import known_error
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pliant.fitting.result import FitResult


def plot_fit(result: FitResult, image: Image, style: Style = STYLE, *, name: str = "") -> Figure:
    """Draw the start and the fit, the model's version of the image, and the cost at every iteration.

    The figure shows the part of the image around the landmarks. Landmarks in doubt are rings: `FitResult.doubtful`.
    The title has the confidence, in another colour if the fit is not trusted. If the fit has a trace, the cost of
    each level is drawn as a share of the cost at which the level began.

    Parameters
    ----------
    result : FitResult
        A fit.
    image : array, shape (h, w) or (h, w, 3)
        The image that was fitted.
    style : Style
        Colours and sizes.
    name : str
        What the image is called, for the title.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1, iterations=3)
    >>> figure = pliant.plots.plot_fit(found, sample.image())

    """
    fitted = not result.reason
    panels = 1 + fitted + bool(result.trace)
    box = object_box(image, result.start, result.points)
    tall = 2.8 * (box[3] - box[1]) / (box[2] - box[0])
    figure, axes = sheet(1, panels, 2.8 * panels + 0.4, min(max(tall, 2.0), 6.0) + 0.6, style)
    first = axes[0, 0]
    said = caption_of([result]) if fitted else fill(result.reason, 42)
    show(first, image, style, "\n".join(filter(None, [fill(name, 42), said])), box)
    if not fitted:
        dots(first, result.start, style, "start", inches=2.8)
        return figure
    if not is_trusted(result):
        first.title.set_color(style.doubt)
    doubtful = np.zeros(len(result.points), bool) if result.doubtful is None else result.doubtful
    dots(first, result.start, style, "start", inches=2.8, label="start")
    dots(first, result.points[~doubtful], style, "fit", inches=2.8, label="fit")
    if doubtful.any():
        dots(first, result.points[doubtful], style, "fit", inches=2.8, label="in doubt", hollow=True)
    first.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        ncols=3,
        columnspacing=1.0,
        handletextpad=0.2,
        frameon=False,
        fontsize=style.font,
        markerscale=2,
    )
    show(axes[0, 1], result.reconstruction(image), style, "reconstruction", box)
    if result.trace:
        _costs(axes[0, 2], result, style)
    return figure


def plot_fits(fits: Sequence[FitResult], images: Sequence[Image], style: Style = STYLE) -> Figure:
    """Draw images in two rows: with the starts above, and with the fits and their confidence below.

    Parameters
    ----------
    fits : sequence of FitResult
        A fit of each image.
    images : sequence of array, shape (h, w) or (h, w, 3)
        The images that were fitted.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1, iterations=3)
    >>> figure = pliant.plots.plot_fits([found], [sample.image()])

    """
    figure, axes = sheet(2, len(fits), style.cell * len(fits), 2.06 * style.cell + 0.35, style)
    for (above, below), result, image in zip(axes.T, fits, images, strict=True):
        show(above, image, style)
        dots(above, result.start, style, "start")
        show(below, image, style, caption_of([result]).replace(", ", "\n", 1))
        if not is_trusted(result):
            below.title.set_color(style.doubt)
        dots(below, result.points, style)
    return figure


def plot_iterations(
    result: FitResult,
    image: Image,
    frames: int = 6,
    style: Style = STYLE,
    *,
    contours: Sequence[Sequence[int]] = (),
) -> Figure:
    """Draw the way from the start to the fit as a strip of images, with more images where it moves most.

    Parameters
    ----------
    result : FitResult
        A fit with a trace.
    image : array, shape (h, w) or (h, w, 3)
        The image that was fitted.
    frames : int
        The largest number of images in the strip.
    style : Style
        Colours and sizes.
    contours : sequence of sequence of int
        Runs of landmark numbers to join with lines.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> found = pliant.fit(model, sample, sample.points() + 1, iterations=3)
    >>> figure = pliant.plots.plot_iterations(found, sample.image(), frames=3)
    >>> len(figure.axes)
    3

    """
    steps = iterations_of(result)
    chosen = _spread(np.array([points for _, points in steps]), frames)
    box = object_box(image, steps[0][1], steps[-1][1])
    tall = style.cell * (box[3] - box[1]) / (box[2] - box[0])
    figure, axes = sheet(1, len(chosen), style.cell * len(chosen), tall + 0.45, style)
    for number, axis in zip(chosen, axes[0], strict=True):
        name, points = steps[number]
        show(axis, image, style, name.replace(", ", "\n"), box)
        outlines(axis, points, contours, style)
        dots(axis, points, style, "fit" if number else "start")
    return figure


def iterations_of(result: FitResult) -> list[tuple[str, Float64]]:
    """What each step of a fit is called and its points `(v, 2)`, from the start to the end."""
    if not result.trace:
        raise ValueError(
            f"this fit has no trace of its iterations ({result.reason or 'fit with trace=True to keep it'})."
        )
    steps = [("start", result.trace[0].points[0])]
    for level in result.trace:
        steps += [
            (f"scale {level.scale:g}, iteration {number}", points)
            for number, points in enumerate(level.points[1:], 1)
        ]
    return steps


def _spread(shapes: Float64, frames: int) -> list[int]:
    """Numbers of shapes `(k, v, 2)` from first to last, as even in the way gone as in their numbers."""
    moved = np.linalg.norm(np.diff(shapes, axis=0), axis=2).mean(axis=1)
    way = np.append(0.0, np.cumsum(np.where(np.isfinite(moved), moved, 0)))
    along = way / max(way[-1], 1e-300) + np.linspace(0, 1, len(way))
    nearest = np.abs(along[:, None] - np.linspace(0, along[-1], max(2, frames))).argmin(axis=0)
    return sorted({int(number) for number in nearest})


def plot_convergence(
    fits: Mapping[str, Sequence[FitResult]],
    truths: Sequence[Floats] | None = None,
    style: Style = STYLE,
) -> Figure:
    """Draw the mean cost, and the mean error if the truth is known, at every iteration of each label.

    The cost is a share of the cost at which the level began. Levels follow each other, each as long as its longest
    fit; a fit that ended earlier keeps its last value.

    Parameters
    ----------
    fits : mapping of str to sequence of FitResult
        Fits with a trace, by label, such as the name of an algorithm.
    truths : sequence of array, shape (v, 2), or None
        The true landmarks of each image, the same for all labels.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> truth = sample.points()
    >>> names = ["po-asy-gn", "po-inv-gn"]
    >>> fits = {name: [pliant.fit(model, sample, truth + 1, algorithm=name, iterations=3)] for name in names}
    >>> figure = pliant.plots.plot_convergence(fits, [truth])

    """
    traced = {label: [fit for fit in some if fit.trace] for label, some in fits.items()}
    if not traced or not all(traced.values()):
        raise ValueError("convergence needs fits with a trace for every label: fit with trace=True.")
    for label, all_of_it in fits.items():
        if truths is not None and len(all_of_it) != len(truths):
            raise ValueError(f"{label}: there are {len(all_of_it)} fits but {len(truths)} truths.")
    levels = [level.scale for level in next(iter(traced.values()))[0].trace]
    lengths = [
        max(len(fit.trace[k].costs) for some in traced.values() for fit in some if len(fit.trace) > k)
        for k in range(len(levels))
    ]
    panels = 1 + (truths is not None)
    figure, axes = sheet(1, panels, 3.8 * panels + 0.4, 3.0 + 0.2 * len(traced), style)
    for number, (label, some) in enumerate(traced.items()):
        look = {**style.curve(number), "markevery": max(1, sum(lengths) // 10), "label": label}
        axes[0, -1].plot(*_mean_curve([_relative_costs(fit) for fit in some], lengths), **look)
        if truths is not None:
            whose = [truth for fit, truth in zip(fits[label], truths, strict=True) if fit.trace]
            errors = [_level_errors(fit, truth) for fit, truth in zip(some, whose, strict=True)]
            axes[0, 0].plot(*_mean_curve(errors, lengths), **look)
    if truths is not None:
        dress(axes[0, 0], style, x="iteration", y="mean error / size")
    dress(axes[0, -1], style, x="iteration", y="mean cost (start of the level: 1)")
    for axis in axes[0]:
        # A single fit that diverges would leave the others flat on the ground.
        begun = max([y for line in axis.lines if (y := line.get_ydata()[0]) > 0], default=1.0)
        axis.set(xlim=(-0.5, sum(lengths) - 0.5), ylim=(0, min(1.05 * axis.get_ylim()[1], 2 * begun)))
        axis.locator_params(axis="x", integer=True)
        for begin, scale in zip(np.cumsum([0, *lengths]), levels, strict=False):
            if begin:
                axis.axvline(begin - 0.5, color="0.5", linewidth=0.8)
            axis.text(
                begin - 0.2,
                0.02,
                f"scale {scale:g}",
                transform=axis.get_xaxis_transform(),
                fontsize=0.9 * style.font,
                color="0.35",
            )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", fontsize=style.font, handlelength=3.5, frameon=False
    )
    return figure


def _relative_costs(fit: FitResult) -> list[Float64]:
    return [level.costs / (level.costs[0] or 1.0) for level in fit.trace]


def _level_errors(fit: FitResult, truth: Floats) -> list[Float64]:
    return [np.array([known_error(points, truth) for points in level.points]) for level in fit.trace]


def _mean_curve(fits: Sequence[Sequence[Float64]], lengths: Sequence[int]) -> tuple[Float64, Float64]:
    """Iterations and means over fits, level after level, with a gap between levels."""
    values = []
    for level, length in enumerate(lengths):
        held = [np.pad(fit[level], (0, length - len(fit[level])), "edge") for fit in fits if len(fit) > level]
        known = np.isfinite(held)
        total, count = np.where(known, held, 0).sum(axis=0), known.sum(axis=0)
        values.append(np.divide(total, count, out=np.full(length, np.nan), where=count > 0))
    steps = np.concatenate(
        [begin + np.arange(n) for begin, n in zip(np.cumsum([0, *lengths]), lengths, strict=False)]
    )
    between = np.cumsum(lengths)[:-1]
    return np.insert(steps.astype(float), between, np.nan), np.insert(np.concatenate(values), between, np.nan)


def _costs(axis: Axes, result: FitResult, style: Style) -> None:
    done = 0
    for number, level in enumerate(result.trace):
        steps = done + np.arange(len(level.costs))
        axis.plot(
            steps,
            level.costs / (level.costs[0] or 1.0),
            label=f"scale {level.scale:g}",
            **style.curve(number),
        )
        done += max(0, len(level.costs) - 1)
    dress(axis, style, title="cost (start of the level: 1)", x="iteration")
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="x", integer=True)
    axis.legend(fontsize=0.9 * style.font)
