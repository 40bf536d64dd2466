"""How far off points are, given how far off they were thought to be: a factor, and a scatter beside it."""

from __future__ import annotations

import numpy as np

from pliant.arrays import Float64


def likeliest_scatter(deviations: Float64, spread: Float64) -> tuple[float, Float64]:
    """The factor f and the scatter S `(v, 2, 2)` under which deviations are most likely to be of N(0, f C + S).

    Parameters
    ----------
    deviations
        `(k, v, 2)`: how far off the v points of k objects were.
    spread
        C `(k, v, 2, 2)`: the covariances that were thought to be theirs.

    """
    products = np.einsum("kvi,kvj->kvij", deviations, deviations)
    # Not below a tenth of the typical deviation: nobody's clicks are that exact.
    floor = 0.01 * float(np.mean(products[..., (0, 1), (0, 1)]))

    def of(factor: float) -> Float64:
        values, vectors = np.linalg.eigh(products.mean(axis=0) - factor * spread.mean(axis=0))
        scatter = (vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return np.asarray((scatter + np.swapaxes(scatter, 1, 2)) / 2)

    def surprise(factor: float) -> float:
        covariance = factor * spread + of(factor)
        distance = np.einsum("kvi,kvij,kvj->kv", deviations, np.linalg.inv(covariance), deviations)
        return float(np.mean(np.linalg.slogdet(covariance)[1] + distance))

    whole = float(np.mean(products)) / max(float(np.mean(spread)), 1e-300)
    factor = min([0.0, *(whole * np.geomspace(0.001, 2, 24))], key=surprise)
    return float(factor), of(factor)
