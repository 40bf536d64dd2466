"""What speaks for a fit, from the inner products at the place where it ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from pliant.appearance.subspace import Subspace
from pliant.arrays import Float64, Floats
from pliant.experts.sightings import Sightings
from pliant.experts.visibility import deviations
from pliant.kernels.system import Kernel, Needs
from pliant.level import Level
from pliant.namespace import Array, full, on_host
from pliant.shape import SIMILARITY, shape_size
from pliant.trust.confidence import Evidence
from pliant.trust.mismatch import mismatches, unexplained_energy


def gather(
    kernel: Kernel,
    level: Level,
    subspace: Subspace,
    images: Any,
    parameters: Array,
    heard: Float64 | None = None,
) -> tuple[list[Evidence], Float64]:
    """The evidence for fits with shape parameters `(B, n)`, and Gauss-Newton's covariances `(B, v, 2, 2)`.

    The covariances are in square pixels of the level, with the noise of the model. Energies on some of the pixels
    are brought to those of all, so that sampling does not change what they mean. `heard (B, n, n)` is the precision
    of the parameters that an expert adds to that of the pixels.
    """
    m = len(subspace.variances)
    needs = Needs(image=True, model=False, appearance=False)
    shapes = level.shape.instance(parameters)
    system = kernel.system(images, shapes, full((len(shapes), m), 0.0, shapes), needs)
    names = ("basis_residual", "image_image", "basis_image", "residual_residual")
    Ar, JiJi, AJi, rr = (on_host(system.needed(name)) for name in names)
    parameters = on_host(parameters)
    share = len(subspace.mean) / len(level.appearance.mean)
    kept = float(np.sum(level.appearance.eigenvalues))
    floor = 1e-6 * max(level.appearance.total_variance, 1e-12)
    explained = np.sum(Ar**2, axis=1)
    outside = unexplained_energy(rr, Ar)
    noise = max(subspace.noise, 1e-6 * float(np.max(subspace.variances, initial=1e-6)))
    weights = subspace.variances / (subspace.variances + noise)
    # J'MJ without 1 / noise: slopes of the image that no change of appearance explains.
    slopes = JiJi - np.swapaxes(AJi, 1, 2) @ (weights[:, None] * AJi)
    distance = level.shape.mahalanobis(parameters) ** 2
    sharpness = np.trace(slopes, axis1=1, axis2=2)
    evidence = [
        Evidence(*values)
        for values in np.column_stack(
            [
                outside / share / max(level.appearance.total_variance - kept, floor),
                explained / share / max(kept, floor),
                distance,
                sharpness / share / level.shape.parameters,
                mismatches(subspace, Ar, outside),
            ]
        ).tolist()
    ]
    return evidence, _spread(level, slopes / noise if heard is None else slopes / noise + heard)


def with_sightings(evidence: Evidence, sightings: Sightings, fitted: Floats) -> Evidence:
    """The evidence with what an expert tells: by its sightings of one object, and the fitted shape `(v, 2)` there.

    Landmarks that it does not see at all tell as much as one that may be anywhere on the object.
    """
    size = float(shape_size(fitted))
    if not 0 < size < np.inf:
        return evidence
    spread = deviations(sightings, np.array([size]))[0]
    apart = np.linalg.norm(sightings.points[0] - fitted, axis=-1) / size
    seen = sightings.seen[0]
    return evidence._replace(
        doubt=float(np.mean(np.minimum(spread, _UNSEEN))),
        dissent=float(np.mean(np.where(seen, apart, _UNSEEN))),
    )


_UNSEEN = 0.5
"""The most deviation, as a share of the size, of a sighting, and what one that is not there has of everything."""


def _spread(level: Level, precision: Float64) -> Float64:
    """Covariances `(B, v, 2, 2)` of landmarks whose parameters have this precision `(B, n, n)` and a prior."""
    prior = np.concatenate([np.zeros(SIMILARITY), 1 / level.shape.eigenvalues])
    # The least that gives an image without slopes an inverse.
    least = 1e-9 * np.eye(len(prior))
    covariance = np.linalg.inv(np.nan_to_num(precision) + np.diag(prior) + least)
    basis = level.shape.basis.reshape(level.shape.landmarks, 2, -1)
    return np.asarray(np.einsum("van,bnk,vck->bvac", basis, covariance, basis, optimize=True))
