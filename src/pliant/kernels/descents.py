"""Systems of cascaded regression: project-out inverse composition with slopes that were learned, stage by stage.

The slopes of the mean say what a small warp does to the residual if all else is right. Far from the truth, what it
does on average over many starts is another thing, and a linear regression of residuals on increments tells it
(Tzimiropoulos, "Project-out cascaded regression", 2015). So a stage has its own J in place of Ja, and all else is
as in `projected.py`: w0 (I - A diag(w/w0) A') J is computed once, and A itself is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.kernels.cpu import CpuKernel
from pliant.kernels.projected import ProjectedKernel, projected_kernel
from pliant.kernels.system import Needs, System


@dataclass(frozen=True, eq=False)
class DescentKernel:
    """One kernel for each stage, and the one of the mean's own slopes for what comes after them."""

    stages: tuple[ProjectedKernel, ...]
    after: ProjectedKernel

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """The System of the stage that `needs` is in."""
        stage = self.stages[needs.stage] if needs.stage < len(self.stages) else self.after
        return stage.system(images, shapes, coordinates, needs)

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        return self.after.appearance(images, shapes)

    def threaded(self, jobs: int) -> DescentKernel:
        stages = tuple(stage.threaded(jobs) for stage in self.stages)
        return DescentKernel(stages, self.after.threaded(jobs))


def descent_kernel(
    kernel: CpuKernel, descents: Float32, pixels: Int32 | None, w0: float, w: Float64
) -> DescentKernel:
    """The kernel of learned slopes `(K, n, F c)` on some pixels (None: all), for w0 I - A diag(w) A'."""
    channels = kernel.mesh.level.channels
    stages = []
    for slopes in descents:
        if pixels is not None:
            by_pixel = slopes.reshape(len(slopes), -1, channels)
            slopes = by_pixel[:, pixels].reshape(len(slopes), -1)
        projected, model = project_slopes(slopes, kernel.subspace.basis, w0, w)
        rows = np.stack([kernel.mesh.spread(row).reshape(-1) for row in projected])
        stages.append(ProjectedKernel(kernel, w0, rows, model))
    return DescentKernel(tuple(stages), projected_kernel(kernel, w0, w))


def project_slopes(slopes: Float32, basis: Float32, w0: float, w: Float64) -> tuple[Float32, Float64]:
    """M J' / w0 `(n, d)` of slopes `(n, d)`, and J'M J `(n, n)`, where M = w0 I - A diag(w) A', `basis (m, d)`."""
    within = np.asarray(basis @ slopes.T, dtype=np.float64)
    weighted = (w / w0)[:, None] * within
    projected = slopes - (weighted.T @ basis).astype(np.float32)
    model = w0 * (slopes.astype(np.float64) @ slopes.T.astype(np.float64) - within.T @ weighted)
    return projected, (model + model.T) / 2
