"""Tasks that are under way on a cluster: what was submitted, what has landed, and what was lost."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

import cloudpickle
from distributed.scheduler import KilledWorker

from pliant.distributed.faults import lost_again
from pliant.distributed.link import POLL, Link
from pliant.distributed.scattering import Scattering
from pliant.version import __version__

LARGE = 1_000_000
"""Bytes from which something is sent to a worker by itself, and not through the scheduler's list of tasks."""

_MOST_LOSSES = 10
"""How often one task is sent again after the data that it needs was lost."""


class Lost(Exception):
    """What a task needs, or its result, went down with the workers that had it: send it again."""


class Killed(Exception):
    """Several workers died while they had this task; it need not be the task's fault."""


class Flight:
    """The tasks of one call; `what` is a name for messages and for Dask's dashboard."""

    def __init__(self, link: Link, scattering: Scattering, what: str) -> None:
        self._link = link
        self._scattering = scattering
        self._what = what
        self._keys = f"{what}-{uuid4().hex}"
        self._futures: dict[Hashable, Any] = {}
        self._landed: SimpleQueue[tuple[Hashable, Any]] = SimpleQueue()
        self._losses: dict[Hashable, int] = {}
        self._sent = 0

    def __len__(self) -> int:
        return len(self._futures)

    def send(
        self,
        name: Hashable,
        task: Callable[..., Any],
        *arguments: Any,
        shared: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> None:
        """Submit a task; `shared` is on the workers, or goes there now, once for all tasks."""
        self._sent += 1
        placed = self._scattering.places(shared) if shared is not None else None
        future = self._link.client.submit(
            task,
            __version__,
            *map(self._light, arguments),
            *([] if placed is None else [placed.names, *placed.values]),
            key=(self._keys, self._sent),
            pure=False,
            **options,
        )
        self._futures[name] = future
        self._watch(name, future)

    def landed(self) -> Iterator[tuple[Hashable, Any]]:
        """Wait for something to end, or a moment: names of tasks and their futures, finished or not."""
        self._link.check()
        try:
            found = [self._landed.get(timeout=POLL)]
            while not self._landed.empty():
                found.append(self._landed.get())
        except Empty:
            return
        for name, future in found:
            # An earlier attempt may land late; one whose result was lost meanwhile is computed again by Dask.
            if name not in self._futures or self._futures[name] is not future:
                continue
            if future.status in ("finished", "error", "cancelled"):
                del self._futures[name]
                yield name, future
            else:
                self._watch(name, future)

    def outcome(self, name: Hashable, future: Any) -> BaseException | None:
        """None if the task is finished; what the work has raised is raised here."""
        # By now Dask has told the client how it ended: nobody is asked.
        status = future.status
        if status == "finished":
            return None
        if status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                return Killed()
            raise error.with_traceback(future.traceback())
        # The scheduler may have gone, which cancels everything.
        self._link.check()
        self._losses[name] = self._losses.get(name, 0) + 1
        if self._losses[name] > _MOST_LOSSES:
            raise lost_again(self._what)
        return Lost()

    def cancel(self) -> None:
        """Take back what is not done. It does not wait: a scheduler that is gone would not answer."""
        futures, self._futures = list(self._futures.values()), {}
        client = self._link.client
        if futures and client.status == "running":
            client.loop.add_callback(client.cancel, futures, asynchronous=True, force=True)

    def _light(self, argument: Any) -> Any:
        """Bytes that are many travel by themselves; Dask warns of tasks that are large."""
        if not isinstance(argument, bytes) or len(argument) < LARGE:
            return argument
        return self._scattering.sent_once(argument)

    def _watch(self, name: Hashable, future: Any) -> None:
        future.add_done_callback(lambda ended: self._landed.put((name, ended)))


def packed(value: Any) -> bytes:
    """As bytes that Dask does not look into, for it would go through long lists item by item."""
    packed: bytes = cloudpickle.dumps(value)
    return packed
