"""The built-in features of whole batches of images in PyTorch, on a GPU or on the CPU.

The numbers are those of `features.py`, except for rounding. Memory traffic decides how fast a GPU is here. So the
Gaussians are matrix products with a small band matrix, which read and write every pixel about once, and nothing is
launched for a single image. `device_loops.py` has kernels for CUDA that move less still.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pliant.appearance import features
from pliant.appearance.features import Feature, find_feature
from pliant.devices import Tensor, exact_products, on_device

_BLOCK = 32
"""Pixels that one product with a band matrix makes. Wider blocks waste arithmetic, narrower ones memory traffic."""

_SOFTNESS = 0.02
"""As in `features.py`: edges that are much weaker than this hardly count."""

_CELL_TAPS = 17
"""How wide the Gaussian of 2 pixels is that gathers the directions."""


def has_device_feature(name: str) -> bool:
    """Whether a feature is computed on the device: those that are built in, unless a user has replaced them."""
    return find_feature(name).function in _ON_DEVICE


def device_features(images: Tensor, sizes: NDArray[np.int64], feature: Feature) -> Tensor:
    """Channels `(B, h, w, c)`, float32, of grey images `(B, h, w)` or of colour `(B, h, w, 3)`.

    Features that users wrote are computed on the CPU, image by image. They see each image only up to its own
    height and width in `sizes (B, 2)`, and their last row and column go on beyond.
    """
    function = _ON_DEVICE.get(feature.function)
    if function is None:
        return _on_the_host(images, sizes, feature)
    loops = loops_on(images.device)
    if loops is not None and feature.function in loops.FEATURES:
        return loops.FEATURES[feature.function](images)
    with exact_products():
        return function(images)


def loops_on(device: Any) -> Any:
    """The module `device_loops` with kernels for CUDA, or None where they cannot run."""
    if device.type != "cuda":
        return None
    try:
        import pliant.appearance.device_loops as loops
    except ImportError:
        return None
    return loops


def bytes_for_features(feature: Feature, shape: tuple[int, int], colour: bool, device: Any) -> float:
    """About how many bytes `device_features` needs for each image of a shape at the most, with what it returns."""
    loops, planes = loops_on(device), 3.0 if colour else 1.0
    if loops is not None and feature.function in loops.FEATURES:
        values = 2 * feature.channels + 3 * planes
    else:
        # On the way to features there are about three times as many values, and a few planes.
        values = 3.5 * feature.channels + 10 * planes
    return 4 * shape[0] * shape[1] * values


def _intensity(images: Tensor) -> Tensor:
    return images[..., None]


def _normalized(images: Tensor) -> Tensor:
    centred = images - _smooth(images, 65, 8.0)
    deviation = _smooth(centred.square(), 65, 8.0).sqrt()
    return centred.div_(deviation.add_(0.02))[..., None]


def _gradient(images: Tensor) -> Tensor:
    import torch

    return torch.stack(_slopes(images), dim=-1)


def _igo(images: Tensor) -> Tensor:
    import torch

    by_x, by_y = _slopes(images)
    squared = by_x.square().addcmul_(by_y, by_y).add_(_SOFTNESS**2)
    length = squared.sqrt()
    out = by_x.new_empty((*by_x.shape, 4))
    torch.div(by_x, length, out=out[..., 0])
    torch.div(by_y, length, out=out[..., 1])
    torch.div(by_x.square().addcmul_(by_y, by_y, value=-1), squared, out=out[..., 2])
    torch.div((2 * by_x).mul_(by_y), squared, out=out[..., 3])
    return out


def _dsift(images: Tensor) -> Tensor:
    import torch

    height, width = images.shape[1:3]
    # The CPU continues the histograms beyond the border. To continue the gradients is the same, and smaller.
    by_x, by_y = (_padded(slopes, _CELL_TAPS // 2) for slopes in _slopes(images))
    gathered = _smooth_padded(_histograms(by_x, by_y).flatten(0, 1), height, width, _CELL_TAPS, 2.0)
    gathered = gathered.unflatten(0, (len(images), 8))
    factors = torch.linalg.vector_norm(gathered, dim=1).square_().add_(_SOFTNESS**2).rsqrt_()
    out = images.new_empty((len(images), height, width, 8))
    return torch.mul(gathered.permute(0, 2, 3, 1), factors[..., None], out=out)


def _histograms(by_x: Tensor, by_y: Tensor) -> Tensor:
    """Gradients `(B, h, w)`, shared between the two nearest of 8 directions: `(B, 8, h, w)`.

    What falls to an axis or a diagonal falls to one end of it, as the signs of the gradient say.
    """
    import torch

    across, down = by_x.abs(), by_y.abs()
    flat = across >= down
    tangent = torch.minimum(across, down).div_(torch.maximum(across, down).clamp_(min=1e-30))
    del across, down
    magnitude = torch.hypot(by_x, by_y)
    diagonal = _eighths(tangent).mul_(magnitude)
    straight = magnitude.sub_(diagonal)
    out = by_x.new_empty((len(by_x), 8, *by_x.shape[1:]))
    for axis, (slopes, nearest) in enumerate([(by_x, flat), (by_y, ~flat)]):
        signed = straight.copysign(slopes).mul_(nearest)
        torch.clamp(signed, min=0, out=out[:, 2 * axis])
        torch.sub(out[:, 2 * axis], signed, out=out[:, 2 * axis + 4])
    right = by_x > 0
    downwards = diagonal * (by_y > 0)
    upwards = diagonal.sub_(downwards)
    for half, to_right, to_left in ((downwards, 1, 3), (upwards, 7, 5)):
        torch.mul(half, right, out=out[:, to_right])
        torch.sub(half, out[:, to_right], out=out[:, to_left])
    return out


def _eighths(tangent: Tensor) -> Tensor:
    """The angle in eighths of a turn, by the polynomial of `features.py`."""
    import torch

    square = tangent.square()
    highest, *others = _coefficients(tangent.device)
    total = square.mul(highest).add_(others[0])
    for coefficient in others[1:]:
        # One step at once: each of them reads and writes a whole batch.
        torch.addcmul(coefficient, total, square, out=total)
    return total.mul_(tangent)


@cache
def _coefficients(device: Any) -> tuple[Tensor, ...]:
    """Those of the polynomial, the highest first, as tensors without axes."""
    import torch

    numbers = (0.0086730, -0.0427862, 0.1013800, -0.1684921, 0.2522009, -0.4242099, 1.2732346)
    return tuple(torch.tensor(numbers, dtype=torch.float32, device=device).unbind())


def _slopes(images: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives `(B, h, w)` by x and y after a Gaussian of 1 pixel; of colour, where it changes most."""
    if images.ndim == 3:
        smooth = _smooth(images, 9, 1.0)
        return _differences(smooth, 2), _differences(smooth, 1)
    planes = images.movedim(-1, 1)
    smooth = _smooth(planes.flatten(0, 1), 9, 1.0).unflatten(0, planes.shape[:2])
    return _longest(_differences(smooth, 3), _differences(smooth, 2))


def _longest(by_x: Tensor, by_y: Tensor) -> tuple[Tensor, Tensor]:
    """Of gradients `(B, 3, h, w)`, the longest at every pixel `(B, h, w)`; the first of those that are alike."""
    import torch

    x, y = by_x[:, 0], by_y[:, 0]
    most = x.square().addcmul_(y, y)
    for other_x, other_y in zip(by_x.unbind(1)[1:], by_y.unbind(1)[1:], strict=True):
        squared = other_x.square().addcmul_(other_y, other_y)
        longer = squared > most
        x, y = torch.where(longer, other_x, x), torch.where(longer, other_y, y)
        most = torch.maximum(most, squared)
    return x, y


def _differences(planes: Tensor, axis: int) -> Tensor:
    """Central differences along an axis; one-sided on the border."""
    import torch

    return torch.gradient(planes, dim=axis)[0] if planes.shape[axis] > 1 else torch.zeros_like(planes)


def _smooth(planes: Tensor, taps: int, sigma: float) -> Tensor:
    """Planes `(n, h, w)` after a Gaussian. OpenCV takes 8 sigma + 1 taps for float32, if it may choose."""
    height, width = planes.shape[1:]
    return _smooth_padded(_padded(planes, taps // 2), height, width, taps, sigma)


def _padded(planes: Tensor, radius: int) -> Tensor:
    """Planes `(n, h, w)` continued by their border: by `radius` on every side, and on to whole blocks."""
    from torch.nn.functional import pad

    height, width = planes.shape[1:]
    return pad(
        planes, (radius, radius - width % -_BLOCK, radius, radius - height % -_BLOCK), mode="replicate"
    )


def _smooth_padded(padded: Tensor, height: int, width: int, taps: int, sigma: float) -> Tensor:
    """The Gaussian of planes that are `_padded`: `(n, height, width)`, of which rows need not be adjacent.

    Each product makes a block of rows, or of columns, from those that the Gaussian reaches. The blocks overlap in
    what they read, but they are read in place.
    """
    import torch

    count, wide = len(padded), padded.shape[2]
    band = _band(taps, sigma, padded.device)
    reach = band.shape[1]
    tall = padded.shape[1] - (taps - 1)
    down = padded.new_empty((count, tall, wide))
    for top in range(0, tall, _BLOCK):
        block = down[:, top : top + _BLOCK]
        torch.bmm(band.expand(count, -1, -1), padded[:, top : top + reach], out=block)
    # The caller has let go of it, and it is as large as the features themselves.
    del padded
    blocks = (wide - (taps - 1)) // _BLOCK
    strips = down.as_strided((blocks, count * tall, reach), (_BLOCK, wide, 1))
    out = down.new_empty((count * tall, blocks, _BLOCK))
    torch.bmm(strips, band.T.expand(blocks, -1, -1), out=out.transpose(0, 1))
    return out.view(count, tall, -1)[:, :height, :width]


@cache
def _band(taps: int, sigma: float, device: Any) -> Tensor:
    """The matrix `(block, block + taps - 1)` that smooths as many pixels at once."""
    gaussian = cv2.getGaussianKernel(taps, sigma, cv2.CV_32F)[:, 0]
    band = np.zeros((_BLOCK, _BLOCK + taps - 1), dtype=np.float32)
    for row in range(_BLOCK):
        band[row, row : row + taps] = gaussian
    return on_device(band, device)


def _on_the_host(images: Tensor, sizes: NDArray[np.int64], feature: Feature) -> Tensor:
    """The same for a feature that only the CPU knows."""
    seen = images.cpu().numpy()
    out = np.empty((*seen.shape[:3], feature.channels), dtype=np.float32)
    for image, (height, width), room in zip(seen, sizes, out, strict=True):
        beyond = [(0, seen.shape[1] - height), (0, seen.shape[2] - width), (0, 0)]
        room[:] = np.pad(feature.compute(image[:height, :width]), beyond, mode="edge")
    return on_device(out, images.device)


_ON_DEVICE: dict[Callable[..., Any], Callable[[Tensor], Tensor]] = {
    features.intensity: _intensity,
    features.normalized: _normalized,
    features.gradient: _gradient,
    features.igo: _igo,
    features.dsift: _dsift,
}
"""What computes a feature on the device, by the function that computes it on the CPU: names can be taken over."""
