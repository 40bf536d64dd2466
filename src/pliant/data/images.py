"""Reading images: whatever the file holds, what comes out is grey or RGB, and upright."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, ImageOps, UnidentifiedImageError
from PIL import Image as PIL

from pliant.arrays import Image
from pliant.data.addresses import Source, as_source, opened

EXTENSIONS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".pgm", ".ppm", ".jp2")


class ImageError(ValueError):
    """An image that cannot be used; the message is a sentence that names it."""


def read_image(path: Source) -> Image:
    """The image at a path or address, as `(h, w)` or `(h, w, 3)`, 8- or 16-bit, or float32 from 0 to 1.

    A rotation noted in EXIF is carried out. Palette, CMYK and other colour spaces become RGB;
    transparent pixels are laid on white; 16-bit grey keeps its 16 bits, 65535 being white.
    """
    source = as_source(path)
    stored = source if isinstance(source, Path) else _fetched(source)
    try:
        with PIL.open(stored) as file:
            file.load()
            return _pixels(ImageOps.exif_transpose(file))
    except FileNotFoundError:
        raise ImageError(f"{path}: there is no such image.") from None
    except UnidentifiedImageError:
        raise ImageError(f"{path}: this is not an image of a known format.") from None
    except PIL.DecompressionBombError:
        raise ImageError(f"{path}: the image is too large to be read safely.") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise ImageError(f"{path}: the image is damaged or incomplete ({error}).") from None


def image_size(path: Source) -> tuple[int, int]:
    """Width and height of the image as `read_image` gives it, from the head of the file alone."""
    try:
        with opened(as_source(path)) as content, PIL.open(content) as file:
            turned = file.getexif().get(ExifTags.Base.Orientation, 1) >= 5
            return (file.height, file.width) if turned else (file.width, file.height)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise ImageError(f"{path}: the size of this image cannot be read ({error}).") from None


def as_image(array: Image, name: str = "image") -> Image:
    """An array given by the user, checked: `(h, w)` or `(h, w, 1 or 3)`, unsigned, or float from 0 to 1."""
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or 0 in array.shape:
        raise ImageError(f"{name}: an image is (height, width) or (height, width, 3), not {array.shape}.")
    if array.dtype in (np.uint8, np.uint16):
        return np.ascontiguousarray(array)
    if not np.issubdtype(array.dtype, np.floating):
        raise ImageError(f"{name}: pixels must be uint8, uint16 or floats from 0 to 1, not {array.dtype}.")
    if not np.all(np.isfinite(array)):
        raise ImageError(f"{name}: some pixels are not finite numbers.")
    if array.min() < -0.001 or array.max() > 1.001:
        raise ImageError(
            f"{name}: floating-point pixels must lie between 0 and 1, but these go from "
            f"{array.min():g} to {array.max():g}."
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def _fetched(address: str) -> BytesIO:
    """All bytes of a file at an address at once: decoders would ask for them in many small pieces."""
    try:
        with opened(address) as file:
            return BytesIO(file.read())
    except FileNotFoundError:
        raise ImageError(f"{address}: there is no such image.") from None
    except OSError as error:
        raise ImageError(str(error)) from None


def _pixels(image: PIL.Image) -> Image:
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N"):
        return np.ascontiguousarray(np.asarray(image).astype(np.uint16))
    if image.mode == "I":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("its 32-bit integers go beyond 16 bits, so that their white is unknown")
        return np.ascontiguousarray(values.astype(np.uint16))
    if image.mode == "F":
        return as_image(np.asarray(image), "its pixels")
    if "A" in image.getbands() or "transparency" in image.info:
        opaque = PIL.new("RGBA", image.size, "white")
        grey = image.mode in ("L", "LA", "La")
        image = PIL.alpha_composite(opaque, image.convert("RGBA")).convert("L" if grey else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    return np.ascontiguousarray(np.asarray(image))
