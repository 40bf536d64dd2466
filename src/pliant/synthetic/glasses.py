"""Glasses: rims, bridge, temples and a reflection, hung in space before the eyes."""

import numpy as np

from pliant.synthetic.anatomy import EYES, Head
from pliant.synthetic.canvas import Array, Image, darken, fill, paint, ribbon, spline
from pliant.synthetic.traits import Light, Style

_TURN = np.linspace(0, 2 * np.pi, 48, endpoint=False)


def _lens(shape: str, side: int, half: float) -> Array:
    """A lens' outline (48, 2) about its centre."""
    power, tall = {"round": (1.0, 0.92), "square": (0.55, 0.68), "aviator": (0.8, 0.82)}[shape]
    x = half * np.sign(np.cos(_TURN)) * np.abs(np.cos(_TURN)) ** power
    y = half * tall * np.sign(np.sin(_TURN)) * np.abs(np.sin(_TURN)) ** power
    if shape == "aviator":
        x = x * (1 - 0.14 * y / half) + side * 0.10 * y
    return np.column_stack([x, y + 0.03])


def paint_glasses(image: Image, head: Head, style: Style, light: Light, yaw: float) -> None:
    """Lay glasses over a finished face, if its style has any."""
    if style.glasses == "none":
        return
    view, unit, size = head.view, head.view.scale, head.view.size
    front = float(head.solid[27, 2]) + 0.10
    thickness = (0.026 if style.glasses == "square" else 0.016) * unit
    rims, strokes = [], []
    for side, eye in zip((-1, 1), EYES, strict=True):
        centre = head.frontal[eye].mean(axis=0) * (1.04, 1.0)
        flat = centre + _lens(style.glasses, side, style.frame_size * 0.93)
        # Frames wrap around the face a little.
        rim = view.project(np.column_stack([flat, front - 0.22 * flat[:, 0] ** 2]))
        rims.append(rim)
        strokes.append(ribbon(np.concatenate([rim, rim[:1]]), thickness))
        if -side * yaw > np.deg2rad(-6):
            hinge = np.array([side * np.abs(flat[:, 0]).max(), centre[1] - 0.08])
            arm = np.array(
                [
                    [*hinge, front - 0.22 * hinge[0] ** 2],
                    [side * 1.0, centre[1] - 0.06, -0.45],
                    [side * 1.02, -0.27, -1.0],
                ]
            )
            strokes.append(ribbon(spline(view.project(arm), 8), thickness * 0.9))
    inner = [np.abs(head.frontal[eye].mean(axis=0)[0] * 1.04) - style.frame_size * 0.93 for eye in EYES]
    height = float(head.frontal[27, 1]) - 0.02
    bridge = np.array(
        [[-inner[0], height, front], [0.0, height - 0.045, front + 0.03], [inner[1], height, front]]
    )
    strokes.append(ribbon(spline(view.project(bridge), 8), thickness))

    drop = unit * np.array([-0.05 * light.towards[0], 0.06])
    fallen = [rim + drop for rim in rims]
    rims_shadow = fill([ribbon(np.concatenate([f, f[:1]]), thickness) for f in fallen], size, 0.025 * unit)
    darken(image, rims_shadow, 0.72)
    for rim in rims:
        lens = fill(rim, size)
        x, y = lens.grid()
        stripe = (x - rim[:, 0].mean() + 0.8 * (y - rim[:, 1].mean())) / (style.frame_size * unit)
        gleam = 0.03 + 0.10 * np.exp(-(((stripe + 0.55 * np.sign(light.towards[0])) / 0.16) ** 2))
        image[lens.window] += (lens.alpha * gleam.astype(np.float32))[..., None] * light.key.astype(
            np.float32
        )
    frame = fill(strokes, size)
    paint(image, frame, style.frame * (light.ambient + 0.6 * light.key) + 0.01)
