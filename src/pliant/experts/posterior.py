"""Shapes that may leave their subspace: landmarks given a fitted shape, and where they are seen.

A landmark lies about the place that the shape model has for it, x_j ~ N(s_j(p), N_j): what the modes leave is
noise, as in probabilistic principal components. An expert sees it at y_j ~ N(x_j, L_j^-1). So

    y_j ~ N(s_j(p), N_j + L_j^-1)                              is what the sighting says about p, and
    E x_j = s_j + N_j (N_j + L_j^-1)^-1 (y_j - s_j)            is where the landmark is, given both.

Both are written with L_j alone, which may be zero: then p hears nothing, and the landmark stays where the shape
has it. Noise is given in the frame of the mean shape, and turns and grows with the object.
"""

from __future__ import annotations

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.experts.sightings import Sightings, moved_covariance
from pliant.namespace import beside, identity, inverses, namespace
from pliant.shape import ShapeModel, align


def shape_noise(shape: ShapeModel) -> Float64:
    """Covariances `(v, 2, 2)` of landmarks about the shapes of a model, in its frame: what its modes leave."""
    return np.broadcast_to(shape.noise_variance * np.eye(2), (shape.landmarks, 2, 2))


def about_the_shape(sightings: Sightings, noise: Floats) -> Sightings:
    """What sightings say about shapes: with precisions (N + L^-1)^-1, for noise `(..., v, 2, 2)` in their frame."""
    known = sightings.precision
    precision = known @ inverses(identity(2, known) + beside(noise, known) @ known)
    return Sightings(sightings.points, (precision + namespace(known).swapaxes(precision, -1, -2)) / 2)


def posterior_points(shape: ShapeModel, noise: Floats, fitted: Floats, sightings: Sightings) -> Float64:
    """Landmarks `(B, v, 2)` given the shapes `fitted (B, v, 2)` and the sightings, both in the same pixels.

    Parameters
    ----------
    shape
        The model of which `fitted` are instances, moved, turned and scaled.
    noise
        `(v, 2, 2)`, in the frame of its mean; `shape_noise` is the model's own.
    fitted, sightings
        Where the shapes are, and where their landmarks are seen.

    """
    here = moved_covariance(noise, align(shape.mean, fitted))
    heard = here @ sightings.precision
    gain = np.linalg.solve(np.eye(2) + heard, heard)
    return np.asarray(fitted + (gain @ (sightings.points - fitted)[..., None])[..., 0])


def posterior_covariance(
    shape: ShapeModel, noise: Floats, fitted: Floats, sightings: Sightings, covariance: Floats
) -> Float64:
    """Covariances `(B, v, 2, 2)` of the landmarks of `posterior_points`, if the fitted shapes have these.

    (I - G) C (I - G)' + (I - G) N with G = N (N + L^-1)^-1: the surer the sighting, the less is left of both.
    """
    here = moved_covariance(noise, align(shape.mean, fitted))
    kept = np.linalg.inv(np.eye(2) + here @ sightings.precision)
    spread = kept @ covariance @ np.swapaxes(kept, -1, -2) + kept @ here
    return np.asarray((spread + np.swapaxes(spread, -1, -2)) / 2)
