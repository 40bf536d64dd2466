"""How far many fits are from the truth: over all fits, over the landmarks, and the fits themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from pliant.arrays import Float64, Floats
from pliant.inputs import ImageSource, read
from pliant.metrics import normalised_error
from pliant.plots.axes import Picture, dots, dress, legend_below, object_box, sheet, show
from pliant.plots.style import STYLE, Style
from pliant.shape import shape_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BESIDE = 6
"""With more curves than this, their legend stands beside the plot."""


def plot_ced(errors: Mapping[str, Floats], limit: float | None = None, style: Style = STYLE) -> Figure:
    """Draw the share of fits below each error, one curve for each label, the largest area first.

    The area below a curve is a share of the whole. Errors that are not finite are above any limit.

    Parameters
    ----------
    errors : mapping of str to array, shape (k,)
        Errors over the size of the object, by label.
    limit : float or None
        The largest error to draw. By default a round number that nine in ten fits of the best label stay below.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> figure = pliant.plots.plot_ced({"po-asy-gn": np.array([0.01, 0.02, 0.02, 0.05])}, limit=0.1)
    >>> figure.savefig("errors.png")

    """
    if not errors or not all(len(some) for some in errors.values()):
        raise ValueError("there are no errors to draw: every label needs at least one.")
    bound = limit or round_limit(errors)
    grid = np.linspace(0, bound, 301)
    beside = len(errors) > _BESIDE
    height = max(3.4, 0.2 * len(errors) + 0.6) if beside else 3.4
    figure, axes = sheet(1, 1, 8.2 if beside else 5.4, height, style)
    axis = axes[0, 0]
    by_area = sorted(errors, key=lambda label: -ced_area(errors[label], bound))
    # The look belongs to the label's place as given, so that two plots of the same labels agree.
    place = {label: number for number, label in enumerate(errors)}
    for label in by_area:
        values = np.sort(np.where(np.isnan(errors[label]), np.inf, errors[label]))
        share = np.searchsorted(values, grid, side="right") / len(values)
        number = place[label]
        axis.plot(
            grid,
            share,
            label=f"{label}\narea {ced_area(values, bound):.3f}, above {bound:g}: {1 - share[-1]:.1%}"
            if not beside
            else f"{label}: {ced_area(values, bound):.3f}, {1 - share[-1]:.1%}",
            markevery=(10 + 3 * (number % 9), 40),
            **style.curve(number),
        )
    dress(axis, style, x="error / size", y="share of fits below")
    axis.set(xlim=(0, bound), ylim=(0, 1.02))
    axis.locator_params(axis="x", nbins=6)
    axis.yaxis.set_major_formatter("{x:.0%}")
    small = 0.9 * style.font
    if beside:
        figure.legend(
            loc="outside right upper",
            fontsize=small,
            handlelength=3.5,
            title=f"label: area, above {bound:g}",
            title_fontsize=small,
        )
    else:
        axis.legend(loc="best", fontsize=small, handlelength=3.5)
    return figure


def ced_area(errors: Floats, limit: float) -> float:
    """Return the area below the cumulative curve of errors, as a share of the whole.

    Parameters
    ----------
    errors : array, shape (k,)
        Errors over the size of the object.
    limit : float
        The largest error that the curve shows.

    Returns
    -------
    float
        1 if all errors are 0, and 0 if none is below the limit.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> round(pliant.plots.ced_area(np.array([0.0, 0.05, 0.2]), limit=0.1), 6)
    0.5

    """
    errors = np.where(np.isnan(errors), np.inf, errors)
    return float(np.mean(np.clip(1 - errors / limit, 0, 1)))


def plot_landmark_errors(
    mean: Floats, errors: Floats, worst: int = 10, style: Style = STYLE, *, names: Sequence[str] = ()
) -> Figure:
    """Draw the mean error of each landmark on the mean shape.

    The radius of a circle is the mean error of its landmark, enlarged by a round factor that the title gives. The
    worst landmarks are listed beside it, with the span of the middle half of their errors.

    Parameters
    ----------
    mean : array, shape (v, 2)
        The mean shape.
    errors : array, shape (k, v)
        Errors of k fits over the size of the object.
    worst : int
        How many landmarks to list.
    style : Style
        Colours and sizes.
    names : sequence of str, length v
        The names of the landmarks. By default they are numbered from 0.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> mean = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]])
    >>> errors = np.array([[0.01, 0.02, 0.01, 0.05], [0.02, 0.02, 0.01, 0.04]])
    >>> figure = pliant.plots.plot_landmark_errors(mean, errors, worst=2)

    """
    if errors.ndim != 2 or errors.shape[1] != len(mean):
        raise ValueError(f"{len(mean)} landmarks need errors of shape (k, {len(mean)}), not {errors.shape}.")
    labels = [_shortened(name, 16) for name in names] or [str(number) for number in range(len(mean))]
    measured = _measured(errors, worst)
    factor = _enlargement(float(np.nanmax(measured.means)), len(mean))
    spread = np.ptp(mean, axis=0)
    tall = float(np.clip(4.4 * spread[1] / max(spread[0], 1e-9), 2.4, 5.5))
    figure = Picture(figsize=(8.2, tall + 0.5), layout="constrained", dpi=style.dpi)
    shape, listed = figure.subplots(1, 2, width_ratios=(1.9, 1))
    circles = _draw_circles(shape, mean, measured.means, factor, style)
    _name_worst(shape, mean, measured, labels, factor, style)
    bar = figure.colorbar(circles, ax=shape, shrink=0.8, pad=0.02)
    bar.set_label("mean error / size", fontsize=style.font)
    bar.ax.tick_params(labelsize=0.9 * style.font)
    _list_worst(listed, measured, labels, style)
    return figure


@dataclass(frozen=True, eq=False)
class _Measured:
    """Mean errors `(v,)` of the landmarks, nan where none is known, and the numbers of the w worst.

    `low` and `high`, `(w,)`, are the ends of the middle half of the errors of each of the worst.
    """

    means: Float64
    worst: list[int]
    low: Float64
    high: Float64


def _measured(errors: Floats, worst: int) -> _Measured:
    finite = np.isfinite(errors)
    counted = finite.any(axis=0)
    if not counted.any():
        raise ValueError("none of the errors is a finite number.")
    values = np.where(finite, errors, np.nan)
    means = np.full(errors.shape[1], np.nan)
    means[counted] = np.nanmean(values[:, counted], axis=0)
    order = np.argsort(-np.where(counted, means, -1))[: min(worst, counted.sum())]
    low, high = np.nanpercentile(values[:, order], [25, 75], axis=0)
    return _Measured(means, order.tolist(), low, high)


def _draw_circles(
    axis: Axes, mean: Floats, errors: Float64, factor: float, style: Style
) -> EllipseCollection:
    """The mean shape with a circle about each landmark, as large and as dark as its error."""
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set_title(
        "mean error of each landmark" + (f" (circles: {factor:g} x)" if factor != 1 else ""),
        fontsize=style.font,
    )
    size, known = float(shape_size(mean)), ~np.isnan(errors)
    diameters = 2 * factor * size * errors[known]
    circles = EllipseCollection(
        diameters,
        diameters,
        np.zeros(len(diameters)),
        units="xy",
        offsets=mean[known],
        transOffset=axis.transData,
        edgecolors="black",
        linewidths=0.5,
        alpha=0.85,
        cmap=style.sequence,
    )
    circles.set_array(errors[known])
    circles.set_clim(0, float(np.nanmax(errors)))
    axis.add_collection(circles)
    axis.scatter(mean[:, 0], mean[:, 1], s=2, color="black", zorder=3)
    border = 0.1 * size
    axis.set(
        xlim=(mean[:, 0].min() - border, mean[:, 0].max() + border),
        ylim=(mean[:, 1].max() + border, mean[:, 1].min() - border),
    )
    return circles


def _name_worst(
    axis: Axes, mean: Floats, measured: _Measured, labels: Sequence[str], factor: float, style: Style
) -> None:
    """Write the labels of the worst landmarks beside their circles."""
    size, middle = float(shape_size(mean)), mean.mean(axis=0)
    named: list[int] = []
    for number in measured.worst:
        # Of several close together, the worst has its label written.
        if any(np.linalg.norm(mean[number] - mean[other]) < 0.06 * size for other in named):
            continue
        named.append(number)
        # Outwards, where the shape leaves room.
        way = (mean[number] - middle) / max(float(np.linalg.norm(mean[number] - middle)), 1e-9)
        axis.annotate(
            labels[number],
            mean[number] + way * factor * size * measured.means[number],
            xytext=(0.7 * style.font * way[0], -0.7 * style.font * way[1]),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=0.9 * style.font,
            path_effects=[withStroke(linewidth=2, foreground="white")],
            parse_math=False,
        )


def _list_worst(axis: Axes, measured: _Measured, labels: Sequence[str], style: Style) -> None:
    """The worst landmarks from the top down, with the middle half of their errors."""
    rows = np.arange(len(measured.worst))
    axis.hlines(rows, measured.low, measured.high, color="0.55", linewidth=3)
    axis.plot(measured.means[measured.worst], rows, "o", color=style.curves[0], markersize=0.6 * style.font)
    axis.set_yticks(rows, [labels[number] for number in measured.worst], parse_math=False)
    axis.invert_yaxis()
    dress(axis, style, title="worst landmarks: mean, middle half", x="error / size")
    axis.set_xlim(left=0)
    axis.locator_params(axis="x", nbins=4)


def plot_best_median_worst(
    images: Sequence[ImageSource],
    points: Sequence[Floats],
    truths: Sequence[Floats] | None = None,
    errors: Sequence[float] | Floats | None = None,
    *,
    count: int = 5,
    names: Sequence[str] | None = None,
    style: Style = STYLE,
) -> Figure:
    """Draw a contact sheet of the fits with the smallest, the middle and the largest errors.

    It reads only the images that it draws.

    Parameters
    ----------
    images : sequence of str, Path, Sample or array, shape (h, w) or (h, w, 3)
        The images that were fitted.
    points : sequence of array, shape (v, 2)
        The landmarks that were found in each image.
    truths : sequence of array, shape (v, 2), or None
        The true landmarks, which are drawn too.
    errors : sequence of float or None
        The errors of the fits; by default they are computed from the truths. An error that is not finite counts as
        the largest.
    count : int
        How many fits in each of the three rows.
    names : sequence of str or None
        The names of the images, written above them.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    ValueError
        If neither truths nor errors are given.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")[:3]
    >>> truths = [face.points() for face in faces]
    >>> found = [truth + shift for shift, truth in enumerate(truths)]
    >>> figure = pliant.plots.plot_best_median_worst(faces, found, truths, count=1)

    """
    if errors is None and truths is None:
        raise ValueError("give the errors of the fits, or the truths to compute them from.")
    if errors is None:
        errors = [known_error(found, truth) for found, truth in zip(points, truths or (), strict=True)]
    values = np.asarray(errors, dtype=np.float64)
    if not len(images) == len(points) == len(values) or not len(values):
        raise ValueError(f"there are {len(images)} images, {len(points)} fits and {len(values)} errors.")
    rows = [row for row in _extremes(values, count) if len(row[1])]
    columns = max(len(numbers) for _, numbers in rows)
    shown = [number for _, numbers in rows for number in numbers]
    written = {} if names is None else {number: _in_lines(names[number]) for number in shown}
    lines = 0.02 * style.font * (1 + max((name.count("\n") + 1 for name in written.values()), default=0))
    height = (style.cell + 0.15 + lines) * len(rows) + 0.3
    figure, axes = sheet(len(rows), columns, style.cell * columns + 0.3, height, style)
    figure.set_layout_engine("constrained", h_pad=0.08)
    for axis in axes.flat:
        axis.set_axis_off()
    for (name, numbers), line in zip(rows, axes, strict=True):
        for number, axis in zip(numbers, line, strict=False):
            image = read(images[number])
            about = [points[number]] if truths is None else [points[number], truths[number]]
            title = f"{values[number]:.4f}"
            if number in written:
                title = f"{written[number]}\n{title}"
            # Where the object is, even if the fit has gone far away from it.
            show(axis, image, style, title, object_box(image, about[-1]))
            if truths is not None:
                axis.plot(*np.stack(about, axis=1).T, color="white", linewidth=1.0)
                axis.plot(*np.stack(about, axis=1).T, color="black", linewidth=0.5)
                dots(axis, truths[number], style, "truth", label="truth")
            dots(axis, points[number], style, "fit", label="fit")
        line[0].set_axis_on()
        line[0].set(xticks=[], yticks=[], frame_on=False)
        line[0].set_ylabel(name, fontsize=1.1 * style.font)
    if truths is not None:
        legend_below(figure, axes[0, 0], style)
    return figure


def known_error(points: Floats, truth: Floats) -> float:
    """Mean distance over the size at the landmarks whose truth is known; nan if there are not two of them."""
    known = np.isfinite(truth).all(axis=1)
    if known.sum() < 2:
        return float("nan")
    return normalised_error(points[known], truth[known], np.arange(known.sum(), dtype=np.int32))


def _extremes(errors: Float64, count: int) -> list[tuple[str, list[int]]]:
    """Numbers of the best, middle and worst fits, none of them twice."""
    order = [
        int(number) for number in np.argsort(np.where(np.isfinite(errors), errors, np.inf), kind="stable")
    ]
    each = min(count, max(1, len(order) // 3))
    best, worst = order[:each], order[each:][-each:][::-1]
    between = order[each : len(order) - len(worst)]
    first = max(0, (len(between) - each) // 2)
    return [("best", best), ("median", between[first : first + each]), ("worst", worst)]


def round_limit(errors: Mapping[str, Floats]) -> float:
    """A round number that nine in ten fits of the best label stay below."""
    best = min(
        float(np.quantile(np.where(np.isfinite(some), some, 1e9), 0.9, method="lower"))
        for some in errors.values()
    )
    ladder = [step * 10.0**power for power in range(-4, 2) for step in (1, 2, 5)]
    return next((step for step in ladder if step > best), ladder[-1])


def _enlargement(largest: float, landmarks: int) -> float:
    """A round factor with which the largest circle is at most an eighth of the object wide, less for many."""
    factors = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    widest = min(0.125, 8 / landmarks)
    return max([factor for factor in factors if 2 * factor * largest <= widest], default=factors[0])


def _shortened(text: str, length: int) -> str:
    """Both ends of a text that is too long, as either may tell it from others."""
    head = (length - 1) // 2
    return text if len(text) <= length else f"{text[:head]}…{text[1 + head - length :]}"


def _in_lines(name: str, length: int = 21) -> str:
    """A name in one line or in two."""
    if len(name) <= length:
        return name
    if len(name) > 2 * length:
        name = _shortened(name, 2 * length)
        return f"{name[:length]}\n{name[length:]}"
    middle = len(name) / 2
    between = [place for place in range(len(name) - length, length + 1) if name[place - 1] in "_- ."]
    place = min(between, key=lambda place: abs(place - middle), default=-(-len(name) // 2))
    return f"{name[:place]}\n{name[place:]}"
