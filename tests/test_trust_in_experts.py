"""What experts add to confidence: fits that they doubt are not trusted, and what they do not see is hidden."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.data.annotation import Annotation
from pliant.data.formats import read_annotations, write_annotations
from pliant.experts.sightings import Sightings
from pliant.experts.visibility import hidden, usual_deviations
from pliant.shape import Similarity, shape_size
from pliant.table import cells_of
from pliant.trust.calibration import _learned
from pliant.trust.confidence import PIXELS, Evidence
from pliant.trust.evidence import with_sightings
from test_confidence import judged


def guided(made, rng):
    """The same fits with an expert that is sure and agrees where errors are small."""
    told = []
    for one in made:
        doubt, dissent = (0.02 + 0.5 * one.error) * np.exp(0.1 * rng.normal(size=2))
        doubts = np.full(len(one.deviations), doubt) * np.exp(0.1 * rng.normal(size=len(one.deviations)))
        evidence = one.evidence._replace(doubt=float(doubt), dissent=float(dissent))
        told.append(replace(one, evidence=evidence, doubts=doubts))
    return told


def on_and_off(rng):
    """Fits near the object, and fits elsewhere that the pixels have nothing against."""
    on = judged(rng, 80, 0.6, np.tile(1e-4 * np.eye(2), (3, 1, 1)))
    off = [replace(one, error=0.7, near=False) for one in on[:30]]
    return on, off


class TestExperts:
    def test_without_an_expert_nothing_of_it_is_learned(self, rng):
        on, off = on_and_off(rng)
        learned = _learned(on + off)
        assert learned.weights.shape[1] == PIXELS
        assert learned.expert_weights is None
        assert learned.usual_deviations is None

    def test_the_expert_does_not_change_what_pixels_tell(self, rng):
        """What is learned from the pixels about there being an object is the same to the last bit."""
        on, off = on_and_off(rng)
        alone, both = _learned(on + off), _learned(guided(on + off, rng))
        assert_array_equal(alone.object_weights, both.object_weights)
        assert_array_equal(alone.centre, both.centre[:PIXELS])
        assert_array_equal(alone.scatter, both.scatter)
        assert both.weights.shape[1] == PIXELS + 2

    def test_models_without_an_expert_do_not_hear_one(self, rng):
        """Confidence with five predictors is the same to the last bit, whatever an expert says."""
        on, off = on_and_off(rng)
        alone = _learned(on + off)
        for one, told in zip(on, guided(on, rng), strict=True):
            assert alone.probability(one.evidence) == alone.probability(told.evidence)

    def test_what_only_the_expert_doubts_is_not_trusted(self, rng):
        on, off = on_and_off(rng)
        alone, both = _learned(on + off), _learned(guided(on + off, rng))
        there, elsewhere = guided(on, rng), guided(off, rng)
        fooled = np.mean([alone.probability(one.evidence, 0.1) for one in elsewhere])
        assert fooled > 0.5
        assert np.mean([both.probability(one.evidence, 0.1) for one in elsewhere]) < 0.1 * fooled
        assert np.mean([both.probability(one.evidence, 0.1) for one in there]) > 0.9 * fooled

    def test_neither_witness_makes_up_for_the_other(self, rng):
        """With the object's factor of one at most, confidence is never more than that of the pixels' own."""
        on, off = on_and_off(rng)
        both = _learned(guided(on + off, rng))
        silent = replace(both, expert_weights=None)
        for one in guided(on + off, rng):
            assert both.probability(one.evidence) <= silent.probability(one.evidence)

    def test_a_fit_that_no_expert_has_led_is_judged_by_its_pixels(self, rng):
        on, off = on_and_off(rng)
        both = _learned(guided(on + off, rng))
        scores = [both.probability(one.evidence, 0.1) for one in on]
        assert np.all(np.isfinite(scores))
        assert np.mean(scores) > 0.5

    def test_doubt_and_dissent_are_shares_of_the_size(self, rng):
        """They do not change if the image grows, and rise with the sightings' variance and distance."""
        shape = 30 * rng.normal(size=(12, 2))
        size = float(shape_size(shape))
        precision = np.tile(np.diag([1 / 4, 1 / 9]), (1, 12, 1, 1))
        seen = Sightings((shape + (3, 4))[None], precision)
        told = with_sightings(Evidence(1, 1, 1, 1, 1), seen, shape)
        assert told.doubt == pytest.approx(np.sqrt(6.5) / size)
        assert told.dissent == pytest.approx(5 / size)
        double = Sightings(2 * seen.points, precision / 4)
        assert_allclose(with_sightings(Evidence(1, 1, 1, 1, 1), double, 2 * shape), told)
        assert not Evidence(1, 1, 1, 1, 1).guided
        assert told.guided

    def test_what_is_not_seen_is_doubtful_and_finite(self, rng):
        shape = 30 * rng.normal(size=(12, 2))
        precision = np.tile(np.eye(2), (1, 12, 1, 1))
        sure = with_sightings(Evidence(1, 1, 1, 1, 1), Sightings(shape[None], precision), shape)
        precision[0, :6] = 0
        half = with_sightings(Evidence(1, 1, 1, 1, 1), Sightings(shape[None], precision), shape)
        assert half.guided
        assert half.doubt > sure.doubt + 0.2
        assert half.dissent > sure.dissent + 0.2

    def test_both_doubt_and_dissent_are_needed(self):
        assert not Evidence(1, 1, 1, 1, 1, dissent=0.1).guided
        assert not Evidence(1, 1, 1, 1, 1, doubt=0.1).guided
        assert Evidence(1, 1, 1, 1, 1, doubt=0.1, dissent=0.1).guided

    @pytest.mark.parametrize("wrong", [np.nan, np.inf])
    def test_nothing_is_said_about_a_shape_without_a_size(self, rng, wrong):
        shape = 30 * rng.normal(size=(12, 2))
        seen, before = Sightings(shape[None], np.tile(np.eye(2), (1, 12, 1, 1))), Evidence(1, 1, 1, 1, 1)
        assert with_sightings(before, seen, 0 * shape) is before
        shape[3, 1] = wrong
        assert with_sightings(before, seen, shape) is before

    def test_experts_count_if_they_led_more_than_half_of_the_fits(self, rng):
        on, off = on_and_off(rng)
        told = guided(on, rng)
        assert _learned(told[:40] + on[40:] + off).weights.shape[1] == PIXELS
        assert _learned(told[:41] + on[41:] + off).weights.shape[1] == PIXELS + 2

    def test_what_nobody_sees_is_half_a_size_off(self, rng):
        """Files keep what was learned with this number."""
        shape = 30 * rng.normal(size=(12, 2))
        blind = Sightings(shape[None], np.zeros((1, 12, 2, 2)))
        told = with_sightings(Evidence(1, 1, 1, 1, 1), blind, shape)
        assert (told.doubt, told.dissent) == (0.5, 0.5)

    def test_it_is_kept_in_files(self, model, rng, tmp_path):
        on, off = on_and_off(rng)
        learned = _learned(guided(on + off, rng))
        v = model.landmarks
        learned = replace(
            learned, scatter=np.tile(learned.scatter[:1], (v, 1, 1)), usual_deviations=np.full(v, 0.02)
        )
        replace(model, confidence=learned).save(tmp_path / "m.pliant")
        back = pliant.load(tmp_path / "m.pliant").confidence
        for one in guided(on[:3], rng):
            assert back.probability(one.evidence) == learned.probability(one.evidence)
        assert_array_equal(back.usual_deviations, learned.usual_deviations)

    @pytest.mark.parametrize(
        "changes",
        [
            {"expert_weights": np.ones(4)},
            {"object_weights": np.ones(8)},
            {"usual_deviations": np.ones(2)},
            {"usual_deviations": np.zeros(68)},
        ],
    )
    def test_arrays_that_do_not_fit_are_refused(self, model, rng, tmp_path, changes):
        on, off = on_and_off(rng)
        learned = _learned(guided(on + off, rng))
        scatter = np.tile(learned.scatter[:1], (model.landmarks, 1, 1))
        learned = replace(learned, scatter=scatter, usual_deviations=None)
        replace(model, confidence=replace(learned, **changes)).save(tmp_path / "m.pliant")
        with pytest.raises(ValueError, match="of the confidence|confidence has arrays"):
            pliant.load(tmp_path / "m.pliant")


class TestHidden:
    def seen(self, deviations):
        deviations = np.asarray(deviations, dtype=np.float64)
        precision = np.eye(2) / deviations[:, None, None] ** 2
        return Sightings(np.zeros((1, len(deviations), 2)), precision[None])

    def test_hidden_is_what_deviates_more_than_its_own_kind_does(self):
        """A contour is usually seen less well than a corner, and is not hidden for that."""
        usual = np.array([0.04, 0.01, 0.01])
        assert hidden(self.seen([4.2, 1.05, 3.0]), np.array([100.0]), usual).tolist() == [
            [False, False, True]
        ]

    def test_it_does_not_depend_on_the_size_of_the_image(self, rng):
        usual, seen = np.full(9, 0.02), self.seen(rng.uniform(1, 4, size=9))
        larger = seen.moved(Similarity(np.asarray(3 * np.exp(0.7j)), np.asarray(5 + 1j)))
        assert_array_equal(hidden(seen, np.array([100.0]), usual), hidden(larger, np.array([300.0]), usual))

    def test_what_is_not_seen_at_all_is_hidden(self):
        nothing = Sightings(np.zeros((1, 2, 2)), np.zeros((1, 2, 2, 2)))
        assert hidden(nothing, np.array([50.0]), np.array([0.1, 0.1])).all()

    def test_usual_is_seldom_exceeded(self, rng):
        seen = np.exp(rng.normal(size=(400, 5)))
        above = np.mean(seen > usual_deviations(seen), axis=0)
        assert np.all((above > 0.01) & (above < 0.1))

    def test_a_fit_tells_which_landmarks_are_hidden_if_it_can(self, calibrated, dataset):
        image, truth = dataset[0].image(), dataset[0].points()
        (fit,) = pliant.fit(calibrated, [image], [truth], jobs=1)
        assert fit.hidden is None
        size = float(shape_size(fit.points))
        deviating = np.full(68, 0.01 * size)
        deviating[:7] *= 5
        usual = replace(calibrated.confidence, usual_deviations=np.full(68, 0.02))
        told = replace(fit, sightings=self.seen(deviating), model=replace(calibrated, confidence=usual))
        assert told.hidden.tolist() == [True] * 7 + [False] * 61
        assert replace(told, model=calibrated).hidden is None
        assert cells_of("a.png", told)["hidden"] == [1.0] * 7 + [0.0] * 61
        assert cells_of("a.png", fit)["hidden"] is None

    def test_coco_has_them(self, tmp_path):
        points = np.array([[3.0, 4.0], [np.nan, np.nan], [5.0, 6.0]])
        flags = np.array([True, False, False])
        for given, expected in ((flags, [True, False, False]), (None, [False] * 3)):
            path = tmp_path / "fits.json"
            write_annotations(path, [Annotation("a.png", points, size=(20, 20), hidden=given)], "coco")
            (back,) = read_annotations(path)
            assert back.hidden.tolist() == expected
            assert_allclose(back.points, points)
