"""What goes wrong on a cluster, in sentences."""

from __future__ import annotations

from collections.abc import Sequence


class ClusterLost(OSError):
    """The cluster could not be reached, or could not do the work."""


def no_dask() -> ClusterLost:
    return ClusterLost("a cluster needs Dask, but it is not installed: pip install 'pliant[cluster]'.")


def unreachable(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(
        f"{address}: no Dask scheduler answered within {seconds:.0f} s. Check the address, and that the "
        "scheduler is running."
    )


def gone(address: str) -> ClusterLost:
    return ClusterLost(
        f"{address}: the connection to the Dask scheduler is lost. Finished results are kept. If the cluster "
        "has ended, start it again, then run the same command again."
    )


def silent(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(f"{address}: the Dask scheduler has not answered for {seconds:.0f} s.")


def no_workers(address: str, seconds: float) -> ClusterLost:
    return ClusterLost(
        f"{address}: the cluster has had no workers for {seconds:.0f} s. Start some (`dask worker "
        f"{address}`), or wait until the queue starts some, then run the same command again."
    )


def workers_died(what: str, labels: Sequence[str]) -> ClusterLost:
    """Workers were killed each time that they did these parts, or the whole if there are none."""
    shown = ", ".join(labels[:10]) + (" and others" if len(labels) > 10 else "")
    parts = f"part{'s' * (len(labels) > 1)} {shown}" if labels else what.replace("_", " ")
    return ClusterLost(
        f"{parts}: every worker that tried was killed, probably because it ran out of memory. Give each "
        "worker more memory (`--memory-limit` of `dask worker`, or a smaller N of local:N) or fewer "
        "threads, then run the same command again."
    )


def lost_again(what: str) -> ClusterLost:
    return ClusterLost(
        f"{what.replace('_', ' ')}: the data on the workers was lost too often to continue, because workers "
        "come and go too fast or run out of memory, or because tasks were cancelled. Finished results are "
        "kept: run the same command again."
    )


def other_versions(worker: str, theirs: str, ours: str) -> ValueError:
    return ValueError(
        f"the worker {worker} has {theirs}, but this process has {ours}: results would depend on which "
        "worker computed them. Install the same versions everywhere."
    )
