"""What experts add to the cost: seen through the update that is made, by all 31 algorithms, and without a pixel."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pliant.experts.sightings import Sightings
from pliant.fitting.algorithm import Algorithm, catalogue
from pliant.fitting.composition import update
from pliant.fitting.fitter import make_fitter
from pliant.fitting.landmarks import landmark_term
from pliant.fitting.loop import iterate
from pliant.fitting.quadratic import quadratic
from pliant.fitting.status import Status
from pliant.kernels.system import Needs
from pliant.motion import ThinPlateSpline
from pliant.motion.compose import update_jacobian
from pliant.shape import SIMILARITY

NAMES = [entry.name for entry in catalogue()]


@pytest.fixture(scope="module")
def level(model):
    return model.levels[0]


def turned(level, rng, deviations=0.5):
    """Parameters of a plausible shape that is larger than the mean, turned and elsewhere."""
    modes = rng.normal(size=level.shape.modes) * deviations * np.sqrt(level.shape.eigenvalues)
    shape = level.shape.instance(np.concatenate([np.zeros(SIMILARITY), modes]))
    larger = np.array([[0.9, -0.4], [0.4, 0.9]])
    return level.shape.project((shape - shape.mean(axis=0)) @ larger.T + 45)


def seen_at(points, rng, precision=1.0):
    roots = rng.normal(size=(*points.shape[:-1], 2, 2))
    return Sightings(points, precision * (roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(2)))


def blank(level, value=0.0, count=1):
    return [np.full((90, 90, level.channels), value, dtype=np.float32)] * count


@pytest.mark.parametrize("spline", [False, True])
@pytest.mark.parametrize("order", ["exact", "first-order"])
@pytest.mark.parametrize("name", ["po:map-for-gn", "ssd-asy:1-gn-sch", "po-for-gn"])
def test_gradient_and_hessian_are_those_of_the_cost(model, level, rng, name, order, spline):
    """In an image without slopes, a small warp of it changes the landmarks and nothing else."""
    _, _, problem = make_fitter(model, algorithm=name, order=order, device="reference").prepared[0]
    motion = ThinPlateSpline(level.motion.frame) if spline else level.motion
    image, p = blank(level), turned(level, rng)[None]
    seen = seen_at(level.shape.instance(p) + rng.normal(size=(1, level.shape.landmarks, 2)), rng)
    landmarks = landmark_term(level.shape, seen, 0.3)
    c = np.zeros((1, len(problem.weights.appearance)))
    composition = problem.algorithm.composition

    def cost(dp):
        moved = update(composition, motion, level.shape, p, dp[None], order)
        system = problem.kernel.system(image, level.shape.instance(moved), c, Needs())
        return float(problem.weights.value(system, moved, c, landmarks)[0])

    system = problem.kernel.system(image, level.shape.instance(p), c, Needs())
    jacobian = update_jacobian(motion, level.shape, p) if order == "exact" else None
    found = quadratic(system, problem.weights, composition, p, c, jacobian, landmarks=landmarks)
    n, step = level.shape.parameters, 0.02
    unit = np.eye(n) * step
    gradient = np.array([(cost(e) - cost(-e)) / (2 * step) for e in unit])
    hessian = np.array(
        [
            [(cost(a + b) - cost(a - b) - cost(b - a) + cost(-a - b)) / (4 * step**2) for b in unit]
            for a in unit
        ]
    )
    assert_allclose(found.gu[0], gradient, atol=1e-4 * np.abs(gradient).max())
    # A spline bends, which Gauss-Newton leaves out.
    assert_allclose(found.Huu[0], hessian, atol=(0.05 if spline else 1e-4) * np.abs(hessian).max())


@pytest.mark.parametrize("order", ["exact", "first-order"])
@pytest.mark.parametrize("name", [name for name in NAMES if "-bid" in name or "-inv" in name])
def test_every_first_step_goes_down(model, level, rng, name, order):
    """Through the derivative of the update: a step that is small enough lowers the cost for any composition."""
    _, _, problem = make_fitter(model, algorithm=name, order=order, device="reference").prepared[0]
    p = turned(level, rng)[None]
    landmarks = landmark_term(level.shape, seen_at(level.shape.instance(turned(level, rng))[None], rng))
    c = np.zeros((1, len(problem.weights.appearance)))
    system = problem.kernel.system(blank(level), level.shape.instance(p), c, Needs())
    jacobian = update_jacobian(level.motion, level.shape, p) if order == "exact" else None
    algorithm = problem.algorithm
    found = quadratic(system, problem.weights, algorithm.composition, p, c, jacobian, None, landmarks)
    without = quadratic(system, problem.weights, algorithm.composition, p, c, jacobian)
    slope = found.gu - without.gu
    small = -1e-6 * slope / np.linalg.norm(slope)
    moved = update(algorithm.composition, level.motion, level.shape, p, small, order)
    change = landmarks.value(moved) - landmarks.value(p)
    assert_allclose(change, np.sum(small * slope, axis=-1), rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_sure_sightings_are_enough_where_there_is_nothing_to_see(model, level, rng, name):
    """The image is flat, and the model is led to a shape of its own that three in four landmarks tell of."""
    _, _, problem = make_fitter(model, algorithm=name).prepared[0]
    truths = np.array([turned(level, rng) for _ in range(3)])
    seen = seen_at(level.shape.instance(truths), rng, 1e6)
    seen.points[:, ::4] += 30.0
    seen.precision[:, ::4] = 0.0
    # Upright, smaller and beside it.
    starts = np.array([level.shape.project(level.shape.mean - level.shape.mean.mean(axis=0) + 42)] * 3)
    c = np.zeros((3, len(problem.weights.appearance)))
    landmarks = landmark_term(level.shape, seen)
    ended = iterate(problem, blank(level, 0.0, 3), starts, c, 40, landmarks=landmarks)
    apart = level.shape.instance(ended.shape_parameters) - level.shape.instance(truths)
    assert np.abs(level.shape.instance(starts) - level.shape.instance(truths)).max() > 5
    assert np.abs(apart).max() < 0.05
    assert all(status in (Status.CONVERGED, Status.ITERATIONS) for status in ended.statuses)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prior", ["", ":map"])
def test_what_is_not_seen_changes_nothing(model, level, rng, name, prior):
    cost, rest = name.split("-", 1)
    _, _, problem = make_fitter(model, algorithm=f"{cost}{prior}-{rest}").prepared[0]
    assert isinstance(problem.algorithm, Algorithm)
    images = list(rng.random((3, 90, 90, level.channels)).astype(np.float32))
    starts = np.array([turned(level, rng) for _ in range(3)])
    c = np.zeros((3, len(problem.weights.appearance)))
    far = Sightings(
        rng.normal(size=(3, level.shape.landmarks, 2)) * 100, np.zeros((3, level.shape.landmarks, 2, 2))
    )
    plain = iterate(problem, images, starts, c, 4)
    listening = iterate(problem, images, starts, c, 4, landmarks=landmark_term(level.shape, far))
    assert_array_equal(listening.shape_parameters, plain.shape_parameters)
    assert_array_equal(listening.coordinates, plain.coordinates)
    for with_them, without in zip(listening.costs, plain.costs, strict=True):
        assert_array_equal(with_them, without)


def test_each_item_has_sightings_of_its_own(model, level, rng):
    """Items that end early do not hand theirs to those that go on."""
    _, _, problem = make_fitter(model, algorithm="ssd:map-asy:0.2-gn-sch").prepared[0]
    p = np.array([turned(level, rng) for _ in range(3)])
    seen = seen_at(level.shape.instance(p) + np.arange(3)[:, None, None], rng, 1e5)
    c = np.zeros((3, len(problem.weights.appearance)))
    together = iterate(problem, blank(level, 0.0, 3), p, c, 20, landmarks=landmark_term(level.shape, seen))
    assert len(set(together.iterations)) > 1
    for k in range(3):
        alone = landmark_term(level.shape, seen.of([k]))
        one = iterate(problem, blank(level), p[k : k + 1], c[k : k + 1], 20, landmarks=alone)
        assert_allclose(one.shape_parameters[0], together.shape_parameters[k], atol=1e-6)
        assert one.iterations[0] == together.iterations[k]


def test_a_cost_that_was_left_out_on_the_way_has_the_term_at_the_end(model, level, rng):
    _, _, problem = make_fitter(model, algorithm="po-inv-gn").prepared[0]
    p, c = turned(level, rng)[None], np.zeros((1, len(problem.weights.appearance)))
    term = landmark_term(level.shape, seen_at(level.shape.instance(p) + 1, rng, 100.0))
    brief = replace(problem, stopping=replace(problem.stopping, tolerance=0.5))
    ends = [
        iterate(brief, blank(level), p, c, 9, every_cost=every, landmarks=term) for every in (True, False)
    ]
    assert ends[0].statuses == [Status.CONVERGED]
    assert ends[0].final_costs == pytest.approx(ends[1].final_costs)
    without = float(iterate(brief, blank(level), ends[0].shape_parameters, c, 1).costs[0][0])
    assert ends[0].final_costs[0] == pytest.approx(without + float(term.value(ends[0].shape_parameters)[0]))
