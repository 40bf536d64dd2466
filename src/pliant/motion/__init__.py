"""How the pixels move with the points: W(x; p) = B s(p), and its compositions."""

from pliant.motion.compose import Motion as Motion
from pliant.motion.compose import Order as Order
from pliant.motion.compose import compose, invert, jacobian
from pliant.motion.frame import Frame, build_frame
from pliant.motion.frame import rasterise as rasterise
from pliant.motion.kinds import MOTIONS, build_motion
from pliant.motion.kinds import Sparse as Sparse
from pliant.motion.kinds import in_triangles as in_triangles
from pliant.motion.kinds import margin_around as margin_around
from pliant.motion.kinds import motion_of as motion_of
from pliant.motion.patches import Patches, PatchFrame, build_patches
from pliant.motion.piecewise_affine import PiecewiseAffine
from pliant.motion.thin_plate_spline import ThinPlateSpline
from pliant.motion.triangulation import checked_triangles as checked_triangles
from pliant.motion.triangulation import delaunay

__all__ = [
    "MOTIONS",
    "Frame",
    "PatchFrame",
    "Patches",
    "PiecewiseAffine",
    "ThinPlateSpline",
    "build_frame",
    "build_motion",
    "build_patches",
    "compose",
    "delaunay",
    "invert",
    "jacobian",
]
