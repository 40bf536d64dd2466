"""A run: blocks of images are read, started, fitted and written side by side, and their rows kept in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pliant.arrays import Floats, Image
from pliant.bulk.files import Earlier, Task, landmark_file, look, names_of, path_of, picture_file, refusal
from pliant.bulk.journal import Journal, read_rows
from pliant.bulk.table import Fitted, Row, row_of, rows_of, write_csv, write_table
from pliant.data.annotation import Annotation
from pliant.data.images import read_image
from pliant.fitting.fitter import Fitter
from pliant.fitting.loop import Status
from pliant.fitting.result import FitResult, failed
from pliant.threads import one_blas_thread

Where = Callable[[str, Image], Floats]
"""From an image's name and pixels to its start. Threads call it side by side."""


@dataclass(frozen=True)
class Rescan:
    """Another way to start, for images whose fit has less confidence than `below` or that had no start at all."""

    where: Where
    below: float


FitImages = Callable[[Mapping[str, Image | Exception], Where], dict[str, FitResult]]
"""From images by name, or why they could not be read, and their starts, to fits by name."""

Write = Callable[[int, Fitted, Image], None]
"""Writes the files of a fit, given the image's number and pixels."""


def run(
    task: Task,
    fitter: Fitter,
    where: Where,
    resume: bool = False,
    each: Callable[[Row], None] = lambda row: None,
    earlier: Earlier | None = None,
    rescan: Rescan | None = None,
) -> None:
    """Fit the images of a task to its table; `each` is called with every new row once it is on disk.

    A row is in the journal before the next block is looked at, so that a process that is killed loses nothing that
    was finished. With `resume`, an unfinished run goes on where it was, and its table is the one that it would have
    been. Nothing is replaced but what an earlier run wrote: if something would be, this is a ValueError.
    `earlier` is what `look` saw, if that was asked before. Of a fit and that of its `rescan`, the one with more
    confidence is kept.
    """
    earlier = look(task) if earlier is None else earlier
    refused = refusal(task, earlier, resume)
    if refused:
        raise ValueError(refused)
    if earlier.finished is not None and earlier.unfinished is None and resume:
        _write_others(task)
        return
    import pyarrow.parquet  # noqa: F401  Not after hours of fitting: it is large, and may be broken.

    if earlier.done < len(task.images):
        with one_blas_thread():
            _ = fitter.prepared  # Before anything is written: this is where a device that is not there shows.
    task.output.mkdir(parents=True, exist_ok=True)
    head = None if earlier.unfinished else task.head()
    with Journal(task.journal, head, earlier.length) as journal:
        # A folder is one run's: an earlier one's files are not to be taken for those of this one.
        if earlier.finished is not None and earlier.done < len(task.images):
            others = [task.csv_file] if earlier.finished["csv"] else []
            # The table last: as long as it is there, it is known what else is to go.
            for stale in (*earlier.written, *others, task.table):
                stale.unlink(missing_ok=True)
        with closing(fit_blocks(task, fitter, where, _writer(task), earlier.done, rescan)) as blocks:
            for block in blocks:
                rows = [row_of(fitted) for fitted in block]
                journal.append(rows)
                for row in rows:
                    each(row)
        write_table(task.table, read_rows(task.journal), task.head())
        _write_others(task)
        # Last of all: as long as it is there, --resume does again what is after the fits.
        task.journal.unlink()


def fit_blocks(
    task: Task, fitter: Fitter, where: Where, write: Write, done: int = 0, rescan: Rescan | None = None
) -> Generator[list[Fitted], None, None]:
    """The fits of all images after the first `done`, a block at a time, in order; few blocks are under way.

    A block is read, fitted and written by one thread. A result that could not be had is a fit with the status
    `failed` and a reason, whatever went wrong with the image; an error in writing ends the run.
    """
    threads = fitter.jobs if len(task.images) == 1 else 1
    # Here and not in the blocks: OpenBLAS did not listen to threads other than the first.
    with one_blas_thread():
        pool = ThreadPoolExecutor(fitter.jobs)
        ahead: deque[Future[list[Fitted]]] = deque()
        try:
            for first in range(done, len(task.images), task.block):
                names = task.images[first : first + task.block]
                fit = partial(_fit_images, fitter, threads=threads)
                ahead.append(pool.submit(_fit_block, fit, first, names, where, write, task.bound, rescan))
                if len(ahead) > 2 * fitter.jobs:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            # Left early by Ctrl-C or an error: blocks that have not begun need not.
            pool.shutdown(cancel_futures=True)


def _fit_block(
    fit: FitImages,
    first: int,
    names: Sequence[str],
    where: Where,
    write: Write,
    bound: float,
    rescan: Rescan | None,
) -> list[Fitted]:
    images: dict[str, Image | Exception] = {}
    for name in names:
        try:
            images[name] = read_image(name)
        except Exception as error:
            images[name] = error
    results = fit(images, where)
    if rescan is not None:
        unsure = {
            name: image
            for name, image in images.items()
            if not isinstance(image, Exception) and results[name].confidence(bound) < rescan.below
        }
        for name, again in fit(unsure, rescan.where).items():
            if again.confidence(bound) > results[name].confidence(bound):
                results[name] = again
    block = []
    for number, name in enumerate(names, start=first):
        image = images[name]
        size = None if isinstance(image, Exception) else (image.shape[1], image.shape[0])
        block.append(Fitted(name, results[name], size, bound))
        if results[name].status is not Status.FAILED and not isinstance(image, Exception):
            write(number, block[-1], image)
    return block


def _fit_images(
    fitter: Fitter, images: Mapping[str, Image | Exception], where: Where, *, threads: int
) -> dict[str, FitResult]:
    """Fits by name, whatever goes wrong with an image."""
    results: dict[str, FitResult] = {}
    ready: dict[str, tuple[Image, Floats]] = {}
    for name, image in images.items():
        try:
            if isinstance(image, Exception):
                raise image
            ready[name] = image, where(name, image)
        except Exception as error:
            results[name] = _failed(fitter, error)
    try:
        pairs = ready.values()
        several = fitter.block([image for image, _ in pairs], [start for _, start in pairs], threads)
        results.update(zip(ready, several, strict=True))
    except Exception:
        # One image did it. The others are fitted all the same.
        for name, (image, start) in ready.items():
            try:
                [results[name]] = fitter.block([image], [start], threads)
            except Exception as error:
                results[name] = _failed(fitter, error)
    return results


def _failed(fitter: Fitter, error: Exception) -> FitResult:
    expected = isinstance(error, (ValueError, OSError))
    reason = str(error) if expected else f"an unexpected {type(error).__name__}: {error}"
    return failed(fitter.model, str(fitter.algorithm), None, reason)


def _writer(task: Task) -> Write:
    """The function that writes what was asked for about a fit."""
    if not task.landmarks and not task.draw:
        return lambda number, fitted, image: None
    from pliant.data.formats import write_annotations

    names = names_of(task.images)

    def write(number: int, fitted: Fitted, image: Image) -> None:
        points = fitted.result.points
        if task.landmarks:
            file = landmark_file(task.output, names[number], task.landmarks)
            file.parent.mkdir(exist_ok=True)
            annotation = Annotation(path_of(fitted.image).name, points, size=fitted.size)
            write_annotations(file, [annotation], task.landmarks)
        if task.draw:
            from pliant.plots import write_overlay

            picture = picture_file(task.output, names[number])
            picture.parent.mkdir(exist_ok=True)
            write_overlay(picture, image, points)

    return write


def _write_others(task: Task) -> None:
    """What is made from the table."""
    import numpy as np

    from pliant.data.formats import write_annotations

    if task.csv:
        write_csv(task.csv_file, task.table)
    if task.annotations is None:
        return
    annotations = [
        Annotation(
            _name_for(row["image"], task.annotations),
            np.column_stack([row["x"], row["y"]]),
            size=(row["width"], row["height"]),
        )
        for row in rows_of(task.table)
        if row["x"] is not None
    ]
    write_annotations(task.annotations, annotations)


def _name_for(image: str, file: Path) -> str:
    """An image as a file that names it should: by the way from the file's folder, if it has no full path."""
    if "://" in image or os.path.isabs(image):
        return image
    return Path(os.path.relpath(image, file.parent)).as_posix()
