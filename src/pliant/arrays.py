"""The array types that the package speaks of, and the one thing that is done to all of them."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Int32 = NDArray[np.int32]
Image = NDArray[Any]
"""`(h, w)`, `(h, w, 1)` or `(h, w, 3)`: 8-bit, or floating point with black at 0 and white at 1."""

Scalar = TypeVar("Scalar", bound=np.generic)


def readonly(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same memory, contiguous, closed for writing: models are values."""
    array = np.ascontiguousarray(array)
    view = array.view()
    view.flags.writeable = False
    return view
