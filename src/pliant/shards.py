"""One of several runs that share a piece of work between them, with nothing to join them but their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Part = TypeVar("Part")


@dataclass(frozen=True)
class Shard:
    """One of several shares of a piece of work.

    Parameters
    ----------
    number : int
        The number of the share, from 1.
    count : int
        How many shares there are.

    Raises
    ------
    ValueError
        If there is no share of this number.

    Examples
    --------
    >>> import pliant
    >>> shard = pliant.experiments.Shard(3, 16)
    >>> str(shard)
    '3/16'

    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(
                f"shard={self}: there must be at least one shard: 1/{max(self.number, 1)} is the first of "
                f"{max(self.number, 1)}."
            )
        if self.number < 1:
            raise ValueError(
                f"shard={self}: shards are counted from 1. The first of {self.count} is 1/{self.count}."
            )
        if self.number > self.count:
            raise ValueError(
                f"shard={self}: there is no shard {self.number} of {self.count}. The last one is "
                f"{self.count}/{self.count}."
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a share as people write it: `3/16` is the third of sixteen.

        Parameters
        ----------
        text : str
            The number of the share and how many there are.

        Returns
        -------
        Shard
            The share.

        Raises
        ------
        ValueError
            If the text is not like `3/16`, or there is no share of this number.

        Examples
        --------
        >>> import pliant
        >>> pliant.experiments.Shard.parse("3/16").count
        16

        """
        found = re.fullmatch(r"\s*(-?[0-9]+)\s*/\s*(-?[0-9]+)\s*", text)
        if found is None:
            raise ValueError(
                f"shard={text}: give the number of the shard and the number of shards, such as 3/16 for the "
                "third of sixteen."
            )
        return cls(int(found[1]), int(found[2]))

    def of(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts that belong to this share: every `count`-th. Together, the shares have each part once.

        Parameters
        ----------
        parts : sequence
            All parts of the work.

        Returns
        -------
        list
            The parts of this share.

        Examples
        --------
        >>> import pliant
        >>> pliant.experiments.Shard.parse("3/16").of(range(40))
        [2, 18, 34]

        """
        return list(parts[self.number - 1 :: self.count])
