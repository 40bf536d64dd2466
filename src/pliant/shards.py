"""One of several runs that share a piece of work between them, with nothing to join them but their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Part = TypeVar("Part")


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, counted from 1.

    Examples
    --------
    >>> from pliant.shards import Shard
    >>> shard = Shard.parse("3/16")
    >>> shard.number, shard.count, str(shard)
    (3, 16, '3/16')
    >>> shard.of(range(40))
    [2, 18, 34]

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
        """A shard as people write it: `3/16` is the third of sixteen."""
        found = re.fullmatch(r"\s*(-?[0-9]+)\s*/\s*(-?[0-9]+)\s*", text)
        if found is None:
            raise ValueError(
                f"shard={text}: give the number of the shard and the number of shards, such as 3/16 for the "
                "third of sixteen."
            )
        return cls(int(found[1]), int(found[2]))

    def of(self, parts: Sequence[Part]) -> list[Part]:
        """Its own of these parts: every `count`-th. Together, the shards have each part once."""
        return list(parts[self.number - 1 :: self.count])
