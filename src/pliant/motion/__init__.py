"""How the pixels move with the points: W(x; p) = B s(p), and its compositions."""

from collections.abc import Callable

from pliant.motion.compose import Motion, Order, compose, invert, jacobian
from pliant.motion.frame import Frame, build_frame, rasterise
from pliant.motion.piecewise_affine import PiecewiseAffine
from pliant.motion.thin_plate_spline import ThinPlateSpline
from pliant.motion.triangulation import checked_triangles, delaunay

MOTIONS: dict[str, Callable[[Frame], Motion]] = {
    kind.name: kind for kind in (PiecewiseAffine, ThinPlateSpline)
}
"""Motion models by name."""

__all__ = [
    "MOTIONS",
    "Frame",
    "Motion",
    "Order",
    "PiecewiseAffine",
    "ThinPlateSpline",
    "build_frame",
    "checked_triangles",
    "compose",
    "delaunay",
    "invert",
    "jacobian",
    "rasterise",
]
