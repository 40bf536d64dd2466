"""`pliant check`: what is wrong with a data set, and what looks wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import (
    AsJson,
    From,
    Images,
    Jobs,
    Quiet,
    SettingsFile,
    Verbose,
    check_target,
    learn_data,
    say_settings,
    told,
)
from pliant.terminal import MOST_LINES, console, counted, say, shortened

if TYPE_CHECKING:
    from pliant.data.checking import DatasetCheck
    from pliant.data.dataset import Dataset
    from pliant.data.suspects import Suspect

_DRAWN = 24


def check(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of annotated images, annotation files, manifests, or addresses of these."
        ),
    ],
    draw: Annotated[
        Path | None,
        typer.Option(
            help="Draw the most suspicious samples to this file, or a few samples if none is suspicious."
        ),
    ] = None,
    skip: Annotated[
        str,
        typer.Option(
            help="Checks to skip: facing, order, shape, size, rotation, names, resized, scale, blank, duplicate, "
            "turned."
        ),
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            help="Compare with another annotation of the same images instead: by another person, or by the "
            "same person again."
        ),
    ] = "",
    format: From = "",
    images: Images = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Check a data set and list what looks wrong.

    Problems make a sample unusable: an image that cannot be read, or
    landmarks outside the image. Suspects are valid samples that you should
    look at: landmarks that are swapped, out of order, shifted or mistyped,
    left and right swapped, an object that is much larger than the others,
    rotated or mirrored, an image that is blank or the same as another, or
    whose size or scale is not what the files say. The check also reports
    landmarks that fit the images better upside down. The exit code is 0 if
    nothing is found, and 3 otherwise.

    Suspects come worst first. Severity 1 is the limit of a check, and larger
    numbers are further beyond it. What is usual is learned from all samples
    together, so findings near the limit can change when you add or remove
    samples.

    With --against, two annotations of the same images are compared: how far
    apart they are for each landmark, and how much of the variation in shape
    comes from the annotators instead of the objects (a Procrustes analysis of
    variance).
    """
    import json

    import pliant
    from pliant.data.checking import check_dataset

    if verbose and not (quiet or as_json):
        say_settings(context)
    learn_data(sources, images, format)
    if draw is not None:
        check_target("--draw", draw, (".png", ".svg", ".pdf"))
    if against:
        _compare(sources, against, images, format, quiet, as_json)
        return
    left_out = [name.strip() for name in skip.split(",") if name.strip()]
    dataset = pliant.load_dataset(*sources, images=images, format=format)
    found = check_dataset(dataset, left_out, jobs, False if quiet or as_json else None)
    drawn = "" if draw is None else _draw(draw, found.valid.dataset, found.suspects)
    if as_json:
        say(json.dumps(_table(dataset, found), indent=2))
    elif not quiet:
        _print(dataset, found)
        if drawn:
            say(drawn)
    if not found.clean:
        raise typer.Exit(INCOMPLETE)


def _compare(
    sources: list[str], against: str, images: str | None, format: str, quiet: bool, as_json: bool
) -> None:
    import json

    import pliant
    from pliant.cli.against import agreement_table, print_agreement
    from pliant.data.agreement import compare_datasets

    first = pliant.load_dataset(*sources, images=images, format=format)
    found = compare_datasets(first, pliant.load_dataset(against, images=images, format=format))
    if as_json:
        say(json.dumps(agreement_table(found), indent=2))
    elif not quiet:
        print_agreement(found)


def _draw(file: Path, usable: Dataset, suspects: Sequence[Suspect]) -> str:
    """Draw the suspects, or samples spread evenly over a data set that has none; what was drawn, in words."""
    from pliant.plots import plot_samples, plot_suspects
    from pliant.plots.saving import save_figure

    if not len(usable):
        return f"no sample can be used: {file} was not written"
    if suspects:
        save_figure(plot_suspects(usable, suspects), file)
        return f"wrote {file}"
    some = usable[:: -(-len(usable) // _DRAWN)]
    save_figure(plot_samples(some), file)
    return f"nothing looks suspicious; drew {len(some)} of {len(usable)} samples in {file}"


def _print(dataset: Dataset, checked: DatasetCheck) -> None:
    from rich.table import Table

    from pliant.data.addresses import plain_name
    from pliant.data.advice import advice
    from pliant.data.suspects import FEWEST, about_numbers
    from pliant.data.validation import about_range

    problems, suspects = checked.valid.problems, checked.suspects
    everything = told("pliant check --json lists all")
    for line in shortened(problems, everything):
        say(told(line), colour="red")
    if suspects:
        table = Table()
        table.add_column("sample", overflow="fold")
        table.add_column("finding", overflow="fold")
        table.add_column("severity", justify="right")
        for suspect in suspects[:MOST_LINES]:
            table.add_row(plain_name(suspect.name), suspect.reason, f"{suspect.severity:.1f}")
        console().print(table)
        if len(suspects) > MOST_LINES:
            say(f"and {len(suspects) - MOST_LINES} more: {everything}")
        say(
            "severity: 1 is the limit of a check, and larger numbers are further beyond it. Limits are relative "
            "to the other samples, so findings near 1 can change when samples are added or removed."
        )
    if counted_how := about_numbers([*problems, *(suspect.reason for suspect in suspects)]):
        say(counted_how)
    if len(dataset) < FEWEST:
        say(f"fewer than {FEWEST} samples: too few to compare landmarks between samples")
    facing = sum(suspect.kind == "mirrored" and suspect.check == "facing" for suspect in suspects)
    if facing:
        say(
            f"{facing} of {len(dataset)} samples {'faces' if facing == 1 else 'face'} the other way: train "
            "flips them, and fits try both directions (--facing)"
        )
    if checked.lacking:
        verb = "lacks" if checked.lacking == 1 else "lack"
        say(f"{counted(checked.lacking, 'sample')} {verb} landmarks: train with --missing complete")
    suspicious = len({suspect.number for suspect in suspects})
    found = f"{counted(len(problems), 'problem')}, {suspicious} suspicious"
    say(f"{counted(len(dataset), 'sample')}: {found}")
    if what_to_do := advice(dataset):
        say(told(what_to_do))
    if checked.turned_over:
        say(told(checked.turned_over), colour="yellow")
    if checked.valid.deep:
        say(about_range(checked.valid.deep))


def _table(dataset: Dataset, checked: DatasetCheck) -> dict[str, Any]:
    """All that was found, as JSON has it."""
    return {
        "samples": len(dataset),
        "problems": list(checked.valid.problems),
        "suspects": [_row(suspect) for suspect in checked.suspects],
        "turned_over": checked.turned_over,
        "samples_with_missing_landmarks": checked.lacking,
        "more_than_8_bits": checked.valid.deep,
    }


def _row(suspect: Suspect) -> dict[str, Any]:
    return {
        "sample": suspect.name,
        "check": suspect.check,
        "kind": suspect.kind,
        "reason": suspect.reason,
        "severity": round(suspect.severity, 3),
        "landmarks": list(suspect.landmarks),
        "other": suspect.other,
        "mend": None if suspect.mend is None else [_place(place) for place in suspect.mend.tolist()],
    }


def _place(place: list[float]) -> list[float] | None:
    return None if place[0] != place[0] else [round(number, 3) for number in place]
