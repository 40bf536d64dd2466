"""From images by their names to rows, in order: what every run does, wherever its rows go."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from pliant.arrays import Image
from pliant.batch import fit_all
from pliant.bulk.files import Task
from pliant.bulk.image_files import Write, size_of
from pliant.bulk.prepare import Where
from pliant.data.addresses import is_address
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult
from pliant.inputs import StartSource
from pliant.starts.choice import Chain
from pliant.starts.known import known_landmarks
from pliant.table import Row, object_cells


@dataclass(frozen=True)
class Manner:
    """How all images of a run are fitted: `count` of them in blocks, with confidence about an error of `bound`.

    Names of images are ways from the folder `here`, wherever they are fitted.
    """

    fitter: Fitter
    where: Where
    count: int
    block: int
    bound: float
    here: str


def manner_of(task: Task, fitter: Fitter, where: Where) -> Manner:
    """That of a task that was named in the folder where this process is."""
    return Manner(fitter, where, len(task.images), task.block, task.bound, os.getcwd())


def fitted_rows(
    manner: Manner, images: Sequence[str], files: Sequence[str], write: Write
) -> Generator[list[Row], None, None]:
    """The rows of each image, one for each object, in order; their files are written, by the names in `files`.

    The first image must begin a block: then the last bits of its rows are those that they have in every run.
    """

    def then(number: int, result: FitResult, image: Image | None) -> list[Row]:
        name = images[number]
        if image is not None and files:
            write(files[number], name, result, image)
        if result.reason:
            # A table says the same wherever the image was looked for.
            result = replace(result, reason=result.reason.replace(_place(manner.here, name), name))
        return [*object_cells(name, result, size_of(image), manner.bound)]

    work = ((_place(manner.here, name), _way(manner, name)) for name in images)
    with closing(fit_all(manner.fitter, work, manner.count, manner.block, then=then)) as fits:
        yield from fits


def _place(here: str, name: str) -> str:
    """Where an image is, for a process that may be in another folder."""
    return name if is_address(name) or here == os.getcwd() else os.path.join(here, name)


def _way(manner: Manner, name: str) -> StartSource | Chain:
    """Where the fits of an image begin: tables know it by its name, and files by where it is."""
    where = manner.where
    if isinstance(where, Chain):
        return where
    return partial(where, _place(manner.here, name) if where is known_landmarks else name)
