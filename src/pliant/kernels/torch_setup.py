"""What is made of a level before a device sees an image: the constants of its kernel, and where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.appearance.subspace import Subspace
from pliant.arrays import Int32
from pliant.kernels import torch_pixels
from pliant.kernels.robust import panel_of_pixel
from pliant.kernels.system import Needs
from pliant.kernels.torch import Pairs, TorchKernel, TorchProjected, made, padded_columns
from pliant.kernels.torch_products import (
    Factor,
    PixelOrder,
    Precision,
    factor,
    pixel_order,
    product_with,
)
from pliant.level import Level
from pliant.motion import Sparse, jacobian
from pliant.namespace import Array, namespace


def torch_kernel(
    level: Level,
    subspace: Subspace,
    pixels: Int32 | None,
    needs: Needs,
    device: Any,
    precision: Precision = "float32",
    *,
    robust: bool = False,
) -> TorchKernel:
    """A kernel with all that Systems with these needs ask for, on a device of PyTorch."""
    import torch

    motion, channels, m = level.motion, level.channels, len(subspace.variances)
    neighbours, steps = motion.frame.stencil
    everything = np.arange(len(motion.frame.pixels))
    chosen = everything if pixels is None else np.asarray(pixels, dtype=np.int64)
    support = everything
    if pixels is not None and needs.curvature is None:
        support = np.unique(np.concatenate([chosen, neighbours[:, :, chosen].ravel()]))
    place = np.zeros(len(everything), dtype=np.int64)
    place[support] = np.arange(len(support))

    def put(values: Any, dtype: Any = torch.float32) -> Any:
        return torch.as_tensor(np.array(values, order="C"), dtype=dtype, device=device)

    order = pixel_order(motion, chosen)
    # Where it is padded, any pixel will do: its steps are zero.
    real, pixel = order.places >= 0, chosen[np.maximum(order.places, 0)]
    shares = put(motion.weights[pixel] * real[:, None]) if isinstance(motion, Sparse) else torch.zeros(0)
    warp = put(np.moveaxis(jacobian(motion, level.shape)[pixel] * real[:, None, None], 1, 0))
    basis = put(order.spread_channels(np.asarray(subspace.basis), channels))
    nothing = np.zeros((level.shape.landmarks, 2))
    products = product_with(motion, level.shape.basis, order, shares, basis, warp, precision)
    kernel = TorchKernel(
        level=level,
        subspace=subspace,
        pixel_loops=_loops_for(device, channels),
        matrix=put(motion.matrix()[support]),
        fixed=put(motion.positions(nothing)[support]),
        own=put(np.where(real, place[pixel], -1), torch.int64),
        neighbours=put(place[neighbours[:, :, pixel]], torch.int64),
        steps=put(steps[:, pixel] * real),
        # Costs are differences of products with A: these are never rounded to TF32.
        basis=factor(padded_columns(basis.T), "float32" if precision == "float32" else "tf32x3"),
        spread=Factor(basis, None, "float32"),
        mean=put(order.spread_channels(np.asarray(subspace.mean), channels)).reshape(-1, channels),
        pairs=_pairs_of(warp, precision),
        products=products,
        mean_slopes=torch.zeros(0),
        mean_mean=torch.zeros(0),
        chosen=put(pixel, torch.int64),
        order=order,
        panels=put(order.spread(panel_of_pixel(motion, chosen.astype(np.int32))), torch.int64)
        if robust
        else None,
    )
    at_chosen = kernel._stencil[0][:, :, kernel.chosen], kernel.steps

    def slopes_of(rows: Any) -> Any:
        return torch_pixels.slopes(rows.reshape(len(rows), -1, channels), *at_chosen).contiguous()

    mean_slopes = slopes_of(put(level.appearance.mean)[None])
    blank = torch.zeros_like(kernel.mean)[None]
    squares = kernel.pixel_loops.sums(blank, None, mean_slopes, moving=True).model_model
    kernel = replace(kernel, mean_slopes=mean_slopes, mean_mean=kernel.pairs.square(squares))
    if needs.appearance and (needs.model or needs.curvature):
        components = padded_columns(put(level.appearance.components).T).T
        exact: Precision = "float32" if precision == "float32" else "tf32x3"
        kernel = replace(kernel, on_frame=factor(components, exact))
    if not needs.model:
        return kernel
    kernel = replace(kernel, basis_mean=products(mean_slopes)[0].double())
    moves = needs.appearance
    if not moves and not needs.moving_basis:
        return kernel
    components = put(level.appearance.components)
    if subspace.to_model is not None:
        components = put(subspace.to_model).T @ components
    if moves:
        kernel = replace(
            kernel, basis_basis=_basis_basis(level, pixels, products, slopes_of, components, put)
        )
    if moves and pixels is not None:
        rows = torch.cat([slopes_of(components[k : k + 1]).reshape(1, -1) for k in range(m)])
        kernel = replace(kernel, slope_rows=factor(rows, "float32"))
    if needs.moving_basis:
        moving = _moving_product(level, order, shares, components, slopes_of, warp)
        kernel = replace(kernel, moving=moving)
    return kernel


def _basis_basis(
    level: Level,
    pixels: Int32 | None,
    products: Callable[[Array], Array],
    slopes_of: Callable[[Array], Array],
    components: Array,
    put: Callable[..., Array],
) -> Array:
    """A'JA as `(m, m n)`, the component that moves first."""
    xp = namespace(components)
    if pixels is None and level.basis_slopes is not None:
        kept = put(level.basis_slopes)
        return kept.permute(2, 0, 1).reshape(kept.shape[2], -1).contiguous()
    parts = [products(slopes_of(components[k : k + 8])) for k in range(0, len(components), 8)]
    if not parts:
        return put(np.zeros((0, 0)))
    return xp.cat(parts).reshape(len(components), -1).contiguous()


def _moving_product(
    level: Level,
    order: PixelOrder,
    shares: Array,
    components: Array,
    slopes_of: Callable[[Array], Array],
    warp: Array,
) -> Callable[[Array], Array]:
    """JA'r `(B, m, n)` for residuals `(B, f, c)`: A's slopes along x and y are the bases, and r is their slope."""
    xp, m = namespace(components), len(components)
    slopes = xp.cat([slopes_of(components[k : k + 8]) for k in range(0, m, 8)], 1).flatten(2)
    shape_basis = level.shape.basis.reshape(-1, 2, level.shape.parameters)
    sides = []
    for axis in (0, 1):
        one = np.zeros_like(shape_basis)
        one[:, axis] = shape_basis[:, axis]
        flat = warp * xp.eye(2, device=warp.device)[axis][:, None, None]
        rows = one.reshape(level.shape.basis.shape)
        sides.append(product_with(level.motion, rows, order, shares, slopes[axis], flat, "float32"))

    def product(r: Array) -> Array:
        both = xp.stack([r, r])
        return (sides[0](both) + sides[1](both)).double()

    return product


def torch_projected(
    kernel: TorchKernel, w0: float, w: Any, descents: Any = None, pixels: Int32 | None = None
) -> TorchProjected:
    """The kernel for the metric w0 I - A diag(w) A', `w (m,)`, and for learned slopes `(K, n, F c)`, if any."""
    from pliant.kernels.descents import project_slopes

    basis_mean = made(kernel.basis_mean)
    weights = basis_mean.new_tensor(w / w0)[:, None]
    x, y = kernel.mean_slopes[:, 0]
    single = kernel.pairs.single.reshape(2, len(kernel.own), -1)
    J = (x[:, :, None] * single[0][:, None] + y[:, :, None] * single[1][:, None]).flatten(0, 1)
    J = J - kernel.spread.whole.T @ (weights * basis_mean).float()
    model = w0 * (kernel.mean_mean[0] - basis_mean.T @ (weights * basis_mean))
    stages = []
    for slopes in () if descents is None else descents:
        if pixels is not None:
            by_pixel = slopes.reshape(len(slopes), -1, kernel.level.channels)
            slopes = by_pixel[:, pixels].reshape(len(slopes), -1)
        rows, own_model = project_slopes(slopes, kernel.subspace.basis, w0, w)
        rows = made(kernel.order).spread_channels(rows, kernel.level.channels)
        stages.append((J.new_tensor(rows).T.contiguous(), model.new_tensor(own_model)))
    return TorchProjected(kernel, w0, (*stages, (J.contiguous(), model)))


def _loops_for(device: Any, channels: int) -> Any:
    """Compiled loops where there are any, for this device and so many channels; else plain functions."""
    import torch

    if torch.device(device).type != "cuda":
        return torch_pixels
    try:
        from pliant.kernels import torch_loops
    except ImportError:
        return torch_pixels
    return torch_loops if torch_loops.fits_loops(channels) else torch_pixels


def _pairs_of(warp: Array, precision: Precision) -> Pairs:
    """The products of columns of dW/dp `(2, f, n)`."""
    xp = namespace(warp)
    _, f, n = warp.shape
    i, j = xp.triu_indices(n, n, device=warp.device)
    x, y = warp
    mixed = x[:, i] * y[:, j] + y[:, i] * x[:, j]
    symmetric = xp.cat([x[:, i] * x[:, j], mixed, y[:, i] * y[:, j]])
    every = xp.cat([(a[:, :, None] * b[:, None, :]).reshape(f, -1) for a in warp for b in warp])
    unfold = xp.zeros((n, n), dtype=xp.int64, device=warp.device)
    unfold[i, j] = unfold[j, i] = xp.arange(len(i), device=warp.device)
    return Pairs(
        xp.cat([x, y]),
        factor(padded_columns(symmetric), precision),
        factor(padded_columns(every), precision),
        unfold,
    )
