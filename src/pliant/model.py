"""The model: a value. Levels of shape, motion and appearance from coarse to fine, and a texture to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant import store
from pliant.appearance.texture import Texture
from pliant.arrays import Concise, Float32, Float64, Floats, Frozen, Image, Int32
from pliant.consistency import check_model
from pliant.container import refused
from pliant.experts.sightings import Expert
from pliant.level import Level
from pliant.settings import Training
from pliant.shape import SIMILARITY, ShapeModel, shape_size
from pliant.shape.facing import flipped, is_mirrored
from pliant.starts.filters import ObjectFilter
from pliant.starts.placement import Placement
from pliant.trust.confidence import Confidence


@dataclass(frozen=True, eq=False, repr=False)
class Model(Concise):
    """A trained model. It is a value: `train` makes it, `load` reads it, and nothing changes it.

    Attributes
    ----------
    levels : tuple of Level
        Shape, motion and appearance at each scale, from coarse to fine.
    texture : Texture
        The colours or grey values of the object, for drawing it.
    settings : Training
        The settings of its training.
    provenance : mapping
        What it was trained on, and with which version of pliant: plain values, read-only.
    placements : tuple of Placement
        Where the object was in the training images, and in the boxes of a detector.
    confidence : Confidence or None
        What calibration learned about the errors of fits; None if the model is not calibrated.
    landmark_names : tuple of str
        The names in the training data, if all samples agree on them.
    object_filter : ObjectFilter or None
        The filter that finds the object in whole images. Older models have none.
    expert : Expert or None
        What sees landmarks in images, if one was trained.
    expert_weight : float
        How much the expert counts against the pixels. Pixels err together, and by themselves they are too sure.
    shape_noise : ndarray, shape (v, 2, 2), or None
        Covariances of the distance between landmarks and the shapes of the finest level, in its frame. None: what
        its modes leave of the training shapes.
    training_images : ndarray of int32, shape (k, 2), or None
        The first 8 bytes of the SHA-256 of the pixels of each training image, in ascending order, to recognise
        these images in an evaluation. Older models have none.

    Examples
    --------
    >>> import pliant
    >>> model = pliant.load("faces.pliant")
    >>> model
    Model(68 landmarks, 2 levels, 5 modes of shape, dsift, 24 samples)
    >>> model.landmarks, round(model.size), model.faces_both_ways
    (68, 40, False)

    """

    levels: tuple[Level, ...]
    texture: Texture
    settings: Training
    provenance: Mapping[str, Any]
    placements: tuple[Placement, ...] = ()
    confidence: Confidence | None = None
    landmark_names: tuple[str, ...] = ()
    object_filter: ObjectFilter | None = None
    expert: Expert | None = None
    expert_weight: float = 1.0
    shape_noise: Float64 | None = None
    training_images: Int32 | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", Frozen(self.provenance))

    def __repr__(self) -> str:
        finest = self.levels[-1]
        levels = "1 level" if len(self.levels) == 1 else f"{len(self.levels)} levels"
        shapes = f"{finest.shape.modes} modes of shape"
        samples = f"{self.provenance.get('samples', '?')} samples"
        return f"Model({self.landmarks} landmarks, {levels}, {shapes}, {finest.features}, {samples})"

    def _repr_html_(self) -> str:
        from pliant.plots.notebook import model_html

        return model_html(self)

    @property
    def landmarks(self) -> int:
        """The number of landmarks."""
        return self.levels[-1].shape.landmarks

    @property
    def size(self) -> float:
        """The size of the object at scale 1, in pixels: the mean of its height and width."""
        return float(shape_size(self.levels[-1].shape.mean)) / self.levels[-1].scale

    @property
    def faces_both_ways(self) -> bool:
        """Whether the object may be mirrored in an image, so that fits try both ways."""
        return self.settings.facing == "both"

    def save(self, path: Path | str) -> None:
        """Write the model to one `.pliant` file. An existing file is replaced in one step or not at all.

        Parameters
        ----------
        path : Path or str
            The file, or an address such as `s3://bucket/faces.pliant`.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> model.save("copy.pliant")
        >>> pliant.load("copy.pliant").landmarks
        68

        """
        store.save(self, store.place_of(path))

    def draw(
        self,
        shape_deviations: Sequence[float] | Floats = (),
        texture_deviations: Sequence[float] | Floats = (),
        height: int = 240,
    ) -> tuple[Float32, Float64]:
        """Draw an instance of the model on white.

        All instances of a model are drawn at the same scale.

        Parameters
        ----------
        shape_deviations : sequence of float, length k
            Standard deviations along the leading modes of shape; the other modes stay at their mean.
        texture_deviations : sequence of float, length l
            The same for the modes of texture.
        height : int
            The height of the picture in pixels.

        Returns
        -------
        picture : ndarray, shape (height, w, c)
            Black is 0 and white is 1; there are one or three channels, as in the training images.
        points : ndarray, shape (v, 2)
            The landmarks in the picture.

        Examples
        --------
        A face that is two standard deviations off along the first mode of shape:

        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> picture, points = model.draw([2.0], height=120)
        >>> picture.shape[0], points.shape
        (120, (68, 2))

        """
        shape, texture = self.levels[-1].shape, self.texture.pca
        modes = _scaled(shape_deviations, shape.eigenvalues, "shape")
        points = shape.instance(np.concatenate([np.zeros(SIMILARITY), modes]))
        low, high = _extremes(shape)
        zoom = (height - 1) / float(high[1] - low[1])
        points = (points - low) * zoom
        width = round(zoom * float(high[0] - low[0])) + 1
        canvas = np.ones((height, width, self.texture.channels), dtype=np.float32)
        return self.texture.draw(
            _scaled(texture_deviations, texture.eigenvalues, "texture"), points, canvas
        ), points

    def reconstruct(self, image: Image, points: Floats) -> Float32:
        """Return an image with the model's version of the object drawn over it.

        Parameters
        ----------
        image : array, shape (h, w) or (h, w, 3)
            The image.
        points : array, shape (v, 2)
            The landmarks of the object in it.

        Returns
        -------
        ndarray, shape (h, w, c)
            Black is 0 and white is 1; there are as many channels as the model has.

        Examples
        --------
        >>> import pliant
        >>> model = pliant.load("faces.pliant")
        >>> sample = pliant.load_dataset("photographs/")[0]
        >>> model.reconstruct(sample.image(), sample.points()).shape
        (96, 96, 3)

        """
        from pliant.appearance.interpolation import resample

        if self.faces_both_ways and is_mirrored(self.levels[-1].shape.mean, points):
            return self.reconstruct(image[:, ::-1], flipped(points, image.shape[1]))[:, ::-1]
        shape, grey = (image.shape[0], image.shape[1]), self.texture.channels == 1
        canvas = resample(image, np.zeros(2), 1.0, shape, grey=grey)
        canvas = np.broadcast_to(canvas, (*shape, self.texture.channels))
        return self.texture.draw(self.texture.project(image, points), points, canvas)


def load(path: Path | str) -> Model:
    """Read a model from a file and check it.

    Parameters
    ----------
    path : Path or str
        A file that `Model.save` or `pliant train` wrote, or its address (`s3://bucket/faces.pliant`). Nothing in
        it is executed.

    Returns
    -------
    Model
        The model as it was saved.

    Raises
    ------
    ModelFileError
        If the file does not exist, is not a model, or is damaged or inconsistent. The message says which.

    Examples
    --------
    >>> import pliant
    >>> pliant.load("faces.pliant").landmarks
    68

    """
    place = store.place_of(path)
    with refused(place):
        model = Model(**store.read(place))
        check_model(model)
    return model


def as_model(given: Model | Path | str) -> Model:
    """A model, whether it is one or is in a file: what users fit with takes both."""
    if isinstance(given, (str, Path)):
        return load(given)
    if not isinstance(given, Model):
        raise TypeError(
            f"the model must come from pliant.train or pliant.load, or be a model file, but it is of type "
            f"{type(given).__name__}."
        )
    return given


def _scaled(deviations: Sequence[float] | Floats, variances: Float64, kind: str) -> Float64:
    """Parameters `(m,)` from standard deviations along the first modes."""
    given = np.asarray(deviations, dtype=np.float64)
    if given.ndim != 1 or len(given) > len(variances):
        raise ValueError(f"the {kind} of this model has {len(variances)} modes, but {given.size} were given.")
    return np.concatenate([given, np.zeros(len(variances) - len(given))]) * np.sqrt(variances)


def _extremes(shape: ShapeModel) -> tuple[Float64, Float64]:
    """Corners of a box that holds the instances up to 3 standard deviations along the first three modes."""
    modes = min(3, shape.modes)
    deviations = np.zeros((1 + 2 * modes, shape.parameters))
    for mode in range(modes):
        reach = 3 * np.sqrt(shape.eigenvalues[mode])
        deviations[1 + 2 * mode : 3 + 2 * mode, SIMILARITY + mode] = (-reach, reach)
    corners = shape.instance(deviations).reshape(-1, 2)
    border = 0.03 * np.ptp(corners, axis=0).max()
    return corners.min(axis=0) - border, corners.max(axis=0) + border
