"""What painted occluders do to fits, with and without experts and robust weights, and which landmarks are hidden.

python benchmarks/occlusion.py --model faces.pliant --images photographs/      # images that the model has not seen
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import data
import pliant
from pliant.arrays import Float64, Image
from pliant.experts.visibility import HIDDEN, deviations
from pliant.metrics import normalised_error, point_subset
from pliant.shape import shape_size
from pliant.starts.noise import perturbed
from tables import print_table

_SIDES = (0.15, 0.45)
"""Shortest and longest sides of a rectangle, as shares of the object's."""

_MORE = 0.04
"""How much more than asked for may be covered, as a share of the object."""

Covered = tuple[Image, Float64]
"""An image with occluders, and which landmarks are behind them `(v,)`."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--images", required=True, nargs="+", help="annotated images that the model has not seen"
    )
    parser.add_argument("--most", type=int, default=60, help="images, spread evenly over all")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.3, 0.4])
    parser.add_argument("--noise", type=float, default=0.05, help="of the random starts")
    parser.add_argument("--points", default="all", help="landmarks that count, as for pliant evaluate")
    parser.add_argument("--bounds", action="store_true", help="also try other bounds for what is hidden")
    options = parser.parse_args()
    print(data.machine())
    model = pliant.load(options.model)
    every = pliant.load_dataset(*options.images)
    samples = [every[k] for k in np.linspace(0, len(every) - 1, min(options.most, len(every))).astype(int)]
    truths = [sample.points() for sample in samples]
    images = [sample.image() for sample in samples]
    starts = [
        perturbed(model, truth, options.noise, np.random.default_rng([1, k]))
        for k, truth in enumerate(truths)
    ]
    rows, ratios = [], []
    for share in options.shares:
        painted = [
            occluded(image, truth, share, images[k - 1], np.random.default_rng([2, k]))
            for k, (image, truth) in enumerate(zip(images, truths, strict=True))
        ]
        for experts in (False, True) if model.expert is not None else (False,):
            for robust in (False, True):
                fits = pliant.fit(
                    model,
                    [image for image, _ in painted],
                    starts,
                    experts=experts,
                    robust=robust,
                    trace=False,
                    confidence=False,
                )
                rows.append(_row(share, experts, robust, fits, truths, painted, options.points))
        ratios += _ratios(fits, painted)
    print_table(
        rows,
        {
            "covered": "{:.0%}".format,
            "experts": str,
            "robust": str,
            "mean_error": "{:.4f}".format,
            "median": "{:.4f}".format,
            "below_.02": "{:.3f}".format,
            "below_.03": "{:.3f}".format,
            "below_.04": "{:.3f}".format,
            "covered_landmarks": "{:.3f}".format,
            "hidden_of covered": "{:.3f}".format,
            "hidden_of visible": "{:.3f}".format,
        },
    )
    if options.bounds and ratios:
        _print_bounds(ratios)


def occluded(image: Image, points: Float64, share: float, other: Image, rng: np.random.Generator) -> Covered:
    """The image with rectangles over a share of the object, of one grey or of another image's texture each."""
    import cv2

    height, width = image.shape[:2]
    hull = np.zeros((height, width), np.uint8)
    cv2.fillConvexPoly(hull, cv2.convexHull(points.astype(np.float32)).astype(np.int32), 1)
    inside, behind, painted = hull > 0, np.zeros((height, width), dtype=bool), image.copy()
    low, high = points.min(axis=0), points.max(axis=0)
    for _ in range(500):
        if np.sum(behind & inside) >= share * np.sum(inside):
            break
        half = rng.uniform(*_SIDES, 2) * (high - low) / 2
        middle = rng.uniform(low, high)
        left, top = np.clip((middle - half).astype(int), 0, (width, height))
        right, bottom = np.clip((middle + half).astype(int) + 1, 0, (width, height))
        more = behind.copy()
        more[top:bottom, left:right] = True
        if np.sum(more & inside) > (share + _MORE) * np.sum(inside):
            continue
        behind = more
        painted[top:bottom, left:right] = _stuff(painted[top:bottom, left:right], other, rng)
    places = np.clip(np.round(points).astype(int), 0, (width - 1, height - 1))
    return painted, np.asarray(behind[places[:, 1], places[:, 0]])


def _stuff(where: Image, other: Image, rng: np.random.Generator) -> Image:
    """What an occluder shows in place of `where`."""
    rows, columns = where.shape[:2]
    if rng.random() < 0.5 or rows > other.shape[0] or columns > other.shape[1]:
        return np.full_like(where, rng.integers(0, 256))
    top, left = rng.integers(0, other.shape[0] - rows + 1), rng.integers(0, other.shape[1] - columns + 1)
    seen = other[top : top + rows, left : left + columns]
    if seen.ndim > where.ndim:
        seen = seen.mean(axis=-1)
    return np.broadcast_to(seen[..., None] if seen.ndim < where.ndim else seen, where.shape)


def _row(
    share: float,
    experts: bool,
    robust: bool,
    fits: Sequence[pliant.FitResult],
    truths: Sequence[Float64],
    painted: Sequence[Covered],
    points: str,
) -> dict[str, object]:
    counting = point_subset(points, len(truths[0]))
    pairs = zip(fits, truths, strict=True)
    errors = np.array([normalised_error(fit.points, truth, counting) for fit, truth in pairs])
    behind = np.array([one for _, one in painted])
    told = all(fit.hidden is not None for fit in fits)
    hidden = np.array([fit.hidden if told else np.zeros(behind.shape[1], bool) for fit in fits])
    return {
        "covered": share,
        "experts": "yes" if experts else "no",
        "robust": "yes" if robust else "no",
        "mean_error": errors.mean(),
        "median": np.median(errors),
        **{f"below_{bound:.2f}".replace("0.", "."): np.mean(errors < bound) for bound in (0.02, 0.03, 0.04)},
        "covered_landmarks": behind.mean(),
        "hidden_of covered": hidden[behind].mean() if told and behind.any() else None,
        "hidden_of visible": hidden[~behind].mean() if told else None,
    }


def _ratios(fits: Sequence[pliant.FitResult], painted: Sequence[Covered]) -> list[tuple[Float64, Float64]]:
    """How far sightings deviate, over what is usual for their landmarks, and what is covered, fit by fit."""
    return [
        (
            deviations(fit.sightings, shape_size(fit.points)[None])[0]
            / fit.model.confidence.usual_deviations,
            behind,
        )
        for fit, (_, behind) in zip(fits, painted, strict=True)
        if fit.sightings is not None and fit.hidden is not None
    ]


def _print_bounds(ratios: Sequence[tuple[Float64, Float64]]) -> None:
    ratio, behind = (np.concatenate(part) for part in zip(*ratios, strict=True))
    print(f"\nother bounds than {HIDDEN:g}, all shares together:")
    rows = [
        {
            "bound": bound,
            "of covered": np.mean(ratio[behind] > bound),
            "of visible": np.mean(ratio[~behind] > bound),
        }
        for bound in (0.9, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
    ]
    print_table(rows, dict.fromkeys(rows[0], "{:.3f}".format))


if __name__ == "__main__":
    main()
