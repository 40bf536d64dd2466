"""Where fits begin, as the commands have it: `--start`, `--boxes`, `--detector`, `--tries`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.terminal import say

if TYPE_CHECKING:
    from pliant.arrays import Float64, Floats, Image
    from pliant.model import Model


class Start(StrEnum):
    """Where fits begin, if not at boxes."""

    AUTO = "auto"
    DETECTOR = "detector"
    PLACEMENT = "placement"
    SCAN = "scan"
    CENTRE = "centre"
    LANDMARKS = "landmarks"


class Fallback(StrEnum):
    """What is done where a detector finds nothing."""

    PLACEMENT = "placement"
    SCAN = "scan"
    CENTRE = "centre"


Boxes = Annotated[
    Path | None,
    typer.Option(
        help="Where the object is: a table with image,left,top,right,bottom, or an annotation file with boxes "
        "(dlib, COCO), with landmarks or without.",
        exists=True,
    ),
]
StartOption = Annotated[
    Start | None,
    typer.Option(
        help="Without boxes. auto, the default: the detector that the model was trained with, else the usual "
        "place in the training images, else a scan of the image. centre: the mean shape in the middle, filling "
        "60 % of the smaller side. landmarks: the landmark file beside each image."
    ),
]
DetectorOption = Annotated[
    str | None,
    typer.Option(
        help="The detector: haar-face, or your own as file.py:function or module:function, the same as in "
        "training. Your own is run: that file may do whatever you may."
    ),
]
Tries = Annotated[int, typer.Option(help="Starts tried in each image, of which the best fit is kept.", min=1)]
EveryBox = Annotated[
    bool, typer.Option("--every-box", help="Try all boxes of the detector, not only its first.")
]
FallbackOption = Annotated[
    Fallback | None,
    typer.Option("--fallback", help="What to do where the detector finds nothing; else the image fails."),
]


def announce_detector(detector: str | None) -> None:
    """Say which file is run before it is: a settings file that somebody else wrote may have named it."""
    module, colon, function = (detector or "").rpartition(":")
    if not colon:
        return
    from importlib.util import find_spec

    from pliant.files import real_path

    if module.endswith(".py"):
        file = str(real_path(module))
    else:
        # To look for a module inside of a package would run the package.
        package = module.partition(".")[0]
        try:
            found = find_spec(package) if package else None
        except ValueError:
            found = None
        file = f"the module {module} ({found.origin if found is not None else 'not found'})"
    say(f"detector: runs {function} of {file}", error=True)


def starter(
    start: Start | None,
    boxes: Path | None,
    model: Model,
    *,
    detector: str | None = None,
    tries: int = 5,
    every_box: bool = False,
    fallback: Fallback | None = None,
    seed: int = 0,
) -> Callable[[str, Image], Floats]:
    """The function that gives the start of an image by its name: a box, a shape, or several to choose from."""
    if boxes is not None and start is not None:
        raise ValueError("--boxes and --start both say where to start: give one of them.")
    if boxes is not None:
        by_path = {PurePath(name): found for name, found in _read_boxes(boxes).items()}
        return lambda name, image: _boxes_of(name, boxes, by_path)
    if start is Start.LANDMARKS:
        return _landmarks_beside
    from pliant.starts.choice import find_starts

    if start in (None, Start.AUTO, Start.DETECTOR):
        announce_detector(detector)
    find = find_starts(
        model,
        start or Start.AUTO,
        detector=detector,
        tries=tries,
        every_box=every_box,
        fallback=fallback,
        seed=seed,
    )

    def named(name: str, image: Image) -> Floats:
        try:
            return find(image)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    return named


def describe_start(start: Start | None, boxes: Path | None, model: Model, detector: str | None = None) -> str:
    """Where fits begin, in words for `--verbose`: what `auto` stands for is said."""
    from pliant.starts.choice import chosen_way

    if boxes is not None:
        return f"boxes of {boxes}"
    if start is not None and start is not Start.AUTO:
        return str(start)
    way = chosen_way(model, detector)
    known = next((p for p in model.placements if (p.reference == "image") == (way == "placement")), None)
    if known is None or way == "scan":
        return f"{way}, chosen by auto"
    return f"{way}, chosen by auto (starting error {known.error:.3f} in training, {known.error_90:.3f} for 9 of 10)"


def _read_boxes(path: Path) -> dict[str, Float64]:
    """Boxes `(k, 4)` by image, from a table or from any landmark file that has them."""
    from pliant.data.manifest import ENDINGS, read_boxes

    if path.suffix.lower() in ENDINGS:
        return read_boxes(path)
    import numpy as np

    from pliant.data import formats

    boxes: dict[str, list[Float64]] = {}
    for name, box in formats.read_boxes(path):
        boxes.setdefault(name.replace("\\", "/"), []).append(box)
    if not boxes:
        raise ValueError(f"{path}: there are no boxes in this file.")
    return {name: np.array(some) for name, some in boxes.items()}


def _boxes_of(name: str, source: Path, boxes: dict[PurePath, Float64]) -> Float64:
    """The boxes of the longest name in the table that the path ends with: with folders, or without."""
    parts = Path(name).absolute().parts
    for first in range(len(parts)):
        found = boxes.get(PurePath(*parts[first:]))
        if found is not None:
            return found
    raise ValueError(f"{name}: {source} has no box for this image.")


def _landmarks_beside(name: str, image: Image) -> Float64:
    from pliant.data.addresses import as_source, is_file, with_ending
    from pliant.data.formats import endings_beside_images
    from pliant.data.landmark_files import annotation_in

    for ending in endings_beside_images():
        beside = with_ending(as_source(name), ending)
        if is_file(beside):
            return annotation_in(beside, "", None).points
    raise ValueError(f"{name}: there is no landmark file beside this image to start from.")
