"""Features: milliseconds for the region of a 150-pixel object, and the ratio to one Gaussian blur of it.

`view` is that region itself, grey and at half the size of a colour image.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np

import data
from pliant.appearance.features import feature_names, find_feature
from pliant.appearance.view import view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    print(data.machine())
    # Fits run one a core: what a task takes there is the time on a single one.
    cv2.setNumThreads(1)
    random = np.random.default_rng(0)
    image = random.random((180, 180)).astype(np.float32)
    photograph = random.integers(0, 256, (400, 400, 3), dtype=np.uint8)
    corners = np.array([[20.0, 20], [378, 378]])
    tasks: dict[str, Callable[[], object]] = {
        "one blur": lambda: cv2.GaussianBlur(image, (0, 0), 2.0),
        "view": lambda: view(photograph, corners, 0.5, margin=0),
    }
    for name in feature_names():
        tasks[name] = partial(find_feature(name).compute, image)
    best = dict.fromkeys(tasks, np.inf)
    # Taken in turns, and the best of each: what else the machine does then hits all alike.
    for _ in range(50):
        for name, task in tasks.items():
            begin = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - begin)
    rows = [
        {"feature": name, "ms": 1e3 * s, "ratio_to_blur": s / best["one blur"]} for name, s in best.items()
    ]
    for row in rows:
        print(f"{row['feature']:>12} {row['ms']:8.3f} ms {row['ratio_to_blur']:8.1f} x")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
