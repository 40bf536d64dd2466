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
from pliant.kernels.torch import TorchKernel, TorchProjected, made
from pliant.kernels.torch_pairs import pairs_of_pixels, pairs_of_triangles
from pliant.kernels.torch_products import (
    Blend,
    PixelOrder,
    Precision,
    factor,
    padded_columns,
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

    loops = _loops_for(device, channels)
    in_halves = _in_halves(level, needs, robust, loops)
    order = pixel_order(motion, chosen, loops.pixels_of_a_block(channels) if in_halves else None)
    # Where it is padded, any pixel will do: its steps are zero.
    real, pixel = order.places >= 0, chosen[np.maximum(order.places, 0)]
    shares = (
        put(motion.weights[pixel] * real[:, None]) if isinstance(motion, Sparse) else put(np.zeros((0, 1)))
    )
    warp = put(np.moveaxis(jacobian(motion, level.shape)[pixel] * real[:, None, None], 1, 0))
    basis = put(order.spread_channels(np.asarray(subspace.basis), channels))
    stencil = put(neighbours, torch.int64), put(steps)
    look = torch_pixels.Looking(
        own=put(np.where(real, place[pixel], -1), torch.int64),
        mean=put(order.spread_channels(np.asarray(subspace.mean), channels)).reshape(-1, channels),
        neighbours=put(place[neighbours[:, :, pixel]], torch.int64),
        model_neighbours=stencil[0][:, :, put(pixel, torch.int64)],
        steps=put(steps[:, pixel] * real),
    )

    def slopes_of(rows: Any) -> Any:
        by_pixel = rows.reshape(len(rows), -1, channels)
        return torch_pixels.slopes(by_pixel, look.model_neighbours, look.steps).contiguous()

    def product(precision: Precision) -> Callable[[Array], Array]:
        return product_with(motion, level.shape.basis, order, shares, basis, warp, precision)

    mean_slopes = slopes_of(put(level.appearance.mean)[None])
    x, y = mean_slopes[:, 0, :, :, None]
    mean_jacobian = (x * warp[0][:, None] + y * warp[1][:, None]).flatten(0, 1)
    constant = product("float32")
    pairs = pairs_of_pixels(warp, precision)
    kernel = TorchKernel(
        level=level,
        subspace=subspace,
        where=torch_pixels.Positions(
            put(motion.matrix()[support]),
            put(motion.positions(np.zeros((level.shape.landmarks, 2)))[support]),
            torch_pixels.warp,
        ),
        look=look,
        basis=factor(padded_columns(basis.T), precision),
        spread=basis,
        pairs=pairs,
        bend_pairs=pairs,
        products=constant if precision == "float32" or in_halves else product(precision),
        mean_slopes=mean_slopes,
        mean_jacobian=mean_jacobian,
        mean_mean=(mean_jacobian.double().T @ mean_jacobian.double())[None],
        order=order,
        chosen=put(pixel, torch.int64),
        stencil=stencil,
        pixelwise=robust,
        panels=put(order.spread(panel_of_pixel(motion, chosen.astype(np.int32))), torch.int64)
        if robust
        else None,
    )
    if needs.appearance and (needs.model or needs.curvature):
        blend = Blend(put(level.appearance.mean), factor(put(level.appearance.components), "float32"))
        kernel = replace(kernel, blend=blend)
    if needs.model:
        kernel = replace(kernel, basis_mean=constant(mean_slopes)[0].double())
    moves = needs.model and needs.appearance
    components = put(level.appearance.components)
    if subspace.to_model is not None:
        components = put(subspace.to_model).T @ components
    if moves:
        basis_basis = _basis_basis(level, pixels, constant, slopes_of, components, put)
        kernel = replace(kernel, basis_basis=basis_basis)
    if moves and pixels is not None:
        rows = torch.cat([slopes_of(components[k : k + 1]).reshape(1, -1) for k in range(m)])
        kernel = replace(kernel, slope_rows=factor(rows, "float32"))
    if needs.moving_basis:
        moving = _moving_product(level, order, shares, components, slopes_of, warp)
        kernel = replace(kernel, moving=moving)
    return kernel if loops is None else _compiled(kernel, needs, loops, shares, support, precision, in_halves)


def _in_halves(level: Level, needs: Needs, robust: bool, loops: Any) -> bool:
    """Whether what is seen is multiplied as halves: without slopes of the image, there is little to multiply."""
    possible = loops is not None and isinstance(level.motion, Sparse) and not robust
    return possible and needs.image


def _compiled(
    kernel: TorchKernel,
    needs: Needs,
    loops: Any,
    shares: Array,
    support: Any,
    precision: Precision,
    in_halves: bool,
) -> TorchKernel:
    """The same kernel with compiled loops, and with products of halves if it is to have them."""
    motion, level = kernel.level.motion, kernel.level
    if not isinstance(motion, Sparse):
        look = loops.looking(kernel.look, None, None, None)
        where = replace(kernel.where, warp=loops.warp)
        return replace(kernel, where=where, look=look, pixelwise=True)
    bounds = [first for _, first, _ in kernel.order.triangles()] + [len(shares)]
    scales = None
    if in_halves:
        scales = loops.scales_like(kernel.look.mean, kernel.mean_slopes, rest=precision == "float32")
    kernel = replace(
        kernel,
        where=loops.corners(motion, support, kernel.where.fixed),
        look=loops.looking(kernel.look, bounds, shares, scales),
    )
    if kernel.panels is not None:
        return kernel
    pairs = pairs_of_triangles(motion, level.shape.basis, kernel.order, shares)
    kernel = replace(kernel, pairs=pairs, bend_pairs=kernel.bend_pairs if needs.curvature else None)
    if not in_halves:
        return kernel
    from pliant.kernels.torch_halves import blend, long_sums, vertex_product

    basis, rest = kernel.spread, precision == "float32"
    kernel = replace(
        kernel,
        basis=long_sums(basis.T, rest=rest),
        products=vertex_product(motion, level.shape.basis, kernel.order, shares, basis, rest=rest),
    )
    if kernel.blend is None:
        return kernel
    texture = level.appearance
    parts = [
        basis.new_tensor(np.array(part)) for part in (texture.mean, texture.components, texture.eigenvalues)
    ]
    return replace(kernel, blend=blend(*parts, rest=rest))


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
    J = kernel.mean_jacobian - kernel.spread.T @ (weights * basis_mean).float()
    model = w0 * (kernel.mean_mean[0] - basis_mean.T @ (weights * basis_mean))
    stages = []
    for slopes in () if descents is None else descents:
        if pixels is not None:
            by_pixel = slopes.reshape(len(slopes), -1, kernel.level.channels)
            slopes = by_pixel[:, pixels].reshape(len(slopes), -1)
        rows, own_model = project_slopes(slopes, kernel.subspace.basis, w0, w)
        rows = kernel.order.spread_channels(rows, kernel.level.channels)
        stages.append((J.new_tensor(rows).T.contiguous(), model.new_tensor(own_model)))
    return TorchProjected(kernel, w0, (*stages, (J.contiguous(), model)))


def _loops_for(device: Any, channels: int) -> Any:
    """Compiled loops for this device and so many channels, or None."""
    import torch

    if torch.device(device).type != "cuda":
        return None
    try:
        from pliant.kernels import torch_loops
    except ImportError:
        return None
    return torch_loops if torch_loops.fits_loops(channels) else None
