"""Training on local clusters of 1, 2 and 4 processes beside one process: bits, angles, time, bytes moved, memory.

    python benchmarks/cluster_training.py [--workers 1 2 4]

The faces are those of LFPW if they are in ../shared/data, and synthetic ones otherwise. What a training does after
the model is built (search, experts, confidence) is left out: it is the same work on one worker. Bytes are those
that went through the loopback device of this machine; nothing else should use it meanwhile.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from pathlib import Path

import numpy as np

import data
import pliant
from cluster import watching
from pliant.data.loading import load_dataset
from pliant.model import Model
from train_in_parts import _angle


def bits(model: Model) -> str:
    """Sixteen digits of all numbers that fits of a model depend on."""
    digest = hashlib.sha256()
    for level in model.levels:
        for array in (
            level.shape.mean,
            level.shape.basis,
            level.appearance.mean,
            level.appearance.components,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    settings = {"preset": "quick", "confidence": False, "experts": "none", "progress": False}
    with tempfile.TemporaryDirectory() as scratch:
        faces = load_dataset(*data.folders("lfpw/trainset", synthetic_count=400, scratch=Path(scratch)))
        with watching() as alone:
            expected = pliant.train(faces, jobs=1, **settings)
        peak = max(one[1] for one in alone.seen)
        print(
            f"one process, {len(faces)} images: {alone.seconds:.1f} s, {peak:.0f} MB, bits {bits(expected)}",
            flush=True,
        )
        for workers in options.workers:
            with pliant.connect(f"local:{workers}") as cluster, watching() as found:
                model = pliant.train(faces, jobs=cluster, **settings)
            angle = max(
                _angle(one.appearance, two.appearance)
                for one, two in zip(expected.levels, model.levels, strict=True)
            )
            same = all(
                np.array_equal(one.shape.basis, two.shape.basis)
                for one, two in zip(expected.levels, model.levels, strict=True)
            )
            moved, largest = found.moved / len(faces) / 1e6, max(one[2] for one in found.seen)
            print(
                f"local:{workers}: {alone.seconds / found.seconds:.2f} times as fast; bits {bits(model)}; shapes "
                f"{'equal' if same else 'DIFFERENT'}, largest angle {angle:.2f} degrees; {moved:.2f} MB moved an "
                f"image; largest worker {largest:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
