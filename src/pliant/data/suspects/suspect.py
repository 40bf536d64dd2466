"""What is found: a suspect."""

from __future__ import annotations

from dataclasses import dataclass, field

from pliant.arrays import Float64


@dataclass(frozen=True)
class Suspect:
    """What is suspicious about sample `number`: one of `CHECKS`, in words, and the landmarks that stand out.

    `severity` is 1 at the threshold and larger beyond it. `other` is the sample that it repeats, if any. `kind`
    says more exactly than `check` what seems to have happened: "swapped", "shifted", "decimal". `mend (v, 2)` are
    all points as they would be without it, where that can be told. Without landmarks, the whole is suspicious.
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
