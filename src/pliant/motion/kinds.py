"""Motion models by name, and the frames that they move."""

from __future__ import annotations

from pliant.arrays import Floats, Int32
from pliant.motion.compose import Motion
from pliant.motion.frame import MARGIN, Frame, build_frame
from pliant.motion.patches import Patches, PatchFrame, build_patches, patch_reach
from pliant.motion.piecewise_affine import PiecewiseAffine
from pliant.motion.thin_plate_spline import ThinPlateSpline

Sparse = PiecewiseAffine | Patches
"""Motions with few vertices a pixel: compiled loops keep what they make sparse."""


def in_triangles(motion: Motion) -> Sparse:
    """The motion itself, or for a spline the affine one of its triangles, in which its pixels lie as well."""
    return PiecewiseAffine(motion.frame) if isinstance(motion, ThinPlateSpline) else motion


MOTIONS: dict[str, type[Frame]] = {
    PiecewiseAffine.name: Frame,
    ThinPlateSpline.name: Frame,
    Patches.name: PatchFrame,
}
"""The names of motion models, and what their pixels lie in."""


def build_motion(name: str, vertices: Floats, triangles: Int32) -> Motion:
    """Build a motion model by its name.

    Parameters
    ----------
    name : str
        One of `MOTIONS`: `"piecewise-affine"`, `"thin-plate-spline"` or `"patches"`.
    vertices : array, shape (v, 2)
        The mean shape, with a margin to both axes: two pixels, and for patches also what a patch reaches.
    triangles : array of int, shape (t, 3)
        The mesh, such as `delaunay` returns.

    Returns
    -------
    PiecewiseAffine, ThinPlateSpline or Patches
        The motion model with its frame.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> square = np.array([[2.0, 2.0], [6.0, 2.0], [6.0, 6.0], [2.0, 6.0]])
    >>> motion = pliant.motion.build_motion("thin-plate-spline", square, pliant.motion.delaunay(square))
    >>> motion.matrix().shape
    (25, 4)

    """
    build = build_patches if name == Patches.name else build_frame
    return motion_of(name, build(vertices, triangles))


def motion_of(name: str, frame: Frame) -> Motion:
    """The motion of this name in a frame of its kind."""
    if isinstance(frame, PatchFrame):
        return Patches(frame)
    return ThinPlateSpline(frame) if name == ThinPlateSpline.name else PiecewiseAffine(frame)


def margin_around(name: str, vertices: Floats) -> float:
    """Pixels between a mean shape `(v, 2)` and the border of its frame."""
    return MARGIN + (patch_reach(vertices) if name == Patches.name else 0)
