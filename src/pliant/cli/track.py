"""`pliant track`: landmarks in every frame of a video, as a table and drawn into the video."""

from __future__ import annotations

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
    ModelFile,
    Quiet,
    SettingsFile,
    Verbose,
    labels_of,
    warnings_said,
    with_settings,
)
from pliant.cli.starts import announce_detector
from pliant.settings import Tracking
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from pliant.arrays import Float64
    from pliant.bulk.video import VideoOutcome, VideoTask
    from pliant.progress import Progress
    from pliant.tracking import TrackedFrame


@with_settings("tracking", Tracking)
def track(
    *,
    model: ModelFile,
    video: Annotated[
        str, typer.Argument(help="A video, a folder of frames, or a pattern that matches frames.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder to write to. It is created if it does not exist."),
    ],
    box: Annotated[
        str | None,
        typer.Option(
            help="Where the object is in the first frame: left,top,right,bottom in pixels. Only this object "
            "is followed, unless you set --objects."
        ),
    ] = None,
    tracking: Tracking,
    every: Annotated[int, typer.Option(help="Use only every N-th frame.", min=1)] = 1,
    overlay: Annotated[bool, typer.Option(help="Write the video with the landmarks drawn on it.")] = True,
    draw_labels: DrawLabels = None,
    csv: Annotated[bool, typer.Option("--csv", help="Also write the table as CSV.")] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the results of an earlier run in OUTPUT, once all new results are complete.",
        ),
    ] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Follow objects through a video.

    The command writes track.parquet, with one row per object and frame, and overlay.mp4 to OUTPUT. Each fit
    starts where the last two frames predict the object. If an object is hidden or leaves the picture, its
    event is "lost", its points are NaN, and the command searches for it. When it comes back, it keeps its
    number. Ctrl-C keeps the frames that are done.
    """
    import pliant
    from pliant.bulk.video import VideoTask, checked_box, ended_early, run_video, video_refusal
    from pliant.data.addresses import as_source
    from pliant.data.video import read_video
    from pliant.progress import Progress

    quiet = quiet or as_json
    film = read_video(video, every)
    with warnings_said():
        loaded = pliant.load(model)
    first = None if box is None else checked_box(_corners(box))
    announce_detector(tracking.detector)
    task = VideoTask(film, output, overlay, labels_of(draw_labels, loaded, as_source(model)), csv)
    refused = video_refusal(task, overwrite)
    if refused:
        raise ValueError(refused)
    if dry_run:
        known = "an unknown number of" if film.count is None else str(film.count)
        say(f"would track {model} through {known} frames of {film.name}, {film.rate:g} per second")
        say(f"would write {', '.join(map(str, task.written))}")
        return
    if not quiet:
        announce_compiling()
        if verbose:
            for name, value in {**tracking.to_dict(), "every": every}.items():
                say(f"{name.replace('_', '-')}: {value}")
    with Progress(False if quiet else None) as bar:
        each = _watcher(bar, film.count, verbose and not quiet)
        done = run_video(task, loaded, tracking, first, overwrite=overwrite, jobs=jobs, each=each)
    if overlay and done.overlay is None:
        say("OpenCV can write neither MPEG-4 nor Motion JPEG here: no overlay was written", error=True)
    _say(task, done, quiet, as_json)
    if ended_early(film, done.frames):
        say(
            f"{film.name}: the video ended after {done.frames} of {film.count} frames; it may be damaged",
            error=True,
        )
        raise typer.Exit(INCOMPLETE)


def _watcher(bar: Progress, count: int | None, verbose: bool) -> Callable[[int, TrackedFrame], None]:
    """What moves the bar with every frame, and says what happens."""
    advance = bar.start("tracking frames", count or 0)
    before: dict[int, str] = {}

    def watch(number: int, record: TrackedFrame) -> None:
        nonlocal before
        for one in record.objects:
            if verbose and one.event != before.get(one.number):
                why = one.result.reason and f": {one.result.reason}"
                bar.say(f"frame {number}, {record.time:.2f} s, object {one.number} {one.event}{why}")
        before = {one.number: one.event for one in record.objects}
        advance(failed=record.event == "lost")

    return watch


def _say(task: VideoTask, done: VideoOutcome, quiet: bool, as_json: bool) -> None:
    import json

    tracked, restarted, lost = (done.events[event] for event in ("tracked", "restarted", "lost"))
    outcome: dict[str, Any] = {
        "video": task.video.name,
        "frames": done.frames,
        "frames_announced": task.video.count,
        "frames_found": done.found,
        "objects": done.objects,
        "tracked": tracked,
        "restarted": restarted,
        "lost": lost,
        "frames_per_second_fitting": round(done.frames / max(done.fitting, 1e-9), 1),
        "frames_per_second": round(done.frames / done.seconds, 1),
        "output": str(task.output),
    }
    if as_json:
        say(json.dumps(outcome, indent=2))
    elif not quiet:
        what = "the object" if done.objects == 1 else f"{done.objects} objects"
        say(f"found {what} in {done.found} of {counted(done.frames, 'frame')}; wrote {task.output}")
        if done.objects > 1:
            say(
                f"lost {counted(lost, 'time')}, counting each object and frame: see the columns object and event"
            )
        elif restarted > 1 or lost:
            say(
                f"started {counted(restarted, 'time')}, lost in {counted(lost, 'frame')}: see the column event"
            )
        say(
            f"{outcome['frames_per_second']} frames per second including reading and writing, "
            f"{outcome['frames_per_second_fitting']} for fitting alone"
        )


def _corners(box: str) -> Float64:
    import numpy as np

    try:
        left, top, right, bottom = (float(part) for part in box.split(","))
    except ValueError:
        raise ValueError(f"--box takes left,top,right,bottom, such as 120,80,260,230, not '{box}'.") from None
    return np.array([left, top, right, bottom])
