"""Model files: safetensors with a checksum, written in one step, mapped when read, never executed.

A `.pliant` file is a valid safetensors file: eight bytes with the length of a JSON header, the header,
the arrays. Under `__metadata__` it has the strings `format`, `format_version`, `model` (settings,
provenance and all numbers that are not arrays, as JSON) and `checksum`. Loading reads the header and
maps the arrays; nothing in the file can name code. `docs/format.md` has the whole layout.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.texture import Texture
from pliant.confidence import Confidence
from pliant.files import IrregularFile, open_plain
from pliant.model import Level, Model
from pliant.motion import MOTIONS, Frame
from pliant.pca import PCA
from pliant.placement import Placement
from pliant.shape import SIMILARITY, ShapeModel

FORMAT_VERSION = 1
_MAGIC = "pliant"
_UNSIGNED = "0" * 64
_LARGEST_HEADER = 16 * 2**20
_DTYPES: Mapping[str, str] = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}


class ModelFileError(ValueError):
    """A file that is not a model, or not a whole one; the message is a sentence that names it."""


def save(model: Model, path: Path | str) -> None:
    """Write a model; on any error the file that was there before, or none, is left."""
    path = Path(path)
    arrays, numbers = _taken_apart(model)
    header, data = _header(arrays, numbers)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist.")
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for array in data:
                file.write(array)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(partial, 0o666 & ~mask)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def load(path: Path | str) -> Model:
    """The model in a file; its arrays are views of the file, read from disk when they are used."""
    path = Path(path)
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise ModelFileError(f"{path}: this is not a pliant model: the file has only {size} bytes.")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file.") from None
    except IrregularFile as error:
        raise ModelFileError(str(error)) from None
    header, start = _read_header(path, content)
    metadata = header.pop("__metadata__")
    arrays = _map_arrays(path, content, start, header)
    _verify(path, content, start, metadata["checksum"])
    try:
        return _put_together(arrays, json.loads(metadata["model"]))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ModelFileError(f"{path}: the model in this file is inconsistent ({error!r}).") from error


def _read_header(path: Path, content: mmap.mmap) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(content[:8], "little")
    if length > _LARGEST_HEADER:
        raise ModelFileError(f"{path}: this is not a pliant model.")
    if 8 + length > len(content):
        raise ModelFileError(f"{path}: this is not a pliant model, or it is cut off in its header.")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
        metadata = header["__metadata__"]
        version = int(metadata["format_version"]) if metadata["format"] == _MAGIC else 0
        complete = {"model", "checksum"} <= metadata.keys()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(f"{path}: this is not a pliant model.") from None
    if version < 1 or not complete:
        raise ModelFileError(f"{path}: this is not a pliant model.")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: this file has format {version}, and this pliant reads up to {FORMAT_VERSION}: update it."
        )
    return header, 8 + length


def _map_arrays(
    path: Path, content: mmap.mmap, start: int, header: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Views of the file, after every offset has been checked against its length."""
    arrays: dict[str, NDArray[Any]] = {}
    end_of_last = 0
    try:
        entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
        for name, entry in entries:
            first, last = entry["data_offsets"]
            shape = tuple(int(extent) for extent in entry["shape"])
            dtype = np.dtype(_DTYPES[entry["dtype"]])
            if (
                first != end_of_last
                or min(shape, default=0) < 0
                or last - first != math.prod(shape) * dtype.itemsize
            ):
                raise ValueError(name)
            if start + last > len(content):
                raise ModelFileError(
                    f"{path}: the file is cut off: {len(content)} bytes are there, and '{name}' "
                    f"would end at {start + last}."
                )
            arrays[name] = np.frombuffer(content, dtype, math.prod(shape), start + first).reshape(shape)
            end_of_last = last
    except ModelFileError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ModelFileError(f"{path}: the table of arrays in this file is damaged.") from None
    if start + end_of_last != len(content):
        raise ModelFileError(f"{path}: there are bytes behind the model that do not belong to it.")
    return arrays


def _verify(path: Path, content: mmap.mmap, start: int, checksum: object) -> None:
    """Refuse a file that is not as it was written. It takes about 0.6 s a gigabyte."""
    if not isinstance(checksum, str) or len(checksum) != len(_UNSIGNED):
        raise ModelFileError(f"{path}: the checksum is damaged.")
    header = content[8:start].replace(checksum.encode(), _UNSIGNED.encode(), 1)
    digest = hashlib.sha256(header)
    with memoryview(content) as view, view[start:] as data:
        digest.update(data)
    if digest.hexdigest() != checksum:
        raise ModelFileError(
            f"{path}: the checksum does not match: the file was changed or damaged after it was written."
        )


def _header(arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> tuple[bytes, list[memoryview]]:
    """The header, padded so that the arrays begin on a cache line, and the arrays' bytes in order."""
    # Wide elements first, so that every array is aligned to its element.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    table: dict[str, Any] = {
        "__metadata__": {
            "format": _MAGIC,
            "format_version": str(FORMAT_VERSION),
            "checksum": _UNSIGNED,
            "model": json.dumps(numbers, allow_nan=False),
        }
    }
    data, end = [], 0
    for name in order:
        array = np.ascontiguousarray(arrays[name])
        kind = next(key for key, dtype in _DTYPES.items() if np.dtype(dtype) == array.dtype)
        table[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
        data.append(array.reshape(-1).view(np.uint8).data)
    header = json.dumps(table).encode()
    header += b" " * (-(8 + len(header)) % 64)
    digest = hashlib.sha256(header)
    for view in data:
        digest.update(view)
    return header.replace(_UNSIGNED.encode(), digest.hexdigest().encode(), 1), data


def _taken_apart(model: Model) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    arrays: dict[str, NDArray[Any]] = {}

    def keep(prefix: str, **named: NDArray[Any]) -> None:
        arrays.update({f"{prefix}.{name}": array for name, array in named.items()})

    def keep_frame(prefix: str, frame: Frame) -> None:
        keep(
            prefix,
            vertices=frame.vertices,
            triangles=frame.triangles,
            pixels=frame.pixels,
            first_pixel=frame.first_pixel,
        )

    def keep_pca(prefix: str, pca: PCA) -> dict[str, Any]:
        keep(prefix, mean=pca.mean, components=pca.components, eigenvalues=pca.eigenvalues)
        return {"total_variance": pca.total_variance, "rank": pca.rank}

    levels = []
    for number, level in enumerate(model.levels):
        shape = level.shape
        keep_frame(f"levels.{number}.frame", level.motion.frame)
        keep(f"levels.{number}.shape", basis=shape.basis, eigenvalues=shape.eigenvalues)
        if level.basis_slopes is not None:
            keep(f"levels.{number}.appearance", basis_slopes=level.basis_slopes)
        levels.append(
            {
                "scale": level.scale,
                "motion": level.motion.name,
                "features": level.features,
                "channels": level.channels,
                "shape": {"total_variance": shape.total_variance, "rank": shape.rank},
                "appearance": keep_pca(f"levels.{number}.appearance", level.appearance),
            }
        )
    keep_frame("texture.frame", model.texture.frame)
    texture = {"channels": model.texture.channels, "pca": keep_pca("texture.pca", model.texture.pca)}
    return arrays, {
        "levels": levels,
        "texture": texture,
        "settings": dict(model.settings),
        "provenance": dict(model.provenance),
        "placements": [asdict(placement) for placement in model.placements],
        "confidence": None if model.confidence is None else _plain(model.confidence),
        "landmark_names": list(model.landmark_names),
    }


def _plain(confidence: Confidence) -> dict[str, Any]:
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(confidence).items()
    }


def _confidence(plain: Mapping[str, Any] | None, landmarks: int) -> Confidence | None:
    """What is stored since pliant can calibrate; older files have none."""
    if plain is None:
        return None
    read = Confidence(
        fits=int(plain["fits"]),
        factor=float(plain["factor"]),
        **{
            name: np.asarray(plain[name], dtype=np.float64)
            for name in ("centre", "scale", "bounds", "weights", "offsets", "scatter")
        },
    )
    j, k = read.weights.shape
    shapes = (read.centre.shape, read.scale.shape, read.bounds.shape, read.offsets.shape, read.scatter.shape)
    if shapes != ((k,), (k,), (j,), (j,), (landmarks, 2, 2)):
        raise ValueError("the confidence has arrays of the wrong shapes")
    return read


def _put_together(arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Model:
    def frame(prefix: str) -> Frame:
        return Frame(
            vertices=_expect(arrays, f"{prefix}.vertices", np.float64, None, 2),
            triangles=_expect(arrays, f"{prefix}.triangles", np.int32, None, 3),
            pixels=_expect(arrays, f"{prefix}.pixels", np.int32, None, 2),
            first_pixel=_expect(arrays, f"{prefix}.first_pixel", np.int32, None),
        )

    def pca(prefix: str, dimension: int, summary: Mapping[str, Any]) -> PCA:
        eigenvalues = _expect(arrays, f"{prefix}.eigenvalues", np.float64, None)
        return PCA(
            mean=_expect(arrays, f"{prefix}.mean", np.float32, dimension),
            components=_expect(arrays, f"{prefix}.components", np.float32, len(eigenvalues), dimension),
            eigenvalues=eigenvalues,
            total_variance=float(summary["total_variance"]),
            rank=int(summary["rank"]),
        )

    levels = []
    for number, level in enumerate(numbers["levels"]):
        mesh = _checked_frame(frame(f"levels.{number}.frame"))
        eigenvalues = _expect(arrays, f"levels.{number}.shape.eigenvalues", np.float64, None)
        parameters = SIMILARITY + len(eigenvalues)
        shape = ShapeModel(
            mean=mesh.vertices,
            basis=_expect(
                arrays, f"levels.{number}.shape.basis", np.float64, 2 * len(mesh.vertices), parameters
            ),
            eigenvalues=eigenvalues,
            total_variance=float(level["shape"]["total_variance"]),
            rank=int(level["shape"]["rank"]),
        )
        channels = int(level["channels"])
        appearance = pca(f"levels.{number}.appearance", len(mesh.pixels) * channels, level["appearance"])
        motion = MOTIONS[level["motion"]](mesh)
        whole = Level(float(level["scale"]), shape, motion, str(level["features"]), channels, appearance)
        slopes, m = f"levels.{number}.appearance.basis_slopes", appearance.modes
        if slopes in arrays:
            whole = whole.with_basis_slopes(_expect(arrays, slopes, np.float32, m, parameters, m))
        levels.append(whole)
    if not levels:
        raise ValueError("it has no levels")
    drawn = _checked_frame(frame("texture.frame"))
    channels = int(numbers["texture"]["channels"])
    texture = Texture(
        drawn, channels, pca("texture.pca", len(drawn.pixels) * channels, numbers["texture"]["pca"])
    )
    # Files of the first version may be older than placements, confidence and names.
    return Model(
        tuple(levels),
        texture,
        dict(numbers["settings"]),
        dict(numbers["provenance"]),
        tuple(Placement(**placement) for placement in numbers.get("placements", ())),
        _confidence(numbers.get("confidence"), levels[-1].shape.landmarks),
        _landmark_names(numbers.get("landmark_names", []), levels[-1].shape.landmarks),
    )


def _landmark_names(names: object, landmarks: int) -> tuple[str, ...]:
    if (
        not isinstance(names, list)
        or len(names) not in (0, landmarks)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"the names of its {landmarks} landmarks are {str(names)[:60]}")
    return tuple(names)


def _expect(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type, *shape: int | None) -> NDArray[Any]:
    """The array, if it has this type and shape (None: any extent)."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        wanted in (None, extent) for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise ValueError(f"'{name}' has type {array.dtype} and shape {array.shape}")
    return array


def _checked_frame(frame: Frame) -> Frame:
    """Indices that stay inside their arrays: compiled code will trust them."""
    height, width = frame.shape
    inside = (
        frame.triangles.min() >= 0
        and frame.triangles.max() < len(frame.vertices)
        and frame.pixels.min() >= 0
        and np.all(frame.pixels.max(axis=0) < (width, height))
        and len(frame.first_pixel) == len(frame.triangles) + 1
        and frame.first_pixel[0] == 0
        and frame.first_pixel[-1] == len(frame.pixels)
        and np.all(np.diff(frame.first_pixel) >= 0)
    )
    if not inside:
        raise ValueError("a frame's pixels or triangles point outside of it")
    return frame
