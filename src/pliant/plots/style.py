"""How pictures look: one small value, the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["fit", "start", "truth"]
"""What landmarks are: found, begun with, or given by a person."""

MARKERS: dict[Kind, str] = {"fit": "o", "start": "X", "truth": "D"}
"""Shapes besides colours, for grey print."""

_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)))
_CURVE_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


@dataclass(frozen=True)
class Style:
    """Colours (Okabe and Ito's, which people with any colour vision can tell apart) and sizes.

    `fit`, `start` and `truth` are colours of landmarks, `lines` that of meshes and contours; `curves` are taken
    in turn; `sequence` is a Matplotlib colour map that grows darker with the value. `marker` is the diameter of a
    landmark on a picture 6 inches wide, and `font` the size of text, both in points; `cell` is the width in
    inches of one image among many. Figures are saved with `dpi` unless `savefig` is told otherwise.
    """

    fit: str = "#F0E442"
    start: str = "#56B4E9"
    truth: str = "#CC79A7"
    lines: str = "#56B4E9"
    curves: tuple[str, ...] = (
        "#0072B2",
        "#D55E00",
        "#009E73",
        "#CC79A7",
        "#000000",
        "#E69F00",
        "#56B4E9",
    )
    sequence: str = "cividis_r"
    marker: float = 4.0
    font: float = 9.0
    cell: float = 1.7
    dpi: int = 130

    def colour(self, kind: Kind) -> str:
        """The colour of one kind of landmarks."""
        return {"fit": self.fit, "start": self.start, "truth": self.truth}[kind]

    def curve(self, number: int) -> dict[str, Any]:
        """How Matplotlib's `plot` is to draw one of many curves: no two of the first 315 are alike."""
        return {
            "color": self.curves[number % len(self.curves)],
            "linestyle": _DASHES[number % len(_DASHES)],
            "marker": _CURVE_MARKERS[number % len(_CURVE_MARKERS)],
            "markersize": 0.5 * self.font,
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
            "linewidth": 1.6,
        }


STYLE = Style()
"""How pictures look unless told otherwise."""
