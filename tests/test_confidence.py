"""Confidence: evidence is the same whoever found the fit, and bad fits are told from good ones."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.appearance.interpolation import bilinear
from pliant.data.dataset import dataset_from_arrays
from pliant.data.validation import SamplesLeftOut
from pliant.experts.network import NetworkExpert
from pliant.experts.sightings import Sightings
from pliant.fitting.fitter import make_fitter
from pliant.fitting.looking import look
from pliant.fitting.states import State
from pliant.fitting.status import Status
from pliant.kernels.system import Needs
from pliant.metrics import normalised_error
from pliant.shape import shape_size
from pliant.starts.noise import perturbed
from pliant.starts.placement import LOST
from pliant.synthetic import faces
from pliant.trust import calibration
from pliant.trust.calibration import (
    REGRESSED_BOUNDS,
    _Judged,
    _learned,
    _logistic,
    calibrate,
)
from pliant.trust.confidence import (
    AGAINST,
    Confidence,
    Evidence,
    predictors,
    require_confidence,
    standardised,
)
from pliant.trust.evidence import _spread, gather, with_sightings
from pliant.trust.mismatch import mismatches, relative_costs, unexplained_energy
from pliant.trust.scatter import likeliest_scatter


@pytest.fixture(scope="module")
def fits(calibrated, dataset):
    """Fits from good starts, and from starts that are hopeless."""
    images = [sample.image() for sample in dataset][:8]
    truths = [sample.points() for sample in dataset][:8]
    rng = np.random.default_rng(0)
    near = [perturbed(calibrated, truth, 0.02, rng) for truth in truths]
    far = [truth + 0.5 * np.ptp(truth, axis=0) * (1, -0.4) for truth in truths]
    return pliant.fit(calibrated, images + images, near + far, jobs=1), truths + truths


def test_progress_ends_with_the_images_that_are_fitted(model, dataset, monkeypatch):
    steps = []

    class Recorded(calibration.Progress):
        def start(self, description, total, done=0, failed=0):
            steps.append([description, total, 0])

            def advance(failed=False):
                steps[-1][-1] += 1

            return advance

    monkeypatch.setattr(calibration, "Progress", Recorded)
    calibrate(model, dataset, images=120, progress=False)
    # All samples are held out in turn, and there are no 120.
    assert steps == [["learning confidence", 24, 24]]


class TestMismatch:
    @pytest.mark.parametrize("sampling", [1.0, 0.3])
    @pytest.mark.parametrize("device", ["cpu", "reference"])
    def test_it_is_that_of_the_pixels_at_any_appearance(self, model, dataset, rng, device, sampling):
        """|i - a|² / |a|² with the likeliest a, whatever appearance the System was computed with."""
        fitter = make_fitter(model, device=device, sampling=sampling, jobs=1)
        level, subspace, problem = fitter.prepared[-1]
        image, truth = dataset[0].image(), dataset[0].points()
        (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
        shape = level.shape.instance(level.shape.project(view.to_view(truth)))
        c = rng.normal(size=(3, len(subspace.variances))) * np.sqrt(subspace.variances)
        needs = Needs(image=False, model=False)
        system = problem.kernel.system([view.pixels] * 3, np.array([shape] * 3), c, needs)
        unexplained = unexplained_energy(system.residual_residual, system.basis_residual)
        found = mismatches(subspace, system.basis_residual + c, unexplained)
        warped = bilinear(view.pixels, level.motion.positions(shape))
        seen = warped.ravel() if sampling == 1 else warped[level.motion.frame.sample(sampling)].ravel()
        A, mean = subspace.basis.astype(np.float64), subspace.mean.astype(np.float64)
        precision = np.eye(len(A)) / subspace.noise + np.diag(1 / subspace.variances)
        likeliest = mean + A.T @ np.linalg.solve(precision, A @ (seen - mean) / subspace.noise)
        expected = np.sum((seen - likeliest) ** 2) / np.sum(likeliest**2)
        assert_allclose(found, expected, rtol=1e-4)

    def test_what_is_unexplained_is_the_rest_and_never_less_than_nothing(self):
        """r'r - |A'r|²: 5 - 4.5, and 1 - 4 by rounding alone."""
        found = unexplained_energy(np.array([5.0, 1.0]), np.array([[1.5, 1.5], [2.0, 0.0]]))
        assert_allclose(found, [0.5, 0.0])

    def test_relative_costs_are_over_the_mean_square_of_what_is_covered(self, model, rng, monkeypatch):
        level = model.levels[-1]
        image, shape = rng.normal(size=(90, 90, 2)).astype(np.float32), level.shape.mean + 45
        flat, lost = np.full((90, 90, 2), 3, dtype=np.float32), shape.copy()
        lost[0] = np.nan
        found = relative_costs(level, [flat, flat], np.array([shape, lost]), [18.0, 18.0])
        assert found[0] == pytest.approx(2)
        assert np.isnan(found[1])
        # If every pixel is looked at, it is exact.
        monkeypatch.setattr("pliant.trust.mismatch._EVERY", 1)
        square = np.mean(np.square(bilinear(image, level.motion.positions(shape))))
        assert relative_costs(level, [image], shape[None], [1.0]) == pytest.approx(1 / square)

    def test_a_wall_has_a_mismatch_of_one(self, model, dataset):
        """Nothing is left unexplained there but the model's own idea of the object."""
        image, truth = dataset[0].image(), dataset[0].points()
        finest = replace(model, levels=model.levels[-1:])
        face, wall = pliant.fit(finest, [image, np.full_like(image, 90)], [truth, truth], jobs=1)
        assert wall.mismatch == pytest.approx(1, rel=1e-3)
        assert face.mismatch < 0.3

    def test_it_tells_fits_that_are_lost(self, model, dataset):
        """Starts at the truth, and starts beside the object."""
        finest = replace(model, levels=model.levels[-1:])
        samples, every = dataset[:8], np.arange(model.landmarks, dtype=np.int32)
        truths = [sample.points() for sample in samples]
        starts = truths + [truth + 0.5 * np.ptp(truth, axis=0) * (1, -0.4) for truth in truths]
        fits = pliant.fit(finest, [*samples, *samples], starts, jobs=1)
        pairs = zip(fits, truths + truths, strict=True)
        errors = np.array([normalised_error(fit.points, truth, every) for fit, truth in pairs])
        found = np.array([fit.mismatch for fit in fits])
        assert errors.max() > 0.1
        assert found[errors < 0.05].max() < found[errors > 0.1].min()

    def test_a_fit_that_is_lost_before_the_finest_level_has_none(self, fits):
        lost = [fit for fit in fits[0] if len(fit.trace) == 1]
        assert lost
        assert np.isnan([fit.mismatch for fit in lost]).all()

    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_a_fit_that_failed_has_none(self, model):
        fit = pliant.fit(model, np.zeros((60, 60)), np.full((model.landmarks, 2), np.nan), jobs=1)
        assert fit.status is Status.FAILED
        assert np.isnan(fit.mismatch)


class TestEvidence:
    def test_it_is_that_of_the_dense_formulas(self, model, dataset):
        """Against plain NumPy on the residual itself."""
        fitter = make_fitter(model, device="reference", jobs=1)
        level, subspace, problem = fitter.prepared[-1]
        image, truth = dataset[0].image(), dataset[0].points()
        (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
        p = level.shape.project(view.to_view(truth))[None]
        (evidence,), spread = gather(problem.kernel, level, subspace, [view.pixels], p)
        kernel = problem.kernel
        e = kernel._warped(view.pixels, level.shape.instance(p[0])).ravel() - subspace.mean
        A = np.asarray(subspace.basis, dtype=np.float64)
        discarded = level.appearance.total_variance - level.appearance.eigenvalues.sum()
        assert_allclose(evidence.outside, np.sum((e - A.T @ (A @ e)) ** 2) / discarded, rtol=1e-5)
        assert_allclose(
            evidence.explained, np.sum((A @ e) ** 2) / level.appearance.eigenvalues.sum(), rtol=1e-5
        )
        assert_allclose(evidence.shape, np.mean(p[0, 4:] ** 2 / level.shape.eigenvalues), rtol=1e-9)
        # The precision with an explicit M, and the covariance of one landmark with explicit matrices.
        system = kernel.system([view.pixels], level.shape.instance(p), np.zeros((1, len(A))), Needs())
        variances, n = subspace.variances, subspace.noise
        JMJ = (
            system.image_image[0]
            - system.basis_image[0].T @ np.diag(variances / (variances + n)) @ system.basis_image[0]
        ) / n
        assert_allclose(evidence.sharpness, n * np.trace(JMJ) / len(JMJ), rtol=1e-6)
        prior = np.diag([0, 0, 0, 0, *(1 / level.shape.eigenvalues)])
        S = level.shape.basis
        assert_allclose(spread[0, 7], (S @ np.linalg.inv(JMJ + prior) @ S.T)[14:16, 14:16], rtol=1e-6)

    def test_energies_on_some_pixels_are_brought_to_those_of_all(self, model, dataset):
        image, truth = dataset[0].image(), dataset[0].points()
        seen = []
        for sampling in (1.0, 0.4):
            level, subspace, problem = make_fitter(model, sampling=sampling, jobs=1).prepared[-1]
            (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
            p = level.shape.project(view.to_view(truth))[None]
            seen += gather(problem.kernel, level, subspace, [view.pixels], p)[0]
        assert seen[1].sharpness == pytest.approx(seen[0].sharpness, rel=0.5)
        assert seen[1].explained == pytest.approx(seen[0].explained, rel=0.5)

    def test_what_an_expert_heard_makes_places_surer(self, model, dataset):
        """Its precision of the parameters adds to that of the pixels and of the prior."""
        fitter = make_fitter(model, device="reference", jobs=1)
        level, subspace, problem = fitter.prepared[-1]
        image, truth = dataset[0].image(), dataset[0].points()
        (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
        p = level.shape.project(view.to_view(truth))[None]
        _, alone = gather(problem.kernel, level, subspace, [view.pixels], p)
        _, nothing = gather(
            problem.kernel, level, subspace, [view.pixels], p, np.zeros((1, *2 * p.shape[1:]))
        )
        assert_allclose(nothing, alone)
        much = 1e9 * np.eye(p.shape[1])[None]
        _, led = gather(problem.kernel, level, subspace, [view.pixels], p, much)
        assert np.all(np.linalg.eigvalsh(alone - led) > 0)
        # So much precision that nothing else counts: the covariance is that of the basis alone.
        basis = level.shape.basis.reshape(level.shape.landmarks, 2, -1)
        assert_allclose(led[0], 1e-9 * basis @ np.swapaxes(basis, 1, 2), rtol=0.05, atol=1e-12)

    def test_a_model_that_keeps_all_variance_does_not_divide_by_nothing(self, model, dataset):
        """What it keeps none of counts as a millionth of the whole."""
        level, subspace, problem = make_fitter(model, jobs=1).prepared[-1]
        kept = float(level.appearance.eigenvalues.sum())
        image, truth = dataset[0].image(), dataset[0].points()
        (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
        p = level.shape.project(view.to_view(truth))[None]

        def outside(total):
            of_total = replace(level, appearance=replace(level.appearance, total_variance=total))
            (evidence,), _ = gather(problem.kernel, of_total, subspace, [view.pixels], p)
            return evidence.outside

        assert outside(kept) == pytest.approx(outside(2 * kept) / 1e-6)

    def test_an_image_without_slopes_tells_nothing_of_places(self, model):
        """Similarities are open then: their variance is large, and never below zero."""
        level = model.levels[-1]
        spread = _spread(level, np.zeros((1, level.shape.parameters, level.shape.parameters)))
        assert np.linalg.eigvalsh(spread).min() > 1e3

    def test_without_noise_a_millionth_of_the_largest_variance_takes_its_place(self, model, dataset):
        level, subspace, problem = make_fitter(model, jobs=1).prepared[-1]
        image, truth = dataset[0].image(), dataset[0].points()
        (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
        p = level.shape.project(view.to_view(truth))[None]

        def found(noise):
            return gather(problem.kernel, level, replace(subspace, noise=noise), [view.pixels], p)

        (one,), spread = found(0.0)
        (other,), same = found(1e-6 * float(subspace.variances.max()))
        assert one.sharpness == pytest.approx(other.sharpness)
        assert_allclose(spread, same)

    def test_what_an_expert_sees_counts_in_sizes_also_below_a_pixel(self, dataset):
        truth = dataset[0].points()
        small = truth / (2 * float(shape_size(truth)))
        seen = Sightings(small[None] + 0.05, np.tile(np.eye(2) * 1e4, (1, len(small), 1, 1)))
        told = with_sightings(Evidence(1.0, 1.0, 1.0, 1.0, 1.0), seen, small)
        assert told.dissent == pytest.approx(0.05 * np.sqrt(2) / 0.5)
        nowhere = Evidence(1.0, 1.0, 1.0, 1.0, 1.0)
        assert with_sightings(nowhere, seen, np.zeros_like(small)) is nowhere

    @pytest.mark.parametrize("algorithm", ["po-inv-gn", "po-asy-gn", "ssd-for-w"])
    def test_it_does_not_depend_on_the_algorithm(self, model, dataset, algorithm):
        """Each algorithm has a kernel of its own; all weigh one place alike."""
        image, truth = dataset[1].image(), dataset[1].points()

        def weighed(fitter):
            level, subspace, problem = fitter.prepared[-1]
            (view,) = look(level, model.size, [State(image, truth, truth)], shared=False, uploads=None).views
            p = level.shape.project(view.to_view(truth))[None]
            (evidence,), spread = gather(problem.kernel, level, subspace, [view.pixels], p)
            return evidence, spread

        expected, expected_spread = weighed(make_fitter(model, device="reference"))
        evidence, spread = weighed(make_fitter(model, algorithm=algorithm))
        assert_allclose(evidence, expected, rtol=1e-3)
        assert_allclose(spread, expected_spread, rtol=1e-2, atol=1e-3 * spread.max())

    def test_sampling_keeps_its_meaning(self, calibrated, dataset):
        image, truth = dataset[2].image(), dataset[2].points()
        whole, some = (pliant.fit(calibrated, [image], [truth], sampling=s, jobs=1)[0] for s in (1.0, 0.5))
        assert_allclose(some.evidence, whole.evidence, rtol=0.5)

    def test_without_it_there_is_none(self, calibrated, dataset):
        (fit,) = pliant.fit(calibrated, [dataset[0]], [dataset[0].points()], confidence=False)
        assert fit.evidence is None
        assert fit.covariance is None
        assert np.isnan(fit.confidence())


class TestProbability:
    def test_good_fits_are_told_from_bad_ones(self, fits):
        results, truths = fits
        errors = np.array(
            [
                np.linalg.norm(f.points - t, axis=1).mean() / np.ptp(t, axis=0).mean()
                for f, t in zip(*fits, strict=True)
            ]
        )
        scores = np.array([fit.confidence(0.05) for fit in results])
        good = errors < 0.05
        assert 4 <= good.sum() <= 12
        assert scores[good].mean() > scores[~good].mean() + 0.4
        assert truths

    def test_it_rises_with_the_bound(self, fits):
        for fit in fits[0]:
            scores = [fit.confidence(bound) for bound in (0.001, *REGRESSED_BOUNDS, 0.05, 0.9)]
            ordered = [fit.confidence(bound) for bound in sorted((0.001, *REGRESSED_BOUNDS, 0.05, 0.9))]
            assert ordered == sorted(scores)
            assert all(0 <= score <= 1 for score in scores)

    def test_what_was_lost_has_none(self, fits):
        assert replace(fits[0][0], status=Status.DIVERGED).confidence() == 0
        assert replace(fits[0][0], evidence=Evidence(np.nan, 1, 1, 1, 1)).confidence() == 0

    def test_wrong_bounds_get_a_sentence(self, fits):
        for bound in (0, -1, 1, 4, np.nan):
            for fit in (fits[0][0], replace(fits[0][0], status=Status.FAILED)):
                with pytest.raises(ValueError, match=f"bound={bound:g}: .* above 0 and below 1: 0.04 is 4 %"):
                    fit.confidence(bound)

    def test_a_model_that_was_not_calibrated_does_not_know(self, model, dataset):
        (fit,) = pliant.fit(model, [dataset[0]], [dataset[0].points()])
        assert np.isnan(fit.confidence())
        assert fit.covariance is None
        (fit,) = pliant.fit(model, [dataset[0]], [dataset[0].points()], confidence=True)
        assert np.isnan(fit.confidence())
        assert fit.covariance.shape == (68, 2, 2)


class TestFormulas:
    """What the head of confidence.py says, on numbers that can be followed by hand."""

    EVIDENCE = Evidence(outside=np.e, explained=np.e**2, shape=3.0, sharpness=np.e**4, mismatch=np.e**5)

    def confidence(self, **changes):
        made = {
            "fits": 9,
            "centre": np.zeros(5),
            "scale": np.ones(5),
            "bounds": np.array([0.01, 0.04, 0.16]),
            "weights": np.array([[-1.0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1.0, 0]]),
            "offsets": np.array([0.0, 1.0, -1.0]),
            "factor": 2.0,
            "scatter": np.tile(np.diag([3.0, 1.0]), (1, 1, 1)),
        }
        return Confidence(**(made | changes))

    def test_predictors(self):
        assert_allclose(predictors(self.EVIDENCE)[:5], [1, 2, 4, 3, 5])
        told = self.EVIDENCE._replace(doubt=np.e**-1, dissent=np.e**-2)
        assert_allclose(predictors(told), [1, 2, 4, 3, 5, -1, -2])
        nothing = Evidence(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        assert_allclose(predictors(nothing), np.where(np.arange(7) == 3, 0, np.log(1e-9)))

    def test_which_predictors_speak_only_against_a_fit(self):
        told = self.EVIDENCE._replace(doubt=0.1, dissent=0.2)
        before, against = predictors(told), {}
        for name in Evidence._fields:
            (moved,) = np.flatnonzero(
                predictors(told._replace(**{name: 0.5 * getattr(told, name)})) != before
            )
            against[name] = bool(AGAINST[moved])
        assert {name for name, only in against.items() if only} == {"outside", "doubt", "dissent"}
        assert len(against) == len(AGAINST)

    def test_evidence_without_a_mismatch_is_that_of_nothing_seen(self):
        """Models of older versions did not know it; its logarithm is 0, which tells nothing."""
        assert predictors(Evidence(1, 1, 1, 1, 1))[4] == 0

    def test_odds_at_the_bounds_and_between_them(self):
        """They are -1, 1 and 3 - 1 = 2; 0.02 and 0.08 are half way, and beyond the last nothing changes."""
        of = self.confidence()
        for bound, odds in [(0.01, -1), (0.02, 0), (0.04, 1), (0.08, 1.5), (0.16, 2), (0.9, 2)]:
            assert of.probability(self.EVIDENCE, bound) == pytest.approx(1 / (1 + np.exp(-odds)))
        assert of.probability(self.EVIDENCE) == of.probability(self.EVIDENCE, 0.04)
        falling = self.confidence(offsets=np.array([0.0, 1.0, -4.0]))
        assert falling.probability(self.EVIDENCE, 0.16) == falling.probability(self.EVIDENCE, 0.04)

    @pytest.mark.parametrize("least", [0, 0.5, 1, -0.01, 1.01, 90, np.nan])
    def test_a_limit_of_confidence_is_a_probability(self, least):
        if 0 <= least <= 1:
            require_confidence("trusted", least)
            return
        with pytest.raises(ValueError, match=f"trusted={least:g}: it must be a probability"):
            require_confidence("trusted", least)
        with pytest.raises(ValueError, match="above 0 and below 1"):
            self.confidence().probability(self.EVIDENCE, 4)

    def test_errors_below_the_least_bound_are_rare_in_proportion(self):
        """What the regression of 0.01 says must not hold for 0.001 too."""
        of = self.confidence(offsets=np.array([50.0, 50.0, 50.0]))
        for bound, probability in [(0.01, 1), (0.005, 0.5), (0.001, 0.1), (1e-9, 1e-7)]:
            assert of.probability(self.EVIDENCE, bound) == pytest.approx(probability)

    def test_predictors_are_standardised(self):
        moved = self.confidence(centre=np.full(5, 0.5), scale=np.full(5, 0.25))
        assert moved.probability(self.EVIDENCE, 0.01) == pytest.approx(1 / (1 + np.exp(2)))

    def test_an_expert_is_no_surer_than_three_deviations_below_the_usual(self):
        seen = np.array([-100.0, -3.5, -2.5, 0, 1, -3.5, -3.5])
        assert_allclose(standardised(seen, np.zeros(7), np.ones(7)), [-100, -3.5, -2.5, 0, 1, -3, -3])
        assert_allclose(standardised(seen / 2, np.zeros(7), np.ones(7)), seen / 2)

    def test_an_object_and_a_small_error_must_both_be_there(self):
        """The odds of an object are -1 - 2 + 4 + 3 - 5 + 2 = 1."""
        weights = np.array([-1.0, -1, 1, 1, -1, 2])
        both = self.confidence(object_weights=weights).probability(self.EVIDENCE, 0.01)
        assert both == pytest.approx(1 / (1 + np.exp(1)) / (1 + np.exp(-1)))

    def test_odds_beyond_all_numbers(self):
        sure = self.confidence(offsets=np.array([-1e6, 0.0, 1e6]))
        assert sure.probability(self.EVIDENCE, 0.01) == pytest.approx(0, abs=1e-99)
        assert sure.probability(self.EVIDENCE, 0.16) == 1

    def test_the_expert_speaks_against_a_fit_only(self):
        """Of the weights 2 and -1 only the second counts: odds -1 · -2 - 3 = -1."""
        wide = {"centre": np.zeros(7), "scale": np.ones(7), "weights": np.zeros((3, 7))}
        heard = self.confidence(**wide, expert_weights=np.array([2.0, -1.0, -3.0]))
        told = self.EVIDENCE._replace(doubt=np.e**-1, dissent=np.e**-2)
        silent = heard.probability(self.EVIDENCE, 0.04)
        assert silent == pytest.approx(1 / (1 + np.exp(-1)))
        assert heard.probability(told, 0.04) == pytest.approx(silent / (1 + np.exp(1)))

    def test_without_an_expert_its_predictors_are_as_usual(self):
        """Whatever weight they have."""
        wide = {"centre": np.full(7, 0.5), "scale": np.ones(7)}
        told = np.tile([0.1, 0, 0, 0, 0, 3.0, 7.0], (3, 1))
        heard = self.confidence(**wide, weights=told).probability(self.EVIDENCE, 0.04)
        alone = self.confidence(**wide, weights=told * [1, 1, 1, 1, 1, 0, 0]).probability(self.EVIDENCE, 0.04)
        assert heard == alone

    def test_covariance(self):
        """A quarter of a turn exchanges the axes of the scatter; the spread is in the image already."""
        spread = np.tile(np.diag([1.0, 5.0]), (1, 1, 1))
        found = self.confidence().covariance(self.EVIDENCE.outside, spread, 10.0, np.pi / 2)
        assert_allclose(found, [np.diag([2 * np.e + 100, 10 * np.e + 300])], atol=1e-9)


class TestCovariance:
    def test_it_covers_what_it_says(self, calibrated):
        """About nine in ten landmarks of new faces lie within their ellipse of 90 %."""
        others = faces(12, seed=9, image_size=96)
        starts = [perturbed(calibrated, sample.points(), 0.02, np.random.default_rng(1)) for sample in others]
        inside = []
        for fit, sample in zip(pliant.fit(calibrated, list(others), starts), others, strict=True):
            d = fit.points - sample.points()
            assert np.all(np.linalg.eigvalsh(fit.covariance) > 0)
            inside.append(np.einsum("vi,vij,vj->v", d, np.linalg.inv(fit.covariance), d) < 4.605)
        assert 0.7 < np.mean(inside) < 0.99

    def test_scatter_turns_with_the_object(self, calibrated):
        learned = calibrated.confidence
        nothing = np.zeros_like(learned.scatter)
        upright, lying = (
            learned.covariance(np.array(1.0), nothing, np.array(10.0), np.array(a)) for a in (0, np.pi / 2)
        )
        assert_allclose(upright, 100 * learned.scatter)
        # The x axis turns towards the y axis: what varied along x now varies along y.
        assert_allclose(lying[:, 1, 1], upright[:, 0, 0])
        assert_allclose(lying[:, 0, 1], -upright[:, 0, 1])

    def test_it_grows_with_the_image(self, calibrated, dataset):
        image, truth = dataset[3].image(), dataset[3].points()
        large = np.repeat(np.repeat(image, 2, axis=0), 2, axis=1)
        small, big = pliant.fit(calibrated, [image, large], [truth, 2 * truth + 0.5], jobs=1)
        ratio = (
            np.trace(big.covariance, axis1=1, axis2=2).sum()
            / np.trace(small.covariance, axis1=1, axis2=2).sum()
        )
        assert 3 < ratio < 5.5


class TestCalibration:
    def test_the_model_is_the_same_but_for_its_confidence(self, model, calibrated, tmp_path):
        assert calibrated.levels is model.levels
        assert model.confidence is None
        calibrated.save(tmp_path / "m.pliant")
        back = pliant.load(tmp_path / "m.pliant").confidence
        for name, value in vars(calibrated.confidence).items():
            assert (value is None) == (getattr(back, name) is None)
            if value is not None:
                assert_allclose(getattr(back, name), value)

    def test_groups_are_held_out_whole(self, model, dataset, monkeypatch):
        import pliant.trust.calibration as module

        grouped = replace(
            dataset, samples=tuple(replace(s, group=f"person {k // 4}") for k, s in enumerate(dataset))
        )
        seen = []

        def judge(partial, held, *rest):
            seen.append({sample.group for sample in held})
            return []

        monkeypatch.setattr(module, "_judge", judge)
        monkeypatch.setattr(
            module, "_trained_like", lambda model, rest, *others: seen.append({s.group for s in rest})
        )
        with pytest.raises(ValueError, match="almost no held-out image"):
            calibrate(model, grouped, progress=False)
        assert len(seen) == 10
        for trained, held in zip(seen[::2], seen[1::2], strict=True):
            assert held
            assert not trained & held

    def test_only_a_mesh_of_the_users_own_is_kept(self, model, dataset, monkeypatch):
        """Triangles of one mean shape may lie on a line in another."""
        import pliant.trust.calibration as module

        given = []
        monkeypatch.setattr(
            module,
            "build_model",
            lambda data, settings, **rest: given.append(
                settings.triangles if settings.memory_gb == model.settings.memory_gb else "all"
            ),
        )
        module._trained_like(model, dataset, dataset, 1)
        assert given == [None]
        fewer = model.levels[-1].motion.frame.triangles[:-1]
        own = pliant.train(
            dataset, size=40, shape_modes=(2, 5), triangles=fewer, progress=False, confidence=False
        )
        module._trained_like(own, dataset, dataset, 1)
        assert len(given[1]) == len(fewer)

    def test_what_is_fitted_to_judge_a_model(self, model, dataset, monkeypatch):
        """Whole samples, and of a lopsided object every third in a mirror too, at its landmarks there.

        What cannot be read is left out.
        """

        def damaged():
            raise ValueError("damaged")

        truths = [sample.points().copy() for sample in dataset[:6]]
        truths[1][5] = np.nan
        images = [sample.image() for sample in dataset[:6]]
        held = [*dataset_from_arrays(images, truths), SimpleNamespace(image=damaged)]
        tried = []
        nothing = SimpleNamespace(evidence=None)
        monkeypatch.setattr(
            calibration, "fit_all", lambda fitter, work: (tried.append(one) or nothing for one in work)
        )
        for lopsided in (False, True):
            tried.clear()
            calibration._judge(model, held, None, lopsided, "po-inv-gn", 0, 1, lambda: None)
            of = [[start for seen, start in tried if np.array_equal(seen, image)] for image in images]
            assert [len(starts) for starts in of] == [5, 0, 5, 5, 5, 5]
            turned = [
                (number, start)
                for number, image in enumerate(images)
                for seen, start in tried
                if np.array_equal(seen, image[:, ::-1])
            ]
            assert [number for number, _ in turned] == ([0, 3] if lopsided else [])
            for number, start in turned:
                middle = images[number].shape[1] - 1 - truths[number][:, 0].mean()
                assert start[:, 0].mean() == pytest.approx(middle, abs=0.2 * np.ptp(start[:, 0]))

    def test_lopsided_is_what_differs_from_its_mirror_image(self, model, dataset, rng):
        def of(shapes, mirror=False):
            held = dataset_from_arrays([dataset[0].image()] * len(shapes), shapes)
            return calibration._lopsided(replace(model, settings=model.settings.changed(mirror=mirror)), held)

        hook = 40 + 20 * rng.normal(size=(model.landmarks, 2))
        hooks = [hook + rng.normal(size=hook.shape) for _ in range(6)]
        gap = hooks[0].copy()
        gap[3] = np.nan
        assert of(hooks)
        assert of([*hooks, gap])
        assert not of(hooks, mirror=True)
        assert not of(hooks[:1])
        assert of(hooks[:2])
        assert not of([sample.points() for sample in dataset])

    def test_the_doubts_of_an_expert_are_kept_if_there_was_one(self, fits, calibrated):
        (fit, *_), (truth, *_) = fits
        assert calibration._judged(calibrated, fit, truth, True).doubts is None
        size = float(shape_size(fit.points))
        precision = np.tile(np.eye(2), (1, len(truth), 1, 1)) / (0.03 * size) ** 2
        told = replace(fit, sightings=Sightings(fit.points[None], precision))
        assert_allclose(calibration._judged(calibrated, told, truth, True).doubts, 0.03)

    @pytest.mark.parametrize("mirrored", [False, True])
    def test_deviations_are_turned_as_the_mean_is(self, model, rng, mirrored):
        """An object of known size, turned by 0.7, in the mirror or not; deviations and spread are its own."""
        mean = model.levels[-1].shape.mean
        shares = 0.02 * rng.normal(size=mean.shape)
        spread = np.tile(np.array([[4e-4, 1e-4], [1e-4, 2e-4]]), (len(mean), 1, 1))
        turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
        flip = np.array([-1.0, 1.0]) if mirrored else np.ones(2)
        points = (3 * mean @ turn.T + 200) * flip
        size = float(shape_size(points))
        truth = points - size * (shares @ turn.T) * flip
        covariance = size**2 * (turn @ spread @ turn.T) * np.outer(flip, flip)
        evidence = Evidence(1, 1, 1, 1, 1)
        fit = SimpleNamespace(
            points=points, covariance=covariance, evidence=evidence, mirrored=mirrored, sightings=None
        )
        found = calibration._judged(model, fit, truth, False)
        assert_allclose(found.deviations, shares, atol=1e-9)
        assert_allclose(found.spread, spread, atol=1e-12)
        distance = np.linalg.norm(shares, axis=1).mean()
        assert found.error == pytest.approx(distance * size / float(shape_size(truth)))
        assert (found.near, found.doubts, found.evidence) == (False, None, evidence)

    def test_which_fits_teach_something(self):
        def fit(evidence, lost):
            return SimpleNamespace(evidence=evidence, status=SimpleNamespace(lost=lost))

        some = Evidence(1, 1, 1, 1, 1)
        assert [calibration._usable(fit(some, lost), True) for lost in (False, True)] == [True, True]
        assert [calibration._usable(fit(some, lost), False) for lost in (False, True)] == [True, False]
        assert not calibration._usable(fit(None, False), True)

    def test_fits_are_compared_with_their_own_truth(self, model, dataset, monkeypatch):
        """Four near each object, then those that begin elsewhere, and the mirror image at its landmarks there."""
        held = dataset[:2]
        good = SimpleNamespace(evidence=Evidence(1, 1, 1, 1, 1), status=SimpleNamespace(lost=False))
        asked = []

        def fit_all(fitter, work):
            asked.append(fitter)
            return (good for _ in work)

        monkeypatch.setattr(calibration, "fit_all", fit_all)
        monkeypatch.setattr(calibration, "_judged", lambda model, fit, truth, near: (truth, near))
        advanced = []
        args = ("po-inv-gn", 0, 1, lambda: advanced.append(1))
        made = calibration._judge(model, held, None, True, *args)
        turned = held[0].points() * (-1, 1) + (held[0].image().shape[1] - 1, 0)
        expected = [(held[0].points(), True)] * 4 + [(held[0].points(), False), (turned, False)]
        expected += [(held[1].points(), True)] * 4 + [(held[1].points(), False)]
        assert [near for _, near in made] == [near for _, near in expected]
        assert_allclose([truth for truth, _ in made], [truth for truth, _ in expected])
        assert len(advanced) == 2
        assert asked[0].keep_evidence

    @pytest.mark.parametrize(("images", "held"), [(4, [4]), (5, [4] * 5)])
    def test_one_model_is_enough_if_there_is_much_data(self, model, dataset, monkeypatch, images, held):
        """From five times as many samples as are fitted; otherwise all are held out in turn."""
        seen = []
        monkeypatch.setattr(calibration, "judged_by", lambda model, some, trials, **rest: seen.extend(trials))
        calibrate(model, dataset[:20], images=images)
        assert [len(trial.held) for trial in seen] == held
        assert [len(trial.known) for trial in seen] == [20 - count for count in held]

    @pytest.mark.parametrize("enough", [True, False])
    def test_ten_fits_near_their_objects_are_enough(self, model, dataset, monkeypatch, rng, enough):
        """Others do not count."""
        near = judged(rng, 10 if enough else 9, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        far = [replace(one, near=False) for one in near]
        monkeypatch.setattr(calibration, "_judge", lambda *rest: near + far)
        monkeypatch.setattr(calibration, "_learned", lambda every: len(every))
        trials = [calibration.Trial(model, dataset)]
        if enough:
            assert calibration.judged_by(model, dataset, trials, seed=0, jobs=1).confidence == 20
        else:
            with pytest.raises(ValueError, match="almost no held-out image could be fitted"):
                calibration.judged_by(model, dataset, trials, seed=0, jobs=1)

    @pytest.mark.parametrize("here", [True, False])
    def test_progress_of_other_machines_is_told_when_they_are_done(self, model, dataset, monkeypatch, here):
        """Five images of two trials are three each; the second has only two."""
        advanced, judging = [], []

        class Bar:
            def __init__(self, shown): ...

            def __enter__(self):
                return self

            def __exit__(self, *error): ...

            def start(self, what, count):
                assert count == 5
                return lambda: advanced.append(1)

        def judge(model, held, *rest):
            judging.append(len(held))
            rest[-1]()
            return made[: 5 * len(judging)]

        made = judged(np.random.default_rng(0), 10, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        monkeypatch.setattr(calibration, "Progress", Bar)
        monkeypatch.setattr(calibration, "in_this_process", lambda crew: here)
        monkeypatch.setattr(calibration, "_judge", judge)
        trials = [calibration.Trial(model, dataset[:4]), calibration.Trial(model, dataset[:2])]
        found = calibration.judged_by(model, dataset, trials, images=5, seed=0, jobs=1)
        assert judging == [3, 2]
        assert len(advanced) == (2 if here else 5)
        assert found.confidence.fits == 15

    def test_what_is_left_out_is_not_said_again(self, model, dataset, monkeypatch):
        def build(data, settings, **rest):
            warnings.warn("left out", SamplesLeftOut, stacklevel=1)
            return model

        monkeypatch.setattr(calibration, "build_model", build)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            calibration._trained_like(model, dataset, dataset, 1)

    def test_one_network_is_enough(self, model, dataset, monkeypatch):
        """It takes minutes to train: a fifth is held out, once."""
        seen = []
        monkeypatch.setattr(calibration, "judged_by", lambda model, some, trials, **rest: seen.extend(trials))
        calibrate(replace(model, expert=object.__new__(NetworkExpert)), dataset[:20])
        assert [(len(trial.known), len(trial.held)) for trial in seen] == [(16, 4)]

    def test_an_octave_of_errors_is_two_steps(self):
        assert_allclose(np.diff(np.log2(REGRESSED_BOUNDS)), 0.5)
        assert_allclose(REGRESSED_BOUNDS[[0, -1]], [0.0025, 0.16])

    def test_ten_samples_are_enough(self, model, dataset, monkeypatch):
        monkeypatch.setattr(calibration, "judged_by", lambda *args, **rest: "learned")
        assert calibrate(model, dataset[:10]) == "learned"
        with pytest.raises(ValueError, match="at least 10 samples, but there are 9"):
            calibrate(model, dataset[:9])

    def test_too_few_samples_get_a_sentence(self, model, dataset):
        few = dataset_from_arrays([s.image() for s in dataset[:4]], [s.points() for s in dataset[:4]])
        with pytest.raises(ValueError, match="at least 10 samples, but there are 4"):
            calibrate(model, few)


def judged(rng, count, factor, scatter, outside=1.0):
    """Fits whose landmarks deviate as `factor * outside * spread + scatter` says."""
    made = []
    for _ in range(count):
        root = rng.normal(size=(len(scatter), 2, 2)) * 0.02
        spread = root @ np.swapaxes(root, 1, 2) + 1e-5 * np.eye(2)
        covariance = factor * outside * spread + scatter
        deviations = np.array([rng.multivariate_normal(np.zeros(2), one) for one in covariance])
        error = float(np.linalg.norm(deviations, axis=1).mean())
        made.append(_Judged(error, Evidence(outside, 1.0, 1.0, 1.0, 1.0), deviations, spread, near=True))
    return made


def scatter_of(made):
    """Factor and scatter of judged fits, as learning has them."""
    return likeliest_scatter(
        np.array([one.deviations for one in made]),
        np.array([one.evidence.outside * one.spread for one in made]),
    )


class TestLearning:
    @pytest.mark.parametrize("outside", [1.0, 4.0])
    def test_factor_and_scatter_are_those_that_the_deviations_have(self, rng, outside):
        scatter = np.array([np.diag([4e-4, 1e-4]), [[2e-4, 1e-4], [1e-4, 3e-4]], np.diag([1e-4, 9e-4])])
        factor, found = scatter_of(judged(rng, 3000, 0.6 / outside, scatter, outside))
        assert factor == pytest.approx(0.6 / outside, rel=0.3)
        assert_allclose(found, scatter, atol=1e-4)

    def test_scatter_is_not_below_what_clicks_are_worth(self, rng):
        """Where the spread explains all there is, a hundredth of the typical square is left."""
        _, found = scatter_of(judged(rng, 300, 1.0, np.zeros((3, 2, 2))))
        assert np.all(np.linalg.eigvalsh(found) > 1e-7)

    def test_fits_without_finite_evidence_teach_nothing(self, rng):
        good = judged(rng, 60, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        good = [
            replace(one, evidence=one.evidence._replace(outside=1 + 20 * one.error, shape=10 * one.error))
            for one in good
        ]
        broken = [
            replace(good[0], evidence=good[0].evidence._replace(shape=np.nan)),
            replace(good[1], evidence=good[1].evidence._replace(outside=np.inf)),
            replace(good[2], error=np.nan),
        ]
        learned, same = _learned(broken + good), _learned(good)
        assert learned.fits == 60
        for name in ("centre", "scale", "weights", "offsets"):
            assert np.all(np.isfinite(getattr(learned, name)))
            assert_allclose(getattr(learned, name), getattr(same, name), rtol=1e-6)
        assert np.all(np.isfinite(learned.scatter))

    def test_the_least_scatter_is_a_hundredth_of_the_typical_square(self):
        """Along x it is 1, along y nothing: half a hundredth is left there."""
        deviations = np.array([[[1.0, 0.0]], [[-1.0, 0.0]]])
        factor, found = likeliest_scatter(deviations, np.zeros((2, 1, 2, 2)))
        assert_allclose(found, [np.diag([1, 0.005])])
        assert np.isfinite(factor)

    def test_the_spread_counts_by_the_energy_outside(self, rng):
        scatter = np.tile(1e-4 * np.eye(2), (3, 1, 1))
        assert _learned(judged(rng, 400, 0.15, scatter, outside=4.0)).factor == pytest.approx(0.15, rel=0.5)

    def test_an_error_at_a_bound_is_not_below_it(self, rng):
        made = judged(rng, 40, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        at = [replace(one, error=REGRESSED_BOUNDS[k % 9]) for k, one in enumerate(made)]
        above = [replace(one, error=1.0001 * one.error) for one in at]
        assert_allclose(_learned(at).offsets, _learned(above).offsets)
        assert_allclose(_learned(at).scatter, _learned(above).scatter)

    def test_scatter_is_that_of_usual_fits(self, rng):
        """What is off by twice the median, or more, says nothing about it."""
        usual = [
            replace(one, error=0.02) for one in judged(rng, 40, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        ]
        wild = [replace(one, deviations=9 * one.deviations) for one in usual[:5]]
        expected = _learned(usual + [replace(one, error=0.9) for one in wild]).scatter
        for error in (0.04, 0.05, np.nan):
            assert_allclose(_learned(usual + [replace(one, error=error) for one in wild]).scatter, expected)
        twice = _learned(usual + [replace(one, error=0.039) for one in wild]).scatter
        assert np.all(np.trace(twice, axis1=1, axis2=2) > 1.5 * np.trace(expected, axis1=1, axis2=2))

    def test_errors_that_are_neither_small_nor_large_say_nothing_about_an_object(self, rng):
        on = judged(rng, 30, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        on = [replace(one, evidence=one.evidence._replace(outside=1 + k)) for k, one in enumerate(on)]
        off = [replace(one, error=0.7, near=False) for one in on[:5]]
        between = [replace(one, error=error) for one in on[-5:] for error in (0.1, 0.15, LOST)]
        known = (np.zeros(5), np.ones(5), slice(5))
        learned = calibration._object_weights(on + off, *known)
        assert_allclose(calibration._object_weights(on + off + between, *known), learned)
        assert calibration._object_weights(on + off[:4], *known) is None
        beyond = [replace(one, error=1.01 * LOST) for one in off]
        assert_allclose(calibration._object_weights(on + beyond, *known), learned)
        within = [replace(one, error=0.099) for one in on]
        assert_allclose(calibration._object_weights(within + off, *known), learned)

    def test_what_is_usual_for_an_expert_takes_ten_fits_with_all_landmarks(self, rng):
        made = judged(rng, 12, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        seen = [replace(one, doubts=0.01 * (1 + rng.random(3))) for one in made]
        gap = replace(seen[0], doubts=np.array([0.01, np.inf, 0.01]))
        assert calibration._usual_deviations(made) is None
        assert calibration._usual_deviations([*seen[:9], gap, *made]) is None
        usual = calibration._usual_deviations(seen[:10])
        assert usual.shape == (3,)
        assert_allclose(calibration._usual_deviations([*seen[:10], gap, *made]), usual)

    def test_what_speaks_against_a_fit_never_speaks_for_it(self, rng):
        """A few fits may seem to say that a good fit is one that the expert doubts."""
        made = judged(rng, 40, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
        told = [
            replace(
                one,
                evidence=one.evidence._replace(
                    mismatch=0.5, doubt=0.05 - one.error, dissent=0.01 + one.error
                ),
            )
            for one in made
        ]
        learned = _learned(told)
        assert np.all(learned.weights[:, AGAINST] <= 0)
        assert learned.weights[:, -1].min() < -0.1
        doubting = [
            learned.probability(told[0].evidence._replace(doubt=doubt), 0.02) for doubt in (0.01, 0.02, 0.04)
        ]
        assert doubting == sorted(doubting, reverse=True)

    def test_an_expert_that_saw_something_far_smaller_is_no_surer_than_it_ever_was(self):
        """It was not followed, and its deviations are a tiny share of the size of the object that was fitted."""
        usual = Evidence(1.0, 1.0, 1.0, 1.0, mismatch=1.0, doubt=0.02, dissent=0.02)
        known = Confidence(
            fits=100,
            centre=predictors(usual),
            scale=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.04, 0.4]),
            bounds=np.array([0.02, 0.04]),
            weights=np.tile([0.0, 0.0, 0.0, 0.0, 0.0, -0.7, -0.3], (2, 1)),
            offsets=np.array([2.0, 3.0]),
            factor=1.0,
            scatter=np.zeros((3, 2, 2)),
            expert_weights=np.array([-0.5, -0.9, 1.8]),
        )
        assert known.probability(usual) > 0.8
        assert known.probability(usual._replace(doubt=0.018)) > known.probability(usual)
        elsewhere = usual._replace(doubt=0.005, dissent=0.4)
        assert known.probability(elsewhere) < 0.3
        assert known.probability(elsewhere._replace(doubt=0.0005)) == known.probability(elsewhere)


def test_the_odds_have_a_ridge_and_one_fit_of_either_kind_at_the_centre(rng):
    """What is found is the least of the loss that is promised, among all that is near."""
    x, happened = rng.normal(size=(30, 2)) + 1, rng.random(30) < 0.8

    def loss(q):
        logits = np.append(x @ q[:-1], [0.0, 0.0]) + q[-1]
        sign = np.where(np.append(happened, [True, False]), 1, -1)
        return np.sum(np.log1p(np.exp(-sign * logits))) + q[:-1] @ q[:-1] / 2

    found = _logistic(x, happened, np.zeros(2, dtype=bool))
    for step in 0.01 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert loss(found) < loss(found + step)
