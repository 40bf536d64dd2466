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
    """Colours and sizes of all pictures.

    The colours are those of Okabe and Ito, which people with any colour vision can tell apart.

    Parameters
    ----------
    fit, start, truth : str
        The colours of landmarks that were found, begun with, and given by a person.
    doubt : str
        The colour of what is said about fits that are not trusted, and of their landmarks in painted pictures.
    lines : str
        The colour of meshes and contours.
    curves : tuple of str
        The colours of curves, used in turn.
    sequence : str
        A Matplotlib colour map that grows darker with the value.
    order : str
        A Matplotlib colour map for landmarks in their order, with colours that show on grey images.
    marker : float
        The diameter of a landmark on a picture 6 inches wide, in points.
    font : float
        The size of text, in points.
    cell : float
        The width of one image among many, in inches.
    dpi : int
        The resolution of saved figures, unless `savefig` says otherwise.

    Examples
    --------
    >>> import pliant
    >>> large = pliant.plots.Style(fit="#D55E00", marker=8.0)
    >>> image, points = pliant.synthetic.face(0, image_size=64)
    >>> figure = pliant.plots.plot_overlay(image, points, large)

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
    doubt: str = "#D55E00"
    order: str = "plasma"

    def colour(self, kind: Kind) -> str:
        """Return the colour of one kind of landmarks.

        Parameters
        ----------
        kind : {'fit', 'start', 'truth'}
            What the landmarks are: found, begun with, or given by a person.

        Returns
        -------
        str
            The colour as `#RRGGBB`.

        Examples
        --------
        >>> import pliant
        >>> pliant.plots.Style().colour("start")
        '#56B4E9'

        """
        return {"fit": self.fit, "start": self.start, "truth": self.truth}[kind]

    def curve(self, number: int) -> dict[str, Any]:
        """Return the keywords that make Matplotlib's `plot` draw one of many curves.

        Parameters
        ----------
        number : int
            The number of the curve. No two of the first 315 look alike.

        Returns
        -------
        dict
            Keywords such as `color`, `linestyle` and `marker`.

        Examples
        --------
        >>> import pliant
        >>> pliant.plots.Style().curve(1)["color"]
        '#D55E00'

        """
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
