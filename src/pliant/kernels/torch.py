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
from pliant.kernels import torch_pixels
from pliant.kernels.robust import USUAL, centred
from pliant.kernels.system import Needs, System, united
from pliant.kernels.torch_products import (
    Factor,
    PixelOrder,
    of_long_rows,
    padded,
)
from pliant.level import Level
from pliant.namespace import Array, beside, namespace

_SMALL = 2**29
"""Bytes that a device has in any case: to ask for the room that there is takes longer than some products."""


@dataclass(frozen=True, eq=False)
class Pairs:
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
        return of_long_rows(sums.flatten(1), self.single).double()

    def square(self, sums: Array) -> Array:
        """J'J `(B, n, n)` from sums `(B, 3, f)`."""
        return self.symmetric.times(sums.flatten(1)).double()[:, self.unfold]

    def between(self, sums: Array) -> Array:
        """J'K `(B, n, n)` from sums `(B, 4, f)`."""
        n = len(self.unfold)
        return self.every.times(sums.flatten(1))[:, : n * n].double().reshape(-1, n, n)


@dataclass(frozen=True, eq=False)
class TorchKernel:
    """Systems of a level on a device; `torch_setup` makes it, with what an algorithm needs and no more.

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
    pairs: Pairs
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

        moving = None if not needs.moving_basis else made(self.moving)(r)
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
        return (self.on_frame.times(padded_columns(c.float())) + mean).reshape(
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
        fixed = made(self.basis_mean)
        if not needs.appearance:
            return fixed.expand(len(c), -1, -1)
        return fixed + (c.float() @ made(self.basis_basis)).double().reshape(len(c), *fixed.shape)

    def _weighed_down(self, e: Array, g: Array | None, c: Array | None) -> tuple[Array, Array | None]:
        """What is seen, weighed down where c `(B, m)`, the best if None, does not agree: see kernels/robust.py."""
        xp = namespace(e)
        flat = e.flatten(1)
        if c is None:
            known_modes = len(self.subspace.variances)
            c = self.basis.times(flat)[:, :known_modes] * _float32(self.subspace.shrinkage, e)
        known = (c.float() @ self.spread.whole).reshape(e.shape)
        expected = centred(self.subspace.mean, self.level.channels)
        mean = e.new_tensor(made(self.order).spread_channels(expected, self.level.channels)).reshape(
            e.shape[1:]
        )
        i, a = e + mean, known + mean
        panels, live = made(self.panels), (self.own >= 0).double()
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


def room_on(device: Any) -> int:
    """Bytes that a CUDA device has for us: what is free, and what PyTorch holds without using it."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + held)


def padded_columns(right: Array) -> Array:
    """A right side `(k, j)` with columns of zeros, for matrix units: see `torch_products`."""
    xp = namespace(right)
    return xp.nn.functional.pad(right, (0, padded(right.shape[1]) - right.shape[1]))


def _float32(values: Any, like: Array) -> Array:
    return beside(values, like).float()


def made(part: Any) -> Any:
    if part is None:
        raise ValueError("this kernel was asked for more than it was made for: make it with all its needs.")
    return part


def _transposed_times(matrices: Array, vectors: Array) -> Array:
    """A'x `(B, n)` for matrices `(B, m, n)` and vectors `(B, m)`."""
    return (vectors[:, None, :] @ matrices)[:, 0]
