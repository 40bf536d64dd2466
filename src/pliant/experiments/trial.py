"""What an experiment fits: a model, a set of images and one way of fitting, all as plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

Modes = int | float


@dataclass(frozen=True)
class Training:
    """A model: the sets that it learns from, and the settings of `train`.

    `images` is the folder of the images that annotation files name, `format` that of landmark files, and `part` the
    part of a manifest, as in `load_dataset`; each may be empty. Of `folds` parts of the sets, number `fold` is left
    out; without folds, nothing is. `most` samples are taken at most, evenly from all of them (0: all).
    """

    sets: tuple[str, ...]
    size: float = 150.0
    scales: tuple[float, ...] = (0.5, 1.0)
    shape_modes: tuple[Modes, ...] = (3, 12)
    appearance_variance: tuple[Modes, ...] = (0.75,)
    features: str = "dsift"
    motion: str = "piecewise-affine"
    mirror: bool = False
    folds: int = 0
    fold: int = 0
    most: int = 0
    images: str = ""
    format: str = ""
    part: str = ""


@dataclass(frozen=True)
class Trial:
    """One way of fitting a model to the images of a set, from `starts` random starts each.

    With more than one of `tries`, fits also begin at random places about the start, as far from it as it may be
    from the truth, and the best is kept. The sets of a model that has folds are their own test: what the fold left
    out is fitted. `test_part` is the part of a manifest that is tested on. `label` and `group` are how the
    experiment calls it, and `value` is what it varies; trials of one label are counted together.
    """

    label: str
    training: Training
    test: tuple[str, ...]
    algorithm: str
    iterations: tuple[int, ...] = (24, 16)
    sampling: float = 1.0
    order: str = "exact"
    noise: float = 0.05
    tries: int = 1
    seed: int = 0
    points: str = "all"
    most: int = 0
    starts: int = 3
    group: str = ""
    value: float | None = None
    test_part: str = ""

    def identity(self) -> dict[str, Any]:
        """All that decides the rows of one start, but for the samples, which have fingerprints of their own."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        for name in ("label", "starts", "group", "value", "test", "test_part", "most"):
            del plain[name]
        for name in ("sets", "folds", "fold", "most", "images", "format", "part"):
            del plain["training"][name]
        return plain


def trial_from(plain: dict[str, Any]) -> Trial:
    """The trial that `dataclasses.asdict` was made of, after a journey through JSON."""

    def values(part: dict[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in part.items()}

    return Trial(**{**values(plain), "training": Training(**values(plain["training"]))})
