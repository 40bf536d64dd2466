"""`pliant fit`: from a model and any number of images to a table of landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.options import (
    AsJson,
    Cluster,
    DrawLabels,
    DryRun,
    Jobs,
    ModelFile,
    Part,
    Quiet,
    SchedulerFile,
    SettingsFile,
    Shard,
    Verbose,
    checked_labels,
    crew_told,
    warnings_said,
    with_settings,
)
from pliant.cli.outcomes import Done, say_outcome
from pliant.cli.starts import Boxes, announce_detector
from pliant.settings import Fitting
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pliant.bulk.files import Earlier
    from pliant.bulk.parts import Marker
    from pliant.bulk.prepare import Prepared
    from pliant.crew import Jobs as CrewJobs
    from pliant.progress import Progress
    from pliant.shards import Shard as Share
    from pliant.table import Row


@with_settings("fitting", Fitting)
def fit(
    *,
    model: ModelFile,
    images: Annotated[
        list[str],
        typer.Argument(
            help="Images, patterns such as 'faces/*.jpg', folders, manifests, or addresses of these "
            "(s3://...)."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The folder or address to write to. It is created if it does not exist."
        ),
    ],
    part: Part = None,
    boxes: Boxes = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that did not finish. Use the same settings.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the results of an earlier run in OUTPUT, once all new results are complete.",
        ),
    ] = False,
    landmarks: Annotated[
        str | None,
        typer.Option(
            help="Also write landmarks/NAME for each image, in a format such as pts or ljson. Further "
            "objects in an image are NAME.2, NAME.3.",
            metavar="FORMAT",
        ),
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(
            help="Also write all landmarks to one file, such as fits.json (COCO). The ending sets the format."
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Also write fits.csv: the table with a column for each coordinate.")
    ] = False,
    draw: Annotated[bool, typer.Option("--draw", help="Also draw pictures/NAME.png for each image.")] = False,
    draw_full: Annotated[
        bool,
        typer.Option(
            "--draw-full",
            help="Draw pictures at the full size of the image. Default: 600 pixels on the longer side.",
        ),
    ] = False,
    draw_crop: Annotated[
        bool, typer.Option("--draw-crop", help="Draw the object alone, with a border around it.")
    ] = False,
    draw_labels: DrawLabels = None,
    bound: Annotated[
        float,
        typer.Option(
            help="The column confidence is the probability that the error is below this share of the object's "
            "size: 0.04 is 4 %."
        ),
    ] = 0.04,
    flag_below: Annotated[
        float | None,
        typer.Option(help="List fits with a lower confidence than this for review, also in flagged.csv."),
    ] = None,
    fitting: Fitting,
    shard: Shard = None,
    cluster: Cluster = None,
    scheduler_file: SchedulerFile = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Fit a model to images and write a table of landmarks.

    The table is OUTPUT/fits.parquet, with one row per object. Read it with pliant.read_fits, or convert it.
    It holds all trusted objects, and at least one object per image: see --objects. If an image cannot be
    fitted, its row gives the reason, the other images are still fitted, and the exit code is 3. If the
    command is stopped, finished fits are kept: run the same command again with --resume.
    """
    import time

    from pliant import bulk
    from pliant.bulk.parts import is_begun
    from pliant.data.addresses import as_source
    from pliant.data.sources import find_images
    from pliant.shards import Shard as Share

    share = None if shard is None else Share.parse(shard)
    if share is not None and (cluster or scheduler_file):
        raise ValueError(f"shard={share} is for queues without Dask: give either a shard or a cluster.")
    silent = quiet or as_json
    if not silent:
        announce_compiling()
    if boxes is None and fitting.start in ("auto", "detector"):
        announce_detector(fitting.detector)
    target = as_source(output)
    with warnings_said():
        prepared = bulk.prepare(
            as_source(model),
            find_images(images, part),
            target,
            fitting,
            boxes=boxes,
            jobs=jobs,
            landmarks=landmarks or "",
            annotations=None if annotations is None else as_source(annotations),
            csv=csv,
            bound=bound,
            flag_below=flag_below,
        )
    labels = checked_labels(draw_labels, prepared.fitter.model, as_source(model))
    if draw or draw_full or draw_crop or labels:
        drawing = bulk.Drawing(draw_full, labels, draw_crop)
        prepared = replace(prepared, task=replace(prepared.task, draw=drawing))
    begin = time.perf_counter()
    asked = _Asked(resume, overwrite, dry_run, silent, verbose, as_json)
    alone = share is None and not cluster and not scheduler_file and isinstance(target, Path)
    if alone and not is_begun(target):
        before = _fit_alone(prepared, asked)
    else:
        before = _fit_in_parts(prepared, asked, share, partial(crew_told, jobs, cluster, scheduler_file))
    if before is not None:
        task, seconds = prepared.task, time.perf_counter() - begin
        done = Done(task.table, len(task.images), before, seconds, task.written, task.flag_below)
        say_outcome(done, quiet, as_json)


@dataclass(frozen=True)
class _Asked:
    """How a user wants a run to be done."""

    resume: bool
    overwrite: bool
    dry_run: bool
    silent: bool
    verbose: bool
    as_json: bool


def _fit_alone(prepared: Prepared, asked: _Asked) -> int | None:
    """Fit on this machine; how many images were done before, or None if nothing was to be done."""
    from pliant import bulk
    from pliant.fitting.status import Status
    from pliant.progress import Progress

    task, fitter = prepared.task, prepared.fitter
    earlier = bulk.look(task)
    refused = bulk.refusal(task, earlier, asked.resume, asked.overwrite)
    if refused:
        raise ValueError(refused)
    before = len(task.images) if asked.resume and bulk.has_finished(task, earlier) else earlier.done
    if asked.dry_run:
        _say_plan(prepared, earlier, len(task.images), before, asked)
        return None
    with Progress(False if asked.silent else None) as bar:
        _say_settings(prepared, asked, bar)
        advance = bar.start("fitting images", len(task.images), earlier.done, earlier.failed)

        def each(rows: Sequence[Row]) -> None:
            advance(failed=all(row["status"] == Status.FAILED for row in rows))
            for row in rows if asked.verbose else ():
                name = row["image"] if len(rows) == 1 else f"{row['image']}, object {row['object']}"
                bar.say(": ".join(filter(None, (name, row["status"], row["reason"]))))

        with _resumable(OSError, MemoryError):
            bulk.run(task, fitter, prepared.where, asked.resume, each, earlier, asked.overwrite)
    return before


def _fit_in_parts(
    prepared: Prepared,
    asked: _Asked,
    share: Share | None,
    crew_told: Callable[[], AbstractContextManager[CrewJobs]],
) -> int | None:
    """Fit in parts, on a cluster or as a shard; how many images were done before, or None if all is said."""
    from pliant import bulk
    from pliant.progress import Progress

    task = prepared.task
    begun = bulk.look_for_parts(task)
    refused = bulk.refusal_in_parts(task, begun, share, asked.resume, asked.overwrite)
    if refused:
        raise ValueError(refused)
    own = bulk.parts_of(task) if share is None else share.of(bulk.parts_of(task))
    done = [begun.done[part.number] for part in own if part.number in begun.done]
    images = sum(len(part.images) for part in own)
    finished = begun.finishes(task, share, asked.resume, asked.overwrite)
    before = images if finished else sum(marker.images for marker in done)
    if asked.dry_run:
        _say_plan(prepared, begun.earlier, images, before, asked)
        return None
    with crew_told() as crew, Progress(False if asked.silent else None) as bar:
        _say_settings(prepared, asked, bar)
        advance = bar.start("fitting images", images, before, sum(marker.failed for marker in done))

        def each(marker: Marker) -> None:
            for number in range(marker.images):
                advance(failed=number < marker.failed)
            if asked.verbose:
                bar.say(f"part {marker.part}: {counted(marker.images, 'image')}, {marker.failed} failed")

        with _resumable():
            said = bulk.run_in_parts(
                prepared,
                crew,
                shard=share,
                resume=asked.resume,
                overwrite=asked.overwrite,
                each=each,
                begun=begun,
            )
    for sentence in said:
        say(sentence, colour="yellow", error=True)
    if share is not None and not finished:
        _say_shard(prepared, share, images, before, asked)
        return None
    return before


@contextmanager
def _resumable(*more: type[BaseException]) -> Iterator[None]:
    """Say how to go on after what stops a run; `more` are errors that do not say so themselves."""
    from pliant.devices import DeviceFailed
    from pliant.distributed.faults import ClusterLost

    try:
        yield
    except DeviceFailed:
        say(
            "to continue, run the same command again with --resume, and with --device cpu if the device is lost",
            error=True,
        )
        raise
    except BaseException as error:
        if isinstance(error, (SystemExit, KeyboardInterrupt, ClusterLost, *more)):
            say("to continue, run the same command again with --resume", error=True)
        raise


def _say_settings(prepared: Prepared, asked: _Asked, bar: Progress) -> None:
    if asked.verbose:
        for name, value in {**prepared.task.head()["settings"], "jobs": prepared.fitter.jobs}.items():
            bar.say(f"{name}: {value}")


def _say_shard(prepared: Prepared, share: Share, images: int, before: int, asked: _Asked) -> None:
    """What a shard did: its failures are no error of its own, as the table will have them."""
    import json

    from pliant import bulk

    task = prepared.task
    left = len(task.images) - bulk.look_for_parts(task).images
    if asked.as_json:
        own = {"shard": str(share), "images": images, "from_before": before, "left": left}
        say(json.dumps(own, indent=2))
    elif not asked.silent:
        earlier = (
            ""
            if not before
            else ", all done before"
            if before == images
            else (f", {before} of them done before")
        )
        say(f"shard {share}: fitted {images} of {counted(len(task.images), 'image')}{earlier}")
        merging = f"pliant merge {task.output}"
        say(
            f"{counted(left, 'image')} {'is' if left == 1 else 'are'} left for other shards. Then run: {merging}"
            if left
            else f"all images are done. Now run: {merging}"
        )


def _say_plan(prepared: Prepared, earlier: Earlier, images: int, done: int, asked: _Asked) -> None:
    import json

    task = prepared.task
    plan: dict[str, Any] = {
        "images": images,
        "done": done,
        "settings": {**task.head()["settings"], "jobs": prepared.fitter.jobs},
        "writes": [str(path) for path in task.written],
    }
    if asked.as_json:
        say(json.dumps(plan, indent=2))
        return
    already = f", {done} of them already done" if done else ""
    say(f"would fit {counted(images, 'image')}{already}, and write {', '.join(plan['writes'])}")
    for name, value in plan["settings"].items():
        say(f"  {name}: {value}")
    if earlier.finished is not None and done < images:
        say(f"  when all fits are done, they would replace the results of an earlier run in {task.output}")
