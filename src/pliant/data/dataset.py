"""Samples and data sets: an image and its landmarks, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant.arrays import Float64, Floats, Image
from pliant.data import images
from pliant.data.formats import endings_beside_images, read_landmarks


@dataclass(frozen=True)
class Sample:
    """One image with its landmarks, if it has any; each is a file, or a function that makes the array."""

    name: str
    image_source: Path | Callable[[], Image]
    points_source: Path | Callable[[], Floats] | None

    def image(self) -> Image:
        """`(h, w)` or `(h, w, 3)`, 8- or 16-bit, or float32 from 0 to 1."""
        if isinstance(self.image_source, Path):
            return images.read_image(self.image_source)
        return images.as_image(self.image_source(), self.name)

    def points(self) -> Float64:
        """`(v, 2)`, 0-based, pixel centres at integers."""
        if self.points_source is None:
            raise ValueError(f"{self.name}: there is no landmark file beside this image.")
        if isinstance(self.points_source, Path):
            return read_landmarks(self.points_source)
        return np.asarray(self.points_source(), dtype=np.float64)


@dataclass(frozen=True)
class Dataset(Sequence[Sample]):
    """Samples in a fixed order, and where they came from."""

    samples: tuple[Sample, ...]
    source: str

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        """A sample, or a data set of a slice of them."""
        if isinstance(index, slice):
            return Dataset(self.samples[index], self.source)
        return self.samples[index]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    def __add__(self, other: Dataset) -> Dataset:
        return Dataset(self.samples + other.samples, f"{self.source}, {other.source}")


def load_dataset(*folders: Path | str) -> Dataset:
    """The images of one or several folders, with the landmark files beside them (`face.jpg`, `face.pts`).

    Nothing but names is read here. An image without landmarks is a sample without points.
    """
    if not folders:
        raise ValueError("name at least one folder of images.")
    paths = [Path(folder) for folder in folders]
    samples = [sample for path in paths for sample in _folder(path)]
    # Names, not paths: they end up in model files, which are passed on.
    return Dataset(tuple(samples), ", ".join("/".join(path.resolve().parts[-2:]) for path in paths))


def dataset_from_arrays(images: Iterable[Image], shapes: Iterable[Floats]) -> Dataset:
    """A data set of images and landmarks that are in memory already."""
    samples = [
        Sample(f"sample {number}", lambda image=image: image, lambda points=points: points)  # type: ignore[misc]
        for number, (image, points) in enumerate(zip(images, shapes, strict=True))
    ]
    return Dataset(tuple(samples), "arrays")


def _folder(folder: Path) -> list[Sample]:
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder.")
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    by_stem: dict[str, list[Path]] = {}
    for path in files:
        by_stem.setdefault(path.stem, []).append(path)
    samples = []
    for beside in by_stem.values():
        pictures = [path for path in beside if path.suffix.lower() in images.EXTENSIONS]
        landmarks = [path for path in beside if path.suffix.lower() in endings_beside_images()]
        points = landmarks[0] if landmarks else None
        samples += [Sample(str(picture), picture, points) for picture in pictures]
        if points and not pictures:
            # Kept, so that validation reports landmarks whose image went missing.
            samples.append(Sample(str(points), points.with_suffix(".jpg"), points))
    if not samples:
        below = [path.name for path in sorted(folder.iterdir()) if path.is_dir()]
        hint = f" Its folders are {', '.join(below[:5])}: name one of them." if below else ""
        raise ValueError(f"{folder}: there are no images in this folder.{hint}")
    return samples
