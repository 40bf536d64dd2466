"""The loops over single pixels as kernels of Triton, for CUDA.

`warp` is that of `torch_pixels.py`, and `Looking` does what `torch_pixels.Looking` does. It also adds up the
pixels of a triangle, so that only values and slopes are written to memory. A program takes a few pixels of one
image with all of their channels: what lies together in memory is read together. `channels` is a power of two here:
features with others take the plain functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from pliant.kernels import torch_pixels
from pliant.kernels.torch_halves import BLOCK, LARGEST, Halves, scale_for
from pliant.kernels.torch_pairs import CORNERS
from pliant.kernels.torch_pixels import Sums
from pliant.motion import Sparse

if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 4):
    raise ImportError(
        f"these loops need Triton 3.4, which carries tuples through loops, not {triton.__version__}."
    )

_PIXELS = 64
"""Pixels of a program that warps."""

_AT_ONCE = 32
"""Pixels that a program looks at together, with eight channels at a time: two threads share a pixel, so that
neighbouring threads read what lies together."""

_IMAGES_TOGETHER = 4
"""Images that are looked at together, triangle by triangle: what triangles share of them stays in the cache."""

_NO_TRIANGLE = 256
"""Pixels that a program looks at where there are no triangles."""


def fits_loops(channels: int) -> bool:
    """Whether there are loops for so many channels."""
    return channels & (channels - 1) == 0 and channels <= 32


def pixels_of_a_block(channels: int) -> int:
    """What the pixels of a triangle are padded to, so that products of halves have whole blocks."""
    return max(8, BLOCK // channels)


def warp(pixels: Any, rows: Any, sizes: Any, positions: Any) -> Any:
    batch, count = positions.shape[:2]
    return _warped(pixels, rows, sizes, positions, (batch, count), None)


@dataclass(frozen=True, eq=False)
class Corners:
    """Where k pixels are: `weights (j, k)` times the points `vertices (j, k)` of a shape, plus `fixed (k, 2)`."""

    vertices: Any
    weights: Any
    fixed: Any

    def warped(self, images: Any, shapes: Any) -> Any:
        """Views at these pixels `(B, k, c)`, for shapes `(B, v, 2)`."""
        size = len(shapes), len(self.fixed)
        return _warped(images.pixels, images.rows, images.sizes, shapes.float(), size, self)


def corners(motion: Sparse, support: Any, fixed: Any) -> Corners:
    """The corners of the pixels `support (k,)` of a frame, beside `fixed (k, 2)`."""
    device = fixed.device
    vertices = torch.as_tensor(motion.vertices[support].T.copy(), dtype=torch.int32, device=device)
    return Corners(
        vertices, torch.as_tensor(motion.weights[support].T.copy(), dtype=torch.float32, device=device), fixed
    )


def _warped(
    pixels: Any, rows: Any, sizes: Any, points: Any, size: tuple[int, int], corners: Corners | None
) -> Any:
    batch, count = size
    # Loops read memory as it lies.
    assert pixels.is_contiguous()
    out = torch.empty(batch, count, pixels.shape[-1], device=pixels.device)
    none = sizes
    _warp[(batch, triton.cdiv(count, _PIXELS))](
        pixels,
        rows.contiguous(),
        sizes.contiguous(),
        points.contiguous(),
        none if corners is None else corners.vertices,
        none if corners is None else corners.weights,
        none if corners is None else corners.fixed,
        out,
        count,
        points.shape[1],
        pixels.shape[1],
        pixels.shape[2],
        CORNERS=0 if corners is None else len(corners.weights),
        P=_PIXELS,
        C=pixels.shape[-1],
    )
    return out


@triton.jit
def _warp(
    pixels,
    rows,
    sizes,
    points,
    vertices,
    weights,
    fixed,
    out,
    count,
    landmarks,
    height,
    width,
    CORNERS: tl.constexpr,
    P: tl.constexpr,
    C: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * P + tl.arange(0, P)
    here = pixel < count
    at = points + image * landmarks * 2
    if CORNERS == 0:
        x = tl.load(at + pixel * 2, mask=here, other=0.0)
        y = tl.load(at + pixel * 2 + 1, mask=here, other=0.0)
    else:
        x = tl.load(fixed + pixel * 2, mask=here, other=0.0)
        y = tl.load(fixed + pixel * 2 + 1, mask=here, other=0.0)
        for corner in tl.static_range(CORNERS):
            vertex = tl.load(vertices + corner * count + pixel, mask=here, other=0)
            weight = tl.load(weights + corner * count + pixel, mask=here, other=0.0)
            x += weight * tl.load(at + vertex * 2)
            y += weight * tl.load(at + vertex * 2 + 1)
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


@dataclass(frozen=True, eq=False)
class Scales:
    """What values and slopes are multiplied by where they are halves, and whether these have a rest."""

    values: float
    slopes: float
    rest: bool


def scales_like(values: Any, slopes: Any, *, rest: bool) -> Scales:
    """Scales for values and slopes of about the size of these."""
    return Scales(scale_for(values), scale_for(slopes), rest)


@dataclass(frozen=True, eq=False)
class Looking:
    """What is known of f pixels of T triangles, those of one triangle after the other.

    Triangle t has the pixels `firsts[t]` to `firsts[t + 1]`, with `weights (3, f)` of its corners; the rest is as
    in `torch_pixels.Looking`, with indices in 32 bits. Without `scales`, what is seen is in float32.
    """

    own: Any
    mean: Any
    neighbours: Any
    model_neighbours: Any
    steps: Any
    firsts: Any
    weights: Any
    scales: Scales | None = None

    def __call__(
        self, values: Any, h: Any, appearance: Any, *, image: bool, moving: bool
    ) -> tuple[Any, Any, Sums]:
        """Values e, slopes g and sums, as in `torch_pixels.Looking`, but sums over the pixels of triangles.

        Products of slopes are multiplied by six products of two weights, `(B, ., 6 T)`, products of slopes and
        values by three weights, `(B, ., 3 T)`, and squares of values by none, `(B, T)`. With scales, values `(B, f
        c)` and slopes `(2 B, f c)` are `Halves`.
        """
        batch, k, channels = values.shape
        f, triangles, device = len(self.own), len(self.firsts) - 1, values.device
        split = self.scales is not None and self.scales.rest
        e, e_rest = self._room((batch, f, channels), device, rest=split)
        g, g_rest = self._room((2, batch, f, channels), device, rest=split) if image else (e, e_rest)
        slopes = h if appearance is None else appearance
        model = 0 if slopes is None else 1 if appearance is None else 2
        seen, met = 3 * image, 3 * bool(model and moving)
        squares = torch.empty(batch, triangles, device=device)
        quadratic = torch.empty(batch, seen + met + 4 * bool(image and model), 6 * triangles, device=device)
        linear = torch.empty(batch, 2 * image + 2 * bool(model), 3 * triangles, device=device)
        known = (values, slopes, self.own, self.mean, self.neighbours, self.model_neighbours, self.steps)
        # Loops read memory as it lies.
        assert all(one is None or one.is_contiguous() for one in known)
        together = min(_IMAGES_TOGETHER, batch)
        _look[(together * triangles, triton.cdiv(batch, together))](
            values,
            self.own,
            self.mean,
            self.neighbours,
            self.model_neighbours,
            self.steps,
            self.weights,
            values if slopes is None else slopes,
            self.firsts,
            e,
            e_rest,
            g,
            g_rest,
            squares,
            quadratic,
            linear,
            k,
            f,
            batch,
            slopes.shape[1] if model else 1,
            triangles,
            together,
            1.0 if self.scales is None else self.scales.values,
            1.0 if self.scales is None else self.scales.slopes,
            LARGEST,
            IMAGE=image,
            MODEL=model,
            MOVING=bool(model and moving),
            HALVES=self.scales is not None,
            SPLIT=split,
            P=_AT_ONCE,
            C=channels,
            V=min(8, channels),
            num_warps=1,
        )
        sums = Sums(
            values=squares,
            image_image=quadratic[:, :3] if image else None,
            image_values=linear[:, :2] if image else None,
            model_values=linear[:, 2 * image :] if model else None,
            model_model=quadratic[:, seen : seen + 3] if model and moving else None,
            image_model=quadratic[:, seen + met :] if model and image else None,
        )
        if self.scales is None:
            return e, g if image else None, sums
        seen_values = Halves(e.flatten(1), e_rest.flatten(1) if split else None, self.scales.values)
        if not image:
            return seen_values, None, sums
        rest = g_rest.flatten(2).flatten(0, 1) if split else None
        return seen_values, Halves(g.flatten(2).flatten(0, 1), rest, self.scales.slopes), sums

    def _room(self, shape: tuple[int, ...], device: Any, *, rest: bool) -> tuple[Any, Any]:
        kind = torch.float32 if self.scales is None else torch.float16
        first = torch.empty(shape, dtype=kind, device=device)
        return first, torch.empty_like(first) if rest and self.scales is not None else first


def looking(plain: torch_pixels.Looking, bounds: Any, shares: Any, scales: Scales | None) -> Looking:
    """The same as plain PyTorch, for triangles with the pixels between `bounds (T + 1,)`, and `shares (f, k)`.

    Without bounds there are no triangles, and the sums say nothing.
    """
    f, device = len(plain.own), plain.mean.device
    if bounds is None:
        bounds, shares = [*range(0, f, _NO_TRIANGLE), f], torch.zeros(f, 1, device=device)
    weights = torch.nn.functional.pad(shares, (0, CORNERS - shares.shape[1])).T
    return Looking(
        own=plain.own.int(),
        mean=plain.mean,
        neighbours=plain.neighbours.int(),
        model_neighbours=plain.model_neighbours.int(),
        steps=plain.steps,
        firsts=torch.as_tensor(bounds, dtype=torch.int32, device=device),
        weights=weights.contiguous(),
        scales=scales,
    )


@triton.jit
def _write(values, coarse, rest, place, mask, scale, largest, HALVES: tl.constexpr, REST: tl.constexpr):
    if HALVES:
        # What no half can hold is cut off, rather than infinite.
        scaled = tl.clamp(values * scale, -largest, largest)
        short = scaled.to(tl.float16)
        tl.store(coarse + place, short, mask=mask)
        if REST:
            tl.store(rest + place, (scaled - short.to(tl.float32)).to(tl.float16), mask=mask)
    else:
        tl.store(coarse + place, values, mask=mask)


@triton.jit
def _slope(table, neighbours, steps, pixel, here, channel, f, AXIS: tl.constexpr, C: tl.constexpr):
    before = tl.load(neighbours + AXIS * 2 * f + pixel, mask=here, other=0)
    after = tl.load(neighbours + (AXIS * 2 + 1) * f + pixel, mask=here, other=0)
    step = tl.load(steps + AXIS * f + pixel, mask=here, other=0.0)[:, None]
    mask = here[:, None]
    low = tl.load(table + (before * C)[:, None] + channel, mask=mask, other=0.0)
    high = tl.load(table + (after * C)[:, None] + channel, mask=mask, other=0.0)
    return step * (high - low)


@triton.jit
def _six(total, field, u, v, w):
    """Sums with the products of two weights: in the order of `torch_pairs.PAIRS`."""
    a, b = field * u, field * v
    return (
        total[0] + a * u,
        total[1] + a * v,
        total[2] + a * w,
        total[3] + b * v,
        total[4] + b * w,
        total[5] + field * w * w,
    )


@triton.jit
def _three(total, field, u, v, w):
    return (total[0] + field * u, total[1] + field * v, total[2] + field * w)


@triton.jit
def _store_sums(to, totals, COUNT: tl.constexpr):
    for k in tl.static_range(COUNT):
        tl.store(to + k, tl.sum(totals[k], axis=0))


@triton.jit
def _look(
    values,
    own,
    mean,
    neighbours,
    model_neighbours,
    steps,
    weights,
    model,
    firsts,
    e_out,
    e_rest,
    g_out,
    g_rest,
    squares,
    quadratic,
    linear,
    k,
    f,
    batch,
    model_size,
    triangles,
    together,
    value_scale,
    slope_scale,
    largest,
    IMAGE: tl.constexpr,
    MODEL: tl.constexpr,
    MOVING: tl.constexpr,
    HALVES: tl.constexpr,
    SPLIT: tl.constexpr,
    P: tl.constexpr,
    C: tl.constexpr,
    V: tl.constexpr,
):
    number = tl.program_id(1) * together + tl.program_id(0) % together
    if number >= batch:
        return
    image, triangle = number.to(tl.int64), tl.program_id(0) // together
    first, last = tl.load(firsts + triangle), tl.load(firsts + triangle + 1)
    table = values + image * k * C
    none = tl.zeros((P,), tl.float32)
    six, three = (none, none, none, none, none, none), (none, none, none)
    ee_sum = none
    xx_sum, xy_sum, yy_sum, xe_sum, ye_sum = six, six, six, three, three
    ss_sum, st_sum, tt_sum, se_sum, te_sum = six, six, six, three, three
    xs_sum, xt_sum, ys_sum, yt_sum = six, six, six, six
    for start in range(first, last, P):
        pixel = start + tl.arange(0, P)
        here = pixel < last
        mask = here[:, None]
        own_place = tl.load(own + pixel, mask=here, other=-1)
        real = (own_place >= 0)[:, None]
        ee, xx, xy, yy, xe, ye = none, none, none, none, none, none
        ss, st, tt, se, te, xs, xt, ys, yt = none, none, none, none, none, none, none, none, none
        for part in tl.static_range(C // V):
            channel = part * V + tl.arange(0, V)[None, :]
            place = (pixel * C)[:, None] + channel
            value = tl.load(table + (own_place * C)[:, None] + channel, mask=real, other=0.0)
            e = value - tl.load(mean + place, mask=real, other=0.0)
            _write(e, e_out, e_rest, image * f * C + place, mask, value_scale, largest, HALVES, SPLIT)
            ee += tl.sum(e * e, axis=1)
            if IMAGE:
                x = _slope(table, neighbours, steps, pixel, here, channel, f, 0, C)
                y = _slope(table, neighbours, steps, pixel, here, channel, f, 1, C)
                along_x, along_y = image * f * C + place, (batch + image) * f * C + place
                _write(x, g_out, g_rest, along_x, mask, slope_scale, largest, HALVES, SPLIT)
                _write(y, g_out, g_rest, along_y, mask, slope_scale, largest, HALVES, SPLIT)
                xx += tl.sum(x * x, axis=1)
                xy += tl.sum(x * y, axis=1)
                yy += tl.sum(y * y, axis=1)
                xe += tl.sum(x * e, axis=1)
                ye += tl.sum(y * e, axis=1)
            if MODEL:
                if MODEL == 1:
                    one = image if model_size > 1 else image * 0
                    s = tl.load(model + one * f * C + place, mask=mask, other=0.0)
                    t = tl.load(model + (model_size + one) * f * C + place, mask=mask, other=0.0)
                else:
                    own_model = model + image * model_size * C
                    s = _slope(own_model, model_neighbours, steps, pixel, here, channel, f, 0, C)
                    t = _slope(own_model, model_neighbours, steps, pixel, here, channel, f, 1, C)
                se += tl.sum(s * e, axis=1)
                te += tl.sum(t * e, axis=1)
                if MOVING:
                    ss += tl.sum(s * s, axis=1)
                    st += tl.sum(s * t, axis=1)
                    tt += tl.sum(t * t, axis=1)
                if IMAGE:
                    xs += tl.sum(x * s, axis=1)
                    xt += tl.sum(x * t, axis=1)
                    ys += tl.sum(y * s, axis=1)
                    yt += tl.sum(y * t, axis=1)
        u = tl.load(weights + pixel, mask=here, other=0.0)
        v = tl.load(weights + f + pixel, mask=here, other=0.0)
        w = tl.load(weights + 2 * f + pixel, mask=here, other=0.0)
        ee_sum += ee
        if IMAGE:
            xx_sum, xy_sum, yy_sum = (
                _six(xx_sum, xx, u, v, w),
                _six(xy_sum, xy, u, v, w),
                _six(yy_sum, yy, u, v, w),
            )
            xe_sum, ye_sum = _three(xe_sum, xe, u, v, w), _three(ye_sum, ye, u, v, w)
        if MODEL:
            se_sum, te_sum = _three(se_sum, se, u, v, w), _three(te_sum, te, u, v, w)
            if MOVING:
                ss_sum, st_sum, tt_sum = (
                    _six(ss_sum, ss, u, v, w),
                    _six(st_sum, st, u, v, w),
                    _six(tt_sum, tt, u, v, w),
                )
            if IMAGE:
                xs_sum, xt_sum = _six(xs_sum, xs, u, v, w), _six(xt_sum, xt, u, v, w)
                ys_sum, yt_sum = _six(ys_sum, ys, u, v, w), _six(yt_sum, yt, u, v, w)
    tl.store(squares + image * triangles + triangle, tl.sum(ee_sum, axis=0))
    met = 3 if MOVING else 0
    seen = 3 if IMAGE else 0
    fields = seen + met + (4 if IMAGE and MODEL else 0)
    lines = (2 if IMAGE else 0) + (2 if MODEL else 0)
    wide, narrow = triangles * 6, triangles * 3
    to = quadratic + image * fields * wide + triangle * 6
    at = linear + image * lines * narrow + triangle * 3
    if IMAGE:
        _store_sums(to, xx_sum, 6)
        _store_sums(to + wide, xy_sum, 6)
        _store_sums(to + 2 * wide, yy_sum, 6)
        _store_sums(at, xe_sum, 3)
        _store_sums(at + narrow, ye_sum, 3)
        at += 2 * narrow
    if MODEL:
        _store_sums(at, se_sum, 3)
        _store_sums(at + narrow, te_sum, 3)
        if MOVING:
            _store_sums(to + seen * wide, ss_sum, 6)
            _store_sums(to + (seen + 1) * wide, st_sum, 6)
            _store_sums(to + (seen + 2) * wide, tt_sum, 6)
        if IMAGE:
            to += (seen + met) * wide
            _store_sums(to, xs_sum, 6)
            _store_sums(to + wide, xt_sum, 6)
            _store_sums(to + 2 * wide, ys_sum, 6)
            _store_sums(to + 3 * wide, yt_sum, 6)
