"""Systems for project-out inverse composition with Gauss-Newton, at the price of a look at the image.

The model is its mean and does not move, so Ja and M = w0 I - A diag(w) A' are known before an image is seen. With
w0 J = M Ja computed once, Ja'M r = w0 J'r needs n products with the residual, and A itself is not read. (The paper
says so in the footnote to equation 59.)
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
    """Systems with Ja'M Ja `(n, n)`, and Ja'M r from the `rows (n, V c LANES)` of J = M Ja / w0."""

    kernel: CpuKernel
    w0: float
    rows: Float32
    projected_model: Float64

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """What an iteration looks at; r'r and A'r are there if the cost is asked for."""
        if needs.image or not needs.model:
            # Not for an iteration: someone weighs where the fit has ended, or wants its cost.
            return self.kernel.system(images, shapes, coordinates, needs)
        system = System()
        if needs.cost:
            system = self.kernel.system(images, shapes, coordinates, needs.cost_alone())
        residuals = (self.kernel.residual(image, s) for image, s in zip(images, shapes, strict=True))
        moments = np.stack([_products(self.rows, e.reshape(-1)) for e in residuals])
        return replace(
            system,
            projected_model=np.broadcast_to(self.projected_model, (len(images), *self.projected_model.shape)),
            projected_residual=self.w0 * moments,  # eq. 59
        )

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        return self.kernel.appearance(images, shapes)

    def threaded(self, jobs: int) -> ProjectedKernel:
        return replace(self, kernel=self.kernel.threaded(jobs))


def projected_kernel(kernel: CpuKernel, w0: float, w: Float64) -> ProjectedKernel:
    """The kernel for the metric w0 I - A diag(w) A', `w (m,)`; w0 is not zero."""
    mesh, basis_mean = kernel.mesh, kernel.basis_mean
    if basis_mean is None:
        raise ValueError("this kernel was made without slopes of the model, but it projects these.")
    # Ja as blocks (n, V, c, LANES).
    J = np.einsum("vcal,vlan->nvcl", kernel.mean_slopes, mesh.at_lanes(), optimize=True)
    weighted = w[:, None] / w0 * basis_mean
    J -= kernel.combined(weighted.T)
    within = basis_mean.T @ weighted
    rows = np.ascontiguousarray(J.reshape(len(J), -1), dtype=np.float32)
    return ProjectedKernel(kernel, w0, rows, w0 * (kernel.mean_mean - within))


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
