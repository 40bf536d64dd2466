"""What linear experts see of many objects at once, on a device: `patches.py` for a batch, in PyTorch.

A window about each object is made first, and becomes a picture of its own; all views are views of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pliant.appearance.device_pictures import Int64, Pictures, Windows, bytes_needed, resample
from pliant.appearance.device_views import Views, feature_views
from pliant.appearance.view import WIDEST
from pliant.arrays import Float32, Float64
from pliant.devices import Tensor, exact_products, on_device
from pliant.experts.patches import FAR, SPRAWL, margin_of, window_about
from pliant.namespace import beside
from pliant.shape.procrustes import Similarity, align


@dataclass(frozen=True, eq=False, repr=False)
class Surroundings:
    """Parts of pictures with B objects: pixel (x, y) of one shows it at `origins (B, 2) + (x, y) / scales (B,)`.

    They are `pictures`, in grey. Origins and scales are tensors on their device.
    """

    pictures: Pictures
    origins: Tensor
    scales: Tensor

    def to_window(self, points: Tensor) -> Tensor:
        """Image coordinates `(B, v, 2)` to those of the windows."""
        return (points - self.origins[:, None]) * self.scales[:, None, None]

    def to_image(self, points: Tensor) -> Tensor:
        """Coordinates `(B, v, 2)` of the windows to those of the images."""
        return points / self.scales[:, None, None] + self.origins[:, None]


def windows_about(pictures: Pictures, which: Int64, shapes: Float64, finest: float) -> Windows:
    """The windows about shapes `(B, v, 2)` of pictures `which (B,)`, planned on the host."""
    low, scales, sizes = window_about(shapes, pictures.sizes[which], finest)
    height, width = sizes.max(axis=0)
    return Windows(which, low, scales, np.zeros(len(which)), sizes, (int(height), int(width)))


def surroundings(pictures: Pictures, windows: Windows) -> Surroundings:
    """Brightness in windows, as `patches.window` has it."""
    height, width = windows.sizes.max(axis=0)
    tight = Windows(
        windows.which,
        windows.origins,
        windows.scales,
        windows.angles,
        windows.sizes,
        (int(height), int(width)),
    )
    grey = resample(pictures, tight, grey=True)[:, 0, :, :, None]
    if pictures.pixels.is_floating_point():
        grey = grey.nan_to_num(nan=0.0, posinf=FAR, neginf=-FAR).clamp(-FAR, FAR)
    table = on_device(np.column_stack([windows.origins, windows.scales]), grey.device)
    return Surroundings(Pictures(grey.contiguous(), windows.sizes), table[:, :2], table[:, 2])


def bytes_for_window(pictures: Pictures, windows: Windows) -> int:
    """About how many bytes the surroundings of each object need."""
    return bytes_needed(pictures, windows, grey=True) + 4 * windows.shape[0] * windows.shape[1]


def can_be_seen(parts: Surroundings, shapes: Tensor, mean: Float64, placed: Similarity) -> Tensor:
    """Which of the shapes `(B, v, 2)` in windows can be looked at `(B,)`, as `patches.look_at` decides it."""
    import torch

    span = (shapes.amax(dim=1) - shapes.amin(dim=1)).amax(dim=1)
    own = float(np.ptp(mean, axis=0).max())
    sides = on_device(parts.pictures.sizes.max(axis=1).astype(np.float64), shapes.device)
    # What is not a number fails every comparison.
    sprawl = (span <= SPRAWL * own * placed.scale) & (span <= WIDEST * sides)
    return sprawl & (placed.scale > 0) & torch.isfinite(placed.angle)


def look_at(
    parts: Surroundings, shapes: Tensor, mean: Float64, size: float, margin: float
) -> tuple[Views, Tensor]:
    """Channels around `shapes (B, v, 2)` of windows, in which the mean shape has this size, and its centres there.

    `margin` pixels about every landmark are as good as the landmark itself.
    """
    import torch

    placed = align(mean, shapes)
    count = len(shapes)
    views = feature_views(
        parts.pictures, np.arange(count), shapes, size / placed.scale, "dsift", margin, angles=placed.angle
    )
    centres = torch.stack([placed.offset.real, placed.offset.imag], dim=-1)
    return views, views.to_view(centres[:, None])[:, 0]


def described(views: Views, shapes: Tensor, grid: int, spacing: int) -> Tensor:
    """Channels on a grid about each landmark of shapes `(B, v, 2)`: `(B, v * grid * grid * 8)`."""
    steps = np.arange(grid) * spacing - (grid - 1) / 2 * spacing
    offsets = on_device(np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2), shapes.device)
    places = (views.to_view(shapes)[:, :, None] + offsets).flatten(1, 2)
    return views.at(places).float().flatten(1)


def corners_of(views: Views, shapes: Tensor, grid: int, spacing: int, reach: int) -> Tensor:
    """First pixels `(B, v, 2)` under filters laid about landmarks, moved so that all of it is in their view."""
    import torch

    centres = views.to_view(shapes).round().long()
    most = (views.sizes.flip(1) - 1 - (grid - 1) * spacing - 2 * reach).clamp(min=0)[:, None]
    return torch.minimum((centres - (grid - 1) * spacing // 2 - reach).clamp(min=0), most)


def answers(
    views: Views, corners: Tensor, filters: Float32, offsets: Float32, spacing: int, reach: int
) -> Tensor:
    """Answers `(B, v, 2 reach + 1, 2 reach + 1)` of filters `(v, g, g, 8)`, laid from `corners (B, v, 2)` on.

    A row of a filter is one product with what lies under it, and the rows are summed up after that.
    """
    import torch

    pixels = views.pixels
    _, height, width, channels = pixels.shape
    count, grid = filters.shape[:2]
    side = 2 * reach + 1
    steps = torch.arange(side + (grid - 1) * spacing, device=pixels.device)
    x, y = corners.permute(2, 1, 0).contiguous()
    down = (y[..., None] + steps).clamp(max=height - 1)
    across = x[..., None, None] + steps[:side, None] + spacing * steps[:grid]
    places = (views.rows[:, None] * height + down) * width
    places = places[..., None, None] + across.clamp(max=width - 1)[:, :, None]
    read = pixels.reshape(-1, channels)[places]
    rows = beside(filters, pixels).permute(0, 2, 3, 1).reshape(count, grid * channels, grid)
    with exact_products():
        sums = torch.bmm(read.reshape(count, -1, grid * channels), rows).view(*places.shape[:-1], grid)
    total = sum(sums[:, :, p * spacing : p * spacing + side, :, p] for p in range(grid))
    return (total + beside(offsets, pixels)[:, None, None, None]).transpose(0, 1)


def bytes_for_answers(mean: Float64, size: float, grid: int, spacing: int, reach: int) -> int:
    """About how many bytes the answers to filters, and the view that they are laid on, need for each object."""
    sides = size * np.ptp(mean, axis=0) + 2 * margin_of(grid, spacing, reach)
    side = 2 * reach + 1
    read = len(mean) * (side + (grid - 1) * spacing) * side * grid
    # Channels, their places, and what is made of them; views have a border, and are larger where shapes sprawl.
    return int(2 * 32 * sides.prod() * 1.5 + read * (32 + 16 + 4))
