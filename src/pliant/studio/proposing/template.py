"""The mean of the shapes that are finished, laid into an image as these lie in theirs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data.images import image_size
from pliant.shape import generalised_procrustes, shape_size

_SHAPES = 100
"""So many shapes at most make the template."""


def template(finished: Iterable[tuple[Path, Float64]], size: tuple[int, int]) -> Float64 | None:
    """The mean shape `(v, 2)` at the mean place and of the mean size, relative to an image.

    Parameters
    ----------
    finished
        Images and their points `(v, 2)`. Those with unknown points are left out, and images that cannot be read.
    size
        Width and height of the image that the shape is laid into.

    Returns
    -------
    Float64 or None
        None if there is no shape.

    """
    shapes, middles, lengths = [], [], []
    for source, points in finished:
        if not np.isfinite(points).all() or shape_size(points) <= 0:
            continue
        try:
            there = np.array(image_size(source), dtype=np.float64)
        except (ValueError, OSError):
            continue
        shapes.append(points)
        middles.append((points.mean(axis=0) + 0.5) / there)
        lengths.append(float(shape_size(points)) / np.sqrt(there.prod()))
        if len(shapes) == _SHAPES:
            break
    if not shapes:
        return None
    mean = generalised_procrustes(np.array(shapes))[0] if len(shapes) > 1 else shapes[0]
    centred = mean - mean.mean(axis=0)
    here = np.array(size, dtype=np.float64)
    length = np.mean(lengths) * np.sqrt(here.prod()) / shape_size(centred)
    return np.asarray(length * centred + np.mean(middles, axis=0) * here - 0.5, dtype=np.float64)
