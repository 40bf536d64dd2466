"""What to do about a data set in which images and landmarks do not find each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pliant.data import images
from pliant.data.dataset import Dataset
from pliant.data.formats import PLAIN_TEXT, endings_beside_images
from pliant.data.image_lookup import named
from pliant.data.missing_images import about_missing, without_missing


def advice(dataset: Dataset) -> str:
    """A sentence if most images have no landmarks, or most landmarks no image, and nothing otherwise.

    If images that a file names are missing, it says so however few they are: it says where they were looked for.

    No file is read for it: files are only looked for.
    """
    there, missing = without_missing(dataset)
    if any(not isinstance(sample.image_source, (Path, str)) for sample in missing):
        return about_missing(missing, there)
    bare = [sample.image_source for sample in dataset if sample.points_source is None]
    apart = [
        sample.points_source
        for sample in dataset
        if isinstance(sample.points_source, Path)
        and isinstance(sample.image_source, Path)
        and not sample.image_source.is_file()
    ]
    pictures = [source for source in bare if isinstance(source, Path)]
    if not dataset or 2 * (len(bare) + len(apart)) <= len(dataset):
        return ""
    if pictures and apart:
        return _about_both(pictures, apart)
    if apart:
        return f"the images of {named(apart[0].parent)} were not found: give their folder with images=FOLDER."
    return _about_images(pictures)


def _about_both(pictures: list[Path], landmarks: list[Path]) -> str:
    """Images without landmarks, and landmarks without images: they may belong together."""
    by_stem = {picture.stem: picture for picture in pictures}
    together = next((file for file in landmarks if file.stem in by_stem), None)
    if together is not None:
        folder = by_stem[together.stem].parent
        return (
            f"the images of {named(together.parent)} are in {named(folder)}: give only the landmarks, and the "
            f"folder of their images: {together.parent} images={folder}."
        )
    return (
        f"a landmark file must have the same name as its image: {landmarks[0].name} belongs to no image, and "
        f"{pictures[0].name} has no landmarks."
    )


def _about_images(pictures: list[Path]) -> str:
    endings = ", ".join((*endings_beside_images(), PLAIN_TEXT))
    sentence = (
        f"images need landmarks: a file of the same name next to each image ({endings}; also .tps, .json and "
        ".xml), or one annotation file for all, given instead of the folder. If the landmarks are in "
        "another folder, give that folder, and this one with images=FOLDER."
    )
    return f"{unknown_files(pictures[0].parent)}{sentence}" if pictures else sentence


def unknown_files(folder: Path) -> str:
    """A sentence about the files of a folder that are not images, by their commonest ending, if there are any."""
    found = Counter(
        file.suffix.lower()
        for file in folder.iterdir()
        if file.is_file() and not file.name.startswith(".") and file.suffix.lower() not in images.EXTENSIONS
    )
    if not found:
        return ""
    ((ending, count),) = found.most_common(1)
    files = "1 file" if count == 1 else f"{count:,} files"
    what = f"that {'ends' if count == 1 else 'end'} in {ending}" if ending else "without an ending"
    return f"{named(folder)} has {files} {what}, but no landmark file that pliant knows; "
