"""How the unknowns are solved: Gauss-Newton, Newton, Wiberg or learned regression, all at once or in turn.

These are values: `quadratic.py` makes the model of the cost that a method asks for, and `solve.py` solves it.
Equations are numbered as in the paper; `docs/explanation/errata.md` says where they are not what we do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schur:
    """Solve for all unknowns at once, with the appearance eliminated by the Schur complement.

    Equations 47 to 58, and 59 and 60 for project-out; for Newton's method 80 to 87, and 88 to 91.

    Examples
    --------
    >>> import pliant
    >>> pliant.GaussNewton() == pliant.GaussNewton(pliant.Schur())
    True

    """


@dataclass(frozen=True)
class Alternated:
    """Solve for one set of unknowns at a time, on one linearisation, starting from zero.

    Equations 61 to 68, and 69 for project-out; for Newton's method 92 to 97, and 98 to 100.

    Parameters
    ----------
    sweeps : int
        How often each set is solved in one iteration, at least once.
    joint : bool
        Solve for dp and dq of bidirectional composition together (equations 65 and 94), not in turn (67 and 96).

    Raises
    ------
    ValueError
        If there is not at least one sweep.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Inverse(), pliant.GaussNewton(pliant.Alternated(sweeps=3))))
    'ssd-inv-gn-alt:3'

    """

    sweeps: int = 1
    joint: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.sweeps, int) or self.sweeps < 1:
            raise ValueError(
                f"sweeps = {self.sweeps!r}: alternated optimisation needs a whole number of sweeps, at least "
                "one."
            )


@dataclass(frozen=True)
class Dense:
    """Solve for all unknowns at once without elimination, as Gross et al. did (equations 46 and 79).

    It is slow; the Schur complement must give the same result.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Inverse(), pliant.GaussNewton(pliant.Dense())))
    'ssd-inv-gn-den'

    """


Strategy = Schur | Alternated | Dense


@dataclass(frozen=True)
class GaussNewton:
    """Linearise the residual (section 3.3.1, equations 35 to 69).

    Parameters
    ----------
    strategy : Schur, Alternated or Dense
        How to solve for the sets of unknowns.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Forward(), pliant.GaussNewton(pliant.Alternated())))
    'ssd-for-gn-alt'

    """

    strategy: Strategy = Schur()


Variant = Literal["derived", "printed", "turned", "safe"]


@dataclass(frozen=True)
class Newton:
    """Expand the cost to second order (section 3.3.2, equations 70 to 100; the Hessian is in 126 to 134).

    Parameters
    ----------
    strategy : Schur, Alternated or Dense
        How to solve for the sets of unknowns.
    variant : {'derived', 'printed', 'turned', 'safe'}
        `'derived'` is what differentiation gives. `'printed'` is what the tables of the paper say: the model's
        curvature with a plus, as in equations 88 and 99, and no JA'r. `'turned'` has both signs turned, as if the
        residual were subtracted the other way round, and no JA'r either. `'safe'` is Gauss-Newton with the derived
        curvature, bounded below by half of its own Hessian in every direction, so that no step is more than twice
        as long as that of Gauss-Newton.
    share : float
        How much of the curvature to use: 1 is all of it, and 0 is Gauss-Newton.

    Raises
    ------
    ValueError
        If the share is not between 0 and 1, or is given with `'safe'`.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Inverse(), pliant.Newton(variant="safe")))
    'ssd-inv-n:safe-sch'

    """

    strategy: Strategy = Schur()
    variant: Variant = "derived"
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share = {self.share!r}: the share of the curvature must be between 0 and 1.")
        if self.variant == "safe" and self.share != 1:
            raise ValueError(
                f"share = {self.share!r}: newton-safe limits the curvature by itself. Leave out the share, "
                "or use another variant."
            )


@dataclass(frozen=True)
class Wiberg:
    """Solve for the shape with the appearance eliminated, then for the appearance (section 3.3.3).

    Equations 111 to 116: u is 116, and dc is 112. Bidirectional composition (117 to 124) has two forms.

    Parameters
    ----------
    variant : {'derived', 'printed'}
        `'derived'` eliminates dp as a function of dq, so that both are those of Gauss-Newton by the Schur
        complement. `'printed'` follows equations 119 and 124 and appendix B: the same dq, but dp as it would be
        without it.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Bidirectional(), pliant.Wiberg()))
    'ssd-bid-w'

    """

    variant: Literal["derived", "printed"] = "derived"


@dataclass(frozen=True)
class CascadedRegression:
    """Gauss-Newton with slopes learned from starts on training images, stage by stage.

    This is Tzimiropoulos' project-out cascaded regression (2015), which the paper names as future work; it is not
    one of the 31 algorithms. It needs project-out and inverse composition. Levels that have learned no slopes, and
    iterations after the last stage, use the slopes of the mean, which is Gauss-Newton.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm.parse("po:map-inv-cr"))
    'po:map-inv-cr'

    """


Method = GaussNewton | Newton | Wiberg | CascadedRegression
