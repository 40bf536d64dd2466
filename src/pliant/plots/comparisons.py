"""How algorithms and settings compare: iteration by iteration, over one setting, and over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from pliant.appearance.tones import brightness
from pliant.arrays import Float64, Floats
from pliant.plots.axes import OVER_THE_EDGE, POINTS, dress, open_marker, sheet
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BESIDE = 6
"""With more curves than this, their legend stands beside the plot."""
_ACROSS = 3
"""So many small axes stand in a row at most."""


def plot_courses(
    courses: Mapping[str, Floats],
    *,
    y: str,
    limit: float | None = None,
    changes: Sequence[int] = (),
    title: str = "",
    style: Style = STYLE,
) -> Figure:
    """Draw a value of each label against the iterations.

    Parameters
    ----------
    courses : mapping of str to array, shape (k + 1,)
        The value at the iterations 0 to k, by label. A value that is not finite breaks the line.
    y : str
        The name of the value.
    limit : float or None
        The axis goes from 0 to here. By default it goes a little above the largest value that a curve begins with:
        a fit that is lost leaves the plot, and the others remain visible.
    changes : sequence of int
        Iterations at which a new level begins.
    title : str
        The title.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> courses = {"po-asy-gn": np.array([0.10, 0.05, 0.02]), "po-inv-gn": np.array([0.10, 0.07, 0.04])}
    >>> figure = pliant.plots.plot_courses(courses, y="mean error")

    """
    curves = {label: _floats(values) for label, values in courses.items()}
    if not curves:
        raise ValueError("there are no curves to draw: give at least one label.")
    for label, curve in curves.items():
        if curve.ndim != 1 or not curve.size:
            raise ValueError(
                f"{label}: a curve needs one value for each iteration, (k + 1,), not {curve.shape}."
            )
    last = max(len(curve) for curve in curves.values()) - 1
    wrong = [change for change in changes if not 0 <= change <= last]
    if wrong:
        raise ValueError(f"a level cannot start at iteration {wrong[0]}: the curves go from 0 to {last}.")
    if limit is None:
        limit = 1.05 * max([curve[0] for curve in curves.values() if 0 < curve[0] < np.inf], default=1.0)

    beside = len(curves) > _BESIDE
    figure, axes = sheet(1, 1, 7.6 if beside else 5.4, 3.4, style)
    axis = axes[0, 0]
    for change in changes:
        axis.axvline(change, color="0.4", linestyle=":", linewidth=0.9, zorder=1)
    step = max(1, last // 5)
    for number, (label, curve) in enumerate(curves.items()):
        # Each has its markers at iterations of its own: where curves run together, they lie side by side.
        first = min(1 + number % 9 * step // min(9, len(curves)), len(curve) - 1)
        shown = np.where(np.isfinite(curve), curve, np.nan)
        look = {**style.curve(number), "markersize": 0.7 * style.font, "markevery": (first, step)}
        axis.plot(np.arange(len(curve)), shown, label=label, **look)
    dress(axis, style, title=title, x="iteration", y=y)
    axis.set(xlim=(-0.01 * last - 0.1, 1.01 * last + 0.1), ylim=(0, limit))
    axis.locator_params(axis="x", integer=True)
    small = 0.9 * style.font
    if beside:
        figure.legend(loc="outside right upper", fontsize=small, handlelength=3.5)
    else:
        axis.legend(loc="best", fontsize=small, handlelength=3.5)
    return figure


def plot_shares(
    values: Sequence[float],
    shares: Mapping[str, Floats],
    *,
    bounds: Sequence[float],
    x: str,
    intervals: Mapping[str, Floats] | None = None,
    style: Style = STYLE,
) -> Figure:
    """Draw shares of fits below each bound against the values of a setting, one plot for each label.

    An open marker shows the largest share of each line.

    Parameters
    ----------
    values : sequence of float, length k
        The values of the setting.
    shares : mapping of str to array, shape (k, b)
        The shares below each of b bounds, from 0 to 1, by label.
    bounds : sequence of float, length b
        The errors below which fits are counted. Each has a line.
    x : str
        The name of the setting.
    intervals : mapping of str to array, shape (k, b, 2), or None
        The ends of the intervals of the shares, drawn as bands, by label.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> shares = {"po-asy-gn": np.array([[0.5, 0.8], [0.6, 0.9], [0.4, 0.7]])}
    >>> figure = pliant.plots.plot_shares([0.0, 0.5, 1.0], shares, bounds=[0.02, 0.03], x="alpha")

    """
    if not shares or not len(values) or not len(bounds):
        raise ValueError("there are no shares to draw: give at least one label, one value and one bound.")
    shape = (len(values), len(bounds))
    lines = {label: _shares(label, some, shape) for label, some in shares.items()}
    bands = {label: _shares(label, some, (*shape, 2)) for label, some in (intervals or {}).items()}
    if bands and bands.keys() != lines.keys():
        raise ValueError(
            "shares and intervals have different labels: give intervals for all labels, or for none."
        )

    setting = _floats(values)
    rows, columns = _rows_and_columns(len(lines))
    letters = max(1.0, style.font / STYLE.font)
    figure, axes = sheet(rows, columns, 2.3 * letters * columns + 0.6, 1.9 * letters * rows + 0.6, style)
    margin = 0.04 * (np.ptp(setting) or 1.0)
    for place, (axis, (label, share)) in enumerate(zip(axes.flat, lines.items(), strict=False)):
        for number in range(len(bounds)):
            band = bands[label][:, number] if label in bands else None
            _draw_share(axis, setting, share[:, number], band, number, style)
        lowest, leftmost = place + columns >= len(lines), place % columns == 0
        dress(axis, style, title=label)
        axis.set(xlim=(setting.min() - margin, setting.max() + margin), ylim=(0, 1.02))
        axis.yaxis.set_major_formatter("{x:.0%}")
        axis.tick_params(labelbottom=lowest, labelleft=leftmost)
    _finish(figure, axes, len(lines), x, "share of fits", style)
    handles = [
        Line2D([], [], label=f"below {bound:g}", **style.curve(number)) for number, bound in enumerate(bounds)
    ]
    handles.append(Line2D([], [], label="largest share", **open_marker("o", "0.3", style)))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=min(len(handles), columns + 1),
        fontsize=style.font,
        handlelength=3.5,
        frameon=False,
    )
    return figure


def _draw_share(
    axis: Axes, setting: Float64, share: Float64, band: Float64 | None, number: int, style: Style
) -> None:
    """The line of one bound `(values,)`, the band about it `(values, 2)` if there is one, and its largest share."""
    look = style.curve(number)
    if band is not None:
        axis.fill_between(setting, *band.T, color=look["color"], alpha=0.18, linewidth=0)
    axis.plot(setting, share, **OVER_THE_EDGE, **look)
    if np.isfinite(share).any():
        best = np.nanargmax(share)
        marker = open_marker(look["marker"], look["color"], style)
        axis.plot(setting[best], share[best], **marker, **OVER_THE_EDGE, zorder=4)


def plot_grids(
    grids: Mapping[str, Floats],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    style: Style = STYLE,
) -> Figure:
    """Draw shares of fits for two settings, as colours and as per cent, one grid for each label.

    Parameters
    ----------
    grids : mapping of str to array, shape (r, c)
        Shares from 0 to 1, by label. A cell with nan is blank.
    rows : sequence of str, length r
        The names of the values of the first setting.
    columns : sequence of str, length c
        The names of the values of the second setting.
    row_title, column_title : str
        The names of the settings.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> figure = pliant.plots.plot_grids(
    ...     {"po-asy-gn": np.array([[0.5, 0.6], [0.7, np.nan]])},
    ...     rows=["5 %", "10 %"], columns=["8", "16"], row_title="noise", column_title="iterations",
    ... )

    """
    if not grids or not len(rows) or not len(columns):
        raise ValueError("there are no shares to draw: give at least one label, one row and one column.")
    tables = {label: _shares(label, grid, (len(rows), len(columns))) for label, grid in grids.items()}
    down, across = _rows_and_columns(len(tables))
    letter = 0.6 * style.font / POINTS
    cell = max(0.45, letter * (1 + max(len(name) for name in columns)))
    side = letter * max(len(name) for name in rows)
    width = across * max(cell * len(columns) + 0.1, letter * max(len(label) for label in tables)) + side + 1.2
    tall = max(0.28, 2 * style.font / POINTS)
    height = down * (tall * len(rows) + 2.5 * style.font / POINTS) + 0.6
    figure, axes = sheet(down, across, width, height, style)
    for place, (axis, (label, table)) in enumerate(zip(axes.flat, tables.items(), strict=False)):
        mesh = axis.pcolormesh(
            np.ma.masked_invalid(table), cmap=style.sequence, vmin=0, vmax=1, edgecolors="white", linewidth=1
        )
        for (row, column), share in np.ndenumerate(table):
            if np.isfinite(share):
                axis.text(
                    column + 0.5,
                    row + 0.5,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=style.font,
                    color="white" if _is_dark(mesh.cmap(share)) else "black",
                )
        lowest, leftmost = place + across >= len(tables), place % across == 0
        dress(axis, style, title=label)
        axis.set_xticks(np.arange(len(columns)) + 0.5, columns)
        axis.set_yticks(np.arange(len(rows)) + 0.5, rows)
        axis.tick_params(labelbottom=lowest, labelleft=leftmost, length=0)
        axis.grid(False)
        axis.spines[:].set_visible(False)
        axis.invert_yaxis()
    _finish(figure, axes, len(tables), column_title, row_title, style)
    bar = figure.colorbar(mesh, ax=list(axes.flat[: len(tables)]), format="{x:.0%}", pad=0.02)
    bar.set_label("share of fits", fontsize=style.font)
    bar.ax.tick_params(labelsize=0.9 * style.font)
    return figure


def _floats(values: ArrayLike) -> Float64:
    return np.asarray(values, dtype=np.float64)


def _shares(label: str, values: Floats, shape: tuple[int, ...]) -> Float64:
    """Shares of one label, checked; nan is allowed."""
    shares = _floats(values)
    if shares.shape != shape:
        raise ValueError(f"{label}: its shares have the shape {shares.shape}, but {shape} is needed.")
    if (shares < 0).any() or (shares > 1).any():
        raise ValueError(
            f"{label}: shares must be between 0 and 1, but these go from {np.nanmin(shares):g} to "
            f"{np.nanmax(shares):g}."
        )
    return shares


def _rows_and_columns(count: int) -> tuple[int, int]:
    """For so many small axes, rows as even as they can be."""
    rows = -(-count // _ACROSS)
    return rows, -(-count // rows)


def _finish(figure: Figure, axes: Any, count: int, x: str, y: str, style: Style) -> None:
    """Names for all of the small axes together; those beyond `count` are taken away."""
    figure.supxlabel(x, fontsize=style.font)
    figure.supylabel(y, fontsize=style.font)
    for axis in axes.flat[count:]:
        axis.remove()


def _is_dark(colour: tuple[float, ...]) -> bool:
    return bool(brightness(np.asarray(colour[:3])) < 0.5)
