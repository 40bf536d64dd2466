"""Where images are: the files that a user's words name, and the image that a landmark file means."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from glob import glob
from pathlib import Path

from pliant.data import images
from pliant.data.annotation import ImageSizes, Size


def find_images(arguments: Sequence[str]) -> list[str]:
    """The images that the arguments name, each once; folders and patterns in the order of their names."""
    found: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            several = sorted(file for file in path.iterdir() if file.is_file() and _is_image(file))
            if not several:
                raise ValueError(f"{path}: there are no images in this folder.")
        elif path.exists():
            several = [path]
        else:
            several = sorted(Path(name) for name in glob(argument, recursive=True) if _is_image(Path(name)))
            if not several:
                raise ValueError(
                    f"{argument}: there is no such image or folder, and no image of that pattern."
                )
        found += several
    unique: dict[Path, Path] = {}
    for file in found:
        unique.setdefault(file.resolve(), file)
    return [str(file) for file in unique.values()]


def image_of(name: str, landmarks: Path, folder: Path | str | None = None) -> Path:
    """The image that a landmark file means by `name`; without a name, the one beside it.

    It is looked for in `folder`, and beside the landmark file, with the folders in its name and without.
    """
    if not name:
        for ending in images.EXTENSIONS:
            for candidate in (landmarks.with_suffix(ending), landmarks.with_suffix(ending.upper())):
                if candidate.is_file():
                    return candidate
        raise ValueError(f"{landmarks}: there is no image beside this file.")
    plain = name.replace("\\", "/")
    base = plain.rsplit("/", 1)[-1]
    for place in ([Path(folder)] if folder is not None else []) + [landmarks.parent]:
        for candidate in (place / plain, place / base):
            if candidate.is_file():
                return candidate
    where = folder if folder is not None else landmarks.parent
    raise ValueError(f"{landmarks}: the image {name} is not in {where}: say where images are with --images.")


def sizes_of_images(landmarks: Path, folder: Path | str | None = None) -> ImageSizes:
    """A function that finds the size of an image that a landmark file names, reading its header alone."""

    @cache
    def size(name: str) -> Size:
        return images.image_size(image_of(name, landmarks, folder))

    return size


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in images.EXTENSIONS and not path.name.startswith(".")
