"""`pliant fit`: from a model and any number of images to a table of landmarks."""

from __future__ import annotations

from collections import Counter
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
    Part,
    Quiet,
    SettingsFile,
    Verbose,
    checked_labels,
    with_settings,
)
from pliant.cli.starts import Boxes, announce_detector
from pliant.settings import Fitting
from pliant.terminal import say

if TYPE_CHECKING:
    from pliant.bulk.files import Earlier, Task
    from pliant.fitting.fitter import Fitter
    from pliant.table import Row


_FLAGGED = 10
"""Fits to look at that are named on the terminal."""


@with_settings("fitting", Fitting)
def fit(
    *,
    model: Annotated[Path, typer.Argument(help="A model file.")],
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
            help="Also write landmarks/NAME for each image, in a format such as pts or ljson.",
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

    The table is OUTPUT/fits.parquet: read it with pliant.read_fits, or convert it. An image that cannot be
    fitted is a row with the reason, and does not stop the others; the exit code is then 3. Whatever stops the
    command, each fit that was finished is kept: give the same command again with --resume.
    """
    import time

    from pliant import bulk
    from pliant.data.sources import find_images
    from pliant.fitting.status import Status
    from pliant.progress import Progress

    silent = quiet or as_json
    if not silent:
        announce_compiling()
    _check_formats(landmarks, annotations)
    if boxes is None and fitting.start in ("auto", "detector"):
        announce_detector(fitting.detector)
    prepared = bulk.prepare(
        model,
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
    labels = checked_labels(draw_labels, fitter.model, model)
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

        def each(row: Row) -> None:
            advance(failed=row["status"] == Status.FAILED)
            if verbose:
                bar.say(": ".join(filter(None, (row["image"], row["status"], row["reason"]))))

        try:
            bulk.run(task, fitter, prepared.where, resume, each, earlier, prepared.rescan, overwrite)
        except (SystemExit, KeyboardInterrupt):
            say("to go on, give the same command again with --resume", error=True)
            raise
    _say_outcome(task, earlier, resume, time.perf_counter() - begin, quiet, as_json)


def _check_formats(landmarks: str | None, annotations: Path | None) -> None:
    """Before hours are spent: can these be written?"""
    from pliant.data.formats import find_format, format_for_ending

    if landmarks is not None and find_format(landmarks)[0].MANY:
        raise ValueError(
            f"--landmarks {landmarks}: a file of this format is for many images: use --annotations."
        )
    if annotations is None:
        return
    if not find_format(format_for_ending(annotations))[0].MANY:
        raise ValueError(
            f"--annotations {annotations}: a {annotations.suffix} file holds one image's landmarks."
        )
    if not annotations.parent.is_dir():
        raise ValueError(f"{annotations}: the folder {annotations.parent} does not exist.")


def _written(task: Task) -> list[str]:
    """What the task leaves, as the user will find it."""
    files = [str(task.table)]
    files += [str(task.output / "landmarks")] if task.landmarks else []
    files += [str(task.output / "pictures")] if task.draw is not None else []
    files += [str(task.csv_file)] if task.csv else []
    files += [str(task.flagged_file)] if task.flag_below is not None else []
    return files + ([str(task.annotations)] if task.annotations else [])


def _say_plan(task: Task, earlier: Earlier, fitter: Fitter, resume: bool, as_json: bool) -> None:
    import json

    from pliant.bulk import has_finished

    done = len(task.images) if resume and has_finished(task, earlier) else earlier.done
    plan: dict[str, Any] = {
        "images": len(task.images),
        "done": done,
        "settings": {**task.head()["settings"], "jobs": fitter.jobs},
        "writes": _written(task),
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
    import json

    from pliant.bulk import has_finished
    from pliant.fitting.status import Status
    from pliant.table import (
        flagged_in,
        rows_of,
    )

    flagged = None if task.flag_below is None else flagged_in(task.table, task.flag_below)
    statuses: Counter[str] = Counter()
    first = ""
    for row in rows_of(task.table, ["image", "status", "reason"]):
        statuses[row["status"]] += 1
        first = first or (f"{row['image']}: {row['reason']}" if row["status"] == Status.FAILED else "")
    total, failed = len(task.images), statuses[Status.FAILED]
    before = total if resume and has_finished(task, earlier) else earlier.done
    if as_json:
        outcome = {
            "images": total,
            "fitted": total - failed,
            "failed": failed,
            "from_before": before,
            "statuses": statuses,
            "seconds": round(seconds, 3),
            "wrote": _written(task),
        }
        if flagged is not None:
            outcome["flagged"] = [
                {"image": image, "confidence": round(confidence, 4)} for confidence, image in flagged
            ]
        say(json.dumps(outcome, indent=2))
    elif not quiet:
        if before:
            say(
                "nothing to do: this run had finished"
                if before == total
                else f"{before} fits are from before"
            )
        has = "has" if before == total else "wrote"
        say(f"fitted {total - failed} of {total} images; {has} {', '.join(_written(task))}")
        doubtful = total - failed - sum(statuses[status] for status in Status if status.ok)
        if failed:
            say(f"{failed} could not be fitted: the column reason says why. The first: {first}")
        if doubtful:
            fits = "1 fit is" if doubtful == 1 else f"{doubtful} fits are"
            say(f"{fits} doubtful: the column status says how they ended")
        if flagged is not None:
            say(f"{len(flagged)} to look at; {task.flagged_file} lists them")
            for confidence, image in flagged[:_FLAGGED]:
                say(f"  {confidence:4.0%}  {image}")
            if len(flagged) > _FLAGGED:
                say("  ...")
    if failed == total:
        raise ValueError(f"no image could be fitted; {task.table} says why. The first: {first}")
    if failed:
        raise typer.Exit(INCOMPLETE)
