"""Endpoints of the page Explore: a model as a browser needs it to draw any instance by itself."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from pliant.arrays import Float64
from pliant.model import Model
from pliant.motion import Frame
from pliant.shape import SIMILARITY
from pliant.studio.desk import Studio
from pliant.studio.web.endpoints import Endpoints, Refused

endpoints = Endpoints("explore")

MOST_SHAPE_MODES, MOST_TEXTURE_MODES = 60, 20
"""Modes that a page gets; those beyond explain little, and nobody moves so many sliders."""

_REACH = 32767
"""The largest number of 16 bits: what the largest value of a picture is written as."""

_SHOWN = 3.0
"""Standard deviations along each mode that fit into the view."""


@dataclass(frozen=True)
class ShownTexture:
    """The texture's frame, and how to read its pictures.

    `/api/explore/texture` has the mean and then the modes, each one standard deviation long: 16-bit whole numbers,
    little end first, row by row, with `channels` for each pixel. Times its factor, a picture has black at 0 and
    white at 1. `shares` are those of the total variance; `kept` counts all modes of the model.
    """

    width: int
    height: int
    channels: int
    factors: list[float]
    shares: list[float]
    kept: int


@dataclass(frozen=True)
class ExploredModel:
    """A model to be drawn: `mean (v, 2)`, and `modes (n, v, 2)`, each one standard deviation long.

    `shares` are those of the total variance that modes explain; `kept` counts all modes of the model. Triangles are
    rows of three landmarks; the first one that covers a pixel counts. `vertices (v, 2)` are the landmarks in the
    texture's frame. `low` and `high` are corners of a box that holds all usual instances. `version` tells one model
    from another.
    """

    version: str
    landmarks: int
    samples: int | None
    names: list[str]
    mean: NDArray[np.float64]
    modes: NDArray[np.float64]
    shares: list[float]
    kept: int
    triangles: NDArray[np.int32]
    vertices: NDArray[np.float64]
    low: list[float]
    high: list[float]
    texture: ShownTexture


@endpoints.get("/api/explore")
def explored_model(studio: Studio) -> ExploredModel:
    """The model's shapes, and the layout of its texture."""
    model = studio.model()
    shape, texture = model.levels[-1].shape, model.texture
    count = min(shape.modes, MOST_SHAPE_MODES)
    basis = shape.basis[:, SIMILARITY : SIMILARITY + count] * np.sqrt(shape.eigenvalues[:count])
    modes = basis.T.reshape(count, shape.landmarks, 2)
    low, high = _box(shape.mean, modes)
    height, width = texture.frame.shape
    samples = model.provenance.get("samples")
    return ExploredModel(
        version=_version(model),
        landmarks=shape.landmarks,
        samples=samples if isinstance(samples, int) else None,
        names=list(model.landmark_names),
        mean=np.round(shape.mean, 4),
        modes=np.round(modes, 5),
        shares=_shares(shape.eigenvalues[:count], shape.total_variance),
        kept=shape.modes,
        triangles=texture.frame.triangles,
        vertices=np.round(texture.frame.vertices, 4),
        low=low.tolist(),
        high=high.tolist(),
        texture=ShownTexture(
            width,
            height,
            texture.channels,
            [float(factor) for factor in _factors(_pictures(model))],
            _shares(texture.pca.eigenvalues[:MOST_TEXTURE_MODES], texture.pca.total_variance),
            texture.pca.modes,
        ),
    )


@endpoints.get("/api/explore/texture")
def explored_texture(studio: Studio, version: str) -> Response:
    """Pictures of the texture's mean and modes, in the layout of `texture` in /api/explore."""
    model = studio.model()
    if version != _version(model):
        raise Refused("there is a newer model than the one on this page: reload the page.", 409)
    pictures = _pictures(model)
    numbers = np.rint(pictures / _factors(pictures)[:, None, None, None])
    headers = {"Cache-Control": "private, max-age=600"}
    return Response(numbers.astype("<i2").tobytes(), media_type="application/octet-stream", headers=headers)


def _pictures(model: Model) -> NDArray[np.float32]:
    """The mean and the modes `(1 + m, h, w, c)` of the texture, continued beyond its mask."""
    texture = model.texture
    pca = texture.pca.truncated(MOST_TEXTURE_MODES)
    modes = pca.components * np.sqrt(pca.eigenvalues)[:, None]
    rows = (
        np.concatenate([pca.mean[None], modes])
        .astype(np.float32)
        .reshape(1 + len(modes), -1, texture.channels)
    )
    return np.asarray(rows[:, _nearest_pixels(texture.frame)])


def _nearest_pixels(frame: Frame) -> NDArray[np.int64]:
    """For each place of the frame's rectangle `(h, w)` the number of the pixel nearest to it."""
    from scipy.ndimage import distance_transform_edt

    nearest = distance_transform_edt(~frame.mask, return_distances=False, return_indices=True)
    return np.asarray(frame.index[nearest[0], nearest[1]], dtype=np.int64)


def _factors(pictures: NDArray[np.float32]) -> Float64:
    largest = np.abs(pictures).reshape(len(pictures), -1).max(axis=1).astype(np.float64)
    return np.asarray(np.where(largest > 0, largest, 1.0) / _REACH)


def _box(mean: Float64, modes: Float64) -> tuple[Float64, Float64]:
    """Corners of a box that holds the mean and what is far off along any one of the first modes."""
    shapes = np.concatenate([mean[None], mean + _SHOWN * modes[:3], mean - _SHOWN * modes[:3]]).reshape(-1, 2)
    border = 0.03 * np.ptp(shapes, axis=0).max()
    return shapes.min(axis=0) - border, shapes.max(axis=0) + border


def _shares(eigenvalues: Float64, total: float) -> list[float]:
    return [float(value / total) if total > 0 else 0.0 for value in eigenvalues]


def _version(model: Model) -> str:
    told = zlib.crc32(model.levels[-1].shape.mean.tobytes())
    return f"{zlib.crc32(np.ascontiguousarray(model.texture.pca.mean).tobytes(), told):08x}"
