"""How good a model is that was trained with no setting given: folds, learning curves, and sets that were not seen.

    python benchmarks/defaults.py folds ../shared/data/chest
    python benchmarks/defaults.py curve ../shared/data/wings --samples 10 20 40 80
    python benchmarks/defaults.py test ../shared/data/lfpw/trainset ../shared/data/helen/trainset \
        --test ../shared/data/lfpw/testset --points interior49

`folds` trains on four fifths and fits the rest, five times; `curve` does so with fewer samples to train on; `test`
fits another set. Starts are the truth, moved at random by 5 and by 10 % (`--start noise` of `pliant evaluate`).
`--preset paper` and `--preset quick` compare. Needs annotated images, and says so if they are not there.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

import pliant
from pliant.data.dataset import Dataset

NOISES = (0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("folds", "curve", "test"))
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--test", nargs="*", default=[])
    parser.add_argument("--samples", nargs="*", type=int, default=[10, 20, 40, 80])
    parser.add_argument("--only", type=int, default=5, help="Folds that are done.")
    parser.add_argument("--most-test", type=int, default=0, help="Samples of a fold that are fitted; 0: all.")
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--points", default="all")
    parser.add_argument("--preset")
    parser.add_argument("--confidence", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--save", type=Path, help="Keep the last model.")
    given = parser.parse_args()
    for source in (*given.sources, *given.test):
        if not Path(source).exists():
            sys.exit(f"{source}: the images are not here, and this benchmark needs them.")
    dataset = pliant.load_dataset(*given.sources)
    if given.what == "test":
        report(given, "test", [(dataset, pliant.load_dataset(*given.test))])
        return
    folds = dataset.folds(5)[: given.only]
    counts = given.samples if given.what == "curve" else [0]
    for count in counts:
        parts = [(rest if not count else some(rest, count), held) for rest, held in folds]
        report(given, f"{count or len(parts[0][0])} samples", parts)


def some(dataset: Dataset, count: int) -> Dataset:
    """So many of the samples, drawn at random."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(dataset))[:count])
    return Dataset(tuple(dataset[int(k)] for k in chosen), dataset.source)


def report(given: argparse.Namespace, label: str, parts: list[tuple[Dataset, Dataset]]) -> None:
    errors: dict[float, list[float]] = {noise: [] for noise in NOISES}
    seconds, fit_seconds, chosen = 0.0, [], ""
    for rest, held in parts:
        begin = time.perf_counter()
        model = pliant.train(rest, preset=given.preset, confidence=given.confidence, progress=False)
        seconds += time.perf_counter() - begin
        settings = model.settings
        chosen = (
            f"{settings.scales} {settings.shape_modes} {settings.appearance_modes} {settings.features[-1]}"
        )
        held = some(held, min(given.most_test or len(held), len(held)))
        for noise in NOISES:
            done = pliant.evaluate(
                model,
                held,
                evaluating=pliant.Evaluating(
                    start="noise", noise=noise, starts=given.starts, points=given.points
                ),
                progress=False,
            )
            errors[noise] += [record.error for record in done.records]
            fit_seconds.append(done.rows[-1]["ms"])
        if given.save:
            model.save(given.save)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    for noise, found in errors.items():
        values = np.array(found)
        shares = "  ".join(f"{np.mean(values < bound):.3f}" for bound in (0.02, 0.03, 0.04))
        print(
            f"{label:>12}  noise {noise:4.2f}  below .02 .03 .04: {shares}  mean {values.mean():.4f}  "
            f"median {np.median(values):.4f}  fits {len(values)}"
        )
    print(
        f"{'':>12}  training {seconds / len(parts):.0f} s a model, {np.mean(fit_seconds):.0f} ms a fit, "
        f"peak {memory:.1f} GB; last chosen: {chosen}",
        flush=True,
    )


if __name__ == "__main__":
    main()
