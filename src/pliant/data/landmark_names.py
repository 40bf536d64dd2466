"""Names of landmarks: what they are without any, whether objects agree on them, and points in their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Float64
from pliant.data.annotation import Annotation
from pliant.data.documents import whole_number


def landmark_names(annotation: Annotation) -> tuple[str, ...]:
    """The names of the landmarks, or their numbers from 0, of equal length so that they sort."""
    if annotation.names:
        return annotation.names
    count = len(annotation.points)
    return tuple(f"{index:0{len(str(count - 1))}}" for index in range(count))


def shared_names(path: Path, annotations: Sequence[Annotation]) -> tuple[str, ...]:
    """The names of the landmarks for a format that has the same ones in each image."""
    if not annotations:
        raise ValueError(f"{path}: there are no annotations to write.")
    first = annotations[0]
    for other in annotations:
        if len(other.points) != len(first.points) or other.names != first.names:
            raise ValueError(
                f"{path}: this format needs the same landmarks in each image, but {first.image} has "
                f"{len(first.points)} and {other.image} has {len(other.points)}, or their names differ."
            )
    return landmark_names(first)


def names_seen(path: Path, annotations: Sequence[Annotation], format: str) -> tuple[str, ...]:
    """The shared names for a format that leaves out missing landmarks: each one must be somewhere."""
    names = shared_names(path, annotations)
    seen = np.any([np.isfinite(annotation.points).all(axis=1) for annotation in annotations], axis=0)
    for name, somewhere in zip(names, seen, strict=True):
        if not somewhere:
            raise ValueError(
                f"{path}: landmark {name} is missing in every object, and {format} cannot store that."
            )
    return names


def usual_names(annotations: Sequence[Annotation]) -> tuple[str, ...]:
    """The names that most objects have, in their order."""
    counts = Counter(annotation.names for annotation in annotations)
    return counts.most_common(1)[0][0] if counts else ()


def differing_names(annotations: Sequence[Annotation], usual: Sequence[str]) -> dict[int, str]:
    """For each object that has as many landmarks as usual, or mostly the same, and other names: which, in words."""
    found = {}
    for number, annotation in enumerate(annotations):
        names = annotation.names
        alike = len(set(names) & set(usual)) > len(usual) / 2
        if names == tuple(usual) or not (alike or len(annotation.points) == len(usual)):
            continue
        if not names or not usual:
            found[number] = (
                "landmarks have no names." if usual else "landmarks have names, but most objects have none."
            )
        elif len(names) != len(usual):
            lacking, further = sorted(set(usual) - set(names)), sorted(set(names) - set(usual))
            found[number] = (
                f"these names are missing: {', '.join(lacking[:3])}."
                if lacking
                else f"this name is extra: {further[0]}."
            )
        else:
            index = next(
                index for index, pair in enumerate(zip(names, usual, strict=True)) if pair[0] != pair[1]
            )
            found[number] = (
                f"landmark {index} is called '{names[index]}', but most objects call it '{usual[index]}'."
            )
    return found


def without_numbers(names: Sequence[str]) -> tuple[str, ...]:
    """The names, or none if all they do is number the landmarks from 0 or from 1."""
    for first in (0, 1):
        if all(whole_number(name) == first + index for index, name in enumerate(names)):
            return ()
    return tuple(names)


def by_name(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, sorted as a person would: p2 before p10."""
    return tuple(sorted(set(names), key=_in_order))


def _in_order(name: str) -> tuple[list[tuple[int, str]], str]:
    # A number is sorted by how long it is, and then as text: int() refuses those of thousands of digits.
    parts = [part.lstrip("0") if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    return [(len(part) if number % 2 else 0, part) for number, part in enumerate(parts)], name


def points_by_name(found: Mapping[str, tuple[float, float]], names: Sequence[str]) -> Float64:
    """Points `(v, 2)` in the order of the names, nan for those that were not found."""
    return np.array([found.get(name, (np.nan, np.nan)) for name in names], dtype=np.float64).reshape(-1, 2)


_SPARSE = 2**22
"""Objects times landmarks, from which a table that is nearly empty is refused."""


def refuse_sparse(path: Path, objects: Sequence[Mapping[str, object]], names: Sequence[str]) -> None:
    """Raise a sentence if objects that are put side by side by name have hardly a landmark in common.

    They would take as much memory as there are objects times names, from a file that has each name once.
    """
    known = sum(map(len, objects))
    if len(objects) * len(names) > max(_SPARSE, 100 * known):
        raise ValueError(
            f"{path}: {len(objects)} objects have {len(names)} landmarks with different names, {known} in "
            "total: objects of one kind must share their names."
        )
