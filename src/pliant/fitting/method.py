"""How the unknowns are solved: Gauss-Newton, Newton, Wiberg or learned regression, all at once or in turn.

These are values: `quadratic.py` makes the model of the cost that a method asks for, and `solve.py` solves it.
Equations are numbered as in the paper; `docs/explanation/errata.md` says where they are not what we do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schur:
    """All unknowns at once; c is eliminated by the Schur complement.

    Equations 47 to 58, and 59 and 60 for project-out; for Newton's method 80 to 87, and 88 to 91.

    Examples
    --------
    >>> import pliant
    >>> pliant.GaussNewton() == pliant.GaussNewton(pliant.Schur())
    True

    """


@dataclass(frozen=True)
class Alternated:
    """One set of unknowns at a time, on one linearisation, from zero.

    Equations 61 to 68, and 69 for project-out; for Newton's method 92 to 97, and 98 to 100.

    Parameters
    ----------
    sweeps
        How often each set has its turn in one iteration, at least once.
    joint
        Solve dp and dq of bidirectional composition together (equations 65 and 94), not in turn (67 and 96).

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
    """All unknowns at once, as Gross et al. did it (equations 46 and 79): what the Schur complement must equal.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Inverse(), pliant.GaussNewton(pliant.Dense())))
    'ssd-inv-gn-den'

    """


Strategy = Schur | Alternated | Dense


@dataclass(frozen=True)
class GaussNewton:
    """The residual is linearised (section 3.3.1, equations 35 to 69).

    Parameters
    ----------
    strategy
        How the sets of unknowns are solved: `Schur`, `Alternated` or `Dense`.

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
    """The cost is expanded to second order (section 3.3.2, equations 70 to 100; its Hessian is 126 to 134).

    Parameters
    ----------
    strategy
        How the sets of unknowns are solved: `Schur`, `Alternated` or `Dense`.
    variant
        "derived" is what differentiation gives; "printed" is what the paper's tables say (the model's curvature
        with a plus, as in equations 88 and 99, and no JA'r); "turned" has both signs turned, as if the residual
        were subtracted the other way round, and no JA'r either; "safe" is Gauss-Newton with the derived curvature,
        bounded below by half of its own Hessian in every direction, so that no step is more than twice as long as
        that of Gauss-Newton.
    share
        How much of the curvature is taken: 1 is all of it, and 0 is Gauss-Newton.

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
    """The shape's increment with c eliminated, and c as it is best before that step (section 3.3.3).

    Equations 111 to 116: u is 116, and dc is 112. Bidirectional composition (117 to 124) has two forms.

    Parameters
    ----------
    variant
        "derived" eliminates dp as a function of dq, so that both are those of Gauss-Newton by the Schur complement.
        "printed" is what equations 119 and 124 and appendix B say: the same dq, but dp as it would be without it.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm(pliant.SSD(), pliant.Bidirectional(), pliant.Wiberg()))
    'ssd-bid-w'

    """

    variant: Literal["derived", "printed"] = "derived"


@dataclass(frozen=True)
class CascadedRegression:
    """Gauss-Newton with slopes that were learned from starts on training images, stage by stage.

    Tzimiropoulos' project-out cascaded regression (2015), which the paper names as future work: it is none of the
    31. It goes with project-out and inverse composition. Levels that have not learned any, and iterations after
    the last stage, have the slopes of the mean, which is Gauss-Newton.

    Examples
    --------
    >>> import pliant
    >>> str(pliant.Algorithm.parse("po:map-inv-cr"))
    'po:map-inv-cr'

    """


Method = GaussNewton | Newton | Wiberg | CascadedRegression
