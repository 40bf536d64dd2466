"""`pliant track`: landmarks in every frame of a video, as a table and drawn into the video."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import (
    AsJson,
    DrawLabels,
    DryRun,
    Jobs,
    Quiet,
    SettingsFile,
    Verbose,
    labels_of,
    with_settings,
)
from pliant.cli.starts import announce_detector
from pliant.settings import Tracking
from pliant.terminal import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pliant.arrays import Float64, Floats, Image
    from pliant.data.video import Video
    from pliant.model import Model
    from pliant.tracking import Find, TrackedFrame

Sink = Callable[[int, "TrackedFrame"], None]
"""What takes the frames, by their number in the video, as they come."""

_TOGETHER = 250
"""Rows that are written to the Parquet file at once."""

_FRAMES_AHEAD = 3
"""Frames that are read before they are needed, and that may wait to be drawn."""

_OUTPUTS = ("track.parquet", "track.csv", "overlay.mp4", "overlay.avi")

_COLOURS = {"tracked": "#F0E442", "restarted": "#56B4E9", "lost": "#D55E00"}
"""Okabe and Ito's yellow, sky blue and vermilion."""


@with_settings("tracking", Tracking)
def track(
    *,
    model: Annotated[Path, typer.Argument(help="A model file.")],
    video: Annotated[str, typer.Argument(help="A video, a folder of frames, or a pattern of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to; made if need be.")],
    box: Annotated[
        str | None,
        typer.Option(help="Where the object is in the first frame: left,top,right,bottom in pixels."),
    ] = None,
    tracking: Tracking,
    every: Annotated[int, typer.Option(help="Take every N-th frame only.", min=1)] = 1,
    overlay: Annotated[bool, typer.Option(help="Write the video with the landmarks drawn in.")] = True,
    draw_labels: DrawLabels = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write the table as CSV as well.")] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace what an earlier run wrote to OUTPUT, once all of the new is there."
        ),
    ] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Follow an object through a video.

    OUTPUT gets track.parquet, a row a frame, and overlay.mp4. A frame starts where the last two say that the
    object will be. If it is hidden or has left, the frame's event is "lost", its points are not numbers, and the
    object is looked for again. Ctrl-C keeps the frames that are done.
    """
    import json

    import pliant
    from pliant.data.video import read_video
    from pliant.progress import Progress
    from pliant.tracking import track as follow

    quiet = quiet or as_json
    film = read_video(video, every)
    loaded = pliant.load(model)
    find = _finder(box, tracking, loaded)
    labels = labels_of(draw_labels, loaded, model)
    names = ["track.parquet"] + ["track.csv"] * csv + ["overlay.mp4"] * overlay
    _check_output(output, film, overwrite)
    if dry_run:
        known = "an unknown number of" if film.count is None else str(film.count)
        say(f"would track {model} through {known} frames of {film.name}, {film.rate:g} a second")
        say(f"would write {', '.join(str(output / name) for name in names)}")
        return
    if not quiet:
        announce_compiling()
    records = follow(
        loaded,
        _ahead(film),
        find,
        algorithm=tracking.algorithm,
        iterations=tracking.iterations,
        sampling=tracking.sampling,
        look_every=tracking.look_every,
        limits=tracking.limits,
        rate=film.rate,
        jobs=jobs,
    )
    if verbose and not quiet:
        for name, value in {**tracking.to_dict(), "every": every}.items():
            say(f"{name.replace('_', '-')}: {value}")
    # What an earlier run left stays until this one has all that is to come instead.
    place = output / "track.unfinished" if (output / "track.parquet").exists() else output
    place.mkdir(parents=True, exist_ok=True)
    events: Counter[str] = Counter()
    fitting, reason, before, begin = 0.0, "", "", time.perf_counter()
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(False if quiet else None))
        sinks = [stack.enter_context(_parquet(place / "track.parquet", loaded.landmark_names))]
        if csv:
            sinks.append(stack.enter_context(_csv(place / "track.csv", loaded.landmark_names)))
        if overlay:
            sinks.append(stack.enter_context(_drawn(place, film.rate, labels)))
        advance = bar.start("tracking frames", film.count or 0)
        for record in records:
            number = record.number * every
            for sink in sinks:
                sink(number, record)
            events[record.event] += 1
            fitting += record.result.seconds
            reason = reason or record.result.reason
            if verbose and not quiet and record.event != before:
                why = record.result.reason and f": {record.result.reason}"
                bar.say(f"frame {number}, {record.time:.2f} s, {record.event}{why}")
            before = record.event
            advance(failed=record.event == "lost")
    frames = events.total()
    seconds = time.perf_counter() - begin
    if events["lost"] == frames:
        raise ValueError(
            f"{film.name}: the object was found in none of {frames} frames. In the first: {reason} Say with --box "
            "where it is there."
        )
    if place != output:
        _put_in_place(place, output)
    outcome = {
        "video": film.name,
        "frames": frames,
        "frames_announced": film.count,
        "tracked": events["tracked"],
        "restarted": events["restarted"],
        "lost": events["lost"],
        "frames_per_second_fitting": round(frames / max(fitting, 1e-9), 1),
        "frames_per_second": round(frames / seconds, 1),
        "output": str(output),
    }
    if as_json:
        say(json.dumps(outcome, indent=2))
    elif not quiet:
        _say(outcome)
    if _ended_early(film, frames):
        say(
            f"{film.name}: the video ended after {frames} of {film.count} frames, and may be damaged",
            error=True,
        )
        raise typer.Exit(INCOMPLETE)


def _say(outcome: dict[str, Any]) -> None:
    found = outcome["tracked"] + outcome["restarted"]
    say(f"found the object in {found} of {outcome['frames']} frames; wrote {outcome['output']}")
    if outcome["restarted"] > 1 or outcome["lost"]:
        say(
            f"started {outcome['restarted']} times, lost in {outcome['lost']} frames: the column event says where"
        )
    say(
        f"{outcome['frames_per_second']} frames a second with reading and writing, "
        f"{outcome['frames_per_second_fitting']} fitting alone"
    )


def _finder(box: str | None, tracking: Tracking, model: Model) -> Find:
    """The box at first, and then, if it was told, the start; without a box, the start."""
    from pliant.starts.choice import find_starts

    corners = None if box is None else _corners(box)
    if corners is not None and tracking.start == "auto":
        return lambda image: corners
    announce_detector(tracking.detector)
    where = find_starts(model, tracking)
    if corners is None:
        return where
    asked = 0

    def find(image: Image) -> Floats:
        nonlocal asked
        asked += 1
        return corners if asked == 1 else where(image)

    return find


def _corners(box: str) -> Float64:
    import numpy as np

    try:
        left, top, right, bottom = (float(part) for part in box.split(","))
    except ValueError:
        raise ValueError(f"--box takes left,top,right,bottom, such as 120,80,260,230, not '{box}'.") from None
    if not (right - left >= 1 and bottom - top >= 1):
        raise ValueError(f"--box {box} is empty: left must be below right, and top below bottom.")
    return np.array([left, top, right, bottom])


def _check_output(output: Path, film: Video, overwrite: bool) -> None:
    """Refuse to replace anything but the files of an earlier run, and these if it is not asked for."""
    from pliant.files import real_path

    if output.exists() and not output.is_dir():
        raise ValueError(f"{output}: this is a file, and a folder is needed to write to.")
    earlier = (output / "track.parquet").is_file()
    for name in _OUTPUTS[1:]:
        target = output / name
        if target.exists() and not (earlier and real_path(target) != real_path(film.name)):
            raise ValueError(f"{target} would be replaced: write to another folder.")
    if earlier and not overwrite:
        raise ValueError(
            f"{output} has what an earlier run found: replace it with --overwrite, or write to another folder."
        )


def _put_in_place(place: Path, output: Path) -> None:
    """Move what is complete to where it belongs, and take away what the earlier run wrote and this one does not."""
    for name in _OUTPUTS:
        if (place / name).exists():
            os.replace(place / name, output / name)
        else:
            (output / name).unlink(missing_ok=True)
    with suppress(OSError):  # Somebody has put something else there.
        place.rmdir()


def _ended_early(film: Video, frames: int) -> bool:
    """Whether many frames are missing; containers may count a frame or two that are not there."""
    return film.count is not None and frames < film.count - max(2, film.count // 100)


def _ahead(frames: Iterable[Any]) -> Iterator[Any]:
    """The frames, decoded by another thread while one is fitted."""
    source, end = iter(frames), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, end) for _ in range(_FRAMES_AHEAD))
        while (frame := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, source, end))
            yield frame


@contextmanager
def _parquet(path: Path, names: Sequence[str]) -> Iterator[Sink]:
    """Rows are written in groups; however the block is left, the file can be read afterwards."""
    import pyarrow as pa
    from pyarrow import parquet

    from pliant.data.formats.parquet import names_metadata

    schema = pa.schema(
        [
            ("frame", pa.int64()),
            ("time", pa.float64()),
            ("event", pa.string()),
            ("status", pa.string()),
            ("reason", pa.string()),
            ("cost", pa.float64()),
            ("mismatch", pa.float64()),
            ("iterations", pa.int32()),
            ("seconds", pa.float64()),
            ("x", pa.list_(pa.float32())),
            ("y", pa.list_(pa.float32())),
        ],
        names_metadata(names),
    )
    waiting: list[dict[str, Any]] = []
    with parquet.ParquetWriter(path, schema) as file:

        def flush() -> None:
            rows = waiting[:]
            waiting.clear()
            if rows:
                file.write_table(pa.Table.from_pylist(rows, schema))

        def write(number: int, record: TrackedFrame) -> None:
            x, y = record.result.points.T
            waiting.append({**_facts(number, record), "x": x, "y": y})
            if len(waiting) >= _TOGETHER:
                flush()

        try:
            yield write
        finally:
            flush()


@contextmanager
def _csv(path: Path, names: Sequence[str]) -> Iterator[Sink]:
    import csv

    from pliant.data.tables import coordinate_titles

    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)

        def write(number: int, record: TrackedFrame) -> None:
            facts, points = _facts(number, record), record.result.points
            if file.tell() == 0:
                rows.writerow([*facts, *coordinate_titles(len(points), names)])
            known = ["" if value != value else f"{value:.3f}" for value in points.ravel()]
            rows.writerow([*("" if value != value else value for value in facts.values()), *known])

        yield write


def _facts(number: int, record: TrackedFrame) -> dict[str, Any]:
    result = record.result
    return {
        "frame": number,
        "time": round(record.time, 6),
        "event": str(record.event),
        "status": str(result.status),
        "reason": result.reason,
        "cost": result.cost,
        "mismatch": record.mismatch,
        "iterations": result.iterations,
        "seconds": result.seconds,
    }


@contextmanager
def _drawn(folder: Path, rate: float, labels: Sequence[str]) -> Iterator[Sink]:
    """The video with landmarks, drawn and written by another thread while the next frame is fitted."""
    import cv2
    import numpy as np

    writer: Any = None
    shown: NDArray[Any] | None = None
    waiting: deque[Future[None]] = deque()

    def draw(number: int, record: TrackedFrame) -> None:
        nonlocal writer, shown
        if record.image is not None:
            picture = _picture(number, record.image, record, labels)
            # OpenCV leaves out frames of another size without a word.
            if shown is not None and picture.shape != shown.shape:
                picture = np.asarray(cv2.resize(picture, shown.shape[1::-1]))
            shown = picture
        if shown is None:
            return
        if writer is None:
            writer = _opened(folder, rate, (shown.shape[1], shown.shape[0]))
        writer.write(shown)

    def write(number: int, record: TrackedFrame) -> None:
        waiting.append(pool.submit(draw, number, record))
        if len(waiting) > _FRAMES_AHEAD:
            waiting.popleft().result()

    with ThreadPoolExecutor(1) as pool:
        try:
            yield write
        finally:
            while waiting:
                waiting.popleft().result()
            if writer is not None:
                writer.release()


def _opened(folder: Path, rate: float, size: tuple[int, int]) -> Any:
    """A writer of MPEG-4, of Motion JPEG where OpenCV cannot write that, or a sentence."""
    import cv2

    for name, code in (("overlay.mp4", "mp4v"), ("overlay.avi", "MJPG")):
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*code), rate, size)
        if writer.isOpened():
            return writer
    say("OpenCV can write neither MPEG-4 nor Motion JPEG here: there will be no overlay", error=True)
    return writer


def _picture(number: int, image: Image, record: TrackedFrame, labels: Sequence[str]) -> NDArray[Any]:
    """The frame as OpenCV has it, blue first, with the landmarks and what happened."""
    from dataclasses import replace

    import cv2
    import numpy as np

    from pliant.plots import paint_overlay
    from pliant.plots.style import STYLE

    style = replace(STYLE, fit=_COLOURS[record.event])
    canvas = np.ascontiguousarray(
        paint_overlay(image, record.result.points, style, labels=labels)[:, :, ::-1]
    )
    colour = tuple(int(style.fit[k : k + 2], 16) for k in (5, 3, 1))
    scale = max(canvas.shape[0] / 600, 0.45)
    thick = max(1, round(1.5 * scale))
    for ink, width in (((0, 0, 0), thick + 2), (colour, thick)):
        place = (round(12 * scale), round(28 * scale))
        text = f"{number}  {record.event}"
        cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, ink, width, cv2.LINE_AA)
    return canvas
