"""A cluster on this machine: processes of one thread each."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import LocalCluster, Nanny
from distributed.system import MEMORY_LIMIT

from pliant.distributed.pinning import VARIABLES


@contextmanager
def local_cluster(processes: int) -> Iterator[Any]:
    """A cluster of so many processes, which share the memory of the machine in equal parts."""
    start: Any = LocalCluster
    manner = {
        # Dask would drop what was sent to all workers from those that have nothing to do for two seconds.
        "distributed.scheduler.active-memory-manager.start": False,
        # It would give a process up that was killed and is not there again after 15 s, as on a busy machine.
        "distributed.deploy.lost-worker-timeout": "1h",
    }
    with (
        dask.config.set(manner),
        start(
            n_workers=processes,
            threads_per_worker=1,
            worker_class=_PinnedNanny,
            memory_limit=MEMORY_LIMIT // processes,
            # Without an address it would still be on the port that all others have.
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


class _PinnedNanny(Nanny):
    """Starts a process, again if it was killed, that is pinned before it imports anything."""

    async def instantiate(self) -> Any:
        pins = dict.fromkeys(VARIABLES, "1")
        self.pre_spawn_env = {**self.pre_spawn_env, **pins}
        self.env = {**self.env, **pins}
        # Ctrl-C goes to all processes of a terminal. It is for the one that can say so and close the others, which
        # inherit what this thread of Dask does not listen to.
        if hasattr(signal, "pthread_sigmask") and threading.current_thread() is not threading.main_thread():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with _environment_kept(), _main_hidden():
            return await super().instantiate()

    async def close(self, timeout: Any = 5, reason: str = "nanny-close") -> Any:
        # Parts that are under way at the end are of no use to anybody.
        return await super().close(timeout=min(timeout, 1), reason=reason)


_depth = 0
_kept: dict[str, str] = {}


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Dask sets the variables in this process for the new one to have them; this one is not pinned.

    Several processes start side by side, in turns of one thread: the last that is up gives back what was there.
    """
    global _depth, _kept
    if not _depth:
        _kept = dict(os.environ)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            for name in os.environ.keys() - _kept.keys():
                del os.environ[name]
            os.environ.update(_kept)


_hidden: list[dict[str, Any]] = []


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Do not have new processes run the user's script: it may have no `if __name__ == "__main__"`.

    What is defined there travels with the tasks.
    """
    main = sys.modules["__main__"]
    _hidden.append({name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)})
    main.__spec__ = None
    main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        known = _hidden.pop()
        if not _hidden:
            main.__dict__.update(known)
