"""How many threads there are, and who may use them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any


def cores() -> int:
    """Cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's products run on one thread in here, in all of the process: the other threads have images to fit.

    It may be entered again before it is left; the last one out gives the threads back. OpenBLAS may not listen to
    a thread other than the first: then products have the threads that they had.
    """
    with _lock:
        _inside.append(_blas().limit(limits=1, user_api="blas") if not _inside else _inside[0])
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


_lock = Lock()
_inside: list[Any] = []


@cache
def shared_pool() -> ThreadPoolExecutor:
    """Threads that stay: to start them takes longer than their share of a pass over the pixels."""
    return ThreadPoolExecutor(thread_name_prefix="pliant-panels")


def _forget_threads() -> None:
    """A forked child has none of its parent's threads: neither to wait for, nor to give a lock back."""
    global _lock
    _lock = Lock()
    shared_pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@cache
def _blas() -> Any:
    """The libraries that are loaded by now. To look for them takes longer than some fits."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
