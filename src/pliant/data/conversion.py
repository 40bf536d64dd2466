"""Converting landmarks from one format to another: planned first, then written, read again and compared."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from pliant.data.addresses import Source, is_address, is_file, path_in_store, plain_name
from pliant.data.advice import advice
from pliant.data.annotation import Annotation, Convention
from pliant.data.dataset import Sample
from pliant.data.formats import Format, find_format, format_for_ending, tps, write_annotations
from pliant.data.images import ImageError, image_size
from pliant.data.landmark_names import differing_names, usual_names
from pliant.data.loading import load_dataset
from pliant.data.scales import about_given, given_scale, scale_of
from pliant.data.validation import numbered
from pliant.files import real_path, replaced
from pliant.terminal import counted

_EXACT = 0.01
"""Landmarks that come back from the written file further off than this, in pixels, are worth a warning."""


@dataclass(frozen=True)
class Converted:
    """An annotation as it will be written, and the sample that it comes from."""

    annotation: Annotation
    sample: Sample


@dataclass(frozen=True, eq=False)
class Plan:
    """What a conversion will write. `plan_conversion` makes it, and `convert` carries it out.

    Attributes
    ----------
    source : str
        What is read.
    format : str
        The format to write.
    targets : mapping of Path to sequence of Converted
        The objects that each file will hold, each with its `annotation` and its `sample`.
    problems : tuple of str
        A sentence for each object that cannot be converted.
    notes : tuple of str
        Sentences about the length of a pixel: where it is unknown or unreadable, or was given for nothing.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> plan = pliant.data.plan_conversion("photographs/", Path("faces.csv"))
    >>> plan.format, len(plan.objects), plan.problems
    ('csv', 12, ())

    """

    source: str
    format: str
    targets: Mapping[Path, Sequence[Converted]]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[Converted, ...]:
        """All objects that will be converted."""
        return tuple(one for some in self.targets.values() for one in some)


@dataclass(frozen=True, eq=False)
class Conversion:
    """What a conversion wrote.

    Attributes
    ----------
    objects : tuple of Converted
        The objects as they came back when the new files were read, each with its `annotation` and its `sample`.
    files : tuple of Path
        The files that were written.
    losses : tuple of str
        Sentences about what the format could not hold.
    problems : tuple of str
        A sentence for each file that could not be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> done = pliant.data.convert(pliant.data.plan_conversion("photographs/", Path("faces.csv")))
    >>> len(done.objects), len(done.files), done.problems
    (12, 1, ())

    """

    objects: tuple[Converted, ...]
    files: tuple[Path, ...] = ()
    losses: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def plan_conversion(
    source: str,
    output: Path,
    *,
    from_format: str = "",
    to_format: str = "",
    images: Source | None = None,
    names: str = "",
    scale: float | Path | str | None = None,
    overwrite: bool = False,
) -> Plan:
    """Plan the conversion of landmarks to another format. Nothing is written yet.

    Parameters
    ----------
    source : str
        What to read: a folder, a landmark file, or an address.
    output : Path
        The file to write, or a folder that gets one file for each image.
    from_format : str
        The format to read; by default the content decides.
    to_format : str
        The format to write; by default the ending of the file decides, and folders get `pts`.
    images : Path, str or None
        The folder of the images, if it is not that of the landmarks.
    names : str
        What to do if the names of landmarks differ between files: `"usual"` uses the most frequent names, `"keep"`
        leaves them, and names separated by commas are given to all.
    scale : float, Path, str or None
        The length of a pixel, for images whose files do not say it: a number, a CSV file with the columns image
        and scale, or a TPS file with SCALE.
    overwrite : bool
        Replace existing files. Files that are read are never replaced.

    Returns
    -------
    Plan
        What `convert` will write.

    Raises
    ------
    ValueError
        If nothing can be converted, a format is unknown, or a file exists already.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> plan = pliant.data.plan_conversion("labels.xml", Path("faces.tps"))
    >>> plan.format, len(plan.objects)
    ('tps', 12)

    """
    to_format = to_format or (format_for_ending(output) if output.suffix and not output.is_dir() else "pts")
    module, convention = find_format(to_format)
    to_folder = _is_folder(output, module)
    samples = load_dataset(source, images=images, format=from_format)
    lengths = None if scale is None else given_scale(scale)
    read, problems = _read(samples, None if to_folder else output.parent)
    notes = [] if scale is None or lengths is None else _about_scale(scale, lengths, read)
    read = [_with_scale(one, lengths) for one in read]
    read, unsized = _with_sizes(read, convention, to_format)
    read, strayed = _without_strays(read, convention, to_format)
    problems += unsized + strayed
    read = _named(read, names, source)
    if not read:
        why = f"The first problem: {problems[0]}" if problems else f"What to do: {advice(samples)}"
        raise ValueError(f"{source}: nothing could be converted. {why}")
    targets = _targets(read, output, module.EXTENSIONS[0]) if to_folder else {output: read}
    _refuse(targets, source, samples, overwrite)
    notes += _about_unread(read)
    without = [one for one in read if one.annotation.spacing is None]
    if to_format.partition(":")[0] == tps.NAME and len(without) == len(read):
        notes.append("No object has a scale, so there is no SCALE: scale=NUMBER says how long a pixel is.")
    elif scale is not None and 0 < len(without) < len(read):
        which = f"{counted(len(without), 'object')} of {len(read):,}, such as {without[0].annotation.image}"
        notes.append(f"No scale: {which}, which scale={scale} does not name.")
    return Plan(source, to_format, targets, tuple(problems), tuple(notes))


def convert(plan: Plan) -> Conversion:
    """Carry out a conversion, read the new files again, and compare.

    Parameters
    ----------
    plan : Plan
        What to write, from `plan_conversion`.

    Returns
    -------
    Conversion
        The objects and files that were written, and what was lost. A file that cannot be written is a problem, and
        does not stop the others.

    Raises
    ------
    ValueError
        If no file could be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pliant
    >>> done = pliant.data.convert(pliant.data.plan_conversion("labels.xml", Path("faces.tps")))
    >>> [str(file) for file in done.files]
    ['faces.tps']

    """
    objects: list[Converted] = []
    files: list[Path] = []
    losses: list[str] = []
    problems: list[str] = []
    for target, some in plan.targets.items():
        try:
            done, lost = _write(target, some, plan.format)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            continue
        objects += done
        files.append(target)
        losses += lost
    if not objects:
        first = (*plan.problems, *problems)[0]
        raise ValueError(f"{plan.source}: nothing could be converted. The first problem: {first}")
    summed = tuple(f"lost in {counted(count, 'object')}: {loss}" for loss, count in Counter(losses).items())
    return Conversion(tuple(objects), tuple(files), summed, tuple(problems))


def _is_folder(output: Path, module: Format) -> bool:
    """Whether the output is a folder, with a file of this format for each image."""
    if module.MANY and (output.is_dir() or not output.suffix):
        raise ValueError(
            f"{output}: {module.NAME} holds all images in one file: give a file, such as "
            f"{output / f'landmarks{module.EXTENSIONS[0]}'}."
        )
    return not module.MANY and output.suffix.lower() not in module.EXTENSIONS


def _with_sizes(
    read: Sequence[Converted], convention: Convention, to_format: str
) -> tuple[list[Converted], list[str]]:
    """Those whose images have the size that the format needs, and a sentence for each of the others."""
    if not convention.needs_size:
        return list(read), []
    return [one for one in read if one.annotation.size is not None], [
        f"{one.sample.name}: {to_format} needs the size of this image, but the image was not found: give the "
        "folder of the images with images=FOLDER."
        for one in read
        if one.annotation.size is None
    ]


def _read(samples: Iterable[Sample], home: Path | None) -> tuple[list[Converted], list[str]]:
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
        read.append(Converted(located, sample))
    return read, problems


def _about_scale(
    scale: float | Path | str, lengths: float | Mapping[str, float], read: Sequence[Converted]
) -> list[str]:
    """A sentence if the scale that was given is not used."""
    # Objects of one image have one scale.
    own = {_scale_names(one): one.annotation.spacing for one in read}
    return about_given(scale, lengths, list(own), list(own.values()))


def _scale_names(one: Converted) -> tuple[str, str]:
    """The names that an image may have in a list of scales."""
    return one.annotation.image, one.sample.name.partition(", object ")[0]


def _with_scale(one: Converted, lengths: float | Mapping[str, float] | None) -> Converted:
    """With the length of a pixel that was given, or that of a DICOM image, if the landmark file says none."""
    annotation, sample = one.annotation, one.sample
    if annotation.spacing is not None:
        return one
    if lengths is not None:
        spacing = scale_of(lengths, *_scale_names(one))
    else:
        try:
            spacing = sample.spacing()
        except (ValueError, OSError):
            spacing = None
    return replace(one, annotation=replace(annotation, spacing=spacing))


def _about_unread(read: Sequence[Converted]) -> list[str]:
    """A sentence if a file has something for a scale that is none, and is thus left out."""
    unread = [one for one in read if one.annotation.spacing is None and one.annotation.unread_scale]
    if not unread:
        return []
    others = f" There are {len(unread) - 1:,} more like it." if len(unread) > 1 else ""
    return [f"{unread[0].sample.name}: {unread[0].annotation.unread_scale}: correct it.{others}"]


def _without_strays(
    read: Sequence[Converted], convention: Convention, to_format: str
) -> tuple[list[Converted], list[str]]:
    """Landmarks where the format can have none are made missing, with a sentence for each object."""
    kept, sentences = [], []
    for one in read:
        strays = convention.unspeakable(one.annotation.points, one.annotation.size)
        if strays.any():
            points = np.where(strays[:, None], np.nan, one.annotation.points)
            one = replace(one, annotation=replace(one.annotation, points=points))
            sentences.append(
                f"{one.sample.name}: landmarks {numbered(np.flatnonzero(strays))} are left of or below the "
                f"image, which {to_format} cannot store, so they are missing in the output: choose csv, "
                "which keeps them."
            )
        kept.append(one)
    return kept, sentences


def _named(read: Sequence[Converted], names: str, source: str) -> list[Converted]:
    """The annotations with names as `names` wants them; names that differ are refused without it."""
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
            f"{read[first].sample.name}, {differing[first]} names=usual gives all objects the names that "
            "most have, in the order of each file; names=keep leaves them as they are."
        )
    renamed = []
    for one in read:
        if names and len(one.annotation.points) != len(usual):
            raise ValueError(
                f"{one.sample.name}: has {len(one.annotation.points)} landmarks, but there are {len(usual)} "
                "names."
            )
        renamed.append(replace(one, annotation=replace(one.annotation, names=usual)) if names else one)
    return renamed


def _size(sample: Sample) -> tuple[int, int] | None:
    """Of the image, from its header, if it is there."""
    try:
        return image_size(sample.image_source) if isinstance(sample.image_source, (Path, str)) else None
    except ImageError:
        return None


def _name_from(home: Path, sample: Sample, annotation: Annotation) -> str:
    """The image as seen from the folder that the output will be in; as the input had it, if it is not there."""
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
    if annotation.image:
        name = PurePosixPath(annotation.image.replace("\\", "/"))
        elsewhere = name.is_absolute() or ".." in name.parts or ":" in annotation.image
        return name.name if elsewhere else str(name)
    source = sample.image_source
    return plain_name(source) if isinstance(source, (Path, str)) else Path(sample.name).name


def _targets(read: Sequence[Converted], folder: Path, ending: str) -> dict[Path, list[Converted]]:
    """A file for each image, in which the image has its plain name."""
    targets: dict[Path, list[Converted]] = {}
    owners: dict[Path, object] = {}
    for one in read:
        name = PurePosixPath(one.annotation.image)
        target = folder / name.with_suffix(ending)
        owner = owners.setdefault(target, one.sample.image_source)
        if owner != one.sample.image_source:
            raise ValueError(f"{owner} and {one.sample.image_source} would both be written to {target}.")
        plain = replace(one.annotation, image=name.name)
        targets.setdefault(target, []).append(Converted(plain, one.sample))
    return targets


def _refuse(targets: Iterable[Path], source: str, samples: Iterable[Sample], overwrite: bool) -> None:
    """Never write over what is being read, and over other files only if that is asked for."""
    inputs = {real_path(source)}
    inputs |= {
        real_path(sample.points_source) for sample in samples if isinstance(sample.points_source, Path)
    }
    for target in targets:
        if real_path(target) in inputs:
            raise ValueError(f"{target}: this is the file being converted: write to another place.")
        if os.path.lexists(target) and not overwrite:
            raise ValueError(f"{target} already exists: overwrite=True replaces it.")


def _write(target: Path, some: Sequence[Converted], to_format: str) -> tuple[list[Converted], list[str]]:
    """Write one file, read it again, and say what came back otherwise; a failure leaves nothing behind."""
    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replaced(target) as partial:
            try:
                return _written(partial, some, to_format)
            except (ValueError, OSError) as error:
                raise ValueError(str(error).replace(str(partial), str(target))) from None
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _written(target: Path, some: Sequence[Converted], to_format: str) -> tuple[list[Converted], list[str]]:
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
        raise ValueError(f"{target}: wrote {len(annotations)} objects, but read back {len(back)}.")
    names = {annotation.image for annotation in back}
    if names >= set(sizes):
        # Objects of one image may have moved together.
        back = [annotation for name in sizes for annotation in back if annotation.image == name]
        some = [one for name in sizes for one in some if one.annotation.image == name]
    pairs = list(zip(some, back, strict=True))
    losses = [loss for one, other in pairs for loss in _lost(one.annotation, other)]
    return [
        replace(one, annotation=replace(one.annotation, points=other.points, spacing=other.spacing))
        for one, other in pairs
    ], losses


def _hidden(annotation: Annotation) -> list[int]:
    return [] if annotation.hidden is None else np.flatnonzero(annotation.hidden).tolist()


def _lost(before: Annotation, after: Annotation) -> list[str]:
    losses = []
    if before.names and before.names != after.names:
        losses.append("landmark names")
    if before.box is not None and after.box is None:
        losses.append("the box")
    if before.group and not after.group:
        losses.append("the group")
    if before.score is not None and after.score is None:
        losses.append("the score (confidence)")
    if _hidden(before) != _hidden(after):
        losses.append("which landmarks are hidden")
    if before.spacing is not None and after.spacing is None:
        losses.append("the length of a pixel (SCALE)")
    if before.curves and before.curves != after.curves:
        losses.append("which landmarks are points of curves")
    if before.points.shape != after.points.shape:
        return [*losses, f"landmarks (wrote {len(before.points)}, read back {len(after.points)})"]
    if np.any(np.isnan(before.points) != np.isnan(after.points)):
        losses.append("which landmarks are missing")
    off = np.abs(before.points - after.points)
    if np.any(off[~np.isnan(off)] > _EXACT):
        losses.append("the exact position of landmarks")
    return losses
