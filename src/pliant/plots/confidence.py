"""Whether a score tells good fits from bad ones, and whether its probabilities come true."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pliant.arrays import Float64, Floats
from pliant.plots.axes import Picture, dress, sheet
from pliant.plots.style import STYLE, Style

_NORMAL_95 = 1.96


def plot_reliability(probabilities: Floats, happened: Floats, bins: int = 10, style: Style = STYLE) -> Figure:
    """Draw how often an event happened against the probability that it was given, in bins of equal width.

    Bars are 95 % intervals (Wilson's) of the share. The lower plot counts the events in each bin. The title gives
    the mean squared error (Brier's score) and the mean distance from the diagonal.

    Parameters
    ----------
    probabilities : array, shape (k,)
        From 0 to 1.
    happened : array of bool, shape (k,)
        Whether each event happened.
    bins : int
        The number of bins.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> probabilities = np.linspace(0, 1, 50)
    >>> happened = np.random.default_rng(0).random(50) < probabilities
    >>> figure = pliant.plots.plot_reliability(probabilities, happened, bins=5)

    """
    chance, truth = _pairs(probabilities, happened)
    if chance.min() < 0 or chance.max() > 1:
        raise ValueError(
            f"probabilities must be between 0 and 1, but these go from {chance.min():g} to {chance.max():g}."
        )
    which = np.minimum((chance * bins).astype(int), bins - 1)
    counts = np.bincount(which, minlength=bins).astype(np.float64)
    full = counts > 0
    said = np.bincount(which, chance, bins)[full] / counts[full]
    came = np.bincount(which, truth, bins)[full] / counts[full]
    low, high = _wilson(came, counts[full])
    brier = float(np.mean((chance - truth) ** 2))
    distance = float(np.sum(np.abs(said - came) * counts[full]) / len(chance))

    figure = Picture(figsize=(4.6, 5.2), layout="constrained", dpi=style.dpi)
    above, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    above.plot([0, 1], [0, 1], color="0.5", linestyle="--", linewidth=1)
    above.errorbar(
        said,
        came,
        yerr=np.maximum(0, [came - low, high - came]),
        color=style.curves[0],
        marker="o",
        markersize=0.6 * style.font,
        linewidth=1.6,
        capsize=3,
    )
    dress(
        above,
        style,
        title=f"{len(chance)} in total: Brier score {brier:.3f}, calibration error {distance:.3f}",
        y="observed share",
    )
    above.set(xlim=(0, 1), ylim=(0, 1.02))
    edges = np.arange(bins) / bins
    below.bar(edges, counts, width=0.94 / bins, align="edge", color=style.curves[0])
    for edge, count in zip(edges[full], counts[full], strict=True):
        below.annotate(
            f"{count:g}",
            (edge + 0.47 / bins, count),
            xytext=(0, 1.5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=0.8 * style.font,
        )
    dress(below, style, x="probability", y="count")
    below.set_ylim(0, 1.2 * counts.max())
    return figure


def plot_roc(scores: Floats | Mapping[str, Floats], happened: Floats, style: Style = STYLE) -> Figure:
    """Draw the share of events that a threshold finds against the share of other cases that it finds too.

    Parameters
    ----------
    scores : array, shape (k,), or mapping of str to array, shape (k,)
        Higher scores should mean that the event happened. Give several scores of the same events by name.
    happened : array of bool, shape (k,)
        Whether each event happened.
    style : Style
        Colours and sizes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> scores = np.linspace(0, 1, 50)
    >>> figure = pliant.plots.plot_roc({"confidence": scores}, scores > 0.4)

    """
    named = scores if isinstance(scores, Mapping) else {"": scores}
    figure, axes = sheet(1, 1, 4.4, 4.4, style)
    axis = axes[0, 0]
    axis.plot([0, 1], [0, 1], color="0.5", linestyle="--", linewidth=1)
    for number, (label, values) in enumerate(named.items()):
        wrong, found = _roc(*_pairs(values, happened))
        area = float(np.sum(np.diff(wrong) * (found[1:] + found[:-1]) / 2))
        axis.plot(
            wrong,
            found,
            label=f"{label}: area {area:.3f}" if label else f"area {area:.3f}",
            markevery=0.12,
            **style.curve(number),
        )
    dress(axis, style, x="false positive rate", y="true positive rate")
    axis.set(xlim=(-0.01, 1), ylim=(0, 1.01))
    axis.set_aspect("equal")
    axis.legend(loc="lower right", fontsize=style.font, handlelength=3.5)
    return figure


def _pairs(scores: Floats, happened: Floats) -> tuple[Float64, Float64]:
    """Scores and zeros or ones, checked."""
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(happened, dtype=np.float64)
    if values.shape != truth.shape or values.ndim != 1 or not len(values):
        raise ValueError(
            f"there are scores of shape {values.shape} and outcomes of shape {truth.shape}: give one outcome "
            "for each score, (k,)."
        )
    if not np.isfinite(values).all() or not np.isin(truth, (0, 1)).all():
        raise ValueError("scores must be finite, and outcomes 0 or 1 (false or true).")
    return values, truth


def _roc(scores: Float64, happened: Float64) -> tuple[Float64, Float64]:
    """Shares taken along wrongly and rightly, one for every threshold: equal scores fall together."""
    if happened.all() or not happened.any():
        raise ValueError("an ROC curve needs both outcomes: some true and some false.")
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    right = np.cumsum(happened[order])[last] / happened.sum()
    wrong = np.cumsum(1 - happened[order])[last] / (1 - happened).sum()
    return np.append(0.0, wrong), np.append(0.0, right)


def _wilson(share: Float64, count: Float64) -> tuple[Float64, Float64]:
    squared = _NORMAL_95**2
    middle = (share + squared / (2 * count)) / (1 + squared / count)
    half = (
        _NORMAL_95 / (1 + squared / count) * np.sqrt(share * (1 - share) / count + squared / (4 * count**2))
    )
    return middle - half, middle + half
