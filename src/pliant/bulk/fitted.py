"""From images by their names to rows, in order: what every run does, wherever its rows go."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from pliant.arrays import Image
from pliant.batch import fit_all
from pliant.bulk.files import Task
from pliant.bulk.image_files import Write, size_of
from pliant.bulk.prepare import Where
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult
from pliant.starts.choice import Chain
from pliant.table import Row, object_cells


@dataclass(frozen=True)
class Manner:
    """How all images of a run are fitted: `count` of them in blocks, with confidence about an error of `bound`."""

    fitter: Fitter
    where: Where
    count: int
    block: int
    bound: float


def manner_of(task: Task, fitter: Fitter, where: Where) -> Manner:
    return Manner(fitter, where, len(task.images), task.block, task.bound)


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
        return [*object_cells(name, result, size_of(image), manner.bound)]

    where = manner.where
    work = ((name, where if isinstance(where, Chain) else partial(where, name)) for name in images)
    with closing(fit_all(manner.fitter, work, manner.count, manner.block, then=then)) as fits:
        yield from fits
