"""A face that moves, speaks and blinks while the light changes, with the 68 landmarks of every frame.

Somewhere in the middle a board passes in front of the face, and later the face leaves the picture on one side and
comes back from the other: what follows it must notice both, and find it again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pliant.arrays import Concise
from pliant.synthetic.anatomy import build_head, placed
from pliant.synthetic.canvas import Array, Mask, fill, paint, smoothstep
from pliant.synthetic.portrait import develop, exposure_of, painted
from pliant.synthetic.scene import background
from pliant.synthetic.traits import (
    Expression,
    Light,
    draw_expression,
    draw_identity,
    draw_light,
    draw_pose,
    draw_style,
)

RATE = 25.0
"""Frames a second."""

_HIDDEN = (0.36, 0.50)
_GONE = (0.66, 0.88)
"""The parts of the video in which the board passes, and in which the face is on its way out and back."""


@dataclass(frozen=True, eq=False, repr=False)
class FaceFrame(Concise):
    """One frame of a synthetic video.

    Attributes
    ----------
    image : ndarray of uint8, shape (h, w, 3)
        The frame in RGB.
    points : ndarray, shape (68, 2)
        The landmarks as x and y, in the iBUG order.
    visible : float
        The share of the landmarks that can be seen.

    Examples
    --------
    >>> import pliant
    >>> frame = next(pliant.synthetic.face_video(frames=2, width=64))
    >>> frame.image.shape, frame.points.shape
    ((48, 64, 3), (68, 2))

    """

    image: NDArray[np.uint8]
    points: Array
    visible: float


@dataclass(frozen=True)
class _Motion:
    """What changes from frame to frame; one value a frame, angles in radians, lengths in shares of the width."""

    yaw: Array
    pitch: Array
    roll: Array
    scale: Array
    centre: Array
    mouth_open: Array
    smile: Array
    brow_raise: Array
    lids: Array
    gaze: Array
    azimuth: Array
    brightness: Array


def face_video(
    frames: int = 250, seed: int = 0, width: int = 320, *, interrupted: bool = True
) -> Iterator[FaceFrame]:
    """Draw the frames of a video of one face, 4 : 3, as you ask for them.

    Parameters
    ----------
    frames : int
        How many frames.
    seed : int
        Another seed shows another person.
    width : int
        The width of the frames, in pixels.
    interrupted : bool
        Something hides the face for a while, and it leaves the picture. Otherwise it is in full view all the time.

    Yields
    ------
    FaceFrame
        The image, its landmarks, and how much of the face can be seen.

    Examples
    --------
    >>> import pliant
    >>> [frame.visible for frame in pliant.synthetic.face_video(frames=2, width=64, interrupted=False)]
    [1.0, 1.0]

    """
    rng = np.random.default_rng([seed, 0x51DE0])
    identity, expression, pose = draw_identity(rng), draw_expression(rng), draw_pose(rng)
    light, style = draw_light(rng), draw_style(rng)
    motion = _motion(frames, interrupted, rng)
    poster = background(width, rng)
    # The image is drawn square and cut: the exposure stays that of the first frame, as if the camera had been set.
    cut = slice(width // 8, width // 8 + 3 * width // 4)
    exposure = None
    for number in range(frames):
        moment = _expression(motion, number, expression)
        turned = replace(pose, yaw=motion.yaw[number], pitch=motion.pitch[number], roll=motion.roll[number])
        shining = _light(motion, number, light)
        head = placed(
            build_head(identity, moment, turned, width),
            float(motion.scale[number]) * width,
            motion.centre[number] * width,
        )
        # A copy: every frame shows the same room, hair and skin. The grain of the film is its own.
        image, skin = painted(head, identity, moment, shining, style, turned.yaw, deepcopy(rng))
        exposure = exposure or exposure_of(image, skin)
        seen = np.ones(len(head.points), bool)
        if interrupted:
            board = _board((number + 0.5) / frames, width)
            paint(image, board, poster[board.window])
            seen = _beside(board, head.points)
        grain = np.random.default_rng([seed, 0x51DE0, number])
        points = head.points - (0, cut.start)
        inside = np.all((points >= 0) & (points <= (width - 1, cut.stop - cut.start - 1)), axis=1)
        picture = develop(image, exposure, shining, grain)[cut]
        yield FaceFrame(picture, points, float(np.mean(inside & seen)))


def write_video(folder: Path | str, frames: int = 250, seed: int = 0, width: int = 320) -> Path:
    """Write a video of a face, `face.mp4`, and its landmarks, `face.csv`.

    The table has the columns frame, time, visible, x0, y0, x1, y1 and so on.

    Parameters
    ----------
    folder : Path or str
        The folder; it is made if it does not exist.
    frames : int
        How many frames.
    seed : int
        Another seed shows another person.
    width : int
        The width of the frames, in pixels.

    Returns
    -------
    Path
        The video.

    Examples
    --------
    >>> import pliant
    >>> file = pliant.synthetic.write_video("film", frames=3, width=64)
    >>> pliant.read_video(file).count
    3

    """
    import cv2

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "face.mp4"
    size = (width, 3 * width // 4)
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"mp4v"), RATE, size)  # type: ignore[attr-defined]
    if not writer.isOpened():
        raise OSError(f"{file}: OpenCV cannot write a video here. Is the folder writable?")
    with open(folder / "face.csv", "w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(["frame", "time", "visible", *(f"{axis}{k}" for k in range(68) for axis in "xy")])
        for number, frame in enumerate(face_video(frames, seed, width)):
            writer.write(np.ascontiguousarray(frame.image[:, :, ::-1]))
            coordinates = [f"{value:.3f}" for value in frame.points.ravel()]
            rows.writerow([number, f"{number / RATE:.3f}", f"{frame.visible:.3f}", *coordinates])
    writer.release()
    return file


def _motion(frames: int, interrupted: bool, rng: Generator) -> _Motion:
    seconds = np.arange(frames) / RATE

    def wave(period: float) -> Array:
        """A smooth curve between -1 and 1 that repeats after about `period` seconds, but not quite."""
        first, second = rng.uniform(0, 2 * np.pi, 2)
        turns = 2 * np.pi * seconds / period
        return np.asarray(0.75 * np.sin(turns + first) + 0.25 * np.sin(1.7 * turns + second))

    centre = np.stack([0.5 + 0.12 * wave(5.0), 0.49 + 0.04 * wave(4.0)], axis=1)
    if interrupted:
        centre[:, 0] += _absence((np.arange(frames) + 0.5) / frames)
    talking = smoothstep(-0.2, 0.5, wave(6.0))
    # A blink takes a quarter of a second, every three seconds or so.
    blinks = np.arange(rng.uniform(0.5, 2.0), frames / RATE, 3.1)
    lids = np.exp(-0.5 * ((seconds[:, None] - blinks) / 0.06) ** 2).sum(axis=1)
    return _Motion(
        yaw=np.deg2rad(20) * wave(6.5),
        pitch=np.deg2rad(8) * wave(5.0),
        roll=np.deg2rad(10) * wave(7.0),
        scale=0.165 * (1 + 0.2 * wave(8.0)),
        centre=centre,
        mouth_open=np.asarray(talking * np.clip(0.3 + 0.45 * wave(0.9), 0, 1)),
        smile=0.3 + 0.6 * wave(7.5),
        brow_raise=0.7 * wave(3.5),
        lids=np.asarray(np.clip(lids, 0, 1)),
        gaze=np.stack([0.4 * wave(2.5), 0.2 * wave(3.0)], axis=1),
        azimuth=np.deg2rad(35) * wave(9.0),
        brightness=1 + 0.15 * wave(4.5),
    )


def _absence(share: Array) -> Array:
    """How far the face is beside its place (n,), in widths: out to the right, and back from the left."""
    begin, end = _GONE
    part = (share - begin) / (end - begin)
    out, back = smoothstep(0.0, 0.4, part), smoothstep(1.0, 0.6, part)
    return np.asarray(np.where(part < 0.5, out, -back) * ((part > 0) & (part < 1)), np.float64)


def _board(share: float, width: int) -> Mask:
    """A leaning board, more than wide enough to hide the face, on its way from left to right."""
    begin, end = _HIDDEN
    middle = -0.6 + 2.2 * float(np.clip((share - begin) / (end - begin), 0, 1))
    corners = np.array([(-0.3, -0.1), (0.4, -0.1), (0.3, 1.1), (-0.4, 1.1)]) + (middle, 0)
    return fill(corners * width, width)


def _beside(board: Mask, points: Array) -> NDArray[np.bool_]:
    """Whether points (v, 2) are not behind the board."""
    column, row = np.rint(points - (board.left, board.top)).astype(int).T
    height, width = board.alpha.shape
    within = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    hidden = board.alpha[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)] > 0.5
    return np.asarray(~(within & hidden))


def _expression(motion: _Motion, number: int, own: Expression) -> Expression:
    """The person's own asymmetries, moved."""
    return replace(
        own,
        mouth_open=float(motion.mouth_open[number]),
        smile=float(motion.smile[number]),
        brow_raise=own.brow_raise - own.brow_raise.mean() + motion.brow_raise[number],
        lid_closure=np.clip([0.1 + motion.lids[number]] * 2, 0, 1),
        gaze=motion.gaze[number],
    )


def _light(motion: _Motion, number: int, own: Light) -> Light:
    """The key light swung around the head, and dimmed."""
    cosine, sine = np.cos(motion.azimuth[number]), np.sin(motion.azimuth[number])
    x, y, z = own.towards
    towards = np.array([cosine * x + sine * z, y, abs(cosine * z - sine * x)])
    return replace(own, towards=towards, key=own.key * motion.brightness[number])
