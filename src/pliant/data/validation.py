"""Checking every sample before hours are spent on them, and saying all that is wrong at once."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float64, Image, Int32
from pliant.crew import Jobs, crew_of, in_this_process, shared_out
from pliant.data.advice import advice
from pliant.data.annotation import Size
from pliant.data.dataset import Dataset, Sample
from pliant.shape import shape_size
from pliant.terminal import counted, shortened

_NEAR = 0.25
"""How far outside the image a landmark may lie, as a share of the object's size."""

_LEAST = 3
"""How many landmarks of a sample must be known for the others to be filled in."""

_AT_ONCE = 16
"""The fewest samples that are checked in one go: few, for others to be busy too."""

_SMALLEST = 4.0
"""An object of fewer pixels than this is taken for a mistake."""


class InvalidDataset(ValueError):
    """Raised if samples of a data set cannot be used. The message lists up to ten problems of a kind.

    `problems` has all of them, a sentence each.

    Examples
    --------
    Three of these images have no landmarks:

    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/", "new/")
    >>> try:
    ...     pliant.train(faces, progress=False)
    ... except pliant.InvalidDataset as error:
    ...     print(len(error.problems), error.problems[0].split(":")[0].split("/")[-1])
    3 face-0000.jpg

    """

    def __init__(self, problems: Sequence[str], samples: int, what_to_do: str = "") -> None:
        self.problems = tuple(problems)
        self._made_of = self.problems, samples, what_to_do
        found = "1 problem was" if len(problems) == 1 else f"{len(problems)} problems were"
        otherwise = "" if len(problems) >= samples else " (skip_invalid=True leaves these samples out)"
        super().__init__(
            _message(f"{found} found in {counted(samples, 'sample')}{otherwise}:", problems, what_to_do)
        )

    def __reduce__(self) -> tuple[type[InvalidDataset], tuple[Any, ...]]:
        """For it to come back from another machine as it is."""
        return InvalidDataset, self._made_of


class SamplesLeftOut(UserWarning):
    """What `skip_invalid=True` left out, and why."""


@dataclass(frozen=True, eq=False, repr=False)
class Validated(Concise):
    """The usable samples of a data set, and the problems of the others.

    Attributes
    ----------
    dataset : Dataset
        The k usable samples.
    points : ndarray, shape (k, v, 2)
        Their landmarks; nan where one is missing.
    sizes : tuple of (int, int), length k
        Width and height of their images.
    colour : bool
        Whether any image has colours.
    problems : tuple of str
        A sentence for each problem of the other samples.
    deep : int
        How many images have more than 8 bits, or are faint.
    names : tuple of str
        The names of the landmarks, if all samples agree on them.
    left_out : int
        How many samples cannot be used.
    mirrored : int
        How many samples faced another way than the rest and were turned round.
    pictures : ndarray of int32, shape (k, 2)
        The first 8 bytes of the SHA-256 of the pixels of each image, which tell images apart.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/", "new/")
    >>> valid = pliant.data.check_dataset(faces, jobs=1, progress=False).valid
    >>> valid.points.shape, valid.left_out
    ((12, 68, 2), 3)

    """

    dataset: Dataset
    points: Float64
    sizes: tuple[Size, ...]
    colour: bool
    problems: tuple[str, ...]
    deep: int = 0
    names: tuple[str, ...] = ()
    left_out: int = 0
    mirrored: int = 0
    pictures: Int32 = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))


@dataclass(frozen=True, eq=False)
class _Checked:
    points: Float64 | None
    size: Size
    colour: bool
    deep: bool
    fingerprint: str
    problems: tuple[str, ...]
    names: tuple[str, ...] = ()
    image: Image | None = None
    picture: bytes = bytes(8)


def validate(
    dataset: Dataset,
    jobs: Jobs = 1,
    advance: Callable[[], None] = lambda: None,
    allow_missing: bool = False,
    keep: float = 0,
) -> Validated:
    """Check every sample; landmark numbers in the sentences count from 0.

    Every image is decoded for it, as nothing else tells whether a file is whole. Up to `keep` bytes of pixels stay
    with the samples, so that these images need not be decoded again, unless others decode them: pixels do not
    travel. Landmarks stay with all that can be used.
    """
    crew = crew_of(jobs)
    parts = [dataset.samples[part] for part in shared_out(len(dataset), _AT_ONCE)] if len(dataset) else []
    by_part: dict[int, list[_Checked]] = {}
    for number, outcomes in crew.each(_check_all, parts, allow_missing, keep if in_this_process(crew) else 0):
        by_part[number] = outcomes
        for _ in outcomes:
            advance()
    checked = [outcome for number in range(len(parts)) for outcome in by_part[number]]
    counts = Counter(len(outcome.points) for outcome in checked if outcome.points is not None)
    usual = counts.most_common(1)[0][0] if counts else 0
    first_with: dict[str, str] = {}
    usable: list[tuple[Sample, _Checked]] = []
    problems: list[str] = []
    for sample, outcome in zip(dataset, checked, strict=True):
        found = list(outcome.problems)
        if outcome.points is not None and len(outcome.points) != usual:
            found.append(f"{sample.name}: has {len(outcome.points)} landmarks, but most have {usual}.")
        elif not found and outcome.fingerprint in first_with:
            found.append(
                f"{sample.name}: is the same as {first_with[outcome.fingerprint]}, both image and landmarks."
            )
        if found:
            problems += found
        else:
            first_with[outcome.fingerprint] = sample.name
            usable.append((sample, outcome))
    points = np.array([outcome.points for _, outcome in usable]).reshape(len(usable), usual, 2)
    return Validated(
        dataset=Dataset(
            tuple(
                sample.keeping(one.image, landmarks)
                for (sample, one), landmarks in zip(usable, points, strict=True)
            ),
            dataset.source,
        ),
        points=points,
        sizes=tuple(outcome.size for _, outcome in usable),
        colour=any(outcome.colour for _, outcome in usable),
        problems=tuple(problems),
        deep=sum(outcome.deep for _, outcome in usable),
        names=usable[0][1].names if len({outcome.names for _, outcome in usable}) == 1 else (),
        left_out=len(dataset) - len(usable),
        pictures=np.frombuffer(b"".join(outcome.picture for _, outcome in usable), dtype="<i4")
        .reshape(-1, 2)
        .astype(np.int32),
    )


def usable(
    dataset: Dataset,
    skip_invalid: bool,
    jobs: Jobs = 1,
    advance: Callable[[], None] = lambda: None,
    allow_missing: bool = False,
    keep: float = 0,
) -> Validated:
    """What can be used, with a warning about the rest if it may be skipped, and an error otherwise."""
    valid = validate(dataset, jobs, advance, allow_missing, keep)
    if valid.problems and not (skip_invalid and len(valid.dataset)):
        raise InvalidDataset(valid.problems, len(dataset), advice(dataset))
    if valid.problems:
        verb = "was" if valid.left_out == 1 else "were"
        text = _message(
            f"{valid.left_out} of {counted(len(dataset), 'sample')} {verb} left out:",
            valid.problems,
            advice(dataset),
        )
        warnings.warn(text, SamplesLeftOut, stacklevel=3)
    return valid


def _message(title: str, problems: Sequence[str], what_to_do: str) -> str:
    lines = [f"  {line}" for line in shortened(problems, "pliant check --json lists all")]
    return "\n".join([title, *lines, *([what_to_do] if what_to_do else [])])


def _purse(size: float) -> Callable[[int], bool]:
    """A function, for many threads, that says whether so many bytes are still there, and takes them if so."""
    left, lock = size, Lock()

    def affordable(cost: int) -> bool:
        nonlocal left
        with lock:
            if cost > left:
                return False
            left -= cost
            return True

    return affordable


def _check_all(
    parts: Sequence[Sequence[Sample]], allow_missing: bool, keep: float, *, threads: int
) -> Iterator[list[_Checked]]:
    """The samples of each part, checked."""
    check = partial(_check, allow_missing=allow_missing, affordable=_purse(keep))
    with ThreadPoolExecutor(max_workers=threads) as pool:
        outcomes = pool.map(check, chain.from_iterable(parts))
        for part in parts:
            yield list(islice(outcomes, len(part)))


def _check(sample: Sample, allow_missing: bool, affordable: Callable[[int], bool]) -> _Checked:
    """One sample by itself: whatever goes wrong while reading becomes a sentence."""
    problems: list[str] = []
    points, image = None, None
    names: tuple[str, ...] = ()
    stated: Size | None = None
    try:
        annotation = sample.annotation()
        stated = annotation.size
        points = annotation.points
        names = annotation.names if len(annotation.names) == len(points) else ()
    except (ValueError, OSError) as error:
        problems.append(str(error))
    try:
        image = sample.image()
    except (ValueError, OSError) as error:
        problems = list(dict.fromkeys([*problems, str(error)]))
    if points is not None and points.ndim == 2:
        # Half a landmark is none.
        points = np.where(np.any(np.isnan(points), axis=1, keepdims=True), np.nan, points)
    if points is not None:
        problem = _problem_of_points(points, image.shape if image is not None else None, allow_missing)
        problems += [f"{sample.name}: {problem}{_about_size(stated, image)}"] if problem else []
    if points is None or image is None:
        return _Checked(points, (0, 0), False, False, "", tuple(problems))
    fingerprint = hashlib.sha256(np.ascontiguousarray(image).data)
    picture = fingerprint.digest()[:8]
    fingerprint.update(np.ascontiguousarray(points).data)
    size = (image.shape[1], image.shape[0])
    deep = image.dtype != np.uint8 and isinstance(sample.image_source, (Path, str))
    kept = image if not problems and affordable(image.nbytes) else None
    return _Checked(
        points, size, image.ndim == 3, deep, fingerprint.hexdigest(), tuple(problems), names, kept, picture
    )


def _about_size(stated: Size | None, image: Image | None) -> str:
    """A sentence behind that about landmarks, if the landmark file was made for an image of another size."""
    if image is None or stated is None or stated == (image.shape[1], image.shape[0]):
        return ""
    return f" The landmark file says that the image has {stated[0]} x {stated[1]} pixels: was it resized?"


def about_range(images: int) -> str:
    """What a person should know about images of more than 8 bits, and about faint ones."""
    which = "1 image has" if images == 1 else f"{images} images have"
    return (
        f"{which} more than 8 bits or very little contrast: black and white are set for each image separately "
        "(docs/reference/data.md)"
    )


def _problem_of_points(
    points: Float64, image_shape: tuple[int, ...] | None, allow_missing: bool
) -> str | None:
    if points.ndim != 2 or points.shape[1] != 2:
        return f"landmarks must have the shape (count, 2), not {points.shape}."
    infinite = np.any(np.isinf(points), axis=1)
    if np.any(infinite):
        return f"{_landmarks(np.flatnonzero(infinite), 'is', 'are')} not finite."
    missing = np.any(np.isnan(points), axis=1)
    if np.any(missing) and not allow_missing:
        which = _landmarks(np.flatnonzero(missing), "is", "are")
        return f"{which} missing (counted from 0); train with missing=complete to fill in what is missing."
    known = np.flatnonzero(~missing)
    if len(known) < min(_LEAST, len(points)):
        are = "is" if len(known) == 1 else "are"
        return (
            f"only {len(known)} of its {len(points)} landmarks {are} known, but at least {_LEAST} are needed to "
            "locate it."
        )
    return _problem_of_known(points[known], known, image_shape)


def _problem_of_known(
    points: Float64, known: NDArray[np.intp], image_shape: tuple[int, ...] | None
) -> str | None:
    """What is wrong with landmarks `(n, 2)` whose numbers are `known`."""
    size = float(shape_size(points))
    if size < _SMALLEST or len(np.unique(points.round(6), axis=0)) < max(3, len(points) / 2):
        return f"the landmarks are collapsed: {numbered(known)} span only {size:.1f} pixels or coincide."
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    if spread[-1] < 1e-3 * spread[0]:
        return f"the landmarks {numbered(known)} are collapsed onto one line."
    if image_shape is None:
        return None
    height, width = image_shape[:2]
    outside = np.maximum(-points, points - (width - 1, height - 1)).max(axis=1)
    far = known[outside > _NEAR * size]
    if len(far):
        which = _landmarks(far, "lies", "lie")
        return f"{which} far outside the image of {width} x {height} pixels."
    return None


def _landmarks(numbers: NDArray[np.intp], one: str, several: str) -> str:
    """Some landmarks as the subject of a sentence, with its verb: `landmark 7 is`."""
    return f"landmark {numbers[0]} {one}" if len(numbers) == 1 else f"landmarks {numbered(numbers)} {several}"


def numbered(numbers: Iterable[int]) -> str:
    """Landmark numbers with runs shortened: 0-16, 30, 60-67."""
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
