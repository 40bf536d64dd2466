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
from pliant.data.addresses import Source
from pliant.data.dataset import Dataset, Sample
from pliant.data.loading import as_dataset
from pliant.data.validation import SamplesLeftOut
from pliant.fitting.fitter import make_fitter
from pliant.fitting.result import FitResult
from pliant.metrics import normalised_error
from pliant.model import Model
from pliant.motion import delaunay
from pliant.progress import Progress
from pliant.settings import DEFAULT_ALGORITHM
from pliant.shape import align, shape_size
from pliant.starts.noise import perturbed
from pliant.trust.confidence import (
    Confidence,
    Evidence,
    predictors,
)

REGRESSED_BOUNDS = np.geomspace(0.01, 0.16, 9)
"""Errors at which a regression is fitted: an octave is two steps."""

NOISES = (0.05, 0.05, 0.1, 0.15)
"""How far off the starts are, an image: fits must fail now and then, or nothing is learned about failures."""

Bools = NDArray[np.bool_]

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


def calibrate(
    model: Model,
    dataset: Dataset | Source | Iterable[Sample],
    *,
    images: int = 120,
    algorithm: str = DEFAULT_ALGORITHM,
    seed: int = 0,
    jobs: int | None = None,
    progress: bool | None = None,
) -> Model:
    """The same model, with the confidence that its fits deserve.

    Parts of the data are held out, and models of the rest are trained with the same settings and fitted to the
    held-out images, from four random starts each. Samples of one group are held out together. `train` does this
    unless it is told not to.

    Parameters
    ----------
    model
        What to calibrate.
    dataset
        What it was trained on: samples, or a folder or file to load them from. There are at least ten.
    images
        Most held-out images to fit.
    algorithm
        What fits them. What is learned holds for every algorithm, because the evidence does not depend on it.
    seed
        Another seed holds out other samples and draws other starts.
    jobs, progress
        As in `train`.

    Returns
    -------
    Model
        `FitResult.confidence` and `covariance` of its fits mean what they say.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")
    >>> model = pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False)
    >>> model = pliant.calibrate(model, faces, images=10, progress=False)
    >>> found = pliant.fit(model, faces[0], faces[0].points() + 1)
    >>> 0 < found.confidence(0.05) < 1, found.covariance.shape
    (True, (68, 2, 2))

    """
    dataset = as_dataset(dataset)
    if len(dataset) < FEWEST:
        raise ValueError(
            f"confidence is learned from at least {FEWEST} samples, and there are {len(dataset)}."
        )
    if len(dataset) >= _FOLDS * images:
        parts = [dataset.split(images / len(dataset), seed)]
    else:
        parts = dataset.folds(_FOLDS, seed)
    judged: list[_Judged] = []
    with Progress(progress) as bar:
        advance = bar.start("held-out images", images)
        for rest, held in parts:
            partial = _trained_like(model, rest, jobs)
            judged += _judge(partial, held[: -(-images // len(parts))], algorithm, seed, jobs, advance)
    if len(judged) < FEWEST:
        raise ValueError("confidence cannot be learned: hardly any held-out image could be fitted.")
    return replace(model, confidence=_learned(judged))


def _trained_like(model: Model, dataset: Dataset, jobs: int | None) -> Model:
    finest = model.levels[-1]
    mesh = finest.motion.frame.triangles
    # A mesh that was found for one mean may be degenerate on another; only the user's own is kept. Files of pliant
    # 0.1 do not say whose it is.
    own = not np.array_equal(mesh, delaunay(finest.shape.mean))
    settings = model.settings.changed(triangles=mesh if own else None, detector=None)
    with warnings.catch_warnings():
        # Said when the model itself was trained.
        warnings.simplefilter("ignore", SamplesLeftOut)
        return build_model(dataset, settings, jobs=jobs, progress=False)


def _judge(
    model: Model,
    held: Dataset,
    algorithm: str,
    seed: int,
    jobs: int | None,
    advance: Callable[[], None],
) -> list[_Judged]:
    """The fits of held-out images; what cannot be used is left out, as training does or says."""
    truths: deque[Float64] = deque()

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
                truths.append(truth)
                yield image, perturbed(model, truth, noise, np.random.default_rng([seed, number, k]))

    fitter = make_fitter(model, algorithm=algorithm, jobs=jobs, trace=False, confidence=True)
    fits = ((fit, truths.popleft()) for fit in fit_all(fitter, work()))
    return [_judged(model, fit, truth) for fit, truth in fits if fit.evidence is not None]


def _judged(model: Model, fit: FitResult, truth: Float64) -> _Judged:
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
    )


def _learned(judged: Sequence[_Judged]) -> Confidence:
    errors = np.array([one.error for one in judged])
    seen = np.array([predictors(one.evidence) for one in judged])
    known = np.all(np.isfinite(seen), axis=1) & np.isfinite(errors)
    errors, seen = errors[known], seen[known]
    centre, scale = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-9)
    rows = [_logistic((seen - centre) / scale, errors < bound) for bound in REGRESSED_BOUNDS]
    usual = 2 * np.median(errors)
    typical = [one for one, good in zip(judged, known, strict=True) if good and one.error < usual]
    factor, scatter = _scatter(typical)
    return Confidence(
        fits=len(errors),
        centre=centre,
        scale=scale,
        bounds=REGRESSED_BOUNDS,
        weights=np.array([row[:-1] for row in rows]),
        offsets=np.array([row[-1] for row in rows]),
        factor=factor,
        scatter=scatter,
    )


def _logistic(x: Float64, happened: Bools) -> Float64:
    """Weights `(k,)` and an offset that predict what happened `(f,)` from predictors `(f, k)` of unit variance.

    A ridge keeps the weights of a few fits small, and one fit of either kind at the centre keeps the odds finite.
    """
    x = np.concatenate([x, np.zeros((2, x.shape[1]))])
    sign = np.where(np.append(happened, [True, False]), 1.0, -1.0)

    def loss(q: Float64) -> tuple[float, Float64]:
        margin = sign * (x @ q[:-1] + q[-1])
        pull = -sign * expit(-margin)
        slope = np.append(pull @ x + q[:-1], pull.sum())
        return float(np.logaddexp(0, -margin).sum() + q[:-1] @ q[:-1] / 2), slope

    found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B")
    return np.asarray(found.x, dtype=np.float64)


def _scatter(judged: Sequence[_Judged]) -> tuple[float, Float64]:
    """The factor and the scatter `(v, 2, 2)` under which the deviations of these fits are most likely."""
    deviations = np.array([one.deviations for one in judged])
    spread = np.array([one.evidence.outside * one.spread for one in judged])
    products = np.einsum("kvi,kvj->kvij", deviations, deviations)
    # Not below a tenth of the typical deviation: nobody's clicks are that exact.
    floor = 0.01 * float(np.mean(products[..., (0, 1), (0, 1)]))

    def of(factor: float) -> Float64:
        values, vectors = np.linalg.eigh(products.mean(axis=0) - factor * spread.mean(axis=0))
        return np.asarray((vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2))

    def surprise(factor: float) -> float:
        covariance = factor * spread + of(factor)
        distance = np.einsum("kvi,kvij,kvj->kv", deviations, np.linalg.inv(covariance), deviations)
        return float(np.mean(np.linalg.slogdet(covariance)[1] + distance))

    whole = float(np.mean(products)) / max(float(np.mean(spread)), 1e-300)
    factor = min([0.0, *(whole * np.geomspace(0.001, 2, 24))], key=surprise)
    return float(factor), of(factor)
