"""Reading specimens from annotations and from tables of fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from pliant.arrays import Float64
from pliant.data.addresses import Source, as_source, is_file, is_folder, join
from pliant.data.dataset import Dataset, Sample
from pliant.data.formats import tps
from pliant.data.image_lookup import find_image
from pliant.data.images import ImageError, image_size, image_spacing
from pliant.data.loading import load_dataset
from pliant.data.scales import about_given, given_scale, scale_of
from pliant.morphometrics.specimens import MILLIMETRES, UNNAMED, Specimens, about_scales, counted
from pliant.table import read_fits, read_head
from pliant.trust.confidence import require_confidence

LITTLE = 0.5
"""Fits with a confidence below this are flagged."""

_MIXED = (
    "Fits are mixed with landmarks that were placed by hand: fits vary less, because a model draws uncertain "
    "landmarks towards the usual shape. Give one kind alone, or compare the two with replicates=FITS."
)


@dataclass(frozen=True, eq=False)
class _One:
    """A specimen before it is joined with the others."""

    image: str
    points: Float64
    identity: str = ""
    scale: float = np.nan
    unit: str = UNNAMED
    landmark_names: tuple[str, ...] = ()
    curves: tuple[int, ...] = ()
    confidence: float = np.nan
    unread_scale: str = ""


def read_specimens(
    *sources: Source,
    images: Source | None = None,
    format: str = "",
    scale: float | Path | str | None = None,
    unit: str = "",
    least_confidence: float | None = None,
) -> Specimens:
    """Read specimens from annotations or from fits.

    Parameters
    ----------
    *sources : str or Path
        Annotation files or folders, as `pliant.load_dataset` takes them, or tables of fits, as `pliant.read_fits`
        takes them. A TPS file needs no images here.
    images : str, Path or None
        The folder of the images that annotation files name; by default that of the file.
    format : str
        The format of landmark files; by default their content decides.
    scale : float, Path, str or None
        The length of a pixel, for images whose files do not say it: a number, a CSV file with the columns image
        and scale, or a TPS file with SCALE.
    unit : str
        The unit of lengths, such as `"mm"`. In DICOM files it is millimetres.
    least_confidence : float or None
        Leave out fits with less confidence; by default they are kept.

    Returns
    -------
    Specimens
        The specimens. `notes` has a sentence for everything that was left out.

    Examples
    --------
    >>> import pliant
    >>> specimens = pliant.morphometrics.read_specimens("photographs/", scale=0.02, unit="mm")
    >>> specimens.points.shape, specimens.length_unit
    ((12, 68, 2), 'mm')

    """
    if not sources:
        raise ValueError("give at least one annotation file or table of fits.")
    if least_confidence is not None:
        require_confidence("least_confidence", least_confidence)
    found: list[_One] = []
    places = [as_source(source) for source in sources]
    fitted = [_is_fits(source) for source in places]
    notes = [_MIXED] if any(fitted) and not all(fitted) else []
    for source, fits in zip(places, fitted, strict=True):
        if fits:
            some, said = _of_fits(source, least_confidence)
        elif isinstance(source, Path) and _is_tps(source, format):
            some, said = _of_tps(source, images), []
        else:
            some, said = _of_dataset(load_dataset(source, images=images, format=format))
        found += some
        notes += said
    if not found:
        raise ValueError(" ".join([f"{', '.join(map(str, sources))}: no specimen has landmarks.", *notes]))
    return _measured(found, notes, scale, unit)


def specimens_of(dataset: Dataset, *, scale: float | Path | str | None = None, unit: str = "") -> Specimens:
    """Make specimens of a data set, such as `pliant.load_dataset` returns.

    Parameters
    ----------
    dataset : Dataset
        The samples. Samples without landmarks are left out.
    scale : float, Path, str or None
        The length of a pixel, as in `read_specimens`.
    unit : str
        The unit of lengths, such as `"mm"`.

    Returns
    -------
    Specimens
        The specimens in the order of the data set.

    Examples
    --------
    >>> import pliant
    >>> len(pliant.morphometrics.specimens_of(pliant.load_dataset("photographs/")))
    12

    """
    found, notes = _of_dataset(dataset)
    if not found:
        raise ValueError(f"{dataset.source}: no specimen has landmarks.")
    return _measured(found, notes, scale, unit)


def _is_fits(source: Source) -> bool:
    if is_folder(source):
        return any(is_file(join(source, name)) for name in ("fits.parquet", "track.parquet"))
    if not str(source).lower().endswith(".parquet"):
        return False
    try:
        read_head(source)
    except ValueError:
        return False
    return True


def _is_tps(source: Path, format: str) -> bool:
    return (
        source.is_file()
        and source.suffix.lower() in tps.EXTENSIONS
        and format.partition(":")[0] in ("", "tps")
    )


def _of_tps(path: Path, folder: Source | None) -> list[_One]:
    """Shapes need no image: y stays as the file has it, upwards."""
    found = []
    for one in tps.read_specimens(path):
        scale, unit = one.spacing, UNNAMED
        if scale is None and one.image:
            try:
                image = find_image(one.image, path, folder)
            except ValueError:
                image = None
            scale, unit = None if image is None else _millimetres(image), MILLIMETRES
        unread = f"{path}: {one.unread_scale}" if one.unread_scale else ""
        found.append(
            _One(
                one.image,
                one.points,
                one.identity,
                scale or np.nan,
                unit,
                curves=one.curves,
                unread_scale=unread,
            )
        )
    return found


def _of_dataset(dataset: Dataset) -> tuple[list[_One], list[str]]:
    found, without = [], 0
    for sample in dataset:
        if sample.points_source is None:
            without += 1
            continue
        annotation = sample.annotation()
        scale, unit = annotation.spacing, UNNAMED
        if scale is None and isinstance(sample.image_source, (Path, str)):
            scale, unit = _millimetres(sample.image_source), MILLIMETRES
        names = annotation.names if len(annotation.names) == len(annotation.points) else ()
        height = _height(sample) if annotation.size is None else annotation.size[1]
        found.append(
            _One(
                sample.name,
                _upwards(annotation.points, height),
                annotation.identity,
                scale or np.nan,
                unit,
                names,
                annotation.curves,
                unread_scale=f"{sample.name}: {annotation.unread_scale}" if annotation.unread_scale else "",
            )
        )
    notes = [f"Left out: {counted(without)} without landmarks."] if without else []
    return found, notes


def _of_fits(source: Source, least: float | None) -> tuple[list[_One], list[str]]:
    table = read_fits(source)
    count = len(table["status"])
    confidence = table.get("confidence", np.full(count, np.nan))
    fitted = np.isfinite(table["points"]).any(axis=(1, 2)) & (table["status"] != "failed")
    doubtful = fitted & (confidence < (LITTLE if least is None else least))
    notes = []
    if failed := int(np.sum(~fitted)):
        first = _name(str(table["image"][int(np.argmin(fitted))]))
        notes.append(f"Left out: {counted(failed)} whose fit failed, such as {first}.")
    if np.any(doubtful):
        first = _name(str(table["image"][int(np.argmax(doubtful))]))
        said = (
            f"{counted(int(np.sum(doubtful)))} with a confidence below {LITTLE if least is None else least:g}"
        )
        notes.append(
            f"Flagged: {said}, such as {first}. least_confidence={LITTLE:g} leaves them out."
            if least is None
            else f"Left out: {said}, such as {first}."
        )
    if least is not None:
        if np.isnan(confidence[fitted]).all():
            notes.append("The fits have no confidence, so none was left out: calibrate the model.")
        fitted &= ~doubtful
    names = tuple(table["landmark_names"].tolist())
    several = Counter(table["image"][fitted].tolist())
    found = []
    for number in np.flatnonzero(fitted).tolist():
        image = str(table["image"][number])
        label = _number_of(table, number, several[image] > 1)
        found.append(
            _One(
                image,
                _upwards(
                    table["points"][number], float(table["height"][number]) if "height" in table else None
                ),
                f"{_name(image)}{label}" if label else "",
                _millimetres(as_source(image)) or np.nan,
                MILLIMETRES,
                names,
                confidence=float(confidence[number]),
            )
        )
    return found, notes


def _number_of(table: Mapping[str, Any], number: int, several: bool) -> str:
    """What tells rows of one image apart: the frame, or the number of the object."""
    if "frame" in table:
        return f"_frame{int(table['frame'][number])}"
    return f"_{int(table['object'][number]) + 1}" if several and "object" in table else ""


def _upwards(points: Float64, height: float | None) -> Float64:
    """Landmarks `(v, 2)` with y from the lower edge of the image, or from their own lowest if that is unknown."""
    edge = height if height is not None and np.isfinite(height) else np.nanmax(points[:, 1], initial=0.0)
    return np.asarray(np.stack([points[:, 0], edge - points[:, 1]], axis=1))


def _height(sample: Sample) -> float | None:
    try:
        if isinstance(sample.image_source, (Path, str)):
            return image_size(sample.image_source)[1]
    except ImageError:
        pass
    return None


def _millimetres(image: Source) -> float | None:
    """The length of a pixel of a DICOM file; None for others, or if it is not there."""
    try:
        return image_spacing(image) if is_file(image) else None
    except (ValueError, OSError):
        return None


def _measured(
    found: Sequence[_One], notes: Sequence[str], scale: float | Path | str | None, unit: str
) -> Specimens:
    """The specimens with their scales, and a sentence if some of these could not be read."""
    specimens = _scaled(_joined(found, notes), scale, unit)
    lacking = np.isnan(specimens.scales)
    unread = [one.unread_scale for one, none in zip(found, lacking, strict=True) if none and one.unread_scale]
    if not unread:
        return specimens
    others = f" There are {len(unread) - 1:,} more like it." if len(unread) > 1 else ""
    return replace(specimens, notes=(*specimens.notes, f"{unread[0]}: correct it.{others}"))


def _joined(found: Sequence[_One], notes: Sequence[str]) -> Specimens:
    usual = Counter(len(one.points) for one in found).most_common(1)[0][0]
    for one in found:
        if len(one.points) != usual:
            raise ValueError(
                f"{one.image or one.identity}: has {len(one.points)} landmarks, but most have {usual}: only "
                "the same landmarks can be compared."
            )
    all_names = {one.landmark_names for one in found}
    points = [one.points for one in found]
    landmark_names = found[0].landmark_names
    if len(all_names) > 1 and landmark_names and len({frozenset(names) for names in all_names}) == 1:
        # The same names in another order.
        points = [one.points[[one.landmark_names.index(name) for name in landmark_names]] for one in found]
    elif len(all_names) > 1:
        landmark_names = ()
    curves = {one.curves for one in found}
    scales = np.array([one.scale for one in found])
    units = {one.unit for one in found if np.isfinite(one.scale)}
    return Specimens(
        _distinct([one.identity for one in found], [one.image for one in found]),
        np.stack(points),
        tuple(one.image for one in found),
        landmark_names,
        scales,
        units.pop() if len(units) == 1 else UNNAMED,
        curves.pop() if len(curves) == 1 else (),
        np.array([one.confidence for one in found]),
        np.zeros(len(found), dtype=np.bool_),
        notes=tuple(notes),
    )


def _distinct(identities: Sequence[str], images: Sequence[str]) -> tuple[str, ...]:
    """A name for each specimen: its ID unless that is a mere number, else its image, with a number if need be."""
    telling = all(identities) and len(set(identities)) == len(identities)
    if telling and not all(identity.isdecimal() for identity in identities):
        return tuple(identities)
    names = [
        _name(image) if image else identity or "specimen"
        for identity, image in zip(identities, images, strict=True)
    ]
    if len(set(names)) < len(names) and any(identities):
        names = [
            identity if identity and not identity.isdecimal() else name
            for identity, name in zip(identities, names, strict=True)
        ]
    counts, seen, distinct = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        distinct.append(name if counts[name] == 1 else f"{name}_{seen[name]}")
    return tuple(distinct)


def _name(image: str) -> str:
    """An image by the last part of its name, without the ending; files of Windows have backslashes."""
    plain, _, number = image.partition(", object ")
    stem = PureWindowsPath(plain.rpartition("::")[0] or plain).stem
    return f"{stem}_{number}" if number else stem


def _scaled(specimens: Specimens, scale: float | Path | str | None, unit: str) -> Specimens:
    """The specimens with scales for those that had none, and a sentence if some still have none."""
    scales = specimens.scales.copy()
    without = np.isnan(scales)
    notes: list[str] = []
    if scale is not None:
        given = given_scale(scale)
        names = [(image or name, name) for image, name in zip(specimens.images, specimens.names, strict=True)]
        own = [None if np.isnan(length) else float(length) for length in scales]
        notes = about_given(scale, given, names, own)
        for number in np.flatnonzero(without):
            found = scale_of(given, specimens.images[number], specimens.names[number])
            scales[number] = np.nan if found is None else found
    kinds = {specimens.unit} if not np.all(without) else set()
    if kinds == {MILLIMETRES} and unit not in ("", MILLIMETRES):
        raise ValueError(f"unit={unit}: the pixel length of DICOM files is in mm: leave out the unit.")
    if scale is not None and np.any(without):
        kinds.add(unit or UNNAMED)
    named = unit or (MILLIMETRES if kinds == {MILLIMETRES} else UNNAMED)
    scaled = replace(specimens, scales=scales, unit=named)
    return replace(scaled, notes=(*specimens.notes, *notes, *about_scales(scaled)))
