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
    """One scale of a model.

    The mean of `shape` is the set of vertices of `motion.frame`, so that zero parameters are the identity warp.

    Attributes
    ----------
    scale : float
        The scale; 1 is the finest.
    shape : ShapeModel
        The shapes, with n - 4 modes.
    motion : PiecewiseAffine, ThinPlateSpline or Patches
        How the f pixels move with the v landmarks.
    features : str
        The feature that images are described with.
    channels : int
        The number c of values for each pixel.
    appearance : PCA
        The appearance, with m components over vectors of f · c values: pixels in the order of the frame, the
        channels of a pixel side by side.
    colour : bool
        Whether features are those of the image in colour.
    upright : bool
        Whether the object stands in every view as the mean does, however it is turned in the image.
    basis_slopes : ndarray, shape (m, n, m), or None
        Products of the components with the derivatives of the components by the warp, which take a second to
        compute; None if they are not known. `dataclasses.replace` drops them.
    descents : ndarray, shape (K, n, f · c), or None
        The slopes that cascaded regression has learned, one set for each of K stages; None if it has not.
        `dataclasses.replace` drops them.

    Examples
    --------
    >>> import pliant
    >>> level = pliant.load("faces.pliant").levels[-1]
    >>> level.scale, level.features, level.shape.modes, level.motion.name
    (1.0, 'dsift', 5, 'piecewise-affine')

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
        """Return the same level with products that were computed for it.

        Parameters
        ----------
        values : ndarray, shape (m, n, m)
            The products, see `basis_slopes`.

        Returns
        -------
        Level
            A new level.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> level = pliant.load("faces.pliant").levels[-1]
        >>> n, m = level.shape.parameters, level.appearance.modes
        >>> level.with_basis_slopes(np.zeros((m, n, m), dtype=np.float32)).basis_slopes.shape == (m, n, m)
        True

        """
        return self._keeping(readonly(values), self.descents)

    def with_descents(self, values: Float32) -> Level:
        """Return the same level with slopes that cascaded regression has learned for it.

        Parameters
        ----------
        values : ndarray, shape (K, n, f · c)
            The slopes, see `descents`.

        Returns
        -------
        Level
            A new level.

        Examples
        --------
        >>> import numpy as np, pliant
        >>> level = pliant.load("faces.pliant").levels[-1]
        >>> n, length = level.shape.parameters, len(level.motion.frame.pixels) * level.channels
        >>> level.with_descents(np.zeros((1, n, length), dtype=np.float32)).descents.shape == (1, n, length)
        True

        """
        return self._keeping(self.basis_slopes, readonly(values))

    def _keeping(self, basis_slopes: Float32 | None, descents: Float32 | None) -> Level:
        level = replace(self)
        object.__setattr__(level, "basis_slopes", basis_slopes)
        object.__setattr__(level, "descents", descents)
        return level

    def truncated(self, shape_modes: int | float, appearance_modes: int | float) -> Level:
        """Return the level with its leading modes alone.

        Parameters
        ----------
        shape_modes, appearance_modes : int or float
            An integer is the number of modes; a fraction is the share of the variance that they explain.

        Returns
        -------
        Level
            The truncated level.

        Examples
        --------
        >>> import pliant
        >>> level = pliant.load("faces.pliant").levels[-1].truncated(2, 4)
        >>> level.shape.modes, level.appearance.modes
        (2, 4)

        """
        shape, appearance = self.shape.truncated(shape_modes), self.appearance.truncated(appearance_modes)
        level, m = replace(self, shape=shape, appearance=appearance), appearance.modes
        if self.basis_slopes is None:
            return level
        return level.with_basis_slopes(np.ascontiguousarray(self.basis_slopes[:m, : shape.parameters, :m]))
