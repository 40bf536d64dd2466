"""Experiment 7: what explains the paper's Newton results: the printed sign, the derived one, or the safeguard."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.experiments.settings import Settings as Shared
from pliant.experiments.settings import sized
from pliant.experiments.trial import Trial
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.method import GaussNewton, Newton

TITLE = "Newton's method and the printed sign"


@dataclass(frozen=True)
class Settings(Shared):
    """`shares` of the curvature are tried as derived and as printed: 1 is all of it, and below 0 its sign is turned."""

    algorithms: tuple[str, ...] = sized(
        tuple(entry.name for entry in catalogue() if "-n" in entry.name),
        ("ssd-for-n-sch", "ssd-inv-n-sch", "po-asy-n"),
    )
    shares: tuple[float, ...] = sized((-1.0, 0.1, 0.25, 0.5), (0.25,))


def plan(settings: Settings) -> list[Trial]:
    """For each algorithm Gauss-Newton, Newton as derived, as printed and made safe, and with a share of each."""
    return [
        settings.trial(f"{name}, {way}", algorithm, group=name)
        for name in settings.algorithms
        for way, algorithm in ways(name, settings.shares).items()
    ]


def ways(name: str, shares: tuple[float, ...]) -> dict[str, str]:
    """The algorithms that a Newton algorithm is compared with, by what the table calls them."""
    algorithm = Algorithm.parse(name)
    method = algorithm.method
    if not isinstance(method, Newton):
        raise ValueError(f"{name}: this is not one of Newton's algorithms.")
    methods: dict[str, GaussNewton | Newton] = {"gauss-newton": GaussNewton(method.strategy)}
    methods["derived"] = Newton(method.strategy)
    methods["printed"] = Newton(method.strategy, "printed")
    methods["safe"] = Newton(method.strategy, "safe")
    for share in shares:
        methods[f"derived, {share:g}"] = Newton(method.strategy, "derived", share)
        methods[f"printed, {share:g}"] = Newton(method.strategy, "printed", share)
    return {way: str(replace(algorithm, method=one)) for way, one in methods.items()}
