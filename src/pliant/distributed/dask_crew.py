"""The crew of a Dask cluster."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pliant.crew import Work
from pliant.distributed.faults import workers_died
from pliant.distributed.flight import Flight, Killed, Lost, packed
from pliant.distributed.link import Link
from pliant.distributed.scattering import Scattering
from pliant.distributed.tasks import do_alone, do_merge, do_part
from pliant.threads import cores

Result = TypeVar("Result")

_AHEAD = 3
"""Parts under way for each thread: the one that it does and the next ones, which need not wait for this process."""

_MOST_DEATHS = 3
"""Workers that may die while they do what is not shared out; Dask has the same number for parts."""


class DaskCrew:
    """Workers of a cluster, each with as many parts at a time as it has threads."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._scattering = Scattering(link)

    @property
    def threads(self) -> int:
        """Those of this process, which is no worker: it has them for itself."""
        return cores()

    def each(self, work: Work[Result], parts: Sequence[Any], *shared: Any) -> Iterator[tuple[int, Result]]:
        """Results as they come. Parts that kill workers are tried again at the end, with nothing beside them."""
        self._scattering.keep(shared)
        flight, code = self._flight(work), packed(work)
        waiting, suspects, guilty = deque(range(len(parts))), list[int](), list[int]()
        alone, losses = False, Counter[int]()
        try:
            while waiting or flight or suspects:
                if not waiting and not flight:
                    alone, waiting = True, deque([suspects.pop()])
                    losses.clear()
                while waiting and len(flight) < (1 if alone else _AHEAD * self._link.threads()):
                    number = waiting.popleft()
                    flight.send(number, do_part, code, packed(parts[number]), shared=shared)
                finished = []
                for name, future in flight.landed():
                    number = int(name)  # type: ignore[call-overload]
                    outcome = flight.outcome(number, future)
                    if outcome is None:
                        finished.append((number, future))
                    elif isinstance(outcome, Lost) and losses[number] < _MOST_DEATHS:
                        losses[number] += 1
                        waiting.appendleft(number)
                    else:
                        # Where all workers die at once, what they share is lost before Dask has counted.
                        (guilty if alone else suspects).append(number)
                results = list(self._results(finished))
                # While anybody holds its future, a worker keeps a result, and another makes it again if that dies.
                finished, future = [], None
                for number, result in results:
                    if isinstance(result, Lost):
                        waiting.appendleft(number)
                    else:
                        yield number, result
        finally:
            flight.cancel()
        if guilty:
            raise workers_died(_name(work), [_label(parts[number], number) for number in sorted(guilty)])

    def merged(
        self,
        work: Work[Result],
        parts: Sequence[Any],
        merge: Callable[[Result, Result], Result],
        *shared: Any,
    ) -> Result:
        """Results stay on the workers until one is left. Few wait there for their neighbour at any time."""
        if not parts:
            raise ValueError("there is nothing to merge.")
        self._scattering.keep(shared)
        flight, code, joining = self._flight(work), packed(work), packed(merge)
        waiting, suspects = deque(range(len(parts))), deque[int]()
        ready: dict[tuple[int, int], Any] = {}
        retried: set[int] = set()

        def has_room() -> bool:
            # As many results as the tree is deep may have to wait, if neighbours of each are late.
            most = 2 * self._link.threads() + len(parts).bit_length()
            return not flight or len(flight) + len(ready) < most

        try:
            while True:
                if suspects and not flight:
                    number = suspects.popleft()
                    flight.send((number, 1), do_part, code, packed(parts[number]), shared=shared)
                while waiting and not suspects and has_room():
                    number = waiting.popleft()
                    flight.send((number, 1), do_part, code, packed(parts[number]), shared=shared)
                for name, future in flight.landed():
                    first, size = block = _block(name)
                    numbers = range(first, min(first + size, len(parts)))
                    outcome = flight.outcome(block, future)
                    if isinstance(outcome, Lost):
                        waiting.extendleft(reversed(numbers))
                    elif isinstance(outcome, Killed):
                        if not retried.isdisjoint(numbers):
                            raise workers_died(
                                _name(work), [_label(parts[number], number) for number in numbers]
                            )
                        retried.update(numbers)
                        suspects.extend(numbers)
                    else:
                        ready[block] = future
                        self._join(flight, ready, block, len(parts), joining)
                whole = next((block for block in ready if block[0] == 0 and block[1] >= len(parts)), None)
                if whole is not None:
                    [(_, result)] = self._results([(0, ready.pop(whole))])
                    if not isinstance(result, Lost):
                        return result  # type: ignore[no-any-return]
                    waiting.extend(range(len(parts)))
        finally:
            flight.cancel()

    def one(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """On the worker with a GPU or, if none has one, the most threads."""
        flight = self._flight(work)
        code, values = packed(work), packed(arguments)
        worker, deaths = "", 0
        try:
            while True:
                # Dask waits for ever for a worker that it was told to prefer, and that is gone.
                if flight and not self._link.has(worker):
                    flight.cancel()
                    deaths += 1
                    if deaths > _MOST_DEATHS:
                        raise workers_died(_name(work), [])
                if not flight:
                    worker = self._preferred()
                    flight.send("one", do_alone, code, values, workers=[worker])
                for name, future in flight.landed():
                    outcome = flight.outcome(name, future)
                    if isinstance(outcome, Killed):
                        raise workers_died(_name(work), [])
                    if outcome is None:
                        [(_, result)] = self._results([(0, future)])
                        if not isinstance(result, Lost):
                            return result  # type: ignore[no-any-return]
        finally:
            flight.cancel()

    def close(self) -> None:
        """Leave nothing on the workers."""
        self._scattering.close()

    def _flight(self, work: Callable[..., Any]) -> Flight:
        return Flight(self._link, self._scattering, _name(work))

    def _join(
        self,
        flight: Flight,
        ready: dict[tuple[int, int], Any],
        block: tuple[int, int],
        count: int,
        joining: bytes,
    ) -> None:
        """Merge a block of results with its neighbour if that is there too; Dask keeps both until it has."""
        first, size = block
        # Behind the last part there is no neighbour: the block stands for one of twice the size.
        while size < count and first % (2 * size) == 0 and first + size >= count:
            ready[first, 2 * size] = ready.pop((first, size))
            size *= 2
        left = first if first % (2 * size) == 0 else first - size
        if size < count and (left, size) in ready and (left + size, size) in ready:
            flight.send(
                (left, 2 * size),
                do_merge,
                joining,
                ready.pop((left, size)),
                ready.pop((left + size, size)),
                priority=1,
            )

    def _preferred(self) -> str:
        """The address of a worker with a GPU or, if none says that it has one, with the most threads."""
        self._link.await_workers()
        workers = self._link.identity()["workers"]

        def rank(address: str) -> tuple[bool, int]:
            return bool(workers[address].get("resources", {}).get("GPU")), workers[address]["nthreads"]

        return max(workers, key=rank, default="")

    def _results(self, finished: list[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Results of finished tasks, or `Lost` where they are gone by now."""
        from distributed.client import FutureCancelledError

        if not finished:
            return
        try:
            results = self._link.ask(self._link.client.gather, [future for _, future in finished])
        except FutureCancelledError:
            if len(finished) == 1:
                yield finished[0][0], Lost()
                return
            for pair in finished:
                yield from self._results([pair])
            return
        yield from zip((number for number, _ in finished), results, strict=True)


def _block(name: Any) -> tuple[int, int]:
    first, size = name
    return first, size


def _label(part: Any, number: int) -> str:
    """What messages call a part: parts that know better than their place in a list say so."""
    return str(getattr(part, "label", number))


def _name(work: Callable[..., Any]) -> str:
    """What is said of the work; also what Dask's dashboard calls it."""
    return str(getattr(work, "__name__", type(work).__name__)).strip("_<>")
