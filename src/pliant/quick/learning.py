"""Learning after every image: a model of those that are finished, in about a second, however many they are.

What filters are solved from is summed image by image; an image is decoded and shrunk once. How far filters can be
trusted is learned by filters that do not know the image that they look at, and again when a quarter more images are
there: until then, what was learned before holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.appearance.tones import as_grey_bytes
from pliant.arrays import Float64, Floats, Image, readonly
from pliant.data.dataset import Sample
from pliant.experts.linear import LinearExpert
from pliant.experts.patches import window
from pliant.quick.equations import FOLDS, Equations, Lesson, Scale
from pliant.quick.filling import filled
from pliant.quick.judging import ANNOTATED, Judged, Trust, judged, near
from pliant.quick.model import QuickModel
from pliant.shape import ShapeModel, align, shape_size, train_shape_model
from pliant.shape.generalisation import held_out_noise
from pliant.starts.filter_learning import learn_filter
from pliant.starts.filters import ObjectFilter
from pliant.starts.placement import IMAGE, Placement, image_box, learn_placement, placed
from pliant.threads import one_blas_thread

FEWEST = 5
"""Images that a model is made of, at the least."""

FEWEST_POINTS = 3
"""Landmarks that an image must have to be learned from."""

SCALES = (
    Scale(30.0, 5, 2, 8, turn=0.2, growth=0.12),
    Scale(60.0, 5, 3, 7, turn=0.08, growth=0.05),
    Scale(120.0, 5, 3, 6, turn=0.035, growth=0.025),
)
"""Filters from coarse to fine; the coarsest look for landmarks a quarter of the object away."""

_SMALLEST = 4.0
"""Pixels of an object that can be learned from."""

_KEPT_VARIANCE, _MOST_MODES = 0.995, 60

_AGAIN = 1.25
"""How far filters can be trusted is learned again when there are so many times as many images."""

_DRIFT = 0.03
"""Equations are summed anew if the mean shape has changed by this share of its size."""

_UNUSUAL = 0.15
"""Where a tenth of the images has the object farther off its usual place than this, a filter learns to find it."""

_FILTER_AGAIN = 2.0
"""The object filter is learned again when there are so many times as many images."""

_FILTERED = 64.0
"""The size of the object, in pixels, in images that the object filter is learned from."""


class Finished(NamedTuple):
    """An image that a person has finished: how to read it, and its landmarks `(v, 2)`, nan where one is missing."""

    read: Callable[[], Image]
    points: Floats


@dataclass(frozen=True)
class _Kept:
    """What is kept of an image that was read: windows about the object, and where it is in the image."""

    grey: NDArray[np.uint8]
    origin: Float64
    scale: float
    small: NDArray[np.uint8]
    zoom: float
    box: Float64
    points: Float64


class Learner:
    """Learns from images that are finished, one after the other; it keeps what one more image does not change."""

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._kept: dict[Hashable, _Kept] = {}
        self._lessons: dict[Hashable, Lesson] = {}
        self._equations: tuple[Equations, ...] = ()
        self._landmarks: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._trust: Trust | None = None
        self._judge = True
        self.outdated = False
        self._filter: tuple[int, ObjectFilter] | None = None

    def learn(self, finished: Mapping[Hashable, Finished], judge: bool = True) -> QuickModel:
        """A model of all images that are finished; those that it knows are neither read nor summed again.

        Parameters
        ----------
        finished
            Images by what they are called. Each has as many landmarks `(v, 2)`; those of which fewer than three
            are known are left out.
        judge
            Learn again how far the model can be trusted, if many images have come since that was done. Without, it
            is `outdated` then, and can be judged later: that takes longer than all else.

        Raises
        ------
        ValueError
            A sentence, if there are too few images.

        """
        usable = {key: one for key, one in finished.items() if _has_a_shape(one.points)}
        if len(usable) < FEWEST:
            raise ValueError(
                f"a model needs {FEWEST} finished images with three landmarks each, but there are "
                f"{len(usable)}."
            )
        points = np.array([one.points for one in usable.values()], dtype=np.float64)
        with one_blas_thread(), ThreadPoolExecutor(self._jobs) as pool:
            landmarks = np.flatnonzero(np.any(np.isfinite(points[:, :, 0]), axis=0))
            if not np.array_equal(landmarks, self._landmarks):
                self._forget()
                self._landmarks = landmarks
            known = np.isfinite(points[:, landmarks, 0])
            shapes = filled(points[:, landmarks])
            self._read(usable, shapes, pool)
            shape = _shape_model(shapes)
            self._sum(list(usable), shapes, known, shape.mean, pool)
            self._judge = judge
            return self._model(list(usable), shapes, shape, points.shape[1], pool)

    def _forget(self) -> None:
        self._kept, self._lessons, self._equations = {}, {}, ()
        self._trust = self._filter = None

    def _read(self, usable: Mapping[Hashable, Finished], shapes: Float64, pool: ThreadPoolExecutor) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if key in usable}

        def moved(key: Hashable, shape: Float64) -> bool:
            """A window is as good as another as long as the object is in its middle."""
            apart = np.linalg.norm(self._kept[key].points - shape, axis=-1)
            return float(np.max(apart)) > 0.2 * float(shape_size(shape))

        wanted = [
            (key, one, shape)
            for (key, one), shape in zip(usable.items(), shapes, strict=True)
            if key not in self._kept or moved(key, shape)
        ]
        for (key, _, _), kept in zip(
            wanted, pool.map(lambda one: _shrunk(one[1].read(), one[2]), wanted), strict=True
        ):
            self._kept[key] = kept

    def _sum(
        self,
        keys: Sequence[Hashable],
        shapes: Float64,
        known: NDArray[np.bool_],
        mean: Float64,
        pool: ThreadPoolExecutor,
    ) -> None:
        """Bring the equations to these images: what is new is added, and what has changed or gone is taken out."""
        if not self._equations or _drift(mean, self._equations[0].mean) > _DRIFT:
            self._lessons = {}
            self._equations = tuple(Equations(scale, mean) for scale in SCALES)
        now: dict[Hashable, Lesson] = {}
        folds = [old.fold for old in self._lessons.values()]
        for key, shape, mask in zip(keys, shapes, known, strict=True):
            old = self._lessons.get(key)
            fold = min(range(FOLDS), key=folds.count) if old is None else old.fold
            if old is None:
                folds.append(fold)
            now[key] = _lesson(key, self._kept[key], shape, mask, fold, old)
        gone = [old for key, old in self._lessons.items() if key not in now or now[key] is not old]
        new = [one for key, one in now.items() if self._lessons.get(key) is not one]
        for equations in self._equations:
            equations.add(gone, pool, -1.0)
            equations.add(new, pool)
        self._lessons = now

    def _model(
        self,
        keys: Sequence[Hashable],
        shapes: Float64,
        shape: ShapeModel,
        landmarks: int,
        pool: ThreadPoolExecutor,
    ) -> QuickModel:
        kept = [self._kept[key] for key in keys]
        boxes = np.array([one.box for one in kept])
        placement = learn_placement(IMAGE, boxes, shapes, shape.mean, len(kept))
        noise = held_out_noise(shapes, shape) + ANNOTATED**2 * np.eye(2)
        blank = LinearExpert(
            mean=shape.mean,
            basis=shape.basis,
            variances=shape.eigenvalues,
            noise=max(float(np.trace(noise.mean(axis=0))) / 2, 1e-8),
            steps=(),
            filters=(),
        )
        sizes = np.array([shape_size(one) for one in shapes])
        extents = np.array([min(box[2:] - box[:2]) for box in boxes])
        model = QuickModel(
            landmarks=landmarks,
            kept=readonly(self._landmarks),
            expert=blank,
            shape=shape,
            noise=readonly(noise),
            placement=placement,
            object_filter=self._object_filter(kept, shapes, placement, shape, pool),
            smallest=float(np.min(sizes / extents)),
            unsure=np.ones(len(shape.mean)),
            error=np.nan,
            usual=1.0,
            answer=1.0,
            samples=len(keys),
        )
        layers = [equations.solved(pool) for equations in self._equations]
        trust = self._trust
        self.outdated = trust is None or not trust.samples <= len(keys) < _AGAIN * trust.samples
        if trust is None or (self.outdated and self._judge):
            self.outdated = False
            trials = [self._trial(model, key) for key in keys]
            trust = self._trust = judged(model, layers, self._equations, trials, pool)
        trusted = tuple(
            replace(
                known,
                weights=layer.weights,
                offset=layer.offset,
            )
            for layer, known in zip(layers, trust.layers, strict=True)
        )
        return replace(
            model,
            expert=replace(blank, filters=trusted),
            unsure=trust.unsure,
            error=trust.error,
            usual=trust.usual,
            answer=trust.answer,
        )

    def _trial(self, model: QuickModel, key: Hashable) -> Judged:
        """An image to judge filters by; they begin at the usual place, or near the object if that is elsewhere."""
        kept, lesson = self._kept[key], self._lessons[key]
        usual = (placed(model.placement, kept.box, model.shape.mean) - kept.origin) * kept.scale
        apart = np.mean(np.linalg.norm(usual - lesson.points, axis=1)) / shape_size(lesson.points)
        return Judged(lesson, usual if apart < _UNUSUAL else near(model.shape.mean, lesson))

    def _object_filter(
        self,
        kept: Sequence[_Kept],
        shapes: Float64,
        placement: Placement,
        shape: ShapeModel,
        pool: ThreadPoolExecutor,
    ) -> ObjectFilter | None:
        """What finds the object, where it has no usual place; learned anew when there are twice as many images."""
        if placement.error_90 <= _UNUSUAL:
            return None
        if self._filter is None or not self._filter[0] <= len(kept) < _FILTER_AGAIN * self._filter[0]:
            samples = [Sample(str(k), lambda one=one: one.small, None) for k, one in enumerate(kept)]  # type: ignore[misc]
            there = np.array([(one + 0.5) * own.zoom - 0.5 for one, own in zip(shapes, kept, strict=True)])
            self._filter = len(kept), learn_filter(samples, there, shape.mean, self._jobs)
        return self._filter[1]


def _has_a_shape(points: Floats) -> bool:
    """Whether landmarks `(v, 2)` can be learned from: enough are known, and they do not lie in one place."""
    known = np.asarray(points)[np.all(np.isfinite(points), axis=1)]
    return len(known) >= FEWEST_POINTS and float(shape_size(known)) >= _SMALLEST


def _shape_model(shapes: Float64) -> ShapeModel:
    model = train_shape_model(shapes, 1.0, _KEPT_VARIANCE)
    return model if model.modes <= _MOST_MODES else model.truncated(_MOST_MODES)


def _shrunk(image: Image, points: Float64) -> _Kept:
    import cv2

    part = window(image, points, max(scale.size for scale in SCALES))
    grey: Any = as_grey_bytes(image)
    zoom = min(1.0, _FILTERED / max(float(shape_size(points)), 1.0))
    small = grey if zoom == 1 else cv2.resize(grey, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
    return _Kept(
        grey=np.round(np.clip(part.grey, 0, 1) * 255).astype(np.uint8),
        origin=part.origin,
        scale=part.scale,
        small=np.asarray(small),
        zoom=zoom,
        box=image_box(image),
        points=points,
    )


def _lesson(
    key: Hashable,
    kept: _Kept,
    points: Float64,
    known: NDArray[np.bool_],
    fold: int,
    old: Lesson | None,
) -> Lesson:
    """What an image teaches; the old lesson itself, if nothing has changed."""
    there = np.asarray((points - kept.origin) * kept.scale)
    same = old is not None and old.grey is kept.grey and np.array_equal(old.known, known)
    # Points that were filled in move a little with every image, and teach nothing.
    if old is not None and same and np.array_equal(old.points[known], there[known]):
        return old
    return Lesson(kept.grey, there, known, fold, zlib.crc32(repr(key).encode()))


def _drift(mean: Float64, old: Float64) -> float:
    """How far a mean shape is from another that is as large, as a share of the size."""
    apart = align(old, mean).apply(old) - mean
    return float(np.max(np.linalg.norm(apart, axis=1)) / shape_size(mean))
