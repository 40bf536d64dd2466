"""Landmark files of every format: read as landmarks, or refused by a sentence that names the file."""

import tempfile
import warnings
from pathlib import Path

import numpy as np

from pliant.data.annotation import Annotation
from pliant.data.formats import format_of, formats, read_annotations_with, read_boxes, write_annotations

from .mutations import of_bytes, of_text
from .target import Target, refused, written

SAMPLES = Path(__file__).parents[2] / "samples"
SIZE = (640, 480)
_LIBRARIES = {"imagej": ("roifile",), "npz": ("zipfile", "numpy.lib"), "npy": ("numpy.lib",)}
"""Modules in Python that read a format for us, and whose branches guide a fuzzer."""


def targets() -> list[Target]:
    known = [module for _, module in sorted(formats().items())]
    return [Target("landmarks", _named_seeds, _recognise, of_text), *map(_target, known)]


_ENDINGS = {ending.encode(): ending for module in formats().values() for ending in module.EXTENSIONS}


def _named_seeds() -> list[bytes]:
    """Files of all formats behind a line with the ending of their names."""
    return [
        module.EXTENSIONS[0].encode() + b"\n" + content
        for _, module in sorted(formats().items())
        for content in _seeds(module)
    ]


def _recognise(content: bytes, folder: Path) -> bool:
    """Only ask what a file is."""
    ending, _, content = content.partition(b"\n")
    path = written(content, folder / f"a{_ENDINGS.get(ending, '.txt')}")
    try:
        format_of(path)
    except ValueError as error:
        return refused(error, path)
    return True


def _target(module) -> Target:
    ending = module.EXTENSIONS[0]
    binary = module.NAME in ("imagej", "npy", "npz", "parquet", "sleap")

    def read(content: bytes, folder: Path) -> bool:
        path = written(content, folder / f"a{ending}")
        if hasattr(module, "read_boxes"):
            try:
                read_boxes(path)
            except ValueError as error:
                refused(error, path)
        try:
            with warnings.catch_warnings():
                if module.NAME == "sleap":  # sleap-io warns of what it cannot find
                    warnings.simplefilter("ignore")
                annotations = read_annotations_with(path, module.NAME, _sizes)
        except ValueError as error:
            return refused(error, path, "there is no image x")
        for annotation in annotations:
            check(annotation)
        return True

    return Target(
        f"landmarks-{module.NAME}",
        lambda: _seeds(module),
        read,
        of_bytes if binary else of_text,
        ("pliant.data", "pliant.files", *_LIBRARIES.get(module.NAME, ())),
        short=20 if module.NAME == "sleap" else 60,
    )


def check(annotation: Annotation) -> None:
    """What all that is read must be."""
    points = annotation.points
    assert points.dtype == np.float64
    assert points.ndim == 2
    assert points.shape[1] == 2
    assert not np.isinf(points).any()
    assert (np.isnan(points[:, 0]) == np.isnan(points[:, 1])).all()
    assert annotation.box is None or np.isfinite(annotation.box).all()
    assert annotation.size is None or min(annotation.size) > 0
    assert isinstance(annotation.image, str)
    assert "\0" not in annotation.image
    assert all(isinstance(name, str) for name in annotation.names)


def _sizes(name: str) -> tuple[int, int]:
    if name.startswith("x"):
        raise ValueError(f"there is no image {name}.")
    return SIZE


def _seeds(module) -> list[bytes]:
    """Files with names, boxes, groups and a missing landmark if the format has them, and samples of other tests."""
    found = [
        path.read_bytes()
        for path in sorted(SAMPLES.iterdir())
        if path.suffix in module.EXTENSIONS and module.recognises(path, path.read_bytes()[:8192])
    ]
    points = np.array([[10.5, 20.25], [300, 40], [150, 200], [77, 99.5]])
    pixels = np.full((12, 12), 90, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{module.EXTENSIONS[0]}"
        for missing in (True, False):
            shown = points.copy()
            shown[2] = np.nan if missing else shown[2]
            box = np.array([1.5, 2.5, 310, 210])
            annotations = [
                Annotation(f"{stem}.jpg", some, tuple("abcd"), box, SIZE, stem, lambda: pixels)
                for stem, some in (("one", points), ("two", shown))[: 1 + module.MANY]
            ]
            try:
                write_annotations(path, annotations, module.NAME)
                found.append(path.read_bytes())
                break
            except ValueError:  # This format cannot mark a landmark as missing.
                continue
    return found
