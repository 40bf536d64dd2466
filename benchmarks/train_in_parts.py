"""Training in parts against training in one process: how near the models are, what is moved, and what it costs.

The crew here is one process that does every part by itself and pickles all that a cluster would send. Parts and
memory are made small, so that several sketches are merged and something is lost: what is printed is the tolerance
that docs/how-to/use-many-machines.md states. Angles are the largest between the kept subspaces of appearance.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import data
import pliant
from pliant.building import build, components
from pliant.crew import pairs
from pliant.data.dataset import Dataset
from pliant.data.validation import Validated
from pliant.model import Model
from pliant.pca import PCA
from pliant.settings import Training
from pliant.shape import shape_size
from pliant.starts.noise import random_start

_NOISES = (0.05, 0.1)


@dataclass
class Counted:
    """A crew of one that does one part at a time, and counts what would travel."""

    threads: int = 1
    sent: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Spent on counting."""

    def _count(self, work: Callable[..., Any], value: Any) -> None:
        begin = time.process_time()
        self.sent[work.__name__] = self.sent.get(work.__name__, 0) + len(pickle.dumps(value))
        self.seconds += time.process_time() - begin

    def each(self, work: Callable[..., Any], parts: Sequence[Any], *shared: Any) -> Iterator[tuple[int, Any]]:
        for number, part in enumerate(parts):
            (result,) = work([part], *shared, threads=self.threads)
            self._count(work, (part, result))
            yield number, result

    def merged(
        self, work: Callable[..., Any], parts: Sequence[Any], merge: Callable[..., Any], *shared: Any
    ) -> Any:
        found = dict(self.each(work, parts, *shared))
        for first, second in pairs(len(parts)):
            found[first] = merge(found[first], found.pop(second))
            # What was merged is sent on.
            self._count(work, found[first])
        return found[0]

    def one(self, work: Callable[..., Any], *arguments: Any) -> Any:
        result = work(*arguments, threads=self.threads)
        self._count(work, (arguments, result))
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=64, help="the least samples in a part")
    parser.add_argument("--only", help="the name of one data set")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    print(data.machine())
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, dataset, held, memory_gb in _sets(Path(scratch)):
            if options.only in (None, name):
                rows += _compared(name, dataset, held, memory_gb, options.parts)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _sets(scratch: Path) -> Iterator[tuple[str, Dataset, Dataset, float]]:
    """Name, samples to train on, samples to fit, and the memory of a worker."""
    lfpw = data.real("lfpw/trainset"), data.real("lfpw/testset")
    if lfpw[0] is None or lfpw[1] is None:
        print("data: synthetic faces (the real data is not here)")
        made = pliant.synthetic.faces(400, seed=1, image_size=128)
        yield "synthetic", made[:360], made[360:], 0.4
        return
    yield "LFPW", pliant.load_dataset(lfpw[0]), pliant.load_dataset(lfpw[1]), 2.0
    for name, memory_gb in (("chest", 0.3), ("wings", 0.25)):
        folder = data.real(name)
        if folder is not None:
            rest, held = pliant.load_dataset(folder).split(0.2, seed=1)
            yield name, rest, held, memory_gb


def _compared(name: str, dataset: Dataset, held: Dataset, memory_gb: float, least: int) -> list[Any]:
    settings = Training(minutes=0, detector=None, experts="none", confidence=False)
    valid = build.checked_samples(dataset, settings, jobs=1, progress=False)
    whole, seconds = _trained(valid, settings, 1)
    crew = Counted()
    usual = components._LEAST
    components._LEAST = least
    parted, longer = _trained(valid, settings.changed(memory_gb=memory_gb), crew)
    components._LEAST = usual
    how = parted.provenance["principal_components"]
    print(f"\n{name}: {len(dataset)} images in parts of {least}, {memory_gb:g} GB a worker, {how}")
    rows = []
    pairs_of_levels = zip(whole.levels, parted.levels, strict=True)
    several = [(f"level {one.scale:g}", one.appearance, two.appearance) for one, two in pairs_of_levels]
    for what, one, two in (*several, ("texture", whole.texture.pca, parted.texture.pca)):
        modes = min(one.modes, two.modes)
        one, two = one.truncated(modes), two.truncated(modes)
        off = float(np.max(np.abs(two.eigenvalues / one.eigenvalues - 1)))
        half = _angle(one.truncated(modes // 2), two.truncated(modes // 2)) if modes > 1 else 0.0
        rows.append({"set": name, "what": what, "modes": modes, "angle": _angle(one, two), "variances": off})
        print(
            f"  {what:<11} {modes:>4} modes, {_angle(one, two):6.2f} degrees, {half:5.2f} of the first half; "
            f"variances off by {off:.5f}; kept {one.variance_kept:.4f} and {two.variance_kept:.4f}"
        )
    rows.append({"set": name, **_fits(whole, parted, held)})
    print("  fits: " + ", ".join(f"{key} {value:.5f}" for key, value in list(rows[-1].items())[1:]))
    moved = {key: value / len(dataset) for key, value in crew.sent.items() if value / len(dataset) > 100}
    print("  bytes moved an image: " + ", ".join(f"{key} {value:,.0f}" for key, value in moved.items()))
    ratio = (longer - crew.seconds) / seconds
    print(f"  processor time over that of one process: {ratio:.2f}")
    return rows


def _trained(valid: Validated, settings: Training, jobs: Any) -> tuple[Model, float]:
    begin = time.process_time()
    model = build.model_of(valid, settings, jobs=jobs, progress=False, finds=False)
    return model, time.process_time() - begin


def _angle(one: PCA, two: PCA) -> float:
    a, b = (np.asarray(pca.components, dtype=np.float64) for pca in (one, two))
    return float(np.degrees(np.arcsin(min(1.0, np.linalg.norm(a - (a @ b.T) @ b, 2)))))


def _fits(whole: Model, parted: Model, held: Dataset) -> dict[str, float]:
    """How far fits of held-out samples by both models are apart, and off the truth, in sizes of the object."""
    apart, errors = [], []
    truths = [sample.points() for sample in held]
    images = [sample.image() for sample in held]
    for k, noise in enumerate(_NOISES):
        starts = [random_start(whole, truth, noise, 0, number, k) for number, truth in enumerate(truths)]
        fits = [pliant.fit(model, images, starts, jobs=1, trace=False) for model in (whole, parted)]
        for one, two, truth in zip(*fits, truths, strict=True):
            size = float(shape_size(truth))
            apart.append(np.linalg.norm(one.points - two.points, axis=-1).mean() / size)
            errors.append([np.linalg.norm(f.points - truth, axis=-1).mean() / size for f in (one, two)])
    here, there = np.mean(np.minimum(errors, 0.1), axis=0)
    return {
        "median_apart": float(np.median(apart)),
        "95_percent_apart": float(np.quantile(apart, 0.95)),
        "share_beyond_0.005": float(np.mean(np.array(apart) > 0.005)),
        "error_here": float(here),
        "error_in_parts": float(there),
    }


if __name__ == "__main__":
    main()
