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

MOTIONS: dict[str, type[Frame]] = {
    PiecewiseAffine.name: Frame,
    ThinPlateSpline.name: Frame,
    Patches.name: PatchFrame,
}
"""The names of motion models, and what their pixels lie in."""


def build_motion(name: str, vertices: Floats, triangles: Int32) -> Motion:
    """The motion of a mean shape `(v, 2)` that is `margin_around` away from both axes, with its mesh `(t, 3)`."""
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
