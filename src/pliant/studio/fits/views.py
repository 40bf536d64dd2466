"""Fits as the page Fit sees them: every iteration, how they ended, and how far they can be trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pliant.arrays import Float64, Floats
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.result import FitResult, LevelTrace
from pliant.fitting.status import Status
from pliant.settings import Fitting
from pliant.settings.declaring import options, shown
from pliant.settings.kinds import Kind
from pliant.starts.detectors import DETECTORS
from pliant.studio.fits.runs import Run, error_of, is_running
from pliant.trust.confidence import DEFAULT_BOUND

Point = tuple[float, float]

_ENDED = {
    Status.CONVERGED: "It converged: the next step would not have moved anything.",
    Status.ITERATIONS: "It used all its iterations.",
    Status.RISING: "It stopped because the cost no longer fell; the best estimate is shown.",
    Status.IMPLAUSIBLE: "It ended in a shape that is far from all training shapes.",
    Status.OUTSIDE: "It left the image; the last estimate inside the image is shown.",
    Status.DIVERGED: "It diverged; the last estimate before that is shown.",
    Status.FAILED: "There is no fit.",
}


@dataclass(frozen=True)
class LevelView:
    """One level: cost, error if the truth is known, and points, at the start and after each iteration."""

    scale: float
    costs: list[float]
    errors: list[float] | None
    points: list[list[Point]]


@dataclass(frozen=True)
class FitView:
    """One object fitted by one algorithm.

    `ended` says how, and `trust` how far it can be trusted, in sentences. `covariances` are xx, xy, yy of each
    landmark in square pixels, if the model knows them. `error` is a share of the object's size, if the truth is
    known. A fit that failed has no points.
    """

    number: int
    algorithm: str
    words: str
    object: int
    status: str
    ok: bool
    ended: str
    trust: str
    confidence: float | None
    cost: float | None
    iterations: int
    seconds: float
    error: float | None
    start: list[Point] | None
    points: list[Point] | None
    covariances: list[tuple[float, float, float]] | None
    hidden: list[bool] | None
    levels: list[LevelView]


@dataclass(frozen=True)
class RunView:
    """The fits of one image so far; `crop` is what their pictures show: left, top, right, bottom."""

    id: int
    job: int
    running: bool
    sentence: str
    image: str
    width: int
    height: int
    picture: str
    crop: tuple[int, int, int, int]
    box: list[float] | None
    truth: list[Point] | None
    triangles: list[tuple[int, int, int]]
    wanted: int
    fits: list[FitView]


@dataclass(frozen=True)
class KnownAlgorithm:
    """An algorithm: its name, the same in words, what others call it, and who published it."""

    name: str
    words: str
    also: str
    published: str


@dataclass(frozen=True)
class Declared:
    """A setting as the library declares it; `kind` says which control it needs."""

    name: str
    kind: str
    choices: list[str]
    default: str
    help: str


def run_view(run: Run) -> RunView:
    """A run as it is now."""
    task, state = run.task, run.job.state if run.job else None
    return RunView(
        id=run.id,
        job=state.id if state else 0,
        running=is_running(run),
        sentence=state.sentence if state else "",
        image=task.name,
        width=task.size[0],
        height=task.size[1],
        picture=task.address,
        crop=run.crop,
        box=None if task.box is None else task.box.tolist(),
        truth=None if task.truth is None else _points(task.truth),
        triangles=[(int(a), int(b), int(c)) for a, b, c in task.model.texture.frame.triangles],
        wanted=len(task.algorithms),
        fits=[fit_view(number, one, run) for number, one in enumerate(run.fits)],
    )


def fit_view(number: int, fit: FitResult, run: Run) -> FitView:
    """One fit of a run."""
    truth, there = run.task.truth, bool(np.all(np.isfinite(fit.points)))
    confidence = fit.confidence()
    before = [one.algorithm for one in run.fits[:number]]
    return FitView(
        number=number,
        algorithm=fit.algorithm,
        words=in_words(fit.algorithm),
        object=before.count(fit.algorithm),
        status=str(fit.status),
        ok=fit.ok,
        ended=f"{_ENDED[fit.status]} {fit.reason}".strip(),
        trust=_trust(fit, confidence),
        confidence=None if np.isnan(confidence) else confidence,
        cost=float(fit.cost),
        iterations=fit.iterations,
        seconds=round(fit.seconds, 4),
        error=error_of(fit.points, truth),
        start=_points(fit.start) if np.all(np.isfinite(fit.start)) else None,
        points=_points(fit.points) if there else None,
        covariances=_covariances(fit),
        hidden=None if fit.hidden is None else fit.hidden.tolist(),
        levels=[_level_view(level, truth) for level in fit.trace],
    )


def in_words(algorithm: str) -> str:
    """The three parts of an algorithm by the names that the library has for them."""
    parsed = Algorithm.parse(algorithm)
    parts: list[object] = [parsed.cost, parsed.composition, parsed.method]
    # Where there is one set of unknowns, the name has no strategy, because there is no choice.
    named = re.search("-(sch|alt|den)", str(parsed))
    parts += [getattr(parsed.method, "strategy", None)] if named else []
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(part).__name__) for part in parts]
    options = [text for text in str(parsed).replace("-", ":").split(":")[1:] if text == "map"]
    return ", ".join(words) + (", with prior" if options else "")


def known_algorithms(own: str) -> list[KnownAlgorithm]:
    """The model's own algorithm first, then the catalogue."""
    listed = [KnownAlgorithm(one.name, in_words(one.name), one.also, one.published) for one in catalogue()]
    return [KnownAlgorithm(own, in_words(own), "", ""), *(one for one in listed if one.name != own)]


def declared_settings() -> list[Declared]:
    """Every setting of a fit but the algorithm, which has a place of its own."""
    return [_declared(*one) for one in options(Fitting()) if one[0] != "algorithm"]


def _declared(name: str, value: object, kind: Kind, help: str) -> Declared:
    choices = list(kind.choices)
    if name == "detector":
        # Others are files of Python, which a page must not have run.
        choices = list(DETECTORS)
    if choices and value is None:
        choices = ["none", *choices]
    default = "none" if value is None else shown(value).lower() if isinstance(value, bool) else shown(value)
    control = {"": "flag", "<number>": "number", "<integer>": "whole"}.get(kind.metavar, "text")
    return Declared(name, "choice" if choices else control, choices, default, help)


def _trust(fit: FitResult, confidence: float) -> str:
    if fit.status is Status.FAILED:
        return ""
    if np.isnan(confidence):
        return "This model was not calibrated, so it is unknown how far this fit can be trusted."
    share = f"{100 * DEFAULT_BOUND:g}\N{NO-BREAK SPACE}% of the object's size"
    if confidence < 0.01:
        return f"The error is almost certainly not below {share}."
    percent = min(99, round(100 * confidence))
    return f"The probability that the error is below {share} is {percent} %."


def _level_view(level: LevelTrace, truth: Float64 | None) -> LevelView:
    errors = [error_of(points, truth) for points in level.points]
    return LevelView(
        scale=level.scale,
        costs=[float(cost) for cost in level.costs],
        errors=None if None in errors else [float(error) for error in errors if error is not None],
        points=[_points(points) for points in level.points],
    )


def _covariances(fit: FitResult) -> list[tuple[float, float, float]] | None:
    if fit.covariance is None or fit.model.confidence is None or not np.all(np.isfinite(fit.covariance)):
        return None
    return [(float(c[0, 0]), float(c[0, 1]), float(c[1, 1])) for c in fit.covariance]


def _points(points: Floats) -> list[Point]:
    return [(round(float(x), 2), round(float(y), 2)) for x, y in points]
