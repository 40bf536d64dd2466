"""Images that are not there: which samples have none, and where theirs was looked for."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import NoReturn

from pliant.data import images
from pliant.data.addresses import Source, is_file, parent, plain_name
from pliant.data.dataset import Dataset, Sample
from pliant.data.image_lookup import OTHER_CASE, named
from pliant.terminal import counted

_NAMED = 5
"""So many missing images are named; `check` lists them all."""


def absent(sentence: str, name: str, landmarks: Source, folder: Source | None, there: str) -> NoReturn:
    """Raise the sentence: with the other values, this is the image of a sample whose image was not found.

    `name` is what the file `landmarks` calls it, and `folder` is where the images should be, if somebody said so.
    `there` is a file whose name differs in upper and lower case alone, if there is one.
    """
    raise images.ImageError(sentence)


def is_missing(sample: Sample) -> bool:
    """Whether the image is a local file that is not there; addresses are not asked."""
    source = sample.image_source
    if isinstance(source, Path):
        return not is_file(source)
    return isinstance(source, partial) and source.func is absent


def without_missing(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """The samples that have an image, and those that have none."""
    gone = [is_missing(sample) for sample in dataset]

    def chosen(wanted: bool) -> Dataset:
        some = (sample for sample, missing in zip(dataset, gone, strict=True) if missing is wanted)
        return Dataset(tuple(some), dataset.source)

    return chosen(False), chosen(True)


def about_missing(missing: Dataset, there: Dataset) -> str:
    """What to say about missing images beside those that are there: how many, their names, where pliant looked."""
    names: dict[str, None] = {}
    looked: dict[str, None] = {}
    otherwise: dict[str, None] = {}
    advised = False
    for sample in missing:
        source = sample.image_source
        if not isinstance(source, partial):
            names[str(source)] = None
            continue
        _, name, landmarks, folder, other_case = source.args
        names[name or f"that of {plain_name(landmarks)}"] = None
        if other_case:
            otherwise[other_case] = None
        advised = advised or (folder is None and not other_case)
        what = (
            f"The names in {plain_name(landmarks)} were" if name else "Images named like landmark files were"
        )
        where = f"in {named(parent(landmarks) if folder is None else folder)}"
        looked[
            f"{what} looked for {where}{' and next to that file' if name and folder is not None else ''}"
        ] = None
    every = len(names) + len({sample.image_source for sample in there})
    verb = "is" if len(names) == 1 else "are"
    sentences = [f"{len(names):,} of {counted(every, 'image')} {verb} missing: {_listed(names)}"]
    sentences += list(looked)[:3]
    if advised:
        sentences[-1] += ": give the folder of the images with images=FOLDER"
    if otherwise:
        verb = "is" if len(otherwise) == 1 else "are"
        sentences.append(f"There {verb} {_listed(otherwise)}: {OTHER_CASE}")
        sentences.append("Rename the images, or correct the names in the file")
    return ". ".join(sentences) + "."


def _listed(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(list(names)[:_NAMED])}{more}"
