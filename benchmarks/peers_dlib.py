"""dlib's side of peers.py, run where dlib can be imported: a task in the first file, the answer in the second."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dlib
import numpy as np


def fit(task: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds an image; the best of the rounds, after one that is not counted."""
    predictor = train(**task["train"], confidence=False)
    work = list(zip(map(dlib.load_rgb_image, task["images"]), map(_box, task["starts"]), strict=True))
    times = []
    for _ in range(1 + task["rounds"]):
        begin = time.perf_counter()
        found = [predictor(image, box) for image, box in work]
        times.append(1e3 * (time.perf_counter() - begin) / len(work))
    return {"ms": min(times[1:]), "points": [[(part.x, part.y) for part in shape.parts()] for shape in found]}


def train(
    images: list[str], starts: list[list[list[float]]], truths: list[list[list[float]]]
) -> dlib.shape_predictor:
    """Boxes are those of starts as noisy as in fitting, so that it learns how far off its box can be."""
    options = dlib.shape_predictor_training_options()
    options.num_threads = 1
    shapes = [
        [dlib.full_object_detection(_box(start), [dlib.point(round(x), round(y)) for x, y in truth])]
        for start, truth in zip(starts, truths, strict=True)
    ]
    return dlib.train_shape_predictor([*map(dlib.load_rgb_image, images)], shapes, options)


def _box(points: list[list[float]]) -> dlib.rectangle:
    sides = (*np.min(points, axis=0), *np.max(points, axis=0))
    return dlib.rectangle(*(round(float(side)) for side in sides))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(fit(json.loads(Path(sys.argv[1]).read_text()))))
