"""What an experiment fits: a model, a set of images and one way of fitting, all as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pliant.data.loading import short_name
from pliant.settings import Fitting, Training, presets

PAPER = presets.PAPER.changed(
    motion="piecewise-affine", mirror=False, facing="as-is", detector=None, confidence=False
)
"""The paper's models, whatever the defaults of `train` are."""

PAPER_FITTING = Fitting(iterations=(24, 16), hypotheses=1, tries=1, sampling=1.0, order="exact", seed=0)
"""How the paper fits them, whatever the defaults of `fit` are."""


@dataclass(frozen=True)
class Sets:
    """What a model learns from.

    `images` is the folder of the images that annotation files name, `format` that of landmark files, and `part` the
    part of a manifest, as in `load_dataset`; each may be empty. Of `folds` parts of the sets, number `fold` is left
    out; without folds, nothing is. `most` samples are taken at most, evenly from all of them (0: all).
    """

    sources: tuple[str, ...]
    folds: int = 0
    fold: int = 0
    most: int = 0
    images: str = ""
    format: str = ""
    part: str = ""


@dataclass(frozen=True)
class Trial:
    """One way of fitting a model to the images of a set, from `starts` random starts each.

    With more than one of the fitting's `tries`, fits also begin at random places about the start, as far from it as
    it may be from the truth, and the best is kept; its `seed` is that of the starts. Sets that have folds are their
    own test: what the fold left out is fitted. `test_part` is the part of a manifest that is tested on. With
    `expert_alone`, what the model's expert sees stands for the fit. `label` and `group` are how the experiment
    calls it, and `value` is what it varies; trials of one label are counted together.
    """

    label: str
    sets: Sets
    test: tuple[str, ...]
    training: Training = PAPER
    fitting: Fitting = PAPER_FITTING
    noise: float = 0.05
    points: str = "all"
    most: int = 0
    starts: int = 3
    group: str = ""
    value: float | None = None
    test_part: str = ""
    expert_alone: bool = False

    @property
    def iterations(self) -> tuple[int, ...]:
        """Most iterations at each level."""
        fitting = self.fitting.suited_to(self.training, len(self.training.scales))
        return fitting.iterations or ()

    def identity(self) -> dict[str, Any]:
        """All that decides the rows of one start, but for the samples, which have fingerprints of their own."""
        # Rows of fits keep the names that they had before an expert could stand for them.
        alone = {"expert_alone": True} if self.expert_alone else {}
        return {
            "training": self.training.to_dict(),
            "fitting": self.fitting.to_dict(),
            "noise": self.noise,
            "points": self.points,
            **alone,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON has."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {**plain, "sets": asdict(self.sets), **self.identity()}

    @property
    def train_name(self) -> str:
        """What people call the sets that are trained on."""
        return set_name(self.sets.sources, self.sets.part)

    @property
    def test_name(self) -> str:
        """What people call the sets that are tested on."""
        return set_name(self.test, self.test_part)


_PLAIN = ("label", "test", "most", "starts", "group", "value", "test_part")


def trial_from(plain: Mapping[str, Any]) -> Trial:
    """The trial that `Trial.to_dict` was made of, after a journey through JSON."""
    sets, test = dict(plain["sets"]), tuple(plain["test"])
    return Trial(
        **{
            **plain,
            "test": test,
            "sets": Sets(**{**sets, "sources": tuple(sets["sources"])}),
            # Older trials lack what came later, which then was as in the paper.
            "training": Training.from_dict({**PAPER.to_dict(), **plain["training"]}),
            "fitting": Fitting.from_dict(plain["fitting"]),
        }
    )


def set_name(sets: Sequence[str], part: str) -> str:
    """Sets without their folders, and with the part of a manifest if there is one."""
    return ", ".join(map(short_name, sets)) + (f" ({part})" if part else "")
