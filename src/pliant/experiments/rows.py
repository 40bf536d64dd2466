"""Every fit of every experiment as a row: Parquet files in one folder, each there as a whole or not at all.

A file has the fits of one trial from one start number. Its name is that of its content: the settings, the landmarks
and the version that made it. So a run that was stopped knows what is left, and experiments share what they have in
common. Any reader of Parquet takes the folder as one table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.data.loading import short_name
from pliant.experiments.trial import Trial
from pliant.files import replaced
from pliant.version import __version__

FOLDER = "rows"

_COLUMNS = {
    "image": "string",
    "number": "int32",
    "start": "int32",
    "algorithm": "string",
    "train": "string",
    "test": "string",
    "size": "float64",
    "scales": "numbers",
    "shape_modes": "numbers",
    "appearance_variance": "numbers",
    "features": "string",
    "motion": "string",
    "mirror": "bool",
    "folds": "int32",
    "fold": "int32",
    "iterations": "numbers",
    "sampling": "float64",
    "order": "string",
    "noise": "float64",
    "tries": "int32",
    "seed": "int32",
    "points": "string",
    "status": "string",
    "reason": "string",
    "error": "float64",
    "start_error": "float64",
    "landmark_errors": "numbers",
    "found": "short numbers",
    "cost": "float64",
    "costs": "levels",
    "errors": "levels",
    "seconds": "float64",
}
"""The columns and their types; `numbers` is a list, and `levels` a list of lists: iterations at each level.

`found` are the landmarks, x and y in turn, in float32. `number` is that of the image in its set. Of all these,
`seconds` alone is not decided by the settings.
"""


@dataclass(frozen=True, eq=False)
class Fits:
    """The k fits of a label: errors over the size `(k,)`, where they began, and how they got there.

    `images (k,)` are names that are the same for all labels. `costs` and `courses` have an array
    `(k, iterations + 1)` for each level: the cost over the first one, and the error; a fit that ended early stays
    where it was. A level that was not reached has nan for its costs. `done (k, levels)` are the iterations that
    there were at each level.
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


def digest(trial: Trial, data: Mapping[str, str]) -> str:
    """The name of a trial's rows; `data` are fingerprints of what it is trained and tested on."""
    content = json.dumps({"version": __version__, **trial.identity(), **data}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:20]


def file_of(folder: Path, name: str, start: int) -> Path:
    return folder / FOLDER / f"{name}-{start}.parquet"


def set_name(sets: Sequence[str], part: str) -> str:
    """What people call sets: without their folders, and with the part of a manifest if there is one."""
    return ", ".join(map(short_name, sets)) + (f" ({part})" if part else "")


def settings_of(trial: Trial) -> dict[str, Any]:
    """The cells that are the same in all rows of a trial."""
    training = trial.training
    return {
        "algorithm": trial.algorithm,
        "train": set_name(training.sets, training.part),
        "test": set_name(trial.test, trial.test_part),
        "size": training.size,
        "scales": training.scales,
        "shape_modes": training.shape_modes,
        "appearance_variance": training.appearance_variance,
        "features": training.features,
        "motion": training.motion,
        "mirror": training.mirror,
        "folds": training.folds,
        "fold": training.fold,
        "iterations": trial.iterations,
        "sampling": trial.sampling,
        "order": trial.order,
        "noise": trial.noise,
        "tries": trial.tries,
        "seed": trial.seed,
        "points": trial.points,
    }


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "numbers": pa.list_(pa.float64()),
        "short numbers": pa.list_(pa.float32()),
        "levels": pa.list_(pa.list_(pa.float64())),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in _COLUMNS.items()])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden until it is whole: readers of the folder leave out names that begin with a dot.
    with replaced(path, alone=True) as partial:
        parquet.write_table(pa.Table.from_pylist(list(rows), schema), partial, compression="zstd")


def read_fits(folder: Path, trials: Sequence[tuple[Trial, str]]) -> Fits:
    """The fits of trials with the names of their rows, one after the other."""
    from pyarrow import parquet

    wanted = ["number", "start", "error", "start_error", "status", "seconds", "costs", "errors"]
    rows: list[dict[str, Any]] = []
    images: list[str] = []
    for trial, name in trials:
        for start in range(trial.starts):
            path = file_of(folder, name, start)
            if not path.is_file():
                raise ValueError(f"{path}: these rows are missing. Run the experiment again: it goes on.")
            some = parquet.read_table(path, columns=wanted).to_pylist()
            images += [f"{', '.join(trial.test)} {trial.test_part}: {row['number']}" for row in some]
            rows += some
    lengths = trials[0][0].iterations
    costs = tuple(_course(rows, "costs", level, length) for level, length in enumerate(lengths))
    return Fits(
        images=np.array(images, dtype=np.str_),
        starts=np.array([row["start"] for row in rows], dtype=np.int32),
        errors=np.array([row["error"] for row in rows]),
        start_errors=np.array([row["start_error"] for row in rows]),
        statuses=np.array([row["status"] for row in rows], dtype=np.str_),
        seconds=np.array([row["seconds"] for row in rows]),
        done=np.array([_done(row["costs"], len(lengths)) for row in rows]),
        costs=tuple(level / level[:, :1] for level in costs),
        courses=tuple(_course(rows, "errors", level, length) for level, length in enumerate(lengths)),
    )


def read_points(folder: Path, trials: Sequence[tuple[Trial, str]]) -> dict[int, Float64]:
    """The landmarks `(v, 2)` that the first starts of trials ended at, by the number of the image.

    Empty if the rows are of an earlier version, which did not keep them.
    """
    from pyarrow import parquet

    found: dict[int, Float64] = {}
    for _, name in trials:
        path = file_of(folder, name, 0)
        if "found" in parquet.read_schema(path).names:
            for row in parquet.read_table(path, columns=["number", "found"]).to_pylist():
                found[row["number"]] = np.asarray(row["found"], dtype=np.float64).reshape(-1, 2)
    return found


def _done(costs: list[list[float]], levels: int) -> list[int]:
    """Iterations at each level; none at those that were not reached."""
    return [max(len(costs[level]) - 1, 0) if level < len(costs) else 0 for level in range(levels)]


def _course(rows: list[dict[str, Any]], column: str, level: int, length: int) -> Float64:
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
