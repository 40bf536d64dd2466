"""The loops over single pixels as kernels of Triton, for CUDA: the functions are those of `torch_pixels.py`.

A program takes a few pixels of one image with all of their channels, so that what lies together in memory is read
together. `channels` is a power of two here: features with others take the plain functions.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from pliant.kernels.torch_pixels import Sums

_PIXELS = 64
"""Pixels of a program."""


def fits_loops(channels: int) -> bool:
    """Whether there are loops for so many channels."""
    return channels & (channels - 1) == 0 and channels <= 32


@triton.jit
def _warp(pixels, rows, sizes, positions, out, count, height, width, P: tl.constexpr, C: tl.constexpr):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * P + tl.arange(0, P)
    here = pixel < count
    place = (image * count + pixel) * 2
    x = tl.load(positions + place, mask=here, other=0.0)
    y = tl.load(positions + place + 1, mask=here, other=0.0)
    last_y = (tl.load(sizes + image * 2) - 1).to(tl.float32)
    last_x = (tl.load(sizes + image * 2 + 1) - 1).to(tl.float32)
    # Written so that what is not a number becomes the corner.
    x = tl.where(x > 0, tl.minimum(x, last_x), 0.0)
    y = tl.where(y > 0, tl.minimum(y, last_y), 0.0)
    left, top = tl.floor(x), tl.floor(y)
    u, v = (x - left)[:, None], (y - top)[:, None]
    right, bottom = tl.minimum(left + 1, last_x).to(tl.int32), tl.minimum(top + 1, last_y).to(tl.int32)
    left, top = left.to(tl.int32), top.to(tl.int32)
    view = pixels + tl.load(rows + image) * height * width * C
    channel, mask = tl.arange(0, C)[None, :], here[:, None]
    a = tl.load(view + ((top * width + left) * C)[:, None] + channel, mask=mask, other=0.0)
    b = tl.load(view + ((top * width + right) * C)[:, None] + channel, mask=mask, other=0.0)
    c = tl.load(view + ((bottom * width + left) * C)[:, None] + channel, mask=mask, other=0.0)
    d = tl.load(view + ((bottom * width + right) * C)[:, None] + channel, mask=mask, other=0.0)
    value = (1 - u) * (1 - v) * a + u * (1 - v) * b + ((1 - u) * v * c + u * v * d)
    tl.store(out + ((image * count + pixel) * C)[:, None] + channel, value, mask=mask)


def warp(pixels: Any, rows: Any, sizes: Any, positions: Any) -> Any:
    batch, count = positions.shape[:2]
    # Loops read memory as it lies.
    assert pixels.is_contiguous()
    out = torch.empty(batch, count, pixels.shape[-1], device=pixels.device)
    grid = (batch, triton.cdiv(count, _PIXELS))
    _warp[grid](
        pixels,
        rows.contiguous(),
        sizes.contiguous(),
        positions.contiguous(),
        out,
        count,
        pixels.shape[1],
        pixels.shape[2],
        P=_PIXELS,
        C=pixels.shape[-1],
    )
    return out


@triton.jit
def _split(values, coarse, rest, count, P: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * P + tl.arange(0, P)
    here = place < count
    value = tl.load(values + place, mask=here, other=0.0)
    short = (value.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    tl.store(coarse + place, short, mask=here)
    tl.store(rest + place, value - short, mask=here)


def split(values: Any) -> tuple[Any, Any]:
    """Float32 without the bits that TF32 has no room for, and what these are."""
    values = values.contiguous()
    coarse, rest = torch.empty_like(values), torch.empty_like(values)
    _split[(triton.cdiv(values.numel(), 1024),)](values, coarse, rest, values.numel(), P=1024)
    return coarse, rest


@triton.jit
def _seen(
    values,
    own,
    mean,
    neighbours,
    steps,
    e_out,
    g_out,
    k,
    f,
    batch,
    SLOPES: tl.constexpr,
    P: tl.constexpr,
    C: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * P + tl.arange(0, P)
    here = pixel < f
    channel, mask = tl.arange(0, C)[None, :], here[:, None]
    table = values + image * k * C
    place = (pixel * C)[:, None] + channel
    own_place = tl.load(own + pixel, mask=here, other=0)
    real = mask & (own_place >= 0)[:, None]
    value = tl.load(table + (own_place * C)[:, None] + channel, mask=real, other=0.0)
    usual = tl.load(mean + place, mask=real, other=0.0)
    tl.store(e_out + image * f * C + place, value - usual, mask=mask)
    if SLOPES:
        for axis in tl.static_range(2):
            before = tl.load(neighbours + axis * 2 * f + pixel, mask=here, other=0)
            after = tl.load(neighbours + (axis * 2 + 1) * f + pixel, mask=here, other=0)
            step = tl.load(steps + axis * f + pixel, mask=here, other=0.0)[:, None]
            low = tl.load(table + (before * C)[:, None] + channel, mask=mask, other=0.0)
            high = tl.load(table + (after * C)[:, None] + channel, mask=mask, other=0.0)
            tl.store(g_out + (axis * batch + image) * f * C + place, step * (high - low), mask=mask)


def seen(values: Any, own: Any, mean: Any, neighbours: Any, steps: Any) -> tuple[Any, Any]:
    batch, k, channels = values.shape
    f = len(own)
    assert all(one is None or one.is_contiguous() for one in (values, own, mean, neighbours, steps))
    e = torch.empty(batch, f, channels, device=values.device)
    g = None if neighbours is None else torch.empty(2, batch, f, channels, device=values.device)
    grid = (batch, triton.cdiv(f, _PIXELS))
    _seen[grid](
        values,
        own,
        mean,
        own if neighbours is None else neighbours,
        steps,
        e,
        e if g is None else g,
        k,
        f,
        batch,
        SLOPES=g is not None,
        P=_PIXELS,
        C=channels,
    )
    return e, g


@triton.jit
def _sums(
    e,
    g,
    h,
    out,
    f,
    batch,
    h_batch,
    fields,
    IMAGE: tl.constexpr,
    MODEL: tl.constexpr,
    MOVING: tl.constexpr,
    P: tl.constexpr,
    C: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * P + tl.arange(0, P)
    here = pixel < f
    place, mask = (pixel * C)[:, None] + tl.arange(0, C)[None, :], here[:, None]
    to = out + image * fields * f + pixel
    v = tl.load(e + image * f * C + place, mask=mask, other=0.0)
    tl.store(to, tl.sum(v * v, axis=1), mask=here)
    at = to + f
    if IMAGE:
        x = tl.load(g + image * f * C + place, mask=mask, other=0.0)
        y = tl.load(g + (batch + image) * f * C + place, mask=mask, other=0.0)
        tl.store(at, tl.sum(x * x, axis=1), mask=here)
        tl.store(at + f, tl.sum(x * y, axis=1), mask=here)
        tl.store(at + 2 * f, tl.sum(y * y, axis=1), mask=here)
        tl.store(at + 3 * f, tl.sum(x * v, axis=1), mask=here)
        tl.store(at + 4 * f, tl.sum(y * v, axis=1), mask=here)
        at += 5 * f
    if MODEL:
        one = image if h_batch > 1 else image * 0
        s = tl.load(h + one * f * C + place, mask=mask, other=0.0)
        t = tl.load(h + (h_batch + one) * f * C + place, mask=mask, other=0.0)
        tl.store(at, tl.sum(s * v, axis=1), mask=here)
        tl.store(at + f, tl.sum(t * v, axis=1), mask=here)
        at += 2 * f
        if MOVING:
            tl.store(at, tl.sum(s * s, axis=1), mask=here)
            tl.store(at + f, tl.sum(s * t, axis=1), mask=here)
            tl.store(at + 2 * f, tl.sum(t * t, axis=1), mask=here)
            at += 3 * f
        if IMAGE:
            tl.store(at, tl.sum(x * s, axis=1), mask=here)
            tl.store(at + f, tl.sum(x * t, axis=1), mask=here)
            tl.store(at + 2 * f, tl.sum(y * s, axis=1), mask=here)
            tl.store(at + 3 * f, tl.sum(y * t, axis=1), mask=here)


def sums(e: Any, g: Any, h: Any, *, moving: bool) -> Sums:
    batch, f, channels = e.shape
    image, model = g is not None, h is not None
    assert all(one is None or one.is_contiguous() for one in (e, g, h))
    counts = [1, 3 * image, 2 * image, 2 * model, 3 * (model and moving), 4 * (model and image)]
    out = torch.empty(batch, sum(counts), f, device=e.device)
    grid = (batch, triton.cdiv(f, _PIXELS))
    _sums[grid](
        e,
        g if image else e,
        h if model else e,
        out,
        f,
        batch,
        h.shape[1] if model else 1,
        sum(counts),
        IMAGE=image,
        MODEL=model,
        MOVING=model and moving,
        P=_PIXELS,
        C=channels,
    )
    values, ii, iv, mv, mm, im = torch.split(out, counts, dim=1)
    return Sums(
        values=values[:, 0],
        image_image=ii if image else None,
        image_values=iv if image else None,
        model_model=mm if model and moving else None,
        model_values=mv if model else None,
        image_model=im if model and image else None,
    )
