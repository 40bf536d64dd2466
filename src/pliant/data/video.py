"""Videos as rows of images: files that OpenCV can read, and folders or patterns of frames."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Image
from pliant.data.images import EXTENSIONS
from pliant.data.sources import find_images
from pliant.files import require_plain

_ERRORS = 2
"""The level of OpenCV's log that leaves warnings out."""

RATE = 25.0
"""Frames a second, where a file does not say, and for folders."""


@dataclass(frozen=True)
class Video:
    """The frames of a video. You can go through it as often as you like.

    Attributes
    ----------
    name : str
        The file, folder or pattern.
    count : int or None
        How many frames there should be; None if the file does not say.
    rate : float
        Frames per second.
    every : int
        Every how many frames of the file one is used. `count` and `rate` refer to those that are used.
    files : tuple of Path
        The frames of a folder; empty for a video file.

    Examples
    --------
    >>> import pliant
    >>> video = pliant.read_video("face.mp4", every=2)
    >>> video.count, video.rate, len(list(video))
    (3, 12.5, 3)

    """

    name: str
    count: int | None
    rate: float
    every: int = 1
    files: tuple[Path, ...] = ()

    def __iter__(self) -> Iterator[Image | Path]:
        """RGB images `(h, w, 3)`, or the files of a folder, which are not opened here."""
        return iter(self.files) if self.files else self._decoded()

    def _decoded(self) -> Iterator[Image]:
        capture = open_video(self.name)
        try:
            number = 0
            while capture.grab():
                if number % self.every == 0:
                    good, frame = capture.retrieve()
                    if not good:
                        return
                    yield np.ascontiguousarray(frame[:, :, ::-1])
                number += 1
        finally:
            capture.release()


def read_video(path: Path | str, every: int = 1) -> Video:
    """Open a video, for `track` or for a loop of your own.

    Parameters
    ----------
    path : Path or str
        A video file, a folder of images, or a pattern of them (`frames/*.png`). Images are taken in the order of
        the numbers in their names.
    every : int
        Use every frame (1), every other frame (2), and so on.

    Returns
    -------
    Video
        An iterable of RGB images `(h, w, 3)`, or of the files of a folder. It knows its `count`, if the file says,
        and its `rate` in frames per second.

    Raises
    ------
    ValueError
        If the video cannot be read.

    Examples
    --------
    >>> import pliant
    >>> video = pliant.read_video("face.mp4")
    >>> video.count, video.rate
    (6, 25.0)
    >>> next(iter(video)).shape
    (72, 96, 3)

    """
    if every < 1:
        raise ValueError(f"every = {every!r}: use 1 for every frame, 2 for every second frame, and so on.")
    file = Path(path)
    if not file.is_file() or (file.suffix.lower() in EXTENSIONS and file.suffix.lower() != ".gif"):
        if not file.is_dir():
            require_plain(file)
        if not file.exists() and not any(sign in str(path) for sign in "*?["):
            raise ValueError(f"{path}: there is no such video, and no such folder of frames.")
        files = sorted(map(Path, find_images([str(path)])), key=_by_number)[::every]
        return Video(str(path), len(files), RATE / every, every, tuple(files))
    import cv2

    capture = open_video(str(path))
    count, rate = capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)
    begun = capture.grab()
    capture.release()
    if not begun:
        raise ValueError(f"{path}: no frame of this video can be read.")
    known = -(-int(count) // every) if 0 < count < 1e9 else None
    return Video(str(path), known, (rate if 0 < rate < 1e5 else RATE) / every, every)


def open_video(path: str) -> Any:
    """A video as OpenCV has it; a ValueError if it cannot read it."""
    # What FFmpeg has to say about a damaged file is said by us, once. It reads this when it is loaded.
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    import cv2

    # OpenCV 4.10 to 4.12 have this function at the top, and 4.14 has not.
    set_level: Any = getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel
    level = set_level(_ERRORS)
    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
    set_level(level)
    if not capture.isOpened():
        if os.path.exists(path) and not os.access(path, os.R_OK):
            raise ValueError(f"{path}: this video cannot be read (Permission denied).")
        raise ValueError(f"{path}: OpenCV cannot read this video, or it is damaged.")
    return capture


def _by_number(file: Path) -> list[tuple[int, str]]:
    """Frame 2 comes before frame 10."""
    parts = re.split(r"([0-9]+)", str(file))
    return [(int(part), "") if number % 2 else (-1, part) for number, part in enumerate(parts)]
