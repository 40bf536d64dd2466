"""`pliant fit`: from a model and any number of images to a table of landmarks."""

from __future__ import annotations

from dataclasses import replace
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
    Part,
    Quiet,
    SettingsFile,
    Verbose,
    checked_labels,
    warnings_said,
    with_settings,
)
from pliant.cli.starts import Boxes, announce_detector
from pliant.settings import Fitting
from pliant.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pliant.bulk.files import Earlier, Task
    from pliant.bulk.rows import Outcome
    from pliant.fitting.fitter import Fitter
    from pliant.table import Row

_FLAGGED = 10
"""Fits to look at that are named on the terminal."""


@with_settings("fitting", Fitting)
def fit(
    *,
    model: ModelFile,
    images: Annotated[
        list[str],
        typer.Argument(
            help="Images, patterns such as 'faces/*.jpg', folders, manifests, or addresses of such (s3://...)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to; made if need be.")],
    part: Part = None,
    boxes: Boxes = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that did not finish, with the same settings.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace what an earlier run wrote to OUTPUT, once all of the new is there."
        ),
    ] = False,
    landmarks: Annotated[
        str | None,
        typer.Option(
            help="Also write landmarks/NAME for each image, in a format such as pts or ljson; further objects in "
            "it are NAME.2, NAME.3.",
            metavar="FORMAT",
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(
            help="Also write all landmarks to this file, such as fits.json (COCO); the ending says the format."
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Also write fits.csv: the table with a column for each coordinate.")
    ] = False,
    draw: Annotated[bool, typer.Option("--draw", help="Also draw pictures/NAME.png for each image.")] = False,
    draw_full: Annotated[
        bool,
        typer.Option("--draw-full", help="Draw, with every pixel of the image; otherwise 600 pixels long."),
    ] = False,
    draw_crop: Annotated[
        bool, typer.Option("--draw-crop", help="Draw the object alone, with a border around it.")
    ] = False,
    draw_labels: DrawLabels = None,
    bound: Annotated[
        float,
        typer.Option(
            help="The column confidence is the probability that the error is below this.", min=0.001
        ),
    ] = 0.04,
    flag_below: Annotated[
        float | None,
        typer.Option(
            help="List the fits with less confidence than this, for a person to look at; also in flagged.csv.",
            min=0,
            max=1,
        ),
    ] = None,
    fitting: Fitting,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Fit a model to images, and write a table of landmarks.

    The table is OUTPUT/fits.parquet, a row for each object: read it with pliant.read_fits, or convert it. All
    objects that are trusted are in it, and at least one for each image: see --objects. An image that cannot be
    fitted is a row with the reason, and does not stop the others; the exit code is then 3. Whatever stops the
    command, each fit that was finished is kept: give the same command again with --resume.
    """
    import time

    from pliant import bulk
    from pliant.data.addresses import as_source
    from pliant.data.sources import find_images
    from pliant.fitting.status import Status
    from pliant.progress import Progress

    silent = quiet or as_json
    if not silent:
        announce_compiling()
    if boxes is None and fitting.start in ("auto", "detector"):
        announce_detector(fitting.detector)
    with warnings_said():
        prepared = bulk.prepare(
            as_source(model),
            find_images(images, part),
            output,
            fitting,
            boxes=boxes,
            jobs=jobs,
            landmarks=landmarks or "",
            annotations=annotations,
            csv=csv,
            bound=bound,
            flag_below=flag_below,
        )
    fitter = prepared.fitter
    labels = checked_labels(draw_labels, fitter.model, as_source(model))
    task = prepared.task
    if draw or draw_full or draw_crop or labels:
        task = replace(task, draw=bulk.Drawing(draw_full, labels, draw_crop))
    earlier = bulk.look(task)
    refused = bulk.refusal(task, earlier, resume, overwrite)
    if refused:
        raise ValueError(refused)
    if dry_run:
        _say_plan(task, earlier, fitter, resume, as_json)
        return
    begin = time.perf_counter()
    with Progress(False if silent else None) as bar:
        if verbose:
            for name, value in {**task.head()["settings"], "jobs": fitter.jobs}.items():
                bar.say(f"{name}: {value}")
        advance = bar.start("fitting images", len(task.images), earlier.done, earlier.failed)

        def each(rows: Sequence[Row]) -> None:
            advance(failed=all(row["status"] == Status.FAILED for row in rows))
            for row in rows if verbose else ():
                name = row["image"] if len(rows) == 1 else f"{row['image']}, object {row['object']}"
                bar.say(": ".join(filter(None, (name, row["status"], row["reason"]))))

        try:
            bulk.run(task, fitter, prepared.where, resume, each, earlier, overwrite)
        except (SystemExit, KeyboardInterrupt):
            say("to go on, give the same command again with --resume", error=True)
            raise
    _say_outcome(task, earlier, resume, time.perf_counter() - begin, quiet, as_json)


def _say_plan(task: Task, earlier: Earlier, fitter: Fitter, resume: bool, as_json: bool) -> None:
    import json

    from pliant.bulk import has_finished

    done = len(task.images) if resume and has_finished(task, earlier) else earlier.done
    plan: dict[str, Any] = {
        "images": len(task.images),
        "done": done,
        "settings": {**task.head()["settings"], "jobs": fitter.jobs},
        "writes": [str(path) for path in task.written],
    }
    if as_json:
        say(json.dumps(plan, indent=2))
        return
    already = f", {done} of which are done" if done else ""
    say(f"would fit {len(task.images)} images{already}, and write {', '.join(plan['writes'])}")
    for name, value in plan["settings"].items():
        say(f"  {name}: {value}")
    if earlier.finished is not None and done < len(task.images):
        say(f"  what an earlier run wrote to {task.output} would be replaced when all is done")


def _say_outcome(
    task: Task,
    earlier: Earlier,
    resume: bool,
    seconds: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say how it went; some failures are exit code 3, and no fit at all is an error."""
    from pliant.bulk import has_finished
    from pliant.bulk.rows import outcome_of
    from pliant.fitting.status import Status

    outcome, total = outcome_of(task.table), len(task.images)
    before = total if resume and has_finished(task, earlier) else earlier.done
    if as_json:
        _print_outcome(task, outcome, before, seconds)
    elif not quiet:
        if before:
            say(
                "nothing to do: this run had finished"
                if before == total
                else f"the fits of {before} images are from before"
            )
        has = "has" if before == total else "wrote"
        objects = "" if outcome.fits == outcome.images else f", with {outcome.fits} objects"
        say(f"fitted {outcome.images} of {total} images{objects}; {has} {', '.join(map(str, task.written))}")
        doubtful = outcome.fits - sum(outcome.statuses[status] for status in Status if status.ok)
        if outcome.failed:
            say(
                f"{outcome.failed} could not be fitted: the column reason says why. The first: {outcome.first}"
            )
        if doubtful:
            fits = "1 fit is" if doubtful == 1 else f"{doubtful} fits are"
            say(f"{fits} doubtful: the column status says how they ended")
        _say_flagged(task)
    if not outcome.fits:
        raise ValueError(f"no image could be fitted; {task.table} says why. The first: {outcome.first}")
    if outcome.failed:
        raise typer.Exit(INCOMPLETE)


def _print_outcome(task: Task, outcome: Outcome, before: int, seconds: float) -> None:
    import json

    from pliant.bulk.rows import flagged_in

    said: dict[str, Any] = {
        "images": len(task.images),
        "fitted": outcome.images,
        "objects": outcome.fits,
        "failed": outcome.failed,
        "from_before": before,
        "statuses": outcome.statuses,
        "seconds": round(seconds, 3),
        "wrote": [str(path) for path in task.written],
    }
    if task.flag_below is not None:
        said["flagged"] = [
            {"image": image, "object": number, "confidence": round(confidence, 4)}
            for confidence, image, number in flagged_in(task.table, task.flag_below)
        ]
    say(json.dumps(said, indent=2))


def _say_flagged(task: Task) -> None:
    from pliant.bulk.rows import flagged_in

    if task.flag_below is None:
        return
    flagged = flagged_in(task.table, task.flag_below)
    say(f"{len(flagged)} to look at; {task.flagged_file} lists them")
    for confidence, image, number in flagged[:_FLAGGED]:
        say(f"  {confidence:4.0%}  {image}{f', object {number}' if number else ''}")
    if len(flagged) > _FLAGGED:
        say("  ...")
