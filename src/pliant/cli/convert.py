"""`pliant convert`: landmarks from one format to another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import (
    AsJson,
    DryRun,
    Quiet,
    SettingsFile,
    Verbose,
    check_target,
    say_settings,
    told,
)
from pliant.terminal import counted, say, shortened

if TYPE_CHECKING:
    from pliant.data.conversion import Converted
    from pliant.data.dataset import Sample

_DRAWN = 24

Landmarks = Annotated[
    str,
    typer.Argument(help="A landmark file, a folder of landmark files, a manifest, or the address of one."),
]
Output = Annotated[
    Path, typer.Argument(help="The file to write, or a folder if each image gets its own file.")
]
FromFormat = Annotated[
    str, typer.Option("--from", help="Format of the input. Default: detected from its content.")
]
ToFormat = Annotated[
    str,
    typer.Option("--to", help="Format of the output. Default: taken from the file ending; pts for a folder."),
]
ImageFolder = Annotated[
    str | None, typer.Option(help="Folder of the images, if they are not beside the landmarks.")
]
Preview = Annotated[
    Path | None, typer.Option(help=f"Draw up to {_DRAWN} of the converted samples to this file.")
]
Names = Annotated[
    str,
    typer.Option(
        help="What to do if landmark names differ between files: 'usual' uses the names that most files "
        "have, 'keep' leaves them as they are; or give the names, separated by commas."
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        help="Length of a pixel, for images whose files do not give it: a number, a CSV file with the columns "
        "image and scale, or a TPS file with SCALE."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]


def convert(
    context: typer.Context,
    source: Landmarks,
    output: Output,
    from_format: FromFormat = "",
    to_format: ToFormat = "",
    images: ImageFolder = None,
    preview: Preview = None,
    names: Names = "",
    scale: Scale = "",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Convert landmarks from one format to another, exactly.

    The output is read again and compared with the input. The command reports
    what the format cannot hold. If a file cannot be converted, the others
    still are: the file is listed, and the exit code is 3. So it is if you
    give --scale, and objects are written without a scale.
    """
    from pliant.data import conversion

    if verbose and not (quiet or as_json):
        say_settings(context)
    if preview is not None:
        check_target("--preview", preview, (".png", ".svg", ".pdf"))
    plan = conversion.plan_conversion(
        source,
        output,
        from_format=from_format,
        to_format=to_format,
        images=images,
        names=names,
        scale=scale or None,
        overwrite=overwrite,
    )
    done = conversion.Conversion(plan.objects) if dry_run else conversion.convert(plan)
    problems = [*plan.problems, *done.problems]
    if preview is not None and not dry_run:
        problems += _draw(done.objects, preview)
    notes = [told(note) for note in plan.notes]
    report: dict[str, Any] = {
        "objects": len(done.objects),
        "landmarks": sum(len(one.annotation.points) for one in done.objects),
        "format": plan.format,
        "written": [str(file) for file in done.files],
        "lost": list(done.losses),
        "notes": notes,
        "problems": problems,
    }
    if as_json:
        say(json.dumps(report, indent=2))
    else:
        for sentence in (*shortened(problems, "--json lists all"), *done.losses, *notes):
            say(sentence, colour="yellow", error=True)
    if not (quiet or as_json):
        count = len(plan.targets) if dry_run else len(done.files)
        where = str(output) if output in plan.targets else f"{counted(count, 'file')} in {output}"
        verb = "would convert" if dry_run else "converted"
        objects, landmarks = (
            counted(report["objects"], "object"),
            counted(report["landmarks"], "landmark"),
        )
        say(f"{verb} {objects} with {landmarks} to {plan.format}: {where}")
        if preview is not None and not dry_run:
            say(f"wrote {preview}")
    unscaled = bool(scale) and any(one.annotation.spacing is None for one in done.objects)
    if problems or unscaled:
        raise typer.Exit(INCOMPLETE)


def _draw(written: Sequence[Converted], preview: Path) -> list[str]:
    """Draw samples whose image can be read, evenly picked; a sentence if there is none."""
    from pliant.data.images import ImageError
    from pliant.plots import plot_samples
    from pliant.plots.saving import save_figure

    drawn: list[Sample] = []
    for one in written[:: max(1, -(-len(written) // _DRAWN))]:
        try:
            one.sample.image()
        except ImageError:
            continue
        drawn.append(replace(one.sample, points_source=one.annotation, format=""))
    if not drawn:
        return [f"{preview}: no image was found to draw. Give the folder of the images with --images."]
    save_figure(plot_samples(drawn), preview, dpi=120)
    return []
