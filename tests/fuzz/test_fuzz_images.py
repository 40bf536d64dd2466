"""Damaged images: whatever is in a file, reading it ends with pixels or with a sentence, and both readers agree.

A short run by default; `PLIANT_FUZZ=100000` makes as many mutants.
"""

import os
import struct
import warnings
from io import BytesIO

import cv2
import numpy as np
import pytest
from PIL import ExifTags
from PIL import Image as PIL

from pliant.data.images import ImageError, image_size, read_image

MUTANTS = int(os.environ.get("PLIANT_FUZZ", "1500"))
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


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
    for kind in ("png", "jpeg", "tiff", "gif", "bmp", "webp", "ppm"):
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
    return files


SEEDS = seeds()


def mutant(content: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        # Heads and EXIF are where the numbers are that decoders trust.
        place = int(rng.integers(0, min(len(data), int(rng.choice([40, 200, 10**9])))))
        match int(rng.integers(0, 6)):
            case 0:
                data[place] ^= 1 << int(rng.integers(0, 8))
            case 1:
                data[place] = int(rng.choice(INTERESTING))
            case 2:
                data[place : place + 4] = struct.pack(
                    str(rng.choice(["<I", ">I"])), int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 70000]))
                )
            case 3:
                del data[place : place + int(rng.integers(1, 9))]
            case 4:
                data[place:place] = data[: int(rng.integers(1, 30))]
            case 5:
                other = SEEDS[str(rng.choice(list(SEEDS)))]
                begin = int(rng.integers(0, len(other)))
                data[place : place + 12] = other[begin : begin + 12]
        if len(data) < 2:
            break
    return bytes(data[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.1 else data)


def read_or_sentence(read, path):
    """What comes out, None for a sentence; anything else that is raised ends the test."""
    try:
        return read(path)
    except ImageError as error:
        sentence = str(error)
    assert sentence.startswith(f"{path}: ")
    return None


@pytest.mark.parametrize("name", SEEDS)
def test_damaged_images_are_pixels_or_a_sentence(tmp_path, name):
    rng = np.random.default_rng(list(name.encode()))
    path = tmp_path / f"damaged.{name.split('-')[0]}"
    path.write_bytes(SEEDS[name])
    whole = read_image(path)
    assert image_size(path) == (whole.shape[1], whole.shape[0])
    with warnings.catch_warnings():
        # Pillow warns of odd EXIF and of large images.
        warnings.simplefilter("ignore")
        for number in range(max(1, MUTANTS // len(SEEDS))):
            content = mutant(SEEDS[name], rng)
            path.write_bytes(content)
            size, image = read_or_sentence(image_size, path), read_or_sentence(read_image, path)
            if image is not None:
                assert image.dtype in (np.uint8, np.float32), number
                assert image.ndim == 2 or image.shape[2] == 3, number
                assert np.all(np.isfinite(image)), number
                assert size == (image.shape[1], image.shape[0]), number
