"""Systems on the CPU: compiled, with what a mesh makes sparse kept sparse, and the basis read once.

A piecewise affine warp moves a pixel with three vertices, so Ji = G S, where G has six non-zeros in a row
(three vertices, two axes) and S is the shape basis. A'Ji = (A'G) S, and a row of G is a slope (which varies
by channel) times a barycentric weight (which does not): three products for each element of A, and seven
for each pixel, whatever the number of shape parameters. Ji'Ji = S'(G'G)S comes from 6 x 6 blocks, one a
triangle. A lies in panels: some pixels of one triangle, component by component and channel by channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.subspace import Subspace
from pliant.arrays import Float32, Float64, Floats, Int32
from pliant.kernels import mesh_loops
from pliant.kernels.system import Needs, System
from pliant.model import Level
from pliant.motion import PiecewiseAffine

_PANEL = 128
"""Pixels in a panel at most: with 8 channels, its slopes and one component fit in the first cache."""

_LANES = 16
"""Panels are padded with zeros to a multiple of this, so that vector loops have no rest."""

_GROUP = 8
"""Images that share a panel while it is in the cache."""


@dataclass(frozen=True)
class CpuKernel:
    """Systems of one piecewise affine level, on all of its pixels or on those that `subspace` was made for."""

    level: Level
    subspace: Subspace
    pixels: Int32 | None = None
    jobs: int = 1

    def system(self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs) -> System:
        """The System of images `(h, w, c)` with shapes `(B, v, 2)` and appearance coordinates `(B, m)`."""
        # As many groups as threads, if there are enough images, and none larger than shares a cache well.
        size = max(1, min(_GROUP, -(-len(images) // self.jobs)))
        groups = [slice(start, start + size) for start in range(0, len(images), size)]

        def one(group: slice) -> System:
            whole = None if modelled is None else modelled[group]
            return self._group(images[group], shapes[group], coordinates[group], whole, needs)

        # One large product for all images, before there are threads to compete with it.
        modelled = self._whole_modelled(coordinates) if self._wants_whole(coordinates, needs) else None
        _ = self._panels, self._stencil, self._mean_slopes  # made once, not in every thread
        if needs.model and np.any(coordinates):
            _ = self._basis_slopes_products
        if self.jobs == 1 or len(groups) == 1:
            return _joined([one(group) for group in groups])
        with ThreadPoolExecutor(self.jobs) as pool:
            return _joined(list(pool.map(one, groups)))

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64:
        """Appearance coordinates `(B, m)` that explain the images best: A'(i - abar)."""
        warped = [self._warped(*item)[self._own] for item in zip(images, shapes, strict=True)]
        residual = np.stack(warped).reshape(len(images), -1) - self.subspace.mean
        return np.asarray(residual @ self.subspace.basis.T, dtype=np.float64)

    def _group(
        self,
        images: Sequence[Float32],
        shapes: Floats,
        c: Floats,
        modelled: Float32 | None,
        needs: Needs,
    ) -> System:
        S, layout = self.level.shape.basis, self._layout
        batch, m, n = len(images), len(self.subspace.variances), S.shape[1]
        warped = [self._warped(*item) for item in zip(images, shapes, strict=True)]
        mean = self.subspace.mean.reshape(-1, self.level.channels)
        e = np.stack([layout.scatter(w[self._own] - mean) for w in warped])
        slopes_i = self._slopes(warped) if needs.image else None
        slopes_a = self._model_slopes(c, modelled) if needs.model else None
        square, tall, flat = np.zeros((batch, n, n)), np.zeros((batch, m, n)), np.zeros((batch, n))
        ii, ia, aa, ie, ae, Ai, Aa = square, square, square, flat, flat, tall, tall
        products, Ae = self._pass_over_basis(self._panels, slopes_i, e, m)
        if slopes_i is not None:
            Ai = np.swapaxes(products, 1, 2) @ S
            ii = S.T @ self._grams(slopes_i, slopes_i) @ S
            ie = self._moments(slopes_i, e) @ S
        if slopes_a is not None:
            Aa = self._basis_model(c)
            aa = S.T @ self._grams(slopes_a, slopes_a) @ S
            ae = self._moments(slopes_a, e) @ S
        if slopes_i is not None and slopes_a is not None:
            ia = S.T @ self._grams(slopes_i, slopes_a) @ S
        # All that was computed with e = i - abar moves to r = e - A c, because A is orthonormal.
        Ar = Ae - c
        system = System(
            image_image=ii,
            image_model=ia,
            model_model=aa,
            image_residual=ie - np.einsum("bmn,bm->bn", Ai, c),
            model_residual=ae - np.einsum("bmn,bm->bn", Aa, c),
            residual_residual=np.einsum("bcf,bcf->b", e, e, dtype=np.float64) - np.sum((Ae + Ar) * c, axis=1),
            basis_image=Ai,
            basis_model=Aa,
            basis_residual=Ar,
        )
        return (
            system if needs.curvature is None else self._curved(system, images, shapes, e, c, modelled, needs)
        )

    def _curved(
        self,
        system: System,
        images: Sequence[Float32],
        shapes: Floats,
        e: Float32,
        c: Floats,
        modelled: Float32 | None,
        needs: Needs,
    ) -> System:
        """The System with second derivatives: Newton's methods alone look at them."""
        assert needs.curvature is not None
        w0, w = needs.curvature
        layout, S = self._layout, self.level.shape.basis
        batch, m = len(images), len(w)
        mixed = (w0 * c + w * system.basis_residual).astype(np.float32) @ self.subspace.basis
        y = w0 * e - np.stack([layout.scatter(row) for row in mixed.reshape(batch, -1, self.level.channels)])
        image_side = model_side = np.zeros_like(system.image_image)
        if needs.image:
            whole = [self._whole_warped(*item) for item in zip(images, shapes, strict=True)]
            image_side = S.T @ self._bends(whole, y) @ S
        if modelled is not None:
            model_side = S.T @ self._bends(list(modelled), y) @ S
        moving = None
        if needs.moving_basis:
            # JA'r = JA'e - JA'A c: the first by two passes over the slopes of A, the second is known.
            nothing = np.zeros_like(e)
            across, _ = self._pass_over_basis(
                self._slope_panels[0], np.stack([e, nothing], axis=1), nothing, m
            )
            down, _ = self._pass_over_basis(self._slope_panels[1], np.stack([nothing, e], axis=1), nothing, m)
            moving = np.swapaxes(across + down, 1, 2) @ S
            moving = moving - np.einsum("lnk,bl->bkn", self._basis_slopes_products, c)
        return replace(system, image_curvature=image_side, model_curvature=model_side, basis_curvature=moving)

    def _warped(self, image: Float32, shape: Floats) -> Float32:
        """The image at the pixels that matter: the chosen ones and their neighbours `(f, c)`."""
        motion, support = self._motion, self._support
        vertices, weights = (motion.vertices, motion.weights) if support is None else self._supported
        return mesh_loops.warp(image, np.asarray(shape, dtype=np.float64), vertices, weights)

    def _whole_warped(self, image: Float32, shape: Floats) -> Float32:
        motion = self._motion
        return mesh_loops.warp(image, np.asarray(shape, dtype=np.float64), motion.vertices, motion.weights)

    def _whole_modelled(self, c: Floats) -> Float32:
        """The model's appearance on the whole frame `(b, f, c)`."""
        appearance = self.level.appearance
        values = np.broadcast_to(appearance.mean, (len(c), len(appearance.mean)))
        if np.any(c):
            values = values + self.subspace.model_parameters(c).astype(np.float32) @ appearance.components
        return np.asarray(values.reshape(len(c), -1, self.level.channels), dtype=np.float32)

    def _slopes(self, warped: Sequence[Float32]) -> Float32:
        places, size = self._layout.places, self._layout.size
        return np.stack([mesh_loops.slopes(values, *self._stencil, places, size) for values in warped])

    def _wants_whole(self, c: Floats, needs: Needs) -> bool:
        """Whether the model's appearance is needed on the whole frame: for its slopes, or its curvature."""
        return needs.model and (needs.curvature is not None or (self.pixels is None and bool(np.any(c))))

    def _model_slopes(self, c: Floats, modelled: Float32 | None) -> Float32:
        """Slopes of the model's appearance at the chosen pixels `(b, 2, c, p)`."""
        mean = self._mean_slopes
        if not np.any(c):
            return np.broadcast_to(mean, (len(c), *mean.shape))
        if self.pixels is None and modelled is not None:
            return self._slopes(list(modelled))
        basis = self._slope_basis
        moved = c.astype(np.float32) @ basis.reshape(len(basis), -1)
        return mean + moved.reshape(len(c), *mean.shape)

    def _basis_model(self, c: Floats) -> Float64:
        """A'Ja `(b, m, n)`: linear in c, and no pixel is needed."""
        fixed = self._mean_slopes_products
        if not np.any(c):
            return np.broadcast_to(fixed, (len(c), *fixed.shape))
        return np.asarray(fixed + np.einsum("lnk,bk->bln", self._basis_slopes_products, c, optimize=True))

    def _grams(self, one: Float32, other: Float32) -> Float64:
        weights, starts, corners, size = self._mesh
        return np.stack(
            [
                mesh_loops.gram(mesh_loops.pixel_products(a, b), weights, starts, corners, size)
                for a, b in zip(one, other, strict=True)
            ]
        )

    def _moments(self, slopes: Float32, e: Float32) -> Float64:
        return np.stack(
            [mesh_loops.moments(a, values, *self._mesh) for a, values in zip(slopes, e, strict=True)]
        )

    def _bends(self, whole: Sequence[Float32], y: Floats) -> Float64:
        """Σ y G'∇²G `(b, 2v, 2v)` for values on the whole frame."""
        frame, places = self.level.motion.frame, self._layout.places
        weights, starts, corners, size = self._mesh
        out = []
        for values, along in zip(whole, y.astype(np.float32), strict=True):
            products = mesh_loops.bends(values, *frame.stencil, self._chosen, places, along)
            out.append(mesh_loops.gram(products, weights, starts, corners, size))
        return np.stack(out)

    def _pass_over_basis(
        self, panels: Float32, slopes: Float32 | None, e: Float32, m: int
    ) -> tuple[Float64, Float64]:
        """A'G `(b, 2v, m)` and A'e `(b, m)`."""
        weights, starts, corners, size = self._mesh
        G, E = np.zeros((len(e), size, m)), np.zeros((len(e), m))
        if slopes is None:
            mesh_loops.values_over_basis(panels, starts, e, E)
        else:
            run = mesh_loops.pass_over_basis(self.level.channels, _PANEL)
            run(panels, starts, corners, weights, np.ascontiguousarray(slopes), e, G, E)
        return G, E

    @property
    def _motion(self) -> PiecewiseAffine:
        assert isinstance(self.level.motion, PiecewiseAffine)
        return self.level.motion

    @cached_property
    def _chosen(self) -> Int32:
        everything = np.arange(len(self.level.motion.frame.pixels), dtype=np.int32)
        return everything if self.pixels is None else np.asarray(self.pixels, dtype=np.int32)

    @cached_property
    def _layout(self) -> Layout:
        return make_layout(
            self.level.motion.frame.triangle_of_pixel[self._chosen], self._motion, self._chosen
        )

    @cached_property
    def _mesh(self) -> tuple[Float32, Int32, Int32, int]:
        layout = self._layout
        return layout.weights, layout.starts, layout.corners, 2 * self.level.shape.landmarks

    @cached_property
    def _support(self) -> Int32 | None:
        """The chosen pixels and their neighbours; None if that is all of them."""
        if self.pixels is None:
            return None
        neighbours, _ = self.level.motion.frame.stencil
        return np.unique(np.concatenate([self._chosen, neighbours[:, :, self._chosen].ravel()]))

    @cached_property
    def _supported(self) -> tuple[Int32, Float64]:
        support = self._support
        return np.ascontiguousarray(self._motion.vertices[support]), np.ascontiguousarray(
            self._motion.weights[support]
        )

    @cached_property
    def _own(self) -> NDArray[np.integer] | slice:
        """Where the chosen pixels are among those that are warped."""
        return slice(None) if self._support is None else np.searchsorted(self._support, self._chosen)

    @cached_property
    def _stencil(self) -> tuple[Int32, Float32]:
        """The frame's stencil at the chosen pixels, in terms of those that are warped."""
        neighbours, weights = self.level.motion.frame.stencil
        if self._support is None:
            return neighbours, weights
        local = np.searchsorted(self._support, neighbours[:, :, self._chosen]).astype(np.int32)
        return local, np.ascontiguousarray(weights[:, self._chosen])

    @cached_property
    def _panels(self) -> Float32:
        return self._layout.panels(self.subspace.basis, self.level.channels)

    @cached_property
    def _mean_slopes(self) -> Float32:
        return self._frame_slopes(np.asarray(self.level.appearance.mean))

    @cached_property
    def _mean_slopes_products(self) -> Float64:
        """A'Jabar `(m, n)`"""
        return np.asarray(self._products_with(self._mean_slopes[None])[0])

    @cached_property
    def _basis_slopes_products(self) -> Float64:
        """A'JA_k for all k: `(m, n, m)`, the last index being k."""
        modes = len(self.subspace.variances)
        groups = [slice(start, min(start + _GROUP, modes)) for start in range(0, modes, _GROUP)]
        with ThreadPoolExecutor(self.jobs) as pool:
            parts = list(pool.map(lambda group: self._products_with(self._component_slopes(group)), groups))
        return np.ascontiguousarray(np.moveaxis(np.concatenate(parts), 0, -1))

    def _products_with(self, slopes: Float32) -> Float64:
        """A'J `(b, m, n)` for given slopes `(b, 2, c, p)`."""
        nothing = np.zeros((len(slopes), *slopes.shape[2:]), dtype=np.float32)
        products, _ = self._pass_over_basis(self._panels, slopes, nothing, len(self.subspace.variances))
        return np.swapaxes(products, 1, 2) @ self.level.shape.basis

    def _component_slopes(self, group: slice) -> Float32:
        """Slopes `(k, 2, c, p)` of some components of the basis, continued to the whole frame."""
        components = np.asarray(self.level.appearance.components)
        turn = self.subspace.to_model
        whole = components[group] if turn is None else turn[:, group].T.astype(np.float32) @ components
        return np.stack([self._frame_slopes(component) for component in whole])

    def _frame_slopes(self, values: Float32) -> Float32:
        frame, layout = self.level.motion.frame, self._layout
        neighbours, weights = frame.stencil
        own = np.ascontiguousarray(neighbours[:, :, self._chosen])
        share = np.ascontiguousarray(weights[:, self._chosen])
        table = np.ascontiguousarray(values.reshape(-1, self.level.channels), dtype=np.float32)
        return mesh_loops.slopes(table, own, share, layout.places, layout.size)

    @cached_property
    def _slope_basis(self) -> Float32:
        """Slopes of every component `(m, 2, c, p)`: twice as large as the basis."""
        return self._component_slopes(slice(None))

    @cached_property
    def _slope_panels(self) -> tuple[Float32, Float32]:
        """Panels of the slopes of A along x and along y."""
        basis = self._slope_basis
        return self._layout.panels_of(basis[:, 0]), self._layout.panels_of(basis[:, 1])


@dataclass(frozen=True)
class Layout:
    """Panel order: `places (f,)` of the chosen pixels in it, and its panels.

    `starts (panels + 1,)`, the three `corners (panels, 3)` of each panel's triangle, `weights (3, size)`.
    """

    places: Int32
    starts: Int32
    corners: Int32
    weights: Float32

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    def scatter(self, values: Floats) -> Float32:
        """Values `(f, c)` in panel order `(c, size)`."""
        out = np.zeros((values.shape[1], self.size), dtype=np.float32)
        out[:, self.places] = values.T
        return out

    def panels(self, basis: Float32, channels: int) -> Float32:
        """A basis `(m, f c)` as panels `(m * c * size,)`: panel, then component, channel, pixel."""
        ordered = np.zeros((len(basis), channels, self.size), dtype=np.float32)
        for component, row in zip(ordered, basis, strict=True):
            component[:, self.places] = row.reshape(-1, channels).T
        return self.panels_of(ordered)

    def panels_of(self, ordered: Float32) -> Float32:
        """A basis in panel order `(m, c, size)` as panels."""
        out = np.empty(ordered.size, dtype=np.float32)
        modes, channels, _ = ordered.shape
        for first, last in pairwise(self.starts):
            block = slice(first * modes * channels, last * modes * channels)
            out[block] = ordered[:, :, first:last].ravel()
        return out


def make_layout(triangle_of_pixel: Int32, motion: PiecewiseAffine, chosen: Int32) -> Layout:
    """Panels of at most `_PANEL` pixels of one triangle each, of about the same size."""
    places = np.empty(len(chosen), dtype=np.int32)
    starts, corners = [0], []
    bounds = np.searchsorted(triangle_of_pixel, np.arange(len(motion.frame.triangles) + 1))
    for number, (first, last) in enumerate(pairwise(bounds)):
        count = -(-(last - first) // _PANEL)
        for part in np.array_split(np.arange(first, last), count) if count else []:
            places[part] = starts[-1] + np.arange(len(part))
            corners.append(motion.frame.triangles[number])
            starts.append(starts[-1] + -(-len(part) // _LANES) * _LANES)
    weights = np.zeros((3, starts[-1]), dtype=np.float32)
    weights[:, places] = motion.weights[chosen].T
    return Layout(places, np.array(starts, dtype=np.int64), np.array(corners, dtype=np.int32), weights)


def _joined(systems: Sequence[System]) -> System:
    names = [field.name for field in fields(System) if getattr(systems[0], field.name) is not None]
    return System(**{name: np.concatenate([getattr(part, name) for part in systems]) for name in names})
