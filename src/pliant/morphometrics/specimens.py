"""Specimens: landmarks of many objects with y upwards, the length of a pixel, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64
from pliant.shape.facing import find_mirrored
from pliant.shape.missing import complete

PIXELS, UNNAMED, MILLIMETRES = "px", "scale unit", "mm"
LITTLE = 0.5
"""Fits with a confidence below this are flagged."""


@dataclass(frozen=True, eq=False, repr=False)
class Specimens(Concise):
    """Landmarks of n specimens, ready to be compared.

    Parameters
    ----------
    names : tuple of str
        Of the specimens, n different ones.
    points : array, shape (n, v, 2)
        Landmarks in pixels, x to the right and y **upwards**, as TPS files have them; nan where one is missing.
    images : tuple of str
        Names of the images, or empty texts.
    landmark_names : tuple of str
        v names, or none.
    scales : array, shape (n,)
        The length of a pixel; nan where it is unknown.
    unit : str
        That of `scales`.
    curves : tuple of int
        Number of points of each curve; the last landmarks are theirs.
    confidence : array, shape (n,)
        Of fits; nan where there is none.
    reflected : array of bool, shape (n,)
        Which specimens are mirror images of what was annotated.
    individuals, sides, replicates : tuple of str
        What the measurements are of, n names each, or none.
    observed : bool
        Whether replicates are sets, each of which has every individual: those of one observer or session.
    notes : tuple of str
        Sentences about what was left out, or is doubtful.

    Examples
    --------
    >>> faces = pliant.morphometrics.read_specimens("photographs/", scale=0.02, unit="mm")
    >>> len(faces), faces.scaled, faces.length_unit
    (12, True, 'mm')
    >>> bool(np.allclose(faces.lengths, 0.02 * faces.points))
    True

    """

    names: tuple[str, ...]
    points: Float64
    images: tuple[str, ...]
    landmark_names: tuple[str, ...]
    scales: Float64
    unit: str
    curves: tuple[int, ...]
    confidence: Float64
    reflected: NDArray[np.bool_]
    individuals: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    replicates: tuple[str, ...] = ()
    observed: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def scaled(self) -> bool:
        """Whether the length of a pixel is known for all; else sizes are in pixels."""
        return bool(np.isfinite(self.scales).all())

    @property
    def lengths(self) -> Float64:
        """Landmarks `(n, v, 2)` in the unit `length_unit`."""
        return self.points * self.scales[:, None, None] if self.scaled else self.points

    @property
    def length_unit(self) -> str:
        """The unit of `lengths`: pixels, unless the length of a pixel is known for all."""
        return self.unit if self.scaled else PIXELS

    def only(self, wanted: NDArray[np.bool_], note: str = "") -> Specimens:
        """Return some of the specimens.

        Parameters
        ----------
        wanted : array of bool, shape (n,)
            Which ones.
        note : str
            A sentence about the others, if there is something to say.

        Returns
        -------
        Specimens
            In the same order.

        Examples
        --------
        >>> faces = pliant.morphometrics.read_specimens("photographs/")
        >>> len(faces.only(np.arange(12) < 5))
        5

        """
        numbers = np.flatnonzero(wanted)

        def some(values: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(values[number] for number in numbers) if values else ()

        return replace(
            self,
            names=some(self.names),
            points=self.points[numbers],
            images=some(self.images),
            scales=self.scales[numbers],
            confidence=self.confidence[numbers],
            reflected=self.reflected[numbers],
            individuals=some(self.individuals),
            sides=some(self.sides),
            replicates=some(self.replicates),
            notes=(*self.notes, note) if note else self.notes,
        )


def complete_specimens(specimens: Specimens, *, fill: bool = False) -> Specimens:
    """Return the specimens that have all landmarks, with a sentence about the others.

    Parameters
    ----------
    specimens : Specimens
        Some of them with nan where a landmark is missing.
    fill : bool
        Fill missing landmarks in from the others of the same specimen, as `pliant train --missing complete` does,
        instead of leaving specimens out.

    Returns
    -------
    Specimens
        Without a nan.

    Examples
    --------
    >>> faces = pliant.morphometrics.read_specimens("photographs/")
    >>> faces.points[0, 3] = np.nan
    >>> len(pliant.morphometrics.complete_specimens(faces))
    11

    """
    whole = np.asarray(np.isfinite(specimens.points).all(axis=(1, 2)))
    if np.all(whole):
        return specimens
    count, first = int(np.sum(~whole)), specimens.names[int(np.argmin(whole))]
    if fill:
        note = f"Filled in: missing landmarks of {counted(count)}, such as {first}."
        return replace(specimens, points=complete(specimens.points), notes=(*specimens.notes, note))
    if not np.any(whole):
        raise ValueError(
            f"every specimen lacks landmarks, {first} among them: missing=complete fills them in."
        )
    note = (
        f"Left out: {counted(count)} with missing landmarks, such as {first}. missing=complete fills them in."
    )
    return specimens.only(whole, note)


def facing_alike(specimens: Specimens) -> Specimens:
    """Turn specimens that face the other way than most into their mirror images, with a sentence that says so.

    A left wing and a right wing are mirror images: no rotation brings one to the other. Objects that are
    symmetric themselves stay as they are.

    Parameters
    ----------
    specimens : Specimens
        Without missing landmarks.

    Returns
    -------
    Specimens
        With `reflected` true for those that were turned.

    Examples
    --------
    >>> faces = pliant.morphometrics.read_specimens("photographs/")
    >>> int(np.sum(pliant.morphometrics.facing_alike(faces).reflected))
    0

    """
    mirrored = find_mirrored(specimens.points)
    if not np.any(mirrored):
        return specimens
    points = specimens.points.copy()
    # Each about its own middle, so that it stays in its image.
    x = points[mirrored, :, 0]
    points[mirrored, :, 0] = np.nanmin(x, axis=1, keepdims=True) + np.nanmax(x, axis=1, keepdims=True) - x
    count, first = int(np.sum(mirrored)), specimens.names[int(np.argmax(mirrored))]
    note = f"Mirrored: {counted(count)} facing the other way, such as {first}."
    return replace(
        specimens, points=points, reflected=specimens.reflected ^ mirrored, notes=(*specimens.notes, note)
    )


def counted(count: int) -> str:
    return "1 specimen" if count == 1 else f"{count:,} specimens"
