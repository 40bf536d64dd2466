"""`pliant train`: from a folder of annotated images to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.compiling import announce_compiling
from pliant.cli.options import (
    AsJson,
    Cluster,
    DryRun,
    From,
    Images,
    Jobs,
    Part,
    Quiet,
    SchedulerFile,
    SettingsFile,
    Verbose,
    crew_told,
    learn_data,
    told,
    with_settings,
    write_settings,
)
from pliant.cli.starts import announce_detector
from pliant.settings import Training
from pliant.terminal import counted, say

if TYPE_CHECKING:
    from pliant.crew import Crew
    from pliant.data.addresses import Source
    from pliant.data.dataset import Dataset
    from pliant.model import Model


_MOST_HELD = 0.9
"""The largest share of the samples that can be held out."""


def _share(text: str | float) -> float:
    """A share of the samples: 0.2 or 20%. A whole number could be per cent or samples, and is refused."""
    try:
        share = float(str(text).removesuffix("%")) / (100 if str(text).endswith("%") else 1)
    except ValueError:
        share = -1.0
    if 0 <= share <= _MOST_HELD:
        return share
    guess = f" For {share:g} % of them, give {share / 100:g} or {share:g}%." if 1 < share <= 90 else ""
    raise typer.BadParameter(
        f"{text}: give the share of the samples to hold out, from 0 to {_MOST_HELD}, not their number.{guess}"
    )


_TOLD = ("detector", "triangles", "mirror")
"""Settings that are written down as they were given."""


@with_settings("training", Training, without=("triangles",))
def train(
    *,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of images with landmark files beside them, annotation files for many images, "
            "manifests (CSV or Parquet), or addresses of these (s3://, gs://, zip://)."
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="The model file or address (s3://...) to write to.")
    ] = "model.pliant",
    images: Images = None,
    format: From = "",
    part: Part = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="Regular expression for image names. Its first group identifies the person or video."
        ),
    ] = None,
    hold_out: Annotated[
        float,
        typer.Option(
            help="Share of the samples to hold out, such as 0.2 or 20%, in whole groups. They are listed in a file "
            "next to the model that ends in .held-out.csv, for `evaluate`.",
            parser=_share,
            metavar="SHARE",
        ),
    ] = 0.0,
    training: Training,
    triangles: Annotated[
        Path | None,
        typer.Option(help="Text file with three landmark numbers per line, counted from 0.", exists=True),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Like --mirror, with a text file of pairs: two landmark numbers per line.", exists=True
        ),
    ] = None,
    cluster: Cluster = None,
    scheduler_file: SchedulerFile = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Train a model on annotated images and write it to one file.

    All settings are written next to it, to a file of the same name that ends in .toml. Use it with --settings
    to repeat or change the training.
    """
    import time

    import pliant
    from pliant.building.build import checked_samples
    from pliant.data.addresses import as_source, is_file, plain_name, require_folder_of, with_ending
    from pliant.data.dataset import Dataset
    from pliant.data.loading import HELD_OUT
    from pliant.data.missing_images import about_missing, without_missing
    from pliant.data.ownership import MODEL, SETTINGS, refuse_foreign

    target = as_source(output)
    require_folder_of(target)
    refuse_foreign(target, MODEL)
    refuse_foreign(with_ending(target, ".toml"), SETTINGS)
    silent = quiet or as_json
    if not silent and not dry_run:
        announce_compiling()
    used: dict[str, Any] = {
        "sources": sources,
        "output": target,
        "images": images,
        "from": format or None,
        "part": part,
        "group_by": group_by,
        "hold_out": hold_out,
        "triangles": triangles,
        "pairs": pairs,
        **training.to_dict(),
    }
    if verbose and not as_json:
        for name, value in used.items():
            say(f"{name.replace('_', '-')}: {value}", error=True)
    learn_data(sources, images, format)
    dataset = pliant.load_dataset(*sources, images=images, format=format)
    dataset = dataset if part is None else dataset.part(part)
    dataset = dataset if group_by is None else dataset.grouped(group_by)
    dataset, missing = without_missing(dataset)
    if len(missing) and not (training.skip_invalid and len(dataset)):
        leave_out = " Use skip_invalid=True to train without them." if len(dataset) else ""
        raise ValueError(f"{about_missing(missing, dataset)}{leave_out}")
    held = None
    if hold_out:
        dataset, held = dataset.split(hold_out, training.seed)
    # Training lists what it leaves out.
    every = Dataset(dataset.samples + missing.samples, dataset.source)
    if dry_run:
        annotated = sum(sample.points_source is not None for sample in dataset)
        if not annotated or (annotated < len(dataset) and not training.skip_invalid):
            # Training will fail, and says all that is wrong.
            checked_samples(every, training, jobs=jobs, progress=False if silent else None)
        _say_plan(dataset, missing, held, target, as_json)
        return
    dataset = every
    if triangles is not None:
        training = training.changed(triangles=_read_numbers(triangles, 3))
    if pairs is not None:
        training = training.changed(mirror=_read_numbers(pairs, 2))
    announce_detector(training.detector)
    begin = time.perf_counter()
    with crew_told(jobs, cluster, scheduler_file) as crew:
        model = _trained(dataset, training, crew, silent)
    replaced = is_file(as_source(target))
    model.save(target)
    if held is not None:
        _write_held_out(with_ending(target, HELD_OUT), held)
    # What was chosen, and where a detector of one's own lies, which the model does not know.
    used |= {name: value for name, value in model.settings.to_dict().items() if name not in _TOLD}
    note = f"{plain_name(target)} was trained by pliant with these settings."
    write_settings(with_ending(target, ".toml"), "train", used, note)
    _say_outcome(model, target, time.perf_counter() - begin, quiet, as_json)
    if replaced and not silent:
        say("it took the place of an earlier model")
    if held is not None and not silent:
        listed = with_ending(target, HELD_OUT)
        say(
            f"held out {counted(len(held), 'sample')}, listed in {listed}; next: pliant evaluate {target} {listed}"
        )


def _say_outcome(model: Model, output: Source, seconds: float, quiet: bool, as_json: bool) -> None:
    import json

    from pliant.cli.inspect import describe, summarise
    from pliant.data.addresses import size_in_bytes

    if as_json:
        say(json.dumps({**describe(model), "seconds": round(seconds, 3), "wrote": str(output)}, indent=2))
    elif not quiet:
        summarise(model)
        say(
            f"trained on {model.provenance['samples']} samples"
            + (", and learned how far fits can be trusted," if model.confidence else "")
            + f" in {seconds:.1f} s; wrote {output} ({(size_in_bytes(output) or 0) / 1e6:.1f} MB)"
        )


def _trained(dataset: Dataset, training: Training, jobs: int | Crew | None, silent: bool) -> Model:
    """Train, and say what was left out and what could not be learned."""
    import warnings

    import pliant
    from pliant.building.facing import MixedFacings
    from pliant.data.validation import SamplesLeftOut, about_range
    from pliant.training import NotCalibrated
    from pliant.trust.calibration import FEWEST

    with warnings.catch_warnings(record=True) as said:
        for kind in (SamplesLeftOut, MixedFacings, NotCalibrated):
            warnings.simplefilter("always", kind)
        model = pliant.train(dataset, training, jobs=jobs, progress=False if silent else None)
    for warning in said:
        say(told(warning.message), colour="yellow", error=True)
    if not silent and model.provenance["more_than_8_bits"]:
        say(about_range(model.provenance["more_than_8_bits"]), error=True)
    if not silent and training.confidence and len(dataset) < FEWEST:
        say(f"fewer than {FEWEST} samples: too few to learn how far fits can be trusted", error=True)
    return model


def _write_held_out(path: Source, held: Dataset) -> None:
    """The samples that training has not seen, as a landmark table that `evaluate` reads."""
    import os
    from dataclasses import replace

    from pliant.data.addresses import is_address, join, parent, plain_name, written
    from pliant.data.annotation import Annotation
    from pliant.data.formats import write_annotations

    def located(annotation: Annotation, source: object) -> Annotation:
        if not isinstance(source, (str, Path)):
            raise ValueError(f"{path}: {annotation.image} is not a separate file, so it cannot be listed.")
        if is_address(source):
            # A table at an address names what lies below it.
            name = str(source).removeprefix(str(join(parent(path), "")))
        elif isinstance(path, Path):
            name = Path(os.path.relpath(source, path.parent)).as_posix()
        else:
            name = plain_name(Path(source))
        return replace(annotation, image=name)

    annotated = [sample for sample in held if sample.points_source is not None]
    with written(path) as partial:
        write_annotations(
            partial, [located(sample.annotation(), sample.image_source) for sample in annotated]
        )


def _say_plan(
    dataset: Dataset, missing: Dataset, held: Dataset | None, output: Source, as_json: bool
) -> None:
    import json

    from pliant.data.addresses import with_ending
    from pliant.data.loading import HELD_OUT
    from pliant.data.missing_images import about_missing

    kept = 0 if held is None else len(held)
    annotated = sum(sample.points_source is not None for sample in dataset)
    groups = len({sample.group for sample in dataset if sample.group})
    if as_json:
        plan = {"images": len(dataset), "annotated": annotated, "missing": len(missing), "groups": groups}
        say(json.dumps({**plan, "held_out": kept, "output": str(output)}, indent=2))
        return
    if len(missing):
        say(told(about_missing(missing, dataset)), colour="yellow", error=True)
    say(
        f"would train on {counted(annotated, 'annotated image')} of {len(dataset) + kept}"
        + (f" in {counted(groups, 'group')}" if groups else "")
        + (f", hold out {kept}, list these in {with_ending(output, HELD_OUT)}" if kept else "")
        + f", and write {output} and {with_ending(output, '.toml')}"
    )


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
