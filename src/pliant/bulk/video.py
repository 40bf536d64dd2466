"""A video to a folder: the landmarks of every frame as a table, and drawn into the video."""

from __future__ import annotations

import csv
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.bulk.journal import only_one_writes
from pliant.bulk.overlay import OVERLAYS, overlay_writer
from pliant.data.tables import coordinate_titles
from pliant.data.video import Video
from pliant.files import real_path
from pliant.model import Model
from pliant.settings import Tracking
from pliant.table import Row, cells_of, table_writer
from pliant.table.reading import TRACK
from pliant.tracking import Event, Find, TrackedFrame, TrackedObject, track
from pliant.version import __version__

CSV = "track.csv"

_UNFINISHED = "track.unfinished"
"""The folder in the output where files are until they are whole."""

_AHEAD = 3
"""Frames that are read before they are needed."""


@dataclass(frozen=True)
class VideoTask:
    """A video, and what to write to the folder `output` beside the table `track.parquet`.

    `overlay` is the video with the landmarks drawn in and `labels` beside them, and `csv` the table once more.
    """

    video: Video
    output: Path
    overlay: bool = True
    labels: Sequence[str] = ()
    csv: bool = False

    @property
    def written(self) -> list[Path]:
        """What the task leaves, as the user will find it."""
        names = [TRACK] + [CSV] * self.csv + [next(iter(OVERLAYS))] * self.overlay
        return [self.output / name for name in names]


@dataclass(frozen=True)
class VideoOutcome:
    """How it went: of how many `frames` something was found in, what happened to the objects in them, and how many
    these are.

    `fitting` is how long it took to follow and to look for objects, and `seconds` how long all of it. `overlay` is
    where the video is, if there is one.
    """

    frames: int
    found: int
    objects: int
    events: Counter[str]
    fitting: float
    seconds: float
    overlay: Path | None


def checked_box(box: Floats) -> Float64:
    """A box (left, top, right, bottom) that has something in it; otherwise a ValueError says what is wrong."""
    left, top, right, bottom = box
    if not (right - left >= 1 and bottom - top >= 1):
        corners = ",".join(f"{value:g}" for value in box)
        raise ValueError(f"box={corners} is empty: left must be less than right, and top less than bottom.")
    return np.array([left, top, right, bottom], dtype=np.float64)


def video_refusal(task: VideoTask, overwrite: bool = False) -> str:
    """Why the task must not be done in this folder, as a sentence; empty if it may.

    Nothing is replaced but the files of an earlier run, and these only if it is asked for.
    """
    output = task.output
    if output.exists() and not output.is_dir():
        return f"{output}: this is a file, but the output must be a folder."
    earlier = (output / TRACK).is_file()
    # A run that was killed while it put its files in their places has left some of them there.
    ours = earlier or (output / _UNFINISHED / TRACK).is_file()
    for name in (CSV, *OVERLAYS):
        target = output / name
        if target.exists() and not (ours and real_path(target) != real_path(task.video.name)):
            return f"{target} would be replaced: write to another folder."
    if earlier and not overwrite:
        return (
            f"{output} has the results of an earlier run: replace them with overwrite=True, or write to "
            "another folder."
        )
    return ""


def run_video(
    task: VideoTask,
    model: Model,
    settings: Tracking,
    find: Find | Floats | None = None,
    *,
    overwrite: bool = False,
    jobs: int | None = None,
    each: Callable[[int, TrackedFrame], None] = lambda number, frame: None,
) -> VideoOutcome:
    """Follow objects through a video, and write what was found; `find` is that of `track`.

    `each` is called with the number and the record of every frame. Files are written to `output/track.unfinished`,
    and moved to `output` when they are whole. Whatever stops it, frames that are done are kept: in `output`; or in
    `output/track.unfinished` if there is an earlier run, which stays until the new one is complete, or if the disk
    fails. If no object is found in any frame, this is a ValueError.
    """
    refused = video_refusal(task, overwrite)
    if refused:
        raise ValueError(refused)
    film, output = task.video, task.output
    records = track(model, _ahead(film), find, settings, rate=film.rate, jobs=jobs)
    earlier, place = (output / TRACK).exists(), output / _UNFINISHED
    place.mkdir(parents=True, exist_ok=True)
    events: Counter[str] = Counter()
    numbers: set[int] = set()
    frames, found, fitting, reason, begin = 0, 0, 0.0, "", time.perf_counter()
    with only_one_writes(place), _put_when_whole(place, output, keep=not earlier), ExitStack() as stack:
        sinks = [stack.enter_context(sink) for sink in _sinks(task, model, settings, place)]
        for record in records:
            number = record.number * film.every
            for sink in (*sinks, each):
                sink(number, record)
            events.update(str(one.event) for one in record.objects)
            here = [one.number for one in record.objects if one.event is not Event.LOST]
            numbers.update(here)
            frames, found, fitting = frames + 1, found + bool(here), fitting + record.seconds
            reason = reason or record.result.reason
        stack.close()
        seconds = time.perf_counter() - begin
        if not found:
            raise ValueError(
                f"{film.name}: the object was found in none of {frames} frames. In the first: {reason} Use "
                "box=LEFT,TOP,RIGHT,BOTTOM to say where it is in the first frame."
            )
    overlay = next((output / name for name in OVERLAYS if (output / name).exists()), None)
    return VideoOutcome(
        frames, found, len(numbers), events, fitting, seconds, overlay if task.overlay else None
    )


Sink = Callable[[int, TrackedFrame], None]
"""What takes the frames, by their number in the video, as they come."""


def _sinks(task: VideoTask, model: Model, settings: Tracking, place: Path) -> Iterator[Any]:
    """What is written, each as a context that gives a sink."""
    yield _parquet(task, model, settings, place / TRACK)
    if task.csv:
        yield _csv(place / CSV, model.landmark_names)
    if task.overlay:
        yield overlay_writer(place, task.video.rate, task.labels)


@contextmanager
def _parquet(task: VideoTask, model: Model, settings: Tracking, path: Path) -> Iterator[Sink]:
    film = task.video
    head = {
        "video": film.name,
        "every": film.every,
        "settings": settings.to_dict(),
        "pliant": __version__,
    }
    with table_writer(path, head, model.landmark_names, "track", keep_when_stopped=True) as write:

        def add(number: int, record: TrackedFrame) -> None:
            for one in record.objects:
                write(_row(film, number, record, one))

        yield add


def _row(film: Video, number: int, record: TrackedFrame, one: TrackedObject) -> Row:
    name = str(film.files[record.number]) if film.files else film.name
    size = None if record.image is None else (record.image.shape[1], record.image.shape[0])
    return {
        **cells_of(name, one.result, size),
        "object": one.number,
        "frame": number,
        "time": round(record.time, 6),
        "event": str(one.event),
        "mismatch": None if np.isnan(one.mismatch) else float(one.mismatch),
    }


@contextmanager
def _csv(path: Path, names: Sequence[str]) -> Iterator[Sink]:
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)

        def write(number: int, record: TrackedFrame) -> None:
            for one in record.objects:
                result = one.result
                facts = {
                    "frame": number,
                    "time": round(record.time, 6),
                    "object": one.number,
                    "event": str(one.event),
                    "status": str(result.status),
                    "reason": result.reason,
                    "confidence": np.nan if one.event is Event.LOST else result.confidence(),
                    "cost": result.cost,
                    "mismatch": one.mismatch,
                    "iterations": result.iterations,
                    "seconds": result.seconds,
                }
                if file.tell() == 0:
                    rows.writerow([*facts, *coordinate_titles(len(result.points), names)])
                known = ["" if value != value else f"{value:.3f}" for value in result.points.ravel()]
                rows.writerow([*("" if value != value else value for value in facts.values()), *known])

        yield write


@contextmanager
def _put_when_whole(place: Path, output: Path, keep: bool) -> Iterator[None]:
    """Files that the block writes to an empty `place` go to `output` at its end.

    If it is stopped, they do so with `keep`, unless it is the disk that stopped it: they may be cut off anywhere.
    """
    for name in (TRACK, CSV, *OVERLAYS):
        (place / name).unlink(missing_ok=True)
    try:
        yield
    except OSError:
        raise
    except BaseException:
        if keep and (place / TRACK).exists():
            _put_in_place(place, output)
        raise
    _put_in_place(place, output)


def _put_in_place(place: Path, output: Path) -> None:
    """Move what is complete to where it belongs, and take away what the earlier run wrote and this one does not.

    The table is the last: as long as it is not there, the run has not finished.
    """
    for name in (CSV, *OVERLAYS, TRACK):
        if (place / name).exists():
            os.replace(place / name, output / name)
        else:
            (output / name).unlink(missing_ok=True)
    with suppress(OSError):  # Somebody has put something else there.
        place.rmdir()


def ended_early(film: Video, frames: int) -> bool:
    """Whether many frames are missing; containers may count a frame or two that are not there."""
    return film.count is not None and frames < film.count - max(2, film.count // 100)


def _ahead(frames: Iterable[Any]) -> Iterator[Any]:
    """The frames, decoded by another thread while one is fitted."""
    source, end = iter(frames), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(_AHEAD))
        while (frame := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, source, end))
            yield frame
