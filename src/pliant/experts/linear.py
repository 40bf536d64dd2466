"""The linear expert: regression brings a shape near the object, and filters say where each landmark is.

Each step of the regression describes the image about the landmarks, and moves all of them at once:

    s <- s + basis (described W + b),

in the frame of the mean shape. Steps are trained one after the other, on starts as far off as fits may have them.
Then every landmark has a filter, which answers at each pixel near the landmark. Made a distribution, the answers
have a mean y and a covariance C, and the landmark is seen at y with the precision (share C + spread)^-1. What is
seen at one scale is brought together by the shapes of the object before the filters of the next one are laid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pliant.arrays import Concise, Float32, Float64, Floats, Image, readonly
from pliant.experts.sightings import Sightings
from pliant.namespace import (
    Array,
    beside,
    counted,
    identity,
    in_double,
    inverses,
    is_tensor,
    namespace,
    solutions,
)
from pliant.shape import SIMILARITY, Similarity, align

if TYPE_CHECKING:
    from pliant.experts.patches import Window

CHANNELS = 8
"""Of the dense SIFT that all of it looks at."""

_MOST_SIZE, _MOST_GRID, _MOST_SPACING, _MOST_REACH = 1024.0, 32, 64, 64
"""Beyond these, a file does not say what an expert looks at: views would take any memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Step(Concise):
    """One step of the regression: the object has `size` pixels, and descriptions a `grid` with this `spacing`.

    `weights (v * grid * grid * 8, q)` and `offset (q,)`.
    """

    size: float
    grid: int
    spacing: int
    weights: Float32
    offset: Float32


@dataclass(frozen=True, eq=False, repr=False)
class Filters(Concise):
    """The filters of one scale, where the object has `size` pixels: `weights (v, grid, grid, 8)`, `offset (v,)`.

    They are laid up to `reach` pixels from a landmark. `sharpness (v,)` makes a distribution of their answers, and
    `share` and `spread (v, 2, 2)`, in square sizes of the object, a covariance of it. Precisions are multiplied
    with `trust` when landmarks are brought together: errors of neighbours are alike.
    """

    size: float
    grid: int
    spacing: int
    reach: int
    weights: Float32
    offset: Float32
    sharpness: Float32
    spread: Float64
    share: float
    trust: float


@dataclass(frozen=True, eq=False, repr=False)
class LinearExpert(Concise):
    """Says where landmarks are, by linear functions of the image about them.

    Attributes
    ----------
    mean
        The mean shape `(v, 2)`: its size is 1, and its centre 0.
    basis, variances, noise
        The shapes of the object: `(2v, 4 + n)`, the similarity first, the variances `(n,)` of the modes behind it,
        and the variance of each coordinate beside them.
    steps
        The regression, from the first to the last.
    filters
        From coarse to fine.

    """

    mean: Float64
    basis: Float64
    variances: Float64
    noise: float
    steps: tuple[Step, ...]
    filters: tuple[Filters, ...]

    @property
    def landmarks(self) -> int:
        return len(self.mean)

    @property
    def finest(self) -> float:
        """The size that the object has in the finest view, in pixels."""
        return max([*(step.size for step in self.steps), *(layer.size for layer in self.filters)])

    @cached_property
    def prior(self) -> Float64:
        """What the variances of the modes add to a system of all parameters, `(4 + n, 4 + n)`."""
        return np.diag(np.concatenate([np.zeros(SIMILARITY), 1 / self.variances]))

    @property
    def looks(self) -> int:
        """Once: its own steps lead from the start to where the filters are laid."""
        return 1

    def look(self, images: Sequence[Image], shapes: Floats, number: int = 0) -> Sightings:
        """Look at each image about the present estimate of a shape there.

        Parameters
        ----------
        images
            B images `(h, w)` or `(h, w, c)`.
        shapes
            `(B, v, 2)`: about where the landmarks are, in pixels of their image.
        number
            Whichever: every look is the same.

        Returns
        -------
        Sightings
            In pixels of the images. Where a shape is none, or not in reach of the image, nothing is seen.

        """
        shapes = np.asarray(shapes, dtype=np.float64)
        if shapes.shape != (len(images), self.landmarks, 2):
            raise ValueError(
                f"shapes must have the shape (images, landmarks, 2) = ({len(images)}, {self.landmarks}, 2), "
                f"not {shapes.shape}."
            )
        points = np.empty(shapes.shape)
        precision = np.zeros((*shapes.shape, 2))
        for number, (image, shape) in enumerate(zip(images, shapes, strict=True)):
            points[number], precision[number] = self._seen(image, shape)
        return Sightings(points, precision)

    def _seen(self, image: Image, shape: Float64) -> tuple[Float64, Float64]:
        from pliant.appearance.view import unlike
        from pliant.experts.patches import window

        nothing = np.zeros((*shape.shape, 2))
        if min(image.shape[:2]) < 1 or unlike(self.mean * self.finest, shape, image):
            return np.where(np.isfinite(shape), shape, 0.0), nothing
        part = window(image, shape, self.finest)
        placed = part.to_window(shape)
        for step in self.steps:
            moved = stepped(self, step, part, placed)
            if moved is None:
                return shape, nothing
            placed = moved
        for layer in self.filters:
            found = sighted(self, layer, part, placed)
            if found is None:
                return shape, nothing
            points, covariance, looked = found
            placed = brought_together(self, layer, points, covariance, looked)
        # What is a pixel of the last view, in the image.
        seen = looked.view
        turn, scale = _turn(seen.angle), seen.scale * part.scale
        precision = scale**2 * (turn @ np.linalg.inv(covariance) @ turn.T)
        return part.to_image(seen.to_image(points)), np.asarray(precision)

    def arrays(self) -> dict[str, Float32 | Float64]:
        """All arrays of the expert by name, to be stored."""
        out: dict[str, Any] = {"mean": self.mean, "basis": self.basis, "variances": self.variances}
        for k, step in enumerate(self.steps):
            out |= {f"steps.{k}.weights": step.weights, f"steps.{k}.offset": step.offset}
        for k, layer in enumerate(self.filters):
            named = ("weights", "offset", "sharpness", "spread")
            out |= {f"filters.{k}.{name}": getattr(layer, name) for name in named}
        return out

    def numbers(self) -> dict[str, Any]:
        """All that is not an array, as plain values."""
        return {
            "noise": self.noise,
            "steps": [
                {name: getattr(step, name) for name in ("size", "grid", "spacing")} for step in self.steps
            ],
            "filters": [
                {
                    name: getattr(layer, name)
                    for name in ("size", "grid", "spacing", "reach", "share", "trust")
                }
                for layer in self.filters
            ],
        }

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> LinearExpert:
        """The expert of its `arrays()` and `numbers()`; a sentence if they are not those of one."""
        mean = _array(arrays, "mean", np.float64, None, 2)
        count = len(mean)
        if count < 3:
            raise ValueError(f"a linear expert needs at least three landmarks, but there are {count}.")
        if not float(np.ptp(mean, axis=0).max()) > 0:
            raise ValueError("the mean shape of a linear expert has no extent.")
        variances = _array(arrays, "variances", np.float64, None)
        width = SIMILARITY + len(variances)
        if np.any(variances <= 0):
            raise ValueError("a linear expert has modes without variance.")
        steps, filters = _tables(numbers, "steps"), _tables(numbers, "filters")
        if not filters:
            raise ValueError("a linear expert has no filters.")
        return cls(
            mean=mean,
            basis=_array(arrays, "basis", np.float64, 2 * count, width),
            variances=variances,
            noise=_real(numbers, "noise", 0.0, 1e6),
            steps=tuple(_step(arrays, f"steps.{k}", table, count, width) for k, table in enumerate(steps)),
            filters=tuple(_filters(arrays, f"filters.{k}", table, count) for k, table in enumerate(filters)),
        )


def stepped(expert: LinearExpert, step: Step, part: Window, shape: Float64) -> Float64 | None:
    """The shape `(v, 2)` of a window after a step of the regression; None, if it is not one any more."""
    from pliant.experts.patches import described

    placed = align(expert.mean, shape)
    seen = described(part, shape, expert.mean, placed, step.size, step.grid, step.spacing)
    if seen is None:
        return None
    return moved_by(expert.basis, shape, placed, seen @ step.weights + step.offset)


def moved_by(basis: Float64, shapes: Float64, placed: Similarity, parameters: Floats) -> Float64:
    """Shapes `(..., v, 2)` moved by parameters `(..., q)` of the basis, in the frame that is `placed` onto them."""
    moves = (in_double(parameters) @ beside(basis, parameters).T).reshape(shapes.shape)
    moved: Float64 = in_double(shapes + Similarity(placed.factor, 0 * placed.offset).apply(moves))
    return moved


def sighted(
    expert: LinearExpert, layer: Filters, part: Window, shape: Float64
) -> tuple[Float64, Float64, Look] | None:
    """Where filters see the landmarks `(v, 2)`, with covariances `(v, 2, 2)`, both in pixels of their view."""
    found = answered(expert.mean, layer, part, shape)
    if found is None:
        return None
    return (*seen_by(layer, found), found)


def seen_by(layer: Filters, found: Look) -> tuple[Float64, Float64]:
    """Where filters see the landmarks `(..., v, 2)`, with covariances `(..., v, 2, 2)`, by what they answer."""
    points, covariance = moments(normalised(found.values, layer.sharpness), found.first)
    return points, layer.share * covariance + layer.size**2 * beside(layer.spread, covariance)


class Look(NamedTuple):
    """Answers of filters `(v, side, side)`, the places `(v, 2)` of the first ones in the view, and the `View`.

    The mean shape is at `size * mean + centre` there. On a device, all are of B objects: `(B, v, side, side)`, and
    `Views`.
    """

    values: Float32
    first: Float64
    view: Any
    centre: Float64


def answered(mean: Float64, layer: Filters, part: Window, shape: Float64) -> Look | None:
    """What the filters answer about the landmarks of `shape (v, 2)`; None, if it is not one."""
    from pliant.experts.patches import answers, corners_of, look_at, margin_of

    grid, spacing, reach = layer.grid, layer.spacing, layer.reach
    placed = align(mean, shape)
    seen = look_at(part, shape, mean, placed, layer.size, margin_of(grid, spacing, reach))
    if seen is None:
        return None
    centres = np.rint(seen.to_view(shape)).astype(np.int64)
    corners = corners_of(centres, seen.pixels.shape, grid, spacing, reach)
    values = answers(seen.pixels, corners, layer.weights, layer.offset, spacing, reach)
    first = np.asarray(corners + (grid - 1) * spacing // 2, dtype=np.float64)
    centre = seen.to_view(np.array([placed.offset.real, placed.offset.imag]))
    return Look(values, first, seen, centre)


def normalised(values: Float32, sharpness: Floats) -> Float64:
    """Answers `(..., v, side, side)` as weights that add up to 1."""
    xp = namespace(values)
    highest = xp.amax(values, axis=(-2, -1), keepdims=True)
    weights = xp.exp((values - highest) * beside(sharpness, values)[:, None, None])
    normal: Float64 = in_double(weights / weights.sum(axis=(-2, -1), keepdims=True))
    return normal


def moments(weights: Float64, first: Float64 | float) -> tuple[Float64, Float64]:
    """Means `(v, 2)` and covariances `(v, 2, 2)` of weights `(v, rows, columns)`, the first of which is at `first`.

    There may be further axes in front, of several objects.
    """
    xp = namespace(weights)
    across, down = counted(weights.shape[-1], weights), counted(weights.shape[-2], weights)
    along_x, along_y = weights.sum(axis=-2), weights.sum(axis=-1)
    x, y = along_x @ across, along_y @ down
    xx, yy = along_x @ across**2 - x**2, along_y @ down**2 - y**2
    xy = (weights @ across) @ down - x * y
    covariance = xp.stack([xx, xy, xy, yy], axis=-1).reshape(*x.shape, 2, 2)
    return first + xp.stack([x, y], axis=-1), covariance


def brought_together(
    expert: LinearExpert, layer: Filters, points: Float64, covariance: Float64, found: Look
) -> Float64:
    """The most likely shape `(v, 2)` of the object, given where its landmarks are seen in a view.

    On a device, the most likely ones of several objects `(B, v, 2)`.
    """
    size, xp = layer.size, namespace(points)
    mean, basis = beside(expert.mean, points), beside(expert.basis, points)
    centre = found.centre[..., None, :]
    # The view is turned as the mean shape is: its axes are those of the mean.
    away = (points - centre) / size - mean
    precision = layer.trust * inverses(covariance / size**2 + expert.noise * identity(2, points))
    by_landmark = basis.reshape(expert.landmarks, 2, -1)
    weighted = xp.einsum("...vab,vbq->...vaq", precision, by_landmark)
    system = _products(by_landmark, weighted) + beside(expert.prior, points)
    parameters = solutions(system, _products(weighted, away[..., None])[..., 0])
    together = mean + (basis @ parameters[..., None]).reshape(points.shape)
    shape: Float64 = found.view.to_image(size * together + centre)
    return shape


def _products(left: Array, right: Array) -> Array:
    """Products `(..., q, k)` of `(..., v, 2, q)` and `(..., v, 2, k)`, summed over landmarks and axes."""
    if is_tensor(right):
        return namespace(right).einsum("...vaq,...vak->...qk", left, right)
    return np.tensordot(left, right, axes=((0, 1), (0, 1)))


def _turn(angle: float) -> Float64:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def _step(arrays: Mapping[str, Any], prefix: str, table: Mapping[str, Any], count: int, width: int) -> Step:
    grid = _whole(table, "grid", 1, _MOST_GRID)
    return Step(
        size=_real(table, "size", 4.0, _MOST_SIZE),
        grid=grid,
        spacing=_whole(table, "spacing", 1, _MOST_SPACING),
        weights=_array(arrays, f"{prefix}.weights", np.float32, count * grid**2 * CHANNELS, width),
        offset=_array(arrays, f"{prefix}.offset", np.float32, width),
    )


def _filters(arrays: Mapping[str, Any], prefix: str, table: Mapping[str, Any], count: int) -> Filters:
    grid = _whole(table, "grid", 1, _MOST_GRID)
    layer = Filters(
        size=_real(table, "size", 4.0, _MOST_SIZE),
        grid=grid,
        spacing=_whole(table, "spacing", 1, _MOST_SPACING),
        reach=_whole(table, "reach", 1, _MOST_REACH),
        weights=_array(arrays, f"{prefix}.weights", np.float32, count, grid, grid, CHANNELS),
        offset=_array(arrays, f"{prefix}.offset", np.float32, count),
        sharpness=_array(arrays, f"{prefix}.sharpness", np.float32, count),
        spread=_array(arrays, f"{prefix}.spread", np.float64, count, 2, 2),
        share=_real(table, "share", 0.0, 1e3),
        trust=_real(table, "trust", 1e-6, 1e3),
    )
    symmetric = np.array_equal(layer.spread, np.swapaxes(layer.spread, 1, 2))
    if not symmetric or not np.all(np.linalg.eigvalsh(layer.spread) > 0):
        raise ValueError(f"'{prefix}.spread' of a linear expert has a matrix that is not a covariance.")
    if np.any(layer.sharpness <= 0):
        raise ValueError(f"'{prefix}.sharpness' of a linear expert is not positive.")
    return layer


def _array(arrays: Mapping[str, Any], name: str, kind: type, *shape: int | None) -> Any:
    """The array, if it is there, finite, and of this type and shape (None: any extent)."""
    if name not in arrays:
        raise ValueError(f"a linear expert lacks '{name}'.")
    array = np.asarray(arrays[name])
    extents = len(array.shape) == len(shape) and all(
        wanted in (None, extent) for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if array.dtype != kind or not extents:
        raise ValueError(f"'{name}' of a linear expert has type {array.dtype} and shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"'{name}' of a linear expert has values that are not finite numbers.")
    return readonly(array)


def _tables(numbers: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    tables = numbers.get(name)
    if not isinstance(tables, (list, tuple)) or not all(isinstance(table, Mapping) for table in tables):
        raise ValueError(f"the {name} of a linear expert are not a list of tables.")
    return tables


def _real(table: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ValueError(
            f"the {name} of a linear expert is {value!r:.40}, not a number from {least} to {most}."
        )
    return float(value)


def _whole(table: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(
            f"the {name} of a linear expert is {value!r:.40}, not a whole number from {least} to {most}."
        )
    return value
