"""Systems on the CPU: compiled, with what a mesh makes sparse kept sparse, and the basis read once.

A piecewise affine warp moves a pixel with three vertices, so Ji = G S, where G has six non-zeros in a row
(three vertices, two axes) and S is the shape basis. A'Ji = (A'G) S, and a row of G is a slope (which varies
by channel) times a barycentric weight (which does not): three products for each element of A, and seven
for each pixel, whatever the number of shape parameters. Ji'Ji = S'(G'G)S comes from 6 x 6 blocks, one a
triangle. The model's appearance a = abar + A c rides on the same pass, and A'Ja is linear in c: once A'JA
is known, it needs no pixels. In patches, a pixel moves with one vertex: what is three or six above is one or two.
In a spline it moves with all of them, and nothing is sparse: kernels/dense.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.subspace import Subspace, restrict
from pliant.arrays import Float32, Float64, Floats, Int32, Scalar
from pliant.kernels import mesh_loops
from pliant.kernels.basis_pass import LANES, pass_with_values
from pliant.kernels.dense import dense_mesh
from pliant.kernels.mesh import Mesh, make_mesh
from pliant.kernels.panels import aligned, empty, pack
from pliant.kernels.robust import centred, roots_in, weigh_down
from pliant.kernels.system import Needs, System, united
from pliant.level import Level
from pliant.motion import Sparse
from pliant.threads import shared_pool

_GROUP = 8
"""Images that share a panel while it is in the cache."""


@dataclass(frozen=True, eq=False)
class CpuKernel:
    """Systems of a level; `cpu_kernel` makes it, with what an algorithm needs and no more.

    What is None was not needed, and a System that asks for it after all gets a sentence.
    `panels` is A, `mean (V, c, 1, LANES)` and `mean_slopes (V, c, 2, LANES)` are those of abar. `mean_mean` is
    Jabar'Jabar `(n, n)`, `basis_mean` is A'Jabar `(m, n)`, and `basis_basis` is A'JA `(m, n, m)`, the last index
    being the component that moves. `slope_rows (m, V c 2 LANES)` are the slopes of A, where some pixels are
    chosen and their neighbours are not; `slope_panels` are slopes of A to pass over. `jobs` threads share a pass.
    With `centred_mean (V, c, 1, LANES)`, what does not agree with the model is weighted down: kernels/robust.py.
    """

    mesh: Mesh
    subspace: Subspace
    panels: Float32
    mean: Float32
    mean_slopes: Float32
    mean_mean: Float64
    basis_mean: Float64 | None = None
    basis_basis: Float32 | None = None
    slope_rows: Float32 | None = None
    slope_panels: Float32 | None = None
    jobs: int = 1
    centred_mean: Float32 | None = None

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """The System of images `(h, w, c)` with shapes `(B, v, 2)` and appearance coordinates `(B, m)`."""
        groups = [slice(start, start + _GROUP) for start in range(0, len(images), _GROUP)]
        systems = [self._group(images[g], shapes[g], coordinates[g], needs) for g in groups]
        return systems[0] if len(systems) == 1 else united(systems, np.concatenate)

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        """Appearance coordinates `(B, m)` that explain the images best: A'(i - abar)."""
        nothing = np.zeros((len(images), len(self.subspace.variances)))
        needs = Needs(image=False, model=False, appearance=False)
        return self.system(images, shapes, nothing, needs).needed("basis_residual")  # eq. 16

    def threaded(self, jobs: int) -> CpuKernel:
        return replace(self, jobs=jobs)

    def residual(self, image: Float32, shape: Floats) -> Float32:
        """The block e = i - abar `(V, c, 1, LANES)`."""
        out = self.mesh.blocks(1, 1)
        self.mesh.look(image, shape, self.mean, out[0], slopes=False)
        if self.centred_mean is not None:
            self._weigh_down(out, None)
        return np.asarray(out[0])

    def combined(self, coefficients: Floats) -> Float32:
        """A times coefficients `(b, m)`, as blocks `(b, V, c, LANES)`."""
        out, nothing = self.mesh.blocks(len(coefficients), 1), self.mesh.blocks(len(coefficients), 1)
        out[...] = nothing[...] = 0
        self._pass(nothing, coefficients, out[:, :, :, 0])
        return out[:, :, :, 0]

    def _group(self, images: Sequence[Float32], shapes: Floats, c: Floats, needs: Needs) -> System:
        mesh, batch = self.mesh, len(images)
        # Fields of what is seen of an image: its slopes along x and y, if they are needed, and then e.
        last = 2 if needs.image else 0
        seen = mesh.blocks(batch, last + 1)
        warped = [
            mesh.look(image, shape, self.mean, out, slopes=needs.image)
            for image, shape, out in zip(images, shapes, seen, strict=True)
        ]
        if self.centred_mean is not None:
            self._weigh_down(seen, c if needs.appearance else None)
        modelled = self._room_for_appearance(batch, needs)
        AG, Ae = self._pass(seen, c, modelled)
        # All that is computed with e = i - abar moves to r = e - A c, because A is orthonormal.
        Ar = Ae - c  # eq. 36, 41
        ee = mesh_loops.squares_of_all(seen, last)
        found = {"residual_residual": ee - np.sum((Ae + Ar) * c, axis=1), "basis_residual": Ar}
        if needs.image:
            found["basis_image"] = Ai = mesh.by_parameter(AG)  # eq. 39, 44
            found["image_image"] = mesh.grams(seen, seen)
            found["image_residual"] = mesh.moments(seen, seen, last) - _transposed_times(Ai, c)
        if needs.model:
            slopes = self._model_slopes(c, modelled, needs)
            found["basis_model"] = Aa = self._basis_model(c, needs)  # eq. 39, 44
            found["model_residual"] = mesh.moments(slopes, seen, last) - _transposed_times(Aa, c)
            found["model_model"] = np.broadcast_to(self.mean_mean, (batch, *self.mean_mean.shape))
            if needs.appearance:
                found["model_model"] = mesh.grams(slopes, slopes)
            if needs.image:
                found["image_model"] = mesh.grams(seen, slopes)
        system = System(**found)
        if needs.curvature is None:
            return system
        # Second differences reach farther than first ones: they want the whole frame.
        whole_image: Sequence[Float32] = []
        if needs.image:
            frame, pairs = mesh.on_frame(), zip(images, shapes, strict=True)
            whole_image = warped if mesh.everywhere else [frame.warped(*pair) for pair in pairs]
        whole_model: Sequence[Float32] = []
        if needs.model:
            known = mesh.everywhere and needs.appearance
            whole_model = (
                [mesh.gathered(values) for values in modelled] if known else self._whole_appearance(c, needs)
            )
        r = aligned(seen[:, :, :, last])
        if needs.appearance:
            r -= modelled
            r += self.mean[:, :, 0]
        return self._curved(system, r, whole_image, whole_model, needs)

    def _curved(
        self, system: System, r: Float32, image: Sequence[Float32], model: Sequence[Float32], needs: Needs
    ) -> System:
        """The System with second derivatives of what is on the whole frame: Newton's methods alone want them."""
        assert needs.curvature is not None
        w0, w = needs.curvature
        y = np.float32(w0) * r
        if np.any(w):
            y -= self.combined(w * system.needed("basis_residual"))
        along = [self.mesh.gathered(values) for values in y]

        def bent(side: Sequence[Float32]) -> Float64 | None:
            if not side:
                return None
            return np.stack([self.mesh.bent(values, y) for values, y in zip(side, along, strict=True)])

        moving = self._moving_basis(r) if needs.moving_basis else None
        return replace(
            system, image_curvature=bent(image), model_curvature=bent(model), basis_curvature=moving
        )

    def _weigh_down(self, seen: Float32, c: Floats | None) -> None:
        """Weigh down what is seen `(b, V, c, k, LANES)` where c `(b, m)`, the best if None, does not agree."""
        layout, mean, last = self.mesh.layout, _made(self.centred_mean), seen.shape[3] - 1
        if c is None:
            values, nothing = aligned(seen[:, :, :, last:]), empty(0, *self.mean.shape[:2], LANES)
            c = self._pass(values, np.zeros((len(seen), 0)), nothing)[1] * self.subspace.shrinkage
        for block, known in zip(seen, self.combined(c), strict=True):
            weigh_down(block, known, roots_in(layout, block, last, known, mean), layout.starts, last)

    def _pass(self, seen: Float32, c: Floats, modelled: Float32) -> tuple[Float64, Float64]:
        """A'G `(b, rows, m)` if slopes are seen, and A'e `(b, m)`; what is in `modelled` grows by A c."""
        layout, panels = self.mesh.layout, self.panels
        coefficients = (c if len(modelled) else c[:, :0]).astype(np.float32)
        with_slopes = seen.shape[3] > 1
        E = np.zeros((len(seen), len(self.subspace.variances)))
        G = np.zeros((len(seen), self.mesh.rows if with_slopes else 0, E.shape[1]))

        def part(span: tuple[int, int], G: Float64, E: Float64) -> None:
            rest = (seen, coefficients, modelled)
            if with_slopes:
                self.mesh.pass_with_slopes(panels, *rest, G, E, span)
            else:
                pass_with_values(panels, layout.starts, *rest, E, span, self.mesh.channels)

        self._over_panels(part, G, E)
        return G, E

    def _moving_basis(self, r: Float32) -> Float64:
        """JA'r `(b, m, n)` for residuals `(b, V, c, LANES)`."""
        mesh, slopes = self.mesh, _made(self.slope_panels)
        G = np.zeros((len(r), mesh.rows, len(self.subspace.variances)))
        self._over_panels(lambda span, G: mesh.pass_over_slopes(slopes, r, G, span), G)
        return mesh.by_parameter(G)

    def _over_panels(self, part: Callable[..., None], *sums: Float64) -> None:
        """Run part(span, *sums) on all panels; each thread has sums of its own, which are added up."""
        layout = self.mesh.layout
        middle = layout.vectors * np.arange(1, self.jobs) / self.jobs
        bounds = [0, *map(int, np.searchsorted(layout.starts, middle)), layout.panels]
        own = [sums, *(tuple(np.zeros_like(total) for total in sums) for _ in range(self.jobs - 1))]
        spans = list(pairwise(bounds))
        others = [shared_pool().submit(part, spans[k], *own[k]) for k in range(1, self.jobs)]
        part(spans[0], *sums)
        for other, more in zip(others, own[1:], strict=True):
            other.result()
            for total, extra in zip(sums, more, strict=True):
                total += extra

    def _room_for_appearance(self, batch: int, needs: Needs) -> Float32:
        """Blocks `(b, V, c, LANES)` that begin as the mean, to grow by A c during the pass; none if not needed."""
        slopes = needs.model and self.mesh.everywhere
        if not needs.appearance or not (slopes or needs.curvature is not None):
            return empty(0, *self.mean.shape[:2], LANES)
        out = empty(batch, *self.mean.shape[:2], LANES)
        out[...] = self.mean[:, :, 0]
        return out

    def _model_slopes(self, c: Floats, modelled: Float32, needs: Needs) -> Float32:
        """Slopes of the model's appearance `(b, V, c, 2, LANES)`; one set for all, if that is the mean's."""
        if not needs.appearance:
            return self.mean_slopes[None]
        if self.mesh.everywhere:
            return self.mesh.slopes_of_all(modelled)
        moved = c.astype(np.float32) @ _made(self.slope_rows)
        return np.asarray(self.mean_slopes + moved.reshape(len(c), *self.mean_slopes.shape))

    def _basis_model(self, c: Floats, needs: Needs) -> Float64:
        """A'Ja `(b, m, n)`: linear in c, and no pixel is needed."""
        fixed = _made(self.basis_mean)
        if not needs.appearance:
            return np.broadcast_to(fixed, (len(c), *fixed.shape))
        moved = c.astype(np.float32) @ _made(self.basis_basis).reshape(fixed.size, c.shape[1]).T
        return np.asarray(fixed + moved.reshape(len(c), *fixed.shape))

    def _whole_appearance(self, c: Floats, needs: Needs) -> Sequence[Float32]:
        """The model's appearance on the whole frame, `(., c)` each."""
        appearance, channels = self.mesh.level.appearance, self.mesh.level.channels
        if not needs.appearance:
            return [np.asarray(appearance.mean).reshape(-1, channels)] * len(c)
        whole = appearance.mean + self.subspace.model_parameters(c).astype(np.float32) @ appearance.components
        return list(whole.reshape(len(c), -1, channels))


def cpu_kernel(
    level: Level,
    subspace: Subspace,
    pixels: Int32 | None,
    needs: Needs,
    jobs: int = 1,
    *,
    robust: bool = False,
) -> CpuKernel:
    """A kernel with all that Systems with these needs ask for; `jobs` threads make it, and share its passes."""
    mesh = make_mesh(level, pixels) if isinstance(level.motion, Sparse) else dense_mesh(level, pixels)
    m = len(subspace.variances)
    mean_slopes = mesh.on_frame().slopes(level.appearance.mean)
    kernel = CpuKernel(
        mesh=mesh,
        subspace=subspace,
        panels=pack(lambda number: mesh.spread(subspace.basis[number]), m, mesh.layout, jobs),
        mean=mesh.spread(subspace.mean),
        mean_slopes=mean_slopes,
        mean_mean=mesh.grams(mean_slopes[None], mean_slopes[None])[0],
        jobs=jobs,
        centred_mean=mesh.spread(centred(subspace.mean, level.channels)) if robust else None,
    )
    if needs.model:
        # One thread: fits are not to depend, not even in their last bits, on how many there are.
        kernel = replace(kernel, basis_mean=_products_with(kernel.threaded(1), [mean_slopes])[0])
    moves = needs.model and needs.appearance
    if moves and mesh.everywhere and level.basis_slopes is not None:
        kernel = replace(kernel, basis_basis=level.basis_slopes)
    if not needs.moving_basis and (not moves or kernel.basis_basis is not None):
        return kernel
    slopes = _slopes_of_components(subspace, mesh.on_frame())
    if moves and kernel.basis_basis is None:
        kernel = replace(kernel, basis_basis=_basis_slopes(kernel, slopes))
    if moves and not mesh.everywhere:
        rows = np.empty((m, mean_slopes.size), dtype=np.float32)
        for number in range(m):
            rows[number] = slopes(number).ravel()
        kernel = replace(kernel, slope_rows=rows)
    if needs.moving_basis:
        kernel = replace(kernel, slope_panels=pack(slopes, m, mesh.layout, jobs))
    return kernel


def basis_slopes(level: Level, jobs: int = 1) -> Float32:
    """A'JA `(m, n, m)` of a level, for its model to keep."""
    subspace = restrict(level.appearance, level.channels, None)
    kernel = cpu_kernel(level, subspace, None, Needs(image=False, model=False), jobs)
    return _basis_slopes(kernel, _slopes_of_components(subspace, kernel.mesh))


def _basis_slopes(kernel: CpuKernel, slopes: Callable[[int], Float32]) -> Float32:
    m = len(kernel.subspace.variances)
    if not m:
        return np.zeros((0, kernel.mesh.level.shape.parameters, 0), dtype=np.float32)

    def products(start: int) -> Float64:
        group = range(start, min(start + _GROUP, m))
        return _products_with(kernel.threaded(1), [slopes(number) for number in group])

    with ThreadPoolExecutor(kernel.jobs) as pool:
        parts = list(pool.map(products, range(0, m, _GROUP)))
    return np.ascontiguousarray(np.moveaxis(np.concatenate(parts), 0, -1), dtype=np.float32)


def _slopes_of_components(subspace: Subspace, frame: Mesh) -> Callable[[int], Float32]:
    """The function that gives the slopes `(V, c, 2, LANES)` of a component, continued to the whole frame."""
    components = np.asarray(frame.level.appearance.components)
    if subspace.to_model is not None:
        components = subspace.to_model.T.astype(np.float32) @ components
    return lambda number: frame.slopes(components[number])


def _products_with(kernel: CpuKernel, slopes: Sequence[Float32]) -> Float64:
    """A'J `(b, m, n)` for b sets of slopes `(V, c, 2, LANES)`."""
    seen = kernel.mesh.blocks(len(slopes), 3)
    for out, given in zip(seen, slopes, strict=True):
        out[:, :, :2], out[:, :, 2] = given, 0
    AG, _ = kernel._pass(seen, np.zeros((len(slopes), 0)), empty(0, *kernel.mean.shape[:2], LANES))
    return kernel.mesh.by_parameter(AG)


def _made(part: NDArray[Scalar] | None) -> NDArray[Scalar]:
    """A part of a kernel, or a sentence if the kernel was made without it."""
    if part is None:
        raise ValueError("this kernel was asked for more than it was made for: make it with all its needs.")
    return part


def _transposed_times(matrices: Float64, vectors: Floats) -> Float64:
    """A'x `(b, n)` for matrices `(b, m, n)` and vectors `(b, m)`."""
    return np.asarray((vectors[:, None, :] @ matrices)[:, 0])
