"""Who does the work that can be shared out in parts: this process with its threads, or a cluster.

Work is a function that goes through parts and yields a result for each, in order; how many parts one call sees is
the crew's choice. This process has all of them, so that its threads never wait between two parts. On a cluster, a
call has one, and calls run side by side. What is merged is merged in an order that follows from the number of parts
alone: the last bits of a result do not depend on who did which part, nor when.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pliant.threads import cores

Result = TypeVar("Result")

Work = Callable[..., Iterator[Result]]
"""`work(parts, *shared, threads=n)` yields a result for each part, in their order."""


class Crew(Protocol):
    """What a cluster needs to have to be given as `jobs`."""

    @property
    def threads(self) -> int:
        """Threads that this process may use for what is not shared out."""
        ...

    def each(self, work: Work[Result], parts: Sequence[Any], *shared: Any) -> Iterator[tuple[int, Result]]:
        """The numbers of parts and their results, as they come; `shared` goes to every worker once."""
        ...

    def merged(
        self,
        work: Work[Result],
        parts: Sequence[Any],
        merge: Callable[[Result, Result], Result],
        *shared: Any,
    ) -> Result:
        """The results of all parts, there is at least one, merged two neighbours at a time until one is left."""
        ...

    def one(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work(*arguments, threads=n)` returns, wherever it runs."""
        ...


Jobs = int | Crew | None
"""Threads, all cores if None, or a crew that works elsewhere."""


@dataclass(frozen=True)
class Threads:
    """The crew of this process."""

    threads: int = field(default_factory=cores)

    def each(self, work: Work[Result], parts: Sequence[Any], *shared: Any) -> Iterator[tuple[int, Result]]:
        yield from enumerate(work(parts, *shared, threads=self.threads))

    def merged(
        self,
        work: Work[Result],
        parts: Sequence[Any],
        merge: Callable[[Result, Result], Result],
        *shared: Any,
    ) -> Result:
        return merged_in_pairs(work(parts, *shared, threads=self.threads), len(parts), merge)

    def one(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return work(*arguments, threads=self.threads)


def crew_of(jobs: Jobs) -> Crew:
    """The crew that a user means by `jobs`."""
    if jobs is None:
        return Threads()
    return Threads(jobs) if isinstance(jobs, int) else jobs


def in_this_process(crew: Crew) -> bool:
    """Whether work is done here, where it may keep what it has read, and say how far it is."""
    return isinstance(crew, Threads)


def shared_out(count: int, least: int = 128) -> list[slice]:
    """So many things in parts of about one size, by their number alone.

    Parts grow with the root of it, as their number does: a part is worth sending, and not much is lost with it.
    """
    size = max(least, 2 * math.isqrt(count))
    bounds = [round(k * count / -(-count // size)) for k in range(-(-count // size) + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def pairs(count: int) -> list[tuple[int, int]]:
    """Which results are merged, in order, each time into the first of the two: neighbours, then pairs of pairs."""
    found, step = [], 1
    while step < count:
        found += [(first, first + step) for first in range(0, count - step, 2 * step)]
        step *= 2
    return found


def merged_in_pairs(
    results: Iterable[Result], count: int, merge: Callable[[Result, Result], Result]
) -> Result:
    """Results merged as `pairs` has it, as they come: no more are held than the tree is deep."""
    if count < 1:
        raise ValueError("there is nothing to merge.")
    waiting: list[tuple[int, Result]] = []
    for number, result in enumerate(results):
        size = 1
        # Two of one size that begin where a pair of that size begins are neighbours in the tree.
        while waiting and waiting[-1][0] == size and (number + 1) % (2 * size) == 0:
            result = merge(waiting.pop()[1], result)
            size *= 2
        waiting.append((size, result))
    last = waiting.pop()[1]
    while waiting:
        last = merge(waiting.pop()[1], last)
    return last
