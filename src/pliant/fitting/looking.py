"""What fits see of their images at a level: views, one by one on the CPU, or all together on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
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


@dataclass(frozen=True)
class _Uploaded:
    """Pictures on a device, and their numbers by the ids of images, which are kept so that no other has these."""

    images: dict[int, Image]
    pictures: Pictures
    ready: Any
    """What CUDA waits for before it looks at them."""

    @cached_property
    def numbers(self) -> dict[int, int]:
        return {key: number for number, key in enumerate(self.images)}


@dataclass
class Uploads:
    """Images on a device: those of a block are uploaded once, and looked at by all of its levels.

    Several blocks may be there, for threads that fit one after the other: while a device is busy with one block,
    the next is copied.
    """

    device: Any
    _known: list[_Uploaded] = field(default_factory=list)

    @contextmanager
    def holding(self, images: Sequence[Image]) -> Iterator[None]:
        """Upload images, which stay on the device while the block runs."""
        held = self._uploaded(images)
        self._known.append(held)
        try:
            yield
        finally:
            self._known[:] = [one for one in self._known if one is not held]

    def of(self, images: Sequence[Image]) -> tuple[Pictures, list[int]]:
        """The pictures on the device, and which of them each image is."""
        every = {id(image) for image in images}
        found = next((one for one in list(self._known) if every <= one.images.keys()), None)
        if found is None:
            found = self._uploaded(images)
        if found.ready is not None:
            import torch

            here = torch.cuda.current_stream(self.device)
            here.wait_event(found.ready)
            # Their memory is that of another stream, which must not have it back before this one is done.
            found.pictures.pixels.record_stream(here)
        return found.pictures, [found.numbers[id(image)] for image in images]

    def _uploaded(self, images: Sequence[Image]) -> _Uploaded:
        every = {id(image): image for image in images}
        if self.device.type != "cuda":
            return _Uploaded(every, upload(list(every.values()), self.device), None)
        import torch

        stream = _copying(self.device)
        with torch.cuda.stream(stream):
            return _Uploaded(every, upload(list(every.values()), self.device), stream.record_event())


@cache
def _copying(device: Any) -> Any:
    """The stream of CUDA for copies to a device: they go on beside what it computes."""
    import torch

    return torch.cuda.Stream(device)


def margin_around(level: Level, size: float) -> float:
    """Pixels of a level around the start that are looked at, for a model of that size."""
    return _MARGIN * size * level.scale


def look(
    level: Level, size: float, states: list[State], shared: bool, uploads: Uploads | None
) -> HostViews | DeviceViews:
    """What each state sees at a level of a model of that size; on a device if there is one to upload to.

    Hypotheses about one start look at one view of it if it is `shared`, as long as that is where they are.
    """
    numbers, every = list(range(len(states))), [(state.image, state.points) for state in states]
    if shared:
        seen: dict[tuple[int, int], int] = {}
        keys = [(id(state.image), id(state.start)) for state in states]
        numbers = [seen.setdefault(key, len(seen)) for key in keys]
        firsts = dict(zip(reversed(numbers), reversed(states), strict=True))
        every = [(firsts[number].image, firsts[number].start) for number in range(len(seen))]
    images, points = [image for image, _ in every], [shape for _, shape in every]
    if uploads is None:
        margin = margin_around(level, size)
        views = [_one(level, *pair, margin) for pair in zip(images, points, strict=True)]
        return HostViews([views[number] for number in numbers])
    pictures, which = uploads.of(images)
    together = views_at(level, size, pictures, np.array(which), np.array(points))
    if len(every) == len(states):
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
