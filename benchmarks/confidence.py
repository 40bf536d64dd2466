"""Whether confidence tells good fits from bad ones, and means what it says, on images that it was not learned from.

python benchmarks/confidence.py                     # trains on LFPW and Helen, tests on LFPW
python benchmarks/confidence.py --model faces.pliant --draw docs/pictures
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import data
import pliant
from pliant.arrays import Float64
from pliant.metrics import normalised_error, point_subset
from pliant.settings import DEFAULT_ALGORITHM
from pliant.starts.noise import perturbed
from tables import print_table

BOUNDS = (0.03, 0.04, 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a calibrated model; trained if not given")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05, 0.1], help="of the random starts")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--algorithm", default=DEFAULT_ALGORITHM)
    parser.add_argument("--draw", type=Path, help="a folder for the reliability and the ROC curves")
    options = parser.parse_args()
    print(data.machine())
    with tempfile.TemporaryDirectory() as scratch:
        if options.model is None:
            faces = data.faces(Path(scratch) / "train")
            model = pliant.train(faces)
        else:
            model = pliant.load(options.model)
        (folder,) = data.folders("lfpw/testset", synthetic_count=60, scratch=Path(scratch) / "test")
        images = pliant.load_dataset(folder)
        rows, kept = [], {}
        for noise in options.noise:
            errors, scores, covered = _fits(model, images, noise, options)
            kept[noise] = errors, scores
            for number, bound in enumerate(BOUNDS):
                rows.append(_row(noise, bound, errors, scores[number], covered))
    print_table(
        rows,
        {
            "noise": "{:g}".format,
            "bound": "{:g}".format,
            "good_share": "{:.3f}".format,
            "mean_confidence": "{:.3f}".format,
            "area_under ROC": "{:.3f}".format,
            "calibration_error": "{:.3f}".format,
            "covered_50 %": "{:.3f}".format,
            "covered_90 %": "{:.3f}".format,
        },
    )
    if options.draw is not None:
        _draw(options.draw, kept)


def _fits(
    model: pliant.Model, images: pliant.Dataset, noise: float, options: argparse.Namespace
) -> tuple[Float64, Float64, Float64]:
    """Errors `(k,)`, confidence at each bound `(3, k)`, and which landmarks are in their ellipses `(2, k, v)`."""
    every = point_subset("all", model.landmarks)
    truths = [sample.points() for sample in images for _ in range(options.starts)]
    starts = [
        perturbed(model, truth, noise, np.random.default_rng([0, k // options.starts, k % options.starts]))
        for k, truth in enumerate(truths)
    ]
    work = [sample for sample in images for _ in range(options.starts)]
    fits = pliant.fit(model, work, starts, algorithm=options.algorithm, trace=False)
    errors = np.array(
        [normalised_error(fit.points, truth, every) for fit, truth in zip(fits, truths, strict=True)]
    )
    scores = np.array([[fit.confidence(bound) for fit in fits] for bound in BOUNDS])
    distances = []
    for fit, truth in zip(fits, truths, strict=True):
        if fit.covariance is not None:
            off = fit.points - truth
            distances.append(np.einsum("vi,vij,vj->v", off, np.linalg.inv(fit.covariance), off))
    # Squared distances of a Gaussian in the plane: half of them are below 1.386, nine in ten below 4.605.
    covered = np.array([np.asarray(distances) < 1.386, np.asarray(distances) < 4.605])
    return errors, scores, covered


def _row(noise: float, bound: float, errors: Float64, scores: Float64, covered: Float64) -> dict[str, object]:
    good = errors < bound
    return {
        "noise": noise,
        "bound": bound,
        "good_share": good.mean(),
        "mean_confidence": scores.mean(),
        "area_under ROC": _area(scores, good) if 0 < good.sum() < len(good) else None,
        "calibration_error": _calibration_error(scores, good),
        "covered_50 %": covered[0].mean(),
        "covered_90 %": covered[1].mean(),
    }


def _area(scores: Float64, good: Float64) -> float:
    """The probability that a good fit has a higher score than a bad one."""
    higher = scores[good][:, None] - scores[~good][None, :]
    return float(np.mean((higher > 0) + 0.5 * (higher == 0)))


def _calibration_error(scores: Float64, good: Float64, bins: int = 10) -> float:
    """Mean distance between confidence and share of good fits, over bins with equally many fits."""
    parts = np.array_split(np.argsort(scores), bins)
    return float(sum(len(p) * abs(scores[p].mean() - good[p].mean()) for p in parts) / len(scores))


def _draw(folder: Path, kept: dict[float, tuple[Float64, Float64]]) -> None:
    from pliant.plots import plot_reliability, plot_roc

    errors = np.concatenate([errors for errors, _ in kept.values()])
    scores = np.concatenate([scores[BOUNDS.index(0.04)] for _, scores in kept.values()])
    plot_reliability(scores, errors < 0.04).savefig(folder / "lfpw-reliability.svg")
    plot_roc(scores, errors < 0.04).savefig(folder / "lfpw-roc.svg")
    print(f"wrote lfpw-reliability.svg and lfpw-roc.svg to {folder}")


if __name__ == "__main__":
    main()
