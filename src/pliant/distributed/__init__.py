"""The crew of a Dask cluster: `pliant.connect` reaches one, or starts one on this machine.

What is here knows how to share work out, pin threads and survive what happens to machines; it knows no algorithm.
"""

from pliant.distributed.connecting import connect
from pliant.distributed.faults import ClusterLost

__all__ = ["ClusterLost", "connect"]
