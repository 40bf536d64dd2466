"""What all figures are put together from: a sheet of axes, an image on one, landmarks on that."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from pliant.appearance.tones import as_bytes
from pliant.arrays import Floats, Image, Int32
from pliant.plots.style import MARKERS, Kind, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[int, int, int, int]
"""Left, top, right and bottom of a part of an image; the last two are one beyond it."""

POINTS = 72
"""Points of an inch."""

OVER_THE_EDGE: dict[str, Any] = {"clip_on": False, "in_layout": False}
"""For markers on the edge. They ask for no room: Matplotlib would give some to a line without points."""


class Picture(Figure):
    """A figure that shows text as it is, and that notebooks show by themselves.

    Names of files and landmarks are the user's, and are no formulas. Without pyplot, a notebook has a line of text
    for Matplotlib's own figures.
    """

    def draw(self, renderer: Any) -> None:
        """Draw all of it. Every way to a picture comes through here, whoever has added text."""
        for text in self.findobj(Text):
            text.set_parse_math(False)
            text.set_text(_printable(text.get_text()))
        # Labels of ticks are made while the figure is drawn.
        with rc_context({"text.parse_math": False}):
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        stored = BytesIO()
        self.savefig(stored, format="png")
        return stored.getvalue()


def _printable(text: str) -> str:
    """Text without what no font has: bytes of file names that are not UTF-8, and control characters."""
    return "".join(
        letter if letter == "\n" or not category(letter).startswith("C") else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def sheet(rows: int, columns: int, width: float, height: float, style: Style) -> tuple[Figure, Any]:
    """A figure of `width x height` inches with axes `(rows, columns)`."""
    figure = Picture(figsize=(width, height), layout="constrained", dpi=style.dpi)
    return figure, figure.subplots(rows, columns, squeeze=False)


def dress(axis: Axes, style: Style, *, title: str = "", x: str = "", y: str = "") -> None:
    """Names, sizes of text and a quiet grid for an axis with curves."""
    if title:
        axis.set_title(title, fontsize=style.font)
    axis.set_xlabel(x, fontsize=style.font)
    axis.set_ylabel(y, fontsize=style.font)
    axis.tick_params(labelsize=0.9 * style.font)
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def show(axis: Axes, image: Image, style: Style, title: str = "", box: Box | None = None) -> None:
    """An image, or the part of it in a box, with pixel centres at integers."""
    left, top, right, bottom = box or (0, 0, image.shape[1], image.shape[0])
    # The whole image says what is black and white, not the part.
    part = as_bytes(image)[top:bottom, left:right]
    picture = part[:, :, 0] if part.ndim == 3 and part.shape[2] == 1 else part
    extent = (left - 0.5, right - 0.5, bottom - 0.5, top - 0.5)
    axis.imshow(
        picture,
        cmap="gray",
        vmin=0,
        vmax=255,
        interpolation="antialiased",
        extent=extent,
    )
    # Landmarks beyond the image must not stretch the picture.
    axis.set(xlim=extent[:2], ylim=extent[2:])
    axis.set_axis_off()
    if title:
        axis.set_title(title, fontsize=style.font)


def dots(
    axis: Axes,
    points: Floats,
    style: Style,
    kind: Kind = "fit",
    *,
    inches: float | None = None,
    label: str | None = None,
    hollow: bool = False,
    shades: Floats | None = None,
) -> None:
    """Landmarks `(v, 2)` on an axis `inches` wide, as rings if `hollow`; those that are not known are left out.

    `shades (v,)`, from 0 to 1, are colours of the order in place of that of the `kind`.
    """
    there = np.isfinite(points).all(axis=1)
    known = points[there]
    share = (inches or style.cell) / 6
    width = 0.1 * style.marker * np.sqrt(share)
    colour: Any = style.colour(kind) if shades is None else colormaps[style.order](shades[there])
    axis.scatter(
        known[:, 0],
        known[:, 1],
        s=style.marker**2 * share * (1.6 if hollow else 1),
        facecolors="none" if hollow else colour,
        marker=MARKERS[kind],
        edgecolors=colour if hollow else "black",
        linewidths=2 * width if hollow else width,
        # A ring has no edge of its own that could be seen on any ground.
        path_effects=[withStroke(linewidth=4 * width, foreground="black")] if hollow else None,
        label=label,
        zorder=3,
    )


def outlines(axis: Axes, points: Floats, contours: Sequence[Sequence[int]], style: Style) -> None:
    """Lines through the landmarks `(v, 2)` of each contour, with dark edges that show on any ground."""
    for contour in contours:
        x, y = points[list(contour)].T
        axis.plot(x, y, color="black", linewidth=2.0, solid_capstyle="round")
        axis.plot(x, y, color=style.lines, linewidth=1.2, solid_capstyle="round")


def mesh(axis: Axes, points: Floats, triangles: Int32, style: Style) -> None:
    axis.triplot(points[:, 0], points[:, 1], triangles, color=style.lines, linewidth=0.7)


def object_box(image: Image, *shapes: Floats, margin: float = 0.2, square: bool = True) -> Box:
    """A box about landmarks `(..., v, 2)`, larger by `margin` of the longer side on each, inside the image."""
    height, width = image.shape[:2]
    points = np.concatenate([np.asarray(shape).reshape(-1, 2) for shape in shapes])
    points = points[np.isfinite(points).all(axis=1)]
    whole = (0, 0, width, height)
    if not len(points):
        return whole
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    half = (longest if square else high - low) / 2 + margin * longest + 1
    middle = (low + high) / 2
    # Clipped as floats: landmarks may lie farther away than integers go.
    left, top = np.floor(np.clip(middle - half, 0, (width, height))).astype(int)
    right, bottom = np.ceil(np.clip(middle + half, 0, (width, height))).astype(int)
    return (int(left), int(top), int(right), int(bottom)) if right > left and bottom > top else whole


def legend_below(figure: Figure, axis: Any, style: Style) -> None:
    """What the two kinds of landmarks are, below all pictures."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2,
        fontsize=style.font,
        frameon=False,
        markerscale=2,
    )


def open_marker(marker: str, colour: str, style: Style, size: float = 1.0) -> dict[str, Any]:
    """How a marker looks that others can be seen through, `size` as large as text."""
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": size * style.font,
        "markerfacecolor": "none",
        "markeredgecolor": colour,
        "markeredgewidth": 1.3,
    }
