"""`pliant morphometrics`: Procrustes coordinates, centroid sizes and measurement error, and files for R."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import AsJson, From, Images, Quiet, Seed, SettingsFile, Verbose, say_settings, told
from pliant.terminal import console, counted, say

if TYPE_CHECKING:
    from pliant.morphometrics import Study
    from pliant.morphometrics.anova import Anova, AnovaRow


class SlideBy(StrEnum):
    """What sliding minimises."""

    BENDING_ENERGY = "bending-energy"
    DISTANCE = "distance"


class ScaleTo(StrEnum):
    """How shapes are scaled."""

    PARTIAL = "partial"
    FULL = "full"


class Lacking(StrEnum):
    """What to do with specimens that lack landmarks."""

    LEAVE_OUT = "leave-out"
    COMPLETE = "complete"


def morphometrics(
    context: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Annotation files or folders, or the output of `pliant fit` (a folder or fits.parquet)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")],
    sliders: Annotated[
        str,
        typer.Option(
            help="Which landmarks slide: a CSV file (before,slide,after), a TOML file with curves, or "
            "'curves' to use the curves of the TPS file, with fixed ends."
        ),
    ] = "",
    slide: Annotated[SlideBy, typer.Option(help="What sliding minimises.")] = SlideBy.BENDING_ENERGY,
    replicates: Annotated[
        list[str] | None,
        typer.Option(
            help="Another annotation of the same specimens. You can give this option several times."
        ),
    ] = None,
    names: Annotated[
        str,
        typer.Option(
            help="What the names of specimens mean, such as {individual}_{replicate} or "
            "{individual}_{side}_{replicate}.",
            metavar="PATTERN",
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            help="Length of a pixel, if the files do not give it: a number, a CSV file with the columns image "
            "and scale, or a TPS file."
        ),
    ] = "",
    unit: Annotated[str, typer.Option(help="Unit of the scale, such as mm.")] = "",
    scaling: Annotated[
        ScaleTo,
        typer.Option(help="Keep shapes at a centroid size of 1 (partial), or fit the size too (full)."),
    ] = ScaleTo.PARTIAL,
    projection: Annotated[bool, typer.Option(help="Project shapes onto the tangent plane.")] = True,
    reflect: Annotated[
        bool, typer.Option(help="Use mirror images of specimens that face the other way.")
    ] = True,
    missing: Annotated[
        Lacking, typer.Option(help="Leave out specimens that lack landmarks, or complete them.")
    ] = Lacking.LEAVE_OUT,
    least_confidence: Annotated[
        float | None, typer.Option(help="Leave out fits with a confidence below this.")
    ] = None,
    permutations: Annotated[
        int, typer.Option(help="Number of permutations for the analysis of variance.", min=0)
    ] = 999,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also write coordinates.parquet.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    format: From = "",
    images: Images = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    settings: SettingsFile = None,
) -> None:
    """Measure shape and size by Procrustes analysis, with files for R.

    Generalised Procrustes analysis superimposes all specimens. Semi-landmarks
    slide if you declare them. The command writes coordinates.csv,
    consensus.csv, landmarks.tps and, if there is anything to write,
    sliders.csv and anova.csv. R reads all of them.

    If the same specimens were annotated more than once (--replicates), or
    their names tell individuals, sides and replicates apart (--names), a
    Procrustes analysis of variance shows how much of the variation is
    measurement error.

    If you give --scale or --unit, and the scale of an image is still not
    known, sizes are in pixels and the exit code is 3.
    """
    from pliant.morphometrics import measure, write_study

    if verbose and not (quiet or as_json):
        say_settings(context)
    read: dict[str, Any] = {
        "images": images,
        "format": format,
        "scale": scale or None,
        "unit": unit,
        "least_confidence": least_confidence,
    }
    specimens = _specimens(sources, replicates or [], names, read)
    specimens = _ready(specimens, missing is Lacking.COMPLETE, reflect)
    declared = _sliders(sliders, specimens)
    study = measure(
        specimens,
        declared,
        slide=slide.value,
        scaling=scaling.value,
        projection=projection,
        permutations=permutations,
        seed=seed,
    )
    files, misread = write_study(output, study, parquet=parquet, overwrite=overwrite)
    notes = [told(note) for note in (*specimens.notes, *misread, *study.notes)]
    if specimens.curves and not sliders:
        notes.append("Points of curves are used as fixed landmarks: --sliders curves lets them slide.")
    if as_json:
        say(json.dumps(_facts(study, files, notes), indent=2))
    else:
        for note in notes:
            say(note, colour="yellow", error=True)
    if not (quiet or as_json):
        _print(study, slide.value)
        say(f"wrote {', '.join(file.name for file in files)} to {output}")
    if (scale or unit) and not study.specimens.scaled:
        # Sizes are in pixels, which is not what was asked for.
        raise typer.Exit(INCOMPLETE)


def _specimens(sources: list[str], replicates: list[str], names: str, read: dict[str, Any]) -> Any:
    from pliant.morphometrics import join_sets, name_parts, read_specimens

    specimens = read_specimens(*sources, **read)
    if replicates:
        specimens = join_sets([specimens, *(read_specimens(source, **read) for source in replicates)])
    return name_parts(specimens, names) if names else specimens


def _ready(specimens: Any, fill: bool, reflect: bool) -> Any:
    from pliant.morphometrics import complete_specimens, facing_alike

    specimens = complete_specimens(specimens, fill=fill)
    return facing_alike(specimens) if reflect else specimens


def _sliders(declared: str, specimens: Any) -> Any:
    from pliant.morphometrics import read_sliders, sliders_of_curves

    if not declared:
        return None
    landmarks = specimens.points.shape[1]
    if declared != "curves":
        return read_sliders(declared, landmarks, specimens.landmark_names)
    if not specimens.curves:
        raise ValueError("--sliders curves: no TPS file has the same CURVES in all specimens.")
    return sliders_of_curves(landmarks, specimens.curves)


def _print(study: Study, slide: str) -> None:
    from pliant.morphometrics.specimens import UNNAMED

    specimens, shapes = study.specimens, study.shapes
    many = len(shapes.sliders)
    how = (
        f", {many} of them slid by {slide.replace('-', ' ')} in {counted(shapes.rounds, 'round')}"
        if many
        else ""
    )
    say(f"{counted(len(specimens), 'specimen')} with {counted(len(shapes.consensus), 'landmark')}{how}")
    sizes = shapes.centroid_sizes
    span = f"from {sizes.min():.4g} to {sizes.max():.4g}"
    unit = specimens.length_unit
    measured = f"{sizes.mean():.4g} {'in units of the scale' if unit == UNNAMED else unit}"
    say(f"centroid size: mean {measured}, {span}")
    furthest = int(shapes.distances.argmax())
    say(
        f"Procrustes distance from the consensus: mean {shapes.distances.mean():.4f}, largest "
        f"{shapes.distances[furthest]:.4f} ({specimens.names[furthest]})"
    )
    for what, table in study.variance.items():
        _print_variance(what, table)
    if any(table.repeatability is not None for table in study.variance.values()):
        say(
            "share: of the sum of all squares; other rows contain error too, so the part of one measurement that "
            "is error is larger than the share of the error"
        )


def _print_variance(what: str, table: Anova) -> None:
    from rich.table import Table

    shown = Table(title=f"variance of {what}", title_justify="left")
    shown.add_column("source", no_wrap=True)
    # Mean squares are in anova.csv: a terminal has 80 columns.
    for title in ("squares", "share", "df", "F", "P", "P permuted"):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in table.rows:
        numbers = [f"{row.squares:.3g}", f"{row.share:.1%}", str(row.freedom)]
        tests = ["" if value is None else f"{value:.3g}" for value in (row.ratio, row.chance, row.permuted)]
        shown.add_row(row.source, *numbers, *tests)
    console().print(shown)
    if table.repeatability is not None and table.measurement_error is not None:
        say(
            f"{what}: repeatability {table.repeatability:.3f}; {table.measurement_error:.1%} of the variance "
            "of one measurement is error"
        )


def _facts(study: Study, files: list[Path], notes: list[str]) -> dict[str, Any]:
    specimens, shapes = study.specimens, study.shapes
    return {
        "specimens": len(specimens),
        "landmarks": len(shapes.consensus),
        "sliding": len(shapes.sliders),
        "unit": specimens.length_unit,
        "centroid_size": {
            "mean": float(shapes.centroid_sizes.mean()),
            "least": float(shapes.centroid_sizes.min()),
            "most": float(shapes.centroid_sizes.max()),
        },
        "variance": {
            what: {
                "rows": [_row(row) for row in table.rows],
                "individuals": table.individuals,
                "measurements": table.measurements,
                "repeatability": table.repeatability,
            }
            for what, table in study.variance.items()
        },
        "written": [str(file) for file in files],
        "notes": notes,
    }


def _row(row: AnovaRow) -> dict[str, Any]:
    """A row as JSON has it, which knows no infinite number."""
    return {
        key: None if isinstance(value, float) and math.isinf(value) else value
        for key, value in vars(row).items()
    }
