"""One annotated face, from the dice to the pixels."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pliant.synthetic.anatomy import Head, build_head
from pliant.synthetic.canvas import Image, Mask, blur, paint
from pliant.synthetic.features import paint_brows, paint_eyes, paint_mouth, paint_nose
from pliant.synthetic.glasses import paint_glasses
from pliant.synthetic.hair import face_mask, grow, paint_back, paint_cap, paint_fringe, paint_locks
from pliant.synthetic.scene import background, paint_body, paint_ears
from pliant.synthetic.skin import lit_skin
from pliant.synthetic.traits import (
    Expression,
    Identity,
    Light,
    Style,
    draw_expression,
    draw_identity,
    draw_light,
    draw_pose,
    draw_style,
)

_TONES = 8192


def face(index: int, seed: int = 0, image_size: int = 256) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Draw one annotated face at random.

    Parameters
    ----------
    index : int
        Which face.
    seed : int
        Another seed gives other faces. The same index and seed give the same face at every `image_size`.
    image_size : int
        Width and height, in pixels.

    Returns
    -------
    image : ndarray of uint8, shape (image_size, image_size, 3)
        The picture in RGB.
    points : ndarray, shape (68, 2)
        The landmarks as x and y, 0-based with pixel centres at integers, in the iBUG order.

    Examples
    --------
    >>> import pliant
    >>> image, points = pliant.synthetic.face(3, image_size=64)
    >>> image.shape, points.shape
    ((64, 64, 3), (68, 2))

    """
    rng = np.random.default_rng([seed, index])
    identity, expression, pose = draw_identity(rng), draw_expression(rng), draw_pose(rng)
    light, style = draw_light(rng), draw_style(rng)
    head = build_head(identity, expression, pose, image_size)
    image, skin = painted(head, identity, expression, light, style, pose.yaw, rng)
    return develop(image, exposure_of(image, skin), light, rng), head.points


def face_shape(index: int, seed: int = 0, image_size: int = 256) -> NDArray[np.float64]:
    """The landmarks (68, 2) of one face, without drawing it."""
    rng = np.random.default_rng([seed, index])
    identity, expression, pose = draw_identity(rng), draw_expression(rng), draw_pose(rng)
    return build_head(identity, expression, pose, image_size).points


def painted(
    head: Head,
    identity: Identity,
    expression: Expression,
    light: Light,
    style: Style,
    yaw: float,
    rng: Generator,
) -> tuple[Image, Mask]:
    """The linear-light picture (s, s, 3) of one head in a room, and where the skin of its face shows.

    As many numbers are drawn for every head: the same generator gives the same room, hair and skin.
    """
    image = background(head.view.size, rng)
    hair = grow(head, identity, style, rng)
    skin = lit_skin(head, identity, light, rng)
    paint_back(image, head, hair, style, light)
    paint_body(image, head, identity, style, light)
    paint_cap(image, head, hair, identity, style, light)
    paint_ears(image, head, identity, light)
    paint_locks(image, head, hair, style, light)
    visible = face_mask(head, hair, style)
    paint(image, visible, skin.colour[visible.window])
    paint_nose(image, head)
    paint_mouth(image, head, identity, expression, skin, light)
    paint_eyes(image, head, identity, expression, light, skin)
    paint_brows(image, head, identity, skin, rng)
    paint_fringe(image, head, hair, style, light)
    paint_glasses(image, head, style, light, yaw)
    return image, visible


def exposure_of(image: Image, skin: Mask) -> float:
    """How bright a face is in linear light."""
    return float(image[skin.window].mean(axis=2)[skin.alpha > 0.5].mean())


def develop(image: Image, exposure: float, light: Light, rng: Generator) -> NDArray[np.uint8]:
    """Linear light to 8 bits as a camera would: exposure, lens blur, tone curve and noise."""
    # A camera half corrects for how bright the face of mean `exposure` is.
    gain = light.gain * (0.27 / exposure) ** 0.42
    seen = blur(image, light.blur * image.shape[0] / 256)
    levels = np.linspace(0.0, 3.0, _TONES)
    curve = ((gain * levels) / (1 + (gain * levels) ** 4) ** 0.25) ** (light.gamma / 2.2)
    encoded = curve.astype(np.float32)[np.clip(seen * ((_TONES - 1) / 3.0), 0, _TONES - 1).astype(np.int32)]
    # Drawn last, so that their number, which depends on the size, moves no other draw.
    grain = rng.standard_normal(image.shape, dtype=np.float32)
    return np.asarray(np.clip(np.rint(255 * (encoded + light.noise * grain)), 0, 255), np.uint8)
