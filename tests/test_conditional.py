"""The most plausible shape given fixed points: it is the conditional Gaussian, and does what a person expects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, multivariate_t

from pliant.arrays import Float64
from pliant.shape import Similarity, align, shape_size, train_shape_model
from pliant.shape.conditional import Belief, followed, given, likelier, pose_factor, prior_belief


def some_shapes(count: int = 30, landmarks: int = 12, seed: int = 0) -> Float64:
    """Ellipses of several proportions, somewhere in an image."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, landmarks, endpoint=False)
    proportions = rng.normal(1.0, 0.15, (count, 1))
    bend = rng.normal(0.0, 0.08, (count, 1))
    x, y = np.cos(angles) * proportions, np.sin(angles) + bend * np.cos(2 * angles)
    return np.stack([x, y], axis=-1) * 50 + rng.normal(100, 5, (count, 1, 2))


def some_belief(seed: int = 0) -> Belief:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(9, 2, 2))
    return Belief(
        rng.normal(size=(9, 2)) * 20,
        rng.normal(size=(18, 5)),
        0.1 * root @ np.swapaxes(root, 1, 2) + 0.05 * np.eye(2),
    )


def dense(belief: Belief) -> Float64:
    whole = belief.factor @ belief.factor.T
    for k, block in enumerate(belief.noise):
        whole[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] += block
    return whole


@pytest.mark.parametrize("fixed", [[3], [0, 5], [7, 1, 2, 4]])
def test_it_is_the_conditional_gaussian(fixed: list[int]) -> None:
    belief = some_belief()
    places = belief.points[fixed] + np.random.default_rng(1).normal(size=(len(fixed), 2))
    found = given(belief, fixed, places)
    whole = dense(belief)
    f = np.array([[2 * k, 2 * k + 1] for k in fixed]).ravel()
    o = np.setdiff1d(np.arange(18), f)
    gain = whole[np.ix_(o, f)] @ np.linalg.inv(whole[np.ix_(f, f)])
    expected = belief.points.ravel()[o] + gain @ (places - belief.points[fixed]).ravel()
    np.testing.assert_allclose(found.points.ravel()[o], expected, atol=1e-6)
    left = whole[np.ix_(o, o)] - gain @ whole[np.ix_(f, o)]
    np.testing.assert_allclose(dense(found)[np.ix_(o, o)], left, atol=1e-6)


def test_fixed_points_are_where_they_were_put() -> None:
    belief, fixed = some_belief(), [2, 6]
    places = np.array([[400.0, -30.0], [3.0, 5.0]])
    for found in (given(belief, fixed, places), followed(belief, fixed, places)):
        np.testing.assert_array_equal(found.points[fixed], places)
        assert np.all(found.covariance[fixed] == 0)


def test_with_nothing_fixed_nothing_changes() -> None:
    belief = some_belief()
    for found in (given(belief, [], np.zeros((0, 2))), followed(belief, [], np.zeros((0, 2)))):
        np.testing.assert_array_equal(found.points, belief.points)
        np.testing.assert_array_equal(found.covariance, belief.covariance)


def test_it_moves_with_the_image() -> None:
    belief, fixed = some_belief(), [1, 4, 8]
    places = belief.points[fixed] + 3
    by = Similarity(np.asarray(1.7 * np.exp(0.6j)), np.asarray(4 - 9j))
    for function in (given, followed):
        one = function(belief, fixed, places).moved(by)
        other = function(belief.moved(by), fixed, by.apply(places))
        np.testing.assert_allclose(one.points, other.points, atol=1e-6)
        np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-6)


def test_points_that_are_put_where_they_are_expected_move_nothing() -> None:
    belief, fixed = some_belief(), [0, 3]
    found = given(belief, fixed, belief.points[fixed])
    np.testing.assert_allclose(found.points, belief.points, atol=1e-9)
    assert np.all(
        np.trace(found.covariance, axis1=1, axis2=2) <= np.trace(belief.covariance, axis1=1, axis2=2) + 1e-9
    )


@pytest.mark.parametrize("turn", [0.0, 0.5])
def test_points_far_away_take_the_whole_along_and_leave_it_plausible(turn: float) -> None:
    shapes = some_shapes()
    model = train_shape_model(shapes, 1.0)
    noise = np.tile(1e-4 * np.eye(2), (12, 1, 1))
    belief = prior_belief(model, noise, align(model.mean, shapes[0]), 0.3, 0.2, 0.2)
    centre = complex(*belief.points.mean(axis=0))
    factor = np.asarray(np.exp(1j * turn))
    by = Similarity(factor, np.asarray(centre + 300 - 120j - factor * centre))
    wanted = by.apply(belief.points)
    found = followed(belief, [0, 3, 6, 9], wanted[[0, 3, 6, 9]]).points
    size = float(shape_size(belief.points))
    assert np.max(np.linalg.norm(found - wanted, axis=1)) < 0.1 * size
    frame = align(model.mean, found).inverse().apply(found)
    assert model.mahalanobis(model.project(frame)) < 2


def test_a_sure_fit_gives_way_to_a_person_who_drags_it_far() -> None:
    shapes = some_shapes()
    model = train_shape_model(shapes, 1.0)
    noise = np.tile(1e-4 * np.eye(2), (12, 1, 1))
    wide = prior_belief(model, noise, align(model.mean, shapes[0]), 0.3, 0.2, 0.2)
    sure = Belief(wide.points, 0.02 * wide.factor, 0.01 * wide.noise)
    assert likelier((sure, wide), [2], sure.points[[2]] + 0.1) is sure
    assert likelier((sure, wide), [2, 7], sure.points[[2, 7]] + 60) is wide


def test_one_point_that_is_far_off_alone_leaves_the_others() -> None:
    square = np.array([[0.0, 0], [100, 0], [100, 100], [0, 100]])
    belief = Belief(square, pose_factor(square, 0.01, 0.0, 0.0), np.tile(np.eye(2), (4, 1, 1)))
    near, far = (followed(belief, [0], square[[0]] + gap).points[1] - square[1] for gap in (1.0, 50.0))
    assert near[0] > 0.3
    assert far[0] < 5


def test_wrong_numbers_are_a_sentence() -> None:
    with pytest.raises(ValueError, match="2 landmarks are fixed, but there are 1 places"):
        given(some_belief(), [0, 1], np.zeros((1, 2)))
    for fixed in ([9], [0, 9], [-1, 3], [2, 2]):
        with pytest.raises(ValueError, match="numbers from 0 to 8, without repeats"):
            given(some_belief(), fixed, np.zeros((len(fixed), 2)))


def test_the_covariance_of_a_landmark_is_that_of_the_factor_and_its_noise() -> None:
    belief = some_belief()
    whole = belief.factor @ belief.factor.T
    for landmark, covariance in enumerate(belief.covariance):
        own = slice(2 * landmark, 2 * landmark + 2)
        np.testing.assert_allclose(covariance, whole[own, own] + belief.noise[landmark])


def test_the_likelier_belief_is_the_one_of_the_higher_density() -> None:
    fixed, rng = [5, 1, 4], np.random.default_rng(3)
    rows = np.array([[2 * k, 2 * k + 1] for k in fixed]).ravel()
    chosen = set()
    for seed in range(20):
        beliefs = [some_belief(seed), some_belief(seed + 100)]
        beliefs[1] = Belief(beliefs[0].points, beliefs[1].factor, beliefs[1].noise)
        places = beliefs[0].points[fixed] + 2 * rng.normal(size=(3, 2))
        apart = (places - beliefs[0].points[fixed]).ravel()
        squares = [dense(belief)[np.ix_(rows, rows)] for belief in beliefs]
        densities = [-apart @ np.linalg.solve(s, apart) - np.linalg.slogdet(s)[1] for s in squares]
        best = int(np.argmax(densities))
        assert likelier(beliefs, fixed, places) is beliefs[best]
        chosen.add(best)
    assert chosen == {0, 1}


def test_points_that_are_hardly_off_are_followed_as_they_are_given() -> None:
    """Nothing is to be forgiven, and nothing was turned."""
    belief, fixed = some_belief(), [0, 3, 8]
    places = belief.points[fixed] + 0.05 * np.random.default_rng(0).normal(size=(3, 2))
    one, other = followed(belief, fixed, places), given(belief, fixed, places)
    np.testing.assert_allclose(one.points, other.points, atol=1e-6)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-6)


@pytest.mark.parametrize("growth", [0.7, 1.4])
def test_what_is_turned_and_enlarged_is_as_sure_as_before(growth: float) -> None:
    """Noise is that of the image: an object that is larger than it was expected is not seen less sharply."""
    shapes = some_shapes()
    model = train_shape_model(shapes, 1.0)
    noise = np.tile(1e-4 * np.eye(2), (12, 1, 1))
    belief = prior_belief(model, noise, align(model.mean, shapes[0]), 0.3, 0.5, 0.5)
    centre = complex(*belief.points.mean(axis=0))
    factor = np.asarray(growth * np.exp(0.5j))
    wanted = Similarity(factor, np.asarray(centre - factor * centre)).apply(belief.points)
    found = followed(belief, [0, 3, 6, 9], wanted[[0, 3, 6, 9]])
    assert np.max(np.linalg.norm(found.points - wanted, axis=1)) < 0.05 * float(shape_size(wanted))
    others = [1, 2, 4, 5, 7, 8, 10, 11]
    np.testing.assert_allclose(found.noise[others], belief.noise[others], atol=1e-9 * belief.noise.max())


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_units_make_no_difference_to_what_follows_from_points_without_noise(unit: float) -> None:
    """Five unknowns and eight fixed numbers: the covariance of these has no inverse, in any unit."""
    belief = some_belief()
    belief = Belief(unit * belief.points, unit * belief.factor, 0 * belief.noise)
    fixed = [0, 3, 5, 8]
    places = belief.points[fixed] + (belief.factor @ np.arange(5.0)).reshape(-1, 2)[fixed]
    found = given(belief, fixed, places)
    expected = belief.points + (belief.factor @ np.arange(5.0)).reshape(-1, 2)
    np.testing.assert_allclose(found.points, expected, atol=1e-3 * unit)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_one_point_far_off_takes_nothing_along_where_the_others_agree(unit: float) -> None:
    """Landmarks without noise that can only move to the right together: two say by 1, and one by 50."""
    belief = Belief(np.zeros((6, 2)), unit * 10 * np.tile([[1.0], [0.0]], (6, 1)), np.zeros((6, 2, 2)))
    found = followed(belief, [0, 1, 2], unit * np.array([[1.0, 0], [1.0, 0], [50.0, 0]]))
    np.testing.assert_allclose(found.points[3:], [[unit, 0]] * 3, atol=0.3 * unit)


@pytest.mark.parametrize("gap", [20.0, 50.0])
def test_the_error_of_a_point_far_off_has_students_distribution(gap: float) -> None:
    """Both landmarks move right together, by z ~ N(0, 1). The first errs by t, of four degrees of freedom."""
    belief = Belief(np.zeros((2, 2)), np.tile([[1.0], [0.0]], (2, 1)), np.tile(np.eye(2), (2, 1, 1)))

    def unlikely(z: float) -> float:
        return float(z**2 / 2 - multivariate_t.logpdf([gap - z, 0], shape=np.eye(2), df=4))

    most_likely = minimize_scalar(unlikely, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x
    found = followed(belief, [0], np.array([[gap, 0.0]]))
    np.testing.assert_allclose(found.points, [[gap, 0], [most_likely, 0]], rtol=1e-3)


def test_many_points_without_noise_leave_nothing_open() -> None:
    """Two hundred landmarks that can only shift together: where fifty are, there are all."""
    points = np.random.default_rng(0).normal(size=(200, 2))
    belief = Belief(points, np.tile(np.eye(2), (200, 1)), np.zeros((200, 2, 2)))
    fixed = list(range(50))
    for function in (given, followed):
        found = function(belief, fixed, points[fixed] + 1)
        np.testing.assert_allclose(found.points, points + 1, atol=1e-9)
        assert np.max(np.abs(found.covariance)) < 1e-10


@pytest.mark.parametrize("turn", [0.05, 0.15, 0.3])
def test_a_wheel_that_is_turned_stays_on_its_axle_and_grows_by_half_a_percent_at_most(turn: float) -> None:
    """It is far from the origin, and can only turn: two opposite points take the others along."""
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    axle = np.array([1000.0, 500.0])
    wheel, wanted = (
        axle + 100 * np.stack([np.cos(angles + by), np.sin(angles + by)], axis=1) for by in (0.0, turn)
    )
    belief = Belief(wheel, pose_factor(wheel, 0.0, 0.0, 1.0), np.tile(1e-4 * np.eye(2), (8, 1, 1)))
    found = followed(belief, [0, 4], wanted[[0, 4]]).points
    np.testing.assert_allclose(np.linalg.norm(found - axle, axis=1), 100, rtol=0.005)
    np.testing.assert_allclose(found, wanted, atol=0.5)


def test_an_object_grows_and_turns_about_its_centre_wherever_it_is() -> None:
    """A square of 2 by 2 pixels: a tenth of its size, a fifth of a radian, and half its size to each side."""
    offsets = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
    columns = pose_factor(offsets + (100, 50), shift=0.5, growth=0.1, turn=0.2)
    across = offsets[:, ::-1] * (-1, 1)
    expected = [0.1 * offsets, 0.2 * across, np.tile([1.0, 0], (4, 1)), np.tile([0, 1.0], (4, 1))]
    np.testing.assert_allclose(columns.T.reshape(4, 4, 2), expected, atol=1e-12)


def test_the_prior_has_all_modes_the_pose_and_the_noise() -> None:
    rng = np.random.default_rng(3)
    shape = train_shape_model(some_shapes() + rng.normal(0, 1, (30, 12, 2)), 100).truncated(3)
    noise = np.tile(0.2 * np.eye(2), (12, 1, 1))
    still = Similarity(np.asarray(1 + 0j), np.asarray(0j))
    belief = prior_belief(shape, noise, still, 0.1, 0.2, 0.3)
    pose = pose_factor(shape.mean, 0.1, 0.2, 0.3)
    modes = shape.basis[:, 4:]
    expected = pose @ pose.T + modes @ np.diag(shape.eigenvalues) @ modes.T + 0.2 * np.eye(24)
    np.testing.assert_allclose(dense(belief), expected, atol=1e-9)
    np.testing.assert_array_equal(belief.points, shape.mean)


@pytest.mark.parametrize("seed", range(6))
def test_the_likelier_belief_has_the_larger_density(seed: int) -> None:
    beliefs = [some_belief(seed), some_belief(seed + 10)]
    beliefs[1] = Belief(beliefs[0].points + 1.0, 2.0 * beliefs[1].factor, beliefs[1].noise)
    fixed = [1, 4, 7]
    rows = np.array([[2 * k, 2 * k + 1] for k in fixed]).ravel()
    rng = np.random.default_rng(seed)
    for scale in (0.3, 2.0, 6.0):
        places = beliefs[0].points[fixed] + scale * rng.normal(size=(3, 2))
        densities = [
            multivariate_normal.logpdf(places.ravel(), b.points.ravel()[rows], dense(b)[np.ix_(rows, rows)])
            for b in beliefs
        ]
        assert likelier(beliefs, fixed, places) is beliefs[int(np.argmax(densities))]


def test_of_beliefs_without_noise_the_likelier_is_the_one_that_can_get_there() -> None:
    """Landmarks that move together along one axis: the covariance of two of them has no inverse."""
    along_x, along_y = (
        Belief(np.zeros((3, 2)), np.tile(axis, 3)[:, None], np.zeros((3, 2, 2))) for axis in np.eye(2)
    )
    for beliefs in ((along_x, along_y), (along_y, along_x)):
        assert likelier(beliefs, [0, 2], np.array([[0.0, 1], [0, 1]])) is along_y
        assert likelier(beliefs, [0, 2], np.array([[1.0, 0], [1, 0]])) is along_x
    assert likelier([along_x], [0, 2], np.array([[0.0, 1], [0, 1]])) is along_x


def test_an_object_that_is_turned_keeps_what_it_is_not_sure_of() -> None:
    """Where fixed points have it turned by a radian and twice as large, deviations are turned and no larger."""
    belief, fixed = some_belief(), [0, 1, 2, 3, 4, 5, 6]
    wide = np.concatenate([belief.factor, pose_factor(belief.points, 5.0, 5.0, 5.0)], axis=1)
    belief = Belief(belief.points, wide, belief.noise)
    by = Similarity(np.asarray(2 * np.exp(1j)), np.asarray(7 - 3j))
    told = followed(belief, fixed, by.apply(belief.points)[fixed])
    np.testing.assert_allclose(told.points[7:], by.apply(belief.points)[7:], atol=3)
    turned = belief.moved(Similarity(np.asarray(np.exp(1j)), np.asarray(0j)))
    own = given(turned, fixed, turned.points[fixed])
    ratio = np.trace(told.covariance[7:].sum(axis=0)) / np.trace(own.covariance[7:].sum(axis=0))
    assert ratio == pytest.approx(1, rel=0.25)
