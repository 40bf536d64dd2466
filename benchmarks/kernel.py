"""Kernels: the time of one iteration at the finest level, over the time to read the basis A once.

Both are measured in the same run, in turns, on one thread. A model of the paper's size is trained if none is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import data
import pliant
from pliant.appearance.subspace import restrict
from pliant.fitting.algorithm import catalogue
from pliant.fitting.cost import weigh
from pliant.fitting.loop import (
    Problem,
    iterate,
)
from pliant.fitting.preparation import suited
from pliant.kernels.cpu import cpu_kernel
from pliant.kernels.system import Needs
from pliant.level import Level
from pliant.settings import Stopping

_ITERATIONS = 6
_BORDER = 40
_SYNTHETIC = 300


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a model file; one of faces is trained otherwise")
    parser.add_argument("--images", type=int, default=1, help="images in a batch")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # NumPy has read the number of threads already: one thread means starting again.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    print(data.machine())
    model = pliant.load(options.model) if options.model else _trained()
    tasks = _tasks(model, options.images)
    best = {name: [np.inf, np.inf] for name in tasks}
    for _ in range(options.rounds + 1):
        for name, (short, long) in tasks.items():
            for which, task in enumerate((short, long)):
                begin = time.perf_counter()
                task()
                best[name][which] = min(best[name][which], time.perf_counter() - begin)
    read = best.pop("read")[1]
    print(f"reading A once: {1e3 * read:.2f} ms")
    rows = []
    for name, (short_time, long_time) in best.items():
        seconds = (long_time - short_time) / _ITERATIONS / options.images
        rows.append({"algorithm": name, "ms": 1e3 * seconds, "ratio_to_read": seconds / read})
        print(f"{name:>16} {1e3 * seconds:9.2f} ms {seconds / read:7.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _trained() -> pliant.Model:
    with tempfile.TemporaryDirectory() as scratch:
        dataset = data.faces(Path(scratch), _SYNTHETIC)
        # Synthetic faces are more alike: it takes more of their variance to have as many modes.
        variance = 0.95 if len(dataset) == _SYNTHETIC else 0.75
        return pliant.train(dataset, appearance_modes=variance, progress=False, confidence=False)


def _tasks(model: pliant.Model, count: int) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """For each algorithm one iteration, and some more: the difference is what iterations cost."""
    level = model.levels[-1]
    subspace = restrict(level.appearance, level.channels, None)
    print(
        f"A: {subspace.basis.shape[1]:,} x {subspace.basis.shape[0]}; {count} image(s) at a time, one thread"
    )
    rng = np.random.default_rng(0)
    p = np.zeros((count, level.shape.parameters))
    p[:, 2:4] = _BORDER * np.sqrt(level.shape.landmarks)
    c = rng.normal(size=(count, level.appearance.modes)) * np.sqrt(level.appearance.eigenvalues) / 4
    images = [_image(level, own, rng) for own in c]
    everything = cpu_kernel(level, subspace, None, Needs(moving_basis=True))
    read = partial(np.array(subspace.basis).sum, dtype=np.float32)
    tasks: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {"read": (read, read)}
    for entry in catalogue():
        weights = weigh(entry.algorithm.cost, level.shape.eigenvalues, subspace.variances, subspace.noise)
        problem = Problem(
            suited(everything, entry.algorithm, weights),
            level.motion,
            level.shape,
            weights,
            entry.algorithm,
            Stopping(tolerance=0.0, clamp=True),
        )
        first = c if weights.solves_appearance else np.zeros_like(c)
        run = partial(iterate, problem, images, p, first, every_cost=False)
        if run(1 + _ITERATIONS).iterations != [1 + _ITERATIONS] * count:
            print(f"{entry.name} left the image: not timed")
            continue
        tasks[entry.name] = (partial(run, 1), partial(run, 1 + _ITERATIONS))
    return tasks


def _image(level: Level, appearance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the model has in mind, with some noise: an image on which every algorithm stays where it is."""
    height, width = level.motion.frame.shape
    image = np.zeros((height + 2 * _BORDER, width + 2 * _BORDER, level.channels), dtype=np.float32)
    x, y = level.motion.frame.pixels.T + _BORDER
    image[y, x] = level.appearance.instance(appearance).reshape(-1, level.channels)
    return image + 0.01 * rng.random(image.shape, dtype=np.float32)


if __name__ == "__main__":
    main()
