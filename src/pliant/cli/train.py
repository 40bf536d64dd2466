"""`pliant train`: from a folder of annotated images to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.options import (
    AsJson,
    DryRun,
    From,
    Images,
    Jobs,
    Part,
    Quiet,
    Seed,
    SettingsFile,
    Verbose,
    write_settings,
)
from pliant.cli.starts import announce_detector
from pliant.terminal import say

if TYPE_CHECKING:
    from pliant.data.dataset import Dataset
    from pliant.model import Model


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
    images: Images = None,
    format: From = "",
    part: Part = None,
    group_by: Annotated[
        str | None,
        typer.Option(help="Regular expression whose first group in an image's name is a person or video."),
    ] = None,
    hold_out: Annotated[
        float,
        typer.Option(
            help="Share of the samples, whole groups, to keep from training; they are listed beside the model, in "
            "a file for `evaluate` that ends in .held-out.csv.",
            min=0,
            max=0.9,
        ),
    ] = 0.0,
    size: Annotated[float, typer.Option(help="Size of the object at scale 1, in pixels.")] = 150,
    scales: Annotated[str, typer.Option(help="Levels from coarse to fine.")] = "0.5,1",
    shape_modes: Annotated[
        str, typer.Option(help="Modes of shape a level: counts, or shares of variance.")
    ] = "3,12",
    appearance_variance: Annotated[
        str, typer.Option(help="Share of the appearance's variance to keep, or counts of modes.")
    ] = "0.75",
    features: Annotated[str, typer.Option(help="intensity, normalized, gradient, igo or dsift.")] = "dsift",
    colour: Annotated[
        bool,
        typer.Option(
            help="Let features see colour, in as many channels: for objects that colour tells from their "
            "surroundings (gradient, igo, dsift)."
        ),
    ] = False,
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
    detector: Annotated[
        str,
        typer.Option(
            help="Learn where the object is in a detector's boxes: haar-face, your own as file.py:function, none, "
            "or auto, which is haar-face if it finds the object. Your own is run: that file may do whatever you "
            "may."
        ),
    ] = "auto",
    memory_gb: Annotated[
        float, typer.Option(help="Gigabytes for samples; beyond that they are streamed.")
    ] = 2.0,
    confidence: Annotated[
        bool,
        typer.Option(
            help="Learn, from fits of held-out samples, how far fits of this model can be trusted; it takes a few "
            "times as long as training."
        ),
    ] = True,
    licence: Annotated[str, typer.Option(help="A note on the data's licence, kept in the file.")] = "",
    seed: Seed = 0,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Train a model on annotated images and write it to one file.

    All settings are written beside it, to a file of the same name that ends in .toml: with --settings, the
    training can be repeated or changed.
    """
    import json
    import time

    import pliant
    from pliant.cli.inspect import describe, summarise
    from pliant.data.validation import about_range
    from pliant.trust.calibration import FEWEST

    if not output.parent.is_dir():
        raise ValueError(f"{output}: the folder {output.parent} does not exist.")
    if missing not in ("refuse", "complete"):
        raise ValueError(f"--missing is refuse or complete, not '{missing}'.")
    silent = quiet or as_json
    if not silent and not dry_run:
        announce_compiling()
    used: dict[str, Any] = {
        "sources": sources,
        "output": output,
        "images": images,
        "from": format or None,
        "part": part,
        "group_by": group_by,
        "hold_out": hold_out,
        "size": size,
        "scales": numbers("--scales", scales),
        "shape_modes": numbers("--shape-modes", shape_modes),
        "appearance_variance": numbers("--appearance-variance", appearance_variance),
        "features": features,
        "colour": colour,
        "motion": motion,
        "triangles": triangles,
        "mirror": mirror,
        "pairs": pairs,
        "missing": missing,
        "skip_invalid": skip_invalid,
        "detector": detector,
        "memory_gb": memory_gb,
        "confidence": confidence,
        "licence": licence,
        "seed": seed,
    }
    if verbose and not as_json:
        for name, value in used.items():
            say(f"{name.replace('_', '-')}: {value}", error=True)
    dataset = pliant.load_dataset(*sources, images=images, format=format)
    dataset = dataset if part is None else dataset.part(part)
    dataset = dataset if group_by is None else dataset.grouped(group_by)
    held = None
    if hold_out:
        dataset, held = dataset.split(hold_out, seed)
    if dry_run:
        _say_plan(dataset, output, as_json)
        return
    chosen = {
        "size": size,
        "scales": used["scales"],
        "shape_modes": one_or_many(used["shape_modes"]),
        "appearance_variance": one_or_many(used["appearance_variance"]),
        "features": features,
        "colour": colour,
        "motion": motion,
        "triangles": None if triangles is None else _read_numbers(triangles, 3),
        "mirror": mirror if pairs is None else _read_numbers(pairs, 2),
        "missing": missing,
        "skip_invalid": skip_invalid,
        "detector": None if detector == "none" else detector,
        "memory_gb": memory_gb,
        "jobs": jobs,
        "progress": False if silent else None,
        "licence": licence,
    }
    announce_detector(detector)
    begin = time.perf_counter()
    model = _trained(dataset, chosen)
    seconds = time.perf_counter() - begin
    if model.provenance["more_than_8_bits"] and not silent:
        say(about_range(model.provenance["more_than_8_bits"]), error=True)
    if confidence:
        if len(dataset) >= FEWEST:
            model = pliant.calibrate(
                model,
                dataset,
                seed=seed,
                skip_invalid=skip_invalid,
                memory_gb=memory_gb,
                jobs=jobs,
                progress=False if silent else None,
            )
        elif not silent:
            say(f"fewer than {FEWEST} samples: how far fits can be trusted is not learned", error=True)
    model.save(output)
    if held is not None:
        _write_held_out(output.with_suffix(".held-out.csv"), held)
    write_settings(
        output.with_suffix(".toml"),
        "train",
        used,
        f"{output.name} was trained by pliant with these settings.",
    )
    if as_json:
        say(json.dumps({**describe(model), "seconds": round(seconds, 3), "wrote": str(output)}, indent=2))
    elif not quiet:
        summarise(model)
        learned = time.perf_counter() - begin - seconds
        say(
            f"trained on {model.provenance['samples']} samples in {seconds:.1f} s"
            + (f", and learned how far to trust fits in {learned:.1f} s" if model.confidence else "")
            + f"; wrote {output} ({output.stat().st_size / 1e6:.1f} MB)"
        )


def _trained(dataset: Dataset, chosen: dict[str, Any]) -> Model:
    """Train, and say what was left out."""
    import warnings

    import pliant
    from pliant.data.validation import SamplesLeftOut

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SamplesLeftOut)
        model = pliant.train(dataset, **chosen)
    for warning in said:
        say(str(warning.message), colour="yellow", error=True)
    return model


def _write_held_out(path: Path, held: Dataset) -> None:
    """The samples that training has not seen, as a landmark table that `evaluate` reads."""
    import os
    from dataclasses import replace

    from pliant.data.annotation import Annotation
    from pliant.data.formats import write_annotations

    def located(annotation: Annotation, source: object) -> Annotation:
        if not isinstance(source, (str, Path)):
            raise ValueError(f"{path}: {annotation.image} is not a file of its own, and cannot be listed.")
        name = str(source) if "://" in str(source) else Path(os.path.relpath(source, path.parent)).as_posix()
        return replace(annotation, image=name)

    annotated = [sample for sample in held if sample.points_source is not None]
    write_annotations(path, [located(sample.annotation(), sample.image_source) for sample in annotated])


def _say_plan(dataset: Dataset, output: Path, as_json: bool) -> None:
    import json

    annotated = sum(sample.points_source is not None for sample in dataset)
    groups = len({sample.group for sample in dataset if sample.group})
    plan = {"images": len(dataset), "annotated": annotated, "groups": groups, "output": str(output)}
    if as_json:
        say(json.dumps(plan, indent=2))
        return
    say(
        f"would train on {annotated} annotated images of {len(dataset)}"
        + (f" in {groups} groups" if groups else "")
        + f", and write {output} and {output.with_suffix('.toml')}"
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
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ValueError(
            f"{path}: this is not a text file with {wanted} landmark numbers on each line."
        ) from None
    for number, line in enumerate(lines, start=1):
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
    if not rows:
        raise ValueError(
            f"{path}: this file is empty; it should have {wanted} landmark numbers on each line."
        )
    return rows
