"""How the pixels move with the points: W(x; p) = B s(p), and its compositions."""

from pliant.motion.compose import Motion, Order, compose, invert, jacobian
from pliant.motion.frame import Frame, build_frame, rasterise
from pliant.motion.kinds import MOTIONS, Sparse, build_motion, margin_around, motion_of
from pliant.motion.patches import Patches, PatchFrame, build_patches
from pliant.motion.piecewise_affine import PiecewiseAffine
from pliant.motion.thin_plate_spline import ThinPlateSpline
from pliant.motion.triangulation import checked_triangles, delaunay

__all__ = [
    "MOTIONS",
    "Frame",
    "Motion",
    "Order",
    "PatchFrame",
    "Patches",
    "PiecewiseAffine",
    "Sparse",
    "ThinPlateSpline",
    "build_frame",
    "build_motion",
    "build_patches",
    "checked_triangles",
    "compose",
    "delaunay",
    "invert",
    "jacobian",
    "margin_around",
    "motion_of",
    "rasterise",
]
