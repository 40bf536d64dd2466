"""Synthetic faces as a data set, in memory or as a folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pliant.arrays import Image
from pliant.data.dataset import Dataset, Sample
from pliant.data.formats import write_landmarks
from pliant.synthetic.portrait import face, face_shape


def faces(count: int, seed: int = 0, image_size: int = 256) -> Dataset:
    """Make a data set of annotated faces. Each face is drawn when you ask for it.

    Parameters
    ----------
    count : int
        How many faces.
    seed : int
        Another seed gives other faces.
    image_size : int
        Width and height of the images, in pixels.

    Returns
    -------
    Dataset
        Samples with 68 landmarks each, in the iBUG order.

    Examples
    --------
    >>> import pliant
    >>> pliant.synthetic.faces(12, seed=1, image_size=64)
    Dataset(12 samples, synthetic faces, seed 1)

    """
    samples = [
        Sample(
            _name(index),
            partial(_image, index, seed, image_size),
            partial(face_shape, index, seed, image_size),
        )
        for index in range(count)
    ]
    return Dataset(tuple(samples), f"synthetic faces, seed {seed}")


def write_faces(
    folder: Path | str,
    count: int,
    seed: int = 0,
    image_size: int = 256,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Write annotated faces into a folder: `face-0000.jpg`, `face-0000.pts` and so on.

    Parameters
    ----------
    folder : Path or str
        The folder; it is made if it does not exist. Faces of an earlier call are replaced.
    count : int
        How many faces.
    seed : int
        Another seed gives other faces.
    image_size : int
        Width and height of the images, in pixels.
    advance : callable
        Called after each face, for a progress bar.

    Examples
    --------
    >>> import pliant
    >>> pliant.synthetic.write_faces("some", 2, image_size=64)
    >>> len(pliant.load_dataset("some"))
    2

    """
    from PIL import Image as PIL

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("face-[0-9]*.jpg"), *folder.glob("face-[0-9]*.pts")):
        old.unlink()
    for index in range(count):
        image, points = face(index, seed, image_size)
        PIL.fromarray(image).save(folder / f"{_name(index)}.jpg", quality=92)
        write_landmarks(folder / f"{_name(index)}.pts", points)
        advance()


def _name(index: int) -> str:
    return f"face-{index:04d}"


def _image(index: int, seed: int, image_size: int) -> Image:
    return face(index, seed, image_size)[0]
