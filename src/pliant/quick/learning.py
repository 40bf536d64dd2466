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
from pliant.experts.filter_training import Trial, calibrated
from pliant.experts.linear import Filters, LinearExpert
from pliant.experts.patches import window
from pliant.quick.equations import FOLDS, Equations, Lesson, Scale
from pliant.quick.filling import filled
from pliant.quick.model import QuickModel, Start, answer_of, believed, in_layer, sightings_in
from pliant.shape import ShapeModel, Similarity, align, shape_size, train_shape_model
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

_LOST = (0.4, 0.15, 0.08)
"""At each scale, shapes that are off by more than this share of the object do not tell how good filters are."""

_KEPT_VARIANCE, _MOST_MODES = 0.995, 60

_JUDGED, _LANDMARKS = 40, 4000
"""Most images by which it is learned how far filters can be trusted, and most landmarks in all of them."""

_AGAIN = 1.25
"""That is learned again when there are so many times as many images as at the last time."""

_DRIFT = 0.03
"""Equations are summed anew if the mean shape has changed by this share of its size."""

_UNUSUAL = 0.15
"""Where a tenth of the images has the object farther off its usual place than this, a filter learns to find it."""

_FOUND = 0.05
"""How far the object filter is off, in sizes of the object, logarithms of it, and radians."""

_LEAST_STRANGE = 0.02

_FILTER_AGAIN = 2.0
_FILTERED = 64.0
"""The size of the object, in pixels, in images that the object filter is learned from."""

_ANNOTATED = 0.006
"""How far annotations are off by themselves, along each axis, in sizes of the object.

Points that a person has left where the model proposed them agree with it better than with the truth. Without this
share, a model takes its own proposals for proof, and its deviations shrink from image to image: of 20 wings each in
two runs, 33 of 100 true points were in ellipses of 90 %, and with it 78.
"""

_TYPICAL = 4.605
"""What nine in ten squared distances of two coordinates are below, in deviations."""

_OWN = 20.0
"""A landmark's own errors count for as much as those of all, with so many images."""


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


@dataclass(frozen=True)
class _Trust:
    """What was learned about filters by images that they do not know."""

    samples: int
    layers: tuple[Filters, ...]
    unsure: Float64
    error: float
    usual: float
    answer: float


class Learner:
    """Learns from images that are finished, one after the other; it keeps what one more image does not change."""

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._kept: dict[Hashable, _Kept] = {}
        self._lessons: dict[Hashable, Lesson] = {}
        self._equations: tuple[Equations, ...] = ()
        self._landmarks: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._trust: _Trust | None = None
        self._filter: tuple[int, ObjectFilter] | None = None

    def learn(self, finished: Mapping[Hashable, Finished]) -> QuickModel:
        """A model of all images that are finished; those that it knows are neither read nor summed again.

        Parameters
        ----------
        finished
            Images by what they are called. Each has as many landmarks `(v, 2)`; those of which fewer than three
            are known are left out.

        Raises
        ------
        ValueError
            A sentence, if there are too few images.

        """
        usable = {
            key: one
            for key, one in finished.items()
            if np.sum(np.all(np.isfinite(one.points), axis=1)) >= FEWEST_POINTS
        }
        if len(usable) < FEWEST:
            raise ValueError(
                f"a model needs {FEWEST} finished images with three landmarks each, and there are {len(usable)}."
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
            return self._model(list(usable), shapes, shape, points.shape[1], pool)

    def _forget(self) -> None:
        self._kept, self._lessons, self._equations, self._trust = {}, {}, (), None

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
        noise = held_out_noise(shapes, shape) + _ANNOTATED**2 * np.eye(2)
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
        if self._trust is None or not self._trust.samples <= len(keys) < _AGAIN * self._trust.samples:
            self._trust = self._judged(model, layers, keys, pool)
        trusted = tuple(
            replace(
                known,
                weights=layer.weights,
                offset=layer.offset,
            )
            for layer, known in zip(layers, self._trust.layers, strict=True)
        )
        return replace(
            model,
            expert=replace(blank, filters=trusted),
            unsure=self._trust.unsure,
            error=self._trust.error,
            usual=self._trust.usual,
            answer=self._trust.answer,
        )

    def _judged(
        self, model: QuickModel, layers: Sequence[Filters], keys: Sequence[Hashable], pool: ThreadPoolExecutor
    ) -> _Trust:
        """How far filters can be trusted, by images that those that look at them have not learned from."""
        most = min(_JUDGED, max(FEWEST, _LANDMARKS // len(model.shape.mean)))
        order = np.random.default_rng(0).permutation(len(keys))[:most]
        chosen = [(self._kept[keys[k]], self._lessons[keys[k]]) for k in order]
        parts = [lesson.part() for _, lesson in chosen]
        shapes = [_start(model, kept, lesson) for kept, lesson in chosen]
        expert, done = model.expert, []
        for layer, equations, lost in zip(layers, self._equations, _LOST, strict=True):
            without = {fold: equations.solved(pool, fold) for fold in {one.fold for _, one in chosen}}
            trials = [
                Trial(part, shape, lesson.points, lesson.fold)
                for part, shape, (_, lesson) in zip(parts, shapes, chosen, strict=True)
            ]
            layer, without = calibrated(expert, layer, without, trials, pool, lost)
            layer = _careful(layer)
            without = {fold: _careful(own) for fold, own in without.items()}
            done.append(layer)
            now = {fold: replace(expert, filters=(own,)) for fold, own in without.items()}
            looks = list(pool.map(lambda one, now=now: in_layer(now[one.fold], one.part, one.shape), trials))
            shapes = [old if look is None else look.shape for old, look in zip(shapes, looks, strict=True)]
        whole = replace(model, expert=replace(expert, filters=tuple(done)))
        squares, errors, strange = [], [], []
        for look, shape, (_, lesson) in zip(looks, shapes, chosen, strict=True):
            if look is None:
                continue
            seen = believed(whole, sightings_in(look), Start(shape))
            belief = seen.belief
            strange.append(seen.strange)
            apart = lesson.points - belief.points
            precision = np.linalg.inv(belief.covariance)
            square = np.einsum("vi,vij,vj->v", apart, precision, apart)
            square += (_ANNOTATED * float(shape_size(lesson.points))) ** 2 * np.trace(
                precision, axis1=1, axis2=2
            )
            squares.append(np.where(lesson.known, square, np.nan))
            errors.append(np.nanmean(np.linalg.norm(apart, axis=1)[lesson.known]) / shape_size(lesson.points))
        error = float(np.median(errors)) if errors else np.nan
        unsure = _unsure(np.array(squares), len(model.shape.mean))
        usual = max(float(np.quantile(strange, 0.9)), _LEAST_STRANGE) if strange else 1.0
        answer = float(np.median([answer_of(look) for look in looks if look is not None])) if strange else 1.0
        return _Trust(len(keys), tuple(done), unsure, error, usual, max(answer, 1e-3))

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


def _start(model: QuickModel, kept: _Kept, lesson: Lesson) -> Float64:
    """Where filters begin to look: at the usual place, or near the object if that is not where it is."""
    usual = (placed(model.placement, kept.box, model.shape.mean) - kept.origin) * kept.scale
    size = float(shape_size(lesson.points))
    if np.mean(np.linalg.norm(usual - lesson.points, axis=1)) < _UNUSUAL * size:
        return np.asarray(usual)
    along, growth, turn = _FOUND * np.random.default_rng(lesson.seed).normal(size=3)
    there = align(model.shape.mean, lesson.points)
    factor = there.factor * np.exp(growth + 1j * turn)
    return Similarity(factor, there.offset + along * size * (1 + 1j)).apply(model.shape.mean)


def _careful(layer: Filters) -> Filters:
    """Filters that are no surer than annotations are."""
    return replace(layer, spread=readonly(layer.spread + _ANNOTATED**2 * np.eye(2)))


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


def _unsure(squares: Float64, landmarks: int) -> Float64:
    """What variances `(v,)` must be multiplied with, given squared distances `(k, v)` of errors in deviations."""
    if not squares.size or not np.any(np.isfinite(squares)):
        return np.ones(landmarks)
    common = max(float(np.nanquantile(squares, 0.9)) / _TYPICAL, 0.05)
    capped = np.minimum(squares / common, 3 * _TYPICAL)
    counts = np.sum(np.isfinite(squares), axis=0)
    # The mean of two squared coordinates is 2 where deviations are right.
    sums = np.nansum(capped, axis=0) / 2
    middle = float(np.nanmean(capped)) / 2
    own = (sums + _OWN * middle) / (counts + _OWN) / max(middle, 1e-9)
    return np.asarray(common * own)
