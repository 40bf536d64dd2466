"""The only loop: iterations of any algorithm on a batch of images, at one level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

import numpy as np

from pliant.arrays import Float32, Float64, Floats
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.composition import Forward, Inverse, update
from pliant.fitting.cost import Weights
from pliant.fitting.method import Newton, quadratic, solve
from pliant.kernels.system import Needs, System
from pliant.motion import Motion, Order
from pliant.motion.compose import update_jacobian
from pliant.shape import SIMILARITY, ShapeModel


class Status(StrEnum):
    """How a fit ended."""

    CONVERGED = "converged"
    """The next step would have moved no landmark by more than the tolerance."""
    ITERATIONS = "iterations"
    """All iterations were used."""
    RISING = "rising"
    """The cost had not fallen below its best for `patience` iterations; the best estimate is returned."""
    IMPLAUSIBLE = "implausible"
    """The shape ended outside of the model's ellipsoid."""
    OUTSIDE = "outside"
    """The shape left the image; the last estimate inside is returned."""
    DIVERGED = "diverged"
    """Something became infinite; the last finite estimate is returned."""
    FAILED = "failed"
    """The image or the start could not be used."""


@dataclass(frozen=True)
class Stopping:
    """When to stop, beside the number of iterations.

    `tolerance` is in pixels of the level; `patience` counts iterations without a better cost (None: never
    stop for that); `ellipsoid` is the Mahalanobis distance from the mean shape, per root of the number of
    modes, beyond which a shape is implausible; `clamp` pulls shapes back onto it at every iteration.
    """

    tolerance: float = 0.01
    patience: int | None = None
    ellipsoid: float = 3.0
    clamp: bool = False


class Kernel(Protocol):
    """What fills Systems; see `kernels/reference.py` for what the numbers are."""

    def system(
        self, images: Sequence[Float32], shapes: Floats, coordinates: Floats, needs: Needs
    ) -> System: ...

    def appearance(self, images: Sequence[Float32], shapes: Floats) -> Float64: ...


@dataclass(frozen=True)
class Problem:
    """One level to fit at: everything that does not change during the iterations."""

    kernel: Kernel
    motion: Motion
    shape: ShapeModel
    weights: Weights
    algorithm: Algorithm
    stopping: Stopping
    order: Order = "exact"


@dataclass(frozen=True)
class Iterated:
    """Where a batch ended: parameters, status, iterations `(B,)`, and the trace of every item.

    `costs` and `shapes` have one entry more than there were iterations: the start, and each update.
    """

    shape_parameters: Float64
    coordinates: Float64
    statuses: list[Status]
    iterations: list[int]
    final_costs: list[float]
    costs: list[list[float]]
    shapes: list[list[Float64]]


@dataclass
class _Item:
    """The state of one image while the loop runs."""

    p: Float64
    c: Float64
    status: Status | None = None
    iterations: int = 0
    best: int = 0


# A fit that is lost may overflow on its way out: its status says so, and no warning needs to.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def iterate(
    problem: Problem,
    images: Sequence[Float32],
    shape_parameters: Floats,
    coordinates: Floats,
    iterations: int,
) -> Iterated:
    """Run up to `iterations` on images `(h, w, c)` from parameters `(B, n)` and coordinates `(B, m)`."""
    shape, weights = problem.shape, problem.weights
    items = [_Item(np.array(p), np.array(c)) for p, c in zip(shape_parameters, coordinates, strict=True)]
    history: list[list[tuple[float, Float64, Float64]]] = [[] for _ in items]
    needs = needs_of(problem)
    for round_number in range(iterations + 1):
        running = [k for k, item in enumerate(items) if item.status is None]
        if not running:
            break
        last = round_number == iterations
        p = np.array([items[k].p for k in running])
        c = np.array([items[k].c for k in running])
        shapes = shape.instance(p)
        batch = [images[k] for k in running]
        system = problem.kernel.system(batch, shapes, c, Needs(False, False) if last else needs)
        costs = weights.value(system, p, c)
        usable = system.finite & np.isfinite(costs)
        for row, k in enumerate(running):
            if not usable[row]:
                items[k].status = Status.DIVERGED
                continue
            history[k].append((float(costs[row]), items[k].p, items[k].c))
            items[k].iterations = round_number
            if costs[row] < history[k][items[k].best][0]:
                items[k].best = round_number
            patience = problem.stopping.patience
            if patience is not None and round_number - items[k].best >= patience:
                items[k].status = Status.RISING
        if last:
            break
        dc, u = _increments(problem, system, p, c)
        updated = update(problem.algorithm.composition, problem.motion, shape, p, u, problem.order)
        if problem.stopping.clamp:
            updated = clamped(shape, updated, problem.stopping.ellipsoid)
        moved = np.max(np.abs(shape.instance(updated) - shapes), axis=(-2, -1))
        for row, k in enumerate(running):
            item = items[k]
            if item.status is not None:
                continue
            if not np.all(np.isfinite(updated[row])) or not np.all(np.isfinite(dc[row])):
                item.status = Status.DIVERGED
            elif _outside(shape.instance(updated[row]), images[k]):
                item.status = Status.OUTSIDE
            elif moved[row] < problem.stopping.tolerance:
                item.status = Status.CONVERGED
            else:
                item.p = updated[row]
                item.c = item.c + dc[row] if dc.shape[1] else item.c
    return _collected(problem, items, history)


def needs_of(problem: Problem) -> Needs:
    """Which inner products the algorithm looks at."""
    method, composition, weights = problem.algorithm.method, problem.algorithm.composition, problem.weights
    newton = isinstance(method, Newton)
    model = not isinstance(composition, Forward)
    moving = (
        isinstance(method, Newton) and method.variant == "derived" and weights.solves_appearance and model
    )
    return Needs(
        image=not isinstance(composition, Inverse),
        model=model,
        curvature=(weights.residual, weights.appearance) if newton else None,
        moving_basis=moving,
    )


def _increments(problem: Problem, system: System, p: Float64, c: Float64) -> tuple[Float64, Float64]:
    method, composition, weights = problem.algorithm.method, problem.algorithm.composition, problem.weights
    jacobian = None
    if np.any(weights.shape_precision) and problem.order == "exact":
        jacobian = update_jacobian(problem.motion, problem.shape, p)
    if not isinstance(method, Newton):
        return solve(method, quadratic(system, weights, composition, p, c, jacobian))
    curved: Literal["derived", "printed"] = "printed" if method.variant == "printed" else "derived"
    model = quadratic(system, weights, composition, p, c, jacobian, curved)
    if method.variant != "safe":
        return solve(method, model)
    return solve(method, model, quadratic(system, weights, composition, p, c, jacobian))


def mahalanobis(shape: ShapeModel, parameters: Floats) -> Float64:
    """Distance of shapes `(..., n)` from the mean, in deviations, per root of the number of modes."""
    modes = parameters[..., SIMILARITY:]
    return np.asarray(np.sqrt(np.sum(modes**2 / shape.eigenvalues, axis=-1) / max(shape.modes, 1)))


def clamped(shape: ShapeModel, parameters: Float64, limit: float) -> Float64:
    """Parameters `(B, n)` with modes that are beyond the limit pulled back onto the ellipsoid."""
    excess = np.maximum(mahalanobis(shape, parameters) / limit, 1.0)
    return np.concatenate([parameters[:, :SIMILARITY], parameters[:, SIMILARITY:] / excess[:, None]], axis=1)


def _outside(points: Float64, image: Float32) -> bool:
    """Whether more than half of the landmarks have left the image that the level sees."""
    height, width = image.shape[:2]
    gone = np.any((points < 0) | (points > (width - 1, height - 1)), axis=-1)
    return bool(gone.mean() > 0.5)


def _collected(
    problem: Problem, items: list[_Item], history: list[list[tuple[float, Float64, Float64]]]
) -> Iterated:
    finals, final_costs, shapes = [], [], []
    for item, past in zip(items, history, strict=True):
        cost = past[-1][0] if past else float("nan")
        if item.status is Status.RISING:
            cost, item.p, item.c = past[item.best]
        elif item.status is Status.DIVERGED and past:
            cost, item.p, item.c = past[-1]
        status = item.status or Status.ITERATIONS
        if status in (Status.CONVERGED, Status.ITERATIONS):
            distance = mahalanobis(problem.shape, item.p)
            status = Status.IMPLAUSIBLE if distance > problem.stopping.ellipsoid else status
        finals.append(status)
        final_costs.append(cost)
        shapes.append([problem.shape.instance(p) for _, p, _ in past])
    return Iterated(
        shape_parameters=np.array([item.p for item in items]),
        coordinates=np.array([item.c for item in items]),
        statuses=finals,
        final_costs=final_costs,
        iterations=[item.iterations for item in items],
        costs=[[cost for cost, _, _ in past] for past in history],
        shapes=shapes,
    )
