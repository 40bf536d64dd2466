"""Starts: boxes, shapes, and the paper's random ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pliant.fitting.start import from_box, perturbed, start_points
from pliant.shape import align, shape_size


class TestStarts:
    def test_a_box_holds_the_mean_shape(self, model):
        points = from_box(model, np.array([10, 20, 50, 70]))
        assert shape_size(points) == pytest.approx(45)
        assert_allclose((points.min(axis=0) + points.max(axis=0)) / 2, [30, 45])

    def test_noise_is_as_large_as_it_says(self, model, dataset):
        truth = dataset[0].points()
        rng = np.random.default_rng(0)
        aligned = perturbed(model, truth, 0.0, rng)
        assert_allclose(align(aligned, truth).factor, 1, atol=1e-9)
        found = [align(aligned, perturbed(model, truth, 0.1, rng)) for _ in range(300)]
        scales, angles = np.array([f.scale for f in found]), np.array([f.angle for f in found])
        assert 0.9 < scales.min() < 0.92
        assert 1.08 < scales.max() < 1.1
        assert 0.14 < np.abs(angles).max() < 0.1 * np.pi / 2
        shifts = [perturbed(model, truth, 0.1, rng).mean(axis=0) - aligned.mean(axis=0) for _ in range(300)]
        assert 0.17 < np.abs(shifts).max() / shape_size(truth) < 0.184

    @pytest.mark.parametrize(
        ("start", "sentence"),
        [
            (np.zeros(4), "is empty"),
            (np.array([5, 5, 5, 90]), "is empty"),
            (np.array([0, 0, np.nan, 9]), "is empty"),
            (np.zeros((5, 2)), "a shape of 68 points or a box"),
            (np.full((68, 2), np.inf), "not finite"),
            (np.full((68, 2), 7.0), "no size"),
        ],
    )
    def test_starts_that_are_none_get_a_sentence(self, model, start, sentence):
        with pytest.raises(ValueError, match=sentence):
            start_points(model, start)
