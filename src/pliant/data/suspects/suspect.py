"""What is found: a suspect."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pliant.arrays import Float64

COUNTED_FROM_0 = (
    "Landmarks are counted from 0 here: landmark 2 is the third in the file, and number 3 in tpsDig, R and "
    "pliant morphometrics."
)


@dataclass(frozen=True)
class Suspect:
    """An annotation that looks wrong.

    Attributes
    ----------
    number : int
        The number of the sample among those that can be used.
    name : str
        The name of the sample.
    check : str
        The check that found it.
    reason : str
        What looks wrong, in words.
    severity : float
        1 at the limit of the check, and larger the further beyond it. The same picture
        twice, and other findings that are no matter of degree, have 10 or more.
    landmarks : tuple of int
        The landmarks that stand out; empty if the whole annotation does.
    other : str
        The sample that it repeats, if any.
    kind : str
        What seems to have happened, such as `"swapped"`, `"shifted"` or `"decimal"`.
    mend : ndarray, shape (v, 2), or None
        All points as they would be without the mistake, if that is known.

    Examples
    --------
    >>> import pliant
    >>> suspect = pliant.data.Suspect(0, "face-0000.jpg", "order", "two landmarks are swapped", 1.5, (36, 45))
    >>> suspect.landmarks
    (36, 45)

    """

    number: int
    name: str
    check: str
    reason: str
    severity: float
    landmarks: tuple[int, ...] = ()
    other: str = ""
    kind: str = ""
    mend: Float64 | None = field(default=None, compare=False, repr=False)


def about_numbers(sentences: Iterable[str]) -> str:
    """How landmarks are counted, if one of these sentences about them has the number of one; otherwise nothing."""
    numbered = re.compile(r"landmarks? (from )?\(?\d")
    return COUNTED_FROM_0 if any(numbered.search(one) for one in sentences) else ""
