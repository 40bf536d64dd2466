"""The record in which kernels and algorithms meet: inner products over pixels, and nothing else.

With `i` the warped image, `a` the model's appearance, `r = i - a`, `Ji` and `Ja` their derivatives by a
small warp and `A` the appearance basis, a kernel computes what is below; algorithms see only that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pliant.arrays import Concise, Float32, Float64, Floats


@dataclass(frozen=True)
class Needs:
    """Which derivatives an algorithm looks at.

    `appearance` says that c is an unknown: without it, c is zero and a is the mean. `curvature` asks for second
    derivatives along y = w0 r - A diag(w) A'r, the residual in the algorithm's metric, given as (w0, w `(m,)`);
    `moving_basis` asks for JA'r beside it. `cost` asks for r'r and A'r even where a step can be had without them.
    """

    image: bool = True
    model: bool = True
    appearance: bool = True
    curvature: tuple[float, Float64] | None = None
    moving_basis: bool = False
    cost: bool = True

    def cost_alone(self) -> Needs:
        """What it takes to know the cost of an estimate, and no step from it."""
        return replace(self, image=False, model=False, curvature=None, moving_basis=False, cost=True)


@dataclass(frozen=True, eq=False, repr=False)
class System(Concise):
    """Inner products for a batch of B images, with n shape and m appearance parameters.

    What an algorithm did not ask for is zero; the curvature, and r'r, are None.
    """

    image_image: Float64
    """Ji'Ji `(B, n, n)`"""
    image_model: Float64
    """Ji'Ja `(B, n, n)`"""
    model_model: Float64
    """Ja'Ja `(B, n, n)`"""
    image_residual: Float64
    """Ji'r `(B, n)`"""
    model_residual: Float64
    """Ja'r `(B, n)`"""
    residual_residual: Float64 | None
    """r'r `(B,)`"""
    basis_image: Float64
    """A'Ji `(B, m, n)`"""
    basis_model: Float64
    """A'Ja `(B, m, n)`"""
    basis_residual: Float64
    """A'r `(B, m)`"""
    image_curvature: Float64 | None = None
    """Σ y W'∇²i W `(B, n, n)`, over all pixels and channels"""
    model_curvature: Float64 | None = None
    """Σ y W'∇²a W `(B, n, n)`"""
    basis_curvature: Float64 | None = None
    """JA'r `(B, m, n)`: the derivative of A'r when the small warp moves the basis"""


class Kernel(Protocol):
    """What fills Systems; see `kernels/reference.py` for what the numbers are."""

    def system(
        self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs
    ) -> System: ...

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64: ...

    def threaded(self, jobs: int) -> Kernel: ...
