"""The specification: a System filled with dense NumPy, one image at a time, readable and slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from pliant.appearance.subspace import Subspace
from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.kernels.robust import agreement_of, centred, panel_of_pixel, roots_of_weights
from pliant.kernels.system import Needs, System, united
from pliant.level import Level
from pliant.motion import jacobian


@dataclass(frozen=True)
class ReferenceKernel:
    """Systems of one level, on all of its pixels or on those that `subspace` was made for.

    With `robust`, what does not agree with the model is weighted down: kernels/robust.py.
    """

    level: Level
    subspace: Subspace
    pixels: Int32 | None = None
    dtype: DTypeLike = np.float64
    robust: bool = False

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """The System of images `(h, w, c)` with shapes `(B, v, 2)` and appearance coordinates `(B, m)`."""
        items = [self._one(*item, needs) for item in zip(images, shapes, coordinates, strict=True)]
        return united(items, np.stack)

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        """Appearance coordinates `(B, m)` that explain the images best: A'(i - abar)."""
        warped = [
            self._warped(image, shape)[self._chosen].ravel()
            for image, shape in zip(images, shapes, strict=True)
        ]
        seen = np.array(warped) - self.subspace.mean
        if self.robust:
            seen = np.array([self._weighted(e, None)[0] for e in seen])
        return np.asarray(seen @ self._basis.T)  # eq. 16

    def threaded(self, jobs: int) -> ReferenceKernel:
        """Itself: NumPy's products have threads of their own."""
        return self

    def _one(self, image: Float32, shape: Floats, coordinates: Floats, needs: Needs) -> System:
        frame, chosen = self.level.motion.frame, self._chosen
        i = self._warped(image, shape)
        a = self._modelled(coordinates)
        r = (i - a)[chosen].ravel()  # eq. 36, 41, 102
        root: Floats = np.ones((len(chosen), 1), dtype=self.dtype)
        if self.robust:
            known = coordinates if needs.appearance else None
            e, root = self._weighted(i[chosen].ravel() - self.subspace.mean, known)
            r = e - coordinates @ self._basis
        slopes_i = frame.gradient(i) if needs.image else None
        slopes_a = frame.gradient(a) if needs.model else None
        Ji = None if slopes_i is None else along_warp(root * slopes_i[:, chosen], self._W)  # eq. 39, 44
        Ja = None if slopes_a is None else along_warp(slopes_a[:, chosen], self._W)  # eq. 39, 44
        system = inner_products(r, self._basis, Ji, Ja)
        if needs.curvature is None:
            return system
        w0, w = needs.curvature
        y = w0 * r - (w * system.needed("basis_residual")) @ self._basis

        def bent(slopes: Floats | None) -> Float64 | None:
            return None if slopes is None else curvature(frame.gradient(slopes)[:, :, chosen], y, self._W)

        moving = self._basis_curvature(r) if needs.moving_basis else None
        return replace(
            system, image_curvature=bent(slopes_i), model_curvature=bent(slopes_a), basis_curvature=moving
        )

    def _weighted(self, e: Floats, c: Floats | None) -> tuple[Floats, Floats]:
        """The image less the mean `(f c,)`, weighed by appearance c `(m,)`, the best if None; and √w `(f, 1)`."""
        panel, channels = panel_of_pixel(self.level.motion, self._chosen), self.level.channels
        best = self.subspace.shrinkage * (self._basis @ e) if c is None else c
        known, mean = best @ self._basis, centred(self.subspace.mean, channels)
        i, a = e + mean, known + mean
        sums = [np.sum((x * y).reshape(-1, channels), axis=1) for x, y in ((i, a), (i, i), (a, a))]
        products = np.stack([np.bincount(panel, some).astype(np.float64) for some in sums], axis=-1)
        roots = roots_of_weights(agreement_of(products), np.bincount(panel))
        root = roots[panel][:, None].astype(self.dtype)
        return known + np.repeat(root[:, 0], channels) * (e - known), root

    def _warped(self, image: Float32, shape: Floats) -> Floats:
        """The image on the whole frame `(f, c)`."""
        return bilinear(image.astype(self.dtype), self.level.motion.positions(shape)).astype(self.dtype)

    def _modelled(self, coordinates: Floats) -> Floats:
        """The model's appearance on the whole frame `(f, c)`."""
        c = self.subspace.model_parameters(coordinates)
        return self.level.appearance.instance(c).astype(self.dtype).reshape(-1, self.level.channels)

    def _basis_curvature(self, r: Floats) -> Float64:
        """JA'r `(m, n)`, by moving the derivative from the basis to the residual."""
        frame = self.level.motion.frame
        whole = np.zeros((len(frame.pixels), self.level.channels))
        whole[self._chosen] = r.reshape(-1, self.level.channels)
        warp = jacobian(self.level.motion, self.level.shape)
        spread = frame.gradient_adjoint(np.einsum("fan,fc->nafc", warp, whole))
        products = self.level.appearance.components.astype(np.float64) @ spread.reshape(len(spread), -1).T
        return products if self.subspace.to_model is None else self.subspace.to_model.T @ products

    @cached_property
    def _chosen(self) -> Int32:
        everything = np.arange(len(self.level.motion.frame.pixels), dtype=np.int32)
        return everything if self.pixels is None else self.pixels

    @cached_property
    def _W(self) -> Floats:
        """dW/dp `(f, 2, n)` at the chosen pixels."""
        return jacobian(self.level.motion, self.level.shape)[self._chosen].astype(self.dtype)

    @cached_property
    def _basis(self) -> Floats:
        return np.asarray(self.subspace.basis, dtype=self.dtype)


def along_warp(slopes: Floats, W: Floats) -> Floats:
    """Derivatives `(f c, n)` by the warp's parameters: slopes `(2, f, c)` times dW/dp `(f, 2, n)`."""
    return np.asarray(np.einsum("afc,fan->fcn", slopes, W).reshape(-1, W.shape[-1]))


def inner_products(r: Floats, basis: Floats, Ji: Floats | None, Ja: Floats | None) -> System:
    """A System of one image, without curvature, from r `(d,)`, basis `(m, d)`, and Ji and Ja `(d, n)` if wanted."""
    system = System(residual_residual=np.asarray(r @ r), basis_residual=basis @ r)
    if Ji is not None:
        system = replace(system, image_image=Ji.T @ Ji, image_residual=Ji.T @ r, basis_image=basis @ Ji)
    if Ja is not None:
        system = replace(system, model_model=Ja.T @ Ja, model_residual=Ja.T @ r, basis_model=basis @ Ja)
    return system if Ji is None or Ja is None else replace(system, image_model=Ji.T @ Ja)


def curvature(hessian: Floats, y: Floats, W: Floats) -> Float64:
    """Σ y W'∇²W `(n, n)` over pixels and channels, with second derivatives `(2, 2, f, c)` and y `(f c,)`."""
    per_pixel = np.einsum("abfc,fc->fab", hessian, y.reshape(hessian.shape[2:]))
    symmetric = (per_pixel + np.swapaxes(per_pixel, 1, 2)) / 2
    return np.asarray(np.einsum("fan,fab,fbm->nm", W, symmetric, W, optimize=True), dtype=np.float64)


def bilinear(image: Floats, positions: Floats) -> Floats:
    """Values `(f, c)` of an image `(h, w, c)` at positions `(f, 2)`; outside, the border goes on."""
    height, width = image.shape[:2]
    positions = np.nan_to_num(positions, nan=0.0)
    x = np.clip(positions[:, 0], 0, width - 1)
    y = np.clip(positions[:, 1], 0, height - 1)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, bottom = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    u, v = (x - left)[:, None], (y - top)[:, None]
    upper = (1 - u) * image[top, left] + u * image[top, right]
    lower = (1 - u) * image[bottom, left] + u * image[bottom, right]
    return np.asarray((1 - v) * upper + v * lower)
