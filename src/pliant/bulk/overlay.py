"""A video with the landmarks drawn in, written by another thread while the next frame is fitted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Image
from pliant.plots import paint_overlay
from pliant.plots.painter import paint_caption, paint_number
from pliant.plots.style import STYLE
from pliant.tracking import TrackedFrame

OVERLAYS = {"overlay.mp4": "mp4v", "overlay.avi": "MJPG"}
"""Names of the video and how it is coded: MPEG-4, or Motion JPEG where OpenCV cannot write that."""

_WAITING = 3
"""Frames that may wait to be drawn."""

_COLOURS = {"tracked": "#F0E442", "restarted": "#56B4E9", "lost": "#D55E00"}
"""Okabe and Ito's yellow, sky blue and vermilion."""


@contextmanager
def overlay_writer(
    folder: Path, rate: float, labels: Sequence[str]
) -> Iterator[Callable[[int, TrackedFrame], None]]:
    """A function that adds a frame, with its number, to the video in a folder; `labels` are beside landmarks.

    There is no video if OpenCV can write none. One that is not whole in the end is an OSError.
    """
    import cv2

    writer: Any = None
    shown: NDArray[Any] | None = None
    frames = 0
    waiting: deque[Future[None]] = deque()

    def draw(number: int, record: TrackedFrame) -> None:
        nonlocal writer, shown, frames
        if record.image is not None:
            picture = _picture(number, record.image, record, labels)
            # OpenCV leaves out frames of another size without a word.
            if shown is not None and picture.shape != shown.shape:
                picture = np.asarray(cv2.resize(picture, shown.shape[1::-1]))
            shown = picture
        if shown is None:
            return
        if writer is None:
            writer = _opened(folder, rate, (shown.shape[1], shown.shape[0]))
        writer.write(shown)
        frames += 1

    def write(number: int, record: TrackedFrame) -> None:
        waiting.append(pool.submit(draw, number, record))
        if len(waiting) > _WAITING:
            waiting.popleft().result()

    with ThreadPoolExecutor(1) as pool:
        try:
            yield write
        finally:
            while waiting:
                waiting.popleft().result()
            if writer is not None:
                writer.release()
    if writer is not None:
        _require_whole(folder, frames)


def _opened(folder: Path, rate: float, size: tuple[int, int]) -> Any:
    """A writer of the first kind of video that OpenCV can write; of none, it writes nothing."""
    import cv2

    for name, code in OVERLAYS.items():
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*code), rate, size)
        if writer.isOpened():
            break
    return writer


def _require_whole(folder: Path, frames: int) -> None:
    """Refuse a video with fewer frames than were written: OpenCV says nothing when the disk is full."""
    import cv2

    for path in (folder / name for name in OVERLAYS):
        if path.exists():
            film = cv2.VideoCapture(str(path))
            there = int(film.get(cv2.CAP_PROP_FRAME_COUNT)) if film.isOpened() else 0
            film.release()
            if there < frames:
                raise OSError(
                    f"{path}: only {there} of {frames} frames are in this video. The disk may be full: make "
                    "room, and run it again; or use overlay=False."
                )


def _picture(number: int, image: Image, record: TrackedFrame, labels: Sequence[str]) -> NDArray[Any]:
    """The frame as OpenCV has it, blue first, with landmarks and what happened; several objects have numbers."""
    several = len(record.objects) > 1 or record.objects[0].number > 0
    picture = image
    for one in record.objects:
        style = replace(STYLE, fit=_COLOURS[one.event])
        picture = paint_overlay(picture, one.result.points, style, labels=labels)
        if several:
            picture = paint_number(picture, one.result.points, str(one.number), style.fit)
    said = ", ".join(f"{one.number} {one.event}" if several else str(one.event) for one in record.objects)
    caption = paint_caption(picture, f"{number}  {said}", _COLOURS[record.event])
    return np.ascontiguousarray(caption[:, :, ::-1])
