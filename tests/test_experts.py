"""Experts in fits: sightings move with their objects, shapes leave their subspace, and fits listen, or do not."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.experts.posterior import about_the_shape, posterior_covariance, posterior_points, shape_noise
from pliant.experts.sightings import Sightings, moved_covariance, moved_precision, together
from pliant.fitting.cost import PRIORS, SSD, ProjectOut, weigh
from pliant.fitting.fitter import make_fitter
from pliant.fitting.guided import first_level, guides, shape_of_sightings
from pliant.shape import SIMILARITY, Similarity, shape_size
from pliant.shape.facing import flipped
from pliant.starts.noise import perturbed
from test_facing import RIGHT, SETTINGS, fish, shoal


@dataclass(frozen=True)
class Knowing:
    """An expert that knows where the landmarks of some images are, up to noise, in them and in their mirrors.

    An object that is looked for far from where it is, or in another image, is not seen.
    """

    truths: tuple[tuple[np.ndarray, np.ndarray], ...]
    noise: float = 0.02
    reach: float = 0.5
    seed: int = 0
    asked: list = field(default_factory=list)
    looks = 2

    def look(self, images, shapes, number=0):
        self.asked.append(np.array(shapes))
        return together([self._at(image, shape) for image, shape in zip(images, shapes, strict=True)])

    def _at(self, image, shape):
        for number, (known, points) in enumerate(self.truths):
            for there, mirrored in ((known, False), (known[:, ::-1], True)):
                if np.array_equal(there, image):
                    truth = flipped(points, image.shape[1]) if mirrored else points
                    return self._seen(number, truth, shape)
        return Sightings(shape[None], np.zeros((1, len(shape), 2, 2)))

    def _seen(self, number, truth, shape):
        size = float(shape_size(truth))
        off = np.random.default_rng((self.seed, number)).normal(size=truth.shape) * self.noise * size
        far = np.linalg.norm(shape.mean(axis=0) - truth.mean(axis=0)) > self.reach * size
        sure = 0.0 if far else 1 / (self.noise * size) ** 2
        return Sightings((truth + off)[None], np.broadcast_to(sure * np.eye(2), (1, len(truth), 2, 2)))


def knowing(samples, **settings):
    return Knowing(tuple((sample.image(), sample.points()) for sample in samples), **settings)


def mean_error(found, samples):
    return np.mean(
        [
            np.linalg.norm(points - sample.points(), axis=1).mean() / shape_size(sample.points())
            for points, sample in zip(found, samples, strict=True)
        ]
    )


def starts_of(model, samples, noise=0.05):
    return [
        perturbed(model, sample.points(), noise, np.random.default_rng(k)) for k, sample in enumerate(samples)
    ]


def same(one, other):
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a.points, b.points)
        assert_array_equal(a.shape_parameters, b.shape_parameters)
        assert a.cost == b.cost
        assert a.sightings is None
        assert b.sightings is None


@pytest.fixture
def some(rng):
    roots = rng.normal(size=(3, 9, 2, 2))
    return Sightings(rng.normal(size=(3, 9, 2)) * 10, roots @ np.swapaxes(roots, -1, -2))


@pytest.fixture
def moves(rng):
    return Similarity(rng.normal(size=3) + 1j * rng.normal(size=3), rng.normal(size=3) * (5 + 3j))


def distances(points, sightings):
    apart = points - sightings.points
    return np.einsum("bvi,bvij,bvj->bv", apart, sightings.precision, apart)


class TestSightings:
    def test_distances_in_deviations_move_with_the_object(self, some, moves, rng):
        points = rng.normal(size=(3, 9, 2)) * 10
        assert_allclose(distances(moves.apply(points), some.moved(moves)), distances(points, some))
        assert_allclose(distances(flipped(points, 31), some.mirrored(31)), distances(points, some))

    def test_moving_back_and_mirroring_twice_change_nothing(self, some, moves):
        for again in (some.moved(moves).moved(moves.inverse()), some.mirrored(40).mirrored(40)):
            assert_allclose(again.points, some.points, atol=1e-12)
            assert_allclose(again.precision, some.precision, atol=1e-12)

    def test_a_precision_is_the_inverse_of_a_covariance_wherever_it_is(self, some, moves):
        spread = moved_covariance(np.linalg.inv(some.precision), moves)
        assert_allclose(
            moved_precision(some.precision, moves) @ spread,
            np.broadcast_to(np.eye(2), (3, 9, 2, 2)),
            atol=1e-9,
        )

    def test_what_has_no_precision_is_not_seen(self, some):
        some.precision[1, 4] = 0
        assert some.seen.sum() == 26
        assert not some.seen[1, 4]
        assert_array_equal(together([some.of([2]), some.of([0, 1])]).points, some.points[[2, 0, 1]])


class TestPosterior:
    def test_it_is_the_mean_of_the_gaussian_given_the_sighting(self, model, some, rng):
        """Against the conditional mean of the joint distribution of where a landmark is and where it is seen."""
        shape = model.levels[-1].shape
        roots = rng.normal(size=(shape.landmarks, 2, 2))
        noise = roots @ np.swapaxes(roots, -1, -2)
        seen = Sightings(
            shape.mean[None] + rng.normal(size=shape.mean.shape),
            np.tile(some.precision[:1, :4], (1, 17, 1, 1)),
        )
        found = posterior_points(shape, noise, shape.mean[None], seen)[0]
        for j in range(shape.landmarks):
            spread = noise[j] + np.linalg.inv(seen.precision[0, j])
            expected = shape.mean[j] + noise[j] @ np.linalg.solve(spread, seen.points[0, j] - shape.mean[j])
            assert_allclose(found[j], expected)
            assert_allclose(about_the_shape(seen, noise).precision[0, j], np.linalg.inv(spread))

    def test_what_is_not_seen_stays_and_what_is_certain_moves_there(self, model, rng):
        shape = model.levels[-1].shape
        fitted = np.stack([shape.mean, shape.mean * 2 + 7])
        seen = Sightings(fitted + rng.normal(size=fitted.shape), np.zeros((2, shape.landmarks, 2, 2)))
        seen.precision[1] = 1e12 * np.eye(2)
        found = posterior_points(shape, shape_noise(shape), fitted, seen)
        assert_array_equal(found[0], fitted[0])
        assert_allclose(found[1], seen.points[1], atol=1e-9)
        assert_array_equal(posterior_points(shape, shape_noise(shape) * 0, fitted, seen), fitted)
        assert not np.any(about_the_shape(seen, shape_noise(shape)).precision[0])

    def test_it_turns_and_grows_with_the_object(self, model, moves, rng):
        shape = model.levels[-1].shape
        fitted = np.stack([shape.mean] * 3)
        roots = rng.normal(size=(2, 3, shape.landmarks, 2, 2))
        noise, precision = (roots @ np.swapaxes(roots, -1, -2))[:, 0], (roots @ np.swapaxes(roots, -1, -2))[1]
        seen = Sightings(fitted + rng.normal(size=fitted.shape), precision)
        here = posterior_points(shape, noise[0], fitted, seen)
        there = posterior_points(shape, noise[0], moves.apply(fitted), seen.moved(moves))
        assert_allclose(there, moves.apply(here), atol=1e-9)
        assert np.abs(here - fitted).max() > 0.1

    def test_covariances_are_those_of_the_posterior(self, model, moves, rng):
        """In the ends, where it is a sum or an inverse of sums, and between them against draws."""
        shape = model.levels[-1].shape
        fitted = moves.apply(np.stack([shape.mean] * 3))
        roots = rng.normal(size=(3, 3, shape.landmarks, 2, 2))
        C, L, N = roots @ np.swapaxes(roots, -1, -2) + 0.1 * np.eye(2)
        # A shape without doubt leaves the noise; landmarks that are not seen have both.
        seen = Sightings(fitted, L)
        here = moved_covariance(N[0], moves)
        sure = posterior_covariance(shape, N[0], fitted, seen, C * 0)
        assert_allclose(sure, np.linalg.inv(np.linalg.inv(here) + L), rtol=1e-6, atol=1e-9)
        unseen = posterior_covariance(shape, N[0], fitted, Sightings(fitted, L * 0), C)
        assert_allclose(unseen, C + here, atol=1e-9)
        # Drawn: shapes about the fitted one, landmarks about them, and what is seen of these.
        s, x, e = (
            np.linalg.cholesky(A[0, 0]) @ rng.normal(size=(2, 200000)) for A in (C, here, np.linalg.inv(L))
        )
        gain = here[0, 0] @ np.linalg.inv(here[0, 0] + np.linalg.inv(L[0, 0]))
        left = s + x - gain @ (s + x + e)
        found = posterior_covariance(shape, N[0], fitted, seen, C)[0, 0]
        expected = (np.eye(2) - gain) @ (C[0, 0] + here[0, 0]) @ (np.eye(2) - gain).T
        expected += gain @ np.linalg.inv(L[0, 0]) @ gain.T
        assert_allclose(np.cov(left), expected, rtol=0.05, atol=0.01 * np.trace(expected))
        assert_allclose(found, expected, rtol=1e-6)

    def test_noise_is_what_the_modes_leave(self, model):
        shape = model.levels[-1].shape
        few = [float(shape_noise(shape.truncated(modes))[0, 0, 0]) for modes in (0, 2, 4)]
        assert few == sorted(few, reverse=True)
        assert few[-1] > 0


class TestShapeOfSightings:
    def truths(self, shape, rng, count=3):
        modes = rng.normal(size=(count, shape.modes)) * 0.7 * np.sqrt(shape.eigenvalues)
        flat = shape.instance(np.concatenate([np.zeros((count, SIMILARITY)), modes], axis=1))
        factor = np.array([3.0, 0.4 * np.exp(2.5j), 1j])
        return Similarity(factor, np.array([300 + 40j, 5 + 5j, -80 - 9j])).apply(flat)

    def test_a_shape_of_the_model_is_found_from_anywhere(self, model, rng):
        shape = model.levels[-1].shape
        truths = self.truths(shape, rng)
        sure = (
            np.broadcast_to(1e4 * np.eye(2), (3, shape.landmarks, 2, 2))
            / shape_size(truths)[:, None, None, None] ** 2
        )
        starts = np.stack([shape.mean] * 3)
        noise = shape_noise(shape) * 1e-6
        found, weights = shape_of_sightings(shape, noise, Sightings(truths, sure * 1e4), starts)
        assert_allclose(found, truths, atol=1e-2 * shape_size(truths).max())
        assert weights.shape == (3, shape.landmarks)

    def test_a_few_that_are_wrong_are_not_believed(self, model, rng):
        shape, noise = model.levels[-1].shape, shape_noise(model.levels[-1].shape)
        truths = self.truths(shape, rng)
        sizes = shape_size(truths)[:, None, None]
        sure = np.broadcast_to(np.eye(2), (3, shape.landmarks, 2, 2)) / (0.01 * sizes[..., None]) ** 2
        points = truths + rng.normal(size=truths.shape) * 0.01 * sizes
        wrong = points.copy()
        wrong[:, 5:60:12] += 0.4 * sizes
        starts = truths + 0.05 * sizes
        good, _ = shape_of_sightings(shape, noise, Sightings(points, sure), starts)
        found, weights = shape_of_sightings(shape, noise, Sightings(wrong, sure), starts)
        assert np.all(weights[:, 5:60:12] < 0.1)
        assert np.median(weights) > 0.8
        assert np.max(np.linalg.norm(found - good, axis=-1) / sizes[..., 0]) < 0.02

    def test_where_little_is_seen_the_start_stays(self, model, rng):
        shape, noise = model.levels[-1].shape, shape_noise(model.levels[-1].shape)
        starts = Similarity(np.array([2j]), np.array([70 + 60j])).apply(shape.mean[None])
        seen = Sightings(starts + 0.5, np.zeros((1, shape.landmarks, 2, 2)))
        same, _ = shape_of_sightings(shape, noise, seen, starts)
        assert_allclose(same, starts, atol=1e-9)
        seen.precision[0, 3] = 100 * np.eye(2)
        near, _ = shape_of_sightings(shape, noise, seen, starts)
        assert np.abs(near - starts).max() < 0.2 * shape_size(starts)


@pytest.fixture(scope="module")
def three_levels(dataset):
    """A model with a level that is coarser than those that choose between places."""
    return pliant.train(
        dataset, size=48, scales=(0.4, 0.7, 1), shape_modes=(1, 2, 5), hypotheses=9, confidence=False
    )


class TestFits:
    def test_both_together_are_better_than_either(self, model, dataset):
        samples = list(dataset[:12])
        expert, starts = knowing(samples, noise=0.02), starts_of(model, samples)
        fits = pliant.fit(replace(model, expert=expert), samples, starts)
        both = mean_error([fit.points for fit in fits], samples)
        assert both < 0.8 * mean_error([fit.sightings.points[0] for fit in fits], samples)
        assert both < 0.9 * mean_error([fit.points for fit in pliant.fit(model, samples, starts)], samples)
        assert all(fit.ok for fit in fits)

    def test_points_may_leave_the_subspace_and_parameters_do_not(self, model, dataset):
        samples = list(dataset[:3])
        led = replace(model, expert=knowing(samples, noise=0.005))
        shape = model.levels[-1].shape
        for fit in pliant.fit(led, samples, starts_of(model, samples)):
            apart = np.abs(fit.points - fit.trace[-1].points[-1])
            assert 0 < apart.max() < 0.1 * shape_size(fit.points)
            # The shape of the fit is an instance of the model, in its own view.
            assert fit.shape_parameters.shape == (shape.parameters,)
        stiff = replace(led, shape_noise=np.zeros((shape.landmarks, 2, 2)))
        for fit in pliant.fit(stiff, samples, starts_of(model, samples)):
            assert_allclose(fit.points, fit.trace[-1].points[-1], atol=1e-9)

    def test_what_is_not_seen_is_less_sure(self, model, dataset):
        sample = dataset[0]

        class Half:
            looks = 2

            def look(self, images, shapes, number=0):
                seen = knowing([sample], noise=0.005).look(images, shapes)
                precision = np.array(seen.precision)
                precision[:, ::2] = 0
                return Sightings(seen.points, precision)

        led = replace(model, expert=Half())
        fit = pliant.fit(led, sample, sample.points() + 1, confidence=True)
        spread = np.sqrt(np.trace(fit.covariance, axis1=1, axis2=2))
        alone = pliant.fit(model, sample, sample.points() + 1, confidence=True)
        assert spread[1::2].max() < spread[::2].min()
        assert spread[1::2].max() < 0.011 * shape_size(fit.points)
        assert fit.evidence is not None
        assert alone.covariance.shape == fit.covariance.shape
        assert_array_equal(fit.sightings.seen[0, ::2], False)

    def test_it_looks_twice_and_nearer_the_second_time(self, model, dataset):
        samples = list(dataset[:4])
        expert, starts = knowing(samples, noise=0.01), starts_of(model, samples, 0.15)
        make_fitter(replace(model, expert=expert)).block([sample.image() for sample in samples], starts)
        first, second = expert.asked
        assert mean_error(second, samples) < 0.3 * mean_error(first, samples)

    def test_a_start_that_is_far_off_is_no_matter(self, model, dataset):
        samples = list(dataset[:6])
        led = replace(model, expert=knowing(samples))
        near, far = (
            [fit.points for fit in pliant.fit(led, samples, starts_of(model, samples, noise))]
            for noise in (0.02, 0.2)
        )
        assert mean_error(far, samples) < 1.05 * mean_error(near, samples)

    def test_coarse_levels_are_left_out(self, model, dataset):
        led = replace(model, expert=knowing([dataset[0]]))
        start = dataset[0].points()
        coarser = replace(led, levels=(replace(model.levels[0], scale=0.25), *model.levels))
        assert [first_level(coarser, places) for places in (1, 2)] == [2, 1]
        assert first_level(replace(coarser, levels=coarser.levels[:1]), 2) == 0
        one, several = (pliant.fit(led, dataset[0], begin) for begin in (start, np.stack([start, start + 5])))
        assert [level.scale for level in one.trace] == [1.0]
        assert [level.scale for level in several.trace] == [0.5, 1.0]
        assert_allclose(one.points, several.points, atol=0.02 * shape_size(start))

    @pytest.mark.parametrize("reach", [0.1, 0.0])
    def test_coarse_levels_find_what_an_expert_has_lost(self, three_levels, dataset, reach):
        """One sees all from near, and one never does: it is sure that all is beside where it looks."""
        samples = list(dataset[:6])
        sees = knowing(samples, noise=0.01)

        class Shortsighted:
            looks = 1

            def look(self, images, shapes, number=0):
                seen = sees.look(images, shapes)
                size = shape_size(seen.points)
                near = np.linalg.norm(seen.points - shapes, axis=-1).mean(axis=-1) < reach * size
                beside = shapes + 0.1 * size[:, None, None]
                return Sightings(np.where(near[:, None, None], seen.points, beside), seen.precision)

        led = replace(three_levels, expert=Shortsighted())
        starts = starts_of(three_levels, samples, 0.12)
        checked, trusted = (
            mean_error([fit.points for fit in pliant.fit(led, samples, starts, hypotheses=count)], samples)
            for count in (None, 1)
        )
        alone = mean_error([fit.points for fit in pliant.fit(three_levels, samples, starts)], samples)
        assert trusted > 0.05
        assert checked < (0.015 if reach else 1.2 * alone)

    def test_an_expert_that_is_not_followed_is_a_witness_all_the_same(self, three_levels, dataset):
        sample = dataset[0]

        class Elsewhere:
            looks = 1

            def look(self, images, shapes, number=0):
                seen = knowing([sample], noise=0.01).look(images, shapes)
                return Sightings(seen.points + 0.2 * shape_size(sample.points()), seen.precision)

        led = replace(three_levels, expert=Elsewhere())
        fit = pliant.fit(led, sample, sample.points() + 1, confidence=True)
        assert fit.sightings is None
        assert mean_error([fit.points], [sample]) < 0.02
        assert 0.2 < fit.evidence.dissent < 0.4

    @pytest.mark.parametrize("name", ["", "po-inv-gn", "ssd-bid-gn-alt"])
    def test_without_an_expert_or_one_that_sees_nothing_the_fit_is_the_same(self, model, dataset, name):
        samples = list(dataset[:3])
        starts = starts_of(model, samples)
        plain = pliant.fit(model, samples, starts, algorithm=name)
        deaf = knowing(samples)
        same(plain, pliant.fit(replace(model, expert=deaf), samples, starts, algorithm=name, experts=False))
        assert not deaf.asked
        blind = knowing([])
        same(plain, pliant.fit(replace(model, expert=blind), samples, starts, algorithm=name))
        assert blind.asked

    def test_an_expert_that_fails_to_say_numbers_is_not_heard(self, model, dataset):
        class Confused:
            looks = 2

            def look(self, images, shapes, number=0):
                return Sightings(shapes * np.nan, np.ones((*shapes.shape, 2)))

        samples = list(dataset[:2])
        starts = starts_of(model, samples)
        same(
            pliant.fit(model, samples, starts), pliant.fit(replace(model, expert=Confused()), samples, starts)
        )

    def test_images_in_a_block_do_not_mix(self, model, dataset):
        samples = list(dataset[:5])
        led = replace(model, expert=knowing(samples[::2]))
        starts = starts_of(model, samples)
        fits = pliant.fit(led, samples, starts, jobs=1)
        assert [fit.sightings is not None for fit in fits] == [True, False, True, False, True]
        for sample, start, fit in zip(samples, starts, fits, strict=True):
            alone = pliant.fit(led, sample, start)
            assert_allclose(alone.points, fit.points, atol=1e-3)

    def test_the_best_of_several_starts_is_kept(self, model, dataset):
        sample = dataset[3]
        expert = knowing([sample], reach=0.4)
        beside = sample.points() + (0.25 * shape_size(sample.points()), 0)
        away = sample.points() - (0.45 * shape_size(sample.points()), 0)
        led = replace(model, expert=expert)
        fit = pliant.fit(led, sample, np.stack([away, beside]))
        assert fit.sightings is not None
        assert mean_error([fit.points], [sample]) < 0.03
        assert_allclose(fit.start, beside)

    @pytest.mark.parametrize("weight", [1e-9, 1e9])
    def test_the_weight_is_between_the_pixels_and_the_expert(self, model, dataset, weight):
        """With hardly any weight the fit is that of the pixels; with a great one, that of the sightings."""
        samples = list(dataset[:3])
        expert = knowing(samples, noise=0.03)
        led = replace(model, expert=expert, expert_weight=weight)
        starts = starts_of(model, samples)
        led_to = guides(led, expert, [sample.image() for sample in samples], starts)
        for fit, guide, sample in zip(
            pliant.fit(led, samples, starts, iterations=30), led_to, samples, strict=True
        ):
            shape = fit.trace[-1].points[-1]
            pixels = pliant.fit(model, sample, guide.points, iterations=30, hypotheses=1).trace[-1].points[-1]
            near = np.abs(shape - (pixels if weight < 1 else guide.points)).max() / shape_size(shape)
            other = np.abs(shape - (guide.points if weight < 1 else pixels)).max() / shape_size(shape)
            assert near < 0.02
            assert near < other

    def test_a_turned_image_gives_the_turned_fit(self, model, dataset):
        sample = dataset[2]
        image = sample.image()
        start = perturbed(model, sample.points(), 0.03, np.random.default_rng(3))
        turned = np.ascontiguousarray(np.rot90(image, -1))
        moved = Similarity(np.asarray(1j), np.asarray(image.shape[0] - 1 + 0j))
        seen = Knowing(((image, sample.points()),), noise=0.02)._at(image, start)
        # Surer along one axis than along the other, so that turning matters.
        seen = Sightings(seen.points, seen.precision @ np.diag([1.0, 0.05]))

        class Turning:
            looks = 2

            def look(self, images, shapes, number=0):
                return together([seen if np.array_equal(one, image) else seen.moved(moved) for one in images])

        led = replace(model, expert=Turning())
        one, other = pliant.fit(led, [image, turned], [start, moved.apply(start)], iterations=(12, 8))
        assert_allclose(other.points, moved.apply(one.points), atol=1e-3 * shape_size(one.points))
        assert_allclose(other.sightings.points[0], moved.apply(one.sightings.points[0]), atol=1e-9)

    def test_the_algorithm_decides_nothing_about_the_weight(self):
        """Every cost is a negative log-likelihood in units of its own, and what experts add is in the same."""
        for prior in PRIORS:
            for cost in (SSD(prior), ProjectOut(0.0, prior), ProjectOut(0.5, prior)):
                weights = weigh(cost, np.ones(3), np.array([4.0, 2.0]), 0.01)
                assert weights.residual / weights.unit == pytest.approx(1 / 0.01)


@pytest.fixture(scope="module")
def swimming():
    return pliant.train(shoal(20, RIGHT), **SETTINGS, facing="both", confidence=False)


class TestFacing:
    """Fish that face either way: the expert looks at the image, and at its mirror image."""

    @pytest.mark.parametrize("number", range(40, 46))
    @pytest.mark.parametrize("guessing", [False, True])
    def test_the_facing_is_found_and_all_is_in_the_frame_of_the_image(self, swimming, number, guessing):
        right = number % 2 == 1
        image, points = fish(number, facing_right=right)
        known = knowing([], noise=0.01)
        expert = replace(known, truths=((image, points),))

        class Guessing:
            """It knows fish that face left, and otherwise makes something up, of which it is not sure."""

            looks = 2

            def look(self, images, shapes, number=0):
                seen = expert.look(images, shapes)
                for row, one in enumerate(images):
                    if np.array_equal(one, image) is right:
                        noise = np.random.default_rng(row).normal(size=shapes[row].shape)
                        seen.points[row] = shapes[row] + 0.05 * shape_size(points) * noise
                        seen.precision[row] *= 0.05
                return seen

        led = replace(swimming, expert=Guessing() if guessing else expert)
        start = perturbed(swimming, points, 0.05, np.random.default_rng(number))
        found = pliant.fit(led, image, start)
        assert found.mirrored is right
        assert np.linalg.norm(found.points - points, axis=1).mean() < 0.02 * shape_size(points)
        off = np.linalg.norm(found.sightings.points[0] - points, axis=1).mean()
        assert off < 0.03 * shape_size(points)
