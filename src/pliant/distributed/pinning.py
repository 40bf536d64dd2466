"""One thread a task: the libraries below have pools of their own, each as large as the machine."""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import Any

VARIABLES = (
    "OMP_NUM_THREADS",  # PyTorch and Arrow listen to it too
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
"""What libraries read when they are first imported."""

_POOLS = ("numpy", "scipy", "torch", "sklearn", "cv2")
"""What brings libraries of threads along."""


def pin(threads: int) -> None:
    """Let libraries use `threads` threads for what the calling thread has them do.

    It is for the beginning of each task: OpenMP and Numba keep the number by thread, and a task may be the first
    to import a library. CUDA is not touched.
    """
    with _lock:
        for name in VARIABLES:
            # Numba reads the variable whenever it compiles, and refuses another value once its threads are there.
            if name != "NUMBA_NUM_THREADS" or "numba" not in sys.modules:
                os.environ[name] = str(threads)
        _pools().limit(limits=threads)
        # A library that another thread is importing has not got its functions yet; it obeys the variables.
        _call("cv2", "setNumThreads", threads)
        _call("torch", "set_num_threads", threads)
        _call("pyarrow", "set_cpu_count", threads)
        most = getattr(getattr(sys.modules.get("numba"), "config", None), "NUMBA_NUM_THREADS", 1)
        if most > 1:
            _call("numba", "set_num_threads", min(threads, most))


_lock = Lock()
_known: dict[tuple[str, ...], Any] = {}


def _pools() -> Any:
    """The pools of BLAS and OpenMP that are loaded by now. To look for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    loaded = tuple(name for name in _POOLS if name in sys.modules)
    if loaded not in _known:
        _known.clear()
        _known[loaded] = ThreadpoolController()
    return _known[loaded]


def _call(module: str, function: str, threads: int) -> None:
    found = getattr(sys.modules.get(module), function, None)
    if found is not None:
        found(threads)
