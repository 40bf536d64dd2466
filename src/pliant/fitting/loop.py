"""The only loop: iterations of any algorithm on a batch of images, at one level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pliant.arrays import Float32, Float64, Floats
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.composition import update
from pliant.fitting.cost import Weights
from pliant.fitting.landmarks import LandmarkTerm
from pliant.fitting.quadratic import needs_of
from pliant.fitting.solve import increments
from pliant.fitting.status import Status
from pliant.kernels.system import Kernel, Needs, System
from pliant.motion import Motion, Order
from pliant.motion.compose import update_jacobian
from pliant.settings import Stopping
from pliant.shape import ShapeModel
from pliant.trust.mismatch import unexplained_energy


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

    `explained (B, m)` is A'(i - abar) there: the appearance that the image itself speaks for. `unexplained (B,)`
    is the energy of the rest of i - abar. `costs` and `shapes` have one entry more than there were iterations: the
    start, and each update.
    """

    shape_parameters: Float64
    coordinates: Float64
    explained: Float64
    unexplained: Float64
    statuses: list[Status]
    iterations: list[int]
    final_costs: list[float]
    costs: list[list[float]]
    shapes: list[list[Float64]]


class _Visit(NamedTuple):
    """An estimate that was looked at: p and c; its cost, A'r and r'r are not numbers if they were not computed."""

    cost: float
    p: Float64
    c: Float64
    residual: Float64
    squares: float


@dataclass
class _Item:
    """The state of one image while the loop runs."""

    p: Float64
    c: Float64
    status: Status | None = None
    iterations: int = 0
    past: list[_Visit] = field(default_factory=list)
    best: int = 0

    def final(self) -> _Visit | None:
        """Where this item ends."""
        if not self.past:
            return None
        return self.past[self.best if self.status is Status.RISING else -1]


# A fit that is lost may overflow on its way out: its status says so, and no warning needs to.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def iterate(
    problem: Problem,
    images: Sequence[Float32],
    shape_parameters: Floats,
    coordinates: Floats,
    iterations: int,
    *,
    every_cost: bool = True,
    landmarks: LandmarkTerm | None = None,
) -> Iterated:
    """Run up to `iterations` on images `(h, w, c)` from parameters `(B, n)` and coordinates `(B, m)`.

    Without `every_cost`, an algorithm that needs no cost on its way has one at its end alone. `landmarks` is what
    experts add to the cost of each item.
    """
    shape, patience = problem.shape, problem.stopping.patience
    items = [_Item(np.array(p), np.array(c)) for p, c in zip(shape_parameters, coordinates, strict=True)]
    needs = replace(needs_of(problem.algorithm, problem.weights), cost=every_cost or patience is not None)
    limits = np.array([[(image.shape[1] - 1, image.shape[0] - 1)] for image in images])
    for round_number in range(iterations + 1):
        running = [k for k, item in enumerate(items) if item.status is None]
        if not running:
            break
        last = round_number == iterations
        p = np.array([items[k].p for k in running])
        c = np.array([items[k].c for k in running])
        shapes = shape.instance(p)
        batch = [images[k] for k in running]
        system = problem.kernel.system(
            batch, shapes, c, needs.cost_alone() if last else replace(needs, stage=round_number)
        )
        term = None if landmarks is None else landmarks.of(running)
        costs = problem.weights.value(system, p, c, term)
        lost = ~np.isfinite(costs) & (system.residual_residual is not None)
        Ar, rr = _residuals(system, c)
        for row, k in enumerate(running):
            item = items[k]
            if lost[row]:
                item.status = Status.DIVERGED
                continue
            item.past.append(_Visit(float(costs[row]), item.p, item.c, Ar[row], float(rr[row])))
            item.iterations = round_number
            if costs[row] < item.past[item.best].cost:
                item.best = round_number
            if patience is not None and round_number - item.best >= patience:
                item.status = Status.RISING
        if last:
            break
        jacobian = _update_jacobian(problem, p, term)
        dc, u = increments(problem.algorithm, problem.weights, system, p, c, jacobian, term)
        _move([items[k] for k in running], problem, shapes, limits[running], u, dc)
    _complete(problem, needs.cost_alone(), images, items, landmarks)
    return _collected(problem, items)


def _move(
    items: list[_Item], problem: Problem, shapes: Float64, limits: Float64, u: Float64, dc: Float64
) -> None:
    """Take the step u `(B, k)`, dc `(B, m)` from shapes `(B, v, 2)`, or end an item where it is, and say why."""
    shape, stopping = problem.shape, problem.stopping
    p = np.array([item.p for item in items])
    updated = update(problem.algorithm.composition, problem.motion, shape, p, u, problem.order)
    if stopping.clamp:
        updated = shape.clamped(updated, stopping.ellipsoid)
    moved_shapes = shape.instance(updated)
    moved = np.max(np.abs(moved_shapes - shapes), axis=(-2, -1))
    finite = np.isfinite(np.concatenate([updated, dc], axis=1)).all(axis=1)
    outside = np.any((moved_shapes < 0) | (moved_shapes > limits), axis=-1).mean(axis=-1) > 0.5
    for row, item in enumerate(items):
        if item.status is not None:
            continue
        if not finite[row]:
            item.status = Status.DIVERGED
        elif outside[row]:
            item.status = Status.OUTSIDE
        elif moved[row] < stopping.tolerance:
            item.status = Status.CONVERGED
        else:
            item.p = updated[row]
            item.c = item.c + dc[row] if dc.shape[1] else item.c


def _complete(
    problem: Problem,
    needs: Needs,
    images: Sequence[Float32],
    items: list[_Item],
    landmarks: LandmarkTerm | None,
) -> None:
    """Find the cost of those that ended where it had not been computed."""
    missing = [k for k, item in enumerate(items) if item.past and np.isnan(item.past[-1].cost)]
    if not missing:
        return
    p = np.array([items[k].past[-1].p for k in missing])
    c = np.array([items[k].past[-1].c for k in missing])
    system = problem.kernel.system([images[k] for k in missing], problem.shape.instance(p), c, needs)
    term = None if landmarks is None else landmarks.of(missing)
    costs, (Ar, rr) = problem.weights.value(system, p, c, term), _residuals(system, c)
    for row, k in enumerate(missing):
        items[k].past[-1] = _Visit(float(costs[row]), p[row], c[row], Ar[row], float(rr[row]))


def _residuals(system: System, c: Float64) -> tuple[Float64, Float64]:
    """A'r `(B, m)` and r'r `(B,)`; not numbers if they were not computed."""
    Ar, rr = system.basis_residual, system.residual_residual
    return np.full(c.shape, np.nan) if Ar is None else Ar, np.full(len(c), np.nan) if rr is None else rr


def _update_jacobian(problem: Problem, p: Float64, landmarks: LandmarkTerm | None) -> Float64 | None:
    """The derivative `(B, n, n)` of the update by its increment, if it is not one and a term in p asks for it."""
    if problem.order != "exact" or (landmarks is None and not np.any(problem.weights.shape_precision)):
        return None
    return update_jacobian(problem.motion, problem.shape, p)


def _collected(problem: Problem, items: list[_Item]) -> Iterated:
    ends, finals = [], []
    for item in items:
        end = item.final() or _Visit(np.nan, item.p, item.c, np.full_like(item.c, np.nan), np.nan)
        status = item.status or Status.ITERATIONS
        if status.ok and problem.shape.mahalanobis(end.p) > problem.stopping.ellipsoid:
            status = Status.IMPLAUSIBLE
        ends.append(end)
        finals.append(status)
    coordinates = np.array([end.c for end in ends])
    residuals = np.array([end.residual for end in ends])
    return Iterated(
        shape_parameters=np.array([end.p for end in ends]),
        coordinates=coordinates,
        explained=residuals + coordinates,
        unexplained=unexplained_energy(np.array([end.squares for end in ends]), residuals),
        statuses=finals,
        final_costs=[end.cost for end in ends],
        iterations=[item.iterations for item in items],
        costs=[[visit.cost for visit in item.past] for item in items],
        shapes=[[problem.shape.instance(visit.p) for visit in item.past] for item in items],
    )
