"""Our side of peers.py: train or fit as the task in the first file says, and leave the answer in the second."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pliant
from pliant.batch import fit_all
from pliant.fitting.fitter import make_fitter


def train(task: dict[str, Any]) -> dict[str, Any]:
    samples = [pliant.Sample(name, Path(name), Path(name).with_suffix(".pts")) for name in task["images"]]
    dataset = pliant.Dataset(tuple(samples), "peers")
    pliant.train(dataset[:4], jobs=1, progress=False, confidence=False)  # compiles
    begin = time.perf_counter()
    model = pliant.train(
        dataset, **task["settings"], size=task["size"], jobs=1, progress=False, confidence=False
    )
    seconds = time.perf_counter() - begin
    # Not ru_maxrss, which begins with the memory of the process that started this one.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6
    model.save(task["model"])
    basis = [level.appearance.components.shape[::-1] for level in model.levels]
    diagonal = float(np.hypot(*np.ptp(model.levels[-1].shape.mean, axis=0)))
    return {"seconds": seconds, "gb": peak, "basis": basis, "diagonal": diagonal}


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds an image, given one at a time and all at once; the best of the rounds."""
    fitter = make_fitter(
        pliant.load(task["model"]),
        algorithm=task["algorithm"],
        iterations=task["iterations"],
        # Every iteration is done: to converge early is not to be faster.
        stopping=pliant.Stopping(tolerance=0.0),
        jobs=1,
        trace=False,
        confidence=False,
    )
    images = [pliant.read_image(name) for name in task["images"]]
    work = list(zip(images, np.array(task["starts"]), strict=True))
    single = _best(lambda: [fitter.block([image], [start]) for image, start in work], task["rounds"])
    batch = _best(lambda: list(fit_all(fitter, work, len(work))), task["rounds"])
    fits = list(fit_all(fitter, work))
    points = [None if fit.status is pliant.Status.FAILED else fit.points.tolist() for fit in fits]
    return {"ms_single": single / len(work), "ms_batch": batch / len(work), "points": points}


def _best(run: Callable[[], object], rounds: int) -> float:
    run()  # compiles, and prepares the fitter
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times)


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({"train": train, "fit": fit}[asked["do"]](asked)))
