"""The head as a solid: where the 68 points are, how deep the surface is, and how both reach the image.

The head frame has x to the image's right, y down and z towards the viewer; the eyes are near y = -0.3 and the
chin near y = 1.2. The surface is a height field z(x, y): the face's outline inflated like a cushion, plus
Gaussian bumps for nose, sockets, cheeks, lips and chin. Points and shading both read that one field.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pliant.synthetic.canvas import Array, Image, spline
from pliant.synthetic.traits import Expression, Identity, Pose

JAW = slice(0, 17)
BROWS = (slice(17, 22), slice(22, 27))
BRIDGE = slice(27, 31)
NOSTRILS = slice(31, 36)
EYES = (slice(36, 42), slice(42, 48))
OUTER_LIPS = slice(48, 60)
INNER_LIPS = slice(60, 68)

_MARGIN = 0.05
_EAR_Y = -0.27
_CROWN_Y = -1.5
_CONTOUR_SAMPLES = 6
# The cushion is elliptic up to this share of the outline's radius and straight beyond it: an ellipse's
# vertical edge has no slope to shade with.
_RIM = 0.975


@dataclass(frozen=True)
class Surface:
    """The height field of one head.

    `outline` (m, 2) is the closed frontal outline, of which the jaw points are every sixth from the first.
    `depths` are the cushion's drops from the middle to the sides, the chin and the crown; `bumps` (k, 5)
    holds a row (x, y, sigma x, sigma y, height) for each Gaussian.
    """

    outline: Array
    depths: tuple[float, float, float]
    bumps: Array

    def cushion(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> Array:
        """Depth z of the smooth head without its features, of the shape of `x` and `y`."""
        angle = np.arctan2(y, x)
        own = np.arctan2(self.outline[:, 1], self.outline[:, 0])
        order = np.argsort(own)
        table = np.linspace(-np.pi, np.pi, 256)
        radii = np.interp(table, own[order], np.hypot(*self.outline[order].T), period=2 * np.pi)
        radius = np.interp(angle, table, radii)
        return self._drop(np.hypot(x, y) / radius, angle, y)

    def _drop(
        self, share: NDArray[np.floating], angle: NDArray[np.floating], y: NDArray[np.floating]
    ) -> Array:
        side, chin, crown = self.depths
        upright = np.sin(angle) ** 2
        depth = side * (1 - upright) + np.where(y > 0, chin, crown) * upright
        inside = np.minimum(share, _RIM)
        edge_slope = _RIM / np.sqrt(1 - _RIM**2)
        drop = 1 - np.sqrt(1 - inside**2) + edge_slope * (share - inside)
        return np.asarray(-depth * drop - 0.05 * np.minimum(y, 0.0) ** 2, np.float64)

    def depth(self, points: Array) -> Array:
        """Depth z (n,) of the surface at `points` (n, 2)."""
        x, y = points[:, :1], points[:, 1:]
        centre_x, centre_y, sigma_x, sigma_y, height = self.bumps.T
        bumps = height * np.exp(
            -0.5 * ((x - centre_x) / sigma_x) ** 2 - 0.5 * ((y - centre_y) / sigma_y) ** 2
        )
        return np.asarray(self.cushion(points[:, 0], points[:, 1]) + bumps.sum(axis=1))

    def lift(self, points: Array) -> Array:
        """Surface points (n, 3) over frontal `points` (n, 2)."""
        return np.column_stack([points, self.depth(points)])

    def relief(self, x: Array, y: Array) -> Image:
        """Depth over a grid, (len(y), len(x)): the bumps are separable, so their sum is one product."""
        centre_x, centre_y, sigma_x, sigma_y, height = self.bumps.T
        across = np.exp(-0.5 * ((x - centre_x[:, None]) / sigma_x[:, None]) ** 2)
        down = np.exp(-0.5 * ((y[:, None] - centre_y) / sigma_y) ** 2)
        grid_x, grid_y = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
        return np.asarray(self.cushion(grid_x, grid_y) + (down * height) @ across, np.float32)

    def visible_outline(self, rotation: Array) -> Array:
        """The outline (m, 3) as a viewer sees it.

        On the side that turns away, the rim of the cushion is hidden behind the cheek. There each outline
        point slides towards the middle of the face to where the surface ends for the viewer, which is where
        annotators place it.
        """
        shares = np.linspace(0.55, 1.0, 91)
        tangent = np.roll(self.outline, -1, axis=0) - np.roll(self.outline, 1, axis=0)
        outward = np.stack([-tangent[:, 1], tangent[:, 0]], axis=1)
        outward *= np.sign((outward * self.outline).sum(axis=1, keepdims=True))
        angle = np.arctan2(self.outline[:, 1], self.outline[:, 0])
        flat = shares[:, None, None] * self.outline
        z = self._drop(np.minimum(shares, _RIM)[:, None], angle, flat[..., 1])
        curves = np.concatenate([flat, z[..., None]], axis=-1)
        reach = ((curves @ rotation[:2].T) * (outward @ _plane_turn(rotation).T)).sum(axis=-1)
        best = np.clip(reach.argmax(axis=0), 1, len(shares) - 2)
        column = np.arange(len(angle))
        # A parabola through the best three samples keeps the sliding smooth in the pose.
        before, at, after = (reach[best + step, column] for step in (-1, 0, 1))
        shift = 0.5 * (before - after) / np.minimum(before - 2 * at + after, -1e-12)
        place = np.clip(best + np.clip(shift, -1, 1), 0, len(shares) - 1)
        share = np.interp(place, np.arange(len(shares)), shares)
        slid = share[:, None] * self.outline
        return np.column_stack([slid, self._drop(np.minimum(share, _RIM), angle, slid[:, 1])])


@dataclass(frozen=True)
class View:
    """A weak perspective camera: image point = scale * (rotation @ head point)[:2] + offset."""

    rotation: Array
    scale: float
    offset: Array
    size: int

    def project(self, points: Array) -> Array:
        """Image points (n, 2) of head points (n, 3)."""
        return np.asarray(self.scale * points @ self.rotation[:2].T + self.offset)

    def facing_offsets(self, x: Image, y: Image, origin: Array) -> tuple[Image, Image]:
        """How far pixels at `x` and `y` lie across and down the face from the image point `origin` (2,).

        In head units, for things as flat as an iris or a row of teeth.
        """
        back = (np.linalg.inv(self.rotation[:2, :2]) / self.scale).astype(np.float32)
        u, v = x - np.float32(origin[0]), y - np.float32(origin[1])
        return back[0, 0] * u + back[0, 1] * v, back[1, 0] * u + back[1, 1] * v


@dataclass(frozen=True)
class Head:
    """Everything geometric about one face: its solid, its camera, and its 68 points in both."""

    surface: Surface
    view: View
    frontal: Array
    solid: Array
    points: Array
    outline: Array


def build_head(identity: Identity, expression: Expression, pose: Pose, size: int) -> Head:
    """Place one head before the camera; `points` (68, 2) and `outline` (m, 2) are in the image."""
    frontal = frontal_points(identity, expression)
    surface = Surface(
        outline=_frontal_outline(frontal[JAW]),
        depths=(identity.head_depth, 0.38, 1.15),
        bumps=_bumps(identity, expression, frontal),
    )
    rotation = rotation_matrix(pose)
    rim = surface.visible_outline(rotation)
    solid = np.concatenate([rim[: 16 * _CONTOUR_SAMPLES + 1 : _CONTOUR_SAMPLES], surface.lift(frontal[17:])])
    view = _frame(solid @ rotation[:2].T, rotation, pose, size)
    return Head(surface, view, frontal, solid, view.project(solid), view.project(rim))


def placed(head: Head, scale: float, offset: Array) -> Head:
    """The same head, `scale` pixels a head unit large, with its origin at the image point `offset` (2,)."""
    view = replace(head.view, scale=scale, offset=offset)
    moved = (head.outline - head.view.offset) * (scale / head.view.scale) + offset
    return replace(head, view=view, points=view.project(head.solid), outline=moved)


def rotation_matrix(pose: Pose) -> Array:
    """Rotation (3, 3): positive yaw turns the nose to the image's right, positive pitch turns it up."""
    (cy, sy), (cp, sp), (cr, sr) = ((np.cos(a), np.sin(a)) for a in (pose.yaw, pose.pitch, pose.roll))
    yaw = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    pitch = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    roll = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return np.asarray(roll @ pitch @ yaw)


def _plane_turn(rotation: Array) -> Array:
    """The rotation (2, 2) within the image plane nearest to what `rotation` does to frontal directions."""
    u, _, v = np.linalg.svd(rotation[:2, :2])
    return np.asarray(u @ v)


def _frame(flat: Array, rotation: Array, pose: Pose, size: int) -> View:
    """Scale and shift so that all points lie inside the image with a margin, wherever the pose puts them."""
    low, high = flat.min(axis=0), flat.max(axis=0)
    extent = high - low
    # In shares of the image; a pixel's centre is half a pixel off its corner, hence the last half below.
    scale = min(pose.width_share / extent[0], (1 - 2 * _MARGIN - 0.08) / extent[1])
    slack = np.maximum(0.5 - _MARGIN - 0.5 * scale * extent, 0.0)
    # Leave more room above than below: hair needs it.
    centre = 0.5 + np.array([0.0, 0.35]) * slack + pose.place * slack * (0.5, 0.6)
    offset = centre - scale * (low + high) / 2
    return View(rotation, float(scale) * size, offset * size - 0.5, size)


def frontal_points(identity: Identity, expression: Expression) -> Array:
    """The 68 points (68, 2) of the head seen from the front, in the iBUG order."""
    return np.concatenate(
        [
            _jaw(identity, expression),
            _brow(identity, expression, side=-1),
            _brow(identity, expression, side=1),
            _nose(identity, expression),
            _eye(identity, expression, side=-1),
            _eye(identity, expression, side=1),
            *_mouth(identity, expression),
        ]
    )


def _jaw(identity: Identity, expression: Expression) -> Array:
    """Seventeen points from ear to ear, evenly spaced along a superellipse that drops as the mouth opens."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, 121)
    square = 0.94 - 0.07 * identity.jaw_squareness
    x = identity.face_width * np.sign(angle) * np.abs(np.sin(angle)) ** square
    y = _EAR_Y + (identity.chin_y - _EAR_Y) * np.cos(angle) ** (1.02 - 0.05 * identity.jaw_squareness)
    lower = np.cos(angle) ** 1.5
    y += identity.chin_point * (np.exp(-((x / 0.22) ** 2)) - 0.5 * lower)
    y += 0.27 * expression.mouth_open * lower
    x *= 1 - 0.05 * expression.mouth_open * lower
    x += (2.0 * identity.asymmetry[0] + 0.5 * expression.mouth_shift) * lower
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    even = np.linspace(0.0, length[-1], 17)
    return np.column_stack([np.interp(even, length, x), np.interp(even, length, y)])


def _brow(identity: Identity, expression: Expression, side: int) -> Array:
    """Five points along the middle of a brow, from image left to image right."""
    t = np.linspace(0.0, 1.0, 5)
    inner = 0.175 - 0.045 * expression.frown
    x = inner + identity.brow_length * t
    rise = expression.brow_raise[(side + 1) // 2]
    y = identity.eye_y - identity.brow_gap - identity.brow_arch * np.sin(np.pi * t**1.25) + 0.04
    y += identity.brow_tilt * (1 - 2 * t) + 0.06 * t**3
    y -= 0.085 * rise * (1 - 0.1 * t) - 0.05 * expression.frown * (1 - t) ** 2
    y += side * identity.asymmetry[1]
    return _ordered(x, y, side)


def _eye(identity: Identity, expression: Expression, side: int) -> Array:
    """Six points around an eye, clockwise in the image from its left corner."""
    closure = expression.lid_closure[(side + 1) // 2]
    squint = 0.18 * max(expression.smile, 0.0)
    height = identity.eye_height * (1 + 0.12 * max(expression.brow_raise.mean(), 0.0))
    upper = height * ((1 - closure) * (1 - 0.4 * squint) - 0.36 * closure)
    lower = height * 0.52 * (1 - squint)
    tilt = identity.eye_tilt
    half = identity.eye_half_width
    # From inner to outer corner; the lids' points stand at the thirds.
    x = identity.eye_x + half * np.array([-1.0, -0.36, 0.34, 1.0])
    along = np.linspace(1.0, -1.0, 4) * tilt
    middle = identity.eye_y + along + side * identity.asymmetry[2]
    top = middle - upper * np.array([0.0, 1.0, 0.96, 0.0])
    bottom = middle + lower * np.array([0.0, 0.92, 1.0, 0.0])
    if side < 0:
        ring = [(-x[3], top[3]), (-x[2], top[2]), (-x[1], top[1]), (-x[0], top[0])]
        ring += [(-x[1], bottom[1]), (-x[2], bottom[2])]
    else:
        ring = [(x[0], top[0]), (x[1], top[1]), (x[2], top[2]), (x[3], top[3])]
        ring += [(x[2], bottom[2]), (x[1], bottom[1])]
    return np.array(ring)


def _nose(identity: Identity, expression: Expression) -> Array:
    """Four points down the bridge and five along the base, from image left to image right."""
    bend = identity.asymmetry[3]
    bridge_y = np.linspace(identity.eye_y + 0.0, identity.nose_tip_y, 4)
    bridge_x = bend * np.linspace(0.0, 1.0, 4)
    width = identity.nose_width * (1 + 0.10 * max(expression.smile, 0.0))
    base_x = bend + width * np.array([-1.0, -0.52, 0.0, 0.52, 1.0])
    lift = 0.02 * max(expression.smile, 0.0)
    base_y = identity.nose_tip_y + 0.16 + np.array([-0.052 - lift, -0.012, 0.014, -0.012, -0.052 - lift])
    return np.column_stack([np.concatenate([bridge_x, base_x]), np.concatenate([bridge_y, base_y])])


def _mouth(identity: Identity, expression: Expression) -> tuple[Array, Array]:
    """Twelve outer and eight inner lip points, clockwise in the image from the left corner."""
    opening = expression.mouth_open
    smile = expression.smile * (1 - 0.4 * opening)
    width = identity.mouth_width * (1 + 0.2 * smile - 0.28 * expression.pucker - 0.12 * opening)
    gap = 0.43 * opening + 0.012
    thin = 1 - 0.22 * max(smile, 0.0) + 0.35 * expression.pucker
    slant = expression.smile_slant * max(smile, 0.3)

    def middle(u: Array) -> Array:
        """The height of the line between the lips; u runs from -1 to 1 between the corners."""
        corner = np.abs(u) ** 1.6
        return np.asarray(
            identity.mouth_y - 0.115 * smile * corner * (1 + slant * np.sign(u))
            + 0.035 * smile + 0.3 * gap * corner + identity.asymmetry[4] * u
        )  # fmt: skip

    def part(u: Array) -> Array:
        """The share of the gap that is open at u: none beyond the inner corners."""
        return np.asarray(np.clip(1 - (u / 0.86) ** 2, 0.0, 1.0) ** 0.5)

    top = np.array([-1.0, -0.58, -0.2, 0.0, 0.2, 0.58, 1.0])
    bottom = np.array([0.62, 0.28, 0.0, -0.28, -0.62])
    inner_top = np.array([-0.86, -0.36, 0.0, 0.36, 0.86])
    inner_bottom = np.array([0.36, 0.0, -0.36])
    upper_y = middle(top) - 0.12 * gap * part(top)
    upper_y -= identity.upper_lip * thin * np.array([0.0, 0.66, 1.0, 0.84, 1.0, 0.66, 0.0])
    lower_y = middle(bottom) + 0.88 * gap * part(bottom)
    lower_y += identity.lower_lip * thin * np.array([0.66, 0.96, 1.0, 0.96, 0.66])
    inner_upper_y = middle(inner_top) - 0.12 * gap * part(inner_top)
    inner_lower_y = middle(inner_bottom) + 0.88 * gap * part(inner_bottom)
    centre = expression.mouth_shift + identity.asymmetry[5]
    outer_x, inner_x = np.concatenate([top, bottom]), np.concatenate([inner_top, inner_bottom])
    outer = np.column_stack([centre + width * outer_x, np.concatenate([upper_y, lower_y])])
    inner = np.column_stack([centre + width * inner_x, np.concatenate([inner_upper_y, inner_lower_y])])
    return outer, inner


def _ordered(x: Array, y: Array, side: int) -> Array:
    """Points given from the middle outwards, put on one side of the face and ordered left to right."""
    return np.column_stack([side * x, y])[::side]


def _frontal_outline(jaw: Array) -> Array:
    """The closed outline (m, 2) of the frontal head: along the jaw, then over the crown back to its start."""
    angle = np.linspace(0.0, np.pi, 33)[1:-1]
    half = (jaw[16, 0] - jaw[0, 0]) / 2
    ear = (jaw[16] + jaw[0]) / 2
    dome = np.column_stack(
        [ear[0] + half * np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** 0.85,
         ear[1] + (_CROWN_Y - ear[1]) * np.sin(angle) ** 0.9]
    )  # fmt: skip
    return np.concatenate([spline(jaw, samples=_CONTOUR_SAMPLES), dome])


def _bumps(identity: Identity, expression: Expression, points: Array) -> Array:
    """The Gaussians (k, 5) that turn the cushion into a face, hung on the frontal points."""
    tall = identity.nose_height
    root, upper, lower, tip = points[BRIDGE]
    base = points[33]
    smile = max(expression.smile, 0.0)
    lip_top, lip_bottom = points[51], points[57]
    mouth = points[OUTER_LIPS].mean(axis=0)
    chin = points[8]
    rows: list[tuple[float, float, float, float, float]] = [
        (root[0], root[1] - 0.05, 0.105, 0.14, 0.09 * tall),
        (upper[0], upper[1], 0.100, 0.12, 0.12 * tall),
        (lower[0], lower[1], 0.100, 0.11, 0.14 * tall),
        (tip[0], tip[1] + 0.01, 0.115, 0.095, 0.30 * tall),
        (base[0], base[1] - 0.06, 0.13, 0.05, 0.06 * tall),
        (mouth[0], mouth[1], 0.30, 0.24, 0.07),
        (lip_top[0], (lip_top[1] + points[62, 1]) / 2, 0.19, 0.05, 0.045),
        (lip_bottom[0], (lip_bottom[1] + points[66, 1]) / 2, 0.18, 0.055, 0.065),
        (lip_bottom[0], lip_bottom[1] + 0.085, 0.20, 0.05, -0.05),
        (chin[0], chin[1] - 0.18, 0.17, 0.12, 0.08),
        (base[0], (base[1] + lip_top[1]) / 2, 0.028, 0.06, -0.02),
        (0.0, -0.85, 0.5, 0.25, 0.03),
    ]
    for side, brow, eye, nostril, corner in ((-1, 19, EYES[0], 31, 48), (1, 24, EYES[1], 35, 54)):
        centre = points[eye].mean(axis=0)
        rows += [
            (points[nostril, 0] * 0.80, points[nostril, 1] - 0.045, 0.058, 0.065, 0.12),
            (centre[0], centre[1] - 0.02, 0.20, 0.13, -0.13),
            (centre[0] - side * 0.22, centre[1] + 0.01, 0.07, 0.10, -0.07),
            (centre[0], centre[1], 0.13, 0.085, 0.08),
            (points[brow, 0] * 0.85, points[brow, 1] + 0.03, 0.24, 0.08, 0.06),
            (side * 0.60, 0.02, 0.20, 0.17, 0.05),
            (side * 0.46, 0.22, 0.16, 0.14, 0.02 + 0.06 * smile),
            (points[corner, 0], points[corner, 1], 0.06, 0.06, -0.035 - 0.02 * smile),
            (points[corner, 0] * 1.18, points[corner, 1] - 0.06, 0.05, 0.13, -0.025 * smile),
        ]
    return np.array(rows)
