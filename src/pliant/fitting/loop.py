"""The only loop: iterations of any algorithm on a batch of images, at one level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pliant.arrays import Float64
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
from pliant.namespace import Array, Count, beside, full, is_tensor, namespace, on_host
from pliant.settings import Stopping
from pliant.shape import ShapeModel
from pliant.trust.mismatch import unexplained_energy

_STATUSES = tuple(Status)
_RUNNING = -1
"""What arrays have in place of the number of a status while an item is on its way."""

_WORTH_IT = 0.9
"""The share of a batch that is still on its way when a device lets go of the others: that takes it a moment."""


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


class _Round(NamedTuple):
    """The rows of a round `(r,)`, which of them were looked at `(r,)`, and their p `(r, n)` and costs `(r,)`."""

    rows: Any
    seen: Array
    p: Array
    costs: Array


@dataclass(frozen=True)
class Iterated:
    """Where a batch ended: parameters, status, iterations and cost of each item.

    `explained (B, m)` is A'(i - abar) there: the appearance that the image itself speaks for. `unexplained (B,)`
    is the energy of the rest of i - abar. `rounds` are there if every cost was asked for.
    """

    shape: ShapeModel
    shape_parameters: Float64
    coordinates: Float64
    explained: Float64
    unexplained: Float64
    statuses: list[Status]
    iterations: list[int]
    final_costs: list[float]
    rounds: Sequence[_Round] = ()

    @cached_property
    def costs(self) -> list[Float64]:
        """Costs `(k,)` of every item: at the start, and after each update."""
        return self._by_item([costs[seen] for _, seen, _, costs in self._known_rounds])

    @cached_property
    def shapes(self) -> list[Float64]:
        """Shapes `(k, v, 2)` of every item: at the start, and after each update."""
        return self._by_item([self.shape.instance(p[seen]) for _, seen, p, _ in self._known_rounds])

    def _by_item(self, rounds: list[Float64]) -> list[Float64]:
        """What the rounds have of their rows that were looked at, in order for every item."""
        rows = np.concatenate([rows[seen] for rows, seen, _, _ in self._known_rounds])
        ends = np.cumsum(np.bincount(rows, minlength=len(self.statuses)))
        return np.split(np.concatenate(rounds)[np.argsort(rows, kind="stable")], ends[:-1])

    @cached_property
    def _known_rounds(self) -> list[_Round]:
        return [_Round(*map(on_host, one)) for one in self.rounds]


@dataclass
class _Visit:
    """Estimates that were looked at, p and c; costs, A'r and r'r are not numbers if they were not computed."""

    p: Array
    c: Array
    cost: Array
    residual: Array
    squares: Array

    def put(self, rows: Any, where: Array, other: _Visit) -> None:
        """Take over the rows of another that `where` names."""
        for name, values in vars(other).items():
            mine = getattr(self, name)
            mine[rows] = _chosen(where, values, mine[rows])

    def copied(self) -> _Visit:
        return _Visit(*(values + 0 for values in vars(self).values()))


class _Run:
    """The state of all items while the loop runs."""

    def __init__(self, p: Array, c: Array, patience: int | None) -> None:
        self.p, self.c = p + 0.0, c + 0.0
        unknown = full((len(p),), np.nan, p)
        self.last = _Visit(self.p + 0.0, self.c + 0.0, unknown, full(c.shape, np.nan, p), unknown + 0.0)
        self.best = None if patience is None else self.last.copied()
        self.iterations, self.best_round = _zeros(p), _zeros(p)
        self.status = _zeros(p) + _RUNNING
        self.visited = self.status == 0
        self.patience = patience

    def going(self) -> Array:
        """The rows of items that have not ended."""
        going = self.status == _RUNNING
        return going.nonzero()[:, 0] if is_tensor(going) else np.flatnonzero(going)

    def visit(self, rows: Array, number: int, here: _Visit, known: bool) -> Array:
        """Look at the estimates of some rows in round `number`; which of them were on their way, and not lost."""
        xp, status = namespace(here.p), self.status[rows]
        live = status == _RUNNING
        seen = live & xp.isfinite(here.cost) if known else live
        status = xp.where(live & ~seen, _number(Status.DIVERGED), status)
        self.last.put(rows, seen, here)
        self.visited[rows] |= seen
        self.iterations[rows] = xp.where(seen, number, self.iterations[rows])
        if self.best is not None and self.patience is not None:
            better = seen & ((here.cost < self.best.cost[rows]) | (number == 0))
            self.best.put(rows, better, here)
            self.best_round[rows] = xp.where(better, number, self.best_round[rows])
            rising = seen & (number - self.best_round[rows] >= self.patience)
            status = xp.where(rising, _number(Status.RISING), status)
        self.status[rows] = status
        return seen

    def move(self, rows: Array, problem: Problem, shapes: Array, limits: Array, u: Array, dc: Array) -> None:
        """Take the step u `(r, k)`, dc `(r, m)` from shapes `(r, v, 2)`, or end an item there, and say why."""
        xp, shape, stopping = namespace(u), problem.shape, problem.stopping
        p, status = self.p[rows], self.status[rows]
        updated = update(problem.algorithm.composition, problem.motion, shape, p, u, problem.order)
        if stopping.clamp:
            updated = shape.clamped(updated, stopping.ellipsoid)
        moved_shapes = shape.instance(updated)
        moved = xp.amax(xp.abs(moved_shapes - shapes), axis=(-2, -1))
        finite = xp.isfinite(updated).all(axis=1) & xp.isfinite(dc).all(axis=1)
        beyond = ((moved_shapes < 0) | (moved_shapes > limits)).any(axis=-1)
        outside = beyond.sum(axis=-1) > 0.5 * beyond.shape[-1]
        live = status == _RUNNING
        # The first reason counts, so the last one is written first.
        for reason, holds in (
            (Status.CONVERGED, moved < stopping.tolerance),
            (Status.OUTSIDE, outside),
            (Status.DIVERGED, ~finite),
        ):
            status = xp.where(live & holds, _number(reason), status)
        goes = status == _RUNNING
        self.p[rows] = _chosen(goes, updated, p)
        if dc.shape[1]:
            c = self.c[rows]
            self.c[rows] = _chosen(goes, c + dc, c)
        self.status[rows] = status


# A fit that is lost may overflow on its way out: its status says so, and no warning needs to.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def iterate(
    problem: Problem,
    images: Any,
    shape_parameters: Array,
    coordinates: Array,
    iterations: int,
    *,
    every_cost: bool = True,
    landmarks: LandmarkTerm | None = None,
) -> Iterated:
    """Run up to `iterations` on images `(h, w, c)` from parameters `(B, n)` and coordinates `(B, m)`.

    Images are a list of arrays or, on a device, `appearance.device_views.Views`; parameters are tensors there.
    Without `every_cost`, an algorithm that needs no cost on its way has one at its end alone. `landmarks` is what
    experts add to the cost of each item.
    """
    shape, patience = problem.shape, problem.stopping.patience
    run = _Run(shape_parameters, coordinates, patience)
    needs = replace(needs_of(problem.algorithm, problem.weights), cost=every_cost or patience is not None)
    limits = _limits(images, run.p)
    rounds: list[_Round] = []
    going, rows = Count(len(run.p)), None
    worth_it = _WORTH_IT if is_tensor(run.p) else 1.0
    for number in range(iterations + 1):
        last = number == iterations
        if rows is None or going.latest() < worth_it * len(rows):
            rows = run.going()
            if not len(rows):
                break
            batch, bounds = _some(images, rows), limits[rows]
            term = None if landmarks is None else landmarks.of(rows)
        p, c = run.p[rows], run.c[rows]
        shapes = shape.instance(p)
        system = problem.kernel.system(
            batch, shapes, c, needs.cost_alone() if last else replace(needs, stage=number)
        )
        here = _looked_at(problem, system, p, c, term)
        seen = run.visit(rows, number, here, known=system.residual_residual is not None)
        if every_cost:
            rounds.append(_Round(rows, seen, p, here.cost))
        if last:
            break
        jacobian = _update_jacobian(problem, p, term)
        dc, u = increments(problem.algorithm, problem.weights, system, p, c, jacobian, term)
        run.move(rows, problem, shapes, bounds, u, dc)
        going.ask((run.status == _RUNNING).sum())
    _complete(problem, needs.cost_alone(), images, run, landmarks)
    return _collected(problem, run, rounds)


def _looked_at(
    problem: Problem, system: System, p: Array, c: Array, landmarks: LandmarkTerm | None
) -> _Visit:
    """What is known of estimates `(r, n)` and `(r, m)` from their System."""
    Ar, rr = system.basis_residual, system.residual_residual
    return _Visit(
        p,
        c,
        problem.weights.value(system, p, c, landmarks),
        full(c.shape, np.nan, p) if Ar is None else Ar,
        full((len(p),), np.nan, p) if rr is None else rr,
    )


def _complete(problem: Problem, needs: Needs, images: Any, run: _Run, landmarks: LandmarkTerm | None) -> None:
    """Find the cost of those that ended where it had not been computed."""
    missing = np.flatnonzero(on_host(run.visited & namespace(run.p).isnan(run.last.cost)))
    if not len(missing):
        return
    rows = beside(missing, run.p)
    p, c = run.last.p[rows], run.last.c[rows]
    system = problem.kernel.system(_some(images, rows), problem.shape.instance(p), c, needs)
    term = None if landmarks is None else landmarks.of(rows)
    run.last.put(rows, run.visited[rows], _looked_at(problem, system, p, c, term))


def _update_jacobian(problem: Problem, p: Array, landmarks: LandmarkTerm | None) -> Array | None:
    """The derivative `(B, n, n)` of the update by its increment, if it is not one and a term in p asks for it."""
    if problem.order != "exact" or (landmarks is None and not np.any(problem.weights.shape_precision)):
        return None
    return update_jacobian(problem.motion, problem.shape, p)


def _collected(problem: Problem, run: _Run, rounds: list[_Round]) -> Iterated:
    end = run.last
    if run.best is not None:
        every = namespace(run.status).arange(len(run.status))
        end.put(beside(every, run.p), run.status == _number(Status.RISING), run.best)
    # An item that was lost where it began has no last visit; it stays there.
    codes = on_host(run.status).tolist()
    statuses = [Status.ITERATIONS if code == _RUNNING else _STATUSES[code] for code in codes]
    far = on_host(problem.shape.mahalanobis(end.p)) > problem.stopping.ellipsoid
    statuses = [
        Status.IMPLAUSIBLE if status.ok and too_far else status
        for status, too_far in zip(statuses, far, strict=True)
    ]
    residuals, coordinates = on_host(end.residual), on_host(end.c)
    return Iterated(
        shape=problem.shape,
        shape_parameters=on_host(end.p),
        coordinates=coordinates,
        explained=residuals + coordinates,
        unexplained=unexplained_energy(on_host(end.squares), residuals),
        statuses=statuses,
        final_costs=on_host(end.cost).tolist(),
        iterations=on_host(run.iterations).tolist(),
        rounds=rounds,
    )


def _some(images: Any, rows: Array) -> Any:
    """The images of some rows: of a list, or of views that lie on a device together."""
    return [images[k] for k in rows] if isinstance(images, Sequence) else images.of(rows)


def _limits(images: Any, p: Array) -> Array:
    """The largest coordinates `(B, 1, 2)` within each image, x and then y."""
    if isinstance(images, Sequence):
        return np.array([[(image.shape[1] - 1, image.shape[0] - 1)] for image in images])
    return (images.sizes[:, None, :] - 1).flip(-1)


def _number(status: Status) -> int:
    return _STATUSES.index(status)


def _zeros(p: Array) -> Array:
    """Zeros `(B,)`, as integers beside p `(B, n)`."""
    return namespace(p).zeros_like(p[:, 0], dtype=namespace(p).int64)


def _chosen(where: Array, values: Array, others: Array) -> Array:
    """Values `(r, ...)` of the rows that `where (r,)` names, and others elsewhere."""
    return namespace(values).where(where.reshape(-1, *(1,) * (len(values.shape) - 1)), values, others)
