"""Synthetic wings and chests as data sets, in memory or as a folder, with the length of a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.data.annotation import Annotation
from pliant.data.dataset import Dataset, Sample
from pliant.data.formats import write_annotations
from pliant.synthetic.chest import chest, chest_shape
from pliant.synthetic.chest_anatomy import CHEST_LANDMARKS
from pliant.synthetic.wing import wing, wing_shape
from pliant.synthetic.wing_anatomy import WING_LANDMARKS


@dataclass(frozen=True)
class _Kind:
    """What there is to know about one kind of object: `draw` also gives the picture, `shape` does without."""

    name: str
    plural: str
    landmarks: tuple[str, ...]
    draw: Callable[[int, int, int], tuple[NDArray[Any], Float64, float]]
    shape: Callable[[int, int, int], tuple[Float64, float]]
    height: Callable[[int], int]
    ending: str


_WINGS = _Kind("wing", "wings", WING_LANDMARKS, wing, wing_shape, lambda size: 3 * size // 4, ".jpg")
_CHESTS = _Kind("chest", "chests", CHEST_LANDMARKS, chest, chest_shape, lambda size: size, ".png")


def wings(count: int, seed: int = 0, image_size: int = 320) -> Dataset:
    """Make a data set of annotated wings of flies. Each wing is drawn when you ask for it.

    Parameters
    ----------
    count : int
        How many wings.
    seed : int
        Another seed gives other wings.
    image_size : int
        The width of the images in pixels; they are three quarters as high.

    Returns
    -------
    Dataset
        Samples with 14 named landmarks each; `spacing()` is the length of a pixel in millimetres.

    Examples
    --------
    >>> import pliant
    >>> wings = pliant.synthetic.wings(12, seed=1, image_size=160)
    >>> wings
    Dataset(12 samples, synthetic wings, seed 1)
    >>> wings[0].image().shape, wings[0].points().shape, wings[0].spacing() > 0
    ((120, 160, 3), (14, 2), True)

    """
    return _dataset(_WINGS, count, seed, image_size)


def chests(count: int, seed: int = 0, image_size: int = 256) -> Dataset:
    """Make a data set of annotated chest radiographs of 12 bits. Each chest is drawn when you ask for it.

    Parameters
    ----------
    count : int
        How many chests.
    seed : int
        Another seed gives other chests.
    image_size : int
        Width and height of the images, in pixels.

    Returns
    -------
    Dataset
        Samples with 28 named landmarks each; `spacing()` is the length of a pixel in millimetres.

    Examples
    --------
    >>> import pliant
    >>> chests = pliant.synthetic.chests(20, seed=1, image_size=64)
    >>> chests
    Dataset(20 samples, synthetic chests, seed 1)
    >>> chests[0].image().shape, chests[0].image().dtype, chests[0].annotation().names[0]
    ((64, 64), dtype('float32'), 'right lung, apex')

    """
    return _dataset(_CHESTS, count, seed, image_size)


def write_wings(
    folder: Path | str,
    count: int,
    seed: int = 0,
    image_size: int = 320,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Write annotated wings into a folder: `wing-0000.jpg` and so on, and all landmarks in `wings.tps`.

    Parameters
    ----------
    folder : Path or str
        The folder; it is made if it does not exist. Wings of an earlier call are replaced.
    count : int
        How many wings.
    seed : int
        Another seed gives other wings.
    image_size : int
        The width of the images in pixels; they are three quarters as high.
    advance : callable
        Called after each wing, for a progress bar.

    Examples
    --------
    >>> import pliant
    >>> pliant.synthetic.write_wings("wings", 2, image_size=64)
    >>> len(pliant.load_dataset("wings"))
    2

    """
    _write(_WINGS, Path(folder), count, seed, image_size, advance)


def write_chests(
    folder: Path | str,
    count: int,
    seed: int = 0,
    image_size: int = 256,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Write annotated chests into a folder: `chest-0000.png` (16 bits) and so on, all landmarks in `chests.tps`.

    Parameters
    ----------
    folder : Path or str
        The folder; it is made if it does not exist. Chests of an earlier call are replaced.
    count : int
        How many chests.
    seed : int
        Another seed gives other chests.
    image_size : int
        Width and height of the images, in pixels.
    advance : callable
        Called after each chest, for a progress bar.

    Examples
    --------
    >>> import pliant
    >>> pliant.synthetic.write_chests("chests", 2, image_size=64)
    >>> len(pliant.load_dataset("chests"))
    2

    """
    _write(_CHESTS, Path(folder), count, seed, image_size, advance)


def _dataset(kind: _Kind, count: int, seed: int, image_size: int) -> Dataset:
    samples = []
    for index in range(count):
        annotation = _annotation(kind, index, seed, image_size)
        picture = partial(_picture, kind.draw, index, seed, image_size)
        samples.append(Sample(annotation.image, picture, annotation))
    return Dataset(tuple(samples), f"synthetic {kind.plural}, seed {seed}")


def _annotation(kind: _Kind, index: int, seed: int, image_size: int) -> Annotation:
    points, spacing = kind.shape(index, seed, image_size)
    return Annotation(
        f"{kind.name}-{index:04d}",
        points,
        names=kind.landmarks,
        size=(image_size, kind.height(image_size)),
        spacing=spacing,
    )


def _picture(
    draw: Callable[[int, int, int], tuple[NDArray[Any], Float64, float]],
    index: int,
    seed: int,
    image_size: int,
) -> NDArray[Any]:
    return draw(index, seed, image_size)[0]


def _write(
    kind: _Kind, folder: Path, count: int, seed: int, image_size: int, advance: Callable[[], None]
) -> None:
    from PIL import Image as PIL

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{kind.name}-[0-9]*{kind.ending}"):
        old.unlink()
    annotations = []
    for index in range(count):
        image, _, _ = kind.draw(index, seed, image_size)
        one = _annotation(kind, index, seed, image_size)
        file = folder / f"{one.image}{kind.ending}"
        details: dict[str, Any] = {"quality": 92} if image.dtype == np.uint8 else {}
        PIL.fromarray(image).save(file, **details)
        annotations.append(replace(one, image=file.name))
        advance()
    # TPS, because it has a place for the length of a pixel.
    write_annotations(folder / f"{kind.plural}.tps", annotations)
