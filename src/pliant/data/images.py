"""Reading images: whatever the file holds, what comes out is grey or RGB, and upright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, UnidentifiedImageError
from PIL import Image as PIL

from pliant.appearance.tones import in_range, legible, stretched
from pliant.arrays import Image
from pliant.data import dicom, jpeg
from pliant.data.addresses import Source, as_source, fetched, opened
from pliant.files import IrregularFile, read_plain

EXTENSIONS = (
    ".jpg",
    ".jpeg",
    ".png",
    ".tif",
    ".tiff",
    ".bmp",
    ".webp",
    ".gif",
    ".pgm",
    ".ppm",
    ".jp2",
    ".dcm",
)

_MOST_AT_ONCE = 2**26
"""Bytes of a file that are read at once."""


class ImageError(ValueError):
    """Raised for an image that cannot be used. The message is a sentence that names it.

    Examples
    --------
    >>> import pliant
    >>> try:
    ...     pliant.read_image("manifest.csv")
    ... except pliant.data.ImageError as error:
    ...     print(str(error).split(":")[0])
    manifest.csv

    """


def read_image(path: Source) -> Image:
    """Read an image, grey or RGB, and upright.

    A rotation noted in EXIF is applied. Palette, CMYK and other colour spaces become RGB; transparent pixels are
    laid on white. Images with more than 8 bits, and faint ones, become float32. Black and white are then found in
    the image (`docs/reference/data.md`), or given by the window of a DICOM file.

    Parameters
    ----------
    path : Path or str
        A file of any format that Pillow knows, or DICOM. An address (`s3://`, `zip://inner::archive.zip`) is a
        string.

    Returns
    -------
    array, shape (h, w) or (h, w, 3)
        8-bit values, or float32 with black at 0 and white at 1.

    Raises
    ------
    pliant.data.ImageError
        If the image cannot be read.

    Examples
    --------
    >>> import pliant
    >>> image = pliant.read_image("new.jpg")
    >>> image.shape, image.dtype
    ((96, 96, 3), dtype('uint8'))

    """
    with _decoding(path, "the image is damaged or incomplete"), _content(as_source(path)) as content:
        plain = _plain_jpeg(content)
        if plain is not None:
            return legible(plain)
        if dicom.is_dicom(content):
            return legible(dicom.read_pixels(content))
        with PIL.open(content) as file:
            decoded = _jpeg(file, content)
            if decoded is None:
                decoded = _deep_colour(file, content)
                file.load()
            if decoded is None:
                decoded = _pixels(file, str(path))
            return _turned(legible(decoded), _orientation(file))


def image_size(path: Source) -> tuple[int, int]:
    """Width and height of the image as `read_image` gives it, from the head of the file alone."""
    with _decoding(path, "the size of this image cannot be read"), opened(as_source(path)) as content:
        if dicom.is_dicom(content):
            return dicom.read_size(content)
        with PIL.open(content) as file:
            width, height = file.size
            tags = getattr(file, "tag_v2", None)
            if tags is not None:
                # Pillow swaps the sides of a TIFF itself, in newer versions already here.
                width, height = int(tags[256]), int(tags[257])
            return (height, width) if _orientation(file) >= 5 else (width, height)


def image_spacing(path: Source) -> float | None:
    """Millimetres from a pixel to the next, if a DICOM file says so, and pixels are square."""
    with _decoding(path, "the header of this image cannot be read"), opened(as_source(path)) as content:
        return dicom.read_spacing(content) if dicom.is_dicom(content) else None


def as_image(array: Image, name: str = "image") -> Image:
    """An array given by the user, checked, as `read_image` would give it: stretched if it is faint."""
    return np.ascontiguousarray(legible(as_pixels(array, name)))


def as_pixels(array: Image, name: str = "image") -> Image:
    """An array given by the user, `(h, w)` or `(h, w, 1 or 3)`, checked.

    8-bit images, and floats from 0 to 1, are taken as they are; of other numbers, what is black and white is found
    in the image.
    """
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or 0 in array.shape:
        raise ImageError(
            f"{name}: an image must have the shape (height, width) or (height, width, 3), not {array.shape}."
        )
    if np.issubdtype(array.dtype, np.integer):
        return np.ascontiguousarray(in_range(array))
    if not np.issubdtype(array.dtype, np.floating):
        raise ImageError(f"{name}: pixels must be integers or floats, not {array.dtype}.")
    if not np.all(np.isfinite(array)):
        raise ImageError(f"{name}: some pixels are not finite numbers.")
    if array.min() < -0.001 or array.max() > 1.001:
        return np.ascontiguousarray(stretched(array))
    return np.ascontiguousarray(array, dtype=np.float32)


@contextmanager
def _decoding(path: Source, failure: str) -> Iterator[None]:
    """Whatever a decoder makes of foreign bytes becomes a sentence that names the file.

    Decoders raise all there is (struct.error, TypeError, NotImplementedError, MemoryError, ...): here, and here
    alone, every exception is caught.
    """
    try:
        yield
    except ImageError:
        raise
    except FileNotFoundError:
        raise ImageError(f"{path}: there is no such image.") from None
    except IrregularFile as error:
        raise ImageError(str(error)) from None
    except dicom.DicomError as error:
        raise ImageError(f"{path}: {error}") from None
    except UnidentifiedImageError:
        raise ImageError(f"{path}: this is not an image of a known format.") from None
    except PIL.DecompressionBombError as error:
        most = f", but at most {2 * PIL.MAX_IMAGE_PIXELS} are read" if PIL.MAX_IMAGE_PIXELS else ""
        found = next((word for word in str(error).replace("(", " ").split() if word.isdecimal()), "too many")
        raise ImageError(
            f"{path}: the image has {found} pixels{most}: shrink it, or crop it to the object."
        ) from None
    except MemoryError:
        raise ImageError(f"{path}: the image does not fit into memory.") from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno and error.strerror:
            # The disk's fault, and no damage in the file.
            raise ImageError(f"{path}: this image cannot be read ({error.strerror}).") from None
        said = f"{type(error).__name__}: {error}" if not isinstance(error, (OSError, ValueError)) else error
        said = str(said) if str(error) else type(error).__name__
        # What an address fails with is a sentence with its name already.
        raise ImageError(said if said.startswith(f"{path}: ") else f"{path}: {failure} ({said}).") from None


@contextmanager
def _content(source: Source) -> Iterator[BinaryIO]:
    """All bytes of a file at once: decoders would ask for them in many small pieces.

    Large files on this machine are left to them. Of a stack of many images, they read the first.
    """
    encoded = fetched(source) if isinstance(source, str) else read_plain(source, _MOST_AT_ONCE)
    if encoded is not None:
        yield BytesIO(encoded)
        return
    with opened(source) as file:
        yield file


def _orientation(file: PIL.Image) -> int:
    """The number in EXIF from 1 to 8; a damaged one is as good as none: viewers show such images as they are."""
    try:
        found = file.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def _turned(image: Image, orientation: int) -> Image:
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return np.ascontiguousarray(image)


def _pixels(image: PIL.Image, name: str) -> Image:
    if image.mode.startswith("I"):
        return stretched(np.asarray(image))
    if image.mode == "F":
        return as_pixels(np.asarray(image), name)
    if "A" in image.getbands() or "transparency" in image.info:
        opaque = PIL.new("RGBA", image.size, "white")
        grey = image.mode in ("L", "LA", "La")
        image = PIL.alpha_composite(opaque, image.convert("RGBA")).convert("L" if grey else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    return np.asarray(image)


def _plain_jpeg(content: BinaryIO) -> Image | None:
    """The image in a file that was read, if it is a JPEG about which there is nothing to be asked."""
    if not isinstance(content, BytesIO):
        return None
    encoded = content.getvalue()
    head = jpeg.plain_head(encoded)
    return None if head is None else jpeg.decoded_as(encoded, head)


def _jpeg(file: PIL.Image, content: BinaryIO) -> Image | None:
    """What Pillow would decode, faster; None if this image is neither grey nor RGB, or damaged."""
    if file.format != "JPEG" or file.mode not in ("L", "RGB"):
        return None
    head = jpeg.Head(file.height, file.width, len(file.mode))
    return jpeg.decoded_as(_all_of(content), head)


def _all_of(content: BinaryIO) -> bytes:
    """All bytes of a file that Pillow goes on reading where it was."""
    place = content.tell()
    content.seek(0)
    encoded = content.read()
    content.seek(place)
    return encoded


def _deep_colour(file: PIL.Image, content: BinaryIO) -> Image | None:
    """Colour of 16 bits, which Pillow would cut to the upper 8, and nothing would be left of 12 bits in 16."""
    tiles: list[Any] = getattr(file, "tile", [])
    told = [part for tile in tiles for part in (tile[3] if isinstance(tile[3], tuple) else (tile[3],))]
    deep = any(isinstance(part, str) and ";16" in part for part in told)
    if file.format == "PPM":
        deep = any(isinstance(part, int) and part > 255 for part in told)
    if not deep or file.mode not in ("RGB", "RGBA", "LA"):
        return None
    import cv2

    encoded = _all_of(content)
    if file.format == "PNG" and not _has_all_parts(encoded):
        return None
    decoded = cv2.imdecode(np.frombuffer(encoded, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None or decoded.dtype != np.uint16 or decoded.shape[:2] != (file.height, file.width):
        return None
    if decoded.ndim == 2:
        return stretched(decoded)
    colour, rest = decoded[:, :, 2::-1], decoded[:, :, 3:]
    if rest.size and rest.min() < rest.max():
        share = rest / np.float32(rest.max())
        colour = colour * share + colour.max() * (1 - share)
    return stretched(colour)


def _has_all_parts(png: bytes) -> bool:
    """Whether no part of a PNG file is longer than the file: OpenCV makes room for all it claims, up to 4 GB."""
    at = 8
    while at + 8 <= len(png):
        at += 12 + int.from_bytes(png[at : at + 4], "big")
    return at <= len(png)
