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
    names
        Of the specimens, n different ones.
    points
        Landmarks `(n, v, 2)` in pixels, x to the right and y **upwards**, as TPS files have them; nan where one
        is missing.
    images
        Names of the images, or empty.
    landmark_names
        v names, or none.
    scales
        The length of a pixel `(n,)`; nan where it is unknown.
    unit
        That of `scales`, in words.
    curves
        Number of points of each curve; the last landmarks are theirs.
    confidence
        Of fits, `(n,)`; nan where there is none.
    reflected
        Which specimens are mirror images of what was annotated, `(n,)`.
    individuals, sides, replicates
        What the measurements are of, n names each, or none.
    observed
        Whether replicates are sets, each of which has every individual: those of one observer or session.
    notes
        Sentences about what was left out, or is doubtful.

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
        return self.unit if self.scaled else PIXELS

    def only(self, wanted: NDArray[np.bool_], note: str = "") -> Specimens:
        """The specimens that are wanted `(n,)`, with a sentence about the others."""
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
    """The specimens that have all landmarks, with a sentence about the others.

    Parameters
    ----------
    specimens
        Some of them with nan where a landmark is missing.
    fill
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
        note = f"{counted(count)} with landmarks filled in that were missing, such as {first}."
        return replace(specimens, points=complete(specimens.points), notes=(*specimens.notes, note))
    if not np.any(whole):
        raise ValueError(
            f"every specimen lacks landmarks, {first} among them: missing=complete fills them in."
        )
    why = f"because landmarks are missing, such as {first}: missing=complete fills them in."
    return specimens.only(whole, f"{counted(count)} left out {why}")


def facing_alike(specimens: Specimens) -> Specimens:
    """All specimens as most of them face: the others are turned into their mirror images, and a sentence says so.

    A left wing and a right wing are mirror images: no rotation brings one to the other. Objects that are
    symmetric themselves stay as they are.
    """
    mirrored = find_mirrored(specimens.points)
    if not np.any(mirrored):
        return specimens
    points = specimens.points.copy()
    # Each about its own middle, so that it stays in its image.
    x = points[mirrored, :, 0]
    points[mirrored, :, 0] = np.nanmin(x, axis=1, keepdims=True) + np.nanmax(x, axis=1, keepdims=True) - x
    count, first = int(np.sum(mirrored)), specimens.names[int(np.argmax(mirrored))]
    note = (
        f"{counted(count)} {'faces' if count == 1 else 'face'} the other way, such as {first}: mirror "
        "images were taken."
    )
    return replace(
        specimens, points=points, reflected=specimens.reflected ^ mirrored, notes=(*specimens.notes, note)
    )


def counted(count: int) -> str:
    return "1 specimen" if count == 1 else f"{count:,} specimens"
