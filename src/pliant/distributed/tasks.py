"""What workers run. Each task pins the threads first, so that workers that come later are pinned too."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any

from pliant.distributed.faults import other_versions
from pliant.distributed.pinning import pin
from pliant.version import __version__


def do_part(release: str, work: bytes, part: bytes, names: Sequence[str], *shared: Any) -> Any:
    """The result of one part; `names` has one for each of `shared`, which is empty for what is plain."""
    _prepare(release, 1)
    shared = _same(names, shared)
    function = _unpacked(work)
    # All of the generator is run: what stands behind its last yield may close files.
    results = list(function([_unpacked(part)], *shared, threads=1))
    if len(results) != 1:
        raise ValueError(f"{function.__name__} returned {len(results)} results for one part.")
    return results[0]


def do_merge(release: str, merge: bytes, first: Any, second: Any) -> Any:
    _prepare(release, 1)
    return _unpacked(merge)(first, second)


def do_alone(release: str, work: bytes, arguments: bytes) -> Any:
    """What is not shared out has all threads of the worker."""
    from distributed import get_worker

    threads = int(get_worker().state.nthreads)
    _prepare(release, threads)
    try:
        function: Callable[..., Any] = _unpacked(work)
        return function(*_unpacked(arguments), threads=threads)
    finally:
        pin(1)


def _unpacked(packed: bytes) -> Any:
    # Whoever reaches the scheduler can run code on its workers anyway: see SECURITY.md.
    return pickle.loads(packed)  # noqa: S301


_kept: dict[str, Any] = {}
_lock = Lock()


def _same(names: Sequence[str], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One object for all tasks of this process, so that what it keeps of its own is computed once.

    Dask drops copies that wait for no task, and would have the next task hand over another one.
    """
    with _lock:
        forget(_kept.keys() - set(names))
        return tuple(
            _kept.setdefault(name, value) if name else value
            for name, value in zip(names, values, strict=True)
        )


def forget(names: Iterable[str]) -> None:
    for name in list(names):
        _kept.pop(name, None)


def _prepare(release: str, threads: int) -> None:
    if release != __version__:
        from distributed import get_worker

        raise other_versions(get_worker().address, f"pliant {__version__}", f"pliant {release}")
    pin(threads)
