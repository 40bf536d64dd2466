"""Network experts on a device: their networks in PyTorch, for the windows of many objects at once.

The weights and the layers are those that OpenCV runs, and the numbers are the same except for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pliant.appearance.device_pictures import Int64, Pictures, Windows, bytes_needed, resample
from pliant.appearance.view import can_be_looked_at
from pliant.arrays import Float32, Float64
from pliant.devices import Tensor, exact_convolutions, memory_for_parts, on_device
from pliant.experts.linear import moments
from pliant.experts.maps import NEGLIGIBLE, in_pixels
from pliant.experts.network import FLAT, NetworkExpert, Stage
from pliant.experts.network_layers import layers_of, through_network
from pliant.experts.sightings import Sightings, moved_precision
from pliant.namespace import beside, inverses
from pliant.shape.procrustes import Similarity


def look_with_network(
    expert: NetworkExpert, pictures: Pictures, which: Int64, shapes: Float64, number: int
) -> Sightings:
    """Look at pictures `which (B,)` about shapes `(B, v, 2)`, as `NetworkExpert.look` does: tensors there."""
    import torch

    stage, device = expert.stages[number], pictures.pixels.device
    points = on_device(np.array(shapes, dtype=np.float64), device)
    precision = torch.zeros((*shapes.shape, 2), dtype=torch.float64, device=device)
    rows = np.flatnonzero(can_be_looked_at(stage.frame.mean, shapes, pictures.sizes[which].max(axis=1)))
    place = stage.frame.to_image(shapes[rows])
    for part, windows in _parts(stage, pictures, which[rows], place):
        placed = Similarity(on_device(place.factor[part], device), on_device(place.offset[part], device))
        with exact_convolutions():
            found, covariance = _seen(stage, resample(pictures, windows, grey=True))
        spread = beside(stage.spread, covariance)
        sure = moved_precision(inverses(stage.share * covariance + spread), placed)
        fine = torch.isfinite(found).flatten(1).all(dim=1)
        at = on_device(rows[part], device)
        points[at] = torch.where(fine[:, None, None], placed.apply(found), points[at])
        precision[at] = torch.where(fine[:, None, None, None], sure, 0.0)
    return Sightings(points, precision)


def _parts(
    stage: Stage, pictures: Pictures, which: Int64, place: Similarity
) -> Iterator[tuple[Int64, Windows]]:
    """Rows that there is memory for at once, and their windows: either upright or turned, of scales much alike."""
    frame, budget = stage.frame, memory_for_parts(pictures.pixels.device)
    windows = Windows(
        which=which,
        origins=np.column_stack([place.offset.real, place.offset.imag]),
        scales=1 / place.scale,
        angles=place.angle,
        sizes=np.tile(np.array([frame.height, frame.width]), (len(which), 1)),
        shape=(frame.height, frame.width),
    )
    shrinks = np.floor(np.log2(np.minimum(windows.scales, 1.0)))
    kinds = np.where(windows.angles != 0, shrinks, shrinks - 0.5)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        needed = bytes_needed(pictures, windows.of(rows), grey=True) + _bytes(stage)
        for part in np.array_split(rows, -(-len(rows) // max(1, int(budget / needed)))):
            yield part, windows.of(part)


def _bytes(stage: Stage) -> int:
    """About how many bytes a network needs for each window at the most."""
    down, up = layers_of(stage.weights)
    pixels = stage.frame.height * stage.frame.width
    # What a block reads, makes and adds to, at every size; maps are in double precision for their moments.
    blocks = sum(8 * len(stage.weights[f"down.{k}.a.weight"]) * pixels / 4 ** (k + 1) for k in range(down))
    maps = 6 * len(stage.spread) * pixels / 4 ** (down - up)
    return int(4 * (blocks + maps))


def _seen(stage: Stage, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Points `(n, v, 2)` and covariances `(n, v, 2, 2)` of the maps for windows `(n, 1, h, w)`, in the frame."""
    import torch

    centred = windows - windows.mean(dim=(2, 3), keepdim=True)
    finite = torch.isfinite(centred).flatten(1).all(dim=1)[:, None, None, None]
    # What is not a number would become one in engines, and maps of nothing.
    centred = torch.where(finite, centred, 0.0)
    seen = centred / (centred.square().mean(dim=(2, 3), keepdim=True).sqrt() + FLAT)
    logits = through_network(_InPyTorch(stage.weights), seen, stage.weights)
    below = torch.amax(logits, dim=(2, 3), keepdim=True) - logits
    weights = torch.where(below < NEGLIGIBLE, torch.exp(-below), 0.0).double()
    weights = weights / weights.sum(dim=(2, 3), keepdim=True)
    points, covariance = in_pixels(
        *moments(weights, 0.0), logits.shape[2:], stage.frame.height, stage.frame.width
    )
    return torch.where(finite[:, 0], points, torch.nan), covariance


class _InPyTorch:
    """Layers that are run at once."""

    def __init__(self, weights: Mapping[str, Float32]) -> None:
        self.weights = weights

    def convolution(self, x: Tensor, name: str, stride: int = 1) -> Tensor:
        from torch.nn.functional import conv2d

        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        placed = None if bias is None else beside(bias, x)
        return conv2d(x, beside(weight, x), placed, stride=stride, padding=weight.shape[-1] // 2)

    def rectified(self, x: Tensor) -> Tensor:
        return x.relu_()

    def added(self, one: Tensor, other: Tensor) -> Tensor:
        return one.add_(other)

    def halved(self, x: Tensor) -> Tensor:
        from torch.nn.functional import max_pool2d

        return max_pool2d(x, 2)

    def joined(self, coarse: Tensor, fine: Tensor) -> Tensor:
        import torch
        from torch.nn.functional import interpolate

        return torch.cat([interpolate(coarse, scale_factor=2, mode="nearest"), fine], dim=1)
