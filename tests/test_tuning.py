"""Settings that nobody gave: presets, the search for better ones, and what the model remembers of it."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant import Training
from pliant.building.build import build_model
from pliant.data.dataset import Dataset, Sample
from pliant.fitting.fitter import make_fitter
from pliant.fitting.hypotheses import about, begins_late, carried, distinct
from pliant.pca import exact_pca
from pliant.settings.presets import PAPER, searches, settled
from pliant.shape import align
from pliant.tuning import choice
from pliant.tuning import search as searching
from pliant.tuning.axes import AXES
from pliant.tuning.held_out import Fold, ended

QUICK = {"detector": None, "confidence": False, "progress": False}


@pytest.fixture(scope="module")
def faces(dataset):
    """The same faces, painted once and not whenever they are asked for."""
    painted = [(sample.image(), sample.points()) for sample in dataset]
    return Dataset(
        tuple(
            Sample(f"face-{k}", partial(np.copy, image), partial(np.copy, points))
            for k, (image, points) in enumerate(painted)
        ),
        "faces",
    )


def test_a_start_beside_the_object_that_cannot_be_used_is_where_its_fit_ended(model, dataset):
    beyond = dataset[0].points() + 900
    (fit,) = make_fitter(model).block([dataset[0].image()], [beyond])
    assert fit.status == "failed"
    assert_array_equal(ended(fit), beyond)


class TestPresets:
    """What is open is filled, and what was said stays."""

    @pytest.mark.parametrize("samples", [2, 20, 2000])
    def test_nothing_is_left_open(self, samples):
        whole = settled(Training(), samples)
        assert whole.levels == len(whole.scales) == 4
        assert whole.size == 150
        assert all(
            (whole.shape_modes, whole.appearance_modes, whole.features, whole.algorithm, whole.iterations)
        )
        assert settled(whole, samples) == whole
        assert max(whole.appearance_modes) <= max(1, samples // 3)

    def test_levels_follow_from_what_was_given(self):
        assert settled(Training(shape_modes=(1, 3)), 100).scales == (0.5, 1.0)
        assert settled(Training(features=("dsift", "igo", "igo")), 100).scales == (0.25, 0.5, 1.0)
        assert settled(Training(scales=(0.3, 1.0), shape_modes=4), 100).shape_modes == (4,)
        # An object of 40 pixels has 10 at a quarter, and nothing can be seen of it.
        assert settled(Training(size=40), 100).scales == (0.5, 0.75, 1.0)

    def test_paper(self, faces):
        told = settled(Training(preset="paper", detector=None), 1000)
        assert told == PAPER.changed(detector=None)
        own = Training(
            size=150,
            scales=(0.5, 1),
            shape_modes=(3, 12),
            appearance_modes=0.75,
            features="dsift",
            upright=False,
            noise_per_pixels=0,
            hypotheses=1,
        )
        models = [build_model(faces[:8], one, jobs=1, progress=False) for one in (told, own)]
        assert models[0].settings.iterations == (24, 16)
        for theirs, mine in zip(*(model.levels for model in models), strict=True):
            assert_array_equal(theirs.appearance.components, mine.appearance.components)
            assert theirs.appearance.noise_variance == mine.appearance.noise_variance
        starts = [faces[9].points() + 3]
        [first], [second] = (pliant.fit(model, [faces[9]], starts, jobs=1) for model in models)
        assert_array_equal(first.points, second.points)

    @pytest.mark.parametrize(
        ("given", "asked"),
        [
            ({}, True),
            ({"colour": True}, True),
            ({"size": 60}, False),
            ({"size": 60, "preset": "search"}, True),
            ({"minutes": 0}, False),
            ({"preset": "quick"}, False),
            ({"preset": "paper"}, False),
        ],
    )
    def test_who_gives_a_setting_gets_no_search_unless_asked(self, given, asked):
        assert searches(Training(**given)) == asked


class TestHypotheses:
    def test_the_first_is_the_start_and_the_others_come_in_opposite_pairs(self, faces):
        points = faces[0].points()
        assert_array_equal(about(points, 1)[0], points)
        several = about(points, 13)
        assert len(several) == 13
        assert_array_equal(several[0], points)
        found = [align(points, other) for other in several[1:]]
        for one, other in zip(found[::2], found[1::2], strict=True):
            assert_allclose(np.log(one.scale) + np.log(other.scale), 0, atol=1e-9)
            assert_allclose(one.angle + other.angle, 0, atol=1e-9)

    def test_places_are_counted_once(self, faces):
        points = faces[0].points()
        assert distinct([points, points + 0.1, points + 20, points - 20], 3) == [0, 2, 3]
        assert distinct([points, points + 20], 1) == [0]

    @pytest.mark.parametrize(
        ("levels", "expected", "late"),
        [
            (1, [1], [False]),
            (2, [2, 1], [False, False]),
            (3, [3, 2, 1], [False, True, False]),
            (5, [3, 3, 3, 2, 1], [False, True, True, False, False]),
        ],
    )
    def test_few_reach_the_finest_level(self, levels, expected, late):
        assert [carried(number, levels) for number in range(levels)] == expected
        assert [begins_late(number, levels) for number in range(levels)] == late

    def test_more_of_them_are_found_from_far_starts(self, faces):
        model = pliant.train(faces[:18], preset="quick", **QUICK)
        rng = np.random.default_rng(0)
        starts = [sample.points() + rng.choice([-11, 11], 2) for sample in faces[18:]]

        def found(hypotheses):
            fits = pliant.fit(model, list(faces[18:]), starts, hypotheses=hypotheses)
            errors = [np.abs(fit.points - s.points()).mean() for fit, s in zip(fits, faces[18:], strict=True)]
            return sum(error < 2 for error in errors)

        assert found(9) > found(1)


class TestNoise:
    def test_more_samples_do_not_make_it_smaller(self):
        rows = np.random.default_rng(0).normal(size=(400, 900)).astype(np.float32)
        few, many = exact_pca(rows[:50]).truncated(10), exact_pca(rows).truncated(10)
        assert many.noise_variance < 0.3 * few.noise_variance
        assert many.observed(20).noise_variance == pytest.approx(few.observed(20).noise_variance, rel=0.3)


class TestSearch:
    @pytest.fixture
    def two_axes(self, monkeypatch):
        monkeypatch.setattr(
            searching, "AXES", [axis for axis in AXES if axis.setting in ("features", "shape_modes")]
        )

    def test_levels_of_a_fold_are_those_of_training(self, faces):
        """Modes are cut off a model with more of them, and that is the model that training would have made."""
        settings = settled(Training(size=50, shape_modes=(2, 4), appearance_modes=(2, 3), detector=None), 12)
        fold = Fold(faces[:12], faces[12:14], 1, 0)
        part, whole = fold._model(settings), build_model(faces[:12], settings, jobs=1, progress=False)
        for mine, theirs in zip(part.levels, whole.levels, strict=True):
            assert_allclose(mine.appearance.components, theirs.appearance.components, atol=1e-5)
            assert_allclose(mine.basis_slopes, theirs.basis_slopes, atol=1e-3)
            assert mine.appearance.noise_variance == pytest.approx(theirs.appearance.noise_variance, rel=1e-5)

    def test_it_is_reproducible_and_remembered(self, faces, two_axes, tmp_path):
        settings = Training(
            preset="search", size=40, minutes=0.2, detector=None, confidence=False, experts="none"
        )
        model = pliant.train(faces, settings, progress=False, jobs=1)
        again = pliant.train(faces, settings, progress=False, jobs=2)
        assert model.settings == again.settings
        assert model.provenance["choice"]["tried"] == again.provenance["choice"]["tried"]
        assert model.settings.size == 40
        model.save(tmp_path / "m.pliant")
        loaded = pliant.load(tmp_path / "m.pliant")
        rows, curve = choice.tried_rows(loaded), choice.curve_rows(loaded)
        assert rows[0][0] == "settings to begin with"
        assert len(rows) >= 3
        assert [int(row[0]) for row in curve] == sorted(int(row[0]) for row in curve)
        assert "fits of 9 of the training samples" in choice.sentence(loaded)

    def test_what_is_said_on_the_way_has_the_words_of_the_table(self):
        errors = np.full((4, 3), 0.015)
        assert searching.Tried("at first", errors, True).sentence == (
            "settings to begin with: mean error 0.0150, 100% below 0.02"
        )
        assert searching.Tried("a weaker prior", errors, True).sentence.endswith("100% below 0.02, kept")
        assert searching.Tried("a weaker prior", errors, False).sentence.endswith("below 0.02, no clear gain")
        assert searching.Tried("a weaker prior", errors[:, :1], False).sentence == "a weaker prior: no better"

    def test_what_was_given_is_not_changed(self, faces, two_axes):
        given = {"size": 40, "features": ("dsift",), "shape_modes": (2, 4)}
        settings = Training(preset="search", **given, minutes=0.2, detector=None)
        best, known = searching.search(faces, settings, jobs=1, progress=False)
        assert [one["change"] for one in known["tried"]] == ["at first"]
        assert all(getattr(best, name) == value for name, value in given.items())

    @pytest.mark.parametrize("landmarks", [2, 3, 15, 68])
    def test_no_more_modes_are_tried_than_a_model_of_so_many_landmarks_has(self, landmarks):
        axis = next(axis for axis in AXES if axis.setting == "shape_modes")
        settings = settled(Training(size=160), 200)
        asked = settings.shape_modes[-1]
        shapes = np.random.default_rng(0).normal(size=(200, landmarks, 2))
        used = pliant.shape.train_shape_model(shapes, 100, asked).modes if landmarks > 2 else 0
        tried = {values["shape_modes"][-1]: said for said, values in axis.changes(settings, 200, landmarks)}
        for modes, said in tried.items():
            assert said == f"{modes} modes of shape at the finest level"
            assert pliant.shape.train_shape_model(shapes, 100, modes).modes == modes != used
        assert len(tried) == {2: 0, 3: 0, 15: 1, 68: 2}[landmarks]

    def test_a_prior_that_was_given_is_not_searched(self):
        prior = next(axis for axis in AXES if axis.setting == "noise_per_pixels")
        assert prior.open_in(Training())
        assert not prior.open_in(Training(noise_per_pixels=9))

    def test_a_change_stays_only_if_it_is_clearly_better(self):
        errors = np.full(30, 0.02)
        noise = np.random.default_rng(0).normal(size=30) * 0.01
        assert searching.clearly_better(errors - 0.002, errors)
        assert not searching.clearly_better(errors, errors)
        assert not searching.clearly_better(errors + noise - noise.mean() - 1e-4, errors)
        assert not searching.clearly_better(errors - 1e-6, errors)
        # A fit that is lost is lost, and a fit that is no number is lost as well.
        assert not searching.clearly_better(np.full(30, 0.2), np.full(30, 0.9))
        assert searching.clearly_better(np.full(30, 0.05), np.full(30, np.nan))

    def test_few_samples_are_not_searched(self, faces):
        model = pliant.train(faces[:6], minutes=2, **QUICK)
        assert "choice" not in model.provenance
        assert choice.tried_rows(model) == []
        assert choice.sentence(model) == ""
