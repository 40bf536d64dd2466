"""How many objects are found in whole pictures, how many finds are none, and how long it takes.

Scenes are built from images that were held out: one to five of them, turned and resized, pasted into a busy
picture that is made of the surroundings of others. A find counts if one of its starts is within 0.3 of the object's
size, and a fit if its error is below 0.05.

python benchmarks/finding.py                            # faces of LFPW and Helen if they are there, else synthetic
python benchmarks/finding.py wings/ --scenes 40 --turned 180 --any-rotation
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

import data
import pliant
from pliant.arrays import Float64, Image
from pliant.data.dataset import Dataset, Sample
from pliant.fitting.fitter import make_fitter
from pliant.shape import shape_size
from pliant.starts.found import NothingFound
from pliant.starts.scan import make_object_search
from tables import print_table

_SIDES = 900, 700
_SMALLEST, _LARGEST = 0.07, 0.45
"""Sizes of objects, of the shorter side."""

_PIECES = 60
_NEAR, _GOOD, _TRUSTED = 0.3, 0.05, 0.5


class Scene(NamedTuple):
    """A picture `(h, w, 3)`, and the landmarks `(v, 2)` of the objects in it."""

    picture: Image
    truths: list[Float64]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="annotated images; faces if not given")
    parser.add_argument(
        "--model", type=Path, help="of other images than these; else trained on seven of eight"
    )
    parser.add_argument("--scenes", type=int, default=20)
    parser.add_argument(
        "--turned", type=float, default=10.0, help="deviation of the objects' angles, in degrees"
    )
    parser.add_argument("--any-rotation", action="store_true")
    parser.add_argument(
        "--no-judge", action="store_true", help="do not ask the network of the model, if it has one"
    )
    parser.add_argument("--most", type=int, default=12, help="finds in a picture that are fitted")
    options = parser.parse_args()
    print(data.machine())
    with tempfile.TemporaryDirectory() as scratch:
        every = data.faces(Path(scratch)) if options.folder is None else pliant.load_dataset(options.folder)
        rest = Dataset(tuple(s for k, s in enumerate(every) if k % 8), every.source)
        held = [s for k, s in enumerate(every) if k % 8 == 0]
        model = pliant.train(rest) if options.model is None else pliant.load(options.model)
        rng = np.random.default_rng(0)
        pieces = [piece for sample in rest[:200] for piece in _surroundings(sample)]
        scenes = [_scene(held, pieces, options.turned, rng) for _ in range(options.scenes)]
    print_table(
        [_measured(model, scenes, options)],
        {
            "objects": str,
            "found": "{:.3f}".format,
            "fitted": "{:.3f}".format,
            "trusted": "{:.3f}".format,
            "false_finds a picture": "{:.2f}".format,
            "false_trusted": str,
            "ms_to find": "{:.0f}".format,
        },
    )


def _measured(model: pliant.Model, scenes: list[Scene], options: argparse.Namespace) -> dict[str, Any]:
    look = make_object_search(model, options.most, 3, options.any_rotation, not options.no_judge)
    fitter = make_fitter(model, jobs=1, trace=False)
    found = fitted = trusted = false = false_trusted = objects = 0
    seconds = 0.0
    for picture, truths in scenes:
        begin = time.process_time()
        try:
            groups = look(picture)
        except NothingFound:
            groups = []
        seconds += time.process_time() - begin
        fits = fitter.block([picture] * len(groups), groups) if groups else []
        starts = np.array(
            [[min(_error(one, truth) for one in group) for truth in truths] for group in groups]
        )
        ends = np.array([[_error(fit.points, truth) for truth in truths] for fit in fits])
        sure = np.array([fit.confidence(_GOOD) > _TRUSTED for fit in fits], dtype=bool)
        objects += len(truths)
        if groups:
            found += int(np.sum(starts.min(axis=0) < _NEAR))
            fitted += int(np.sum(ends.min(axis=0) < _GOOD))
            trusted += int(np.sum(np.any((ends < _GOOD) & sure[:, None], axis=0)))
            false += int(np.sum(starts.min(axis=1) > _NEAR))
            false_trusted += int(np.sum(sure & (ends.min(axis=1) > _NEAR)))
    return {
        "objects": objects,
        "found": found / objects,
        "fitted": fitted / objects,
        "trusted": trusted / objects,
        "false_finds a picture": false / len(scenes),
        "false_trusted": false_trusted,
        "ms_to find": 1000 * seconds / len(scenes),
    }


def _error(points: Float64, truth: Float64) -> float:
    return float(np.linalg.norm(points - truth, axis=-1).mean() / shape_size(truth))


def _surroundings(sample: Sample) -> list[Image]:
    """What is left, right, above and below of the object, where there is something."""
    image, points = _coloured(sample.image()), sample.points()
    margin = 0.12 * np.ptp(points, axis=0)
    left, top = np.maximum(points.min(axis=0) - margin, 0).astype(int)
    right, bottom = (points.max(axis=0) + margin).astype(int)
    pieces = image[:, :left], image[:, right:], image[:top], image[bottom:]
    return [piece for piece in pieces if min(piece.shape[:2]) >= 20]


def _scene(held: list[Sample], pieces: list[Image], turned: float, rng: np.random.Generator) -> Scene:
    width, height = _SIDES
    picture: Any = rng.integers(0, 255, (height, width, 3)).astype(np.uint8)
    for _ in range(_PIECES if pieces else 0):
        piece: Any = pieces[rng.integers(len(pieces))]
        side = rng.uniform(80, 400) / min(piece.shape[:2])
        piece = np.rot90(cv2.resize(piece, None, fx=side, fy=side), rng.integers(4))
        x, y = rng.integers(-50, width), rng.integers(-50, height)
        part = picture[max(y, 0) : y + piece.shape[0], max(x, 0) : x + piece.shape[1]]
        part[:] = piece[max(-y, 0) :, max(-x, 0) :][: part.shape[0], : part.shape[1]]
    truths: list[Float64] = []
    taken = np.zeros((height, width), dtype=bool)
    for _ in range(rng.integers(1, 6)):
        sample = held[rng.integers(len(held))]
        for _ in range(20):
            truth = _pasted(picture, taken, sample, turned, rng)
            if truth is not None:
                truths.append(truth)
                break
    return Scene(picture, truths)


def _pasted(
    picture: Any, taken: Any, sample: Sample, turned: float, rng: np.random.Generator
) -> Float64 | None:
    """Where the landmarks are of a sample that was pasted, if the place that was drawn is free."""
    image, points = _coloured(sample.image()), sample.points()
    height, width = taken.shape
    target = min(taken.shape) * np.exp(rng.uniform(np.log(_SMALLEST), np.log(_LARGEST)))
    scale, angle = target / float(shape_size(points)), np.deg2rad(turned) * rng.normal()
    # Shrunk first, so that nothing is skipped.
    small: Any = cv2.resize(image, None, fx=min(scale, 1), fy=min(scale, 1), interpolation=cv2.INTER_AREA)
    ratio = np.array(small.shape[1::-1]) / image.shape[1::-1]
    points = (points + 0.5) * ratio - 0.5
    linear = max(scale, 1) * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    place = rng.uniform(0.1, 0.9, 2) * (width, height)
    offset = place - linear @ points.mean(axis=0)
    truth = points @ linear.T + offset
    affine = np.concatenate([linear, offset[:, None]], axis=1)
    covers = cv2.warpAffine(np.ones(small.shape[:2], dtype=np.uint8), affine, (width, height)) > 0
    inside = np.all((truth >= 1) & (truth <= (width - 2, height - 2)))
    if not inside or np.any(covers & taken):
        return None
    moved = cv2.warpAffine(small, affine, (width, height), borderMode=cv2.BORDER_REPLICATE)
    picture[covers] = moved[covers]
    taken |= covers
    return np.asarray(truth)


def _coloured(image: Image) -> Image:
    return np.ascontiguousarray(
        np.broadcast_to(image[:, :, None], (*image.shape, 3)) if image.ndim == 2 else image
    )


if __name__ == "__main__":
    main()
