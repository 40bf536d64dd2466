"""What fits see of their images at a level: views, one by one on the CPU, or all together on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pliant.appearance.device_pictures import Pictures, upload
from pliant.appearance.device_views import Views, feature_views
from pliant.appearance.features import find_feature
from pliant.appearance.view import View, angle_to_frame, feature_view, scale_to_frame
from pliant.arrays import Float64, Floats, Image
from pliant.fitting.landmarks import LandmarkTerm
from pliant.fitting.states import State
from pliant.level import Level
from pliant.namespace import Array, namespace, on_host
from pliant.shape import align

_MARGIN = 0.3
"""How far around the start the image is looked at, as a share of the object's size."""


@dataclass(frozen=True)
class HostViews:
    """Views in the memory of the host: `images` is what kernels of the CPU take."""

    views: list[View]

    @property
    def images(self) -> Any:
        return [view.pixels for view in self.views]

    def placed(self, array: Any) -> Array:
        """An array where the images are."""
        return array

    def term(self, term: LandmarkTerm) -> LandmarkTerm:
        return term

    def to_view(self, points: Any) -> Array:
        """Image coordinates `(B, v, 2)` to those of the views, where the images are."""
        return np.array([view.to_view(some) for view, some in zip(self.views, points, strict=True)])

    def to_image(self, points: Floats) -> Float64:
        """Coordinates `(B, v, 2)` of the views to those of the images."""
        return np.array([view.to_image(some) for view, some in zip(self.views, points, strict=True)])

    def trace_to_image(self, k: int, points: Floats) -> Float64:
        """Coordinates `(..., v, 2)` of view k to those of its image."""
        return self.views[k].to_image(points)

    def spread_to_image(self, covariances: Floats) -> Float64:
        """Covariances `(B, v, 2, 2)` of points in the views to those of points in the images."""
        pairs = zip(self.views, covariances, strict=True)
        return np.array([view.spread_to_image(some) for view, some in pairs])

    def geometry(self) -> tuple[Float64, Float64, Float64]:
        """Origins `(B, 2)`, scales `(B,)` and angles `(B,)`."""
        return (
            np.array([view.origin for view in self.views]),
            np.array([view.scale for view in self.views]),
            np.array([view.angle for view in self.views]),
        )


@dataclass(frozen=True)
class DeviceViews:
    """The same for views that lie on a device together: `images` is what a kernel of PyTorch takes."""

    images: Views

    def placed(self, array: Any) -> Array:
        import torch

        return torch.as_tensor(np.array(array), device=self.images.pixels.device)

    def term(self, term: LandmarkTerm) -> LandmarkTerm:
        return LandmarkTerm(*map(self.placed, (term.hessian, term.linear, term.constant)))

    def to_view(self, points: Any) -> Array:
        return self.images.to_view(self.placed(points))

    def to_image(self, points: Floats) -> Float64:
        return np.asarray(on_host(self.images.to_image(self.placed(points))))

    def trace_to_image(self, k: int, points: Floats) -> Float64:
        origins, scales, angles = self._geometry
        return View(np.empty((0, 0, 0), np.float32), origins[k], scales[k], angles[k]).to_image(points)

    def spread_to_image(self, covariances: Floats) -> Float64:
        return np.asarray(on_host(self.images.spread_to_image(self.placed(covariances))))

    def geometry(self) -> tuple[Float64, Float64, Float64]:
        return self._geometry

    @cached_property
    def _geometry(self) -> tuple[Float64, Float64, Float64]:
        seen = self.images
        origins, scales, angles = map(on_host, (seen.origins, seen.scales, seen.angles))
        return origins, scales, angles


@dataclass
class Uploads:
    """Images on a device: those of a block are uploaded once, and looked at by all of its levels."""

    device: Any
    _known: dict[int, tuple[int, Image]] = field(default_factory=dict)
    _pictures: Pictures | None = None

    def of(self, images: Sequence[Image]) -> tuple[Pictures, list[int]]:
        """The pictures on the device, and which of them each image is."""
        every = {id(image): image for image in images}
        if self._pictures is None or not every.keys() <= self._known.keys():
            self._known = {key: (number, image) for number, (key, image) in enumerate(every.items())}
            self._pictures = upload(list(every.values()), self.device)
        return self._pictures, [self._known[id(image)][0] for image in images]


def margin_around(level: Level, size: float) -> float:
    """Pixels of a level around the start that are looked at, for a model of that size."""
    return _MARGIN * size * level.scale


def look(
    level: Level, size: float, states: list[State], shared: bool, uploads: Uploads | None
) -> HostViews | DeviceViews:
    """What each state sees at a level of a model of that size; on a device if there is one to upload to.

    Hypotheses about one start look at one view of it if it is `shared`, as long as that is where they are.
    """
    seen: dict[tuple[int, ...], tuple[Image, Float64]] = {}
    numbers = []
    keys: dict[tuple[int, ...], int] = {}
    for number, state in enumerate(states):
        key = (id(state.image), id(state.start)) if shared else (number,)
        if key not in seen:
            keys[key] = len(seen)
            seen[key] = state.image, state.start if shared else state.points
        numbers.append(keys[key])
    images, points = [image for image, _ in seen.values()], [shape for _, shape in seen.values()]
    if uploads is None:
        margin = margin_around(level, size)
        views = [_one(level, *pair, margin) for pair in zip(images, points, strict=True)]
        return HostViews([views[number] for number in numbers])
    pictures, which = uploads.of(images)
    together = views_at(level, size, pictures, np.array(which), np.array(points))
    if len(seen) == len(states):
        return together
    import torch

    rows = torch.as_tensor(numbers, device=together.images.rows.device)
    return DeviceViews(together.images.of(rows))


def views_at(level: Level, size: float, pictures: Pictures, which: Any, points: Any) -> DeviceViews:
    """Views on a device of pictures `which (B,)` about points `(B, v, 2)`, at a level of a model of that size.

    Points may be there too: then nothing waits for them.
    """
    placed = align(level.shape.mean, points)
    seen = feature_views(
        pictures,
        which,
        points,
        1 / placed.scale,
        level.features,
        margin_around(level, size),
        colour=level.colour,
        angles=namespace(points).nan_to_num(placed.angle) if level.upright else None,
    )
    return DeviceViews(seen)


def _one(level: Level, image: Image, shape: Float64, margin: float) -> View:
    scale = scale_to_frame(level.shape.mean, shape)
    angle = angle_to_frame(level.shape.mean, shape) if level.upright else 0.0
    feature = find_feature(level.features)
    return feature_view(image, shape, scale, feature, margin, colour=level.colour, angle=angle)
