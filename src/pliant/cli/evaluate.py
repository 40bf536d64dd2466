"""`pliant evaluate`: how well algorithms fit annotated images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.fit import whole_numbers


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    folders: Annotated[list[Path], typer.Argument(help="Folders of images with landmark files beside them.")],
    algorithm: Annotated[
        str, typer.Option(help="Algorithms with commas between them, or 'all' for the paper's 31.")
    ] = "ssd:map-asy:0.2-gn-sch",
    noise: Annotated[
        float, typer.Option(help="How far off the random starts are; the paper has 0.05.")
    ] = 0.05,
    starts: Annotated[int, typer.Option(help="Random starts for each image.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Another seed gives other starts.", min=0)] = 0,
    points: Annotated[
        str, typer.Option(help="Landmarks that count: all, interior49, or ranges such as 17-59,61-63.")
    ] = "all",
    sampling: Annotated[float, typer.Option(help="Share of the pixels to look at.")] = 1.0,
    iterations: Annotated[
        str | None, typer.Option(help="Most iterations a level, coarse to fine: 24,16 for two levels.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")] = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out samples that cannot be used, and say which.")
    ] = False,
    device: Annotated[str, typer.Option(help="What computes: cpu, or reference (slow, for checks).")] = "cpu",
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if not given.", min=1)] = None,
) -> None:
    """Fit annotated images from random starts and print how far the fits are from the landmarks.

    Errors are mean distances between points, divided by the size of the object. Starts depend on the seed
    alone, so that rows of different runs can be compared.
    """
    import json
    import warnings

    import pliant
    from pliant import evaluation
    from pliant.data.validation import SamplesLeftOut

    announce_compiling()
    if json_file is not None and not json_file.parent.is_dir():
        raise ValueError(f"{json_file}: the folder {json_file.parent} does not exist.")
    every = [entry.name for entry in pliant.catalogue()]
    names = every if algorithm == "all" else [name.strip() for name in algorithm.split(",") if name.strip()]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SamplesLeftOut)
        rows = evaluation.evaluate(
            pliant.load(model),
            pliant.load_dataset(*folders),
            names,
            noise=noise,
            starts=starts,
            seed=seed,
            points=points,
            iterations=whole_numbers("--iterations", iterations),
            sampling=sampling,
            device=device,
            jobs=jobs,
            skip_invalid=skip_invalid,
        )
    for warning in said:
        typer.secho(str(warning.message), fg="yellow", err=True)
    _print(rows)
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shares = [key for key in rows[0] if key.startswith("lt_")]
    table = Table()
    # A name that is cut off could not be typed again: a long one goes on in the next line.
    table.add_column("algorithm", overflow="fold")
    for title in (*(key.replace("lt_", "<") for key in shares), "mean", "std", "median", "ms"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row["algorithm"],
            *(f"{row[key]:.1%}" for key in shares),
            *(f"{row[key]:.4f}" for key in ("mean", "std", "median")),
            f"{row['ms']:.1f}",
        )
    Console().print(table)
