"""The record in which kernels and algorithms meet: inner products over pixels, and nothing else.

With `i` the warped image, `a` the model's appearance, `r = i - a`, `Ji` and `Ja` their derivatives by a
small warp and `A` the appearance basis, a kernel computes what is below; algorithms see only that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from pliant.arrays import Concise, Float32, Float64, Floats

Product = Float64 | None
"""An inner product, or None if the kernel was not asked for it; `System.needed` has it, or a sentence."""


@dataclass(frozen=True)
class Needs:
    """Which derivatives an algorithm looks at.

    `appearance` says that c is an unknown: without it, c is zero and a is the mean. `curvature` asks for second
    derivatives along y = w0 r - A diag(w) A'r, the residual in the algorithm's metric, given as (w0, w `(m,)`);
    `moving_basis` asks for JA'r beside it. `cost` asks for r'r and A'r even where a step can be had without them.
    `stage` is the number of the iteration, for kernels that have learned another step for each.
    """

    image: bool = True
    model: bool = True
    appearance: bool = True
    curvature: tuple[float, Float64] | None = None
    moving_basis: bool = False
    cost: bool = True
    stage: int = 0

    def cost_alone(self) -> Needs:
        """What it takes to know the cost of an estimate, and no step from it."""
        return replace(self, image=False, model=False, curvature=None, moving_basis=False, cost=True)


@dataclass(frozen=True, eq=False, repr=False)
class System(Concise):
    """Inner products for a batch of B images, with n shape and m appearance parameters.

    What the kernel was not asked for is None, and `needed` says so in a sentence. A kernel which applies the metric
    M = w0 I - A diag(w) A' of a cost by itself has Ja'M Ja and Ja'M r in place of all products with Ja.
    """

    image_image: Product = None
    """Ji'Ji `(B, n, n)`"""
    image_model: Product = None
    """Ji'Ja `(B, n, n)`"""
    model_model: Product = None
    """Ja'Ja `(B, n, n)`"""
    image_residual: Product = None
    """Ji'r `(B, n)`"""
    model_residual: Product = None
    """Ja'r `(B, n)`"""
    residual_residual: Product = None
    """r'r `(B,)`"""
    basis_image: Product = None
    """A'Ji `(B, m, n)`"""
    basis_model: Product = None
    """A'Ja `(B, m, n)`"""
    basis_residual: Product = None
    """A'r `(B, m)`"""
    image_curvature: Product = None
    """Σ y W'∇²i W `(B, n, n)`, over all pixels and channels"""
    model_curvature: Product = None
    """Σ y W'∇²a W `(B, n, n)`"""
    basis_curvature: Product = None
    """JA'r `(B, m, n)`: the derivative of A'r when the small warp moves the basis"""
    projected_model: Product = None
    """Ja'M Ja `(B, n, n)`"""
    projected_residual: Product = None
    """Ja'M r `(B, n)`"""

    @property
    def model_image(self) -> Product:
        """Ja'Ji `(B, n, n)`"""
        return None if self.image_model is None else self.image_model.mT

    def needed(self, name: str) -> Float64:
        """What is called `name`, or a sentence if the kernel was not asked for it."""
        values: Float64 | None = getattr(self, name)
        if values is None:
            raise ValueError(f"the kernel was not asked for {name}: add it to Needs.")
        return values


def united(systems: Sequence[System], unite: Callable[[list[Float64]], Any]) -> System:
    """One System of several alike: `np.stack` unites those of single images, `np.concatenate` those of batches."""
    names = [field.name for field in fields(System) if getattr(systems[0], field.name) is not None]
    return System(**{name: unite([getattr(system, name) for system in systems]) for name in names})


class Kernel(Protocol):
    """What fills Systems; see `kernels/reference.py` for what the numbers are."""

    def system(
        self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs
    ) -> System: ...

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64: ...

    def threaded(self, jobs: int) -> Kernel: ...
