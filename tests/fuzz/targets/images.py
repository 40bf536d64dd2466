"""Images of every format: pixels or a sentence; the size that the head of the file gives is that of the pixels."""

import struct
import warnings
import zlib
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random

import cv2
import numpy as np
import pydicom
from PIL import ExifTags
from PIL import Image as PIL

from pliant.data.images import image_size, image_spacing, read_image

from .mutations import of_bytes
from .target import Target, refused, written

KINDS = ("png", "jpeg", "tiff", "webp", "gif", "bmp", "ppm", "jpeg2000", "dicom")
WATCHED = (
    "pliant.data.images",
    "pliant.data.jpeg",
    "pliant.data.dicom",
    "PIL",
    "pydicom.filereader",
    "pydicom.pixels",
)


def targets() -> list[Target]:
    return [_target(kind) for kind in KINDS]


def _target(kind: str) -> Target:
    def own() -> list[bytes]:
        return [content for name, content in seeds().items() if name.partition("-")[0] == kind]

    return Target(f"images-{kind}", own, _read, _mutate, WATCHED, longest=4096, short=150)


def _read(content: bytes, folder: Path) -> bool:
    path = written(content, folder / "damaged.image")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Pillow warns of odd EXIF and of large images, pydicom of odd values.
        size = image = None
        try:
            size = image_size(path)
        except ValueError as error:
            refused(error, f"{path}: ")
        try:
            image_spacing(path)
        except ValueError as error:
            refused(error, f"{path}: ")
        try:
            image = read_image(path)
        except ValueError as error:
            return refused(error, f"{path}: ")
    assert image.dtype in (np.uint8, np.float32)
    assert image.ndim == 2 or image.shape[2] == 3
    assert np.all(np.isfinite(image))
    assert size == (image.shape[1], image.shape[0]), (size, image.shape)
    return True


def _mutate(content: bytes, chance: Random) -> bytes:
    """Heads and EXIF are where the numbers are that decoders trust."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        if len(data) < 2:
            break
        place = chance.randrange(min(len(data), chance.choice((40, 200, 10**9))))
        kind = chance.randrange(4)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            count = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 70000))
            data[place : place + 4] = struct.pack(chance.choice(("<I", ">I")), count)
        elif kind == 2:
            other = chance.choice(list(seeds().values()))
            begin = chance.randrange(len(other))
            data[place : place + 12] = other[begin : begin + 12]
        else:
            data = bytearray(of_bytes(bytes(data), chance))
    return _resealed(bytes(data)) if chance.random() < 0.7 else bytes(data)


def _resealed(content: bytes) -> bytes:
    """A PNG whose parts have the checksums that they should have; anything else as it is."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return content
    done, at = content[:8], 8
    while at + 12 <= len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        if end + 4 > len(content):
            break
        done += content[at:end] + zlib.crc32(content[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return done + content[at:]


@cache
def seeds() -> dict[str, bytes]:
    """Small files of every format, with EXIF where it can be."""
    rng = np.random.default_rng(0)
    colour = PIL.fromarray(rng.integers(0, 256, (12, 17, 3), dtype=np.uint8))
    exif = PIL.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif[ExifTags.Base.Make] = "a camera"
    exif[ExifTags.Base.XResolution] = 72.0
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ExposureTime] = 0.01
    files: dict[str, bytes] = {}

    def keep(name: str, image: PIL.Image, **options: object) -> None:
        file = BytesIO()
        image.save(file, format=name.split("-")[0], **options)
        files[name] = file.getvalue()

    for kind in ("png", "jpeg", "tiff", "webp"):
        keep(f"{kind}-exif", colour, exif=exif)
    for kind in ("png", "jpeg", "tiff", "gif", "bmp", "webp", "ppm", "jpeg2000"):
        keep(f"{kind}-grey", colour.convert("L"))
    keep("png-palette", colour.quantize(7), transparency=3)
    keep("png-alpha", colour.convert("LA"))
    keep("jpeg-cmyk", colour.convert("CMYK"))
    keep("tiff-lzw", colour, compression="tiff_lzw")
    keep("tiff-float", PIL.fromarray(rng.random((9, 8), dtype=np.float32) * 50))
    keep("tiff-int", PIL.fromarray(rng.integers(-9, 99999, (9, 8), dtype=np.int32)))
    keep("png-deep", PIL.fromarray(rng.integers(0, 4096, (9, 8)).astype(np.uint16)))
    keep("gif-film", colour.quantize(9), save_all=True, append_images=[colour.quantize(5)])
    for kind in ("png", "tiff", "ppm"):
        deep = rng.integers(0, 4096, (9, 8, 3)).astype(np.uint16)
        files[f"{kind}-deep-colour"] = cv2.imencode(f".{kind}", deep)[1].tobytes()
    files["dicom-deep"] = _dicom(rng)
    return files


def _dicom(rng: np.random.Generator) -> bytes:
    about = pydicom.dataset.FileMetaDataset()
    about.MediaStorageSOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    about.MediaStorageSOPInstanceUID = "1.2.3"
    about.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    image = pydicom.Dataset()
    image.file_meta = about
    image.Rows, image.Columns, image.SamplesPerPixel = 9, 8, 1
    image.BitsAllocated = image.BitsStored = 16
    image.HighBit, image.PixelRepresentation = 15, 0
    image.PhotometricInterpretation = "MONOCHROME2"
    image.PixelSpacing = [0.5, 0.5]
    image.WindowCenter, image.WindowWidth = 2000, 4000
    image.PixelData = rng.integers(0, 4096, (9, 8)).astype(np.uint16).tobytes()
    file = BytesIO()
    pydicom.dcmwrite(file, image, enforce_file_format=True)
    return file.getvalue()
