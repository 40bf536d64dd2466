"""The way to a cluster's scheduler: every question ends in an answer or, soon, in a sentence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from distributed.comm.core import CommClosedError

from pliant.distributed.faults import gone, no_workers, silent

POLL = 0.25
"""Seconds between two looks at whether the scheduler is still there."""

_FRESH = 2.0
"""Seconds for which the number of threads is taken to stay."""

_LONGEST = 60.0
"""Seconds in which a scheduler that lives says how many workers it has."""

_ATTEMPTS = 10


class Link:
    """A client of Dask that never waits for a scheduler that is gone."""

    def __init__(self, client: Any, address: str, patience: float) -> None:
        self.client = client
        self.address = address
        self.patience = patience
        self._threads = 0
        self._looked = -_FRESH
        self._last_seen = time.monotonic()
        self._workers: frozenset[str] = frozenset()
        self._asked = -_FRESH

    def ask(self, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a method of the client answers; workers may all be gone for as long as `patience` says."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._answer(question(*arguments, asynchronous=True, **options), watching=True)
            except CommClosedError:
                # The scheduler was about to speak to a worker that has just died.
                self.check()
                if attempt == _ATTEMPTS - 1:
                    raise gone(self.address) from None
                time.sleep(POLL)
            except ValueError as error:
                # What Dask says if the last worker dies after it got a value, and before others get copies of it.
                if "Can not use replicate" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(POLL)
                self._threads = 0  # Those that were counted before are gone.
                self.await_workers()

    def check(self) -> None:
        """Say so if the scheduler is gone, or all workers."""
        # Dask itself would try for half a minute to reach a scheduler that has forgotten all that it was given.
        if self.client.status != "running":
            raise gone(self.address)
        self.threads()

    def threads(self) -> int:
        """Threads of all workers at the moment, at least one."""
        now = time.monotonic()
        if now - self._looked >= _FRESH or not self._threads:
            self._threads = int(self.identity(0)["total_threads"])
            self._looked = time.monotonic()
            if self._threads:
                self._last_seen = self._looked
            elif self._looked - self._last_seen > self.patience:
                raise no_workers(self.address, self.patience)
        return max(self._threads, 1)

    def identity(self, workers: int = -1) -> dict[str, Any]:
        """What the scheduler says of itself and so many workers; -1 are all."""
        found: dict[str, Any] = self._told(self.client.scheduler.identity, n_workers=workers)
        return found

    def has(self, worker: str) -> bool:
        """Whether the worker of this address is still there, as of a moment ago."""
        if worker not in self._workers or time.monotonic() - self._asked >= _FRESH:
            self._workers = frozenset(self._told(self.client.scheduler.ncores))
            self._asked = time.monotonic()
        return worker in self._workers

    def await_workers(self) -> None:
        """Wait until there is one, as a queue may take its time."""
        self._last_seen = time.monotonic()
        while True:
            self.threads()
            if self._threads:
                return
            time.sleep(POLL)

    def _told(self, question: Callable[..., Any], **options: Any) -> Any:
        """What the scheduler knows without its workers."""
        try:
            return self._answer(question(**options), watching=False)
        except CommClosedError:
            raise gone(self.address) from None

    def _answer(self, question: Any, watching: bool) -> Any:
        answer = asyncio.run_coroutine_threadsafe(_awaited(question), self.client.loop.asyncio_loop)
        begin = time.monotonic()
        try:
            while True:
                try:
                    return answer.result(POLL)
                except TimeoutError:
                    if self.client.status != "running":
                        raise gone(self.address) from None
                    if answer.done():
                        # Dask itself has lost patience: it waits for workers, or for the scheduler.
                        raise no_workers(self.address, self.patience) from None
                    if watching:
                        self.threads()
                    elif time.monotonic() - begin > _LONGEST:
                        raise silent(self.address, _LONGEST) from None
        finally:
            answer.cancel()


async def _awaited(question: Any) -> Any:
    return await question
