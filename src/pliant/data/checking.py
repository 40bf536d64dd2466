"""All checks of a data set together: what cannot be used, what looks wrong, and what is turned over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from pliant.data.dataset import Dataset
from pliant.data.suspects import Suspect, find_suspects
from pliant.data.turned import turned_over
from pliant.data.validation import Validated, validate
from pliant.progress import Progress
from pliant.threads import cores

_KEPT = 5e8
"""Bytes of decoded images that are kept for the checks that look at them again."""


@dataclass(frozen=True, eq=False)
class DatasetCheck:
    """The usable samples and the problems of the others, the suspects among the former, and a word on all of them.

    `turned_over` is a sentence if the landmarks fit the images better with y counted from the other edge.
    """

    valid: Validated
    suspects: tuple[Suspect, ...]
    turned_over: str | None

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.valid.problems or self.suspects or self.turned_over)

    @property
    def lacking(self) -> int:
        """How many usable samples lack landmarks."""
        return int(np.sum(np.any(np.isnan(self.valid.points[:, :, 0]), axis=1)))


def check_dataset(
    dataset: Dataset, skip: Collection[str] = (), jobs: int | None = None, progress: bool | None = None
) -> DatasetCheck:
    """Check every sample; `skip` names checks of `suspects.CHECKS` to leave out."""
    workers = jobs or cores()
    with Progress(progress) as bar:
        step = bar.start("checking samples", len(dataset))
        valid = validate(dataset, workers, step, allow_missing=True, keep=_KEPT)
        step = bar.start("looking for suspects", len(valid.dataset))
        suspects = find_suspects(valid, skip, workers, step)
        turned = None if "turned" in skip else turned_over(valid)
    return DatasetCheck(valid, tuple(suspects), turned)
