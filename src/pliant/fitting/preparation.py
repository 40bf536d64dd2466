"""What is made of a level before an image is seen, for an algorithm and a device: the weights and the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pliant.appearance.subspace import Subspace
from pliant.arrays import Float64, Int32
from pliant.devices import ON_TORCH, find_device
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.cost import SSD, Weights, weigh
from pliant.fitting.loop import Iterated, Problem
from pliant.fitting.method import CascadedRegression
from pliant.fitting.quadratic import needs_of
from pliant.kernels.system import Kernel, Needs
from pliant.level import Level
from pliant.motion import PiecewiseAffine
from pliant.namespace import Array, beside, full
from pliant.settings import Fitting

if TYPE_CHECKING:
    from pliant.kernels.cpu import CpuKernel


COARSE = Algorithm.parse("po:map-inv-cr")
"""What levels are fitted by that have learned cascaded regression, if settings say so."""


def make_kernel(
    settings: Fitting,
    level: Level,
    subspace: Subspace,
    pixels: Int32 | None,
    algorithm: Algorithm,
    weights: Weights,
    jobs: int,
    *,
    robust: bool = False,
) -> Kernel:
    """What touches the pixels, on the device that settings name; any kernel may be `robust`.

    `cpu` is compiled, `cuda` and `torch` are PyTorch's, and `reference` is NumPy in float64.
    """
    if settings.device in ON_TORCH:
        return _kernel_on_torch(settings, level, subspace, pixels, algorithm, weights, robust)
    if settings.device == "reference":
        from pliant.kernels.reference import ReferenceKernel

        return ReferenceKernel(level, subspace, pixels, robust=robust)
    from pliant.kernels.cpu import cpu_kernel

    kernel = cpu_kernel(level, subspace, pixels, needs_of(algorithm, weights), jobs, robust=robust)
    if isinstance(algorithm.method, CascadedRegression) and level.descents is not None:
        from pliant.kernels.descents import descent_kernel

        return descent_kernel(kernel, level.descents, pixels, weights.residual, weights.appearance)
    return suited(kernel, algorithm, weights)


def _kernel_on_torch(
    settings: Fitting,
    level: Level,
    subspace: Subspace,
    pixels: Int32 | None,
    algorithm: Algorithm,
    weights: Weights,
    robust: bool,
) -> Kernel:
    from pliant.kernels.torch_setup import torch_kernel, torch_projected

    needs, where = needs_of(algorithm, weights), find_device(settings.device)
    kernel = torch_kernel(level, subspace, pixels, needs, where, settings.precision, robust=robust)
    learned = isinstance(algorithm.method, CascadedRegression) and level.descents is not None
    if not learned and not _is_fixed(needs, weights):
        return kernel
    descents = level.descents if learned else None
    return torch_projected(kernel, weights.residual, weights.appearance, descents, pixels)


def check_learned(algorithm: Algorithm, levels: Sequence[Level], device: str) -> None:
    """A sentence, if an algorithm wants what no level has learned, or what a device cannot do."""
    if not isinstance(algorithm.method, CascadedRegression):
        return
    if not any(level.descents is not None for level in levels):
        raise ValueError(
            f"'{algorithm}' uses cascaded regression, but this model has not learned it: train it with "
            "cascade=True, or use another algorithm."
        )
    if device == "reference" or not isinstance(levels[0].motion, PiecewiseAffine):
        raise ValueError(
            f"'{algorithm}' only works with piecewise affine models, and not on the device reference: use another "
            "algorithm."
        )


def suited(kernel: CpuKernel, algorithm: Algorithm, weights: Weights) -> Kernel:
    """The kernel itself, or the one for algorithms that look at slopes of the mean, and nothing that changes."""
    from pliant.kernels.projected import projected_kernel

    if not _is_fixed(needs_of(algorithm, weights), weights):
        return kernel
    return projected_kernel(kernel, weights.residual, weights.appearance)


def _is_fixed(needs: Needs, weights: Weights) -> bool:
    """Whether an algorithm looks at slopes of the mean alone, which do not change."""
    changing = needs.image or needs.appearance or needs.curvature is not None
    return not changing and weights.residual != 0


def weights_of(algorithm: Algorithm, level: Level, subspace: Subspace) -> Weights:
    weights = weigh(algorithm.cost, level.shape.eigenvalues, subspace.variances, subspace.noise)
    if algorithm.cost == SSD("ridge"):
        # On sampled pixels the coordinates are not the parameters: their variances say what a ridge is there.
        return replace(weights, appearance_precision=1 / subspace.variances)
    return weights


def first_coordinates(problem: Problem, subspace: Subspace, images: Any, shapes: Array) -> Array:
    """The best appearance for the start, if it is an unknown; nothing for project-out."""
    weights = problem.weights
    if not weights.solves_appearance:
        return full((len(shapes), len(subspace.variances)), 0.0, shapes)
    best = problem.kernel.appearance(images, shapes)
    precision = beside(weights.appearance_precision, best)
    return best * weights.residual / (weights.residual + precision)


def appearance_of(problem: Problem, subspace: Subspace, ended: Iterated) -> Float64:
    """The model's appearance parameters `(B, m)`; project-out has them from the image where it ended."""
    solved = problem.weights.solves_appearance
    return subspace.model_parameters(ended.coordinates if solved else ended.explained)
