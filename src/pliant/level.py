"""One scale of a model: its shape, how its pixels move, and what they look like."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pliant.arrays import Concise, Float32, readonly
from pliant.motion import Motion
from pliant.pca import PCA
from pliant.shape import ShapeModel


@dataclass(frozen=True, eq=False, repr=False)
class Level(Concise):
    """One scale of the model.

    The mean of `shape` is the set of vertices of `motion.frame`, so that zero parameters are the
    identity warp. `appearance` is over vectors of f · c values: pixels in the frame's order, the
    channels of a pixel side by side. With `colour`, features are those of the image in colour.
    An object that is seen `upright` stands in every view as the mean does, however it is turned in the image.
    `basis_slopes (m, n, m)` are products of its components with the derivatives of its components by the
    warp, which take a second to compute: None if they are not known. `descents (K, n, f · c)` are slopes that
    cascaded regression has learned, one set a stage: None if it has not. Both belong to this very level:
    `dataclasses.replace` forgets them.
    """

    scale: float
    shape: ShapeModel
    motion: Motion
    features: str
    channels: int
    appearance: PCA
    colour: bool = False
    upright: bool = False
    basis_slopes: Float32 | None = field(default=None, init=False)
    descents: Float32 | None = field(default=None, init=False)

    def with_basis_slopes(self, values: Float32) -> Level:
        """The same level with the products that were computed for it."""
        return self._keeping(readonly(values), self.descents)

    def with_descents(self, values: Float32) -> Level:
        """The same level with the slopes that cascaded regression has learned for it."""
        return self._keeping(self.basis_slopes, readonly(values))

    def _keeping(self, basis_slopes: Float32 | None, descents: Float32 | None) -> Level:
        level = replace(self)
        object.__setattr__(level, "basis_slopes", basis_slopes)
        object.__setattr__(level, "descents", descents)
        return level

    def truncated(self, shape_modes: int | float, appearance_modes: int | float) -> Level:
        """The leading modes alone, chosen by counts or by shares of the variance."""
        shape, appearance = self.shape.truncated(shape_modes), self.appearance.truncated(appearance_modes)
        level, m = replace(self, shape=shape, appearance=appearance), appearance.modes
        if self.basis_slopes is None:
            return level
        return level.with_basis_slopes(np.ascontiguousarray(self.basis_slopes[:m, : shape.parameters, :m]))
