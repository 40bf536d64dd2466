"""Images of results: found again by the names that tables have, shown small, cut out, or frame by frame."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import numpy as np
from PIL import ExifTags
from PIL import Image as PIL

from pliant.arrays import Floats
from pliant.data.addresses import is_address
from pliant.data.images import EXTENSIONS, ImageError, image_size, read_image
from pliant.data.names import readable
from pliant.files import require_plain
from pliant.studio.web.pictures import as_picture, encoded

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels of the image; the last two are not in it."""

_PICTURES = 24 * 2**20
"""Bytes of small pictures that are kept."""

_AROUND = 0.35
"""How much is shown around an object, over its size."""

_AHEAD = 240
"""Frames that are decoded one after the other rather than jumped over: jumps are slow, and not exact everywhere."""

_NAMES = 4096


@dataclass(eq=False)
class Gallery:
    """The images of a result; `near` are folders that their names may be relative to."""

    near: Sequence[Path]
    _paths: OrderedDict[tuple[str, tuple[int, int] | None], Path] = field(default_factory=OrderedDict)
    _pictures: OrderedDict[tuple[Any, ...], bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._film: _Film | None = None

    def find(self, name: str, size: tuple[int, int] | None) -> Path:
        """The file of an image; an ImageError says what is known if there is none.

        A name that is relative is looked for near the result. An image that has moved is taken for the one in the
        table only if it has the `size` (width, height) that it had.
        """
        key = (name, size)
        with self._lock:
            if key in self._paths and self._paths[key].is_file():
                return self._paths[key]
        if is_address(name):
            raise ImageError(
                f"{readable(name)} is not on this machine: the studio does not fetch images from elsewhere."
            )
        path = next((one for one in self._candidates(name, size) if one.is_file()), None)
        if path is None:
            raise ImageError(f"{readable(name)} no longer exists.")
        with self._lock:
            self._paths[key] = path
            while len(self._paths) > _NAMES:
                self._paths.popitem(last=False)
        return path

    def _candidates(self, name: str, size: tuple[int, int] | None) -> Iterable[Path]:
        if os.path.isabs(name):
            yield Path(name)
        else:
            for folder in self.near:
                yield folder / name
        parts = PurePosixPath(name).parts
        for tail in (parts[-2:], parts[-1:]):
            for folder in self.near:
                path = folder.joinpath(*(part for part in tail if part not in ("/", "..")))
                if size is not None and path.is_file() and _size(path) == size:
                    yield path

    def picture(
        self, name: str, size: tuple[int, int] | None, frame: int | None, box: Box | None, width: int | None
    ) -> bytes:
        """A JPEG of an image, or of the part in a box, that is at most `width` wide."""
        path = self.find(name, size)
        facts = path.stat()
        key = (path, facts.st_mtime_ns, facts.st_size, frame, box, width)
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        content = self._drawn(path, frame, box, width)
        with self._lock:
            if key not in self._pictures and len(content) < _PICTURES // 8:
                self._pictures[key] = content
                self._bytes += len(content)
            while self._bytes > _PICTURES:
                self._bytes -= len(self._pictures.popitem(last=False)[1])
        return content

    def _drawn(self, path: Path, frame: int | None, box: Box | None, width: int | None) -> bytes:
        require_plain(path)
        if frame is not None and path.suffix.lower() not in EXTENSIONS:
            with self._lock:
                if self._film is None or self._film.path != path:
                    self._film = _Film(path)
                picture = PIL.fromarray(self._film.frame(frame))
            return encoded(_cut(picture, box, 1.0), width)
        small, share = _quickly(path, box, width) or (as_picture(read_image(path)), 1.0)
        return encoded(_cut(small, box, share), width)


@dataclass(eq=False)
class _Film:
    """A video that frames are asked of by number."""

    path: Path

    def __post_init__(self) -> None:
        from pliant.data.video import open_video

        self._open: Any = lambda: open_video(str(self.path))
        self._capture, self._next = self._open(), 0

    def frame(self, number: int) -> Any:
        """An RGB image `(h, w, 3)`."""
        import cv2

        if not self._next <= number <= self._next + _AHEAD:
            if number <= _AHEAD:
                self._capture.release()
                self._capture, self._next = self._open(), 0
            else:
                self._capture.set(cv2.CAP_PROP_POS_FRAMES, number)
                self._next = number
        while self._next < number and self._capture.grab():
            self._next += 1
        good, frame = self._capture.read()
        if not good:
            raise ImageError(f"{readable(self.path.name)}: frame {number} cannot be read.")
        self._next = number + 1
        return np.ascontiguousarray(frame[:, :, ::-1])


def box_around(points: Floats, size: tuple[int, int]) -> Box:
    """A box around landmarks `(v, 2)` with some of what is about them, as far as the image reaches."""
    known = points[np.isfinite(points).all(axis=1)]
    low, high = known.min(axis=0), known.max(axis=0)
    # As wide as high, so that all pictures of a gallery fill their place.
    half = max(float((high - low).max()) / 2 * (1 + 2 * _AROUND), 8.0)
    middle = (low + high) / 2
    ends: list[tuple[int, int]] = []
    for centre, length in zip(middle, size, strict=True):
        first = math.floor(centre - half)
        last = first + math.ceil(2 * half) + 1
        first = min(max(first, 0), length - 1)
        ends.append((first, min(max(last, first + 1), length)))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def _cut(picture: PIL.Image, box: Box | None, share: float) -> PIL.Image:
    """The part of a picture in a box of the image, of whose size the picture has a share."""
    if box is None:
        return picture
    left, top, right, bottom = (round(value * share) for value in box)
    right, bottom = min(right, picture.width), min(bottom, picture.height)
    if right <= left or bottom <= top:
        return picture
    return picture.crop((left, top, right, bottom))


def _quickly(path: Path, box: Box | None, width: int | None) -> tuple[PIL.Image, float] | None:
    """A JPEG at a fraction of its size that is enough, and the fraction; None for what must be read in full."""
    if width is None or path.suffix.lower() not in (".jpg", ".jpeg"):
        return None
    try:
        with PIL.open(path) as file:
            plain = file.mode in ("L", "RGB") and file.getexif().get(ExifTags.Base.Orientation, 1) in (0, 1)
            if file.format != "JPEG" or not plain:
                return None
            full = file.width
            wide = full if box is None else box[2] - box[0]
            least = max(1, round(full * min(1.0, width / max(wide, 1))))
            file.draft(file.mode, (least, 1))
            file.load()
            return file.copy(), file.width / full
    except Exception as error:  # Pillow raises all kinds of them for damaged files.
        raise ImageError(f"{readable(path.name)}: the image is damaged or incomplete ({error}).") from None


def _size(path: Path) -> tuple[int, int] | None:
    try:
        return image_size(path)
    except ValueError:
        return None
