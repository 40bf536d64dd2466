"""What a user may give for images and starts: one or many, as files, samples, arrays or functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Floats, Image
from pliant.data.addresses import as_source
from pliant.data.dataset import Sample
from pliant.data.images import ImageError, as_image, read_image
from pliant.terminal import counted

ImageSource = Image | Path | str | Sample

StartSource = Floats | Callable[[Image], Floats]
"""Where the fits to an image begin, or a function that finds it in the image.

A shape `(v, 2)` or a box `(4,)`; several tries for one object, `(k, v, 2)` or `(k, 4)`; or, with one axis more,
starts of n objects, `(n, k, v, 2)` or `(n, k, 4)`, which may be a list of n arrays with a k of their own.
"""


def read(source: ImageSource) -> Image:
    """The pixels of an image given as an array, a file or a sample."""
    if isinstance(source, Sample):
        return source.image()
    if isinstance(source, (str, Path)):
        return read_image(source)
    return as_image(source)


def name_of(source: ImageSource) -> str:
    """What an image is called without its folders; an array has no name."""
    if isinstance(source, Sample):
        return Path(source.name).name
    return Path(source).name if isinstance(source, (str, Path)) else ""


def require_file(image: Path | str) -> None:
    """Refuse a name that is not that of one image: nothing else would be fitted that a failure could stop."""
    place = as_source(image)
    # An address is not asked twice.
    if not isinstance(place, Path) or (place.exists() and not place.is_dir()):
        return
    kind = "a folder" if place.is_dir() else "a pattern" if set(str(place)) & set("*?[") else ""
    if not kind:
        raise ImageError(f"{image}: there is no such image.")
    raise ImageError(
        f"{image}: this is {kind}, not an image. To fit all of its images, give "
        f"pliant.load_dataset({str(image)!r}); pliant.bulk.fit_images writes their fits to a table."
    )


def is_one_image(images: Any) -> bool:
    """Whether this is a single image: a file, a sample, or an array `(h, w)` or `(h, w, 1, 3 or 4)`.

    Arrays `(n, h, w)` and `(n, h, w, c)` are many, and so is everything else that can be gone through.
    """
    if isinstance(images, (str, Path, Sample)):
        return True
    if not isinstance(images, np.ndarray) and not hasattr(images, "__array_interface__"):
        return not isinstance(images, Iterable)
    array = np.asarray(images)
    if array.ndim == 1:
        return bool(np.issubdtype(array.dtype, np.number))
    return array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))


_NUMBERS = (int, float, np.number)


def groups_of(start: Any) -> list[Floats]:
    """The starts of each object: `start` alone if it is of one, otherwise its n parts."""
    parted = isinstance(start, (list, tuple)) and len(start) > 0 and all(map(_is_of_one, start))
    if not parted:
        start = np.asarray(start, dtype=np.float64)
        parted = start.ndim == 4 or (start.ndim == 3 and start.shape[2] == 4)
    groups = [np.asarray(group, dtype=np.float64) for group in start] if parted else [start]
    if not groups:
        raise ValueError("there is no start: give a start for at least one object.")
    return groups


def _is_of_one(start: Any) -> bool:
    """Whether this is an array of several tries for one object."""
    if not isinstance(start, np.ndarray):
        return False
    return start.ndim == 3 or (start.ndim == 2 and start.shape[1] == 4)


def start_of_one(starts: Any) -> Any:
    """The start for one image, which may stand alone, or be the only one of a list."""
    alone = isinstance(starts, (list, tuple)) and len(starts) == 1 and callable(starts[0])
    return starts[0] if alone else starts


def paired(images: Iterable[Any], starts: Any) -> Iterator[tuple[Any, Any]]:
    """Each image with its start, or with the function that finds it in all of them; a sentence if one is left."""
    if callable(starts):
        return ((image, starts) for image in images)
    if isinstance(starts, (list, tuple, np.ndarray)) and len(starts) and isinstance(starts[0], _NUMBERS):
        raise ValueError("this is one box for many images: give one start for each image.")
    if isinstance(images, Sized) and isinstance(starts, Sized) and len(images) != len(starts):
        raise ValueError(
            f"there are {counted(len(images), 'image')} and {counted(len(starts), 'start')}: give one start for "
            "each image, or a function that finds starts."
        )
    return _in_step(images, starts)


def _in_step(images: Iterable[Any], starts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    nothing = object()
    for image, start in zip_longest(images, starts, fillvalue=nothing):
        if image is nothing or start is nothing:
            raise ValueError("the numbers of starts and images differ: give one start for each image.")
        yield image, start
