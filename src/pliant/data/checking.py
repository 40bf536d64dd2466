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
    """What `check_dataset` found.

    Attributes
    ----------
    valid : Validated
        The usable samples, and the problems of the others.
    suspects : tuple of Suspect
        Annotations of usable samples that look wrong.
    turned_over : str or None
        A sentence, if the landmarks fit the images better with y counted from the other edge.

    Examples
    --------
    >>> import pliant
    >>> found = pliant.data.check_dataset(pliant.load_dataset("photographs/", "new/"), jobs=1, progress=False)
    >>> found.clean, found.lacking, len(found.valid.problems)
    (False, 0, 3)

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
        """The number of usable samples with missing landmarks."""
        return int(np.sum(np.any(np.isnan(self.valid.points[:, :, 0]), axis=1)))


def check_dataset(
    dataset: Dataset, skip: Collection[str] = (), jobs: int | None = None, progress: bool | None = None
) -> DatasetCheck:
    """Check every sample of a data set: what cannot be used, what looks wrong, and what is upside down.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    skip : collection of str
        Checks to leave out. `docs/reference/data.md` lists them.
    jobs : int or None
        Threads; all cores by default.
    progress : bool or None
        Show progress: by default a bar in a terminal, and otherwise a line every half minute. False shows nothing.

    Returns
    -------
    DatasetCheck
        Everything that was found.

    Examples
    --------
    >>> import pliant
    >>> found = pliant.data.check_dataset(pliant.load_dataset("photographs/"), jobs=1, progress=False)
    >>> len(found.valid.dataset), found.valid.points.shape
    (12, (12, 68, 2))

    """
    workers = jobs or cores()
    with Progress(progress) as bar:
        step = bar.start("checking samples", len(dataset))
        valid = validate(dataset, workers, step, allow_missing=True, keep=_KEPT)
        step = bar.start("looking for suspects", len(valid.dataset))
        suspects = find_suspects(valid, skip, workers, step)
        turned = None if "turned" in skip else turned_over(valid)
    return DatasetCheck(valid, tuple(suspects), turned)
