"""Systems on a device of PyTorch: many images at a time, with the same record as on the CPU.

What is computed pixel by pixel is in `torch_pixels.py`, or for CUDA in `torch_loops.py`; what is multiplied with A
is in `torch_products.py`, or for matrix units in `torch_halves.py`. All else is small, and in `torch_pairs.py`.
Systems are in float64; nothing in this file waits for the device.
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
from pliant.kernels.torch_pairs import Pairs
from pliant.kernels.torch_products import Factor, PixelOrder
from pliant.level import Level
from pliant.namespace import Array, beside, is_tensor, namespace

_SMALL = 2**29
"""Bytes that a device has in any case: to ask for the room that there is takes longer than some products."""


@dataclass(frozen=True, eq=False)
class TorchKernel:
    """Systems of a level on a device; `torch_setup` makes it, with what an algorithm needs and no more.

    Images are warped to k pixels, which `where` has, and `look` takes values and slopes at the f chosen ones.
    `basis` is A there, for products with what was seen, `spread (m, f c)` is the same, and `blend` is the model's
    appearance on the whole frame. The slopes of the mean are `mean_slopes (2, 1, f, c)`, and `mean_jacobian (f c,
    n)` is Jabar; `basis_mean` is A'Jabar `(m, n)`, `basis_basis` is A'JA `(m, m n)`, `slope_rows (m, 2 f c)` are
    the slopes of A, and `moving` the products with them. `pairs` belong to the sums of `look`, or to those of
    single pixels if these are made `pixelwise`; second derivatives have `bend_pairs`. With `panels (f,)`, what
    does not agree with the model is weighted down: kernels/robust.py. `order` is that of the pixels, `chosen (f,)`
    are their places in the frame, and `stencil` has the neighbours `(2, 2, F)` and steps `(2, F)` of the whole
    frame.
    """

    level: Level
    subspace: Subspace
    where: Any
    look: Any
    basis: Any
    spread: Array
    pairs: Pairs
    products: Callable[[Any], Array]
    mean_slopes: Array
    mean_jacobian: Array
    mean_mean: Array
    order: PixelOrder
    chosen: Array
    stencil: tuple[Array, Array]
    pixelwise: bool = False
    bend_pairs: Pairs | None = None
    basis_mean: Array | None = None
    basis_basis: Array | None = None
    slope_rows: Factor | None = None
    blend: Any = None
    moving: Callable[[Array], Array] | None = None
    panels: Array | None = None

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
        values = self.where.warped(images, shapes)
        return in_float32(self._seen(values, None, None, None, image=False, moving=False)[0])

    def _most(self, shapes: Array, needs: Needs) -> int:
        """Images that are worked on at once: as many as there is memory for."""
        if shapes.device.type != "cuda":
            return 64
        pixels, channels = len(self.level.motion.frame.pixels), self.level.channels
        sides = 2 * (1 + needs.image + (needs.model and needs.appearance)) + 6 * (needs.curvature is not None)
        floats = 2 * pixels * channels * (2 + sides) + 8 * pixels
        floats += 7 * len(self.level.motion.frame.triangles) * len(self.subspace.variances)
        if len(shapes) * 4 * floats < _SMALL:
            return len(shapes)
        return max(1, int(room_on(shapes.device) * 0.6 / (4 * floats)))

    def _seen(
        self,
        values: Array,
        c: Array | None,
        h: Array | None,
        appearance: Array | None,
        *,
        image: bool,
        moving: bool,
    ) -> tuple[Any, Any, torch_pixels.Sums]:
        """What is seen of warped images `(B, k, c)`, as by `look`, weighted down where robust."""
        if not self.pixelwise:
            return self.look(values, h, appearance, image=image, moving=moving)
        e, g, _ = self.look(values, None, None, image=image, moving=False)
        if self.panels is not None:
            e, g = self._weighed_down(e, g, c)
        if appearance is not None:
            h = torch_pixels.slopes(appearance, self.stencil[0][:, :, self.chosen], self.look.steps)
        return e, g, torch_pixels.sums(e, g, h, moving=moving)

    def _some(self, images: Any, shapes: Array, c: Array, needs: Needs) -> System:
        values = self.where.warped(images, shapes)
        moving, h, shown = needs.model and needs.appearance, None, None
        appearance = self._appearance(c) if moving or (needs.curvature and needs.appearance) else None
        if needs.model:
            if moving and self.slope_rows is None:
                shown = appearance
            else:
                h = self._model_slopes(c) if moving else self.mean_slopes
        e, g, sums = self._seen(
            values, c if needs.appearance else None, h, shown, image=needs.image, moving=moving
        )
        # All that is computed with e = i - abar moves to r = e - A c, because A is orthonormal.
        Ae = self.basis.times(flat(e))[:, : c.shape[1]].double()
        Ar = Ae - c  # eq. 36, 41
        ee = sums.values.double().sum(axis=1)
        found = {"residual_residual": ee - ((Ae + Ar) * c).sum(axis=1), "basis_residual": Ar}
        if g is not None:
            found["basis_image"] = Ai = self.products(g).double()  # eq. 39, 44
            found["image_image"] = self.pairs.square(sums.image_image)
            found["image_residual"] = self.pairs.along(sums.image_values) - _transposed_times(Ai, c)
        if needs.model:
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
        r = in_float32(e)
        if needs.appearance:
            r = r - c.float() @ self.spread
        return self._curved(system, r.unflatten(1, (-1, self.level.channels)), values, appearance, needs)

    def _curved(
        self, system: System, r: Array, values: Array, appearance: Array | None, needs: Needs
    ) -> System:
        """The System with second derivatives: Newton's methods alone want them. The whole frame was looked at."""
        assert needs.curvature is not None
        w0, w = needs.curvature
        y = w0 * r
        if np.any(w):
            weighted = system.needed("basis_residual") * y.new_tensor(w)
            y = y - (weighted.float() @ self.spread).reshape(y.shape)
        if appearance is None:
            appearance = self._appearance(system.needed("basis_residual"))
        pairs, steps = made(self.bend_pairs), self.look.steps

        def bent(side: Array) -> Array:
            return pairs.square(torch_pixels.bends(side, *self.stencil, self.chosen, steps, y))

        moving = None if not needs.moving_basis else made(self.moving)(r)
        return replace(
            system,
            image_curvature=bent(values) if needs.image else None,
            model_curvature=bent(appearance) if needs.model else None,
            basis_curvature=moving,
        )

    def _appearance(self, c: Array) -> Array:
        """The model's appearance on the whole frame `(B, F, c)`; compiled products have more pixels at its end."""
        if self.blend is None:
            mean = _float32(self.level.appearance.mean, c)
            return mean.reshape(1, -1, self.level.channels).expand(len(c), -1, -1)
        if self.subspace.to_model is not None:
            c = c @ beside(self.subspace.to_model, c).T
        return self.blend.of(c.float()).unflatten(1, (-1, self.level.channels))

    def _model_slopes(self, c: Array) -> Array:
        """Slopes of the model's appearance at the chosen pixels `(2, B, f, c)`."""
        moved = made(self.slope_rows).times(c.float()).reshape(len(c), *self.mean_slopes[:, 0].shape)
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
        known = (c.float() @ self.spread).reshape(e.shape)
        expected = centred(self.subspace.mean, self.level.channels)
        mean = e.new_tensor(self.order.spread_channels(expected, self.level.channels)).reshape(e.shape[1:])
        i, a = e + mean, known + mean
        panels, live = made(self.panels), (self.look.own >= 0).double()
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


def flat(seen: Any) -> Any:
    """What was seen, as `(B, f c)`: halves are that already."""
    return seen.flatten(1) if is_tensor(seen) else seen


def in_float32(seen: Any) -> Array:
    """What was seen as `(B, f c)` in float32."""
    return seen.flatten(1) if is_tensor(seen) else seen.whole()


def _float32(values: Any, like: Array) -> Array:
    return beside(values, like).float()


def made(part: Any) -> Any:
    if part is None:
        raise ValueError("this kernel was asked for more than it was made for: make it with all its needs.")
    return part


def _transposed_times(matrices: Array, vectors: Array) -> Array:
    """A'x `(B, n)` for matrices `(B, m, n)` and vectors `(B, m)`."""
    return (vectors[:, None, :] @ matrices)[:, 0]
