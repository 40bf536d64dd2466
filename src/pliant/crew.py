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
    """What a cluster needs to be given as `jobs`. `pliant.connect` yields one for Dask.

    Work is a function `work(parts, *shared, threads=n)` that yields a result for each part, in their order.

    Examples
    --------
    The threads of this process are a crew too:

    >>> from pliant.crew import crew_of
    >>> crew_of(1).threads
    1

    """

    @property
    def threads(self) -> int:
        """How many threads this process may use for work that is not shared out."""
        ...

    def each(self, work: Work[Result], parts: Sequence[Any], *shared: Any) -> Iterator[tuple[int, Result]]:
        """Do a piece of work in parts.

        Parameters
        ----------
        work : callable
            `work(parts, *shared, threads=n)` yields a result for each part, in their order.
        parts : sequence
            The parts.
        *shared
            Values that go to every worker once.

        Yields
        ------
        number : int
            The number of a part.
        result
            What `work` yielded for it. Results come in the order in which they are done.

        Examples
        --------
        >>> from pliant.crew import crew_of
        >>> def squares(parts, *, threads):
        ...     yield from (part**2 for part in parts)
        >>> sorted(crew_of(1).each(squares, [1, 2, 3]))
        [(0, 1), (1, 4), (2, 9)]

        """
        ...

    def merged(
        self,
        work: Work[Result],
        parts: Sequence[Any],
        merge: Callable[[Result, Result], Result],
        *shared: Any,
    ) -> Result:
        """Do a piece of work in parts, and merge the results of neighbours until one is left.

        Parameters
        ----------
        work : callable
            `work(parts, *shared, threads=n)` yields a result for each part, in their order.
        parts : sequence
            The parts, at least one.
        merge : callable
            From two results to one.
        *shared
            Values that go to every worker once.

        Returns
        -------
        result
            The merged result. The order of merging depends on the number of parts alone.

        Examples
        --------
        >>> from pliant.crew import crew_of
        >>> def squares(parts, *, threads):
        ...     yield from (part**2 for part in parts)
        >>> crew_of(1).merged(squares, [1, 2, 3], lambda one, other: one + other)
        14

        """
        ...

    def one(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do a piece of work that has no parts, wherever there is room.

        Parameters
        ----------
        work : callable
            It is called as `work(*arguments, threads=n)`.
        *arguments
            The arguments.

        Returns
        -------
        result
            What `work` returns.

        Examples
        --------
        >>> from pliant.crew import crew_of
        >>> crew_of(1).one(lambda number, *, threads: number**2, 3)
        9

        """
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
