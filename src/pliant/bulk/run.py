"""A run on one machine: images are fitted and their files written by threads, and rows are kept as they come."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from pliant.bulk.files import (
    Earlier,
    Task,
    has_finished,
    journal_in,
    look,
    names_of,
    refusal,
    staging_in,
)
from pliant.bulk.finishing import put_in_place, write_more, write_others
from pliant.bulk.fitted import fitted_rows, manner_of
from pliant.bulk.image_files import FOLDERS, writer_to
from pliant.bulk.journal import Journal, read_rows
from pliant.bulk.prepare import Where
from pliant.fitting.fitter import Fitter
from pliant.table import TABLE, Row, write_table
from pliant.threads import one_blas_thread


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
    output, journal_file = task.output, journal_in(task.output)
    if not isinstance(output, Path) or journal_file is None:
        raise ValueError(f"{output}: a run with a journal can only write to a folder; see run_in_parts.")
    earlier = look(task) if earlier is None else earlier
    refused = refusal(task, earlier, resume, overwrite)
    if refused:
        raise ValueError(refused)
    model = fitter.model
    if resume and has_finished(task, earlier):
        write_more(task, model.landmarks, model.landmark_names, earlier)
        return
    import pyarrow.parquet  # noqa: F401  Not after hours of fitting: it is large, and may be broken.

    if earlier.done < len(task.images):
        with one_blas_thread():
            _ = fitter.prepared  # Before anything is written: this is where a device that is not there shows.
    output.mkdir(parents=True, exist_ok=True)
    head = None if earlier.unfinished else task.head()
    with Journal(journal_file, head, earlier.length) as journal:
        staged = staging_in(output)
        if earlier.unfinished is None:
            for folder in FOLDERS:
                shutil.rmtree(staged / folder, ignore_errors=True)
        staged.mkdir(exist_ok=True)
        files = names_of(task.images)[earlier.done :] if task.landmarks or task.draw is not None else ()
        write = writer_to(staged, fitter, task.landmarks, task.draw, task.bound)
        rows = fitted_rows(manner_of(task, fitter, where), task.images[earlier.done :], files, write)
        with closing(rows):
            while block := list(islice(rows, task.block)):
                journal.append(block)
                for some in block:
                    each(some)
        write_table(staged / TABLE, read_rows(journal_file), task.head(), model.landmark_names)
        put_in_place(staged, output, task.head(), earlier)
        write_others(output, task.head(), model.landmarks, model.landmark_names)
        # Last of all: as long as it is there, `resume` does again what is after the fits.
        journal_file.unlink()
