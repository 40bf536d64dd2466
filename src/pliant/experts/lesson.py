"""What a network learns from, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Jitter:
    """How far windows are moved in training, as far as starts are off when the network is used.

    `shift` is a share of the object's longer side, `zoom` and `stretch` are logarithms, `turn` is in radians and
    `bend` a share of the longer side again. All are the most but for the bend, which is a standard deviation.
    """

    shift: float
    zoom: float
    turn: float
    stretch: float = 0.08
    bend: float = 0.012


@dataclass(frozen=True)
class Lesson:
    """What a network learns from: windows `(n, h, w)` in 8 bits, landmarks `(n, v, 2)` there, and how to use them.

    `centre (2,)` is where the middle of the network's own window lies in these wider windows, and `ratio` how many
    of their pixels one of its pixels spans. `mirror (v,)` says which landmark is which in a mirror, if it is known.
    """

    windows: NDArray[np.uint8]
    points: NDArray[np.float64]
    centre: NDArray[np.float64]
    ratio: float
    height: int
    width: int
    extent: float
    jitter: Jitter
    mirror: NDArray[np.int32] | None = None
