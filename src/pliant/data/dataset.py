"""Samples and data sets: an image and its landmarks, read when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Concise, Float64, Floats, Image, evenly_spread, readonly
from pliant.data import images
from pliant.data.addresses import Source, parent
from pliant.data.annotation import Annotation
from pliant.data.copies import first_of_copies
from pliant.data.landmark_files import annotation_in
from pliant.terminal import counted


@dataclass(frozen=True, repr=False)
class Sample(Concise):
    """One image with its landmarks, if it has any. Both are read when you ask for them.

    Parameters
    ----------
    name : str
        The name in errors and tables.
    image_source : Path, str or callable
        A file (a path, or an address as a string), or a function that returns the image, `(h, w)` or `(h, w, 3)`.
    points_source : Path, str, Annotation, callable or None
        A file, an annotation, or a function that returns the landmarks `(v, 2)`; None if there are none.
    group : str
        Splits keep samples of one group (a person, a video) together. They do the same for copies of one image.
    split : str
        The part of the data set that a manifest puts the sample in.
    box : array, shape (4,), or None
        Left, top, right and bottom of the object, if a file gives them.
    format : str
        The format of the landmark file; by default its content decides.

    Attributes
    ----------
    decoded : array or None
        The image, if it was read already and is kept. `dataclasses.replace` and pickles drop it.
    landmarks : ndarray, shape (v, 2), or None
        The landmarks, if they were read already and are kept. `dataclasses.replace` drops them.

    Examples
    --------
    >>> import pliant
    >>> sample = pliant.load_dataset("photographs/")[0]
    >>> sample.image().shape, sample.points().shape
    ((96, 96, 3), (68, 2))
    >>> pliant.Sample("mine", "new.jpg", sample.points).points().shape
    (68, 2)

    """

    name: str
    image_source: Source | Callable[[], Image]
    points_source: Source | Annotation | Callable[[], Floats] | None
    group: str = ""
    split: str = ""
    box: Float64 | None = field(default=None, compare=False)
    format: str = ""
    decoded: Image | None = field(default=None, init=False, compare=False)
    landmarks: Float64 | None = field(default=None, init=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process, which reads the image itself, and may be in another folder."""
        state = {**super().__getstate__(), "decoded": None}
        for name in ("image_source", "points_source"):
            if isinstance(state[name], Path):
                state[name] = state[name].absolute()
        return state

    def image(self) -> Image:
        """Read the image.

        Returns
        -------
        array, shape (h, w) or (h, w, 3)
            8-bit values, or float32 with black at 0 and white at 1.

        Examples
        --------
        >>> import pliant
        >>> image = pliant.load_dataset("photographs/")[0].image()
        >>> image.shape, image.dtype.name
        ((96, 96, 3), 'uint8')

        """
        if self.decoded is not None:
            return self.decoded
        if isinstance(self.image_source, (Path, str)):
            return images.read_image(self.image_source)
        return images.as_image(self.image_source(), self.name)

    def keeping(self, image: Image | None = None, landmarks: Float64 | None = None) -> Sample:
        """Return the same sample with an image or landmarks that are kept in memory and not read again.

        Parameters
        ----------
        image : array, shape (h, w) or (h, w, 3), or None
            The image to keep; None keeps none.
        landmarks : ndarray, shape (v, 2), or None
            The landmarks to keep; None keeps none.

        Returns
        -------
        Sample
            A new sample. What this one kept before is not carried over.

        Examples
        --------
        >>> import pliant
        >>> sample = pliant.load_dataset("photographs/")[0]
        >>> kept = sample.keeping(image=sample.image())
        >>> kept.image() is kept.decoded
        True

        """
        sample = replace(self)
        if image is not None:
            object.__setattr__(sample, "decoded", readonly(image))
        if landmarks is not None:
            object.__setattr__(sample, "landmarks", readonly(landmarks))
        return sample

    def points(self) -> Float64:
        """Read the landmarks.

        Returns
        -------
        ndarray, shape (v, 2)
            x and y in pixels, 0-based with pixel centres at integers; nan where a landmark is missing.

        Raises
        ------
        ValueError
            If the sample has no landmarks.

        Examples
        --------
        >>> import pliant
        >>> pliant.load_dataset("photographs/")[0].points().shape
        (68, 2)

        """
        return self.annotation().points if self.landmarks is None else self.landmarks

    def annotation(self) -> Annotation:
        """Read the landmarks together with everything else that their file says about them.

        Returns
        -------
        Annotation
            The points, and names, box, group, spacing and so on, if the file gives them.

        Raises
        ------
        ValueError
            If the sample has no landmarks.

        Examples
        --------
        >>> import pliant
        >>> pliant.load_dataset("labels.xml")[0].annotation().points.shape
        (68, 2)

        """
        source = self.points_source
        if source is None:
            raise ValueError(f"{self.name}: there is no landmark file beside this image.")
        if isinstance(source, Annotation):
            found = source
        elif isinstance(source, (Path, str)):
            beside = parent(self.image_source) if isinstance(self.image_source, (Path, str)) else None
            found = annotation_in(source, self.format, beside)
        else:
            found = Annotation(self.name, np.asarray(source(), dtype=np.float64))
        box = found.box if self.box is None else self.box
        return replace(found, box=box, group=self.group or found.group)

    def spacing(self) -> float | None:
        """Return the length of a pixel in units such as millimetres.

        Returns
        -------
        float or None
            None if neither the landmark file nor the image (DICOM) gives it.

        Examples
        --------
        >>> import pliant
        >>> print(pliant.load_dataset("photographs/")[0].spacing())
        None

        """
        written = None if self.points_source is None else self.annotation().spacing
        if written is not None or not isinstance(self.image_source, (Path, str)):
            return written
        return images.image_spacing(self.image_source)

    def mirrored(self, permutation: Sequence[int]) -> Sample:
        """Return the sample as a mirror shows it.

        Parameters
        ----------
        permutation : sequence of int, length v
            Landmark i of the mirrored sample is landmark `permutation[i]` of this one.

        Returns
        -------
        Sample
            It mirrors the image and the landmarks when you ask for them.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> image, points = np.zeros((4, 10)), np.array([[1.0, 2.0], [7.0, 2.0]])
        >>> sample = pliant.dataset_from_arrays([image], [points])[0]
        >>> sample.mirrored([1, 0]).points()
        array([[2., 2.],
               [8., 2.]])

        """
        return replace(
            self,
            name=f"{self.name}, mirrored",
            image_source=partial(_mirrored_image, self),
            points_source=partial(_mirrored_points, self, tuple(permutation)),
            box=None,
        )


@dataclass(frozen=True, repr=False)
class Dataset(Sequence[Sample]):
    """Samples in a fixed order, and where they came from.

    A data set is a sequence: `len` counts its samples, an index gives a sample, a slice gives a data set, and `+`
    joins two.

    Parameters
    ----------
    samples : tuple of Sample
        The samples.
    source : str
        Where they came from, in words.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> len(faces), len(faces[:5]), len(faces + faces[:2])
    (12, 5, 14)
    >>> rest, held_out = faces.split(0.25, seed=1)
    >>> len(rest), len(held_out)
    (9, 3)

    """

    samples: tuple[Sample, ...]
    source: str

    def __repr__(self) -> str:
        many = "1 sample" if len(self.samples) == 1 else f"{len(self.samples)} samples"
        return f"Dataset({many}, {self.source})"

    def _repr_html_(self) -> str:
        from pliant.plots.notebook import dataset_html

        return dataset_html(self)

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

    def grouped(self, pattern: str) -> Dataset:
        r"""Return the same samples in groups that their names tell, for `split` and `folds`.

        Parameters
        ----------
        pattern : str
            A regular expression. The group is what its brackets match, or else everything that it matches.

        Returns
        -------
        Dataset
            The same samples, each with its `group`.

        Raises
        ------
        ValueError
            If the pattern does not match the name of a sample.

        Examples
        --------
        >>> import pliant
        >>> faces = pliant.load_dataset("faces/").grouped(r"(person\d+)_")
        >>> sorted({sample.group for sample in faces})
        ['person00', 'person01', 'person02', 'person03']

        """
        groups = []
        for sample in self.samples:
            match = re.search(pattern, sample.name)
            if match is None:
                raise ValueError(f"{sample.name}: the group pattern '{pattern}' does not match this name.")
            groups.append(match[match.re.groups and 1] or "")
        samples = (replace(sample, group=group) for sample, group in zip(self.samples, groups, strict=True))
        return Dataset(tuple(samples), self.source)

    def part(self, name: str) -> Dataset:
        """Return the samples that the column `split` of a manifest puts in one part.

        Parameters
        ----------
        name : str
            The part, such as `"train"` or `"test"`.

        Returns
        -------
        Dataset
            The samples of that part, in their order.

        Raises
        ------
        ValueError
            If no sample is in the part. The message lists the parts that exist.

        Examples
        --------
        >>> import pliant
        >>> faces = pliant.load_dataset("manifest.csv")
        >>> len(faces.part("train")), len(faces.part("test"))
        (10, 2)

        """
        samples = tuple(sample for sample in self.samples if sample.split == name)
        if not samples:
            known = sorted({sample.split for sample in self.samples} - {""})
            have = f"Its parts are {', '.join(known)}." if known else "No manifest has a column split."
            raise ValueError(f"{self.source}: no sample is in the part '{name}'. {have}")
        return Dataset(samples, f"{self.source} ({name})")

    def split(self, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Draw two data sets at random: the rest, and the samples to hold out.

        Samples of one group, and copies of one image, stay together.

        Parameters
        ----------
        share : float
            About how much of the samples to hold out, between 0 and 1.
        seed : int
            Another seed draws other samples.

        Returns
        -------
        rest, held_out : Dataset
            Neither is empty, and both keep the order of the samples.

        Raises
        ------
        ValueError
            If the share is not between 0 and 1, or there are fewer than two groups.

        Examples
        --------
        >>> import pliant
        >>> rest, held_out = pliant.load_dataset("photographs/").split(0.25)
        >>> len(rest), len(held_out)
        (9, 3)

        """
        if not 0 < share < 1:
            raise ValueError(f"share = {share!r}: the share to hold out must be between 0 and 1.")
        groups = self._drawn_groups(2, seed)
        target = share * len(self.samples)
        held: list[int] = []
        for group in groups:
            if abs(len(held) + len(group) - target) < abs(len(held) - target):
                held += group
        if not held or len(held) == len(self.samples):
            # Groups are so large that none is nearest to what was asked; yet neither side may be empty.
            by_size = sorted(groups, key=len)
            held = by_size[0] if not held else [i for group in by_size[1:] for i in group]
        return self._without(held), self._only(held)

    def folds(self, count: int, seed: int = 0) -> list[tuple[Dataset, Dataset]]:
        """Return pairs of data sets for cross-validation; each pair holds out another part of the samples.

        Samples of one group, and copies of one image, stay together.

        Parameters
        ----------
        count : int
            How many pairs, at least two.
        seed : int
            Another seed draws other parts.

        Returns
        -------
        list of (Dataset, Dataset)
            The rest and the samples held out. Each sample is held out once.

        Raises
        ------
        ValueError
            If there are fewer than two folds, or fewer groups than folds.

        Examples
        --------
        >>> import pliant
        >>> [(len(rest), len(held_out)) for rest, held_out in pliant.load_dataset("photographs/").folds(3)]
        [(8, 4), (8, 4), (8, 4)]

        """
        if count < 2:
            raise ValueError(f"{count} folds: there must be at least two.")
        folds: list[list[int]] = [[] for _ in range(count)]
        # Large groups first, each to the fold that has the least: what is left over is small.
        for group in sorted(self._drawn_groups(count, seed), key=len, reverse=True):
            min(folds, key=len).extend(group)
        return [(self._without(fold), self._only(fold)) for fold in folds]

    def _drawn_groups(self, least: int, seed: int) -> list[list[int]]:
        """Numbers of the samples that belong together, groups in random order.

        Samples of the very same image belong together too, and with them the groups that they are in.
        """
        members: dict[str | int, list[int]] = {}
        for number, sample in enumerate(self.samples):
            members.setdefault(sample.group or number, []).append(number)
        of_sample = {number: group for group in members.values() for number in group}
        for number, first in enumerate(first_of_copies(self.samples)):
            group, larger = of_sample[number], of_sample[first]
            if group is not larger:
                larger += group
                of_sample |= dict.fromkeys(group, larger)
        # A list for each group, in the order of its first sample; joined groups have one list.
        groups = list({id(group): group for group in of_sample.values()}.values())
        if len(groups) < least:
            raise ValueError(
                f"{self.source}: {least} parts need at least {least} groups, but there are {len(groups)}; "
                "samples of one group or of the same image stay together."
            )
        return [groups[k] for k in np.random.default_rng(seed).permutation(len(groups))]

    def _only(self, numbers: Iterable[int]) -> Dataset:
        return Dataset(tuple(self.samples[number] for number in sorted(numbers)), self.source)

    def _without(self, numbers: Iterable[int]) -> Dataset:
        return self._only(set(range(len(self.samples))) - set(numbers))


def evenly(dataset: Dataset, most: int) -> Dataset:
    """At most so many of the samples, evenly taken from all."""
    if len(dataset) <= most:
        return dataset
    return Dataset(
        tuple(dataset.samples[k] for k in evenly_spread(len(dataset), most).tolist()), dataset.source
    )


def dataset_from_arrays(images: Iterable[Image], shapes: Iterable[Floats]) -> Dataset:
    """Make a data set of images and landmarks that are in memory.

    Parameters
    ----------
    images : iterable of array, shape (h, w) or (h, w, 3)
        The images, which may differ in size.
    shapes : iterable of array, shape (v, 2)
        The landmarks of each image: x and y, 0-based, pixel centres at integers; nan where one is missing.

    Returns
    -------
    Dataset
        Samples in the same order, called "sample 0" and so on.

    Raises
    ------
    ValueError
        If there are not as many images as shapes, or a shape is not `(v, 2)`.

    Examples
    --------
    >>> import pliant
    >>> images, shapes = zip(*(pliant.synthetic.face(k, image_size=64) for k in range(3)))
    >>> pliant.dataset_from_arrays(images, shapes)
    Dataset(3 samples, arrays)

    """
    images, shapes = list(images), list(shapes)
    if len(images) != len(shapes):
        raise ValueError(
            f"there are {counted(len(images), 'image')} and {counted(len(shapes), 'shape')}: give the landmarks "
            "of each image."
        )
    for number, points in enumerate(shapes):
        if np.ndim(points) != 2 or np.shape(points)[1] != 2:
            raise ValueError(
                f"sample {number}: its landmarks must be an array (v, 2), with x and y of each landmark, not of "
                f"shape {np.shape(points)}."
            )
    samples = [
        Sample(f"sample {number}", lambda image=image: image, lambda points=points: points)  # type: ignore[misc]
        for number, (image, points) in enumerate(zip(images, shapes, strict=True))
    ]
    return Dataset(tuple(samples), "arrays")


def _mirrored_image(sample: Sample) -> Image:
    return np.ascontiguousarray(sample.image()[:, ::-1])


def _mirrored_points(sample: Sample, permutation: tuple[int, ...]) -> Float64:
    return mirrored_points(sample.points(), sample.image().shape[1], permutation)


def mirrored_points(points: Floats, width: int, permutation: Sequence[int]) -> Float64:
    """Landmarks `(v, 2)` of an image that is `width` wide, as they are when it is flipped."""
    turned = np.asarray(points, dtype=np.float64)[list(permutation)]
    return np.stack([width - 1 - turned[:, 0], turned[:, 1]], axis=1)
