"""Fits that were compared with the landmarks, and the files they are written to."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Concise, Float64
from pliant.data.addresses import Source, as_source, ending, require_folder_of, written
from pliant.data.annotation import Size
from pliant.data.dataset import Sample
from pliant.data.names import readable, to_text
from pliant.data.ownership import RECORDS, refuse_foreign
from pliant.data.tables import coordinate_titles
from pliant.fitting.status import Status
from pliant.table import Row, write_table

ENDINGS = (".parquet", ".csv", ".json")
"""Of the files that records can be written to."""

_TOLD = ("image", "object", "algorithm", "start", "status", "error", "pixels", "units")
_AFTER = ("confidence", "cost", "seconds", "found")
"""What CSV and JSON say about a fit, before and after the distances and points."""


@dataclass(frozen=True, eq=False, repr=False)
class FitRecord(Concise):
    """One fit, compared with the landmarks.

    An object without a fit has an infinite error, and nan for points and distances.

    Attributes
    ----------
    image : str
        The name of the image.
    object : int
        The number of the annotated object in it, from 0.
    size : (int, int)
        Width and height of the image.
    algorithm : str
        The name of the algorithm.
    start : int
        The number of the start, from 0.
    status : Status
        How the fit ended.
    reason : str
        Why it failed, if it did.
    error : float
        The mean distance at the landmarks that count, over the size of the object.
    pixels : float
        The same in pixels of the image.
    units : float
        The same in the units of the landmark file; nan if it has no scale.
    distances : ndarray, shape (v,)
        The distance at every landmark, over the size of the object.
    points : ndarray, shape (v, 2)
        The landmarks of the fit.
    confidence : float
        The confidence of the fit; nan if the model is not calibrated.
    cost : float
        The cost of the fit.
    iterations : int
        The number of iterations.
    seconds : float
        How long the fit took.
    found : bool
        Whether the fit is on the object.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> found = pliant.evaluate(model, "annotated/", start="noise", starts=1, iterations=2, progress=False)
    >>> record = found.records[0]
    >>> record.points.shape, record.distances.shape, record.error < 0.2
    ((68, 2), (68,), True)

    """

    image: str
    object: int
    size: Size
    algorithm: str
    start: int
    status: Status
    reason: str
    error: float
    pixels: float
    units: float
    distances: Float64
    points: Float64
    confidence: float
    cost: float
    iterations: int
    seconds: float
    found: bool


def object_names(samples: Iterable[Sample]) -> dict[str, tuple[str, int]]:
    """By the name of a sample, what records call it: the name of its image, and the number of the object in it."""
    images: dict[object, str] = {}
    names: dict[str, tuple[str, int]] = {}
    seen: Counter[str] = Counter()
    for sample in samples:
        if sample.name not in names:
            image = images.setdefault(sample.image_source, sample.name)
            names[sample.name] = image, seen[image]
            seen[image] += 1
    return names


def errors_by_algorithm(records: Sequence[FitRecord]) -> dict[str, Float64]:
    """The errors `(k,)` of each algorithm, infinite where there is no fit."""
    errors: dict[str, list[float]] = {}
    for record in records:
        errors.setdefault(record.algorithm, []).append(record.error)
    return {algorithm: np.array(some) for algorithm, some in errors.items()}


def check_records_file(path: Source) -> None:
    """Before anything is fitted: can records be written there, and is nobody's work lost?"""
    if ending(path) not in ENDINGS:
        raise ValueError(f"{path}: fits are written to files that end in {', '.join(ENDINGS)}.")
    require_folder_of(path)
    refuse_foreign(path, *RECORDS)


def write_records(
    path: Path | str,
    records: Sequence[FitRecord],
    names: Sequence[str] = (),
    about: dict[str, Any] | None = None,
) -> None:
    """Write every fit to a file: the table of fits as Parquet, CSV with a column for each number, or JSON.

    `names` are those of the landmarks, if they have any, and `about` is what the Parquet file says about the run.
    """
    target = as_source(path)
    check_records_file(target)
    if ending(target) == ".parquet":
        write_table(target, map(_row, records), about or {}, names, "evaluation")
        return
    with written(target) as partial:
        if ending(target) == ".json":
            plain = [as_json(record) for record in records]
            partial.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        else:
            _write_csv(partial, records, names)


def _row(record: FitRecord) -> Row:
    """A record as the table of fits has it: what only a fit has is empty without one."""
    fitted = record.status is not Status.FAILED
    return {
        "image": record.image,
        "object": record.object,
        "status": str(record.status),
        "reason": readable(record.reason),
        "confidence": _known(record.confidence),
        "cost": record.cost if fitted else None,
        "iterations": record.iterations if fitted else None,
        "seconds": record.seconds if fitted else None,
        "width": record.size[0],
        "height": record.size[1],
        "x": record.points[:, 0].tolist() if fitted else None,
        "y": record.points[:, 1].tolist() if fitted else None,
        "algorithm": record.algorithm,
        "start": record.start,
        "error": _known(record.error),
        "distances": record.distances.tolist() if fitted else None,
        "pixels": _known(record.pixels),
        "units": _known(record.units),
        "found": record.found,
    }


def _plain(record: FitRecord) -> dict[str, Any]:
    """A record by the names that CSV and JSON have, with None for what is not a number."""
    told = {name: getattr(record, name) for name in _TOLD}
    after = {name: getattr(record, name) for name in _AFTER}
    lists = {"distances": record.distances.tolist(), "points": record.points.tolist()}
    return {name: _known(value) for name, value in {**told, **lists, **after}.items()} | {
        "image": to_text(record.image)
    }


def as_json(record: FitRecord) -> dict[str, Any]:
    """A record as JSON has it, with null for what is not a finite number."""
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in _plain(record).items()
    }


def _known(value: Any) -> Any:
    """A value, or values in lists, with None for what is not a number."""
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _write_csv(path: Path, records: Sequence[FitRecord], names: Sequence[str]) -> None:
    wide = coordinate_titles(len(records[0].points), names, ("x", "y", "distance"))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*_TOLD, *_AFTER, *wide])
        for row in map(_plain, records):
            points, distances = row.pop("points"), row.pop("distances")
            numbers = [n for (x, y), far in zip(points, distances, strict=True) for n in (x, y, far)]
            table.writerow([*row.values(), *numbers])
