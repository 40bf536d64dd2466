"""Tracking synthetic videos whose landmarks are known: error, losses and restarts, and frames a second.

A model of other synthetic faces follows a face that moves, speaks and blinks while the light changes; a board
passes in front of it, and later it leaves the picture and comes back from the other side. The detector is one that
knows the truth, is up to 8 % beside it, and finds nothing while less than 60 % of the landmarks can be seen.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pliant
from data import machine
from pliant.arrays import Float64, Image
from pliant.metrics import normalised_error, point_subset
from pliant.synthetic import faces
from pliant.synthetic.video import write_video
from pliant.tracking import Event, TrackedFrame, read_video, track
from tables import print_table

_FORMATS = {
    "video": "{}".format,
    "error": "{:.4f}".format,
    "error_worst": "{:.4f}".format,
    "visible_found": "{:.1%}".format,
    "found_wrongly": "{:d}".format,
    "absences": "{:d}".format,
    "restarts": "{:d}".format,
    "frames_to_notice": "{:.1f}".format,
    "frames_to_recover": "{:.1f}".format,
}
_SPEED = {
    "jobs": "{:d}".format,
    "tracked_per_second": "{:.1f}".format,
    "fits_per_second": "{:.1f}".format,
    "command_per_second": "{:.1f}".format,
}


@dataclass(frozen=True)
class Truth:
    """Landmarks `(n, 68, 2)` and the share of them that can be seen `(n,)`."""

    points: Float64
    visible: Float64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model; if not given, one of synthetic faces is trained")
    parser.add_argument("--faces", type=int, default=300, help="synthetic faces to train on")
    parser.add_argument("--frames", type=int, default=250, help="frames a video")
    parser.add_argument("--videos", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        file = options.model or Path(scratch) / "faces.pliant"
        if options.model is None:
            print(
                f"data: {options.faces} synthetic faces, {options.videos} videos of {options.frames} frames"
            )
            pliant.train(faces(options.faces, seed=11), licence="synthetic", confidence=False).save(file)
        model = pliant.load(file)
        videos = [_video(Path(scratch) / str(seed), options.frames, seed) for seed in range(options.videos)]
        print_table([_judged(model, video, truth) for video, truth in videos], _FORMATS)
        print_table([_speed(file, model, *videos[0], jobs) for jobs in (1, 2)], _SPEED)


def _video(folder: Path, frames: int, seed: int) -> tuple[Path, Truth]:
    video = write_video(folder, frames, seed)
    with open(folder / "face.csv", newline="", encoding="utf-8") as table:
        rows = np.array(list(csv.reader(table))[1:], dtype=np.float64)
    return video, Truth(rows[:, 3:].reshape(-1, 68, 2), rows[:, 2])


def _followed(model: pliant.Model, video: Path, truth: Truth, jobs: int | None = None) -> list[TrackedFrame]:
    shown = 0
    rng = np.random.default_rng(0)

    def frames() -> Any:
        nonlocal shown
        for number, image in enumerate(read_video(video)):
            shown = number
            yield image

    def detect(image: Image) -> Float64 | None:
        if truth.visible[shown] < 0.6:
            return None
        low, high = truth.points[shown].min(axis=0), truth.points[shown].max(axis=0)
        return np.concatenate([low, high]) + 0.08 * np.tile(high - low, 2) * rng.uniform(-1, 1, 4)

    return list(track(model, frames(), detect, jobs=jobs))


def _judged(model: pliant.Model, video: Path, truth: Truth) -> dict[str, Any]:
    records = _followed(model, video, truth)
    every = point_subset("all", 68)
    errors = np.array(
        [
            normalised_error(r.result.points, points, every)
            for r, points in zip(records, truth.points, strict=True)
        ]
    )
    found = np.array([record.event is not Event.LOST for record in records])
    seen = truth.visible > 0.99
    # From the first frame in which less than half can be seen to the first in which all can.
    hidden = np.flatnonzero(np.diff((truth.visible < 0.5).astype(int)) == 1) + 1
    back = [int(begin + np.argmax(seen[begin:])) for begin in hidden]
    return {
        "video": video.parent.name,
        "error": float(np.mean(errors[found & seen])),
        "error_worst": float(np.max(errors[found & seen])),
        "visible_found": float(np.mean(found[seen])),
        "found_wrongly": int(np.sum(found & ((truth.visible < 0.3) | (errors > 0.1)))),
        "absences": len(hidden),
        "restarts": sum(record.event is Event.RESTARTED for record in records[1:]),
        "frames_to_notice": float(np.mean([_first(~found[at:]) for at in hidden])),
        "frames_to_recover": float(np.mean([_first(found[at:]) for at in back])),
    }


def _first(which: Any) -> float:
    """The number of the first that is true; infinite if none is."""
    return float(np.argmax(which)) if np.any(which) else np.inf


def _speed(file: Path, model: pliant.Model, video: Path, truth: Truth, jobs: int) -> dict[str, Any]:
    records = _followed(model, video, truth, jobs)
    tracked = [record for record in records if record.event is Event.TRACKED]
    low, high = truth.points[0].min(axis=0), truth.points[0].max(axis=0)
    box = ",".join(f"{value:.0f}" for value in (*low, *high))
    command = [sys.executable, "-m", "pliant", "track", file, video, "-o", video.parent / "out"]
    done = subprocess.run(
        [*map(str, command), "--box", box, "--jobs", str(jobs), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        "jobs": jobs,
        "tracked_per_second": len(tracked) / sum(record.result.seconds for record in tracked),
        "fits_per_second": len(records) / sum(record.result.seconds for record in records),
        "command_per_second": json.loads(done.stdout)["frames_per_second"],
    }


if __name__ == "__main__":
    main()
