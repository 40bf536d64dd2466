"""JPEG files that are decoded at once: most of them, and threads wait for each other as little as they can."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from pliant.arrays import Image

_START = b"\xff\xd8"
_EXIF, _COMMENT, _SCAN = 0xE1, 0xFE, 0xDA
_FRAMES = (0xC0, 0xC1, 0xC2)
"""Markers of images with Huffman codes: sequential, in two kinds, and progressive."""
_TABLES = (0xC4, 0xDB, 0xDD)

_MOST_PIXELS = 2**24
"""Larger images are for Pillow, which refuses the largest; what that takes is little beside their decoding."""


class Head(NamedTuple):
    """What a file says about its image: `channels` is 1 or 3."""

    height: int
    width: int
    channels: int


def plain_head(encoded: bytes) -> Head | None:
    """The head of a grey or coloured image that is upright as it is; None if that is not clear at a glance.

    It is not if there is EXIF, which may turn the image, or any marker that common files do not have.
    """
    found, at = None, len(_START)
    if not encoded.startswith(_START):
        return None
    while at + 10 <= len(encoded):
        start, marker, length = struct.unpack_from(">BBH", encoded, at)
        if start != 0xFF or length < 2:
            return None
        if marker == _SCAN:
            return found
        if marker in _FRAMES:
            bits, height, width, channels = struct.unpack_from(">BHHB", encoded, at + 4)
            if bits != 8 or channels not in (1, 3) or not 0 < height * width <= _MOST_PIXELS:
                return None
            found = Head(height, width, channels)
        elif marker == _EXIF or not (marker in _TABLES or marker == _COMMENT or marker >> 4 == 0xE):
            return None
        at += 2 + length
    return None


def decoded_as(encoded: bytes, head: Head) -> Image | None:
    """The pixels, not turned, `(h, w)` or RGB `(h, w, 3)`; None if the image is damaged: Pillow says how.

    OpenCV has the library that Pillow has. But Pillow keeps the interpreter to itself while it copies pixels: a
    third of the time that an image takes.
    """
    import cv2

    kind = cv2.IMREAD_GRAYSCALE if head.channels == 1 else getattr(cv2, "IMREAD_COLOR_RGB", None)
    if kind is None:  # OpenCV before 4.11
        return None
    pixels = cv2.imdecode(np.frombuffer(encoded, dtype=np.uint8), kind | cv2.IMREAD_IGNORE_ORIENTATION)
    return pixels if pixels is not None and pixels.shape[:2] == head[:2] else None
