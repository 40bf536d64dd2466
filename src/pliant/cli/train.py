"""`pliant train`: from a folder of annotated images to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.compiling import announce_compiling


def train(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of images with landmark files beside them, annotation files for many images, manifests "
            "(CSV or Parquet), or addresses of such (s3://, gs://, zip://)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.pliant"
    ),
    size: Annotated[float, typer.Option(help="Size of the object at scale 1, in pixels.")] = 150,
    scales: Annotated[str, typer.Option(help="Levels from coarse to fine.")] = "0.5,1",
    shape_modes: Annotated[
        str, typer.Option(help="Modes of shape a level: counts, or shares of variance.")
    ] = "3,12",
    appearance_variance: Annotated[
        str, typer.Option(help="Share of the appearance's variance to keep, or counts of modes.")
    ] = "0.75",
    features: Annotated[str, typer.Option(help="intensity, normalized, gradient, igo or dsift.")] = "dsift",
    motion: Annotated[str, typer.Option(help="piecewise-affine or thin-plate-spline.")] = "piecewise-affine",
    triangles: Annotated[
        Path | None, typer.Option(help="Text file with three landmark numbers a line, from 0.", exists=True)
    ] = None,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Add mirrored copies; finds which landmarks change places.")
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="As --mirror, with a text file of pairs: two landmark numbers a line.", exists=True
        ),
    ] = None,
    missing: Annotated[
        str, typer.Option(help="Samples that lack landmarks: refuse them, or complete them from the others.")
    ] = "refuse",
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out samples that cannot be used, and say which.")
    ] = False,
    memory_gb: Annotated[
        float, typer.Option(help="Gigabytes for samples; beyond that they are streamed.")
    ] = 2.0,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores if not given.", min=1)] = None,
    licence: Annotated[str, typer.Option(help="A note on the data's licence, kept in the file.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Train a model on annotated images and write it to one file."""
    import time
    import warnings

    import pliant
    from pliant.cli.inspect import summarise
    from pliant.data.validation import SamplesLeftOut

    if not output.parent.is_dir():
        raise ValueError(f"{output}: the folder {output.parent} does not exist.")
    if not quiet:
        announce_compiling()
    if missing not in ("refuse", "complete"):
        raise ValueError(f"--missing is refuse or complete, not '{missing}'.")
    mesh = None if triangles is None else _read_numbers(triangles, 3)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SamplesLeftOut)
        model = pliant.train(
            pliant.load_dataset(*sources),
            size=size,
            scales=numbers("--scales", scales),
            shape_modes=one_or_many(numbers("--shape-modes", shape_modes)),
            appearance_variance=one_or_many(numbers("--appearance-variance", appearance_variance)),
            features=features,
            motion=motion,
            triangles=mesh,
            mirror=mirror if pairs is None else _read_numbers(pairs, 2),
            missing=missing,  # type: ignore[arg-type]
            skip_invalid=skip_invalid,
            memory_gb=memory_gb,
            jobs=jobs,
            progress=False if quiet else None,
            licence=licence,
        )
    for warning in said:
        typer.secho(str(warning.message), fg="yellow", err=True)
    model.save(output)
    if not quiet:
        summarise(model)
        typer.echo(
            f"trained on {model.provenance['samples']} samples in {time.perf_counter() - begin:.1f} s; "
            f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)"
        )


def numbers(option: str, text: str) -> list[int | float]:
    """`3,12` as ints and `0.5,1.0` as floats."""
    try:
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes numbers with commas between them, such as 3,12, not '{text}'."
        ) from None


def one_or_many(values: list[int | float]) -> int | float | list[int | float]:
    """One number alone is meant for every level."""
    return values[0] if len(values) == 1 else values


def _read_numbers(path: Path, count: int) -> list[list[int]]:
    """Landmark numbers, `count` a line: triangles or pairs."""
    wanted = {2: "two", 3: "three"}[count]
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fields = line.replace(",", " ").split()
        if not fields:
            continue
        try:
            rows.append([int(field) for field in fields])
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected {wanted} landmark numbers, found '{line}'."
            ) from None
        if len(fields) != count:
            raise ValueError(
                f"{path}, line {number}: expected {wanted} landmark numbers, found {len(fields)}."
            )
    return rows
