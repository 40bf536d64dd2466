"""Views of many images at once on a device: `view.feature_view` for a batch, in PyTorch.

This module can be imported without PyTorch. Images are uploaded by `device_pictures.upload`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.appearance.device_features import (
    bytes_for_features,
    device_features,
    has_device_feature,
    loops_on,
)
from pliant.appearance.device_pictures import Int64, Pictures, Windows, bytes_needed, resample
from pliant.appearance.features import Feature, find_feature
from pliant.appearance.view import LARGEST_SIDE, SPRAWL, WIDEST, too_wide
from pliant.arrays import Float64, Floats
from pliant.devices import Tensor, memory_for_parts, on_device
from pliant.shape import align


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """View b has the pixels `pixels (S, H, W, c)[rows (B,)[b]]`, and its own height and width `sizes (B, 2)`.

    Pixel (x, y) of it shows the image at `origins (B, 2) + R (x, y) / scales (B,)`, where R turns by `angles (B,)`.
    What lies beyond its own size shows more of the image. All are tensors on one device: float32 pixels, int64
    rows and sizes, and the rest float64.
    """

    pixels: Tensor
    rows: Tensor
    sizes: Tensor
    origins: Tensor
    scales: Tensor
    angles: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, rows: Any) -> Views:
        """Some of the views, by their numbers or by a mask, any of them several times; pixels are not copied."""
        chosen = {
            name: getattr(self, name)[rows] for name in ("rows", "sizes", "origins", "scales", "angles")
        }
        return replace(self, **chosen)

    def to_view(self, points: Tensor) -> Tensor:
        """Image coordinates `(B, v, 2)` to coordinates of the views."""
        return _turned(points - self.origins[:, None], -self.angles) * self.scales[:, None, None]

    def to_image(self, points: Tensor) -> Tensor:
        """Coordinates of the views `(B, v, 2)` to image coordinates."""
        return _turned(points, self.angles) / self.scales[:, None, None] + self.origins[:, None]

    def at(self, positions: Tensor) -> Tensor:
        """Values `(B, k, c)` at positions `(B, k, 2)` of the views; outside, the border goes on."""
        return bilinear_in_views(self.pixels, self.rows, self.sizes, positions)

    def spread_to_image(self, covariances: Tensor) -> Tensor:
        """Covariances `(B, v, 2, 2)` of points in the views to those of the same points in the images."""
        # R C R' is R applied to the rows of C, and then to those of what comes of it, turned over.
        turned = _turned(_turned(covariances, self.angles).mT, self.angles)
        return turned / self.scales.square()[:, None, None, None]


def feature_views(
    pictures: Pictures,
    which: Any,
    points: Any,
    scales: Any,
    feature: str,
    margin: float = 0.0,
    *,
    colour: bool = False,
    angles: Any = None,
    budget: int | None = None,
) -> Views:
    """The views of the features of pictures `which (B,)`, as `view.feature_view` makes one.

    They show the boxes of `points (B, v, 2)` at `scales (B,)`, turned by `angles (B,)`; `margin` pixels around the
    boxes are as good as the inside. All may be arrays or tensors. On the way to the features, at most about
    `budget` bytes of memory are needed, or as many as a single view needs; on a GPU it is a quarter of the memory
    that is free, unless it is given.

    As on the CPU, landmarks that reach too far are refused, with a ValueError.
    """
    import torch

    found, device = find_feature(feature), pictures.pixels.device
    if colour and not found.colour:
        raise ValueError(f"feature '{feature}' does not see colour.")
    windows = _windows(pictures, which, points, scales, angles, margin + found.reach)
    count = len(windows.which)
    pixels = None
    if budget is None:
        # What users wrote needs the memory of the host.
        budget = memory_for_parts(device if has_device_feature(found.name) else torch.device("cpu"))
    for rows in _chunks(pictures, windows, found, colour, budget):
        values = _features(pictures, windows.of(rows), found, colour)
        if len(rows) == count:
            pixels = values.contiguous()
            break
        if pixels is None:
            pixels = torch.empty((count, *values.shape[1:]), device=device)
        if rows[-1] - rows[0] == len(rows) - 1:
            pixels[rows[0] : rows[-1] + 1] = values
        else:
            pixels[on_device(rows, device)] = values
    geometry = on_device(np.column_stack([windows.origins, windows.scales, windows.angles]), device)
    return Views(
        pixels=pixels,
        rows=torch.arange(count, device=device),
        sizes=on_device(windows.sizes, device),
        origins=geometry[:, :2],
        scales=geometry[:, 2],
        angles=geometry[:, 3],
    )


def can_be_looked_at(vertices: Floats, points: Tensor, sides: Tensor) -> Tensor:
    """As `view.can_be_looked_at`, for points `(B, v, 2)` and sides `(B,)` on a device."""
    low, high = points.amin(dim=1), points.amax(dim=1)
    span = (high / 2 - low / 2).amax(dim=-1) * 2
    own = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    return (span <= WIDEST * sides) & (
        (high - low).amax(dim=-1) / align(vertices, points).scale <= SPRAWL * own
    )


def _windows(pictures: Pictures, which: Any, points: Any, scales: Any, angles: Any, margin: float) -> Windows:
    """The windows that show the boxes of points, wider by `margin` pixels of theirs on every side."""
    import torch

    device = pictures.pixels.device
    points = torch.as_tensor(points, dtype=torch.float64, device=device)
    given = [torch.as_tensor(values, dtype=torch.float64, device=device) for values in (which, scales)]
    turns = given[1].new_zeros(len(points)) if angles is None else angles
    given.append(torch.as_tensor(turns, dtype=torch.float64, device=device))
    turned = _turned(points, -given[2])
    boxes = [turned.amin(dim=1), turned.amax(dim=1), points.amin(dim=1), points.amax(dim=1)]
    # All that is needed on the host comes at once, because the host waits for it.
    table = torch.column_stack([*given, *boxes]).cpu().numpy()
    which, scales, angles = table[:, 0].astype(np.int64), table[:, 1], table[:, 2]
    _check(pictures.sizes[which], table[:, 7:9], table[:, 9:], scales)
    low, high = table[:, 3:5] - (margin / scales)[:, None], table[:, 5:7] + (margin / scales)[:, None]
    extents = np.minimum(np.ceil((high - low) * scales[:, None]) + 1, LARGEST_SIDE).astype(np.int64)
    sizes = np.ascontiguousarray(extents[:, ::-1])
    cosine, sine = np.cos(angles), np.sin(angles)
    origins = np.column_stack([low[:, 0] * cosine - low[:, 1] * sine, low[:, 0] * sine + low[:, 1] * cosine])
    height, width = sizes.max(axis=0)
    return Windows(which, origins, scales, angles, sizes, (int(height), int(width)))


def _check(sizes: Int64, low: Float64, high: Float64, scales: Float64) -> None:
    """Refuse landmarks with the boxes from `low (B, 2)` to `high (B, 2)` that cannot be looked at."""
    if not len(sizes):
        raise ValueError("there is nothing to look at.")
    finite = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    wide = (high / 2 - low / 2).max(axis=1) * 2 > WIDEST * sizes.max(axis=1)
    for row in np.flatnonzero(~finite | wide)[:1]:
        image = np.broadcast_to(np.uint8(0), tuple(sizes[row]))
        raise ValueError(f"view {row}: {too_wide(np.stack([low[row], high[row]]), image)}")
    for row in np.flatnonzero(~(np.isfinite(scales) & (scales > 0)))[:1]:
        raise ValueError(f"view {row}: a scale must be a positive number, not {scales[row]}.")


def _chunks(
    pictures: Pictures, windows: Windows, feature: Feature, colour: bool, budget: int
) -> Iterator[Int64]:
    """Rows of windows that are made at once: either upright or turned, and with scales that are much alike.

    One that shrinks much more than the others would have them read as much of their images.
    """
    device = pictures.pixels.device
    shrinks = np.floor(np.log2(np.minimum(windows.scales, 1.0)))
    # The kernels for CUDA read what each upright window needs, however much the others shrink.
    upright = shrinks - 0.5 if loops_on(device) is None else 0.5
    kinds = np.where(windows.angles != 0, shrinks, upright)
    own = bytes_for_features(feature, windows.shape, colour, device)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        needed = own + bytes_needed(pictures, windows.of(rows), grey=not colour)
        parts = -(-len(rows) // max(1, int(budget / needed)))
        yield from np.array_split(rows, parts)


def _features(pictures: Pictures, windows: Windows, feature: Feature, colour: bool) -> Tensor:
    """The features `(n, h, w, c)` in some windows."""
    planes = resample(pictures, windows, grey=not colour)
    # The features that are built in are the same in grey and in three colours that are alike.
    if planes.shape[1] == 1 and (not colour or has_device_feature(feature.name)):
        planes = planes[:, 0]
    else:
        planes = planes.expand(-1, 3, -1, -1).movedim(1, -1)
    return device_features(planes, windows.sizes, feature)


def _turned(vectors: Tensor, angles: Tensor) -> Tensor:
    """Vectors `(B, ..., 2)` turned by `angles (B,)`; those that are not turned stay as they are."""
    import torch

    x, y = vectors.unbind(-1)
    angles = angles.view(-1, *[1] * (x.ndim - 1))
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([x * cosine - y * sine, x * sine + y * cosine], dim=-1)


def bilinear_in_views(pixels: Tensor, rows: Tensor, sizes: Tensor, positions: Tensor) -> Tensor:
    """Views `rows (B,)` of `pixels (S, h, w, c)` at positions `(B, k, 2)`, between their neighbours: `(B, k, c)`.

    `sizes (B, 2)` are height and width of each view; beyond, its border goes on.
    """
    import torch as xp

    height, width, channels = pixels.shape[1:]
    # What is not a number becomes the corner, as on the CPU.
    x, y = xp.nan_to_num(positions, nan=0.0, posinf=0.0, neginf=0.0).unbind(-1)
    largest = (sizes - 1).to(x.dtype)
    x, y = xp.clip(x, min=0), xp.clip(y, min=0)
    x, y = xp.minimum(x, largest[:, 1:]), xp.minimum(y, largest[:, :1])
    left, top = x.floor(), y.floor()
    right, bottom = xp.minimum(left + 1, largest[:, 1:]), xp.minimum(top + 1, largest[:, :1])
    u, v = (x - left)[..., None], (y - top)[..., None]
    table = pixels.reshape(-1, channels)
    first = rows[:, None] * (height * width)

    def look(across: Tensor, down: Tensor) -> Tensor:
        return table[first + down.long() * width + across.long()]

    upper = (1 - u) * (1 - v) * look(left, top) + u * (1 - v) * look(right, top)
    return upper + ((1 - u) * v * look(left, bottom) + u * v * look(right, bottom))
