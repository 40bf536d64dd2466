"""K-fold cross-validation on an object: the starting error and that of a few algorithms.

python benchmarks/folds.py ../shared/data/chest ../shared/data/wings
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import pliant
from pliant.data.dataset import Dataset
from pliant.fitting.start import perturbed
from pliant.metrics import normalised_error, point_subset, summarise


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--algorithm", default="po-asy-gn,ssd-asy-gn-sch,po-inv-gn")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--draw", type=Path, help="a folder for pictures of the median and the worst fits")
    parser.add_argument("--json", type=Path, help="write the rows here")
    options = parser.parse_args()
    rows = []
    for folder in options.folders:
        if not folder.is_dir():
            print(f"{folder} is not here: left out")
            continue
        rows += _object(folder, options)
    for row in rows:
        numbers = " ".join(
            f"{row[key]:8.4f}" for key in ("lt_0.02", "lt_0.03", "lt_0.04", "mean", "std", "median")
        )
        print(f"{row['object']:>8} {row['algorithm']:>16} {numbers}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _object(folder: Path, options: argparse.Namespace) -> list[dict[str, float | str]]:
    dataset = pliant.load_dataset(folder)
    # Files that follow each other often show the same subject: a random order spreads them over the folds.
    order = np.random.default_rng(0).permutation(len(dataset))
    errors: dict[str, list[float]] = {"start": []}
    for fold in range(options.folds):
        held = set(order[fold :: options.folds].tolist())
        train = Dataset(tuple(dataset[k] for k in range(len(dataset)) if k not in held), dataset.source)
        test = [dataset[k] for k in sorted(held)]
        model = pliant.train(train, progress=False)
        everything = point_subset("all", model.landmarks)
        truths = [sample.points() for sample in test]
        starts = [
            perturbed(model, truth, options.noise, np.random.default_rng([0, fold, k]))
            for k, truth in enumerate(truths)
        ]
        pairs = zip(starts, truths, strict=True)
        errors["start"] += [normalised_error(start, truth, everything) for start, truth in pairs]
        for name in options.algorithm.split(","):
            fits = pliant.fit(model, test, starts, algorithm=name, trace=True)
            found = [normalised_error(f.points, t, everything) for f, t in zip(fits, truths, strict=True)]
            errors.setdefault(name, []).extend(found)
            if options.draw and fold == 0:
                _draw(options.draw, f"{folder.name}-{name}", fits, test, found)
    return [
        {"object": folder.name, "algorithm": name, **summarise(values)} for name, values in errors.items()
    ]


def _draw(
    folder: Path, name: str, fits: list[pliant.FitResult], test: list[pliant.Sample], errors: list[float]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(errors)
    for label, k in (("median", order[len(order) // 2]), ("worst", order[-1])):
        fits[k].plot(test[k].image()).savefig(folder / f"{name}-{label}.png", dpi=80)


if __name__ == "__main__":
    main()
