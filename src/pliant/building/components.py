"""Principal components of what all images look like: of one machine's memory, or of sketches from many.

In this process, vectors are kept as long as they fit, and streamed otherwise. Elsewhere, each part of the samples
becomes a sketch of few rows, and sketches are merged two by two. Where that loses something, a second pass over the
samples sums what they pull the components to. A worker has a few sketches at a time, however many images there are,
and the result is the same whoever did which part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float32, Float64
from pliant.building.vectors import Sampling, all_vectors
from pliant.crew import Crew, in_this_process, shared_out
from pliant.data.dataset import Sample
from pliant.data.validation import Validated
from pliant.pca import PCA, Accumulator, Sketch, merged, pulled, refined
from pliant.progress import Progress
from pliant.threads import one_blas_thread

Modes = int | float
"""A count of components, or the share of the variance that they explain."""

_ROWS_A_MODE, _MORE_ROWS = 3, 32
"""Rows of a sketch for each component that is wanted, and beside them."""

_ROWS_OF_A_SHARE = 256
"""Rows of a sketch if components are wanted by their share of the variance: so many there will be at the most."""

_HELD = 5
"""Sketches that a worker may have at a time: two that are merged, both in one, and the outcome."""

_LEAST = 256
"""The fewest samples of a part: a sketch is as large however few there are."""

_AT_ONCE = 32
"""Samples of a part that are multiplied with the components at once."""

Part = tuple[tuple[Sample, ...], Float64]
"""Samples and their landmarks `(k, v, 2)`."""


@dataclass(frozen=True)
class Components:
    """Those of each vector of a `Sampling`, and how they came about: exact, streamed or sketched."""

    found: tuple[PCA, ...]
    how: str


def find_components(
    sampling: Sampling, modes: Sequence[Modes], seen: Validated, memory_gb: float, crew: Crew, bar: Progress
) -> Components:
    """Principal components of every vector that is sampled; `modes` has a number for each of them."""
    if in_this_process(crew):
        return _here(sampling, modes, seen, memory_gb, crew.threads, bar)
    return _in_parts(sampling, modes, seen, memory_gb, crew, bar)


def _here(
    sampling: Sampling, modes: Sequence[Modes], seen: Validated, memory_gb: float, threads: int, bar: Progress
) -> Components:
    images = {
        id(sample.decoded): sample.decoded.nbytes for sample in seen.dataset if sample.decoded is not None
    }
    left = memory_gb - sum(images.values()) / 1e9
    collected = _accumulators(sampling.dimensions, len(seen.dataset), left)
    step = bar.start("sampling images", len(seen.dataset))
    for vectors in all_vectors(sampling, seen.dataset, seen.points, threads):
        for accumulator, vector in zip(collected, vectors, strict=True):
            accumulator.add(vector)
        step()
    exact = collected[0].exact
    step = bar.start("principal components", len(collected))
    found: list[PCA] = []
    for count in modes:
        # Popped, so that a buffer as large as all the images is gone before the next is worked on.
        found.append(collected.pop(0).finish(count))
        step()
    return Components(tuple(found), "exact" if exact else "streamed")


def _accumulators(dimensions: Sequence[int], samples: int, memory_gb: float) -> list[Accumulator]:
    """As many rows as there are samples, if they fit; at the least, enough to stream through."""
    row_bytes = 4 * sum(dimensions)
    affordable = int(memory_gb * 1e9 / row_bytes)
    if affordable < 32:
        raise ValueError(
            f"memory_gb={memory_gb:g} holds {affordable} samples of this size, but streaming principal "
            f"components needs at least 32: give at least {32 * row_bytes / 1000000000.0:.2g}."
        )
    return [Accumulator(dimension, min(samples + 1, affordable)) for dimension in dimensions]


def _in_parts(
    sampling: Sampling, modes: Sequence[Modes], seen: Validated, memory_gb: float, crew: Crew, bar: Progress
) -> Components:
    count = len(seen.dataset)
    rows = rows_of_sketches(sampling.dimensions, modes, count, memory_gb)
    parts = [_part(seen, numbers) for numbers in shared_out(count, _LEAST)]
    step = bar.start("sampling images", 2)
    sketches = crew.merged(_sketched, parts, _both_merged, sampling, rows)
    step()
    lossless = all(most >= count for most in rows)
    if not lossless:
        rough = [sketch.finish(1.0) for sketch in sketches]
        pulls = crew.merged(_pulled, parts, _both_added, sampling, rough)
        sketches = [refined(*one) for one in zip(sketches, rough, pulls, strict=True)]
    step()
    step = bar.start("principal components", len(sketches))
    found: list[PCA] = []
    for wanted in modes:
        found.append(sketches.pop(0).finish(wanted))
        step()
    return Components(tuple(found), "exact" if lossless else "sketched")


def _part(seen: Validated, numbers: slice) -> Part:
    # Landmarks travel once, as they are after missing ones were filled in.
    return tuple(sample.keeping() for sample in seen.dataset.samples[numbers]), seen.points[numbers]


def rows_of_sketches(
    dimensions: Sequence[int], modes: Sequence[Modes], samples: int, memory_gb: float
) -> list[int]:
    """How many rows the sketches of vectors of these lengths have, by the samples and the memory alone.

    If memory allows it, as many as there are samples: nothing is lost then.
    """
    affordable = memory_gb * 1e9 / (4 * _HELD)
    if samples * sum(dimensions) <= affordable:
        return [samples] * len(dimensions)
    wanted = [
        min(samples, _ROWS_A_MODE * count + _MORE_ROWS if isinstance(count, int) else _ROWS_OF_A_SHARE)
        for count in modes
    ]
    least = [min(samples, count + 2 if isinstance(count, int) else _MORE_ROWS) for count in modes]
    needed, smallest = (
        sum(rows * dimension for rows, dimension in zip(several, dimensions, strict=True))
        for several in (wanted, least)
    )
    if smallest > affordable:
        raise ValueError(
            f"memory_gb={memory_gb:g} is too little for a worker to merge sketches of this many modes: give "
            f"at least {smallest * 4 * _HELD / 1000000000.0:.2g}, or fewer modes."
        )
    share = min(1.0, (affordable - smallest) / max(needed - smallest, 1))
    return [low + int(share * (high - low)) for low, high in zip(least, wanted, strict=True)]


def _sketched(
    parts: Sequence[Part], sampling: Sampling, rows: Sequence[int], *, threads: int
) -> Iterator[list[Sketch]]:
    """A sketch of each vector, for each part."""
    for samples, points in parts:
        with one_blas_thread():
            collected = [
                Accumulator(dimension, max(3, min(len(samples), 2 * most) + 1), threads)
                for dimension, most in zip(sampling.dimensions, rows, strict=True)
            ]
            for vectors in all_vectors(sampling, samples, points, threads):
                for accumulator, vector in zip(collected, vectors, strict=True):
                    accumulator.add(vector)
            found = [collected.pop(0).sketch(most) for most in rows]
        yield found


def _both_merged(one: list[Sketch], other: list[Sketch]) -> list[Sketch]:
    with one_blas_thread():
        return [merged(*pair) for pair in zip(one, other, strict=True)]


def _pulled(
    parts: Sequence[Part], sampling: Sampling, rough: Sequence[PCA], *, threads: int
) -> Iterator[list[Float32]]:
    """What each part's vectors pull the components to."""
    for samples, points in parts:
        with one_blas_thread():
            sums = [np.zeros(pca.components.shape, dtype=np.float32) for pca in rough]
            waiting: list[list[Float32]] = []
            for number, vectors in enumerate(all_vectors(sampling, samples, points, threads), start=1):
                waiting.append(vectors)
                if len(waiting) == _AT_ONCE or number == len(samples):
                    for total, pca, several in zip(sums, rough, zip(*waiting, strict=True), strict=True):
                        total += pulled(pca, np.array(several), threads)
                    waiting.clear()
        yield sums


def _both_added(one: list[Float32], other: list[Float32]) -> list[Float32]:
    return [first + second for first, second in zip(one, other, strict=True)]
