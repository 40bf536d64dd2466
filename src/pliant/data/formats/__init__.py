"""Landmark formats, one file each, told apart by what is in a file.

A module in this folder is a format; `Format` says what it has. On our side points are 0-based with pixel centres
at integers; the module's `CONVENTION` says what they are in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

from pliant.arrays import Float64, Floats
from pliant.data.annotation import Annotation, Convention, ImageSizes
from pliant.data.image_lookup import sizes_of_images
from pliant.data.names import from_text, to_text
from pliant.files import require_plain
from pliant.limits import brief_refusals

HEAD = 8192
"""How many bytes of a file its format is recognised by."""

_LARGEST = 10**6
"""No image is as wide or high as this, in pixels."""


class Format(Protocol):
    """What a module in this folder has.

    `NAME` is what `format` takes. `EXTENSIONS` are the endings that its files have, the usual one first.
    `MANY` says whether one file holds the landmarks of many images; otherwise a file lies beside its image.
    `VARIANTS` are other conventions in use, taken as `name:variant`. `recognises` looks at the first bytes of a
    file, and no two formats recognise the same file. `write` gets annotations whose size is known if the convention
    needs it, and raises a sentence for what the format cannot hold. A format in which objects may have boxes and no
    landmarks has `read_boxes(path)` as well.
    """

    NAME: str
    EXTENSIONS: tuple[str, ...]
    MANY: bool
    CONVENTION: Convention
    VARIANTS: Mapping[str, Convention]

    def recognises(self, path: Path, head: bytes) -> bool: ...

    def read(self, path: Path, convention: Convention, sizes: ImageSizes) -> list[Annotation]: ...

    def write(self, path: Path, annotations: Sequence[Annotation], convention: Convention) -> None: ...


@cache
def formats() -> dict[str, Format]:
    """Every format in this folder, by name."""
    modules = [cast(Format, import_module(f"{__name__}.{module.name}")) for module in iter_modules(__path__)]
    return {module.NAME: module for module in modules}


PLAIN_TEXT = ".txt"
"""Landmarks only if an image of the same name lies beside it: notes, and lists of all images, end like this too."""


def endings_beside_images() -> tuple[str, ...]:
    """Endings of the landmark files that lie beside an image of the same name, the likeliest first."""
    # An array beside an image may be anything: it counts if there is nothing else.
    beside = sorted(
        (module for module in formats().values() if not module.MANY and PLAIN_TEXT not in module.EXTENSIONS),
        key=lambda module: (module.NAME != "pts", module.NAME == "npy"),
    )
    return tuple(ending for module in beside for ending in module.EXTENSIONS)


def read_annotations(
    path: Path | str, format: str = "", images: Path | str | None = None
) -> list[Annotation]:
    """Read all annotations in a file of any known format.

    Parameters
    ----------
    path : Path or str
        The file.
    format : str
        The name of a format (`tps`, or `tps:height-1` for a variant); by default the content decides.
    images : Path, str or None
        The folder of the images that the file names; by default that of the file. It is needed if a format counts
        in shares of an image, or from its lower edge.

    Returns
    -------
    list of Annotation
        One for each object, with the name of its `image` and its `points (v, 2)`: x and y, 0-based, pixel centres
        at integers, whatever the file uses; nan where a landmark is missing.

    Raises
    ------
    ValueError
        If the file cannot be read. The message names the line or the entry.

    Examples
    --------
    >>> import pliant
    >>> annotations = pliant.read_annotations("labels.xml")
    >>> annotations[0].image, annotations[0].points.shape
    ('photographs/face-0000.jpg', (68, 2))

    """
    return read_annotations_with(Path(path), format, sizes_of_images(Path(path), images))


def read_annotations_with(path: Path, format: str, sizes: ImageSizes) -> list[Annotation]:
    """All annotations in a file, the sizes of whose images are known from elsewhere than its folder."""
    require_plain(path)
    try:
        with brief_refusals():
            module, convention = find_format(format) if format else format_of(path)
            return [_checked(path, annotation) for annotation in module.read(path, convention, sizes)]
    except FileNotFoundError as error:
        if error.filename is not None and Path(error.filename) != path:
            raise
        raise ValueError(f"{path}: there is no such landmark file.") from None


def read_boxes(path: Path) -> list[tuple[str, Float64]]:
    """The image and the box `(4,)` of each object of a file that has one, also where it has no landmarks."""
    module, _ = format_of(path)
    read_alone = getattr(module, "read_boxes", None)
    if read_alone is not None:
        with brief_refusals():
            return [(_image_name(path, name), _finite_box(path, name, box)) for name, box in read_alone(path)]
    return [
        (annotation.image, annotation.box)
        for annotation in read_annotations(path)
        if annotation.box is not None
    ]


def _checked(path: Path, annotation: Annotation) -> Annotation:
    """What no reader may let through, whatever the format: infinite numbers, sizes and names that cannot be."""
    import numpy as np

    of_image = f" of {annotation.image}" if annotation.image else ""
    try:
        "".join((annotation.image, annotation.group, *annotation.names)).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{path}: the image name {annotation.image!a} or another name is not text."
        ) from None
    infinite = np.flatnonzero(np.isinf(annotation.points).any(axis=1))
    if len(infinite):
        raise ValueError(
            f"{path}: landmark {infinite[0]}{of_image} is infinite: correct it, or mark it as missing."
        )
    if annotation.box is not None:
        _finite_box(path, annotation.image, annotation.box)
    if annotation.size is not None and not all(0 < side < _LARGEST for side in annotation.size):
        width, height = annotation.size
        raise ValueError(f"{path}: the image size{of_image} cannot be {width} x {height} pixels.")
    if annotation.names and len(annotation.names) != len(annotation.points):
        raise ValueError(
            f"{path}: there are {len(annotation.points)} landmarks{of_image}, but {len(annotation.names)} names."
        )
    # Half a landmark is none.
    half = np.isnan(annotation.points).any(axis=1, keepdims=True)
    points = np.where(half, np.nan, annotation.points)
    return replace(annotation, image=_image_name(path, annotation.image), points=points)


def _finite_box(path: Path, image: str, box: Float64) -> Float64:
    import numpy as np

    if not np.isfinite(box).all():
        of_image = f" of {image}" if image else ""
        raise ValueError(f"{path}: the box{of_image} has a side that is not a finite number.")
    return box


def _image_name(path: Path, text: str) -> str:
    """The name of an image file that a text stands for."""
    name = from_text(text)
    if "\0" in name:
        raise ValueError(
            f"{path}: the image name {text[:60]!a} has a null character, and no file has such a name."
        )
    return name


def write_annotations(path: Path | str, annotations: Sequence[Annotation], format: str = "") -> None:
    """Write annotations to a file.

    Parameters
    ----------
    path : Path or str
        The file to write.
    annotations : sequence of Annotation
        One for each object, as `read_annotations` and `Sample.annotation` return them.
    format : str
        The name of a format; by default the ending of the file decides (`.xml` is dlib's).

    Raises
    ------
    ValueError
        If the format cannot hold the annotations. The message says what it cannot hold.

    Examples
    --------
    >>> import pliant
    >>> pliant.write_annotations("labels.csv", pliant.read_annotations("labels.xml"))
    >>> len(pliant.read_annotations("labels.csv"))
    12

    """
    module, convention = find_format(format or format_for_ending(Path(path)))
    if convention.needs_size:
        for annotation in annotations:
            if annotation.size is None:
                raise ValueError(
                    f"{path}: {module.NAME} needs the size of {annotation.image or 'the image'}, but it is "
                    "unknown."
                )
    named = [replace(annotation, image=to_text(annotation.image)) for annotation in annotations]
    module.write(Path(path), named, convention)


def read_landmarks(path: Path | str, format: str = "") -> Float64:
    """Read the landmarks of one object from a file.

    Parameters
    ----------
    path : Path or str
        The file. It must hold one object.
    format : str
        The name of a format, as in `read_annotations`; by default the content decides.

    Returns
    -------
    ndarray, shape (v, 2)
        x and y, 0-based, pixel centres at integers, whatever the file uses; nan where a landmark is missing.

    Raises
    ------
    ValueError
        If the file cannot be read, or holds several objects.

    Examples
    --------
    >>> import pliant
    >>> pliant.read_landmarks("photographs/face-0000.pts").shape
    (68, 2)

    """
    annotations = read_annotations(path, format)
    if len(annotations) != 1:
        raise ValueError(
            f"{path}: this file has {len(annotations)} objects, but one was expected: read them with "
            "read_annotations or load_dataset."
        )
    return annotations[0].points


def write_landmarks(path: Path | str, points: Floats, format: str = "") -> None:
    """Write the landmarks of one object to a file.

    Parameters
    ----------
    path : Path or str
        The file to write.
    points : array, shape (v, 2)
        x and y, 0-based, pixel centres at integers; nan where a landmark is missing.
    format : str
        The name of a format; by default the ending of the file decides.

    Raises
    ------
    ValueError
        If the format cannot hold the landmarks. The message says what it cannot hold.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> pliant.write_landmarks("square.pts", np.array([[0, 0], [9, 0], [9, 9], [0, 9]]))
    >>> pliant.read_landmarks("square.pts")[2]
    array([9., 9.])

    """
    import numpy as np

    write_annotations(path, [Annotation("", np.asarray(points, dtype=np.float64))], format)


def find_format(name: str) -> tuple[Format, Convention]:
    """The format of this name, and its convention or that of the variant behind a colon."""
    known = formats()
    base, _, variant = name.partition(":")
    if base not in known:
        near = get_close_matches(base.lower(), known, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"there is no format '{base}'.{hint} Known formats: {', '.join(sorted(known))}.")
    module = known[base]
    if variant and variant not in module.VARIANTS:
        others = ", ".join(f"{base}:{other}" for other in module.VARIANTS) or "none"
        raise ValueError(f"there is no variant '{name}' of the format {base}. Known variants: {others}.")
    return module, module.VARIANTS[variant] if variant else module.CONVENTION


_USUAL = {".xml": "dlib", ".json": "coco", ".csv": "csv", ".txt": "wflw"}
"""What is meant by endings that several formats share, when a file is to be written."""


def format_for_ending(path: Path) -> str:
    """The name of the format that a file to be written should have."""
    ending = path.suffix.lower()
    found = [module.NAME for module in formats().values() if ending in module.EXTENSIONS]
    if not found:
        known = sorted({ending for module in formats().values() for ending in module.EXTENSIONS})
        raise ValueError(f"{path}: no format has this ending. Known endings: {', '.join(known)}.")
    return found[0] if len(found) == 1 else _USUAL[ending]


def format_of(path: Path) -> tuple[Format, Convention]:
    """The format that a file has, as its content says, and its usual convention."""
    with open(path, "rb") as file:
        head = file.read(HEAD)
    found = [module for module in formats().values() if module.recognises(path, head)]
    if not found:
        raise ValueError(
            f"{path}: this file is in none of the known formats ({', '.join(sorted(formats()))}). If the "
            "format is your own, write a CSV table with image,x0,y0,x1,y1,... instead."
        )
    if len(found) > 1:
        names = ", ".join(module.NAME for module in found)
        raise ValueError(f"{path}: this file could be {names}: choose with format=NAME.")
    return found[0], found[0].CONVENTION
