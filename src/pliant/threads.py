"""How many threads there are, and who may use them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
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

    OpenBLAS may not listen to a thread other than the first: then products have the threads that they had.
    """
    with _until_all_have_left(
        _with_one_thread,
        lambda: _blas().limit(limits=1, user_api="blas"),
        lambda limit: limit.restore_original_limits(),
    ):
        yield


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads take shorter turns with the interpreter in here, in all of the process.

    The one that drives a device gives it away with every call, and would wait each time for a whole turn of one
    that makes results.
    """
    with _until_all_have_left(_in_short_turns, _shorten_turns, sys.setswitchinterval):
        yield


def _shorten_turns() -> float:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, _TURN))
    return usual


@contextmanager
def _until_all_have_left(
    inside: list[Any], begin: Callable[[], Any], end: Callable[[Any], object]
) -> Iterator[None]:
    """Something that the first who enters begins, and the last one out ends; `inside` has what `begin` returned."""
    with _lock:
        inside.append(inside[0] if inside else begin())
    try:
        yield
    finally:
        with _lock:
            begun = inside.pop()
            if not inside:
                end(begun)


_lock = Lock()
_with_one_thread: list[Any] = []
_in_short_turns: list[Any] = []

_TURN = 0.0005
"""Seconds that a thread may keep the interpreter while others wait; Python's own are ten times as many."""


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
