"""The end of a run: what is complete goes to where it belongs, and files for people are made from the table."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from pliant.bulk.files import CSV, FLAGGED, Earlier, Task, files_of_rows, others_of
from pliant.bulk.image_files import FOLDERS
from pliant.bulk.rows import write_csv, write_flagged
from pliant.data.addresses import Source, as_source, join, parent, remove, written
from pliant.data.annotation import Annotation
from pliant.table import TABLE, rows_of, write_table


def put_in_place(staged: Path, output: Path, head: Mapping[str, Any], earlier: Earlier) -> None:
    """Move what is complete to where it belongs, and take away what the last run wrote and this one does not.

    Stopped at any point, it can be done again: the table of the last run, which says what is to go, stays until
    nothing of it is left to do.
    """
    remove_stale(staged / TABLE, output, head, earlier)
    move_image_files(staged, output)
    os.replace(staged / TABLE, output / TABLE)
    with suppress(OSError):  # Somebody has put something else there.
        staged.rmdir()


def remove_stale(table: Source, output: Source, head: Mapping[str, Any], earlier: Earlier) -> None:
    """Remove the files of the last run that the run of this table does not write."""
    if earlier.finished is None:
        return
    last = earlier.written | others_of(output, {**earlier.finished, "annotations": None})
    if last:
        kept = files_of_rows(output, head, rows_of(table, ["image", "object", "status"]))
        for stale in last - kept - others_of(output, head):
            remove(stale)


def move_image_files(staged: Path, output: Path) -> None:
    """Move landmark files and pictures to their places; somebody else may be doing so."""
    for folder in FOLDERS:
        if (staged / folder).is_dir():
            (output / folder).mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                for name in os.listdir(staged / folder):
                    with suppress(FileNotFoundError):
                        _move(staged / folder / name, output / folder / name)
                (staged / folder).rmdir()


def _move(file: Path, target: Path) -> None:
    try:
        os.replace(file, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # The folder of another shard may be on another disk.
        shutil.copyfile(file, target)
        file.unlink()


def write_more(task: Task, landmarks: int, names: Sequence[str], earlier: Earlier) -> None:
    """What is made from the table of a run that had finished, and was not asked for then."""
    assert earlier.finished is not None
    asked = {name: value for name, value in task.head().items() if name != "settings" and value}
    if {**earlier.finished, **asked} != earlier.finished:
        # The table knows which files are the run's.
        write_table(task.table, rows_of(task.table), {**earlier.finished, **asked}, names)
    write_others(task.output, task.head(), landmarks, names)


def write_others(output: Source, head: Mapping[str, Any], landmarks: int, names: Sequence[str]) -> None:
    """What is made from the table, each file as a whole or not at all."""
    from pliant.data.formats import format_for_ending, write_annotations

    table = join(output, TABLE)
    if head["csv"]:
        write_csv(join(output, CSV), table, landmarks, names)
    if head["flag_below"] is not None:
        write_flagged(join(output, FLAGGED), table, head["flag_below"])
    if head["annotations"] is None:
        return
    target = as_source(head["annotations"])
    annotations = [
        Annotation(
            _name_for(row["image"], target),
            np.column_stack([row["x"], row["y"]]),
            tuple(names),
            size=(row["width"], row["height"]),
            # Tables of earlier versions do not have it.
            hidden=None if row.get("hidden") is None else np.asarray(row["hidden"]) > 0,
            score=row.get("confidence"),
        )
        for row in rows_of(table)
        if row["x"] is not None
    ]
    if not annotations:
        remove(target)
        return
    with written(target, alone=True) as partial:
        write_annotations(partial, annotations, format_for_ending(partial))


def _name_for(image: str, file: Source) -> str:
    """An image as a file that names it should: by the way from the file's folder, if it has no full path."""
    folder = parent(file)
    if "://" in image or os.path.isabs(image) or not isinstance(folder, Path):
        return image
    return Path(os.path.relpath(image, folder)).as_posix()
