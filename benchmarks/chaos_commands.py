"""The commands that `chaos.py` disturbs, and what a user finds in their folders, in a form that can be compared."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import PIL.Image

import pliant
from cluster_processes import Command, Said, Stage, expect
from pliant.container import read_container
from pliant.synthetic import write_faces
from pliant.synthetic.video import write_video
from pliant.table import rows_of

IMAGES, SIZE = 48, 64
QUICK = ("--iterations", "30,30", "--stopping-tolerance", "0", "--start", "centre")
PARTS = "fits.parts"
"""Where parts of a run on a cluster wait until all of them can be joined."""

Content = dict[str, str]
"""What is in a folder: every file by its name, as text that is the same if, and only if, what matters in it is."""


@dataclass
class Work:
    """A command that writes to a folder; `code` is that of success.

    `replacing` lets it replace what `older` settings have written there before, and `again` lets it go on after it
    was stopped. `reads` is a file that it reads, and `seconds` is how long it takes when nobody disturbs it.
    """

    name: str
    arguments: Callable[[Path], tuple[str, ...]]
    reads: Path
    older: tuple[str, ...] = ()
    replacing: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    seconds: float = 0.0
    new: Content = field(default_factory=dict)
    old: Content = field(default_factory=dict)
    earlier: Path = Path()

    def start(self, stage: Stage, output: Path, *more: str) -> Command:
        return stage.command(*self.arguments(output), "--quiet", *more)

    def finish(self, stage: Stage, output: Path, *more: str) -> Said:
        return expect(self.start(stage, output, *more).end(), 0)


def prepare(stage: Stage, wanted: Sequence[str]) -> list[Work]:
    """Images, a model and a video, and what each command makes of them when nobody disturbs it."""
    folder = stage.folder
    write_faces(folder / "annotated", 24, seed=1, image_size=SIZE)
    write_faces(stage.images, IMAGES, seed=2, image_size=SIZE)
    write_video(folder / "film", frames=60, seed=3, width=96)
    small = ("--size", "24", "--shape-modes", "2,5", "--no-confidence", "--detector", "none")
    model, annotated = str(stage.model), folder / "annotated"
    expect(stage.command("train", str(annotated), "-o", model, *small).end(), 0)
    settings = folder / "experiment.toml"
    settings.write_text(
        "[experiment]\nsize = 24.0\nscales = [0.5, 1.0]\nshape_modes = [2, 5]\niterations = [3, 3]\nstarts = 4\n"
        '[experiment.algorithms]\nalgorithms = ["po-inv-gn", "po-asy-gn", "ssd-inv-gn-sch"]\n'
    )
    sets = ("--train", str(annotated), "--test", str(stage.images), "--settings", str(settings))
    works: list[Work] = [
        Work(
            "train",
            lambda output: ("train", str(annotated), "-o", str(output / "model.pliant"), *small),
            sorted(annotated.glob("*.jpg"))[5],
            older=("--seed", "1", "--size", "20"),
        ),
        Work(
            "fit",
            lambda output: (
                "fit",
                model,
                str(stage.images),
                "-o",
                str(output),
                *QUICK,
                "--landmarks",
                "pts",
                "--csv",
            ),
            sorted(stage.images.glob("*.jpg"))[5],
            older=("--sampling", "0.5"),
            replacing=("--overwrite",),
            again=("--resume",),
        ),
        Work(
            "cluster",
            lambda output: (*works[1].arguments(output), "--cluster", "local:2"),
            sorted(stage.images.glob("*.jpg"))[5],
            older=("--sampling", "0.5"),
            replacing=("--overwrite",),
            again=("--resume",),
        ),
        Work(
            "track",
            lambda output: ("track", model, str(folder / "film" / "face.mp4"), "-o", str(output), "--csv"),
            folder / "film" / "face.mp4",
            older=("--every", "2"),
            replacing=("--overwrite",),
            again=("--overwrite",),
        ),
        Work(
            "experiment",
            lambda output: ("experiment", "algorithms", *sets, "-o", str(output)),
            sorted(stage.images.glob("*.jpg"))[5],
            older=("--noise", "0.1"),
        ),
    ]
    chosen = [work for work in works if work.name in wanted]
    for work in chosen:
        undisturbed, work.earlier = stage.name(work.name), stage.name(f"{work.name}-earlier")
        for output in (undisturbed, work.earlier):
            output.mkdir()
        work.finish(stage, work.earlier, *work.older)  # compiles
        begin = time.monotonic()
        work.finish(stage, undisturbed)
        work.seconds = time.monotonic() - begin
        work.old, work.new = content(work.earlier), content(undisturbed)
        print(f"{work.name}: undisturbed {work.seconds:.1f} s, {len(work.new)} files", flush=True)
    return chosen


def content(output: Path) -> Content:
    """What a user finds in a folder. A file that is not whole is an AssertionError."""
    found = {}
    for path in sorted(output.rglob("*")):
        parts = path.relative_to(output).parts
        # Hidden, and what says by its name that it is not finished.
        if path.is_file() and not any(
            part.startswith(".") or ".unfinished" in part or part == PARTS for part in parts
        ):
            try:
                found["/".join(parts)] = read(path)
            except Exception as error:
                raise AssertionError(f"{'/'.join(parts)} is not whole: {error!r}") from None
    return found


def read(path: Path) -> str:
    """A file as text, without the times and the place where it was made."""
    kind = path.suffix
    if kind == ".parquet":
        return json.dumps([without(row, "seconds") for row in rows_of(path)])
    if kind == ".pliant":
        with open(path, "rb") as file:
            arrays, numbers = read_container(path, file)
        digests = {
            name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in sorted(arrays.items())
        }
        pliant.load(path)
        return json.dumps([digests, without(numbers["provenance"], "trained")])
    if kind == ".csv":
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        assert len({len(line) for line in lines}) == 1, "its lines have different lengths"
        timed = {k for k, title in enumerate(lines[0]) if "second" in title or "ms" in title.split()}
        return json.dumps([[cell for k, cell in enumerate(line) if k not in timed] for line in lines])
    if kind in (".mp4", ".avi"):
        film, frames = cv2.VideoCapture(str(path)), 0
        while film.read()[0]:
            frames += 1
        assert frames, "it has no frames"
        return f"{frames} frames"
    if kind in (".html", ".svg"):
        # Pages and drawings show times.
        assert path.read_text(encoding="utf-8").rstrip().endswith(f"</{kind[1:]}>"), "its end is missing"
        return "whole"
    if kind in (".png", ".jpg"):
        with PIL.Image.open(path) as image:
            image.load()
        return hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n"), "its last line is cut off"
    if kind == ".json":
        json.loads(text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("output"))


def without(row: Any, *names: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}


def check_whole(work: Work, output: Path) -> None:
    """Every file there is the old or the new version."""
    for name, found in content(output).items():
        known = [one[name] for one in (work.old, work.new) if name in one]
        assert found in known, f"{name} is neither the old nor the new version"


def check_new(work: Work, output: Path, kept: bool = False) -> None:
    """The folder has what an undisturbed run leaves; `kept` if rows of another experiment may stay beside it."""
    assert not (output / PARTS).exists(), "parts have stayed"
    found = content(output)
    if kept and work.name == "experiment":
        found = {name: value for name, value in found.items() if name in work.new}
    assert found.keys() == work.new.keys(), f"other files: {sorted(found.keys() ^ work.new.keys())}"
    other = [name for name, value in found.items() if value != work.new[name]]
    assert not other, f"not as undisturbed: {other[:5]}"
