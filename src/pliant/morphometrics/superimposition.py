r"""Generalised Procrustes analysis: shapes without place, size and rotation, and semi-landmarks slid.

Each of k shapes is centred and divided by its centroid size, the root of the summed squared distances of its
landmarks from their centre. Then it is turned to the consensus z, which is the mean of all shapes scaled to a
centroid size of 1, until neither changes (Gower 1975; Rohlf and Slice 1990). With z complex, the rotation of a
shape w is the phase of <w, z>, and a mirror image cannot arise. That is partial superimposition, as geomorph's
`gpagen` does it. Full superimposition also multiplies each shape by cos(rho), rho being its Procrustes distance
from the consensus.

Last, shapes w are projected on the plane that touches shape space at the consensus: w + (1 - <w, z>) z.
Differences between shapes are Euclidean there, as statistics want them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pliant.arrays import Concise, Float64, Floats
from pliant.morphometrics.sliders import Sliders, checked_sliders
from pliant.morphometrics.sliding import CRITERIA, Slide, slid
from pliant.shape.procrustes import in_one_place, procrustes_mean

Scaling = Literal["partial", "full"]

_TOLERANCE = 1e-12
"""A change of the consensus below this ends the search; its centroid size is 1."""

_SLID_ENOUGH = 1e-4
"""Sliding ends when shapes of centroid size 1 change by less than this in a round, as a root mean square."""

MOST_ROUNDS = 10
"""Rounds of sliding. Tangents are straight, so that points wander off curves if this goes on for long."""


@dataclass(frozen=True, eq=False, repr=False)
class Superimposition(Concise):
    """Superimposed shapes of n specimens with v landmarks.

    Parameters
    ----------
    coordinates : ndarray, shape (n, v, 2)
        Procrustes coordinates, without a unit.
    consensus : ndarray, shape (v, 2)
        The mean shape, centred, with a centroid size of 1.
    centroid_sizes : ndarray, shape (n,)
        Centroid sizes in the unit of the given landmarks, before anything slid.
    distances : ndarray, shape (n,)
        Procrustes distances of the specimens from the consensus: the angle rho between two shapes of centroid size
        1, in radians.
    sliders : ndarray of int, shape (s, 3)
        Which landmarks slid; no rows if none did.
    rounds : int
        How often they slid.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> faces = np.array([face.points() for face in pliant.load_dataset("photographs/")])
    >>> done = pliant.morphometrics.superimpose(faces)
    >>> done.distances.shape, done.freedom
    ((12,), 132)

    """

    coordinates: Float64
    consensus: Float64
    centroid_sizes: Float64
    distances: Float64
    sliders: Sliders
    rounds: int

    @property
    def freedom(self) -> int:
        """The degrees of freedom of a shape: 2v - 4, less one for each landmark that slides."""
        return 2 * len(self.consensus) - 4 - len(self.sliders)


def superimpose(
    shapes: Floats,
    sliders: Sliders | None = None,
    *,
    slide: Slide = "bending-energy",
    scaling: Scaling = "partial",
    projection: bool = True,
    rounds: int = MOST_ROUNDS,
) -> Superimposition:
    """Superimpose shapes by generalised Procrustes analysis, and slide semi-landmarks on the way.

    Parameters
    ----------
    shapes : array, shape (n, v, 2)
        The landmarks of n specimens, without gaps.
    sliders : array of int, shape (s, 3), or None
        Which landmarks slide between which neighbours, as `read_sliders` returns them.
    slide : {'bending-energy', 'distance'}
        What sliding minimises: the bending energy of the thin-plate spline from the consensus, or the Procrustes
        distance from it.
    scaling : {'partial', 'full'}
        `'partial'` leaves all shapes at a centroid size of 1; `'full'` brings them nearest to the consensus.
    projection : bool
        Project shapes on the tangent plane at the consensus.
    rounds : int
        How often landmarks slide at most. After each round, shapes are superimposed again.

    Returns
    -------
    Superimposition
        Coordinates, consensus, centroid sizes and distances.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> faces = np.array([face.points() for face in pliant.load_dataset("photographs/")])
    >>> done = pliant.morphometrics.superimpose(faces)
    >>> done.coordinates.shape, done.consensus.shape, done.centroid_sizes.shape
    ((12, 68, 2), (68, 2), (12,))

    """
    given: Float64 = np.asarray(shapes, dtype=np.float64)
    _check(given, slide, scaling, rounds)
    sizes = centroid_size(given)
    consensus, turned = _superimposed(_unit(given), scaling)
    done = 0
    if sliders is None or not len(sliders):
        sliders = np.zeros((0, 3), dtype=np.intp)
    else:
        sliders = checked_sliders(np.asarray(sliders, dtype=np.intp), given.shape[1])
        while done < rounds:
            before = turned
            consensus, turned = _superimposed(_unit(slid(turned, consensus, sliders, slide)), scaling)
            done += 1
            if np.sqrt(np.mean(np.sum((turned - before) ** 2, axis=(1, 2)))) < _SLID_ENOUGH:
                break
    cosines = np.clip(np.sum(turned * consensus, axis=(1, 2)), -1.0, 1.0)
    coordinates = turned * cosines[:, None, None] if scaling == "full" else turned
    if projection:
        along = np.sum(coordinates * consensus, axis=(1, 2))
        coordinates = coordinates + (1 - along)[:, None, None] * consensus
    # Near 0 the arc cosine keeps half of the digits; the sine keeps all.
    across = np.linalg.norm(turned - cosines[:, None, None] * consensus, axis=(1, 2))
    return Superimposition(coordinates, consensus, sizes, np.arctan2(across, cosines), sliders, done)


def centroid_size(shapes: Floats) -> Float64:
    """Return the centroid sizes of shapes: the square root of the summed squared distances from the centre.

    Parameters
    ----------
    shapes : array, shape (..., v, 2)
        The shapes.

    Returns
    -------
    ndarray, shape (...)
        The sizes, in the unit of the shapes.

    Raises
    ------
    ValueError
        If the shapes have no landmarks.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    >>> bool(np.isclose(pliant.morphometrics.centroid_size(square), np.sqrt(8)))
    True

    """
    if not shapes.shape[-2]:
        raise ValueError("a shape without landmarks has no centroid size.")
    centred = shapes - np.mean(shapes, axis=-2, keepdims=True)
    return np.asarray(np.sqrt(np.sum(centred**2, axis=(-2, -1))))


def _check(shapes: Float64, slide: str, scaling: str, rounds: int) -> None:
    if shapes.ndim != 3 or shapes.shape[2] != 2 or shapes.shape[1] < 3:
        raise ValueError(
            "shapes must be an array of shape (specimens, landmarks, 2) with at least three landmarks, not "
            f"{shapes.shape}."
        )
    if len(shapes) < 2:
        raise ValueError(f"{len(shapes)} specimen: superimposition needs at least two.")
    gaps = np.argwhere(~np.isfinite(shapes).all(axis=2))
    if len(gaps):
        raise ValueError(
            f"specimen {gaps[0, 0]} lacks landmark {gaps[0, 1]}: leave it out, or fill it in first."
        )
    if slide not in CRITERIA:
        raise ValueError(f"slide={slide}: it must be {' or '.join(CRITERIA)}.")
    if scaling not in get_args(Scaling):
        raise ValueError(f"scaling={scaling}: it must be {' or '.join(get_args(Scaling))}.")
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: there must be at least one.")
    flat = np.flatnonzero(in_one_place(shapes))
    if len(flat):
        raise ValueError(f"specimen {flat[0]} has all its landmarks in one place.")


def _unit(shapes: Float64) -> Float64:
    """Shapes `(n, v, 2)`, centred, with a centroid size of 1."""
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    return np.asarray(centred / centroid_size(centred)[:, None, None])


def _superimposed(unit: Float64, scaling: Scaling) -> tuple[Float64, Float64]:
    """The consensus `(v, 2)` of unit shapes `(n, v, 2)`, and these turned to it."""
    # Full superimposition starts close, whatever the rotations are, and leaves upright objects upright.
    consensus = _unit(procrustes_mean(unit)[None])[0]
    for _ in range(200):
        turned = _turned(unit, consensus)
        weights = np.sum(turned * consensus, axis=(1, 2)) if scaling == "full" else np.ones(len(turned))
        before, consensus = consensus, _unit(np.mean(weights[:, None, None] * turned, axis=0)[None])[0]
        if np.max(np.abs(consensus - before)) < _TOLERANCE:
            break
    return consensus, _turned(unit, consensus)


def _turned(unit: Float64, consensus: Float64) -> Float64:
    """Unit shapes `(n, v, 2)`, each turned about the origin to come nearest to the consensus `(v, 2)`."""
    shapes = unit[..., 0] + 1j * unit[..., 1]
    products = np.sum(np.conj(shapes) * (consensus[:, 0] + 1j * consensus[:, 1]), axis=1)
    lengths = np.abs(products)
    phases = np.divide(products, lengths, out=np.ones_like(products), where=lengths > 0)
    moved = shapes * phases[:, None]
    return np.stack([moved.real, moved.imag], axis=-1)
