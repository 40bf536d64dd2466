"""Learning how much fits can be trusted, from fits of training images that the fitted model has not seen."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pliant.arrays import Float64, Image
from pliant.batch import fit_all
from pliant.building.build import build_model
from pliant.crew import Jobs, crew_of, in_this_process
from pliant.data.addresses import Source
from pliant.data.dataset import Dataset, Sample, evenly
from pliant.data.loading import as_dataset
from pliant.data.validation import SamplesLeftOut
from pliant.experts.network import NetworkExpert
from pliant.experts.visibility import deviations, usual_deviations
from pliant.fitting.fitter import make_fitter
from pliant.fitting.result import FitResult
from pliant.metrics import normalised_error
from pliant.model import Model, as_model
from pliant.motion import delaunay
from pliant.progress import Progress
from pliant.settings import DEFAULT_ALGORITHM
from pliant.shape import align, shape_size
from pliant.shape.symmetry import asymmetry
from pliant.starts.boxes import from_box
from pliant.starts.filters import ObjectFilter
from pliant.starts.noise import perturbed
from pliant.starts.placement import LOST
from pliant.starts.wrong import wrong_starts
from pliant.trust.confidence import (
    AGAINST,
    PIXELS,
    Confidence,
    Evidence,
    predictors,
    standardised,
)
from pliant.trust.scatter import likeliest_scatter
from pliant.tuning.experts import taught_like

REGRESSED_BOUNDS = np.geomspace(0.0025, 0.16, 13)
"""Errors at which a regression is fitted: an octave is two steps. The least is below what people agree to."""

NOISES = (0.05, 0.05, 0.1, 0.15)
"""How far off the starts are, an image: fits must fail now and then, or nothing is learned about failures."""

_ON_OBJECT = 0.1
"""Fits with a smaller error are on the object, those with one above `LOST` are not, and others teach nothing."""

_FEWEST_WRONG = 5
"""Fits beside the object without which nothing is learned from them."""

_MIRRORED = 3
"""One image in so many is also fitted in a mirror, if the object is lopsided."""

_LOPSIDED, _LOOKED_AT = 1.0, 200
"""The asymmetry from which an object is, and the most samples that are looked at for it."""

Bools = NDArray[np.bool_]

_MOST_SEEN = 3000
"""Most samples that partial models are trained on, evenly spread over all."""

_FOLDS = 5
FEWEST = 10
"""Samples without which nothing is learned."""


@dataclass(frozen=True)
class _Judged:
    """A fit of a held-out image: its error, its evidence, and its landmarks' deviations `(v, 2)` and spread.

    Deviations are shares of the object's size, turned as the mean shape is; the spread `(v, 2, 2)` likewise.
    """

    error: float
    evidence: Evidence
    deviations: Float64
    spread: Float64
    near: bool
    """Whether it began near the object."""
    doubts: Float64 | None = None
    """How far an expert's sightings deviate `(v,)`, as shares of the object's size, if one has led the fit."""


def calibrate(
    model: Model | Source,
    dataset: Dataset | Source | Iterable[Sample],
    *,
    images: int = 120,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int = 0,
    jobs: Jobs = None,
    progress: bool | None = None,
) -> Model:
    """Learn how far the fits of a model can be trusted.

    Parts of the data are held out. Models of the rest are trained with the same settings and fitted to the
    held-out images: from four random starts near the object and two that are not on it, and to some images in a
    mirror if the object is not symmetric. Samples of one group are held out together. `train` does this by
    default.

    Parameters
    ----------
    model : Model, str or Path
        The model to calibrate, or its file.
    dataset : Dataset, str, Path or iterable of Sample
        What it was trained on: at least ten samples, or a folder or file to load them from.
    images : int
        The largest number of held-out images to fit.
    algorithm : str
        The algorithm that fits them. The result holds for every algorithm, because the evidence does not depend on
        it.
    seed : int
        Another seed holds out other samples and draws other starts.
    jobs : int, Crew or None
        Threads, all cores by default; or a cluster from `pliant.connect`.
    progress : bool or None
        Show progress: by default a bar in a terminal, and otherwise a line every half minute. False shows nothing.

    Returns
    -------
    Model
        The same model with `confidence`. `FitResult.confidence` and `FitResult.covariance` of its fits are
        calibrated.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> model = pliant.calibrate(pliant.load("faces.pliant"), faces, images=10, progress=False)
    >>> found = pliant.fit(model, faces[0], faces[0].points() + 1)
    >>> 0 < found.confidence(0.05) < 1, found.covariance.shape
    (True, (68, 2, 2))

    """
    model, dataset = as_model(model), evenly(as_dataset(dataset), _MOST_SEEN)
    if len(dataset) < FEWEST:
        raise ValueError(f"confidence needs at least {FEWEST} samples, but there are {len(dataset)}.")
    if len(dataset) >= _FOLDS * images:
        parts = [dataset.split(images / len(dataset), seed)]
    elif isinstance(model.expert, NetworkExpert):
        # A network takes minutes to train: one is enough.
        parts = [dataset.split(1 / _FOLDS, seed)]
    else:
        parts = dataset.folds(_FOLDS, seed)
    trials = [Trial(rest, held) for rest, held in parts]
    return judged_by(
        model, dataset, trials, images=images, algorithm=algorithm, seed=seed, jobs=jobs, progress=progress
    )


@dataclass(frozen=True)
class Trial:
    """A model of a part of the data, or the samples to train one on, and the samples that it has not seen."""

    known: Model | Dataset
    held: Dataset


def judged_by(
    model: Model,
    dataset: Dataset,
    trials: Sequence[Trial],
    *,
    images: int = 120,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int,
    jobs: Jobs = None,
    progress: bool | None = None,
) -> Model:
    """The model with the confidence that fits of these trials speak for; the rest is as for `calibrate`."""
    crew = crew_of(jobs)
    here = in_this_process(crew)
    each = -(-images // len(trials))
    task = _Task(model, _lopsided(model, dataset), each, algorithm, seed)
    found: dict[int, list[_Judged]] = {}
    with Progress(progress) as bar:
        advance = bar.start("learning confidence", sum(len(trial.held[:each]) for trial in trials))
        for number, judged in crew.each(_judged_trials, trials, task, advance if here else _silent):
            found[number] = judged
            for _ in range(0 if here else len(trials[number].held[:each])):
                advance()
    judged = [one for number in range(len(trials)) for one in found[number]]
    if sum(one.near for one in judged) < FEWEST:
        raise ValueError("confidence cannot be learned: almost no held-out image could be fitted.")
    return replace(model, confidence=_learned(judged))


@dataclass(frozen=True)
class _Task:
    """The model to judge, whether it is lopsided, and how many images of a trial are fitted and how."""

    model: Model
    lopsided: bool
    images: int
    algorithm: str
    seed: int


def _judged_trials(
    trials: Sequence[Trial], task: _Task, advance: Callable[[], None], *, threads: int
) -> Iterator[list[_Judged]]:
    """The fits of each trial's held-out images."""
    for trial in trials:
        known, held = trial.known, trial.held
        other = known if isinstance(known, Model) else _trained_like(task.model, known, held, threads)
        found = task.model.object_filter
        some = held[: task.images]
        yield _judge(other, some, found, task.lopsided, task.algorithm, task.seed, threads, advance)


def _silent() -> None:
    """Nobody hears from another machine how far it is."""


def _trained_like(model: Model, dataset: Dataset, held: Dataset, jobs: int) -> Model:
    finest = model.levels[-1]
    mesh = finest.motion.frame.triangles
    # A mesh that was found for one mean may be degenerate on another; only the user's own is kept. Files of pliant
    # 0.1 do not say whose it is.
    own = not np.array_equal(mesh, delaunay(finest.shape.mean))
    settings = model.settings.changed(triangles=mesh if own else None, detector=None)
    with warnings.catch_warnings():
        # Said when the model itself was trained.
        warnings.simplefilter("ignore", SamplesLeftOut)
        other = build_model(dataset, settings, jobs=jobs, progress=False, finds=False)
    return taught_like(model, other, dataset, held, jobs)


def _judge(
    model: Model,
    held: Dataset,
    found: ObjectFilter | None,
    lopsided: bool,
    algorithm: str,
    seed: int,
    jobs: int,
    advance: Callable[[], None],
) -> list[_Judged]:
    """The fits of held-out images; what cannot be used is left out, as training does or says."""
    expected: deque[tuple[Float64, bool]] = deque()

    def work() -> Iterator[tuple[Image, Float64]]:
        for number, sample in enumerate(held):
            advance()
            try:
                image, truth = sample.image(), sample.points()
            except (ValueError, OSError):
                continue
            if truth.shape != (model.landmarks, 2) or not np.all(np.isfinite(truth)):
                continue
            for k, noise in enumerate(NOISES):
                expected.append((truth, True))
                yield image, perturbed(model, truth, noise, np.random.default_rng([seed, number, k]))
            rng = np.random.default_rng([seed, number, len(NOISES)])
            for start in wrong_starts(model, found, image, truth, number, rng):
                expected.append((truth, False))
                yield image, start
            if lopsided and number % _MIRRORED == 0:
                there = truth * (-1, 1) + (image.shape[1] - 1, 0)
                box = np.concatenate([there.min(axis=0), there.max(axis=0)])
                expected.append((there, False))
                yield np.ascontiguousarray(image[:, ::-1]), from_box(model, box)

    fitter = make_fitter(model, algorithm=algorithm, jobs=jobs, trace=False, confidence=True)
    fits = ((fit, *expected.popleft()) for fit in fit_all(fitter, work()))
    return [_judged(model, fit, truth, near) for fit, truth, near in fits if _usable(fit, near)]


def _usable(fit: FitResult, near: bool) -> bool:
    """Whether a fit teaches something: one that ended badly has no confidence anyway."""
    return fit.evidence is not None and (near or not fit.status.lost)


def _lopsided(model: Model, dataset: Dataset) -> bool:
    """Whether the object is clearly another one in a mirror."""
    shapes = [sample.points() for sample in dataset[:_LOOKED_AT]]
    whole = [
        points for points in shapes if points.shape == (model.landmarks, 2) and np.all(np.isfinite(points))
    ]
    return model.settings.mirror is False and len(whole) > 1 and asymmetry(np.array(whole)) > _LOPSIDED


def _judged(model: Model, fit: FitResult, truth: Float64, near: bool) -> _Judged:
    assert fit.evidence is not None
    assert fit.covariance is not None
    # In the mirror image, if the object faces the other way: scatter is the model's own.
    mirror = np.array([-1.0, 1.0]) if fit.mirrored else np.ones(2)
    points, truth, covariance = fit.points * mirror, truth * mirror, fit.covariance * np.outer(mirror, mirror)
    size = float(shape_size(points))
    turn = -float(align(model.levels[-1].shape.mean, points).angle)
    back = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return _Judged(
        error=normalised_error(points, truth, np.arange(model.landmarks, dtype=np.int32)),
        evidence=fit.evidence,
        deviations=(points - truth) @ back.T / size,
        spread=back @ covariance @ back.T / size**2,
        near=near,
        doubts=None if fit.sightings is None else deviations(fit.sightings, np.array([size]))[0],
    )


def _learned(every: Sequence[_Judged]) -> Confidence:
    judged = [one for one in every if one.near]
    guided = sum(one.evidence.guided for one in judged) > len(judged) / 2
    errors, seen, known = _told(judged, guided)
    errors, seen = errors[known], seen[known]
    centre, scale = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-9)
    against = AGAINST[: seen.shape[1]]
    there = standardised(seen, centre, scale)
    rows = [_logistic(there, errors < bound, against) for bound in REGRESSED_BOUNDS]
    usual = 2 * np.median(errors)
    typical = [one for one, good in zip(judged, known, strict=True) if good and one.error < usual]
    factor, scatter = likeliest_scatter(
        np.array([one.deviations for one in typical]),
        np.array([one.evidence.outside * one.spread for one in typical]),
    )
    pixels, expert = slice(PIXELS), slice(PIXELS, None)
    return Confidence(
        fits=len(errors),
        centre=centre,
        scale=scale,
        bounds=REGRESSED_BOUNDS,
        weights=np.array([row[:-1] for row in rows]),
        offsets=np.array([row[-1] for row in rows]),
        factor=factor,
        scatter=scatter,
        object_weights=_object_weights(every, centre, scale, pixels),
        expert_weights=_object_weights(every, centre, scale, expert) if guided else None,
        usual_deviations=_usual_deviations(typical),
    )


def _usual_deviations(judged: Sequence[_Judged]) -> Float64 | None:
    """Those of what experts saw in these fits, if there are some and all landmarks were seen."""
    seen = [one.doubts for one in judged if one.doubts is not None and np.all(np.isfinite(one.doubts))]
    return usual_deviations(np.array(seen)) if len(seen) >= FEWEST else None


def _told(judged: Sequence[_Judged], guided: bool) -> tuple[Float64, Float64, Bools]:
    """Errors `(f,)`, predictors `(f, k)`, with the expert's if fits are guided, and which fits have all of it."""
    errors = np.array([one.error for one in judged])
    seen = np.array([predictors(one.evidence)[: None if guided else PIXELS] for one in judged])
    return errors, seen, np.all(np.isfinite(seen), axis=1) & np.isfinite(errors)


def _object_weights(
    judged: Sequence[_Judged], centre: Float64, scale: Float64, part: slice
) -> Float64 | None:
    """Weights of a part of the predictors, and an offset, that tell fits on the object from those elsewhere.

    None if there are hardly any elsewhere.
    """
    errors, seen, known = _told(judged, part.stop is None)
    clear = known & ((errors < _ON_OBJECT) | (errors > LOST))
    found = errors[clear] < _ON_OBJECT
    if len(found) - np.sum(found) < _FEWEST_WRONG:
        return None
    there = standardised(seen[clear], centre[: seen.shape[1]], scale[: seen.shape[1]])
    return _logistic(there[:, part], found, AGAINST[part])


def _logistic(x: Float64, happened: Bools, against: Bools) -> Float64:
    """Weights `(k,)` and an offset that predict what happened `(f,)` from predictors `(f, k)` of unit variance.

    A ridge keeps the weights of a few fits small, and one fit of either kind at the centre keeps the odds finite.
    Predictors that can only speak `against (k,)` a fit have no weight above 0, whatever a few fits seem to say.
    """
    x = np.concatenate([x, np.zeros((2, x.shape[1]))])
    sign = np.where(np.append(happened, [True, False]), 1.0, -1.0)

    def loss(q: Float64) -> tuple[float, Float64]:
        margin = sign * (x @ q[:-1] + q[-1])
        pull = -sign * expit(-margin)
        slope = np.append(pull @ x + q[:-1], pull.sum())
        return float(np.logaddexp(0, -margin).sum() + q[:-1] @ q[:-1] / 2), slope

    bounds = [(None, 0.0 if only else None) for only in (*against, False)]
    found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, dtype=np.float64)
