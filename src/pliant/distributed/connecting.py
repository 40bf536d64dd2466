"""Reaching a cluster, wherever it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from platform import python_version_tuple
from typing import TYPE_CHECKING, Any

from pliant.crew import Crew
from pliant.distributed.faults import ClusterLost, no_dask, other_versions, unreachable
from pliant.limits import parsed_json

if TYPE_CHECKING:
    from pliant.distributed.link import Link

_FORMS = "'tcp://host:8786', 'tls://host:8786', 'local:4', a Path to a scheduler file, or a dask.distributed.Client"

_VERSIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Python": (python_version_tuple, ()),
    "NumPy": (resolve_name, ("numpy:__version__",)),
    "pliant": (resolve_name, ("pliant:__version__",)),
}
"""Functions of Python itself for workers to call: one of ours could not be sent to a worker that has no pliant."""


@contextmanager
def connect(where: str | Path | Any, *, patience: float = 60.0) -> Iterator[Crew]:
    """Connect to the workers of a Dask cluster. Give the result as `jobs`.

    Parameters
    ----------
    where : str, Path, dask.distributed.Client or cluster
        The address of a scheduler (`tcp://host:8786`, `tls://host:8786`), `local:N` for N processes on this
        machine, the Path of a scheduler file, a client, or a cluster that Dask starts, such as
        `dask_jobqueue.SLURMCluster`.
    patience : float
        Seconds to wait for the scheduler, and for workers while there are none.

    Yields
    ------
    Crew
        The workers. At the end, everything that was started for them is closed; a client or cluster that you gave
        stays open.

    Raises
    ------
    ClusterLost
        If nothing answers, there are no workers, or the cluster is lost at work.
    ValueError
        If workers have other versions of Python, NumPy or pliant.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> with pliant.connect("local:2") as cluster:
    ...     pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False, jobs=cluster)
    Model(68 landmarks, 2 levels, 3 modes of shape, dsift, 12 samples)

    """
    processes = _processes(where)
    try:
        import distributed
    except ImportError:
        raise no_dask() from None
    from pliant.distributed.dask_crew import DaskCrew
    from pliant.distributed.link import Link

    with ExitStack() as stack:
        client: Any
        if isinstance(where, distributed.Client):
            client = where
        else:
            stack.enter_context(_quiet())
            if processes:
                from pliant.distributed.local import local_cluster

                where = stack.enter_context(local_cluster(processes))
            client = stack.enter_context(_client(where, patience))
        if client.asynchronous:
            raise ValueError(
                "the Dask client is asynchronous: pliant needs a client made without asynchronous=True."
            )
        link = Link(client, client.scheduler.address, patience)
        link.await_workers()
        _check_versions(link)
        crew = DaskCrew(link)
        if not processes:
            stack.callback(crew.close)
        yield crew


def _processes(where: Any) -> int:
    """How many processes are to be started, if any."""
    if isinstance(where, Path) or hasattr(where, "scheduler_info"):
        return 0
    if not isinstance(where, str):
        raise ValueError(f"{where!r} is not a cluster: give {_FORMS}.")
    kind, _, rest = where.partition(":")
    if kind == "local" and rest.isdecimal() and int(rest) >= 1:
        return int(rest)
    if kind in ("tcp", "tls") and rest.startswith("//") and len(rest) > 2:
        return 0
    raise ValueError(f"'{where}' is not a cluster: give {_FORMS}.")


@contextmanager
def _client(where: Any, patience: float) -> Iterator[Any]:
    """A client that is closed in the end, though not the cluster that it is of."""
    import distributed

    dask: Any = distributed
    address = _address_in(where, patience) if isinstance(where, Path) else where
    try:
        client = dask.Client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError):
        raise unreachable(getattr(where, "scheduler_address", str(where)), patience) from None
    try:
        yield client
    finally:
        client.close(timeout=2)


def _address_in(file: Path, patience: float) -> str:
    """The address in a scheduler file, which may not be there yet: both may have been started together."""
    end = time.monotonic() + patience
    while not file.is_file():
        if not file.parent.is_dir() or time.monotonic() > end:
            raise ValueError(
                f"{file}: this file does not exist. `dask scheduler --scheduler-file` writes it."
            )
        time.sleep(0.1)
    try:
        return str(parsed_json(file.read_text(encoding="utf-8"))["address"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{file}: this is not a Dask scheduler file.") from None


def _check_versions(link: Link) -> None:
    """Workers that have no pliant, or another, are named."""
    ours, theirs = {}, dict[str, dict[str, str]]()
    for name, (function, arguments) in _VERSIONS.items():
        ours[name] = _spelt(function(*arguments))
        found = link.ask(link.client.run, function, *arguments, on_error="return")
        for worker, answer in sorted(found.items()):
            if isinstance(answer, ImportError):
                raise ValueError(
                    f"pliant is not installed on the worker {worker}: {answer}. Install pliant where the "
                    "workers run."
                )
            if isinstance(answer, BaseException):
                raise ClusterLost(f"the worker {worker} does not report its version of pliant: {answer}.")
            theirs.setdefault(worker, {})[name] = _spelt(answer)
    for worker, versions in sorted(theirs.items()):
        # One that came or went between two questions has not answered both; each task checks pliant again.
        if {**ours, **versions} != ours:
            raise other_versions(worker, _listed(versions), _listed(ours))


def _spelt(version: str | tuple[str, str, str]) -> str:
    """A version as text; of Python, the first two numbers matter."""
    return version if isinstance(version, str) else ".".join(version[:2])


def _listed(versions: dict[str, str]) -> str:
    *others, last = (f"{name} {version}" for name, version in versions.items())
    return f"{', '.join(others)} and {last}" if others else last


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask tells its log of each worker that comes and goes; what matters to the user is raised."""
    # Dask gives several of its loggers a level of their own.
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = [(log, log.level) for log in map(logging.getLogger, [*names, "tornado.application", "asyncio"])]
    try:
        for log, _ in before:
            log.setLevel(logging.CRITICAL)
        yield
    finally:
        for log, level in before:
            log.setLevel(level)
