"""What goes wrong on a cluster, in sentences."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterLost(OSError):
    """The cluster could not be reached, or could not do the work."""


def no_dask() -> ClusterLost:
    return ClusterLost("a cluster needs Dask, which is not installed: pip install 'pliant[cluster]'.")


def unreachable(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(
        f"{address}: no Dask scheduler answers there within {seconds:.0f} s. Check the address, and that the "
        "scheduler runs."
    )


def gone(address: str) -> ClusterLost:
    return ClusterLost(
        f"{address}: the connection to the Dask scheduler is lost. What was finished is in place; start the "
        "cluster again if it has ended, and repeat the command."
    )


def silent(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(f"{address}: the Dask scheduler has not answered for {seconds:.0f} s.")


def no_workers(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(
        f"{address}: the cluster has had no workers for {seconds:.0f} s. Start some (`dask worker {address}`), or "
        "wait until the queue has, and repeat the command."
    )


def workers_died(what: str, labels: Sequence[str]) -> ClusterLost:
    """Workers were killed each time that they did these parts, or the whole if there are none."""
    shown = ", ".join(labels[:10]) + (" and others" if len(labels) > 10 else "")
    parts = f"part{'s' * (len(labels) > 1)} {shown}" if labels else what.replace("_", " ")
    return ClusterLost(
        f"{parts}: every worker that tried was killed, probably because its memory ran out. Give each worker "
        "more memory (`--memory-limit` of `dask worker`, or a smaller N of local:N) or fewer threads, and repeat "
        "the command."
    )


def lost_again(what: str) -> ClusterLost:
    return ClusterLost(
        f"{what.replace('_', ' ')}: the data on the workers was lost too often to go on, as workers come and go "
        "too fast, run out of memory, or somebody cancels the tasks. What was finished is in place: repeat the "
        "command."
    )


def other_versions(worker: str, theirs: str, ours: str) -> ValueError:
    return ValueError(
        f"the worker {worker} has {theirs}, this process {ours}: results would depend on who did what. Install "
        "the same versions everywhere."
    )
