"""DICOM images: the stored numbers, what they mean, the window to look at them through, and the size of a pixel."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from PIL import Image as PIL

from pliant.appearance.tones import stretched
from pliant.arrays import Image

_MARK = b"DICM"
_BEFORE_MARK = 128


class DicomError(ValueError):
    """What is wrong with a DICOM file, as the rest of a sentence that begins with its name."""


def is_dicom(content: BinaryIO) -> bool:
    """Whether a file is DICOM by its first bytes, whatever it is called."""
    head = content.read(_BEFORE_MARK + len(_MARK))
    content.seek(0)
    return head[_BEFORE_MARK:] == _MARK


def read_pixels(content: BinaryIO) -> Image:
    """`(h, w)` or `(h, w, 3)`: 8-bit, or float32 from black at 0 to white at 1.

    Slope and intercept are applied, and then the (first) window, beyond which all is black or white. Without a
    window, 8 bits stay as they are, and of more bits what is black and white is found in the image.
    """
    header = _read(content)
    _require_one_frame(header)
    try:
        stored = header.pixel_array
    except (NotImplementedError, RuntimeError, AttributeError) as error:
        syntax = getattr(getattr(header.file_meta, "TransferSyntaxUID", None), "name", "of an unknown kind")
        raise DicomError(
            f"its pixels ({syntax}) cannot be decoded here: try pip install pylibjpeg pylibjpeg-libjpeg "
            f"pylibjpeg-openjpeg, or store it without compression ({_first_line(error)})."
        ) from None
    if header.get("SamplesPerPixel", 1) != 1:
        return np.asarray(stored) if stored.dtype == np.uint8 else stretched(stored)
    values = _windowed(header, stored)
    if header.PhotometricInterpretation == "MONOCHROME1":
        values = 255 - values if values.dtype == np.uint8 else 1 - values
    return values


def _windowed(header: Any, stored: Any) -> Image:
    from pydicom.pixels.processing import apply_modality_lut, apply_voi_lut

    known = np.ones(stored.shape, dtype=bool)
    if "PixelPaddingValue" in header:
        known = stored != header.PixelPaddingValue
    values = apply_modality_lut(stored, header)
    centre, width = _first(header, "WindowCenter"), _first(header, "WindowWidth")
    if centre is not None and width is not None and width >= 1:
        exact = header.get("VOILUTFunction", "LINEAR") != "LINEAR"
        # The standard's own rule (PS3.3, C.11.2.1.2), half a value narrower than one would think.
        low, span = (
            (centre - width / 2, width) if exact else (centre - 0.5 - (width - 1) / 2, max(width - 1, 1e-3))
        )
        return np.asarray(np.clip((values.astype(np.float32) - np.float32(low)) / np.float32(span), 0, 1))
    if "VOILUTSequence" in header:
        values = apply_voi_lut(values, header)
    elif values.dtype == np.uint8:
        return np.asarray(values)
    if known.any() and not known.all():
        # Around the picture, where nothing was measured, there is a number of its own, often far from the others.
        values = np.where(known, values, values[known].min())
    return stretched(values)


def read_size(content: BinaryIO) -> tuple[int, int]:
    """Width and height."""
    header = _read(content, stop_before_pixels=True)
    _require_one_frame(header)
    return int(header.Columns), int(header.Rows)


def read_spacing(content: BinaryIO) -> float | None:
    """Millimetres from a pixel to the next: of the patient if they are known, else of the detector."""
    header = _read(content, stop_before_pixels=True)
    spacing = header.get("PixelSpacing") or header.get("ImagerPixelSpacing")
    if not spacing or len(spacing) != 2:
        return None
    down, along = float(spacing[0]), float(spacing[1])
    return down if down > 0 and abs(down - along) <= 1e-3 * down else None


def _read(content: BinaryIO, stop_before_pixels: bool = False) -> Any:
    try:
        import pydicom
    except ImportError:
        raise DicomError(
            "this is a DICOM image, but pydicom is not installed: pip install 'pliant[dicom]'."
        ) from None
    return pydicom.dcmread(content, stop_before_pixels=stop_before_pixels)


def _require_one_frame(header: Any) -> None:
    if "Rows" not in header or "Columns" not in header:
        raise DicomError("this DICOM file has no image.")
    most, found = 2 * (PIL.MAX_IMAGE_PIXELS or 2**31), int(header.Rows) * int(header.Columns)
    if found > most:
        # As many as Pillow reads of other formats. A few bytes can stand for a run of pixels here too.
        raise DicomError(
            f"the image has {found} pixels, but at most {most} are read: shrink it, or crop it to the object."
        )
    frames = int(header.get("NumberOfFrames") or 1)
    if frames != 1:
        raise DicomError(
            f"this DICOM file has {frames} frames, but one is needed: store each frame in its own file."
        )


def _first(header: Any, name: str) -> float | None:
    """The number under a name, the first if there are several windows."""
    value = header.get(name)
    if value is None or value == "":
        return None
    return float(value[0] if hasattr(value, "__len__") and not isinstance(value, str) else value)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
