"""Windows of pictures, and the features of gradients, as kernels of Triton for CUDA.

The numbers are those of `device_pictures.py` and `device_features.py`, except for rounding, and so are the borders.
The matrix products and the many small steps there move far more memory than the pictures and the features take.
Here every step reads what it needs once, apart from what the caches hold, and writes its result once.

A tensor of a batch may have more than 2³¹ values: images are counted in 64 bits, and places within one in 32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
import triton
import triton.language as tl

from pliant.appearance import features
from pliant.appearance.tones import LUMA
from pliant.devices import Tensor, on_device

_SOFTNESS = 0.02
"""As in `features.py`: edges that are much weaker than this hardly count."""

_GRADIENT, _IGO, _HISTOGRAM = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)

_TILE = (8, 64)
"""Rows and columns of a window that one program makes. Larger tiles need too many registers to run side by side."""

_FIELDS = tl.constexpr(8)
"""Numbers of each window in the table of `upright`."""


def upright(pixels: Tensor, table: Tensor, shape: tuple[int, int], wide: int, grey: bool) -> Tensor:
    """Windows `(n, c, h, w)` of pictures `(S, H, W, k)` with their axes, in float32 from 0 to 1.

    `table (n, 8)`, float64, has for each window the first line of its picture among those of all pictures, the
    first column that is needed, scale, blur, x and y of the origin, and height and width of its picture. At most
    `wide` columns of a picture are needed.
    """
    depth, (height, width) = pixels.shape[3], shape
    channels = 1 if grey else depth
    planes = len(table) * channels
    tall = torch.empty((planes, height, wide), device=pixels.device)
    out = torch.empty((len(table), channels, height, width), device=pixels.device)
    unit = 1 / 255 if pixels.dtype == torch.uint8 else 1.0
    rows, columns = _TILE
    with torch.cuda.device_of(pixels):
        _weigh_rows[(planes * triton.cdiv(height, rows) * triton.cdiv(wide, columns),)](
            pixels.contiguous(),
            table,
            tall,
            pixels.shape[2],
            height,
            wide,
            unit,
            *(float(weight) for weight in LUMA),
            CHANNELS=channels,
            DEPTH=depth,
            Y=rows,
            X=columns,
        )
        _weigh_columns[(planes * triton.cdiv(height, rows) * triton.cdiv(width, columns),)](
            tall, table, out, height, width, wide, CHANNELS=channels, Y=rows, X=columns
        )
    return out


def gradient(images: Tensor) -> Tensor:
    """Channels `(B, h, w, 2)` of grey images `(B, h, w)` or of colour `(B, h, w, 3)`."""
    return _described(images, _GRADIENT, 2)


def igo(images: Tensor) -> Tensor:
    """Channels `(B, h, w, 4)` of grey images `(B, h, w)` or of colour `(B, h, w, 3)`."""
    return _described(images, _IGO, 4)


def dsift(images: Tensor) -> Tensor:
    """Channels `(B, h, w, 8)` of grey images `(B, h, w)` or of colour `(B, h, w, 3)`."""
    taps = 17
    gathered = _smooth_down(_described(images, _HISTOGRAM, 8), taps, 2.0)
    return _smooth_across(gathered, taps, 2.0, normalised=True)


FEATURES: dict[Callable[..., Any], Callable[[Tensor], Tensor]] = {
    features.gradient: gradient,
    features.igo: igo,
    features.dsift: dsift,
}
"""The features that there are kernels for, by the function that computes them on the CPU."""


def _described(images: Tensor, kind: tl.constexpr, channels: int) -> Tensor:
    """What each gradient becomes `(B, h, w, channels)`, after a Gaussian of 1 pixel."""
    planes = images[:, None] if images.ndim == 3 else images.movedim(-1, 1)
    count, colours, height, width = planes.shape
    smooth = planes.contiguous().view(-1, height, width, 1)
    smooth = _smooth_across(_smooth_down(smooth, 9, 1.0), 9, 1.0)
    out = torch.empty((count, height, width, channels), device=images.device)
    pixels = 256
    with torch.cuda.device_of(images):
        _describe[(count * triton.cdiv(height * width, pixels),)](
            smooth,
            out,
            height,
            width,
            _SOFTNESS**2,
            KIND=kind,
            COLOURS=colours,
            C=channels,
            P=pixels,
        )
    return out


def _smooth_down(values: Tensor, taps: int, sigma: float) -> Tensor:
    """Values `(n, h, w, c)` after a Gaussian down the columns; the border goes on."""
    count, height, width, channels = values.shape
    out = torch.empty_like(values)
    groups, across = 8, 64
    grid = (count * triton.cdiv(height, 4 * groups) * triton.cdiv(width * channels, across),)
    with torch.cuda.device_of(values):
        _gaussian_down[grid](
            values,
            out,
            _weights(taps, sigma, values.device),
            height,
            width,
            TAPS=taps,
            C=channels,
            Y=groups,
            X=across,
        )
    return out


def _smooth_across(values: Tensor, taps: int, sigma: float, normalised: bool = False) -> Tensor:
    """Values `(n, h, w, c)` after a Gaussian along the rows, and `normalised` to unit length if they are to be."""
    count, height, width, channels = values.shape
    out = torch.empty_like(values)
    pixels = 256
    with torch.cuda.device_of(values):
        _gaussian_across[(count * triton.cdiv(height * width, pixels),)](
            values,
            out,
            _weights(taps, sigma, values.device),
            height,
            width,
            _SOFTNESS**2,
            TAPS=taps,
            NORMALISED=normalised,
            C=channels,
            P=pixels,
        )
    return out


@cache
def _weights(taps: int, sigma: float, device: Any) -> Tensor:
    """A Gaussian, and three zeros: `_gaussian_down` makes four rows at once, the last of them three rows on."""
    gaussian = cv2.getGaussianKernel(taps, sigma, cv2.CV_32F)[:, 0]
    return on_device(np.pad(gaussian, (0, 3)), device)


@triton.jit
def _split(origin, scale, steps, limit):
    """The source pixels before the places of pixels `steps` of a window, and how far the places are from there."""
    # In single precision, pixels far from the corner would be read from another place.
    centres = origin + steps.to(tl.float64) * (1.0 / scale)
    centres = tl.minimum(tl.maximum(centres, -1e6), limit + 1e6)
    before = tl.floor(centres)
    return before.to(tl.int32), (centres - before).to(tl.float32)


@triton.jit
def _bell(reach, radius, blur):
    """The Gaussian of a whole number of pixels, which ends at the radius."""
    steps = reach / blur
    return tl.where((reach >= -radius) & (reach <= radius), tl.exp(-0.5 * steps * steps), 0.0)


@triton.jit
def _weigh_rows(
    pixels,
    table,
    out,
    picture_width,
    height,
    wide,
    unit,
    red,
    green,
    blue,
    CHANNELS: tl.constexpr,
    DEPTH: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
):
    """Lines of pictures, interpolated: `out (n, c, h, wide)` still has the columns of the pictures."""
    tile = tl.program_id(0)
    tiles_x, tiles_y = tl.cdiv(wide, X), tl.cdiv(height, Y)
    x = tile % tiles_x * X + tl.arange(0, X)
    y = tile // tiles_x % tiles_y * Y + tl.arange(0, Y)
    plane = (tile // (tiles_x * tiles_y)).to(tl.int64)
    channel = plane % CHANNELS
    window = table + plane // CHANNELS * _FIELDS
    first_line, left = tl.load(window).to(tl.int64), tl.load(window + 1).to(tl.int32)
    blur = tl.load(window + 3)
    limit_y, limit_x = tl.load(window + 6), tl.load(window + 7).to(tl.int32)
    before, fraction = _split(tl.load(window + 5), tl.load(window + 2), y, limit_y)
    radius, last = tl.ceil(3.5 * blur).to(tl.int32), limit_y.to(tl.int32) - 1
    blur = tl.maximum(blur, 1e-6).to(tl.float32)
    source = pixels + first_line * picture_width * DEPTH
    columns = tl.minimum(x + left, limit_x - 1) * DEPTH
    here = (x < wide)[None, :] & (y < height)[:, None]
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((Y, X), tl.float32)
    for reach in range(-radius, radius + 2):
        bell = _bell(reach, radius, blur)
        total += bell
        weights = bell + fraction * (_bell(reach - 1, radius, blur) - bell)
        lines = tl.minimum(tl.maximum(before + reach, 0), last) * (picture_width * DEPTH)
        places = source + lines[:, None] + columns[None, :]
        if DEPTH > CHANNELS:
            values = tl.load(places, mask=here, other=0).to(tl.float32) * red
            values += tl.load(places + 1, mask=here, other=0).to(tl.float32) * green
            values += tl.load(places + 2, mask=here, other=0).to(tl.float32) * blue
        else:
            values = tl.load(places + channel, mask=here, other=0).to(tl.float32)
        sums += weights[:, None] * values
    sums *= (unit / total)[:, None]
    tl.store(out + plane * height * wide + (y * wide)[:, None] + x[None, :], sums, mask=here)


@triton.jit
def _weigh_columns(
    tall, table, out, height, width, wide, CHANNELS: tl.constexpr, Y: tl.constexpr, X: tl.constexpr
):
    """Columns of `tall (n, c, h, wide)`, interpolated: `out (n, c, h, w)`."""
    tile = tl.program_id(0)
    tiles_x, tiles_y = tl.cdiv(width, X), tl.cdiv(height, Y)
    x = tile % tiles_x * X + tl.arange(0, X)
    y = tile // tiles_x % tiles_y * Y + tl.arange(0, Y)
    plane = (tile // (tiles_x * tiles_y)).to(tl.int64)
    window = table + plane // CHANNELS * _FIELDS
    left, blur, limit = tl.load(window + 1).to(tl.int32), tl.load(window + 3), tl.load(window + 7)
    before, fraction = _split(tl.load(window + 4), tl.load(window + 2), x, limit)
    radius, last = tl.ceil(3.5 * blur).to(tl.int32), limit.to(tl.int32) - 1
    blur = tl.maximum(blur, 1e-6).to(tl.float32)
    source = tall + plane * height * wide + (y * wide)[:, None]
    here = (x < width)[None, :] & (y < height)[:, None]
    total = tl.zeros((1,), tl.float32)
    sums = tl.zeros((Y, X), tl.float32)
    for reach in range(-radius, radius + 2):
        bell = _bell(reach, radius, blur)
        total += bell
        weights = bell + fraction * (_bell(reach - 1, radius, blur) - bell)
        columns = tl.minimum(tl.maximum(before + reach, 0), last) - left
        # What was read is planned on the host, which may round to another pixel.
        columns = tl.minimum(tl.maximum(columns, 0), wide - 1)
        sums += weights[None, :] * tl.load(source + columns[None, :], mask=here, other=0.0)
    sums /= total[:, None]
    tl.store(out + plane * height * width + (y * width)[:, None] + x[None, :], sums, mask=here)


@triton.jit
def _gaussian_down(
    source,
    out,
    weights,
    height,
    width,
    TAPS: tl.constexpr,
    C: tl.constexpr,
    Y: tl.constexpr,
    X: tl.constexpr,
):
    """A Gaussian down the columns of `source (n, h, w, C)`; each thread makes four rows of what it reads once."""
    tile = tl.program_id(0)
    line = width * C
    tiles_x, tiles_y = tl.cdiv(line, X), tl.cdiv(height, 4 * Y)
    x = (tile % tiles_x * X + tl.arange(0, X))[None, :]
    y = 4 * (tile // tiles_x % tiles_y * Y + tl.arange(0, Y))[:, None]
    first = (tile // (tiles_x * tiles_y)).to(tl.int64) * height * line
    a = tl.zeros((Y, X), tl.float32)
    b, c, d = a, a, a
    for_b, for_c, for_d = 0.0, 0.0, 0.0
    for tap in tl.static_range(TAPS + 3):
        row = tl.minimum(tl.maximum(y + (tap - TAPS // 2), 0), height - 1)
        values = tl.load(source + first + row * line + x, mask=x < line, other=0.0)
        # Each row has the weight that the row before it had for the row before that.
        weight = tl.load(weights + tap)
        a += weight * values
        b += for_b * values
        c += for_c * values
        d += for_d * values
        for_b, for_c, for_d = weight, for_b, for_c
    at = out + first + y * line + x
    tl.store(at, a, mask=(y < height) & (x < line))
    tl.store(at + line, b, mask=(y + 1 < height) & (x < line))
    tl.store(at + 2 * line, c, mask=(y + 2 < height) & (x < line))
    tl.store(at + 3 * line, d, mask=(y + 3 < height) & (x < line))


@triton.jit
def _gaussian_across(
    source,
    out,
    weights,
    height,
    width,
    softness,
    TAPS: tl.constexpr,
    NORMALISED: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
):
    """A Gaussian along the rows of `source (n, h, w, C)`; channels are divided by their length if asked."""
    tile = tl.program_id(0)
    tiles = tl.cdiv(height * width, P)
    pixel = tile % tiles * P + tl.arange(0, P)
    first = (tile // tiles).to(tl.int64) * height * width * C
    channel, here = tl.arange(0, C)[None, :], (pixel < height * width)[:, None]
    x = pixel % width
    line = pixel - x
    sums = tl.zeros((P, C), tl.float32)
    for tap in tl.static_range(TAPS):
        column = tl.minimum(tl.maximum(x + (tap - TAPS // 2), 0), width - 1)
        place = ((line + column) * C)[:, None] + channel
        sums += tl.load(weights + tap) * tl.load(source + first + place, mask=here, other=0.0)
    if NORMALISED:
        sums *= tl.rsqrt(tl.sum(sums * sums, axis=1) + softness)[:, None]
    tl.store(out + first + (pixel * C)[:, None] + channel, sums, mask=here)


@triton.jit
def _describe(
    smooth,
    out,
    height,
    width,
    softness,
    KIND: tl.constexpr,
    COLOURS: tl.constexpr,
    C: tl.constexpr,
    P: tl.constexpr,
):
    """What the gradients of planes `(B, colours, h, w)` become: `out (B, h, w, C)`."""
    tile = tl.program_id(0)
    size = height * width
    tiles = tl.cdiv(size, P)
    image = (tile // tiles).to(tl.int64)
    pixel = tile % tiles * P + tl.arange(0, P)
    here = pixel < size
    y = pixel // width
    x = pixel - y * width
    left, right = tl.where(x > 0, pixel - 1, pixel), tl.where(x < width - 1, pixel + 1, pixel)
    above, below = tl.where(y > 0, pixel - width, pixel), tl.where(y < height - 1, pixel + width, pixel)
    # Half of the difference between two neighbours; on the border, there is only one.
    half_x, half_y = tl.where(right - left > 1, 0.5, 1.0), tl.where(below - above > width, 0.5, 1.0)
    plane = smooth + image * COLOURS * size
    by_x = (tl.load(plane + right, mask=here) - tl.load(plane + left, mask=here)) * half_x
    by_y = (tl.load(plane + below, mask=here) - tl.load(plane + above, mask=here)) * half_y
    for _ in tl.static_range(COLOURS - 1):
        plane += size
        other_x = (tl.load(plane + right, mask=here) - tl.load(plane + left, mask=here)) * half_x
        other_y = (tl.load(plane + below, mask=here) - tl.load(plane + above, mask=here)) * half_y
        longer = other_x * other_x + other_y * other_y > by_x * by_x + by_y * by_y
        by_x, by_y = tl.where(longer, other_x, by_x), tl.where(longer, other_y, by_y)
    channel = tl.arange(0, C)[None, :]
    if KIND == _GRADIENT:
        values = tl.where(channel == 0, by_x[:, None], by_y[:, None])
    elif KIND == _IGO:
        squared = by_x * by_x + by_y * by_y + softness
        length = tl.sqrt(squared)
        once = tl.where(channel == 0, (by_x / length)[:, None], (by_y / length)[:, None])
        cosine, sine = (by_x * by_x - by_y * by_y) / squared, 2 * by_x * by_y / squared
        twice = tl.where(channel == 2, cosine[:, None], sine[:, None])
        values = tl.where(channel < 2, once, twice)
    else:
        values = _shared(by_x, by_y, channel)
    tl.store(out + image * size * C + (pixel * C)[:, None] + channel, values, mask=here[:, None])


@triton.jit
def _shared(by_x, by_y, channel):
    """Gradients `(P,)`, shared between the two nearest of 8 directions: `(P, 8)`."""
    across, down = tl.abs(by_x), tl.abs(by_y)
    flat = across >= down
    tangent = tl.minimum(across, down) / tl.maximum(tl.maximum(across, down), 1e-30)
    square = tangent * tangent
    # The polynomial of `features.py`: the angle in eighths of a turn.
    eighths = 0.0086730 * square - 0.0427862
    eighths = eighths * square + 0.1013800
    eighths = eighths * square - 0.1684921
    eighths = eighths * square + 0.2522009
    eighths = eighths * square - 0.4242099
    eighths = (eighths * square + 1.2732346) * tangent
    magnitude = tl.sqrt(by_x * by_x + by_y * by_y)
    diagonal = magnitude * eighths
    straight = magnitude - diagonal
    right, downwards = by_x > 0, by_y > 0
    axis = tl.where(flat, tl.where(right, 0, 4), tl.where(downwards, 2, 6))
    corner = tl.where(right, tl.where(downwards, 1, 7), tl.where(downwards, 3, 5))
    along = tl.where(channel == axis[:, None], straight[:, None], 0.0)
    return tl.where(channel == corner[:, None], diagonal[:, None], along)
