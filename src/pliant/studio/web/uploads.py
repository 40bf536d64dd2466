"""Images that pages have sent: kept in memory while they are among the last few, and never written to a folder."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from pliant.arrays import Image
from pliant.studio.web.endpoints import Refused
from pliant.studio.web.pictures import uploaded

MOST_IMAGES, MOST_BYTES = 8, 400 * 2**20
"""What is kept at once; the newest image is kept in any case."""


@dataclass(frozen=True, eq=False)
class Upload:
    """An image `(h, w)` or `(h, w, 3)`, and the name that it came with."""

    id: str
    name: str
    image: Image


class Uploads:
    """The last images that were sent; older ones are forgotten."""

    def __init__(self) -> None:
        self._lock, self._decoding = Lock(), Lock()
        self._kept: OrderedDict[str, Upload] = OrderedDict()

    def take(self, content: bytes, name: str) -> Upload:
        """Keep the image in a file's bytes; an ImageError says what is wrong with them."""
        name = plain_name(name)
        if not content:
            raise ValueError(f"{name}: the file is empty.")
        # One at a time: several large images that are decoded at once may need more memory than there is.
        with self._decoding:
            one = Upload(secrets.token_hex(8), name, uploaded(content, name))
        with self._lock:
            self._kept[one.id] = one
            while len(self._kept) > 1 and (len(self._kept) > MOST_IMAGES or self._bytes() > MOST_BYTES):
                self._kept.popitem(last=False)
        return one

    def find(self, id: str) -> Upload:
        """The image of this id, which was used just now; refused if it is forgotten."""
        with self._lock:
            if id not in self._kept:
                raise Refused("this image is no longer available: drop it on the page again.", 410)
            self._kept.move_to_end(id)
            return self._kept[id]

    def _bytes(self) -> int:
        return sum(one.image.nbytes for one in self._kept.values())


def plain_name(name: str) -> str:
    """The last part of a name, without what cannot be printed; it is shown, and never opened."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable())[:120].strip() or "image"
