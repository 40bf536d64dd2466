"""Samples that show the very same image: copies of a file, and several objects in one picture."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pliant.data.addresses import Source, opened, size_in_bytes

if TYPE_CHECKING:
    from pliant.data.dataset import Sample


def first_of_copies(samples: Sequence[Sample]) -> list[int]:
    """For every sample, the number of the first that has the same image, byte for byte; usually its own.

    Files are told apart by their sizes, and only those of one size are read. An image that cannot be read is like
    no other.
    """
    known: dict[Hashable, int] = {}
    by_size: dict[int, list[int]] = defaultdict(list)
    first = list(range(len(samples)))
    for number, sample in enumerate(samples):
        source = sample.image_source
        if not isinstance(source, (Path, str)):
            made = _made(source)
            first[number] = known.setdefault(number if made is None else made, number)
        elif (source, "file") in known:
            first[number] = known[source, "file"]
        else:
            known[source, "file"] = number
            by_size[_quietly(partial(size_in_bytes, listed=True), source) or -number].append(number)
    for alike in by_size.values():
        if len(alike) > 1:
            for number in alike:
                content = _quietly(_digest, samples[number].image_source)
                first[number] = known.setdefault((content or number, "content"), number)
    # A picture with several objects may itself be a copy of another.
    return [first[number] for number in first]


def _made(source: Callable[[], Any]) -> Hashable:
    """What an image that is no file is known by: the call that makes it, if that says all, or else its pixels."""
    if isinstance(source, partial):
        try:
            call = (source.func, source.args, tuple(sorted(source.keywords.items())))
            hash(call)
            return call
        except TypeError:
            pass
    image = _quietly(source)
    if image is None:
        return None
    pixels = np.ascontiguousarray(image)
    return (pixels.shape, pixels.dtype.str, hashlib.sha256(pixels.data).hexdigest())


def _digest(source: Source) -> str:
    with opened(source) as file:
        digest = hashlib.sha256()
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """What cannot be read is reported where it is used, not here."""
    try:
        return function(*arguments)
    except (OSError, ValueError):
        return None
