"""What training could not have made is refused: compiled code trusts a model, and memory is asked for on its word.

The checks raise a ValueError that says what is wrong. Bounds are those of training, with room for rounding.
"""

from __future__ import annotations

import math
import sys
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pliant.appearance import texture
from pliant.arrays import Floats
from pliant.level import Level
from pliant.motion import Frame, PatchFrame
from pliant.motion.frame import MARGIN, barycentric_maps
from pliant.motion.triangulation import flat_triangles
from pliant.pca import PCA
from pliant.settings import LARGEST_SIZE, SMALLEST_SIZE
from pliant.shape import ShapeModel, shape_size
from pliant.shape.pdm import similarity_vectors
from pliant.starts.filters import ObjectFilter
from pliant.starts.placement import Placement
from pliant.trust.confidence import PIXELS, Confidence

if TYPE_CHECKING:
    from pliant.model import Model

_ROUNDING = 1e-6
"""Of what was computed in float64."""

_CHANNELS = {"intensity": 1, "normalized": 1, "gradient": 2, "igo": 4, "dsift": 8}
"""Of the features that pliant has of its own."""

_FAR = 1e3
"""Boxes' sizes beyond which no object is placed: an object that is larger than its image is placed within a few."""

_MOST_CELLS, _CELL = 2**14, 4
"""Cells that a filter may have, and their pixels."""


def checked_frame(frame: Frame) -> Frame:
    """A frame whose vertices are the corner of a picture, and whose pixels lie in their triangles or patches."""
    vertices, triangles, pixels, first = frame.vertices, frame.triangles, frame.pixels, frame.first_pixel
    _require(len(vertices) >= 3 and len(triangles) > 0 and len(pixels) > 0, "a frame is empty")
    _require(_finite(vertices), "a frame has vertices that are not finite numbers")
    low, size = vertices.min(axis=0), float(shape_size(vertices))
    _require(
        size <= LARGEST_SIZE * (1 + _ROUNDING)
        and bool(np.all(np.abs(low - MARGIN - frame.reach) < _ROUNDING * LARGEST_SIZE)),
        "a frame's vertices are too far away",
    )
    used = np.zeros(len(vertices), dtype=bool)
    inside = triangles.min() >= 0 and triangles.max() < len(vertices)
    _require(bool(inside), "a frame's pixels or triangles point outside it")
    used[triangles] = True
    _require(bool(used.all()), "a frame has vertices that belong to no triangle")
    _require(not flat_triangles(vertices, triangles).any(), "a frame has degenerate triangles")
    counts = first[1:].astype(np.int64) - first[:-1]
    runs = len(vertices) if isinstance(frame, PatchFrame) else len(triangles)
    inside = len(counts) == runs and first[0] == 0 and first[-1] == len(pixels) and counts.min() >= 0
    _require(bool(inside), "a frame's pixels or triangles point outside it")
    # Before anything is made of them that has one entry for each place between them.
    height, width = frame.shape
    inside = pixels.min() >= 0 and np.all(pixels.max(axis=0) < (width, height))
    _require(bool(inside), "a frame's pixels or triangles point outside it")
    if isinstance(frame, PatchFrame):
        _check_patches(frame)
        return frame
    maps = np.repeat(barycentric_maps(vertices, triangles), counts, axis=0)
    weights = np.einsum("fkd,fd->fk", maps[:, :, :2], pixels) + maps[:, :, 2]
    _require(bool(weights.min() > -1e-4), "a frame has pixels outside their triangles")
    places = pixels[:, 1].astype(np.int64) * width + pixels[:, 0]
    _require(len(np.unique(places)) == len(places), "a frame has the same pixel twice")
    return frame


def _check_patches(frame: PatchFrame) -> None:
    side, reach = frame.side, frame.reach
    square = side % 2 == 1 and bool(np.all(np.diff(frame.first_pixel) == side**2))
    _require(square, "a frame has patches that are not square")
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    offsets = np.stack([x, y], axis=-1).reshape(-1, 2)
    middles = frame.pixels.reshape(-1, side**2, 2) - offsets
    away = np.abs(middles - frame.vertices[:, None])
    _require(bool(away.max() < 0.5 + _ROUNDING), "a frame has pixels outside their patches")


def check_model(model: Model) -> None:
    """Levels that belong together, with shapes and appearances that are principal components."""
    triangles = model.levels[0].motion.frame.triangles
    for level in model.levels:
        _check_level(level)
        _require(level.shape.landmarks == model.landmarks, "its levels have different numbers of landmarks")
        same = np.array_equal(level.motion.frame.triangles, triangles)
        _require(same, "its levels have different triangles")
        size = float(shape_size(level.shape.mean)) / level.scale
        _require(abs(size / model.size - 1) < _ROUNDING, "its levels have different sizes")
    smallest, largest = SMALLEST_SIZE * (1 - _ROUNDING), LARGEST_SIZE * (1 + _ROUNDING)
    _require(smallest <= model.size <= largest, f"the size of its object is {model.size:g} pixels")
    rising = all(one.scale < other.scale for one, other in pairwise(model.levels))
    _require(rising, "the scales of its levels do not increase from coarse to fine")
    drawn = model.texture
    _require(drawn.channels in (1, 3), f"its texture has {drawn.channels} channels")
    _require(np.array_equal(drawn.frame.triangles, triangles), "its texture has different triangles")
    small = shape_size(drawn.frame.vertices) <= texture.LARGEST_SIZE * (1 + _ROUNDING)
    _require(bool(small), "its texture is too large")
    _check_components(drawn.pca, "texture")
    references = [placement.reference for placement in model.placements]
    _require(len(set(references)) == len(references), "it has two placements for one reference")
    for placement in model.placements:
        _check_placement(placement)
    if model.confidence is not None:
        _check_confidence(model.confidence, model.landmarks)
    if model.object_filter is not None:
        _check_filter(model.object_filter)


def _check_level(level: Level) -> None:
    _require(0 < level.scale <= 1, f"a level has the scale {level.scale:g}")
    named = isinstance(level.features, str) and level.features.isprintable()
    _require(named and level.features != "", "a level has features without a name")
    known = _known_channels(level.features)
    _require(
        level.channels == known or (known is None and level.channels >= 1),
        f"a level has {level.channels} channels of the feature '{level.features}', but the feature has "
        f"{known}",
    )
    _check_shape(level.shape)
    _check_components(level.appearance, "appearance")
    if level.basis_slopes is not None:
        _require(_finite(level.basis_slopes), "its slopes of the basis are not finite numbers")
    if level.descents is not None:
        learned = len(level.descents) > 0 and _finite(level.descents)
        _require(learned, "its slopes for cascaded regression are missing, or not finite numbers")


def _known_channels(features: str) -> int | None:
    """Channels of a feature that is known by now; the others are asked when they are used.

    What computes them is not imported for this: a model can be read with NumPy alone.
    """
    registry = sys.modules.get("pliant.appearance.features")
    if registry is not None and features in registry.feature_names():
        return int(registry.find_feature(features).channels)
    return _CHANNELS.get(features)


def _check_shape(shape: ShapeModel) -> None:
    basis, dimension = shape.basis, 2 * shape.landmarks
    _require(_finite(basis), "a basis of shapes has entries that are not finite numbers")
    off = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
    turned = np.abs(basis[:, :4] - similarity_vectors(shape.mean)).max()
    _require(bool(max(off, turned) < 1e-5), "a basis of shapes is not orthonormal")
    _check_variances(shape.eigenvalues, shape.total_variance, shape.rank, dimension, "shape")
    # An aligned shape is a projection of the mean, and no projection is farther away than the mean is long.
    length = float(np.sum((shape.mean - shape.mean.mean(axis=0)) ** 2))
    _require(shape.total_variance <= 2.1 * length, "its shapes vary by more than their size")


def _check_components(pca: PCA, what: str) -> None:
    _require(_finite(pca.mean), f"the mean of the {what} has entries that are not finite numbers")
    # In float32, components with little variance have a length of about 1. What is not finite has none.
    squares = np.einsum("md,md->m", pca.components, pca.components)
    _require(
        bool(np.all((squares > 0.5) & (squares < 2))), f"components of the {what} are not of unit length"
    )
    _check_variances(pca.eigenvalues, pca.total_variance, pca.rank, len(pca.mean), what)


def _check_variances(eigenvalues: Floats, total: float, rank: int, dimension: int, what: str) -> None:
    positive = _finite(eigenvalues) and bool(np.all(eigenvalues > 0))
    _require(positive, f"variances of the {what} are not positive numbers")
    fits = math.isfinite(total) and np.sum(eigenvalues) <= 1.01 * total + 1e-300
    _require(bool(fits), f"the total variance of the {what} is {total:g}")
    _require(len(eigenvalues) <= rank <= dimension, f"the rank of the {what} is {rank}")


def _check_placement(placement: Placement) -> None:
    for field in fields(Placement):
        value = getattr(placement, field.name)
        right = str if field.name == "reference" else (int, float)
        _require(
            isinstance(value, right) and not isinstance(value, bool),
            f"a placement has {field.name} {value!r}",
        )
    _require(placement.reference.isprintable(), "a placement has a reference that cannot be printed")
    numbers = {field.name: getattr(placement, field.name) for field in fields(Placement)[1:]}
    for name, value in numbers.items():
        _require(abs(value) < _FAR, f"a placement has {name} {value!r}")
        lowest = -_FAR if name in ("x", "y", "angle") else 0
        _require(value >= lowest, f"a placement has {name} {value!r}")
    _require(placement.size > 0 and placement.found <= 1, "a placement has no samples")


def _check_filter(found: ObjectFilter) -> None:
    _, rows, columns = found.weights.shape
    _require(0 < rows * columns <= _MOST_CELLS, f"its filter has {rows} x {columns} cells")
    numbers = _finite(found.weights) and _finite(found.shape) and math.isfinite(found.offset)
    _require(numbers, "its filter has entries that are not finite numbers")
    extent = np.ptp(found.shape, axis=0)
    inside = found.shape.min() >= 0 and np.all(found.shape.max(axis=0) <= _CELL * np.array([columns, rows]))
    _require(bool(inside and np.all(extent > 0)), "the shape in its filter is outside the filter")
    _require(0 <= found.turn <= math.pi, f"its filter is for objects turned by {found.turn:g}")


def _check_confidence(confidence: Confidence, landmarks: int) -> None:
    j, k = confidence.weights.shape
    found = [getattr(confidence, name).shape for name in ("centre", "scale", "bounds", "offsets", "scatter")]
    _require(
        found == [(k,), (k,), (j,), (j,), (landmarks, 2, 2)] and j > 0 and k in (4, PIXELS, PIXELS + 2),
        "the confidence has arrays of the wrong shapes",
    )
    pixels, expert = confidence.object_weights, confidence.expert_weights
    usual = confidence.usual_deviations
    _require(
        (pixels is None or pixels.shape == (min(k, PIXELS) + 1,))
        and (expert is None or expert.shape == (k - PIXELS + 1,) == (3,))
        and (usual is None or usual.shape == (landmarks,)),
        "the confidence has arrays of the wrong shapes",
    )
    _require(usual is None or bool(np.all(usual > 0)), "usual deviations of the confidence are not positive")
    arrays = [value for value in vars(confidence).values() if isinstance(value, np.ndarray)]
    numbers = all(map(_finite, arrays)) and math.isfinite(confidence.factor)
    _require(numbers, "the confidence has entries that are not finite numbers")
    rising = bool(np.all(confidence.bounds > 0) and np.all(np.diff(confidence.bounds) > 0))
    _require(rising, "the bounds of the confidence do not increase")
    _require(bool(np.all(confidence.scale > 0)), "the confidence has scales that are not positive")
    _require(confidence.fits > 0 and confidence.factor >= 0, "the confidence was learned from no fits")
    scatter = confidence.scatter
    symmetric = np.allclose(scatter, np.swapaxes(scatter, 1, 2), rtol=1e-6, atol=1e-12)
    positive = symmetric and bool(np.linalg.eigvalsh(scatter).min() >= -1e-12)
    _require(positive, "a scatter of the confidence is not a covariance")


def _finite(array: Floats) -> bool:
    return bool(np.isfinite(array).all())


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
