"""Tracking videos whose landmarks are known: error, losses, wrong finds, changes of number, and frames a second.

Synthetic faces that move, speak and blink while the light changes; a board passes in front of them, and later they
leave the picture and come back from the other side. Two synthetic faces that cross twice. And stills of a folder,
if one is given, each under a moving camera for 10 to 20 frames, every third of them dark, with cuts between them.
Nothing is told to the tracker but the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pliant
from data import machine
from pliant.arrays import Float64
from pliant.metrics import normalised_error, point_subset
from pliant.synthetic import faces
from pliant.synthetic.video import face_video, write_video
from pliant.tracking import Event, track
from tables import print_table
from videos import Shown, stills_with_cuts, two_that_cross

_FORMATS = {
    "video": "{}".format,
    "error": "{:.4f}".format,
    "error_worst": "{:.4f}".format,
    "objects_visible": "{:d}".format,
    "visible_found": "{:.1%}".format,
    "longest_lost": "{:d}".format,
    "found_wrongly": "{:d}".format,
    "numbers_given": "{:d}".format,
    "numbers_changed": "{:d}".format,
    "restarts": "{:d}".format,
    "followed_per_second": "{:.1f}".format,
    "frames_per_second": "{:.1f}".format,
}

_WRONG = 0.1
"""A fit with a larger error, of the object's size, is not on the object."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model; if not given, one of synthetic faces is trained")
    parser.add_argument("--faces", type=int, default=300, help="synthetic faces to train on")
    parser.add_argument("--frames", type=int, default=250, help="frames a video")
    parser.add_argument("--videos", type=int, default=3, help="synthetic videos of each kind")
    parser.add_argument("--stills", type=Path, help="a folder of annotated images for a video with cuts")
    parser.add_argument("--every", type=int, default=1, help="take every N-th of these images")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        file = options.model or Path(scratch) / "faces.pliant"
        if options.model is None:
            print(f"data: {options.faces} synthetic faces, videos of {options.frames} frames")
            pliant.train(faces(options.faces, seed=11), licence="synthetic", jobs=options.jobs).save(file)
        model = pliant.load(file)
        films = {f"one {seed}": _one(options.frames, seed) for seed in range(options.videos)}
        films |= {f"two {k}": list(two_that_cross(options.frames, k)) for k in range(options.videos)}
        if options.stills is not None:
            samples = pliant.load_dataset(options.stills)[options.every - 1 :: options.every]
            films["stills"] = list(stills_with_cuts(samples, options.frames))
        print_table([_judged(model, name, film, options.jobs) for name, film in films.items()], _FORMATS)
        if options.videos:
            print(f"command: {_command(file, Path(scratch), options)} frames a second, all in all")


def _one(frames: int, seed: int) -> list[Shown]:
    return [
        Shown(frame.image, frame.points[None], np.array([frame.visible]))
        for frame in face_video(frames, seed)
    ]


def _judged(model: pliant.Model, name: str, film: Sequence[Shown], jobs: int) -> dict[str, Any]:
    records = list(track(model, [frame.image for frame in film], jobs=jobs))
    count = len(film[0].points)
    errors, numbers = np.full((len(film), count), np.nan), np.full((len(film), count), -1)
    wrong = 0
    for k, (record, frame) in enumerate(zip(records, film, strict=True)):
        for one in record.objects:
            if one.event is Event.LOST:
                continue
            distances = [_error(one.result.points, truth) for truth in frame.points]
            nearest = int(np.argmin(distances))
            if distances[nearest] > _WRONG or frame.visible[nearest] < 0.3 or numbers[k, nearest] >= 0:
                wrong += 1
            else:
                errors[k, nearest], numbers[k, nearest] = distances[nearest], one.number
    seen = np.array([frame.visible > 0.99 for frame in film])
    found = numbers >= 0
    events = [one.event for record in records for one in record.objects]
    followed = [record.seconds for record in records if {o.event for o in record.objects} == {Event.TRACKED}]
    return {
        "video": name,
        "error": float(np.mean(errors[found & seen])),
        "error_worst": float(np.max(errors[found & seen])),
        "objects_visible": int(np.sum(seen)),
        "visible_found": float(np.mean(found[seen])),
        "longest_lost": max(_longest(seen[:, j] & ~found[:, j]) for j in range(count)),
        "found_wrongly": wrong,
        "numbers_given": len({one.number for record in records for one in record.objects}),
        "numbers_changed": sum(_changes(numbers[found[:, j], j]) for j in range(count)),
        "restarts": events.count(Event.RESTARTED),
        "followed_per_second": len(followed) / max(sum(followed), 1e-9),
        "frames_per_second": len(records) / sum(record.seconds for record in records),
    }


def _error(points: Float64, truth: Float64) -> float:
    return float(normalised_error(points, truth, point_subset("all", len(truth))))


def _longest(which: Any) -> int:
    """The length of the longest run of true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], which.astype(int), [0]])))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def _changes(numbers: Any) -> int:
    return int(np.count_nonzero(np.diff(numbers)))


def _command(file: Path, scratch: Path, options: argparse.Namespace) -> float:
    video = write_video(scratch / "video", options.frames, 0)
    command = [sys.executable, "-m", "pliant", "track", file, video, "-o", scratch / "out", "--json"]
    done = subprocess.run(
        [*map(str, command), "--jobs", str(options.jobs)], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout)["frames_per_second"])


if __name__ == "__main__":
    main()
