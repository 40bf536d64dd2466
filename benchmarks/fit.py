"""Fits: milliseconds and error with fewer pixels, fewer iterations and two threads, beside the paper's runtimes.

Rows are measured in one run and in turns, with one thread for BLAS and OpenCV. No fit stops before it has used
its iterations, unless it is lost. Images are read before the clock starts. A single image is fitted alone, a
folder by `fit_all`; what is without features is the folder's time less that of the features alone. The error is
the mean distance at the 49 interior landmarks over the size of the face.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
import pliant
from pliant.arrays import Float64, Image, Int32
from pliant.batch import fit_all
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.metrics import normalised_error, point_subset
from pliant.settings import DEFAULT_ALGORITHM
from pliant.starts.noise import perturbed
from tables import print_table

_ALGORITHMS = ("po-asy-gn", "ssd-asy-gn-sch", "po-inv-gn", "ssd-inv-w", DEFAULT_ALGORITHM)
_SAMPLINGS = (1.0, 0.5, 0.25, 0.12)
_ITERATIONS = ((24, 16), (12, 8))
_NOISE = 0.05
_SYNTHETIC_FACES = 400
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"}
_PAPER = Path(__file__).resolve().parents[2] / "shared" / "reference" / "paper_runtime.csv"

_FORMATS = {
    **{"algorithm": "", "sampling_percent": "d", "iterations": "d"},
    **{"ms_single": ".1f", "ms_folder": ".1f", "ms_two_threads": ".1f", "speed_up": ".2f"},
    **{"fits_per_second": ".1f", "ms_features": ".2f", "ms_without_features": ".1f"},
    **{"error": ".4f", "error_ratio": ".2f", "paper_ms": ".0f"},
}

Row = dict[str, Any]
Work = list[tuple[Image, Float64]]
Paper = dict[tuple[str, int, int], float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a model file; one of faces is trained otherwise")
    parser.add_argument("--algorithm", default=",".join(_ALGORITHMS), help="names with commas between them")
    parser.add_argument("--images", type=int, default=32, help="images to fit")
    parser.add_argument("--rounds", type=int, default=2, help="times are the best of so many")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    if not _ONE_THREAD.items() <= os.environ.items():
        # NumPy has read the number of threads already: one thread means starting again.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | _ONE_THREAD)
    print(data.machine())
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2:
        print("this process may use one core only: two threads share it")
    paper = _paper()
    with tempfile.TemporaryDirectory() as scratch:
        if options.model:
            model = pliant.load(options.model)
        else:
            model = pliant.train(data.faces(Path(scratch) / "train", _SYNTHETIC_FACES), confidence=False)
        test = _test_images(options.images, Path(scratch) / "test")
        images = [sample.image() for sample in test]
        truths = [sample.points() for sample in test]
    error = partial(_error, truths, point_subset("interior49", model.landmarks))
    starts = [
        perturbed(model, truth, _NOISE, np.random.default_rng([0, number, 0]))
        for number, truth in enumerate(truths)
    ]
    work = list(zip(images, starts, strict=True))
    finest = model.levels[-1].appearance
    print(f"A: {finest.components.shape[1]:,} x {finest.modes}; {len(work)} images", flush=True)
    fitters = _fitters(model, options.algorithm.split(","))
    rows = [_described(fitter, paper) | {"error": error(fit_all(fitter, work))} for fitter in fitters]
    tasks = [_tasks(fitter, work) for fitter in fitters]
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", flush=True)
        for row, own in zip(rows, tasks, strict=True):
            _measure(row, own, len(work))
    finished = [_finished(row, rows) for row in rows]
    shown = {key: f"{{:{how}}}".format for key, how in _FORMATS.items() if key in finished[0]}
    print_table(finished, shown)
    if options.json:
        options.json.write_text(json.dumps(finished, indent=2))


def _paper() -> Paper | None:
    """The paper's milliseconds by algorithm, percentage of pixels and iterations."""
    if not _PAPER.is_file():
        print(f"the paper's runtimes are left out: {_PAPER.name} is not here")
        return None
    with _PAPER.open(newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [(row["algorithm"], int(row["sampling_percent"]), int(row["iterations"])) for row in rows]
    return dict(zip(keys, (float(row["milliseconds"]) for row in rows), strict=True))


def _test_images(count: int, scratch: Path) -> pliant.Dataset:
    """The last ones: a model of synthetic faces was trained on the first."""
    [folder] = data.folders("lfpw/testset", synthetic_count=_SYNTHETIC_FACES + count, scratch=scratch)
    return pliant.load_dataset(folder)[-count:]


def _fitters(model: pliant.Model, algorithms: list[str]) -> list[Fitter]:
    """One fitter a row, for one thread."""
    fitters = []
    for algorithm in algorithms:
        for sampling in _SAMPLINGS:
            first = make_fitter(
                model,
                algorithm=algorithm,
                iterations=_ITERATIONS[0],
                sampling=sampling,
                stopping=pliant.Stopping(tolerance=0.0),
                jobs=1,
                trace=False,
                confidence=False,
            )
            fitters += [
                first.alike(settings=first.settings.changed(iterations=iterations))
                for iterations in _ITERATIONS
            ]
    return fitters


def _described(fitter: Fitter, paper: Paper | None) -> Row:
    key = (str(fitter.algorithm), round(100 * fitter.settings.sampling), sum(fitter.iterations))
    row = dict(zip(("algorithm", "sampling_percent", "iterations"), key, strict=True))
    return row if paper is None else row | {"paper_ms": paper.get(key)}


def _error(truths: list[Float64], subset: Int32, fits: Iterable[pliant.FitResult]) -> float:
    pairs = zip(fits, truths, strict=True)
    return float(np.mean([normalised_error(fit.points, truth, subset) for fit, truth in pairs]))


def _tasks(fitter: Fitter, work: Work) -> dict[str, Callable[[], object]]:
    two_threads = fitter.alike(jobs=2)
    levels = fitter.model.levels
    return {
        "ms_single": lambda: [fitter.block([image], [start]) for image, start in work],
        "ms_folder": lambda: list(fit_all(fitter, work, len(work))),
        "ms_two_threads": lambda: list(fit_all(two_threads, work, len(work))),
        "ms_features": lambda: [len(fitter._views(level, [i], [s])) for i, s in work for level in levels],
    }


def _measure(row: Row, tasks: dict[str, Callable[[], object]], images: int) -> None:
    for key, task in tasks.items():
        begin = time.perf_counter()
        task()
        row[key] = min(row.get(key, np.inf), 1e3 * (time.perf_counter() - begin) / images)


def _finished(row: Row, rows: list[Row]) -> Row:
    """The row with what follows from its measurements, in the order of the table."""
    whole = next(other for other in rows if other["algorithm"] == row["algorithm"])
    derived = {
        "speed_up": row["ms_folder"] / row["ms_two_threads"],
        "fits_per_second": 1e3 / row["ms_folder"],
        "ms_without_features": row["ms_folder"] - row["ms_features"],
        "error_ratio": row["error"] / whole["error"],
    }
    together = row | derived
    return {key: together[key] for key in _FORMATS if key in together}


if __name__ == "__main__":
    main()
