"""Small pictures with a line below, for notebooks."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pliant.arrays import Image
from pliant.plots.painter import encoded, paint_overlay

if TYPE_CHECKING:
    from pliant.data.dataset import Dataset
    from pliant.fitting.result import FitResult
    from pliant.model import Model

_THUMBNAILS = 6
_LONGEST = 140


def dataset_html(dataset: Dataset) -> str:
    """The first samples with their landmarks; what cannot be read is left out."""
    pictures: list[Image] = []
    for sample in islice(dataset, 2 * _THUMBNAILS):
        try:
            points = np.empty((0, 2)) if sample.points_source is None else sample.points()
            pictures.append(paint_overlay(sample.image(), points, longest=_LONGEST))
        except (ValueError, OSError):
            continue
    return _html(pictures[:_THUMBNAILS], repr(dataset))


def model_html(model: Model) -> str:
    """The mean, with its landmarks."""
    picture, points = model.draw(height=_LONGEST)
    return _html([paint_overlay(picture, points)], repr(model))


def fit_html(fit: FitResult) -> str:
    """The mean texture in the shape that was found: a fit does not keep its image."""
    if not np.all(np.isfinite(fit.points)) or not np.all(np.ptp(fit.points, axis=0) > 0):
        return _html([], repr(fit))
    low, extent = fit.points.min(axis=0), np.ptp(fit.points, axis=0)
    zoom = 0.9 * _LONGEST / float(extent.max())
    points = (fit.points - low + 0.05 * extent) * zoom
    width, height = np.ceil(1.1 * extent * zoom).astype(int) + 1
    texture = fit.model.texture
    canvas = np.ones((int(height), int(width), texture.channels), dtype=np.float32)
    picture = texture.draw(np.zeros(texture.pca.modes), points, canvas)
    return _html([paint_overlay(picture, points)], repr(fit))


def _html(pictures: list[Image], line: str) -> str:
    images = "".join(f'<img alt="" style="margin:2px" src="{_address(picture)}">' for picture in pictures)
    return f"<div>{images}<br><code>{escape(line)}</code></div>"


def _address(picture: Image) -> str:
    """A picture `(h, w, 3)` as an address that holds all of it."""
    return f"data:image/png;base64,{b64encode(encoded(picture, '.png')).decode()}"
