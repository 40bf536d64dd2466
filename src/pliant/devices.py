"""Where fits are computed: the CPU, or a device of PyTorch, and what may go wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensor = Any
"""A `torch.Tensor`. PyTorch may be missing, so that only functions import it, and types do not name it."""

ON_TORCH = ("cuda", "torch")
"""Devices whose arrays are tensors: a GPU, and PyTorch on the CPU, which is for tests."""


_BUDGET = 2**31
"""Bytes of memory for what is needed at once, if there is no GPU."""

_SHARE = 0.25
"""The same for a GPU, of what is free of its memory."""


class DeviceFailed(RuntimeError):
    """A device broke down in the middle of its work: no image is to blame, and no other will be fitted on it."""


def find_device(name: str) -> Any:
    """The device of PyTorch that a setting names, or a sentence that says what is missing."""
    try:
        import torch
    except ImportError:
        raise ValueError(
            f"device={name} needs PyTorch, which is not installed: pip install 'pliant[experts]', or use "
            "device=cpu."
        ) from None
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device=cuda needs an NVIDIA GPU that PyTorch can use, and there is none here: use device=cpu."
        )
    return torch.device("cuda" if name == "cuda" else "cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device had no room for what it was asked to do; not all of its libraries say so in the same way."""
    import torch

    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "_ALLOC_FAILED")
    )


def is_breakdown(error: BaseException) -> bool:
    """Whether an error is the device's own, after which nothing works on it any more."""
    if not isinstance(error, RuntimeError) or is_out_of_memory(error):
        return False
    return "CUDA error" in str(error) or not _answers()


def _answers() -> bool:
    """Whether the GPU still does what it is asked, if there is one: a broken one fails every time."""
    import torch

    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def release_memory() -> None:
    """Give back what PyTorch holds on devices without using it."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def on_device(array: NDArray[Any], device: Any) -> Tensor:
    """An array as a tensor. The host does not wait for what the device is busy with."""
    import numpy as np
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def matrix_units(allowed: bool) -> Iterator[None]:
    """Whether products of float32 matrices on a GPU may be rounded to TF32 in here, whatever holds elsewhere."""
    import torch

    products = torch.backends.cuda.matmul
    # PyTorch 2.9 has a new switch, and refuses to answer by the old one where a user has set the new one.
    new = hasattr(products, "fp32_precision")
    switch, value = ("fp32_precision", "tf32" if allowed else "ieee") if new else ("allow_tf32", allowed)
    before = getattr(products, switch)
    setattr(products, switch, value)
    try:
        yield
    finally:
        setattr(products, switch, before)


@contextmanager
def exact_convolutions() -> Iterator[None]:
    """Convolutions, and products of matrices, on a GPU in the full precision of float32 in here."""
    import torch

    library = torch.backends.cudnn
    # As in `matrix_units`.
    new = hasattr(library, "conv") and hasattr(library.conv, "fp32_precision")
    where, switch, value = (library.conv, "fp32_precision", "ieee") if new else (library, "allow_tf32", False)
    before = getattr(where, switch)
    setattr(where, switch, value)
    try:
        with exact_products():
            yield
    finally:
        setattr(where, switch, before)


def memory_for_parts(device: Any) -> int:
    """Bytes for what is needed at once on the way to a result, where the work can be done in parts.

    On a GPU it is a share of what is free: there, larger parts are faster.
    """
    import torch

    if device.type != "cuda":
        return _BUDGET
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_SHARE * (free + kept))


def exact_products() -> Any:
    """Products of float32 matrices on a GPU in full precision in here."""
    return matrix_units(False)
