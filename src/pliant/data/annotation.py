"""Annotations as landmark files have them, and the conventions in which such files count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Floats, Image

Size = tuple[int, int]
"""Width and height of an image, in pixels."""

UNKNOWN_SIZE: Size = (1, 1)
"""Stands for the size of an image that cannot be read, so that the rest of a landmark file can."""

ImageSizes = Callable[[str], Size]
"""The size of an image by the name that a file gives it; raises a sentence if there is no such image.

It may return `UNKNOWN_SIZE` instead of raising. Coordinates that depend on it are then meaningless.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Annotation(Concise):
    """One object in one image, in pliant's coordinates: 0-based, pixel centres at integers, y downwards.

    Parameters
    ----------
    image : str
        The name of the image in the file; empty if the file lies beside its image and names none.
    points : ndarray, shape (v, 2)
        The landmarks as x and y; nan where one is missing.
    names : tuple of str
        The names of the landmarks, if they have any.
    box : ndarray, shape (4,), or None
        The edges left, top, right and bottom. Around pixels 1 to 4 they go from 0.5 to 4.5.
    size : (int, int) or None
        Width and height of the image, if the file or its reader knew them.
    group : str
        What a split must not tear apart: a person, a video.
    pixels : callable or None
        Returns the image, if the file itself holds it.
    spacing : float or None
        The length of one pixel in the units of the file, such as millimetres.
    hidden : ndarray of bool, shape (v,), or None
        Which landmarks are behind something, if that is known.
    curves : tuple of int
        The number of points of each curve. The last landmarks are theirs, one curve after the other.
    identity, comment : str
        The name that the file gives the object, and its remark about it.
    score : float or None
        How sure whoever placed the landmarks was, such as the confidence of a fit; 1 is certain.
    unread_scale : str
        A sentence, without its full stop, if the file has something for the length of a pixel that is none.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> annotation = pliant.data.Annotation("wing.jpg", np.array([[3.0, 4.0], [7.0, 1.0]]), names=("base", "tip"))
    >>> pliant.write_annotations("wings.csv", [annotation])
    >>> pliant.read_annotations("wings.csv")[0].names
    ('base', 'tip')

    """

    image: str
    points: Float64
    names: tuple[str, ...] = ()
    box: Float64 | None = None
    size: Size | None = None
    group: str = ""
    pixels: Callable[[], Image] | None = field(default=None, repr=False)
    spacing: float | None = None
    hidden: NDArray[np.bool_] | None = None
    curves: tuple[int, ...] = ()
    identity: str = ""
    comment: str = ""
    score: float | None = None
    unread_scale: str = ""


@dataclass(frozen=True)
class Convention:
    """How the coordinates of a file format count.

    Parameters
    ----------
    reference : str
        Where this is known from.
    first_pixel : (float, float)
        What the file calls the centre of its first pixel, in pixels: (0, 0) if it counts centres from 0, (1, 1) if
        it counts from 1, and (0.5, 0.5) if it measures from the corner.
    unit : {'pixels', 'share', 'percent'}
        Whether numbers are pixels, or shares or percents of the width and height.
    y_up : bool
        The first pixel is at the bottom left, not at the top left.
    negative_is_missing : bool
        A landmark with a negative coordinate is missing.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> convention = pliant.data.Convention("the manual of the program", first_pixel=(1, 1))
    >>> convention.needs_size, convention.to_ours(np.array([[1.0, 1.0]])).tolist()
    (False, [[0.0, 0.0]])

    """

    reference: str
    first_pixel: tuple[float, float] = (0.0, 0.0)
    unit: Literal["pixels", "share", "percent"] = "pixels"
    y_up: bool = False
    negative_is_missing: bool = False

    @property
    def needs_size(self) -> bool:
        """Whether nothing can be converted without the size of the image."""
        return self.y_up or self.unit != "pixels"

    def to_ours(self, points: Floats, size: Size | None = None) -> Float64:
        """Convert points of a file to pliant's coordinates.

        Parameters
        ----------
        points : array, shape (..., 2)
            Points as the file has them.
        size : (int, int) or None
            Width and height of the image; required if `needs_size`.

        Returns
        -------
        ndarray, shape (..., 2)
            x and y, 0-based with pixel centres at integers.

        Raises
        ------
        ValueError
            If the size is needed and not given.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> convention = pliant.data.Convention("example", y_up=True)
        >>> convention.to_ours(np.array([[3.0, 0.0]]), size=(20, 10)).tolist()
        [[3.0, 9.0]]

        """
        # Numbers that are too large become infinite here, and are refused with the name of their file later.
        with np.errstate(over="ignore", invalid="ignore"):
            ours = np.asarray(points, dtype=np.float64) * self._unit(size) - self.first_pixel
            if self.y_up:
                ours[..., 1] = self._height(size) - 1 - ours[..., 1]
        return ours

    def to_theirs(self, points: Floats, size: Size | None = None) -> Float64:
        """Convert points from pliant's coordinates to those of the file.

        Parameters
        ----------
        points : array, shape (..., 2)
            x and y, 0-based with pixel centres at integers.
        size : (int, int) or None
            Width and height of the image; required if `needs_size`.

        Returns
        -------
        ndarray, shape (..., 2)
            Points as the file has them.

        Raises
        ------
        ValueError
            If the size is needed and not given.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> convention = pliant.data.Convention("example", unit="percent", first_pixel=(0.5, 0.5))
        >>> convention.to_theirs(np.array([[9.5, 4.5]]), size=(20, 10)).tolist()
        [[50.0, 50.0]]

        """
        theirs = np.array(points, dtype=np.float64)
        if self.y_up:
            theirs[..., 1] = self._height(size) - 1 - theirs[..., 1]
        return np.asarray((theirs + self.first_pixel) / self._unit(size), dtype=np.float64)

    def unspeakable(self, points: Floats, size: Size | None) -> NDArray[np.bool_]:
        """Tell which points the file cannot hold, because their numbers there mean that they are missing.

        Parameters
        ----------
        points : array, shape (v, 2)
            Points in pliant's coordinates.
        size : (int, int) or None
            Width and height of the image; required if `needs_size`.

        Returns
        -------
        ndarray of bool, shape (v,)
            True for points that the file cannot hold.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> convention = pliant.data.Convention("example", negative_is_missing=True)
        >>> convention.unspeakable(np.array([[5.0, 5.0], [-2.0, 5.0]]), None).tolist()
        [False, True]

        """
        if not self.negative_is_missing:
            return np.zeros(len(points), dtype=bool)
        return np.asarray((self.to_theirs(points, size).round(5) < 0).any(axis=1))

    def _unit(self, size: Size | None) -> Float64:
        """How many pixels are one unit of the file, along x and y."""
        if self.unit == "pixels":
            return np.ones(2)
        if size is None:
            raise ValueError(f"coordinates in {self.unit} need the size of the image.")
        return np.asarray(size) / (100.0 if self.unit == "percent" else 1.0)

    def _height(self, size: Size | None) -> int:
        if size is None:
            raise ValueError("coordinates from the lower edge need the size of the image.")
        return size[1]


def box_around(annotation: Annotation) -> Float64:
    """The box `(4,)`, or else the edges of the pixels that the landmarks span."""
    if annotation.box is not None:
        return annotation.box
    points = annotation.points[np.isfinite(annotation.points).all(axis=1)]
    if not len(points):
        raise ValueError(f"{annotation.image}: an object needs a box or landmarks.")
    return np.concatenate([points.min(axis=0) - 0.5, points.max(axis=0) + 0.5])


def known_score(value: object) -> float | None:
    """A score, if it is a number: files may have anything there, and no landmark depends on it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**1023:
        return None
    return float(value)


def one_object(path: Path, annotations: Sequence[Annotation]) -> Annotation:
    """The only annotation, for a file that holds one."""
    if len(annotations) != 1:
        raise ValueError(f"{path}: this format holds one object per file, but there are {len(annotations)}.")
    return annotations[0]


def all_there(path: Path, annotation: Annotation, format: str) -> Float64:
    """The landmarks `(v, 2)`, for a format that has no way to say that one is missing."""
    missing = np.flatnonzero(np.isnan(annotation.points).any(axis=1))
    if len(missing):
        raise ValueError(
            f"{path}: {format} cannot mark a landmark as missing, but landmark {missing[0]} of "
            f"{annotation.image or 'the object'} is: choose csv or another format that can."
        )
    return annotation.points
