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
    names : tuple of str, length n
        The names of the specimens, all different.
    points : ndarray, shape (n, v, 2)
        Landmarks in pixels, x to the right and y **upwards**, as in TPS files; nan where one is missing.
    images : tuple of str
        The names of the images, or empty.
    landmark_names : tuple of str
        v names, or none.
    scales : ndarray, shape (n,)
        The length of a pixel; nan where it is unknown.
    unit : str
        The unit of `scales`, in words.
    curves : tuple of int
        The number of points of each curve, which are the last landmarks.
    confidence : ndarray, shape (n,)
        The confidence of fits; nan where there is none.
    reflected : ndarray of bool, shape (n,)
        Which specimens are mirror images of what was annotated.
    individuals, sides, replicates : tuple of str
        What each measurement is of, n names each, or none.
    observed : bool
        Whether each replicate is a set with every individual: that of one observer or session.
    notes : tuple of str
        Sentences about what was left out, or is doubtful.

    Examples
    --------
    >>> import pliant
    >>> wings = pliant.morphometrics.specimens_of(pliant.synthetic.wings(3, image_size=64), unit="mm")
    >>> len(wings), wings.points.shape, wings.scaled, wings.length_unit, wings.lengths.shape
    (3, (3, 14, 2), True, 'mm', (3, 14, 2))

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
        """Whether the length of a pixel is known for all specimens. If not, sizes are in pixels."""
        return bool(np.isfinite(self.scales).all())

    @property
    def lengths(self) -> Float64:
        """Landmarks `(n, v, 2)` in the unit `length_unit`."""
        return self.points * self.scales[:, None, None] if self.scaled else self.points

    @property
    def length_unit(self) -> str:
        """The unit of `lengths`: `unit`, or pixels if the length of a pixel is not known for all."""
        return self.unit if self.scaled else PIXELS

    def only(self, wanted: NDArray[np.bool_], note: str = "") -> Specimens:
        """Return some of the specimens.

        Parameters
        ----------
        wanted : array of bool, shape (n,)
            Which specimens to keep.
        note : str
            A sentence about the others, added to `notes`.

        Returns
        -------
        Specimens
            The specimens that are kept.

        Examples
        --------
        >>> import numpy as np, pliant
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
    """Return the specimens that have all landmarks, with a sentence in `notes` about the others.

    Parameters
    ----------
    specimens : Specimens
        Specimens, with nan where a landmark is missing.
    fill : bool
        Fill in missing landmarks from the others of the same specimen, as `pliant train --missing complete` does,
        instead of leaving specimens out.

    Returns
    -------
    Specimens
        Specimens without nan.

    Examples
    --------
    >>> import numpy as np, pliant
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
    """Turn all specimens the way that most of them face.

    A left wing and a right wing are mirror images: no rotation brings one to the other. The minority is replaced
    by its mirror images, with a sentence in `notes`. Objects that are symmetric themselves stay as they are.

    Parameters
    ----------
    specimens : Specimens
        The specimens.

    Returns
    -------
    Specimens
        Specimens that face the same way. `reflected` tells which were mirrored.

    Examples
    --------
    >>> import pliant
    >>> wings = pliant.morphometrics.specimens_of(pliant.synthetic.wings(5, image_size=64))
    >>> wings.points[0, :, 0] *= -1  # a mirror image
    >>> pliant.morphometrics.facing_alike(wings).reflected.tolist()
    [True, False, False, False, False]

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


def about_scales(specimens: Specimens) -> list[str]:
    """A sentence if scales or their unit are unknown: lengths are in pixels then, or in a unit without a name."""
    lacking = np.isnan(specimens.scales)
    if np.all(lacking):
        return [
            "No image has a scale, so centroid sizes are in pixels: scale=NUMBER says how long a pixel is."
        ]
    if np.any(lacking):
        first = specimens.names[int(np.argmax(lacking))]
        return [
            f"No scale: {counted(int(np.sum(lacking)))} of {len(specimens)}, such as {first}. All centroid sizes "
            "are in pixels, which cannot be compared between images of different magnification: scale=NUMBER says "
            "how long a pixel is in images without a scale."
        ]
    if specimens.unit == UNNAMED:
        return ["The unit of the scale is unknown: give it with unit=mm or another."]
    return []


def counted(count: int) -> str:
    return "1 specimen" if count == 1 else f"{count:,} specimens"
