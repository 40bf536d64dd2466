"""Values with their intervals in one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pliant.arrays import Float64
from pliant.plots.axes import OVER_THE_EDGE, POINTS, dress, open_marker, sheet
from pliant.plots.style import STYLE, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_intervals(
    values: Mapping[str, tuple[float, float, float]],
    *,
    x: str,
    reference: Mapping[str, float] | None = None,
    reference_name: str = "",
    groups: Sequence[Sequence[str]] | None = None,
    limit: float | None = None,
    style: Style = STYLE,
) -> Figure:
    """Draw a value with its 95 % interval for each label, from the top down.

    Parameters
    ----------
    values : mapping of str to (float, float, float)
        The value and the two ends of its interval, (value, low, high), by label.
    x : str
        The name of the value.
    reference : mapping of str to float, or None
        Other values of some labels, drawn as diamonds. Labels that are not in `values` are left out.
    reference_name : str
        The name of these values.
    groups : sequence of sequence of str, or None
        Labels that belong together. There is a space between groups.
    limit : float or None
        A value that is beyond the limit or not finite is drawn as an arrow at the edge, with the number beside it.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import pliant
    >>> values = {"po-asy-gn": (0.82, 0.78, 0.86), "po-inv-gn": (0.74, 0.69, 0.78)}
    >>> figure = pliant.plots.plot_intervals(values, x="share below 0.03", reference={"po-inv-gn": 0.7})

    """
    groups = groups or [list(values)]
    labels = _labels_of(groups, values)
    table = np.array([values[label] for label in labels], dtype=np.float64)
    known = np.array([(reference or {}).get(label, -np.inf) for label in labels], dtype=np.float64)
    numbers = np.append(table, known)
    numbers = numbers[np.isfinite(numbers)]
    start = 1.05 * numbers.min(initial=0)
    if limit is None:
        limit = 1.05 * numbers.max(initial=0) or float(start == 0)
    heights = np.arange(len(labels)) + 0.6 * np.repeat(
        np.arange(len(groups)), [len(group) for group in groups]
    )

    row = 1.55 * style.font / POINTS
    figure, axes = sheet(1, 1, 6.4, row * (heights[-1] + 1) + 0.95, style)
    axis = axes[0, 0]
    name = reference_name or "reference"
    handles = [_draw_measured(axis, heights, table, limit, style)]
    reached = _draw_reference(axis, heights, known, limit, name, style)
    handles += [reached] if (known > -np.inf).any() else []
    _write_beyond(axis, heights, table[:, 0], known, limit, name, style)
    dress(axis, style, x=x)
    axis.set_yticks(heights, labels)
    axis.tick_params(axis="y", length=0)
    axis.set(xlim=(start, limit), ylim=(heights[-1] + 0.7, -0.7))
    figure.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=style.font, frameon=False)
    return figure


def _labels_of(
    groups: Sequence[Sequence[str]], values: Mapping[str, tuple[float, float, float]]
) -> list[str]:
    """The labels of all groups in their order, if there are values for them and they are what values are."""
    if not values:
        raise ValueError("there are no values to draw: give at least one label.")
    for label, triple in values.items():
        if np.shape(triple) != (3,) or triple[1] > triple[2]:
            raise ValueError(
                f"{label}: give a value and the ends of its interval, low before high, not {triple}."
            )
    labels = [label for group in groups for label in group]
    if sorted(labels) != sorted(values):
        odd = set(labels) ^ set(values) or {label for label in labels if labels.count(label) > 1}
        raise ValueError(
            f"every label must be in exactly one group, but these are not: {', '.join(sorted(odd))}."
        )
    return labels


_ARROW: dict[str, Any] = {"linestyle": "none", "marker": ">", "zorder": 3, **OVER_THE_EDGE}
"""At the edge, for what lies beyond it."""


def _draw_measured(axis: Axes, heights: Float64, table: Float64, limit: float, style: Style) -> Line2D:
    """Values and intervals `(k, 3)` at their heights `(k,)`, and how a legend shows them."""
    value, low, high = table.T
    inside = np.isfinite(value) & (value <= limit)
    colour, large = style.curves[0], 0.55 * style.font
    axis.hlines(heights, low, np.minimum(high, limit), color="0.55", linewidth=3, zorder=2)
    axis.plot(value[inside], heights[inside], "o", color=colour, markersize=large, zorder=3)
    # An interval that goes on beyond the edge ends in an arrow as well, without a number.
    out = ~inside | (high > limit)
    axis.plot(np.full(out.sum(), limit), heights[out], color=colour, markersize=0.7 * style.font, **_ARROW)
    return Line2D(
        [0, 1],
        [0, 0],
        color="0.55",
        linewidth=3,
        marker="o",
        markerfacecolor=colour,
        markeredgecolor=colour,
        markersize=large,
        label="measured, with 95 % interval",
    )


def _draw_reference(
    axis: Axes, heights: Float64, known: Float64, limit: float, name: str, style: Style
) -> Line2D:
    """Values of a reference `(k,)`, -inf where there is none, and how a legend shows them."""
    diamond = open_marker("D", style.curves[1], style, 0.75)
    drawn, far = np.isfinite(known) & (known <= limit), known > limit
    axis.plot(known[drawn], heights[drawn], **diamond, zorder=4)
    axis.plot(np.full(far.sum(), limit), heights[far], **{**diamond, **_ARROW})
    return Line2D([], [], label=name, **diamond)


def _write_beyond(
    axis: Axes, heights: Float64, value: Float64, known: Float64, limit: float, name: str, style: Style
) -> None:
    """The numbers of what lies beyond the edge, beside its arrows."""
    for height, measured, reached in zip(heights, value, known, strict=True):
        words = [] if np.isfinite(measured) and measured <= limit else [f"{measured:.3g}"]
        words += [f"{name} {reached:.3g}"] if reached > limit else []
        if words:
            axis.annotate(
                ", ".join(words),
                (limit, height),
                xytext=(0.7 * style.font, 0),
                textcoords="offset points",
                va="center",
                fontsize=0.9 * style.font,
                annotation_clip=False,
            )
