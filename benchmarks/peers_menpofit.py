"""menpofit's side of peers.py, run in its own environment: a task in the first file, the answer in the second.

menpo's points are (y, x). They are turned round here, so that peers.py sees (x, y) only.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import menpo.io
import menpofit.aam
import numpy as np
from menpo.feature import fast_dsift
from menpo.image import Image
from menpo.shape import PointCloud


def train(task: dict[str, Any]) -> dict[str, Any]:
    settings = task["settings"]
    begin = time.perf_counter()
    # Cropped, as in menpofit's tutorials: it would hold the features of whole images in memory otherwise.
    model = menpofit.aam.HolisticAAM(
        [_grey(name).crop_to_landmarks_proportion(0.3) for name in task["images"]],
        holistic_features=fast_dsift,
        diagonal=task["diagonal"],
        scales=settings["scales"],
        max_shape_components=settings["shape_modes"],
        max_appearance_components=task["appearance_modes"],
    )
    seconds = time.perf_counter() - begin
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6
    Path(task["model"]).write_bytes(pickle.dumps(model))
    basis = [appearance.components.shape[::-1] for appearance in model.appearance_models]
    return {"seconds": seconds, "gb": peak, "basis": basis}


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds an image without the first, which warms caches up."""
    # Read anew for every algorithm: fitters change the model that they are given.
    model = pickle.loads(Path(task["model"]).read_bytes())  # noqa: S301  Written by `train`, above.
    fitter = menpofit.aam.LucasKanadeAAMFitter(model, getattr(menpofit.aam, task["algorithm"]))
    for algorithm in fitter.algorithms:
        algorithm.eps = 0.0  # every iteration is done, as on our side
    times, points = [], []
    for image, start, offset in map(_near_start, task["images"], task["starts"]):
        begin = time.perf_counter()
        try:
            found = fitter.fit_from_shape(image, start, max_iters=task["iterations"]).final_shape.points
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            found = np.full_like(start.points, np.nan)
        times.append(1e3 * (time.perf_counter() - begin))
        points.append((found + offset)[:, ::-1].tolist() if np.isfinite(found).all() else None)
    return {"ms": float(np.mean(times[1:] or times)), "points": points}


def _grey(name: str) -> Image:
    image = menpo.io.import_image(name)
    return image.as_greyscale("luminosity") if image.n_channels == 3 else image


def _near_start(name: str, points: list[list[float]]) -> tuple[Image, PointCloud, np.ndarray]:
    """The image around the start, the start in it, and the offset `(2,)` back to the whole image.

    menpofit computes features of whole images, and we around the start only: without this crop, which is not
    timed, it would be slow by the size of the background.
    """
    image = _grey(name)
    image.landmarks["start"] = PointCloud(np.array(points)[:, ::-1])
    near = image.crop_to_landmarks_proportion(0.5, group="start")
    start = near.landmarks["start"]
    return near, start, image.landmarks["start"].points[0] - start.points[0]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asked = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({"train": train, "fit": fit}[asked["do"]](asked)))
