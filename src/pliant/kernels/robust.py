"""Robust weights: where an image has nothing of what the model expects, such as a hand before a face.

Let a be the appearance that explains the image i best where it is, both less the mean of their channel over the
object. Pixels are looked at in panels, small runs of one triangle or patch, so that none is judged by itself. How
well i and a agree in a panel is

    2 i'a / (i'i + a'a),

which is 1 where they are the same, and about 0 where the image shows something else: a flat surface as well as
another texture, both of which may have a smaller |i - a|² than what is only blurred or in the shade. Panels that
agree by less than a share of what is usual in this image have a weight w below one. There, the image is replaced by
a + √w (i - a), and its slopes by √w times themselves: what is hidden becomes what the model expects behind it. The
cost is then Σ w (i - a)², the basis of appearance stays orthonormal, and no algorithm knows about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.compiled import compiled
from pliant.kernels.basis_pass import LANES
from pliant.kernels.panels import Layout, make_layout
from pliant.motion import Motion, in_triangles

USUAL = 0.6
"""Panels that agree by less than this share of the median are weighted down."""


def roots_of_weights(agreement: Floats, counts: NDArray[np.integer[Any]]) -> Float64:
    """√w `(P,)` of panels that agree so well `(P,)` and have so many pixels `(P,)`.

    Where most of the image does not agree, there is nothing to judge the rest by, and all weights are one.
    """
    order = np.argsort(agreement)
    reached = np.cumsum(counts[order])
    enough = USUAL * float(agreement[order][np.searchsorted(reached, reached[-1] / 2)])
    if not enough > 0:
        return np.ones(len(agreement))
    return np.asarray(np.clip(agreement / enough, 0.0, 1.0), dtype=np.float64)


def agreement_of(products: Float64) -> Float64:
    """From i'a, i'i and a'a `(P, 3)` of panels; what shows nothing where nothing is expected agrees with it."""
    together = products[:, 1] + products[:, 2]
    flat = together <= 1e-9 * max(float(np.max(together)), 1e-30)
    return np.asarray(np.where(flat, 1.0, 2 * products[:, 0] / np.where(flat, 1.0, together)))


def centred(mean: Floats, channels: int) -> Floats:
    """The model's mean `(f c,)`, less the mean of each channel."""
    table = mean.reshape(-1, channels)
    return np.asarray(table - table.mean(axis=0, dtype=np.float64)).ravel()


def panel_of_pixel(motion: Motion, chosen: Int32) -> Int32:
    """The panel `(f,)` of each of the chosen pixels, as the compiled kernel has them."""
    layout = make_layout(in_triangles(motion), chosen)
    panel = np.repeat(np.arange(layout.panels, dtype=np.int32), np.diff(layout.starts))
    out = np.empty(len(chosen), dtype=np.int32)
    seen = layout.own >= 0
    out[layout.own[seen]] = np.broadcast_to(panel[:, None], layout.own.shape)[seen]
    return out


def roots_in(layout: Layout, seen: Float32, field: int, explained: Float32, mean: Float32) -> Float64:
    """√w of all panels, from i - abar, a field of a block `(V, c, k, LANES)`, and a - abar `(V, c, LANES)`.

    `mean (V, c, 1, LANES)` is centred.
    """
    counts = np.add.reduceat(np.sum(layout.own >= 0, axis=1), layout.starts[:-1])
    return roots_of_weights(agreement_of(_products(seen, field, explained, mean, layout.starts)), counts)


@compiled(fastmath=True)
def _products(seen: Any, field: Any, explained: Any, mean: Any, starts: Any) -> Any:
    """i'a, i'i and a'a `(P, 3)` by panel."""
    out = np.zeros((len(starts) - 1, 3))
    for panel in range(len(out)):
        for v in range(starts[panel], starts[panel + 1]):
            ia = ii = aa = np.float32(0)
            for channel in range(seen.shape[1]):
                for lane in range(LANES):
                    usual = mean[v, channel, 0, lane]
                    i, a = seen[v, channel, field, lane] + usual, explained[v, channel, lane] + usual
                    ia += i * a
                    ii += i * i
                    aa += a * a
            out[panel, 0] += ia
            out[panel, 1] += ii
            out[panel, 2] += aa
    return out


@compiled()
def weigh_down(seen: Any, explained: Any, roots: Any, starts: Any, field: Any) -> None:
    """Where √w is below one, the field e becomes what is explained and √w of the rest; slopes are scaled by √w."""
    for panel in range(len(starts) - 1):
        root = np.float32(roots[panel])
        if root == np.float32(1):
            continue
        for v in range(starts[panel], starts[panel + 1]):
            for channel in range(seen.shape[1]):
                for slope in range(field):
                    for lane in range(LANES):
                        seen[v, channel, slope, lane] *= root
                for lane in range(LANES):
                    known = explained[v, channel, lane]
                    seen[v, channel, field, lane] = known + root * (seen[v, channel, field, lane] - known)
