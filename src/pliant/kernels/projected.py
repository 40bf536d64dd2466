"""Systems for project-out inverse composition with Gauss-Newton, at the price of a look at the image.

The model is its mean and does not move, so Ja and M = w0 I - A diag(w) A' are known before an image is seen. With
w0 J = M Ja computed once, Ja'M r = w0 J'r needs n products with the residual, and A itself is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pliant.arrays import Float32, Float64, Floats
from pliant.compiled import compiled
from pliant.kernels.cpu import CpuKernel
from pliant.kernels.system import Needs, System


@dataclass(frozen=True, eq=False)
class ProjectedKernel:
    """Systems in which J `(n, V c LANES)` stands for Ja, so that A'Ja is zero; `model_model (n, n)` is Ja'J."""

    kernel: CpuKernel
    rows: Float32
    model_model: Float64

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """As all kernels do it; unless asked for what the cost needs, r'r and A'r are not there."""
        if needs.image:
            # Not for an iteration: someone weighs where the fit has ended.
            return self.kernel.system(images, shapes, coordinates, needs)
        n, m, batch = len(self.rows), len(self.kernel.subspace.variances), len(images)
        full = self.kernel.system(images, shapes, coordinates, needs.cost_alone()) if needs.cost else None
        moments = np.zeros((batch, n))
        if needs.model:
            for b in range(batch):
                moments[b] = _products(self.rows, self.kernel.residual(images[b], shapes[b]).reshape(-1))
        square, tall = np.zeros((batch, n, n)), np.zeros((batch, m, n))
        return System(
            image_image=square,
            image_model=square,
            model_model=np.broadcast_to(self.model_model, square.shape),
            image_residual=np.zeros((batch, n)),
            model_residual=moments,
            residual_residual=None if full is None else full.residual_residual,
            basis_image=tall,
            basis_model=tall,
            basis_residual=np.zeros((batch, m)) if full is None else full.basis_residual,
        )

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        return self.kernel.appearance(images, shapes)

    def threaded(self, jobs: int) -> ProjectedKernel:
        return replace(self, kernel=self.kernel.threaded(jobs))


def projected_kernel(kernel: CpuKernel, w0: float, w: Float64) -> ProjectedKernel:
    """The kernel for the metric w0 I - A diag(w) A', `w (m,)`; w0 is not zero."""
    mesh = kernel.mesh
    weights = np.moveaxis(mesh.layout.weights, 1, 0)
    basis = mesh.level.shape.basis.reshape(-1, 2, mesh.level.shape.parameters)
    corners = np.repeat(mesh.layout.corners, np.diff(mesh.layout.starts), axis=0)
    # dW/dp at every lane (V, LANES, 2, n), and with it Ja as blocks (n, V, c, LANES).
    warp = np.einsum("kvl,vkan->vlan", weights, basis[corners], optimize=True).astype(np.float32)
    J = np.einsum("vcal,vlan->nvcl", kernel.mean_slopes, warp, optimize=True)
    J -= kernel.combined((w[:, None] / w0 * kernel.basis_mean).T)
    within = kernel.basis_mean.T @ (w[:, None] / w0 * kernel.basis_mean)
    rows = np.ascontiguousarray(J.reshape(len(J), -1), dtype=np.float32)
    return ProjectedKernel(kernel, rows, kernel.mean_mean - within)


@compiled(fastmath=True)
def _products(rows: Float32, values: Float32) -> Float64:
    """Rows `(n, d)` times values `(d,)`: in float32 over a piece that stays in the cache, in float64 beyond."""
    piece = 2048
    out = np.zeros(len(rows))
    for start in range(0, len(values), piece):
        stop = min(start + piece, len(values))
        part = values[start:stop]
        for k in range(len(rows)):
            row = rows[k, start:stop]
            total = np.float32(0)
            for q in range(stop - start):
                total += row[q] * part[q]
            out[k] += total
    return out
