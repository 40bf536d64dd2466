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

    There is no video if OpenCV can write none.
    """
    import cv2

    writer: Any = None
    shown: NDArray[Any] | None = None
    waiting: deque[Future[None]] = deque()

    def draw(number: int, record: TrackedFrame) -> None:
        nonlocal writer, shown
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


def _opened(folder: Path, rate: float, size: tuple[int, int]) -> Any:
    """A writer of the first kind of video that OpenCV can write; of none, it writes nothing."""
    import cv2

    for name, code in OVERLAYS.items():
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*code), rate, size)
        if writer.isOpened():
            break
    return writer


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
