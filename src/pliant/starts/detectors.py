"""Detectors: functions from an image to boxes around what they found, the best first."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Float64, Image
from pliant.settings import Detector

_LONGEST = 320
"""Pixels of the longer side of the image that Haar's cascade looks at: a face may fill a tenth of that."""

_SMALLEST_FACE = 0.1
"""Of the shorter side of the image: smaller boxes were mistakes more often than faces."""

_LARGE_FACE = 0.3
"""Of the shorter side of the image: in training images that are cut out around the face, it is larger."""

_NEIGHBOURS = 3
"""Detections that must agree. Fewer find a little more, and see faces in curtains."""

_cascades = threading.local()


def haar_face(image: Image) -> Float64:
    """Boxes `(k, 4)` of frontal faces, the largest first, by the Haar cascade that comes with OpenCV.

    The longer side is shrunk to 320 pixels; faces smaller than a tenth of the shorter side are not looked for.
    """
    return _faces(image, _SMALLEST_FACE)


def largest_face(image: Image) -> Float64:
    """The first box `(1, 4)` of `haar_face`, several times as fast if it is a large one; none is `(0, 4)`.

    Nearly all the time goes into small faces, and these do not matter where there is a large one.
    """
    for least in (_LARGE_FACE, _SMALLEST_FACE):
        largest = _faces(image, least)[:1]
        # Detections that agree are averaged: close to the least size, some of them would be missing.
        if len(largest) and largest[0, 2] - largest[0, 0] > 1.5 * least * min(image.shape[:2]):
            break
    return largest


def _faces(image: Image, least: float) -> Float64:
    """Boxes `(k, 4)` of faces of at least this share of the image's shorter side."""
    if not hasattr(_cascades, "face"):
        # One for each thread: a cascade keeps the image that it works on.
        file = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"
        _cascades.face = cv2.CascadeClassifier(str(file))
    grey: Any = as_grey_bytes(image)
    zoom = min(1.0, _LONGEST / max(grey.shape))
    if zoom < 1:
        grey = cv2.resize(grey, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
    side = max(24, round(least * min(grey.shape)))
    found = _cascades.face.detectMultiScale(
        cv2.equalizeHist(grey), scaleFactor=1.1, minNeighbors=_NEIGHBOURS, minSize=(side, side)
    )
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in found], dtype=np.float64).reshape(-1, 4)
    # From edges of the small image's pixels to centres of the large one's.
    boxes = boxes / zoom - 0.5
    largest_first = np.argsort(boxes[:, 0] - boxes[:, 2], kind="stable")
    return np.asarray(boxes[largest_first])


DETECTORS: dict[str, Detector] = {"haar-face": haar_face}
"""Detectors that have a name of their own; others are given as functions."""


def find_detector(detector: str | Detector) -> tuple[str, Detector]:
    """A detector and its name; `module:function` and `file.py:function` are imported."""
    if not isinstance(detector, str):
        return str(detector_name(detector)), detector
    if detector in DETECTORS:
        return detector, DETECTORS[detector]
    module, colon, function = detector.rpartition(":")
    if not colon:
        raise ValueError(
            f"there is no detector '{detector}'. Known detectors: {', '.join(DETECTORS)}, and your own "
            "functions as module:function or file.py:function."
        )
    return function, _imported(detector, module, function)


def detector_name(detector: str | Detector | None) -> str | None:
    """The name of a detector, without the place where it is defined."""
    if detector is None or isinstance(detector, str):
        return None if detector is None else detector.rpartition(":")[2]
    return getattr(detector, "__name__", type(detector).__name__)


def detected(name: str, detector: Detector, image: Image) -> Float64:
    """The boxes `(k, 4)` that a detector gives, checked."""
    boxes = np.asarray(detector(image), dtype=np.float64)
    if boxes.size == 0:
        return np.zeros((0, 4))
    boxes = np.atleast_2d(boxes)
    empty = boxes.shape[1:] == (4,) and np.any(boxes[:, 2:] - boxes[:, :2] < 1)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not np.all(np.isfinite(boxes)) or empty:
        raise ValueError(
            f"the detector {name} must return boxes (k, 4) of left, top, right, bottom, each at least one "
            f"pixel wide and high, not {boxes.tolist() if boxes.size <= 8 else boxes.shape}."
        )
    return boxes


def _imported(name: str, module: str, function: str) -> Detector:
    import importlib
    import importlib.util

    try:
        if module.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module).stem, module)
            if spec is None or spec.loader is None:
                raise ImportError(f"{module} is not a Python file")
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
        else:
            loaded = importlib.import_module(module)
        found: Detector = getattr(loaded, function)
    except (ImportError, AttributeError, OSError, SyntaxError) as error:
        raise ValueError(f"the detector {name} cannot be imported: {error}.") from None
    return found
