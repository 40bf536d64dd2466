"""Algorithms: a cost, a composition and a method, with a name for every meaningful combination.

A name is those three, joined by hyphens: `po-asy-gn`, `ssd-bid-n-alt`. What differs from the default stands
behind a colon: `po:0-asy:0.2-gn` (rho 0, alpha 0.2), `ssd:map-inv-gn-alt:3` (prior, three sweeps),
`ssd-inv-n:safe-sch`, `ssd-bid-gn-alt:1:joint`, `ssd-inv-gn-den`. Newton's method with a share of its curvature
is `ssd-for-n:0.25-sch` or `ssd-inv-n:printed:0.5-sch`, and with its sign turned `po-for-n:turned`. Bidirectional
Wiberg as appendix B prints it is `ssd-bid-w:printed`. Cascaded regression, not one of the 31, is `po-inv-cr`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import cast

from pliant.fitting.composition import Asymmetric, Bidirectional, Composition, Forward, Inverse
from pliant.fitting.cost import PRIORS, SSD, Cost, Prior, ProjectOut
from pliant.fitting.method import (
    Alternated,
    CascadedRegression,
    Dense,
    GaussNewton,
    Method,
    Newton,
    Schur,
    Strategy,
    Variant,
    Wiberg,
)


@dataclass(frozen=True)
class Algorithm:
    """One point of the paper's three axes: what is minimised, where the small warp goes, and how it is solved.

    `fit` and settings take an algorithm, or the name that `str` gives.

    Parameters
    ----------
    cost : SSD or ProjectOut
        What is minimised.
    composition : Forward, Inverse, Asymmetric or Bidirectional
        Where the small warp goes.
    method : GaussNewton, Newton, Wiberg or CascadedRegression
        How the unknowns are solved.

    Raises
    ------
    ValueError
        If the combination has no meaning. The message says why.

    Examples
    --------
    >>> import pliant
    >>> algorithm = pliant.Algorithm(pliant.SSD("map"), pliant.Asymmetric(0.2), pliant.GaussNewton())
    >>> str(algorithm)
    'ssd:map-asy:0.2-gn-sch'
    >>> pliant.Algorithm.parse("po-for-gn").composition
    Forward()
    >>> model = pliant.load("faces.pliant")
    >>> pliant.fit(model, "new.jpg", "centre", algorithm=algorithm).algorithm
    'ssd:map-asy:0.2-gn-sch'

    """

    cost: Cost = ProjectOut()
    composition: Composition = Asymmetric()
    method: Method = GaussNewton()

    def __post_init__(self) -> None:
        bidirectional = isinstance(self.composition, Bidirectional)
        if isinstance(self.method, CascadedRegression):
            if not (isinstance(self.cost, ProjectOut) and isinstance(self.composition, Inverse)):
                raise ValueError(
                    "cascaded regression learns from project-out residuals and moves the model: use "
                    "po-inv-cr."
                )
            if self.cost.rho == 1:
                raise ValueError(
                    "with rho = 1 there is no residual outside the appearance to learn from: use a smaller "
                    "rho."
                )
            return
        if isinstance(self.method, Wiberg) and self.method.variant == "printed" and not bidirectional:
            raise ValueError(
                "with one set of shape unknowns, there is only one form of Wiberg: use the method w, or "
                "bidirectional composition."
            )
        if not isinstance(self.cost, ProjectOut) or bidirectional:
            return
        if isinstance(self.method, Wiberg):
            raise ValueError(
                "project-out has one set of unknowns here, so Wiberg is the same as Gauss-Newton: use the "
                "method gn."
            )
        if isinstance(self.method.strategy, Alternated):
            raise ValueError(
                "project-out has one set of unknowns here, so there is nothing to alternate between: leave "
                "out alt, or use bidirectional composition."
            )

    def __str__(self) -> str:
        return "-".join(part for part in (*_cost_name(self.cost), *_rest_of_name(self)) if part)

    @staticmethod
    def parse(name: str) -> Algorithm:
        """Return the algorithm that a name stands for.

        Parameters
        ----------
        name : str
            The name of an algorithm, such as `"po-asy-gn"`. `docs/explanation/algorithms.md` explains how names
            are made.

        Returns
        -------
        Algorithm
            `str(algorithm)` gives the name back, in its shortest form.

        Raises
        ------
        ValueError
            If there is no such algorithm. The message suggests the nearest name.

        Examples
        --------
        >>> import pliant
        >>> pliant.Algorithm.parse("ssd-inv-gn-alt").method
        GaussNewton(strategy=Alternated(sweeps=1, joint=False))
        >>> pliant.Algorithm.parse("po-inv-ng")
        Traceback (most recent call last):
        ValueError: there is no algorithm 'po-inv-ng'. Did you mean 'po-inv-n'? ...

        """
        try:
            return _parse(name)
        except _Unknown:
            known = [entry.name for entry in catalogue()]
            near = get_close_matches(name.lower().replace("_", "-"), known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ValueError(
                f"there is no algorithm '{name}'.{hint} pliant.catalogue() lists all 31."
            ) from None


@dataclass(frozen=True)
class Entry:
    """An algorithm of the paper: its name here and there, who published it, and what others call it.

    Attributes
    ----------
    name : str
        The name in pliant, such as `"po-inv-gn"`.
    paper_name : str
        The name in the paper, such as `"PO_Inv_GN"`.
    published : str
        Who published it, and when.
    also : str
        Other names for it; empty if there are none.

    Examples
    --------
    >>> import pliant
    >>> entry = pliant.catalogue()[0]
    >>> entry.name, entry.paper_name
    ('ssd-for-gn-sch', 'SSD_For_GN_Sch')
    >>> entry.algorithm.composition
    Forward()

    """

    name: str
    paper_name: str
    published: str
    also: str

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that the name stands for."""
        return Algorithm.parse(self.name)


_NEW = "Alabort-i-Medina and Zafeiriou 2016"
_KNOWN = {
    "po-inv-gn": ("Matthews and Baker 2004", "PIC, project-out inverse compositional"),
    "po-for-gn": ("Amberg et al. 2009; Tzimiropoulos and Pantic 2013", "Fast-Forward, PFC"),
    "ssd-inv-gn-sch": ("Papandreou and Maragos 2008; Tzimiropoulos and Pantic 2013", "SIC, Fast-SIC"),
    "ssd-inv-gn-alt": (
        "Tzimiropoulos et al. 2012; Antonakos et al. 2014",
        "AIC, alternating inverse compositional",
    ),
    "ssd-for-gn-sch": ("Martins et al. 2010 (additive); Tzimiropoulos and Pantic 2013", "SFC, SFA"),
    "ssd-for-gn-alt": (_NEW, "AFC, alternating forward compositional"),
    "ssd-inv-n-sch": ("Kossaifi et al. 2014", ""),
    "ssd-inv-w": (_NEW, "WIC, Wiberg inverse compositional"),
    "ssd-for-w": (_NEW, "WFC, Wiberg forward compositional"),
    "po-asy-gn": (_NEW, "ESM, efficient second-order minimisation (alpha 0.5)"),
}


@cache
def catalogue() -> tuple[Entry, ...]:
    """List the 31 algorithms of the paper: 20 with the sum of squared differences, 11 with project-out.

    Returns
    -------
    tuple of Entry
        Each has its `name` here, its `paper_name`, who `published` it, what it is `also` called, and the
        `algorithm` itself.

    Examples
    --------
    >>> import pliant
    >>> len(pliant.catalogue())
    31
    >>> [entry.name for entry in pliant.catalogue() if entry.published.startswith("Matthews")]
    ['po-inv-gn']

    """
    compositions = ("for", "inv", "asy", "bid")
    names = [
        f"ssd-{kind}-{how}" for how in ("gn-sch", "gn-alt", "n-sch", "n-alt", "w") for kind in compositions
    ]
    names += [f"po-{kind}-{how}" for how in ("gn", "n") for kind in compositions[:3]]
    names += [f"po-bid-{how}" for how in ("gn-sch", "gn-alt", "n-sch", "n-alt", "w")]
    return tuple(Entry(name, _paper_name(name), *_KNOWN.get(name, (_NEW, ""))) for name in names)


def _paper_name(name: str) -> str:
    cost, composition, *method = name.split("-")
    printed = {"gn": "GN", "n": "N", "w": "W", "sch": "Sch", "alt": "Alt"}
    return "_".join([cost.upper(), composition.capitalize(), *(printed[part] for part in method)])


class _Unknown(Exception):
    """Some part of a name means nothing."""


def _parse(name: str) -> Algorithm:
    # The hyphens of a number (1e-05, or a wrong -1 behind a colon) do not separate.
    parts = re.split(r"(?<![0-9]e)(?<!:)-", name.strip().lower())
    if not 3 <= len(parts) <= 4:
        raise _Unknown
    (cost, *cost_options), (kind, *kind_options), (how, *how_options) = (
        part.split(":") for part in parts[:3]
    )
    strategy = _strategy(*parts[3].split(":")) if len(parts) == 4 else Schur()
    return Algorithm(
        _cost(cost, cost_options), _composition(kind, kind_options), _method(how, how_options, strategy)
    )


def _cost(name: str, options: list[str]) -> Cost:
    if name not in ("ssd", "po"):
        raise _Unknown
    prior: Prior = "none"
    if options and options[-1] in PRIORS:
        prior = cast(Prior, options.pop())
    if name == "ssd" and not options:
        return SSD(prior)
    if name == "po" and len(options) <= 1:
        return ProjectOut(_number(options[0]) if options else 0.5, prior)
    raise _Unknown


def _composition(name: str, options: list[str]) -> Composition:
    if name == "asy" and len(options) <= 1:
        return Asymmetric(_number(options[0]) if options else 0.5)
    plain: dict[str, Composition] = {"for": Forward(), "inv": Inverse(), "bid": Bidirectional()}
    if name in plain and not options:
        return plain[name]
    raise _Unknown


def _method(name: str, options: list[str], strategy: Strategy) -> Method:
    match name, options:
        case "gn", []:
            return GaussNewton(strategy)
        case "n", ["safe" | "printed" | "turned" as variant, *share] if len(share) <= 1:
            return Newton(strategy, cast(Variant, variant), *map(_number, share))
        case "n", share if len(share) <= 1:
            return Newton(strategy, "derived", *map(_number, share))
        case "cr", [] if strategy == Schur():
            return CascadedRegression()
        case "w", [] if strategy == Schur():
            return Wiberg()
        case "w", ["printed"] if strategy == Schur():
            return Wiberg("printed")
    raise _Unknown


def _strategy(name: str, *options: str) -> Strategy:
    match name, options:
        case "sch", ():
            return Schur()
        case "den", ():
            return Dense()
        case "alt", ():
            return Alternated()
        case "alt", (sweeps,):
            return Alternated(_whole(sweeps))
        case "alt", (sweeps, "joint"):
            return Alternated(_whole(sweeps), joint=True)
    raise _Unknown


def _number(text: str) -> float:
    # Python would also read 0_5 (as 5) and the digits of other scripts.
    if not text.isascii() or "_" in text:
        raise _Unknown
    try:
        return float(text)
    except ValueError:
        raise _Unknown from None


def _whole(text: str) -> int:
    number = _number(text)
    if not number.is_integer():
        raise ValueError(f"alt:{text}: the number of sweeps must be a whole number, as in alt:2.")
    return int(number)


def _cost_name(cost: Cost) -> tuple[str]:
    options = [] if isinstance(cost, SSD) or cost.rho == 0.5 else [repr(float(cost.rho))]
    options += [cost.prior] if cost.prior != "none" else []
    return (":".join(["ssd" if isinstance(cost, SSD) else "po", *options]),)


def _rest_of_name(algorithm: Algorithm) -> tuple[str, str, str]:
    match algorithm.composition:
        case Forward():
            composition = "for"
        case Inverse():
            composition = "inv"
        case Bidirectional():
            composition = "bid"
        case Asymmetric(alpha):
            composition = "asy" if alpha == 0.5 else f"asy:{float(alpha)!r}"
    method = algorithm.method
    if isinstance(method, CascadedRegression):
        return composition, "cr", ""
    if isinstance(method, Wiberg):
        return composition, "w" if method.variant == "derived" else f"w:{method.variant}", ""
    how = "gn" if isinstance(method, GaussNewton) else _newton_name(method)
    match method.strategy:
        case Dense():
            strategy = "den"
        case Alternated(sweeps, joint):
            strategy = (
                "alt" if (sweeps, joint) == (1, False) else f"alt:{sweeps}" + (":joint" if joint else "")
            )
        case Schur():
            # With a single set of unknowns there is nothing to eliminate, and the paper names no strategy.
            single = isinstance(algorithm.cost, ProjectOut) and not isinstance(
                algorithm.composition, Bidirectional
            )
            strategy = "" if single else "sch"
    return composition, how, strategy


def _newton_name(method: Newton) -> str:
    options: list[str] = [] if method.variant == "derived" else [method.variant]
    options += [] if method.share == 1 else [repr(float(method.share))]
    return ":".join(["n", *options])
