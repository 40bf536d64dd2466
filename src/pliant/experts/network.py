"""The network expert: small convolutional networks that say where landmarks are, used without PyTorch.

Each looks at a window around the object, upright and at one size, and answers with one map for each landmark, of
which a softmax makes a distribution. Its mean y and covariance C are the sighting: the landmark is at y, with the
precision (share C + spread)^-1. The first network looks far around a start, and the next ones nearer, at what the
one before has found.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Concise, Float32, Float64, Floats, Image, readonly
from pliant.experts.frames import CropFrame
from pliant.experts.onnx_graph import as_onnx
from pliant.experts.sightings import Sightings, moved_precision
from pliant.shape.procrustes import Similarity

_MOST_SIDE, _MOST_LAYERS, _MOST_WIDTH = 1024, 8, 4096
"""Beyond these, a file does not say what a network is: its maps would take any memory."""

FLAT = 1e-3
"""Added to the contrast of a window, from 0 to 1, so that one of a single tone stays one."""


@dataclass(frozen=True, eq=False, repr=False)
class Stage(Concise):
    """One network: the frame that it looks in, its weights by name, and how far its word can be trusted.

    `share` and `spread (v, 2, 2)`, in square pixels of the frame, make a covariance of that of a map.
    """

    frame: CropFrame
    weights: Mapping[str, Float32]
    share: float
    spread: Float64

    def maps(self, window: Float32) -> Float32:
        """Logits `(v, rows, columns)` for a window `(h, w)` in grey."""
        centred = window - window.mean()
        if not np.all(np.isfinite(centred)):
            # Engines make zeros of what is not a number, and then maps of them.
            cell = 2 ** (_layers(self.weights, "down") - _layers(self.weights, "up"))
            extents = len(self.spread), window.shape[0] // cell, window.shape[1] // cell
            return np.full(extents, np.nan, dtype=np.float32)
        seen = centred / (np.sqrt(np.mean(centred**2)) + FLAT)
        net = _engine(self)
        net.setInput(np.ascontiguousarray(seen, dtype=np.float32)[None, None])
        return np.asarray(net.forward()[0], dtype=np.float32)

    def seen(self, image: Image, shape: Float64) -> tuple[Float64, Float64, Similarity]:
        """Points `(v, 2)` and covariances `(v, 2, 2)` of the maps in the frame, and where the frame lies."""
        from pliant.experts.maps import moments
        from pliant.experts.windows import cut

        place = self.frame.to_image(shape)
        window = cut(image, self.frame.height, self.frame.width, place)
        points, covariance = moments(self.maps(window), self.frame.height, self.frame.width)
        return points, covariance, place


@dataclass(frozen=True, eq=False, repr=False)
class NetworkExpert(Concise):
    """Says where landmarks are, by convolutional networks.

    Attributes
    ----------
    stages
        From the one that looks farthest to the one that looks nearest.

    """

    stages: tuple[Stage, ...]

    @property
    def looks(self) -> int:
        """Once with each network."""
        return len(self.stages)

    @property
    def landmarks(self) -> int:
        return len(self.stages[-1].frame.mean)

    def look(self, images: Sequence[Image], shapes: Floats, number: int) -> Sightings:
        """Look at each image about the present estimate of a shape there, with the network of this number."""
        from pliant.appearance.view import unlike

        stage = self.stages[number]
        points, precision = np.array(shapes, dtype=np.float64), np.zeros((*shapes.shape, 2))
        for k, (image, shape) in enumerate(zip(images, points, strict=True)):
            if min(image.shape[:2]) < 1 or unlike(stage.frame.mean, shape, image):
                continue
            found, covariance, place = stage.seen(image, shape)
            if not np.all(np.isfinite(found)):
                continue
            precision[k] = moved_precision(np.linalg.inv(stage.share * covariance + stage.spread), place)
            points[k] = place.apply(found)
        return Sightings(points, precision)

    def arrays(self) -> dict[str, Float32 | Float64]:
        """All arrays of the expert by name, to be stored."""
        out: dict[str, Any] = {}
        for k, stage in enumerate(self.stages):
            out |= {f"stages.{k}.mean": stage.frame.mean, f"stages.{k}.spread": stage.spread}
            out |= {f"stages.{k}.weights.{name}": array for name, array in stage.weights.items()}
        return out

    def numbers(self) -> dict[str, Any]:
        """All that is not an array, as plain values."""
        return {
            "stages": [
                {"height": stage.frame.height, "width": stage.frame.width, "share": stage.share}
                for stage in self.stages
            ]
        }

    @classmethod
    def from_parts(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> NetworkExpert:
        """The expert of its `arrays()` and `numbers()`; a sentence if they are not those of one."""
        tables = numbers.get("stages")
        if not isinstance(tables, (list, tuple)) or not tables:
            raise ValueError("a network expert has no networks.")
        stages = tuple(_stage(arrays, f"stages.{k}", table) for k, table in enumerate(tables))
        odd = sorted(set(arrays) - set(cls(stages).arrays()))
        if odd:
            raise ValueError(f"a network expert does not use '{odd[0]:.60}'.")
        if len({len(stage.frame.mean) for stage in stages}) > 1:
            raise ValueError("the networks of an expert have different landmarks.")
        return cls(stages)


_engines = threading.local()
"""OpenCV's engines work for one thread at a time: each thread has its own."""


def has_engine() -> bool:
    """Whether there is an OpenCV that runs networks; without any, nothing is fitted here, and nobody asks."""
    try:
        import cv2
    except ImportError:
        return True
    return hasattr(cv2, "dnn")


def _engine(stage: Stage) -> Any:
    import cv2

    known: dict[int, tuple[Stage, Any]] = _engines.__dict__.setdefault("known", {})
    if id(stage) not in known or known[id(stage)][0] is not stage:
        document = as_onnx(stage.weights, stage.frame.height, stage.frame.width)
        if len(known) >= _MOST_ENGINES:
            known.clear()
        known[id(stage)] = stage, cv2.dnn.readNetFromONNX(np.frombuffer(document, np.uint8))
    return known[id(stage)][1]


_MOST_ENGINES = 8
"""So many are kept by a thread; training tries more than one model."""


def _stage(arrays: Mapping[str, NDArray[Any]], prefix: str, table: object) -> Stage:
    if not isinstance(table, Mapping):
        raise ValueError(f"'{prefix}' of a network expert is not a table.")
    mean = _array(arrays, f"{prefix}.mean", np.float64, None, 2)
    spread = _array(arrays, f"{prefix}.spread", np.float64, len(mean), 2, 2)
    if not np.array_equal(spread, np.swapaxes(spread, 1, 2)) or not np.all(np.linalg.eigvalsh(spread) > 0):
        raise ValueError(f"'{prefix}.spread' of a network expert has a matrix that is not a covariance.")
    if len(mean) < 2 or not float(np.ptp(mean, axis=0).max()) > 0:
        raise ValueError("the mean shape of a network expert has no extent.")
    start = f"{prefix}.weights."
    weights = {name[len(start) :]: arrays[name] for name in arrays if name.startswith(start)}
    depth = _checked_weights(weights, len(mean))
    share = table.get("share")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1e6:
        raise ValueError(f"the share of a network expert is {share!r:.40}, not a number of at least 0.")
    height, width = (_side(table, name, 2**depth) for name in ("height", "width"))
    if not np.all((mean >= 0) & (mean <= np.array([width, height]) - 1)):
        raise ValueError(f"'{prefix}.mean' of a network expert is outside its window.")
    frame = CropFrame(height, width, mean)
    return Stage(frame, {name: readonly(array) for name, array in weights.items()}, float(share), spread)


def _side(table: Mapping[str, Any], name: str, multiple: int) -> int:
    value = table.get(name)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not 0 < value <= _MOST_SIDE
        or value % multiple
    ):
        raise ValueError(
            f"the {name} of a network's window is {value!r:.40}, not a multiple of {multiple} up to "
            f"{_MOST_SIDE}."
        )
    return value


def _layers(weights: Mapping[str, NDArray[Any]], side: str) -> int:
    """How many layers a network has on this side; those behind a gap do not count."""
    return next(
        k for k in range(_MOST_LAYERS + 1) if k == _MOST_LAYERS or f"{side}.{k}.a.weight" not in weights
    )


def _checked_weights(weights: Mapping[str, NDArray[Any]], landmarks: int) -> int:
    """How many times the network halves its window; a sentence if these are not the weights of one."""
    depth, ups = _layers(weights, "down"), _layers(weights, "up")
    if depth < 2 or not 1 <= ups < depth:
        raise ValueError(f"a network expert cannot have {depth} layers down and {ups} up.")
    widths = [len(np.atleast_1d(weights[f"down.{k}.a.weight"])) for k in range(depth)]
    wanted = _shapes(widths, ups, landmarks)
    if set(wanted) != set(weights):
        odd = sorted(set(wanted) ^ set(weights))[0]
        raise ValueError(f"the weights of a network expert do not form a network: '{odd:.60}'.")
    for name, shape in wanted.items():
        array = np.asarray(weights[name])
        if array.dtype != np.float32 or array.shape != shape or max(shape) > _MOST_WIDTH:
            raise ValueError(f"'{name}' of a network expert has type {array.dtype} and shape {array.shape}.")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"'{name}' of a network expert has values that are not finite numbers.")
    return depth


def _shapes(widths: Sequence[int], ups: int, landmarks: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights of a network."""
    shapes: dict[str, tuple[int, ...]] = {"stem.weight": (widths[0], 1, 5, 5), "stem.bias": (widths[0],)}

    def block(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.a.weight"] = (outputs, inputs, 3, 3)
        shapes[f"{name}.b.weight"] = (outputs, outputs, 3, 3)
        shapes[f"{name}.a.bias"] = shapes[f"{name}.b.bias"] = (outputs,)
        if inputs != outputs:
            shapes[f"{name}.skip.weight"] = (outputs, inputs, 1, 1)

    for k, (inputs, outputs) in enumerate(zip((widths[0], *widths), widths, strict=False)):
        block(f"down.{k}", inputs, outputs)
    for k in range(ups):
        deep, fine = widths[-1 - k], widths[-2 - k]
        block(f"up.{k}", deep + fine, fine)
    last = widths[-1 - ups]
    return shapes | {"head.weight": (landmarks, last, 1, 1), "head.bias": (landmarks,)}


def _array(arrays: Mapping[str, NDArray[Any]], name: str, kind: type, *shape: int | None) -> NDArray[Any]:
    """The array, if it is there, finite, and of this type and shape (None: any extent)."""
    if name not in arrays:
        raise ValueError(f"a network expert lacks '{name}'.")
    array = np.asarray(arrays[name])
    extents = array.ndim == len(shape) and all(
        wanted in (None, extent) for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if array.dtype != kind or not extents:
        raise ValueError(f"'{name}' of a network expert has type {array.dtype} and shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"'{name}' of a network expert has values that are not finite numbers.")
    return readonly(array)
