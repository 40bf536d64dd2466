"""Images on a device, and windows of many of them at once: `interpolation.resample` for a batch, in PyTorch.

The weights are those of the CPU. A block of rows of a window is one matrix product with the pixels that it is made
of: few zeros are multiplied, every pixel is read about once, and the number of launches does not depend on that of
the windows. Sizes are planned on the host, because memory has to be asked for from there. `device_loops.py` has
kernels for CUDA that apply the weights to the pixels directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.device_features import loops_on
from pliant.appearance.interpolation import FINER
from pliant.appearance.tones import LUMA, in_range, unit
from pliant.arrays import Float64, Image
from pliant.devices import Tensor, exact_products, on_device

Int64 = NDArray[np.int64]

_BLOCK = 32
"""Rows or columns of a window that one product makes."""


@dataclass(frozen=True, eq=False, repr=False)
class Pictures:
    """Images on a device: `pixels (S, H, W, k)`, and the height and width of each in `sizes (S, 2)`, on the host.

    There are one or three channels, of 8 bits, or float32 with black at 0 and white at 1. What lies beyond an
    image's own size is not set, and never read.
    """

    pixels: Tensor
    sizes: Int64

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Windows `(n, h, w)` of pictures, all of one `shape (h, w)`; everything is on the host.

    Pixel (x, y) of a window shows picture `which (n,)` at `origins (n, 2) + R (x, y) / scales (n,)`, where R turns
    by `angles (n,)`. Angles are all zero, or none is. What is wanted of each window is `sizes (n, 2)`, height and
    width; the rest of it shows more of the picture.
    """

    which: Int64
    origins: Float64
    scales: Float64
    angles: Float64
    sizes: Int64
    shape: tuple[int, int]

    def of(self, rows: Int64) -> Windows:
        """Some of the windows, of the same shape."""
        return Windows(
            self.which[rows],
            self.origins[rows],
            self.scales[rows],
            self.angles[rows],
            self.sizes[rows],
            self.shape,
        )


def upload(images: Sequence[Image], device: Any) -> Pictures:
    """Images `(h, w)`, `(h, w, 1)` or `(h, w, 3)` of any sizes, packed and copied at once.

    If some are in colour, grey ones get three channels that are alike. If some are not of 8 bits, all become
    float32.
    """
    import torch

    device = torch.device(device)
    known = [in_range(image) for image in images]
    planes = [image[:, :, None] if image.ndim == 2 else image for image in known]
    sizes = np.array([image.shape[:2] for image in planes], dtype=np.int64).reshape(-1, 2)
    height, width = sizes.max(axis=0, initial=1)
    channels = max((image.shape[2] for image in planes), default=1)
    bytes_only = all(image.dtype == np.uint8 for image in planes)
    packed = torch.empty(
        (len(planes), int(height), int(width), channels),
        dtype=torch.uint8 if bytes_only else torch.float32,
        # Only from pinned memory do copies go on while the host does something else.
        pin_memory=device.type == "cuda",
    )
    for room, image in zip(packed.numpy(), planes, strict=True):
        part = room[: image.shape[0], : image.shape[1]]
        if bytes_only:
            part[:] = image
        else:
            np.multiply(image, unit(image), out=part, casting="unsafe")
    return Pictures(packed.to(device, non_blocking=True), sizes)


def resample(pictures: Pictures, windows: Windows, *, grey: bool) -> Tensor:
    """Windows `(n, c, h, w)` in float32 from 0 to 1, as `interpolation.resample` makes one.

    There is one channel if the pictures have one, or if `grey` makes one of three.
    """
    with exact_products():
        if not windows.angles.any():
            blurs = _blurs(windows.scales)
            return _upright(
                pictures, windows.which, windows.origins, windows.scales, windows.shape, blurs, grey
            )
        return _turned(pictures, windows, grey)


def bytes_needed(pictures: Pictures, windows: Windows, *, grey: bool) -> int:
    """About how many bytes `resample` needs for each window at the most, what it returns included."""
    (height, width), limits = windows.shape, pictures.sizes[windows.which]
    origins, scales, blurs, own = windows.origins, windows.scales, _blurs(windows.scales), 0
    if windows.angles.any():
        # The positions of the pixels are in double precision, and so are the indices.
        own = 70 * height * width
        between = _between(windows, limits)
        origins, scales, blurs = between.origins, between.scales, between.blurs
        height, width = between.shape
    rows, columns = _bands(scales, blurs, height), _bands(scales, blurs, width)
    _, wide = _needed(origins[:, 0], scales, columns, width, limits[:, 1])
    depth = pictures.pixels.shape[3]
    kept = 1 if grey else depth
    if loops_on(pictures.pixels.device) is not None:
        return int(own + 4 * kept * height * (wide + width))
    read = rows.count * rows.length * wide * (depth * pictures.pixels.element_size() + 4 * kept)
    tall = rows.count * _BLOCK
    made = 4 * kept * tall * (wide + columns.count * (columns.length + 2 * _BLOCK))
    return int(own + read + made)


def _blurs(scales: Float64) -> Float64:
    """The Gaussians, in pixels of the image, that windows of these scales are smoothed with."""
    return np.asarray(0.5 * np.sqrt(np.maximum(scales**-2 - 1.0, 0.0)))


@dataclass(frozen=True)
class _Bands:
    """Along one axis: `count` blocks of pixels, each from `length` source pixels; `radius` is the Gaussian's."""

    count: int
    length: int
    radius: int


def _bands(scales: Float64, blurs: Float64, length: int) -> _Bands:
    radius = int(np.ceil(3.5 * blurs.max()))
    longest = int((_BLOCK - 1) / scales.min()) + 2 + 2 * radius + 2
    # Products are faster if rows begin at multiples of 16 bytes.
    return _Bands(-(-length // _BLOCK), -(-longest // 4) * 4, radius)


def _needed(
    origins: Float64, scales: Float64, bands: _Bands, length: int, limits: Int64
) -> tuple[Int64, int]:
    """The first source pixel `(n,)` along one axis that each window needs, and how many are needed at the most."""
    ends = np.stack([origins - bands.radius, origins + (length - 1) / scales + bands.radius + 1])
    first, last = np.clip(np.floor(ends), 0, limits - 1).astype(np.int64)
    return first, int((last - first).max()) + 1


def _upright(
    pictures: Pictures,
    which: Int64,
    origins: Float64,
    scales: Float64,
    shape: tuple[int, int],
    blurs: Float64,
    grey: bool,
) -> Tensor:
    """Windows `(n, c, h, w)` with the axes of the pictures."""
    import torch

    pixels, limits = pictures.pixels, pictures.sizes[which]
    rows, columns = _bands(scales, blurs, shape[0]), _bands(scales, blurs, shape[1])
    left, wide = _needed(origins[:, 0], scales, columns, shape[1], limits[:, 1])
    table = np.column_stack([which * pixels.shape[1], left, scales, blurs, origins, limits])
    on_its_device = on_device(table, pixels.device)
    loops = loops_on(pixels.device)
    if loops is not None:
        return loops.upright(pixels, on_its_device, shape, wide, grey)
    first_line, left, scales, blurs, x, y, heights, widths = on_its_device.T

    # Rows first: what each block of them needs, block after block.
    weights, sources = _taps(y, scales, blurs, heights, rows)
    if pixels.dtype == torch.uint8:
        weights *= 1 / 255
    lines = (sources + first_line.long()[:, None, None]).flatten(1)
    across = torch.arange(wide, device=pixels.device) + left.long()[:, None]
    across = torch.minimum(across, widths.long()[:, None] - 1)
    read = _read(pixels, lines[:, :, None], across[:, None, :], grey)
    channels = read.shape[1]
    read = read.view(-1, rows.length, wide)
    tall = torch.bmm(_for_each(weights, channels).flatten(0, 1), read).view(-1, rows.count * _BLOCK, wide)
    del read

    # Then columns, in the same way.
    weights, sources = _taps(x, scales, blurs, widths, columns)
    sources = (sources - left.long()[:, None, None]).clamp_(0, wide - 1)
    sources = _for_each(sources, channels)[:, :, None]
    every = torch.arange(len(tall) * tall.shape[1], device=pixels.device).view(len(tall), 1, -1, 1)
    read = tall.view(-1, wide)[every, sources]
    made = torch.bmm(read.flatten(0, 1), _for_each(weights, channels).flatten(0, 1).mT)
    del read
    made = made.view(-1, channels, columns.count, tall.shape[1], _BLOCK).transpose(2, 3)
    return made.flatten(3)[:, :, : shape[0], : shape[1]]


def _read(pixels: Tensor, lines: Tensor, columns: Tensor, grey: bool) -> Tensor:
    """Pixels `(n, c, rows, columns)`, in float32 and otherwise as they are, at lines of all pictures."""
    import torch

    parts = [plane[lines, columns] for plane in pixels.flatten(0, 1).unbind(-1)]
    if len(parts) == 1:
        return parts[0].float()[:, None]
    if not grey:
        return torch.stack(parts, dim=1).float()
    total = parts[0].float().mul_(float(LUMA[0]))
    for part, weight in zip(parts[1:], LUMA[1:], strict=True):
        total.add_(part, alpha=float(weight))
    return total[:, None]


def _taps(
    origins: Tensor, scales: Tensor, blurs: Tensor, limits: Tensor, bands: _Bands
) -> tuple[Tensor, Tensor]:
    """Weights `(n, blocks, block, length)` and source pixels `(n, blocks, length)` along one axis.

    As on the CPU, the weights are those of bilinear interpolation after the Gaussian, in one step. The image is
    continued by its border pixels.
    """
    import torch
    from torch.nn.functional import pad

    count, device, radius = len(origins), origins.device, bands.radius
    steps = torch.arange(bands.count * _BLOCK, device=device, dtype=torch.float64)
    centres = origins[:, None] + steps / scales[:, None]
    centres = torch.minimum(centres.clamp_(min=-1e6), limits[:, None] + 1e6)
    base = centres.floor()
    fraction = (centres - base)[:, :, None]

    reach = torch.arange(-radius, radius + 1, device=device, dtype=torch.float64)
    gaussians = torch.exp(-0.5 * (reach / blurs.clamp(min=1e-6)[:, None]) ** 2)
    gaussians *= reach.abs() <= (3.5 * blurs).ceil()[:, None]
    gaussians /= gaussians.sum(dim=1, keepdim=True)
    before, after = pad(gaussians, (0, 1))[:, None], pad(gaussians, (1, 0))[:, None]
    weights = ((1 - fraction) * before + fraction * after).float()

    blocks = base.long().view(count, bands.count, _BLOCK)
    first = blocks[:, :, :1]
    places = (blocks - first)[..., None] + torch.arange(2 * radius + 2, device=device)
    matrices = torch.zeros((*blocks.shape, bands.length), device=device)
    matrices.scatter_(3, places, weights.view(places.shape))
    sources = first - radius + torch.arange(bands.length, device=device)
    return matrices, torch.minimum(sources.clamp_(min=0), limits.long()[:, None, None] - 1)


def _for_each(values: Tensor, channels: int) -> Tensor:
    """Values `(n, ...)` of each window, once for each of its channels: `(n channels, ...)`."""
    return values if channels == 1 else values.repeat_interleave(channels, dim=0)


@dataclass(frozen=True, eq=False, repr=False)
class _Between:
    """Upright windows that turned ones are read from, at `first + x step + y (step turned by a right angle)`."""

    origins: Float64
    scales: Float64
    blurs: Float64
    shape: tuple[int, int]
    first: Float64
    steps: Float64


def _between(windows: Windows, limits: Int64) -> _Between:
    """What turned windows are read from. Its pixels lie where those on the CPU lie, or interpolation would differ.

    There, the pixels begin where a window of the size that is wanted begins. Here, the window may be larger.
    """
    scales, blurs = windows.scales, _blurs(windows.scales)
    finer = np.minimum(1.0, FINER * scales)
    axis = np.column_stack([np.cos(windows.angles), np.sin(windows.angles)])
    low_wanted, _ = _ends(windows, axis, windows.sizes)
    low_made, high_made = _ends(windows, axis, np.broadcast_to(windows.shape, windows.sizes.shape))
    # Beyond this the image is all border.
    beyond = (np.ceil(3.5 * blurs) + 1)[:, None]
    limit = limits[:, ::-1] - 1.0 + beyond
    low = np.clip(np.floor(low_wanted), -beyond, limit)
    before = np.ceil(np.maximum(low - np.clip(np.floor(low_made), -beyond, limit), 0) * finer[:, None])
    high = np.clip(high_made, low, limit)
    width, height = (np.ceil((high - low) * finer[:, None]) + before + 2).max(axis=0).astype(int)
    # To interpolate between the pixels of a smaller image is to smooth it by this much more, on average.
    remaining = np.sqrt(np.maximum(blurs**2 - finer**-2 / 6, 0.0))
    return _Between(
        origins=low - before / finer[:, None],
        scales=finer,
        blurs=np.where(finer < 1.0, remaining, blurs),
        shape=(int(height), int(width)),
        first=(windows.origins - low) * finer[:, None] + before,
        steps=axis * (finer / scales)[:, None],
    )


def _ends(windows: Windows, axis: Float64, sizes: Int64) -> tuple[Float64, Float64]:
    """The smallest and the largest coordinates `(n, 2)` of turned windows of these sizes, in the image."""
    extents = (sizes - 1) / windows.scales[:, None]
    across = axis * extents[:, 1:]
    down = np.column_stack([-axis[:, 1], axis[:, 0]]) * extents[:, :1]
    corners = windows.origins + [np.zeros_like(across), across, down, across + down]
    return corners.min(axis=0), corners.max(axis=0)


def _turned(pictures: Pictures, windows: Windows, grey: bool) -> Tensor:
    """Windows `(n, c, h, w)` with turned axes, by way of upright ones that are smooth already."""
    import torch

    between = _between(windows, pictures.sizes[windows.which])
    source = _upright(
        pictures, windows.which, between.origins, between.scales, between.shape, between.blurs, grey
    )
    (height, width), (rows, columns) = windows.shape, source.shape[2:]
    table = on_device(np.column_stack([between.first, between.steps]), source.device)
    x, y, cosine, sine = table.T[:, :, None, None]
    # In single precision, pixels far from the corner would be read from another place.
    i = torch.arange(width, device=source.device, dtype=torch.float64)
    j = torch.arange(height, device=source.device, dtype=torch.float64)[:, None]
    left, u = _split((x + i * cosine) - j * sine, columns)
    top, v = _split((y + i * sine) + j * cosine, rows)
    places = top.mul_(columns).add_(left).flatten(1)[:, None].expand(-1, source.shape[1], -1)
    values = source.flatten(2)
    upper, upper_right, lower, lower_right = (
        values[:, :, step:].gather(2, places).view(*source.shape[:2], height, width)
        for step in (0, 1, columns, columns + 1)
    )
    upper = upper_right.sub_(upper).mul_(u).add_(upper)
    lower = lower_right.sub_(lower).mul_(u).add_(lower)
    return lower.sub_(upper).mul_(v).add_(upper)


def _split(positions: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The pixel before each position `(n, h, w)`, which is never the last, and how far it is from there."""
    positions.clamp_(0, length - 1)
    before = positions.long().clamp_(max=length - 2)
    return before, (positions - before).float()[:, None]
