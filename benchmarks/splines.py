"""Splines: milliseconds a fit with the compiled kernel, with NumPy's products in float32, and of an affine mesh.

All are measured in one run and in turns, on one thread, with the paper's settings: 150 pixels, 24 + 16 iterations,
one hypothesis, all pixels. The numbers of modes are those of the paper's models, so a few hundred images are enough
to train on. No fit stops before it has used its iterations. An image is fitted alone, except in `ms_folder`: eight
together. The largest difference is that of a coordinate between both ways to fit the same spline, in pixels of the
image.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import data
import pliant
from pliant.arrays import Float64, Image
from pliant.batch import fit_all
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.kernels.reference import ReferenceKernel
from pliant.starts.noise import perturbed
from tables import print_table

_ALGORITHMS = ("ssd-asy-gn-sch", "po-asy-gn", "po-inv-gn")
_TRAINED_ON = 500
_NOISE = 0.05
_BLOCK = 8
"""Images that are fitted together in a folder of many."""
_FORMATS = {
    **{"algorithm": "", "ms_single": ".1f", "ms_folder": ".1f", "ms_numpy": ".0f", "ms_affine": ".1f"},
    **{
        "times_faster": ".1f",
        "ratio_to_affine": ".2f",
        "seconds_preparing": ".2f",
        "largest_difference": ".4f",
    },
}

Row = dict[str, Any]
Work = list[tuple[Image, Float64]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", default=",".join(_ALGORITHMS), help="names with commas between them")
    parser.add_argument("--images", type=int, default=8, help="images to fit")
    parser.add_argument("--rounds", type=int, default=2, help="times are the best of so many")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # NumPy has read the number of threads already: one thread means starting again.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    print(data.machine())
    with tempfile.TemporaryDirectory() as scratch:
        count = _TRAINED_ON + options.images
        [folder] = data.folders("lfpw/trainset", synthetic_count=count, scratch=Path(scratch))
        faces = pliant.load_dataset(folder)
        splines, affine = (_trained(faces[:_TRAINED_ON], motion) for motion in ("thin-plate-spline", None))
        test = faces[-options.images :]
        work = [
            (sample.image(), perturbed(splines, sample.points(), _NOISE, np.random.default_rng([0, number])))
            for number, sample in enumerate(test)
        ]
    for level in splines.levels:
        modes, values = level.appearance.components.shape
        print(f"A: {values:,} x {modes}; {level.shape.modes} shape modes; {len(work)} images")
    rows = []
    for name in options.algorithm.split(","):
        row, tasks = _row(name, splines, affine, work)
        for _ in range(options.rounds):
            for key, task in tasks.items():
                begin = time.perf_counter()
                task()
                row[key] = min(row.get(key, np.inf), 1e3 * (time.perf_counter() - begin) / len(work))
        row["times_faster"] = row["ms_numpy"] / row["ms_single"]
        row["ratio_to_affine"] = row["ms_single"] / row["ms_affine"]
        rows.append({key: row[key] for key in _FORMATS})
        print(f"{name}: measured", flush=True)
    print_table(rows, {key: f"{{:{how}}}".format for key, how in _FORMATS.items()})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _trained(faces: pliant.Dataset, motion: str | None) -> pliant.Model:
    return pliant.train(
        faces,
        size=150,
        scales=(0.5, 1.0),
        shape_modes=(3, 12),
        appearance_modes=(113, 230),
        features="dsift",
        motion=motion or "piecewise-affine",
        confidence=False,
        progress=False,
    )


def _row(
    name: str, splines: pliant.Model, affine: pliant.Model, work: Work
) -> tuple[Row, dict[str, Callable[[], object]]]:
    """What is known of an algorithm before it is timed, and what to time."""
    compiled, mesh = _fitter(splines, name), _fitter(affine, name)
    begin = time.perf_counter()
    _ = compiled.prepared
    row = {"algorithm": name, "seconds_preparing": time.perf_counter() - begin}
    plain = _by_numpy(compiled)
    differences = [
        np.max(np.abs(one.points - other.points))
        for one, other in zip(_alone(compiled, work), _alone(plain, work), strict=True)
    ]
    return row | {"largest_difference": float(max(differences))}, {
        "ms_single": lambda: _alone(compiled, work),
        "ms_folder": lambda: list(fit_all(compiled, work, block=_BLOCK)),
        "ms_numpy": lambda: _alone(plain, work),
        "ms_affine": lambda: _alone(mesh, work),
    }


def _fitter(model: pliant.Model, algorithm: str) -> Fitter:
    return make_fitter(
        model,
        algorithm=algorithm,
        iterations=(24, 16),
        hypotheses=1,
        stopping=pliant.Stopping(tolerance=0.0),
        jobs=1,
        trace=False,
        confidence=False,
    )


def _by_numpy(fitter: Fitter) -> Fitter:
    """The same fitter, with the specification in float32: how splines were fitted before they had a kernel."""
    other = fitter.alike()
    vars(other)["prepared"] = [
        (level, subspace, replace(problem, kernel=ReferenceKernel(level, subspace, None, np.float32)))
        for level, subspace, problem in fitter.prepared
    ]
    return other


def _alone(fitter: Fitter, work: Work) -> list[pliant.FitResult]:
    return [fitter.block([image], [start])[0] for image, start in work]


if __name__ == "__main__":
    main()
