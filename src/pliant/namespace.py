"""One algebra for NumPy and PyTorch: functions of arrays go where their arrays are.

NumPy and PyTorch call most functions by the same names, so that a line such as `xp.concatenate(parts, axis=-1)`
serves both once `xp` is known. Models are NumPy's in either case: `beside` takes a constant of theirs to where the
data is, once for each device.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pliant.arrays import Float64

Array = Any
"""An array of NumPy or a tensor of PyTorch: of the same kind as the others that a function is given."""


def is_tensor(array: object) -> bool:
    """Whether an array is a tensor of PyTorch; it is not imported for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: Array) -> Any:
    """The module, NumPy or PyTorch, whose functions take this array."""
    return sys.modules["torch"] if is_tensor(array) else np


def beside(constant: Array, array: Array) -> Array:
    """A NumPy constant as an array of the same kind, and on the same device, as another."""
    if not is_tensor(array) or is_tensor(constant):
        return constant
    key = id(constant)
    if key not in _placed:
        # An id belongs to another array once its own is gone.
        _placed[key] = (weakref.ref(constant, _forgetting(key)), {})
    copies = _placed[key][1]
    if array.device not in copies:
        copies[array.device] = _copied(constant, array)
    return copies[array.device]


_placed: dict[int, tuple[weakref.ref[Any], dict[Any, Any]]] = {}


def _forgetting(key: int) -> Callable[[object], None]:
    return lambda _: _placed.pop(key, None) and None


def _copied(constant: Array, array: Array) -> Array:
    torch = sys.modules["torch"]
    # PyTorch warns of memory that is closed for writing, which models' is.
    return torch.as_tensor(np.array(constant), device=array.device)


def in_double(array: Array) -> Array:
    """The same numbers in float64."""
    if is_tensor(array):
        return array.double()
    return np.asarray(array, dtype=np.float64)


def on_host(array: Array) -> Any:
    """The same numbers as an array of NumPy."""
    return array.cpu().numpy() if is_tensor(array) else array


class Count:
    """A number that keeps changing where the data is. Of a GPU, an older one is known: nobody waits."""

    def __init__(self, first: int) -> None:
        self._latest = first
        self._answer: Any = None
        self._ready: Any = None

    def ask(self, number: Array) -> None:
        """Ask for the number as it is now, unless an answer is still on its way."""
        if not is_tensor(number) or number.device.type != "cuda":
            self._latest = int(number)
        elif self._answer is None:
            torch = sys.modules["torch"]
            self._answer = torch.empty((), dtype=number.dtype, pin_memory=True)
            self._answer.copy_(number, non_blocking=True)
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(number.device))

    def latest(self) -> int:
        """The number as it was when it was last asked for, as far as that is known."""
        if self._answer is not None and self._ready.query():
            self._latest, self._answer, self._ready = int(self._answer), None, None
        return self._latest


def identity(size: int, array: Array) -> Array:
    """The identity `(size, size)` in float64, beside another array."""
    if is_tensor(array):
        torch = sys.modules["torch"]
        return torch.eye(size, dtype=torch.float64, device=array.device)
    return np.eye(size)


def full(shape: tuple[int, ...], value: float, array: Array) -> Array:
    """An array of one value in float64, beside another array."""
    if is_tensor(array):
        torch = sys.modules["torch"]
        return torch.full(shape, value, dtype=torch.float64, device=array.device)
    return np.full(shape, value)


def counted(length: int, array: Array) -> Array:
    """The numbers from 0 to `length` - 1 in float64, beside another array."""
    if is_tensor(array):
        torch = sys.modules["torch"]
        return torch.arange(length, dtype=torch.float64, device=array.device)
    return np.arange(length, dtype=np.float64)


def eigh(matrices: Array) -> tuple[Array, Array]:
    """Eigenvalues `(B, k)` and eigenvectors `(B, k, k)` of symmetric matrices `(B, k, k)`."""
    if is_tensor(matrices) and matrices.device.type == "cuda" and matrices.shape[-1] > _MOST_BATCHED:
        return _eigh_on_the_host(matrices)
    values, vectors = namespace(matrices).linalg.eigh(matrices)
    return values, vectors


_MOST_BATCHED = 32
"""CUDA decomposes larger matrices one after the other: 4,096 of 34 x 34 took 1.9 s, and 1.2 ms of 16 x 16."""


def _eigh_on_the_host(matrices: Array) -> tuple[Array, Array]:
    from pliant.threads import cores, shared_pool

    def one(some: Float64) -> tuple[Float64, Float64]:
        values, vectors = np.linalg.eigh(some)
        return values, vectors

    torch = sys.modules["torch"]
    parts = np.array_split(on_host(matrices), cores())
    found = list(shared_pool().map(one, [part for part in parts if len(part)]))
    values, vectors = (np.concatenate([pair[k] for pair in found]) for k in (0, 1))
    return torch.as_tensor(values, device=matrices.device), torch.as_tensor(vectors, device=matrices.device)


def inverses(matrices: Array) -> Array:
    """Inverses of matrices `(..., 2, 2)`, without waiting for a device."""
    if not is_tensor(matrices):
        return np.linalg.inv(matrices)
    a, b, c, d = matrices.flatten(-2).unbind(-1)
    torch = sys.modules["torch"]
    adjugates = torch.stack([d, -b, -c, a], dim=-1) / (a * d - b * c)[..., None]
    return adjugates.unflatten(-1, (2, 2))


def solutions(matrices: Array, right: Array) -> Array:
    """Solutions `(..., k)` of positive systems `(..., k, k)` with right-hand sides `(..., k)`."""
    if is_tensor(matrices):
        return positive_solution(matrices, right, 0.0, 1e-12)
    return np.linalg.solve(matrices, right[..., None])[..., 0]


def blocks_of(rows: list[list[Array]]) -> Array:
    """A matrix `(..., j, k)` of blocks, given row by row."""
    xp = namespace(rows[0][0])
    return xp.concatenate([xp.concatenate(row, axis=-1) for row in rows], axis=-2)


def positive_solution(matrices: Array, right: Array, singular: float, damping: float) -> Array:
    """Solutions `(B, k)` of positive systems of tensors `(B, k, k)` by Cholesky's method, without waiting for them.

    A matrix that is still positive after a share `singular` of its trace is taken from its diagonal has no
    eigenvalue that a pseudo-inverse would leave out. The others have a share `damping` added.
    """
    torch = sys.modules["torch"]
    diagonal = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    trace = matrices.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    _, failed = torch.linalg.cholesky_ex(matrices - singular * trace * diagonal)
    more = torch.where(failed[:, None, None] > 0, damping * trace + 1e-300, 0.0)
    factors, _ = torch.linalg.cholesky_ex(matrices + more * diagonal)
    # `cholesky_solve` would wait for the device: 40 times in a fit, with nothing to do in between.
    half = torch.linalg.solve_triangular(factors, right[:, :, None], upper=False)
    return torch.linalg.solve_triangular(factors.mT, half, upper=True)[:, :, 0]
