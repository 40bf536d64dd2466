"""Images as browsers can show them: upright, 8-bit, and smaller if that is enough."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags
from PIL import Image as PIL
from starlette.responses import FileResponse, Response

from pliant.arrays import Image
from pliant.data.images import ImageError, image_size, read_image

_SHOWN_BY_BROWSERS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}

LARGEST_PIXELS = 50_000_000
"""Pixels of an image that somebody sends: a small file may hold a picture that no memory does."""

_HEADERS = {"Cache-Control": "private, max-age=60"}


def picture_of(source: Path, width: int | None = None) -> Response:
    """An image, at most `width` wide if that is given; the file itself where a browser shows it alike."""
    if width is None and (media := _shown_alike(source)):
        return FileResponse(source, media_type=media, headers=_HEADERS)
    small = _quickly(source, width) if width is not None else None
    content = encoded(small or as_picture(read_image(source)), width)
    return Response(content, media_type="image/jpeg", headers=_HEADERS)


def uploaded(content: bytes, name: str) -> Image:
    """The image in a request's bytes; an ImageError says what is wrong with it."""
    from tempfile import NamedTemporaryFile

    # Readers take paths, and tell DICOM and the like by what is in a file.
    with NamedTemporaryFile(suffix=Path(name).suffix[:10]) as passing:
        passing.write(content)
        passing.flush()
        try:
            width, height = image_size(Path(passing.name))
            if width * height > LARGEST_PIXELS:
                raise ImageError(
                    f"{passing.name}: {width} x {height} pixels are more than the limit of "
                    f"{LARGEST_PIXELS // 10**6} million: shrink the image, or crop it to the object."
                )
            return read_image(Path(passing.name))
        except ImageError as error:
            raise ImageError(str(error).replace(passing.name, name or "the image")) from None


def as_picture(image: Image) -> PIL.Image:
    """An image `(h, w)` or `(h, w, 3)` as Pillow has it."""
    if np.issubdtype(image.dtype, np.floating):
        image = np.asarray(np.clip(image, 0, 1) * 255 + 0.5, dtype=np.uint8)
    return PIL.fromarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)


def encoded(picture: PIL.Image, width: int | None = None, kind: str = "JPEG") -> bytes:
    """The bytes of a picture's file, made smaller first if it is wider than wanted."""
    if width is not None and picture.width > width:
        picture = picture.resize(
            (width, max(1, round(picture.height * width / picture.width))), PIL.Resampling.BOX
        )
    buffer = BytesIO()
    picture.save(buffer, kind, quality=92)
    return buffer.getvalue()


def _shown_alike(path: Path) -> str:
    """The media type of a file that a browser shows as `read_image` reads it, or nothing."""
    try:
        with PIL.open(path) as file:
            plain = file.mode in ("L", "RGB") and file.getexif().get(ExifTags.Base.Orientation, 1) in (0, 1)
            return _SHOWN_BY_BROWSERS.get(file.format or "", "") if plain else ""
    except Exception:
        return ""


def _quickly(path: Path, width: int) -> PIL.Image | None:
    """A small picture of a JPEG, decoded at a fraction of its size; None for what must be read in full."""
    if not (media := _shown_alike(path)) or media != "image/jpeg":
        return None
    try:
        with PIL.open(path) as file:
            file.draft(file.mode, (width, width))
            file.load()
            return file.copy()
    except Exception as error:
        raise ImageError(f"{path.name}: the image is damaged or incomplete ({error}).") from None
