"""Coarse to fine: images and starts in, fits out, one block of images at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from threading import Lock
from typing import Any

import numpy as np

from pliant.appearance.features import find_feature
from pliant.appearance.subspace import Subspace, restrict
from pliant.appearance.view import can_be_looked_at
from pliant.arrays import Float64, Floats, Image, Lean
from pliant.devices import ON_TORCH, DeviceFailed, find_device, is_breakdown, is_out_of_memory, release_memory
from pliant.experts.on_device import look_on_device, looks_on_device
from pliant.experts.sightings import Expert, Sightings
from pliant.fitting.algorithm import Algorithm
from pliant.fitting.cost import SSD
from pliant.fitting.guided import (
    GUIDED,
    Looking,
    agree,
    coarse_levels,
    first_level,
    guides,
    landmarks_of,
    spread_of,
    term_in_views,
)
from pliant.fitting.hypotheses import begins_late, distinct
from pliant.fitting.looking import DeviceViews, HostViews, Uploads, look
from pliant.fitting.loop import Iterated, Problem, iterate
from pliant.fitting.preparation import (
    COARSE,
    appearance_of,
    check_learned,
    first_coordinates,
    make_kernel,
    weights_of,
)
from pliant.fitting.result import FitResult, LevelTrace, as_in_the_image, failed
from pliant.fitting.states import (
    State,
    Way,
    at_starts,
    beginnings,
    by_facing,
    going_on,
    places,
    preferred,
    witnessed,
)
from pliant.fitting.status import Status
from pliant.level import Level
from pliant.model import Model
from pliant.settings import Fitting
from pliant.shape import align, shape_size
from pliant.starts.candidates import shares_outside, usable_starts
from pliant.threads import cores
from pliant.trust.evidence import gather, with_sightings
from pliant.trust.mismatch import mismatches, relative_costs

_one_at_a_time = Lock()
"""Blocks of images are read and uploaded side by side, and fitted on a device one after the other."""


@dataclass(frozen=True)
class Fitter(Lean):
    """A model and settings, with all that can be computed before an image is seen; pickles do without that."""

    model: Model
    settings: Fitting = Fitting()
    jobs: int = 1
    keep_trace: bool = True
    keep_evidence: bool = True
    brief: bool | None = None
    """Whether fits that an expert has led may be shorter than others: unless iterations were given."""

    def __post_init__(self) -> None:
        if self.brief is None:
            object.__setattr__(self, "brief", not self.settings.iterations)
        suited = self.settings.suited_to(self.model.settings, len(self.model.levels))
        object.__setattr__(self, "settings", suited)

    @property
    def iterations(self) -> tuple[int, ...]:
        """The most iterations at each level."""
        return self.settings.iterations or ()

    @cached_property
    def algorithm(self) -> Algorithm:
        return Algorithm.parse(self.settings.algorithm)

    @cached_property
    def prepared(self) -> list[tuple[Level, Subspace, Problem]]:
        """One problem a level; made at the first fit."""
        check_learned(self.algorithm, self.model.levels, self.settings.device)
        return [self._prepare(level) for level in self.model.levels]

    def _prepare(self, level: Level) -> tuple[Level, Subspace, Problem]:
        feature = find_feature(level.features)
        if feature.channels != level.channels:
            raise ValueError(
                f"the model was trained with {level.channels} channels of the feature '{feature.name}', but "
                f"the feature has {feature.channels}: register the feature that the model was trained with."
            )
        sampling = self.settings.sampling
        pixels = None if sampling >= 1 else level.motion.frame.sample(sampling)
        learned = level.descents is not None and self.settings.cascade and self.settings.device != "reference"
        algorithm = COARSE if learned else self.algorithm
        unit = algorithm.cost == SSD("ridge")
        subspace = restrict(level.appearance, level.channels, pixels, unit_variances=unit)
        weights = weights_of(algorithm, level, subspace)
        # Of so few pixels as the coarsest level has, none can be told to be hidden.
        coarsest = level is self.model.levels[0] and len(self.model.levels) > 1
        robust = self.settings.robust and not coarsest
        kernel = make_kernel(
            self.settings, level, subspace, pixels, algorithm, weights, self.jobs, robust=robust
        )
        stopping, order = self.settings.stopping, self.settings.order
        problem = Problem(kernel, level.motion, level.shape, weights, algorithm, stopping, order)
        return level, subspace, problem

    def alike(self, **changes: Any) -> Fitter:
        """The same fitter with other iterations or jobs, or at its finest levels alone; what it prepared is shared.

        That takes seconds and hundreds of megabytes: too much for every fitter to have its own.
        """
        other = replace(self, **changes)
        vars(other)["prepared"] = self.prepared[-len(other.model.levels) :]
        return other

    def block(self, images: Sequence[Image], starts: Sequence[Floats], threads: int = 1) -> list[FitResult]:
        """Fits of a few images at once; one that cannot be used does not stop the others.

        Of several starts in an image, the best fit is kept: one that ended well, with the lowest relative cost.

        `threads` work together on every image, for the least time until they are done; many images are done
        soonest in blocks of their own, each by a thread of its own: `fit_all`.
        """
        if self.settings.device not in ON_TORCH:
            return self._block(images, starts, threads)
        return self._block_on_device(images, starts)

    def _block_on_device(self, images: Sequence[Image], starts: Sequence[Floats]) -> list[FitResult]:
        """The same on a device: one that has no room for all of them has some at a time."""
        try:
            return self._block(images, starts, 1)
        except Exception as error:
            if is_breakdown(error):
                raise DeviceFailed(f"the device '{self.settings.device}' failed: {error}") from error
            if not is_out_of_memory(error) or len(images) == 1:
                raise
        release_memory()
        half = len(images) // 2
        return self._block_on_device(images[:half], starts[:half]) + self._block_on_device(
            images[half:], starts[half:]
        )

    @cached_property
    def _uploads(self) -> Uploads | None:
        device = self.settings.device
        return Uploads(find_device(device)) if device in ON_TORCH else None

    def _block(self, images: Sequence[Image], starts: Sequence[Floats], threads: int) -> list[FitResult]:
        found = usable_starts(self.model, images, starts)
        some = [(image, usable.starts) for image, usable in zip(images, found, strict=True) if usable.starts]
        ended, seconds = self._ended([image for image, _ in some], [each for _, each in some], threads)
        name, going = str(self.algorithm), iter(ended)
        return [
            self._result(next(going), name, seconds)
            if usable.starts
            else failed(self.model, name, usable.refused, usable.reason)
            for usable in found
        ]

    def _ended(
        self, images: list[Image], starts: list[list[Float64]], threads: int
    ) -> tuple[list[State], float]:
        """Where fits ended, and the seconds that each of them took. On a device, one block at a time goes on."""
        if not images:
            return [], 0.0
        count = 1 if len(self.model.levels) == 1 else self.settings.hypotheses or 1
        pairs = zip(images, starts, strict=True)
        groups = [beginnings(self.model, image, several, count) for image, several in pairs]
        with ExitStack() as around:
            if self._uploads is not None:
                around.enter_context(self._uploads.holding([one.image for group in groups for one in group]))
                around.enter_context(_one_at_a_time)
            begin = time.perf_counter()
            ended = self._coarse_to_fine(groups, threads)
            return ended, (time.perf_counter() - begin) / len(images)

    def _coarse_to_fine(self, groups: list[list[State]], threads: int) -> list[State]:
        ways = self._ways(groups, threads)
        ended: list[list[State]] = [[] for _ in groups]
        for alike in dict.fromkeys((way.first, way.guided) for way in ways):
            part = [way for way in ways if (way.first, way.guided) == alike]
            gone = self._through([way.group for way in part], threads, alike[0])
            for way, group in zip(part, gone, strict=True):
                ended[way.number].append(group[0])
        return [preferred(rivals) for rivals in ended]

    def _ways(self, groups: list[list[State]], threads: int) -> list[Way]:
        """How fits to the images of these groups go on: one way, or two where an expert and coarse levels disagree.

        If an expert sees the object, fine levels begin where it leads. Coarse levels check it, because an expert of
        few images gets lost more often than they do. Where they end elsewhere, it looks again from there, and the
        fit without it goes on as well. Fits with a single hypothesis do without the check.
        """
        if self.model.expert is None or not self.settings.experts:
            return [Way(number, 0, group) for number, group in enumerate(groups)]
        led = self._led([at_starts(group) for group in groups])
        coarse = coarse_levels(self.model) if (self.settings.hypotheses or 1) > 1 else 0
        found = self._through(groups, threads, 0, coarse) if coarse else groups
        apart = [
            k
            for k, own in enumerate(led)
            if not own or (coarse and not agree(found[k][0].points, places(own)))
        ]
        if coarse:
            for k, others in zip(apart, self._led([found[k][:1] for k in apart]), strict=True):
                own = led[k] + others
                led[k] = [own[n] for n in distinct(places(own), len(own))]
        guided = [Way(k, first_level(self.model, len(own)), own) for k, own in enumerate(led) if own]
        return guided + [Way(k, coarse, witnessed(found[k], led[k])) for k in apart]

    def _through(
        self, groups: list[list[State]], threads: int, first: int, end: int | None = None
    ) -> list[list[State]]:
        """The best of each group, in order, after the levels from `first` to the finest, or until `end`."""
        levels, several = self.prepared, groups[0][0].guide is None and (self.settings.hypotheses or 1) > 1
        for number in range(first, len(levels) if end is None else end):
            (level, subspace, problem), limit = levels[number], self.iterations[number]
            if self.brief and groups[0][0].guide is not None:
                limit = min(limit, GUIDED)
            if several and begins_late(number, len(levels)):
                for group in groups:
                    for one in [facing[0] for facing in by_facing(group)]:
                        group.append(
                            State(one.image, one.start, one.start, one.mirrored, witness=one.witness)
                        )
            every = list(chain.from_iterable(groups))
            sides = np.array([max(state.image.shape[:2]) for state in every])
            fine = can_be_looked_at(level.shape.mean, np.array(places(every)), sides)
            for state in compress(every, ~fine):
                state.status = Status.DIVERGED
            # What was lost at a coarse level stays lost.
            going = [state for state in every if not state.lost]
            if going:
                threaded = replace(problem, kernel=problem.kernel.threaded(threads))
                self._one_level(level, subspace, threaded, limit, going, max(map(len, groups)) > 1)
            # The best of several go on: docs/explanation/settings.md.
            groups = [going_on(group, number, len(levels)) for group in groups]
        return groups

    def _led(self, groups: list[list[State]]) -> list[list[State]]:
        """Where an expert leads to from each of the groups: fewer, where it sees nothing or the fit is lost."""
        every = [state for state in chain.from_iterable(groups) if not state.lost]
        if self.model.expert is None or not every:
            return [[] for _ in groups]
        heard = guides(
            self.model,
            self.model.expert,
            [state.image for state in every],
            [state.points for state in every],
            self._looking(self.model.expert),
        )
        led = {
            id(state): State(state.image, state.start, guide.points, state.mirrored, guide=guide)
            for state, guide in zip(every, heard, strict=True)
            if guide is not None
        }
        return [[led[id(state)] for state in group if id(state) in led] for group in groups]

    def _looking(self, expert: Expert) -> Looking | None:
        """How an expert looks at images that lie on a device; None if it looks at them on the host."""
        uploads = self._uploads
        if uploads is None or not looks_on_device(expert):
            return None

        def look_there(images: Sequence[Image], shapes: Float64, number: int) -> Sightings:
            pictures, which = uploads.of(images)
            return look_on_device(expert, pictures, np.array(which), shapes, number)

        return look_there

    def _one_level(
        self,
        level: Level,
        subspace: Subspace,
        problem: Problem,
        limit: int,
        states: list[State],
        ranked: bool,
    ) -> None:
        shared = level is self.model.levels[0] and states[0].guide is None
        views = look(level, self.model.size, states, shared, self._uploads)
        p = level.shape.project(views.to_view([state.points for state in states]))
        first = first_coordinates(problem, subspace, views.images, level.shape.instance(p))
        led = [state.guide for state in states if state.guide is not None]
        term = term_in_views(self.model, level, *views.geometry(), led, problem.weights.unit) if led else None
        ended = iterate(
            problem,
            views.images,
            p,
            first,
            limit,
            every_cost=self.keep_trace,
            landmarks=None if term is None else views.term(term),
        )
        shapes = level.shape.instance(ended.shape_parameters)
        finest = level is self.model.levels[-1]
        appearance = appearance_of(problem, subspace, ended) if finest else None
        ranks = ended.final_costs
        if ranked:
            ranks = relative_costs(level, views.images, views.placed(shapes), ended.final_costs).tolist()
        points = views.to_image(shapes)
        landmarks = landmarks_of(self.model, points, led) if finest and led else points
        # The loop sees a part of the image; whether a shape has left all of it is seen here.
        outside = shares_outside(points, np.array([state.image.shape[:2] for state in states])) > 0.5
        for k, (state, left) in enumerate(zip(states, outside.tolist(), strict=True)):
            state.points, status = points[k], ended.statuses[k]
            state.status = Status.OUTSIDE if left and status.ok else status
            state.iterations += ended.iterations[k]
            state.cost, state.rank = ended.final_costs[k], ranks[k]
            if self.keep_trace:
                state.trace.append(_trace(level, views, ended, k))
            state.points = landmarks[k]
            if appearance is not None:
                state.shape_parameters, state.appearance = ended.shape_parameters[k], appearance[k]
        if finest:
            found = mismatches(subspace, ended.explained, ended.unexplained).tolist()
            for state, mismatch in zip(states, found, strict=True):
                state.mismatch = mismatch
        if finest and self.keep_evidence:
            heard = None if term is None else term.hessian / problem.weights.unit
            self._weigh(level, subspace, problem, states, views, ended.shape_parameters, heard)

    def _weigh(
        self,
        level: Level,
        subspace: Subspace,
        problem: Problem,
        states: list[State],
        views: HostViews | DeviceViews,
        p: Float64,
        heard: Float64 | None,
    ) -> None:
        """What speaks for each fit, where it ended."""
        evidence, spread = gather(problem.kernel, level, subspace, views.images, views.placed(p), heard)
        covariances, fitted = views.spread_to_image(spread), views.to_image(level.shape.instance(p))
        led = [state.guide for state in states if state.guide is not None]
        if led:
            covariances = spread_of(self.model, np.array(places(states)), led, covariances)
        for k, state in enumerate(states):
            seen = state.witness if state.guide is None else state.guide.sightings
            state.evidence = evidence[k] if seen is None else with_sightings(evidence[k], seen, fitted[k])
        if self.model.confidence is not None:
            points, outside = np.array(places(states)), np.array([one.outside for one in evidence])
            angles = align(level.shape.mean, points).angle
            covariances = self.model.confidence.covariance(outside, covariances, shape_size(points), angles)
        for state, covariance in zip(states, covariances, strict=True):
            state.covariance = covariance

    def _result(self, state: State, algorithm: str, seconds: float) -> FitResult:
        finest = self.model.levels[-1]
        result = FitResult(
            model=self.model,
            algorithm=algorithm,
            start=state.start,
            points=state.points,
            status=state.status or Status.FAILED,
            reason="",
            cost=state.cost,
            mismatch=state.mismatch,
            iterations=state.iterations,
            seconds=seconds,
            shape_parameters=finest.shape.project(state.points)
            if state.shape_parameters is None
            else state.shape_parameters,
            appearance_parameters=np.full(finest.appearance.modes, np.nan)
            if state.appearance is None
            else state.appearance,
            trace=tuple(state.trace),
            evidence=state.evidence,
            covariance=state.covariance,
            sightings=None if state.guide is None else state.guide.sightings,
        )
        return as_in_the_image(result, state.image.shape[1]) if state.mirrored else result


def make_fitter(
    model: Model,
    settings: Fitting | None = None,
    *,
    jobs: int | None = None,
    trace: bool = True,
    confidence: bool | None = None,
    **changes: Any,
) -> Fitter:
    """A fitter with checked settings; the arguments are those of `fit`."""
    # What is wrong with these should be said before an image is seen.
    if jobs is not None and not isinstance(jobs, int):
        raise ValueError(
            "jobs must be a number of threads here. To fit images on a cluster, write a table to disk with "
            "pliant.bulk.fit_images."
        )
    weighs = model.confidence is not None if confidence is None else confidence
    fitter = Fitter(model, (settings or Fitting()).changed(**changes), jobs or cores(), trace, weighs)
    _ = fitter.algorithm
    return fitter


def _trace(level: Level, views: HostViews | DeviceViews, ended: Iterated, k: int) -> LevelTrace:
    points = views.trace_to_image(k, ended.shapes[k])
    return LevelTrace(level.scale, ended.costs[k].copy(), points)
