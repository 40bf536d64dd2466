"""`pliant convert`: landmarks from one format to another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.exits import INCOMPLETE
from pliant.cli.options import AsJson, DryRun, Quiet, SettingsFile, Verbose, say_settings
from pliant.terminal import say, shortened

if TYPE_CHECKING:
    from pliant.data.annotation import Annotation, Convention
    from pliant.data.dataset import Sample

_DRAWN = 24
_EXACT = 0.01
"""Landmarks that come back from the written file further off than this, in pixels, are worth a warning."""


def convert(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(help="A landmark file, a folder of landmark files, a manifest, or an address of one."),
    ],
    output: Annotated[
        Path, typer.Argument(help="The file to write, or a folder if each image gets a file of its own.")
    ],
    from_format: Annotated[
        str, typer.Option("--from", help="Format of what is read, if its content is not to decide.")
    ] = "",
    to_format: Annotated[
        str, typer.Option("--to", help="Format to write, if the ending does not say it; pts for a folder.")
    ] = "",
    images: Annotated[
        str | None, typer.Option(help="Folder of the images, if it is not the landmarks'.")
    ] = None,
    preview: Annotated[
        Path | None, typer.Option(help=f"Draw up to {_DRAWN} of the converted samples to this file.")
    ] = None,
    names: Annotated[
        str,
        typer.Option(
            help="Where landmark names differ between files: 'usual' gives all the names of most, 'keep' leaves "
            "them; or the names themselves, with commas."
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    settings: SettingsFile = None,
) -> None:
    """Convert landmarks from one format to another, exactly.

    What is written is read again and compared; what the format could not
    hold is said. A file that cannot be converted does not stop the others:
    it is listed, and the exit code is 3.
    """
    import json

    import pliant
    from pliant.data.advice import advice
    from pliant.data.formats import find_format, format_for_ending

    if verbose and not (quiet or as_json):
        say_settings(context)
    to_format = to_format or (format_for_ending(output) if output.suffix and not output.is_dir() else "pts")
    module, convention = find_format(to_format)
    if module.MANY and (output.is_dir() or not output.suffix):
        raise ValueError(
            f"{output}: one file of {module.NAME} holds all images: name a file, such as "
            f"{output / f'landmarks{module.EXTENSIONS[0]}'}."
        )
    if preview is not None and not preview.parent.is_dir():
        raise ValueError(f"{preview}: the folder {preview.parent} does not exist.")
    to_folder = not module.MANY and output.suffix.lower() not in module.EXTENSIONS
    samples = pliant.load_dataset(source, images=images, format=from_format)
    read, problems = _read(samples, None if to_folder else output.parent)
    if convention.needs_size:
        problems += [
            f"{one.sample.name}: {to_format} needs the size of this image, which was not found: say where images "
            "are with --images."
            for one in read
            if one.annotation.size is None
        ]
        read = [one for one in read if one.annotation.size is not None]
    read, strayed = _without_strays(read, convention, to_format)
    problems += strayed
    read = _named(read, names, source)
    targets = _targets(read, output, module.EXTENSIONS[0]) if to_folder else {output: read} if read else {}
    _refuse(targets, source, samples, force)
    written: list[_Converted] = []
    losses: list[str] = []
    for target, some in targets.items():
        if dry_run:
            written += some
            continue
        try:
            done, lost = _write(target, some, to_format)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            continue
        written += done
        losses += lost
    if not written:
        first = f" The first problem: {problems[0]}" if problems else f" What to do: {advice(samples)}"
        raise ValueError(f"{source}: nothing could be converted.{first}")
    if preview is not None and not dry_run:
        problems += _draw(written, preview)
    losses = _summed(losses)
    report: dict[str, Any] = {
        "objects": len(written),
        "landmarks": sum(len(one.annotation.points) for one in written),
        "format": to_format,
        "written": [] if dry_run else [str(target) for target in targets],
        "lost": losses,
        "problems": problems,
    }
    if as_json:
        say(json.dumps(report, indent=2))
    else:
        for sentence in (*shortened(problems, "--json lists all"), *losses):
            say(sentence, colour="yellow", error=True)
        if not quiet:
            verb = "would convert" if dry_run else "converted"
            where = f"{len(targets)} files in {output}" if to_folder else str(output)
            say(
                f"{verb} {report['objects']} objects with {report['landmarks']} landmarks to {to_format}: {where}"
            )
            if preview is not None and not dry_run:
                say(f"wrote {preview}")
    if problems:
        raise typer.Exit(INCOMPLETE)


@dataclass(frozen=True)
class _Converted:
    """An annotation as it is to be written, and the sample it comes from."""

    annotation: Annotation
    sample: Sample


def _read(samples: Iterable[Sample], home: Path | None) -> tuple[list[_Converted], list[str]]:
    """Annotations with the names and sizes of their images, and a sentence for each failure.

    Names are paths from `home`; without one, they are what the file's name in the output folder is made of.
    """
    read, problems = [], []
    for sample in samples:
        try:
            annotation = sample.annotation()
        except (ValueError, OSError) as error:
            if sample.points_source is not None:
                problems.append(str(error))
            continue
        size = annotation.size or _size(sample)
        name = _inner_name(sample, annotation) if home is None else _name_from(home, sample, annotation)
        # Some formats hold the images themselves.
        located = replace(annotation, image=name, size=size, pixels=sample.image)
        read.append(_Converted(located, sample))
    return read, problems


def _without_strays(
    read: Sequence[_Converted], convention: Convention, to_format: str
) -> tuple[list[_Converted], list[str]]:
    """Landmarks where the format can have none are made missing, with a sentence for each object."""
    import numpy as np

    from pliant.data.validation import numbered

    kept, sentences = [], []
    for one in read:
        strays = convention.unspeakable(one.annotation.points, one.annotation.size)
        if strays.any():
            points = np.where(strays[:, None], np.nan, one.annotation.points)
            one = replace(one, annotation=replace(one.annotation, points=points))
            sentences.append(
                f"{one.sample.name}: landmarks {numbered(np.flatnonzero(strays))} lie left of or below the image "
                f"and are missing in the output, as {to_format} has none there: choose csv, which keeps them."
            )
        kept.append(one)
    return kept, sentences


def _named(read: Sequence[_Converted], names: str, source: str) -> list[_Converted]:
    """The annotations with names as `--names` wants them; names that differ are refused without it."""
    from pliant.data.landmark_names import differing_names, usual_names

    if names == "keep":
        return list(read)
    usual = usual_names([one.annotation for one in read])
    if names and names != "usual":
        usual = tuple(name.strip() for name in names.split(","))
    differing = differing_names([one.annotation for one in read], usual)
    if differing and not names:
        first = next(iter(differing))
        raise ValueError(
            f"{source}: landmark names differ in {len(differing)} of {len(read)} objects. In "
            f"{read[first].sample.name}, {differing[first]} --names usual gives all of them the names of most, in "
            "the order of each file; --names keep leaves them."
        )
    renamed = []
    for one in read:
        if names and len(one.annotation.points) != len(usual):
            raise ValueError(
                f"{one.sample.name}: has {len(one.annotation.points)} landmarks, and --names has {len(usual)}."
            )
        renamed.append(replace(one, annotation=replace(one.annotation, names=usual)) if names else one)
    return renamed


def _size(sample: Sample) -> tuple[int, int] | None:
    """Of the image, from its header, if it is there."""
    from pliant.data.images import ImageError, image_size

    try:
        return image_size(sample.image_source) if isinstance(sample.image_source, (Path, str)) else None
    except ImageError:
        return None


def _name_from(home: Path, sample: Sample, annotation: Annotation) -> str:
    """The image as seen from the folder that the output will be in; as the input had it, if it is not there."""
    from pliant.data.addresses import is_address, is_file, path_in_store, plain_name
    from pliant.files import real_path

    source = sample.image_source
    if not isinstance(source, (Path, str)):
        return annotation.image or Path(sample.name).name
    if isinstance(source, str):
        # Landmark files hold no addresses: nobody would read them.
        known = annotation.image and not is_address(annotation.image)
        return annotation.image if known else path_in_store(source)
    if not is_file(source):
        return annotation.image or plain_name(source)
    try:
        return Path(os.path.relpath(real_path(source), real_path(home))).as_posix()
    except ValueError:  # Another drive.
        return real_path(source).as_posix()


def _inner_name(sample: Sample, annotation: Annotation) -> str:
    """The image's name, with the folders that the input gives it unless they lead elsewhere."""
    from pliant.data.addresses import plain_name

    if annotation.image:
        name = PurePosixPath(annotation.image.replace("\\", "/"))
        elsewhere = name.is_absolute() or ".." in name.parts or ":" in annotation.image
        return name.name if elsewhere else str(name)
    source = sample.image_source
    return plain_name(source) if isinstance(source, (Path, str)) else Path(sample.name).name


def _targets(read: Sequence[_Converted], folder: Path, ending: str) -> dict[Path, list[_Converted]]:
    """A file for each image, in which the image has its plain name."""
    targets: dict[Path, list[_Converted]] = {}
    owners: dict[Path, object] = {}
    for one in read:
        name = PurePosixPath(one.annotation.image)
        target = folder / name.with_suffix(ending)
        owner = owners.setdefault(target, one.sample.image_source)
        if owner != one.sample.image_source:
            raise ValueError(f"{owner} and {one.sample.image_source} would both be written to {target}.")
        plain = replace(one.annotation, image=name.name)
        targets.setdefault(target, []).append(_Converted(plain, one.sample))
    return targets


def _refuse(targets: Iterable[Path], source: str, samples: Iterable[Sample], force: bool) -> None:
    """Never write over what is being read, and over other files only if that is asked for."""
    from pliant.files import real_path

    inputs = {real_path(source)}
    inputs |= {
        real_path(sample.points_source) for sample in samples if isinstance(sample.points_source, Path)
    }
    for target in targets:
        if real_path(target) in inputs:
            raise ValueError(f"{target}: this is what is being converted: write to another place.")
        if os.path.lexists(target) and not force:
            raise ValueError(f"{target} is there already: --force replaces it.")


def _write(target: Path, some: Sequence[_Converted], to_format: str) -> tuple[list[_Converted], list[str]]:
    """Write one file, read it again, and say what came back otherwise; a failure leaves nothing behind."""
    from contextlib import suppress
    from tempfile import TemporaryDirectory

    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # In a folder of its own, as some formats write the name of the file into it.
        with TemporaryDirectory(dir=target.parent, prefix=".converting-") as passing:
            partial = Path(passing) / target.name
            try:
                outcome = _written(partial, some, to_format)
            except (ValueError, OSError) as error:
                raise ValueError(str(error).replace(str(partial), str(target))) from None
            os.replace(partial, target)
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise
    return outcome


def _written(target: Path, some: Sequence[_Converted], to_format: str) -> tuple[list[_Converted], list[str]]:
    from pliant.data.formats import find_format, write_annotations

    module, convention = find_format(to_format)
    annotations = [one.annotation for one in some]
    write_annotations(target, annotations, to_format)
    sizes = {annotation.image: annotation.size for annotation in annotations}
    only = next(iter(sizes.values())) if len(sizes) == 1 else None

    def size_of(name: str) -> tuple[int, int]:
        size = sizes.get(name, only)
        if size is None:
            raise ValueError(f"{target}: the size of {name or 'the image'} is unknown.")
        return size

    back = module.read(target, convention, size_of)
    if len(back) != len(annotations):
        raise ValueError(f"{target}: {len(annotations)} objects were written, and {len(back)} came back.")
    names = {annotation.image for annotation in back}
    if names >= set(sizes):
        # Objects of one image may have moved together.
        back = [annotation for name in sizes for annotation in back if annotation.image == name]
        some = [one for name in sizes for one in some if one.annotation.image == name]
    pairs = list(zip(some, back, strict=True))
    losses = [loss for one, other in pairs for loss in _lost(one.annotation, other)]
    return [
        replace(one, annotation=replace(one.annotation, points=other.points)) for one, other in pairs
    ], losses


def _lost(before: Annotation, after: Annotation) -> list[str]:
    import numpy as np

    losses = []
    if before.names and before.names != after.names:
        losses.append("names of landmarks")
    if before.box is not None and after.box is None:
        losses.append("the box")
    if before.group and not after.group:
        losses.append("the group")
    if before.points.shape != after.points.shape:
        return [*losses, f"landmarks ({len(before.points)} were written, {len(after.points)} came back)"]
    if np.any(np.isnan(before.points) != np.isnan(after.points)):
        losses.append("that landmarks are missing")
    off = np.abs(before.points - after.points)
    if np.any(off[~np.isnan(off)] > _EXACT):
        losses.append("the exact place of landmarks")
    return losses


def _summed(losses: Sequence[str]) -> list[str]:
    """One sentence for each kind of loss."""
    from collections import Counter

    return [f"lost in {count} objects: {loss}" for loss, count in Counter(losses).items()]


def _draw(written: Sequence[_Converted], preview: Path) -> list[str]:
    """Draw samples whose image can be read, evenly picked; a sentence if there is none."""
    from pliant.data.images import ImageError
    from pliant.plots import plot_samples

    drawn: list[Sample] = []
    for one in written[:: max(1, -(-len(written) // _DRAWN))]:
        try:
            one.sample.image()
        except ImageError:
            continue
        drawn.append(replace(one.sample, points_source=one.annotation, format=""))
    if not drawn:
        return [f"{preview}: no image was found to draw: say where images are with --images."]
    plot_samples(drawn).savefig(preview, dpi=120)
    return []
