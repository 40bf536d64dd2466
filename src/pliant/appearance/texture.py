"""A model of what the object looks like to a person, so that every instance can be drawn.

Features such as dsift cannot be turned back into a picture. Beside them, a small grey or colour model
of the pixels is trained in a frame of its own, of at most 100 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pliant.arrays import Concise, Float32, Float64, Floats, Image
from pliant.motion import Frame, PiecewiseAffine, rasterise
from pliant.motion.frame import barycentric_maps
from pliant.pca import PCA

LARGEST_SIZE = 100.0
"""Size of the object in the texture's frame, in pixels, unless the model itself is smaller."""


@dataclass(frozen=True, eq=False, repr=False)
class Texture(Concise):
    """Pixels in a frame: `pca` over vectors of f · c values from 0 to 1, with c = 1 or 3 channels."""

    frame: Frame
    channels: int
    pca: PCA

    def project(self, image: Image, points: Floats) -> Float64:
        """Parameters `(m,)` of the object that `image` shows at `points (v, 2)`."""
        return self.pca.project(sample_texture(image, points, PiecewiseAffine(self.frame), self.channels))

    def draw(self, parameters: Floats, points: Floats, canvas: Float32) -> Float32:
        """A copy of `canvas (h, w, c)` with the object of these parameters drawn at `points (v, 2)`."""
        from pliant.appearance.interpolation import bilinear

        values = np.clip(self.pca.instance(parameters), 0, 1).astype(np.float32)
        texture = _without_holes(self.frame, values.reshape(-1, self.channels))
        owner = rasterise(points, self.frame.triangles, (canvas.shape[0], canvas.shape[1]))
        y, x = np.nonzero(owner >= 0)
        triangle = owner[y, x]
        homogeneous = np.stack([x, y, np.ones_like(x)], axis=-1)
        weights = np.einsum(
            "fkd,fd->fk", barycentric_maps(points, self.frame.triangles)[triangle], homogeneous
        )
        corners = self.frame.vertices[self.frame.triangles[triangle]]
        out = canvas.copy()
        out[y, x] = bilinear(texture, np.einsum("fk,fkd->fd", weights, corners))
        return out


def sample_texture(image: Image, points: Floats, motion: PiecewiseAffine, channels: int) -> Float32:
    """The pixels of an image under the motion's frame laid on `points (v, 2)`, as one vector of f · c values."""
    from pliant.appearance.interpolation import bilinear
    from pliant.appearance.view import (
        scale_to_frame,
        view,
    )

    scale = scale_to_frame(motion.frame.vertices, points)
    window = view(image, points, scale, margin=2, grey=channels == 1)
    values = bilinear(window.pixels, motion.positions(window.to_view(points)))
    return np.broadcast_to(values, (len(values), channels)).ravel()


def _without_holes(frame: Frame, values: Float32) -> Float32:
    """The texture as a picture `(h, w, c)` continued beyond its mask, for interpolation at its edge."""
    from scipy.ndimage import distance_transform_edt

    picture = frame.image(values, outside=0)
    nearest = distance_transform_edt(~frame.mask, return_distances=False, return_indices=True)
    return np.ascontiguousarray(picture[nearest[0], nearest[1]])
