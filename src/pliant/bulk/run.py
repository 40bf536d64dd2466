"""A run: images are fitted and their files written by threads, and rows kept in order as they come."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from pliant.arrays import Image
from pliant.batch import fit_all
from pliant.bulk.files import (
    PICTURE_SIZE,
    Earlier,
    Task,
    files_of_rows,
    has_finished,
    landmark_file,
    look,
    names_of,
    others_of,
    path_of,
    picture_file,
    refusal,
)
from pliant.bulk.journal import Journal, read_rows
from pliant.bulk.prepare import Where
from pliant.bulk.rows import write_csv, write_flagged
from pliant.data.annotation import Annotation, Size
from pliant.files import replaced
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.model import Model
from pliant.starts.choice import Chain
from pliant.table import TABLE, Row, object_cells, rows_of, write_table
from pliant.threads import one_blas_thread

_FOLDERS = ("landmarks", "pictures")

Write = Callable[[int, FitResult, Image], None]
"""Writes the files of the fits to an image, given its number and pixels."""


def run(
    task: Task,
    fitter: Fitter,
    where: Where,
    resume: bool = False,
    each: Callable[[Sequence[Row]], None] = lambda rows: None,
    earlier: Earlier | None = None,
    overwrite: bool = False,
) -> None:
    """Fit the images of a task to its table; `each` is called with the rows of an image once they are on disk.

    They are in the journal before the next block is looked at, so that a process that is killed loses nothing that
    was finished. With `resume`, an unfinished run goes on where it was, and its table is the one that it would have
    been. Nothing is replaced but what an earlier run wrote, and that only with `overwrite` and when the new results
    are complete: if anything else would be, this is a ValueError.
    `earlier` is what `look` saw, if that was asked before.
    """
    earlier = look(task) if earlier is None else earlier
    refused = refusal(task, earlier, resume, overwrite)
    if refused:
        raise ValueError(refused)
    names = fitter.model.landmark_names
    if resume and has_finished(task, earlier):
        _write_more(task, fitter.model, earlier)
        return
    import pyarrow.parquet  # noqa: F401  Not after hours of fitting: it is large, and may be broken.

    if earlier.done < len(task.images):
        with one_blas_thread():
            _ = fitter.prepared  # Before anything is written: this is where a device that is not there shows.
    task.output.mkdir(parents=True, exist_ok=True)
    head = None if earlier.unfinished else task.head()
    with Journal(task.journal, head, earlier.length) as journal:
        if earlier.unfinished is None:
            for folder in _FOLDERS:
                shutil.rmtree(task.staging / folder, ignore_errors=True)
        task.staging.mkdir(exist_ok=True)
        with closing(_fitted_blocks(task, fitter, where, earlier.done)) as blocks:
            for block in blocks:
                journal.append(block)
                for rows in block:
                    each(rows)
        write_table(task.staging / TABLE, read_rows(task.journal), task.head(), names)
        _put_in_place(task, earlier)
        _write_others(task, fitter.model)
        # Last of all: as long as it is there, `resume` does again what is after the fits.
        task.journal.unlink()


def _put_in_place(task: Task, earlier: Earlier) -> None:
    """Move what is complete to where it belongs, and take away what the last run wrote and this one does not.

    Stopped at any point, it can be done again: the table of the last run, which says what is to go, stays until
    nothing of it is left to do.
    """
    head, staged = task.head(), task.staging
    if earlier.finished is not None:
        last = earlier.written | others_of(task, {**earlier.finished, "annotations": None})
        kept = files_of_rows(task.output, head, read_rows(task.journal)) | others_of(task, head)
        for stale in last - kept:
            stale.unlink(missing_ok=True)
    for folder in _FOLDERS:
        if (staged / folder).is_dir():
            (task.output / folder).mkdir(exist_ok=True)
            for name in os.listdir(staged / folder):
                os.replace(staged / folder / name, task.output / folder / name)
            (staged / folder).rmdir()
    os.replace(staged / TABLE, task.table)
    with suppress(OSError):  # Somebody has put something else there.
        staged.rmdir()


def _write_more(task: Task, model: Model, earlier: Earlier) -> None:
    """What is made from the table of a run that had finished, and was not asked for then."""
    assert earlier.finished is not None
    asked = {name: value for name, value in task.head().items() if name != "settings" and value}
    if {**earlier.finished, **asked} != earlier.finished:
        # The table knows which files are the run's.
        write_table(task.table, rows_of(task.table), {**earlier.finished, **asked}, model.landmark_names)
    _write_others(task, model)


def _fitted_blocks(
    task: Task, fitter: Fitter, where: Where, done: int
) -> Generator[list[list[Row]], None, None]:
    """The rows of all images after the first `done`, a block at a time, in order; their files are written."""
    write = _writer(task, fitter.model)

    def then(number: int, result: FitResult, image: Image | None) -> list[Row]:
        number += done
        if image is not None and any(fit.status is not Status.FAILED for fit in result.objects):
            write(number, result, image)
        return [*object_cells(task.images[number], result, _size_of(image), task.bound)]

    left = task.images[done:]
    work = ((name, where if isinstance(where, Chain) else partial(where, name)) for name in left)
    # All images are counted, so that blocks begin where they would have without an interruption.
    with closing(fit_all(fitter, work, len(task.images), task.block, then=then)) as fits:
        while block := list(islice(fits, task.block)):
            yield block


def _size_of(image: Image | None) -> Size | None:
    return None if image is None else (image.shape[1], image.shape[0])


def _writer(task: Task, model: Model) -> Write:
    """The function that writes what was asked for about a fit."""
    if not task.landmarks and task.draw is None:
        return lambda number, result, image: None
    from pliant.data.formats import write_annotations

    names = names_of(task.images)
    texts: Sequence[str] = ()
    if task.draw is not None and task.draw.labels:
        texts = (
            [str(k) for k in range(model.landmarks)]
            if task.draw.labels == "numbers"
            else model.landmark_names
        )

    def write(number: int, result: FitResult, image: Image) -> None:
        fits = [(which, fit) for which, fit in enumerate(result.objects) if fit.status is not Status.FAILED]
        for which, fit in fits if task.landmarks else ():
            file = landmark_file(task.staging, names[number], task.landmarks, which)
            file.parent.mkdir(exist_ok=True)
            image_name = path_of(task.images[number]).name
            annotation = Annotation(
                image_name, fit.points, model.landmark_names, size=_size_of(image), hidden=fit.hidden
            )
            write_annotations(file, [annotation], task.landmarks)
        if task.draw is not None:
            from pliant.plots import write_overlay

            picture = picture_file(task.staging, names[number])
            picture.parent.mkdir(exist_ok=True)
            write_overlay(
                picture,
                image,
                np.array([fit.points for _, fit in fits]),
                labels=texts,
                crop=task.draw.crop,
                longest=None if task.draw.full else PICTURE_SIZE,
            )

    return write


def _write_others(task: Task, model: Model) -> None:
    """What is made from the table, each file as a whole or not at all."""
    from pliant.data.formats import format_for_ending, write_annotations

    if task.csv:
        write_csv(task.csv_file, task.table, model.landmarks, model.landmark_names)
    if task.flag_below is not None:
        write_flagged(task.flagged_file, task.table, task.flag_below)
    if task.annotations is None:
        return
    annotations = [
        Annotation(
            _name_for(row["image"], task.annotations),
            np.column_stack([row["x"], row["y"]]),
            model.landmark_names,
            size=(row["width"], row["height"]),
            # Tables of earlier versions do not have it.
            hidden=None if row.get("hidden") is None else np.asarray(row["hidden"]) > 0,
        )
        for row in rows_of(task.table)
        if row["x"] is not None
    ]
    if not annotations:
        task.annotations.unlink(missing_ok=True)
        return
    with replaced(task.annotations, alone=True) as partial:
        write_annotations(partial, annotations, format_for_ending(task.annotations))


def _name_for(image: str, file: Path) -> str:
    """An image as a file that names it should: by the way from the file's folder, if it has no full path."""
    if "://" in image or os.path.isabs(image):
        return image
    return Path(os.path.relpath(image, file.parent)).as_posix()
