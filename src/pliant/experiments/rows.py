"""Every fit of every experiment as a row: Parquet files in one folder, each there as a whole or not at all.

A file has the fits of one trial from one start number. Its name is that of its content: the settings, the landmarks
and the version that made it. So a run that was stopped knows what is left, and experiments share what they have in
common. Any reader of Parquet takes the folder as one table.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.experiments.trial import Trial
from pliant.files import replaced
from pliant.table import Row, read_fits, read_head, rows_of, write_table
from pliant.table.reading import ROWS
from pliant.version import __version__


@dataclass(frozen=True, eq=False)
class Fits:
    """The k fits of a label: errors over the size `(k,)`, where they began, and how they got there.

    `images (k,)` are names that are the same for all labels. `costs` and `courses` have an array
    `(k, iterations + 1)` for each level: the cost over the first one, and the error; a fit that ended early stays
    where it was. A level that was not reached has nan for its costs. `done (k, levels)` are the iterations that
    there were at each level. `clocks` are what the seconds were measured with, where that is known.
    """

    images: NDArray[np.str_]
    starts: NDArray[np.int32]
    errors: Float64
    start_errors: Float64
    statuses: NDArray[np.str_]
    seconds: Float64
    done: Float64
    costs: tuple[Float64, ...]
    courses: tuple[Float64, ...]
    clocks: frozenset[str] = frozenset()


def digest(trial: Trial, data: Mapping[str, str]) -> str:
    """The name of a trial's rows; `data` are fingerprints of what it is trained and tested on."""
    content = json.dumps({"version": __version__, **trial.identity(), **data}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:20]


def file_of(folder: Path, name: str, start: int) -> Path:
    return folder / ROWS / f"{name}-{start}.parquet"


def settings_of(trial: Trial, name: str) -> dict[str, Any]:
    """The cells that are the same in all rows of a trial: its name, and what people group rows by.

    The head of the file has all settings.
    """
    return {
        "trial": name,
        "algorithm": trial.fitting.algorithm,
        "train": trial.train_name,
        "test": trial.test_name,
        "fold": trial.sets.fold if trial.sets.folds else None,
        "noise": trial.noise,
        "sampling": trial.fitting.sampling,
    }


def clock(threads: int) -> dict[str, Any]:
    """What the seconds of rows are measured with: the processor, and how many fits run side by side."""
    return {"processor": _processor(), "threads": threads}


@cache
def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def write_rows(
    path: Path,
    trial: Trial,
    rows: Iterable[Row],
    names: Sequence[str] = (),
    clock: Mapping[str, Any] | None = None,
) -> None:
    """Write the rows of a trial; `names` are those of the landmarks, and `clock` is what timed them."""
    head = {"pliant": __version__, "folds": trial.sets.folds, **trial.identity()}
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another run of the same shard may write the same rows at this moment: each has a file of its own until it is
    # whole, and the last one stays.
    with replaced(path) as partial:
        write_table(partial, rows, {**head, "clock": clock} if clock else head, names, "experiment")


def fits_of(folder: Path, trials: Sequence[tuple[Trial, str]]) -> Fits:
    """The fits of trials with the names of their rows, one after the other."""
    wanted = ["number", "start", "error", "start_error", "status", "seconds", "costs", "errors"]
    rows: list[Row] = []
    images: list[str] = []
    clocks: set[str] = set()
    for trial, name in trials:
        for start in range(trial.starts):
            path = file_of(folder, name, start)
            if not path.is_file():
                raise ValueError(f"{path}: these rows are missing. Run the same command again to continue.")
            some = list(rows_of(path, wanted))
            images += [f"{', '.join(trial.test)} {trial.test_part}: {row['number']}" for row in some]
            rows += some
            measured = read_head(path).get("clock")
            clocks |= {f"{measured['processor']}, {measured['threads']} at a time"} if measured else set()
    lengths = trials[0][0].iterations
    costs = tuple(_course(rows, "costs", level, length) for level, length in enumerate(lengths))
    return Fits(
        images=np.array(images, dtype=np.str_),
        starts=np.array([row["start"] for row in rows], dtype=np.int32),
        errors=np.array([row["error"] for row in rows]),
        start_errors=np.array([row["start_error"] for row in rows]),
        statuses=np.array([row["status"] for row in rows], dtype=np.str_),
        seconds=np.array([row["seconds"] or 0.0 for row in rows]),
        done=np.array([_done(row["costs"], len(lengths)) for row in rows]),
        costs=tuple(level / level[:, :1] for level in costs),
        courses=tuple(_course(rows, "errors", level, length) for level, length in enumerate(lengths)),
        clocks=frozenset(clocks),
    )


def read_points(folder: Path, trials: Sequence[tuple[Trial, str]]) -> dict[int, Float64]:
    """The landmarks `(v, 2)` that the first starts of trials ended at, by the number of the image.

    They are nan for a fit that failed. If all of a trial's fits did, it has none.
    """
    found: dict[int, Float64] = {}
    for _, name in trials:
        fits = read_fits(file_of(folder, name, 0))
        if fits["points"].size:
            found |= dict(zip(fits["number"].tolist(), fits["points"], strict=True))
    return found


def _done(costs: list[list[float]], levels: int) -> list[int]:
    """Iterations at each level; none at those that were not reached."""
    return [max(len(costs[level]) - 1, 0) if level < len(costs) else 0 for level in range(levels)]


def _course(rows: list[Row], column: str, level: int, length: int) -> Float64:
    """One number for every iteration `(k, length + 1)`, the last one for all that were not needed."""
    course = np.full((len(rows), length + 1), np.nan)
    for row, values in zip(course, rows, strict=True):
        reached = values[column]
        if level < len(reached) and len(reached[level]):
            known = reached[level][: length + 1]
            row[: len(known)] = known
            row[len(known) :] = known[-1]
        elif column == "errors":
            row[:] = values["error"]
    return course
