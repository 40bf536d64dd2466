"""Systems on a device of PyTorch: many images at a time, with the same record as on the CPU.

What is computed pixel by pixel is in `torch_pixels.py`, or for CUDA in `torch_loops.py`; what is multiplied with A
is in `torch_products.py`. All else is small: with sums over channels `(B, 3, f)` of products of slopes, Ji'Ji is a
product with the pairs of columns of dW/dp, which do not depend on the image, and likewise for the other products of
slopes. Systems are in float64; nothing in this file waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pliant.appearance.subspace import Subspace
from pliant.arrays import Int32
from pliant.kernels import torch_pixels
from pliant.kernels.robust import USUAL, centred, panel_of_pixel
from pliant.kernels.system import Needs, System, united
from pliant.kernels.torch_products import (
    Factor,
    PixelOrder,
    Precision,
    factor,
    padded,
    pixel_order,
    product_with,
)
from pliant.level import Level
from pliant.motion import Sparse, jacobian
from pliant.namespace import Array, beside, namespace

_SMALL = 2**29
"""Bytes that a device has in any case: to ask for the room that there is takes longer than some products."""


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Products of columns of dW/dp `(2, f, n)` at f pixels, for sums over them.

    `single (2 f, n)` are the columns themselves, `symmetric (3 f, n (n + 1) / 2)` belong to xx, xy and yy, and
    `every (4 f, n n)` to xx, xy, yx and yy. `unfold (n, n)` says which symmetric one each pair is.
    """

    single: Array
    symmetric: Factor
    every: Factor
    unfold: Array

    def along(self, sums: Array) -> Array:
        """J'e `(B, n)` from sums `(B, 2, f)`."""
        return _of_long_rows(sums.flatten(1), self.single).double()

    def square(self, sums: Array) -> Array:
        """J'J `(B, n, n)` from sums `(B, 3, f)`."""
        return self.symmetric.times(sums.flatten(1)).double()[:, self.unfold]

    def between(self, sums: Array) -> Array:
        """J'K `(B, n, n)` from sums `(B, 4, f)`."""
        n = len(self.unfold)
        return self.every.times(sums.flatten(1))[:, : n * n].double().reshape(-1, n, n)


@dataclass(frozen=True, eq=False)
class TorchKernel:
    """Systems of a level on a device; `torch_kernel` makes it, with what an algorithm needs and no more.

    Images are warped to k pixels, at `matrix (k, v)` times the shape plus `fixed (k, 2)`: the f chosen pixels,
    which are `own (f,)` of them, and their `neighbours (2, 2, f)`. `basis (f c, m)` is A there, `spread` is A', and
    `on_frame` is A' on the whole frame. The slopes of the mean are `mean_slopes (2, 1, f, c)`; `basis_mean` is
    A'Jabar `(m, n)`, `basis_basis` is A'JA `(m, m n)`, `slope_rows (m, 2 f c)` are the slopes of A, and `moving`
    the products with them. With `panels (f,)`, what does not agree with the model is weighted down:
    kernels/robust.py. `order` is that of the pixels, and `pixel_loops` has the functions of `torch_pixels`.
    """

    level: Level
    subspace: Subspace
    pixel_loops: Any
    matrix: Array
    fixed: Array
    own: Array
    neighbours: Array
    steps: Array
    basis: Factor
    spread: Factor
    mean: Array
    pairs: _Pairs
    products: Callable[[Array], Array]
    mean_slopes: Array
    mean_mean: Array
    basis_mean: Array | None = None
    basis_basis: Array | None = None
    slope_rows: Factor | None = None
    on_frame: Factor | None = None
    moving: Callable[[Array], Array] | None = None
    panels: Array | None = None
    chosen: Array | None = None
    order: PixelOrder | None = None

    def system(self, images: Any, shapes: Array, coordinates: Array, needs: Needs) -> System:
        """The System of B views on the device with shapes `(B, v, 2)` and appearance coordinates `(B, m)`."""
        most = self._most(shapes, needs)
        parts = [slice(start, start + most) for start in range(0, len(shapes), most)]
        if len(parts) == 1:
            return self._some(images, shapes, coordinates, needs)
        xp = namespace(shapes)
        every = xp.arange(len(shapes), device=shapes.device)
        systems = [self._some(images.of(every[s]), shapes[s], coordinates[s], needs) for s in parts]
        return united(systems, xp.concatenate)

    def appearance(self, images: Any, shapes: Array) -> Array:
        """Appearance coordinates `(B, m)` that explain the images best: A'(i - abar)."""
        nothing = shapes.new_zeros((len(shapes), len(self.subspace.variances)))
        needs = Needs(image=False, model=False, appearance=False)
        return self.system(images, shapes, nothing, needs).needed("basis_residual")  # eq. 16

    def threaded(self, jobs: int) -> TorchKernel:
        """Itself: the device has its own threads."""
        return self

    def residual(self, images: Any, shapes: Array) -> Array:
        """E = i - abar `(B, f c)`, weighted down where robust."""
        e, _ = self._seen(self.warped(images, shapes), None, slopes=False)
        return e.flatten(1)

    def warped(self, images: Any, shapes: Array) -> Array:
        """The images at all pixels that matter `(B, k, c)`."""
        # All images in one product: two columns an image would waste most of what a device computes at once.
        planes = shapes.float().mT.contiguous() @ self.matrix.T
        positions = planes.mT + self.fixed
        return self.pixel_loops.warp(images.pixels, images.rows, images.sizes, positions)

    def _most(self, shapes: Array, needs: Needs) -> int:
        """Images that are worked on at once: as many as there is memory for."""
        if shapes.device.type != "cuda":
            return 64
        sides = 2 * (1 + needs.image + (needs.model and needs.appearance)) + 6 * (needs.curvature is not None)
        floats = (self.mean.numel() + len(self.matrix)) * (2 + sides) + 8 * len(self.matrix)
        floats += 7 * len(self.level.motion.frame.triangles) * len(self.subspace.variances)
        if len(shapes) * 4 * floats < _SMALL:
            return len(shapes)
        return max(1, int(room_on(shapes.device) * 0.6 / (4 * floats)))

    def _seen(self, values: Array, c: Array | None, *, slopes: bool) -> tuple[Array, Array | None]:
        """What is seen of images at the chosen pixels: e `(B, f, c)`, and their slopes if these are wanted."""
        neighbours = self.neighbours if slopes else None
        e, g = self.pixel_loops.seen(values, self.own, self.mean, neighbours, self.steps)
        return (e, g) if self.panels is None else self._weighed_down(e, g, c)

    def _some(self, images: Any, shapes: Array, c: Array, needs: Needs) -> System:
        values = self.warped(images, shapes)
        e, g = self._seen(values, c if needs.appearance else None, slopes=needs.image)
        h, moving = None, needs.model and needs.appearance
        appearance = self._appearance(c) if moving or (needs.curvature and needs.appearance) else None
        if needs.model:
            h = self._model_slopes(c, appearance) if moving else self.mean_slopes
        sums = self.pixel_loops.sums(e, g, h, moving=moving)
        # All that is computed with e = i - abar moves to r = e - A c, because A is orthonormal.
        Ae = self.basis.times(e.flatten(1))[:, : c.shape[1]].double()
        Ar = Ae - c  # eq. 36, 41
        ee = sums.values.double().sum(axis=1)
        found = {"residual_residual": ee - ((Ae + Ar) * c).sum(axis=1), "basis_residual": Ar}
        if g is not None:
            found["basis_image"] = Ai = self.products(g).double()  # eq. 39, 44
            found["image_image"] = self.pairs.square(sums.image_image)
            found["image_residual"] = self.pairs.along(sums.image_values) - _transposed_times(Ai, c)
        if h is not None:
            found["basis_model"] = Aa = self._basis_model(c, needs)  # eq. 39, 44
            found["model_residual"] = self.pairs.along(sums.model_values) - _transposed_times(Aa, c)
            found["model_model"] = self.mean_mean.expand(len(c), -1, -1)
            if moving:
                found["model_model"] = self.pairs.square(sums.model_model)
            if g is not None:
                found["image_model"] = self.pairs.between(sums.image_model)
        system = System(**found)
        if needs.curvature is None:
            return system
        r = e.flatten(1)
        if needs.appearance:
            r = r - c.float() @ self.spread.whole
        return self._curved(system, r.reshape(e.shape), values, appearance, needs)

    def _curved(
        self, system: System, r: Array, values: Array, appearance: Array | None, needs: Needs
    ) -> System:
        """The System with second derivatives: Newton's methods alone want them. The whole frame was looked at."""
        assert needs.curvature is not None
        w0, w = needs.curvature
        y = w0 * r
        if np.any(w):
            weighted = system.needed("basis_residual") * y.new_tensor(w)
            y = y - (weighted.float() @ self.spread.whole).reshape(y.shape)
        if appearance is None:
            appearance = self._appearance(system.needed("basis_residual"))
        frame = (*self._stencil, self.chosen)

        def bent(side: Array) -> Array:
            return self.pairs.square(torch_pixels.bends(side, *frame, self.steps, y))

        moving = None if not needs.moving_basis else _made(self.moving)(r)
        return replace(
            system,
            image_curvature=bent(values) if needs.image else None,
            model_curvature=bent(appearance) if needs.model else None,
            basis_curvature=moving,
        )

    @property
    def _stencil(self) -> tuple[Array, Array]:
        """That of the whole frame."""
        neighbours, steps = self.level.motion.frame.stencil
        device = self.mean.device
        xp = namespace(self.mean)
        return (
            xp.as_tensor(np.array(neighbours), device=device).long(),
            xp.as_tensor(np.array(steps), device=device),
        )

    def _appearance(self, c: Array) -> Array:
        """The model's appearance on the whole frame `(B, F, c)`."""
        mean = _float32(self.level.appearance.mean, c)
        if self.on_frame is None:
            return mean.reshape(1, -1, self.level.channels).expand(len(c), -1, -1)
        if self.subspace.to_model is not None:
            c = c @ beside(self.subspace.to_model, c).T
        return (self.on_frame.times(_padded_columns(c.float())) + mean).reshape(
            len(c), -1, self.level.channels
        )

    def _model_slopes(self, c: Array, appearance: Array | None) -> Array:
        """Slopes of the model's appearance `(2, B, f, c)`."""
        if self.slope_rows is None:
            _, h = self.pixel_loops.seen(appearance, self.own, 0 * self.mean, self.neighbours, self.steps)
            return h
        moved = self.slope_rows.times(c.float()).reshape(len(c), *self.mean_slopes[:, 0].shape)
        return (self.mean_slopes + moved.transpose(0, 1)).contiguous()

    def _basis_model(self, c: Array, needs: Needs) -> Array:
        """A'Ja `(B, m, n)`: linear in c, and no pixel is needed."""
        fixed = _made(self.basis_mean)
        if not needs.appearance:
            return fixed.expand(len(c), -1, -1)
        return fixed + (c.float() @ _made(self.basis_basis)).double().reshape(len(c), *fixed.shape)

    def _weighed_down(self, e: Array, g: Array | None, c: Array | None) -> tuple[Array, Array | None]:
        """What is seen, weighed down where c `(B, m)`, the best if None, does not agree: see kernels/robust.py."""
        xp = namespace(e)
        flat = e.flatten(1)
        if c is None:
            known_modes = len(self.subspace.variances)
            c = self.basis.times(flat)[:, :known_modes] * _float32(self.subspace.shrinkage, e)
        known = (c.float() @ self.spread.whole).reshape(e.shape)
        expected = centred(self.subspace.mean, self.level.channels)
        mean = e.new_tensor(_made(self.order).spread_channels(expected, self.level.channels)).reshape(
            e.shape[1:]
        )
        i, a = e + mean, known + mean
        panels, live = _made(self.panels), (self.own >= 0).double()
        count = int(panels.max()) + 1

        def by_panel(values: Array) -> Array:
            out = xp.zeros((len(values), count), dtype=xp.float64, device=e.device)
            return out.index_add_(1, panels, values.double())

        ia, ii, aa = (by_panel((x * y).sum(-1)) for x, y in ((i, a), (i, i), (a, a)))
        together = ii + aa
        flat_panel = together <= 1e-9 * xp.clip(together.amax(1, keepdim=True), 1e-30, None)
        agreement = xp.where(flat_panel, 1.0, 2 * ia / xp.where(flat_panel, 1.0, together))
        order = agreement.argsort(1)
        reached = xp.bincount(panels, weights=live, minlength=count)[order].cumsum(1)
        middle = xp.searchsorted(reached, reached[:, -1:] / 2)
        usual = USUAL * agreement.gather(1, order.gather(1, middle))
        roots = xp.where(usual > 0, xp.clip(agreement / xp.where(usual > 0, usual, 1.0), 0.0, 1.0), 1.0)
        root = roots[:, panels].float()[:, :, None]
        return known + root * (e - known), None if g is None else root * g


@dataclass(frozen=True, eq=False)
class TorchProjected:
    """Systems for project-out inverse composition: kernels/projected.py says how, and descents.py for its stages.

    Every stage has `rows (f c, n)`, which are M Ja / w0, and Ja'M Ja `(n, n)`. After the last stage, the one of the
    mean's own slopes goes on.
    """

    kernel: TorchKernel
    w0: float
    stages: tuple[tuple[Array, Array], ...]

    def system(self, images: Any, shapes: Array, coordinates: Array, needs: Needs) -> System:
        if needs.image or not needs.model:
            return self.kernel.system(images, shapes, coordinates, needs)
        system = System()
        if needs.cost:
            system = self.kernel.system(images, shapes, coordinates, needs.cost_alone())
        rows, model = self.stages[min(needs.stage, len(self.stages) - 1)]
        moments = (self.kernel.residual(images, shapes) @ rows).double()
        return replace(
            system,
            projected_model=model.expand(len(shapes), -1, -1),
            projected_residual=self.w0 * moments,  # eq. 59
        )

    def appearance(self, images: Any, shapes: Array) -> Array:
        return self.kernel.appearance(images, shapes)

    def threaded(self, jobs: int) -> TorchProjected:
        return self


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
        basis=factor(_padded_columns(basis.T), "float32" if precision == "float32" else "tf32x3"),
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
        components = _padded_columns(put(level.appearance.components).T).T
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

    basis_mean = _made(kernel.basis_mean)
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
        rows = _made(kernel.order).spread_channels(rows, kernel.level.channels)
        stages.append((J.new_tensor(rows).T.contiguous(), model.new_tensor(own_model)))
    return TorchProjected(kernel, w0, (*stages, (J.contiguous(), model)))


def room_on(device: Any) -> int:
    """Bytes that a CUDA device has for us: what is free, and what PyTorch holds without using it."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + held)


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


def _pairs_of(warp: Array, precision: Precision) -> _Pairs:
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
    return _Pairs(
        xp.cat([x, y]),
        factor(_padded_columns(symmetric), precision),
        factor(_padded_columns(every), precision),
        unfold,
    )


def _of_long_rows(left: Array, right: Array) -> Array:
    """Left `(B, k)` times right `(k, j)`, for a large k and a small j: in pieces, for as many parts of a device."""
    k, j = right.shape
    if k % _PIECES:
        return left @ right
    pieces = left.unflatten(1, (_PIECES, k // _PIECES)).transpose(0, 1)
    return (pieces @ right.reshape(_PIECES, k // _PIECES, j)).sum(axis=0)


_PIECES = 16


def _padded_columns(right: Array) -> Array:
    """A right side `(k, j)` with columns of zeros, for matrix units: see `torch_products`."""
    xp = namespace(right)
    return xp.nn.functional.pad(right, (0, padded(right.shape[1]) - right.shape[1]))


def _float32(values: Any, like: Array) -> Array:
    return beside(values, like).float()


def _made(part: Any) -> Any:
    if part is None:
        raise ValueError("this kernel was asked for more than it was made for: make it with all its needs.")
    return part


def _transposed_times(matrices: Array, vectors: Array) -> Array:
    """A'x `(B, n)` for matrices `(B, m, n)` and vectors `(B, m)`."""
    return (vectors[:, None, :] @ matrices)[:, 0]
