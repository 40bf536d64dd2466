"""The loop at one level: items do not mix, the prior sees the update that is made, and one mode is enough."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.appearance.features import find_feature
from pliant.appearance.view import (
    feature_view,
    scale_to_frame,
)
from pliant.fitting.fitter import make_fitter
from pliant.fitting.loop import iterate
from pliant.fitting.status import Status
from pliant.shape import SIMILARITY
from pliant.starts.noise import perturbed


@pytest.fixture(scope="module")
def level(model):
    return model.levels[0]


def seen(level, dataset, number):
    """Features around an object, and the parameters of its shape there."""
    sample = dataset[number]
    feature = find_feature(level.features)
    view = feature_view(
        sample.image(), sample.points(), scale_to_frame(level.shape.mean, sample.points()), feature, 6
    )
    return view.pixels, level.shape.project(view.to_view(sample.points()))


def test_each_item_is_outside_of_its_own_image(model, level, dataset):
    """Images of several sizes, one that is done at once and one that is outside: as if each were alone."""
    _, _, problem = make_fitter(model, algorithm="ssd-asy-gn-sch").prepared[0]
    images, p = map(list, zip(*(seen(level, dataset, number) for number in (0, 1, 2)), strict=True))
    m = len(problem.weights.appearance)
    done = iterate(problem, [images[0]], p[0][None], np.zeros((1, m)), 60)
    # The second lies beyond the edges of the first image, and the third beyond its own.
    images[1] = np.pad(images[1], ((70, 0), (90, 0), (0, 0)), mode="edge")
    moved = level.shape.instance(p[1]) + (90, 70)
    images[2] = images[2][:4, :4]
    starts = np.array([done.shape_parameters[0], level.shape.project(moved), p[2]])
    c = np.concatenate([done.coordinates, np.zeros((2, m))])
    together = iterate(problem, images, starts, c, 5)
    assert together.statuses[0] is Status.CONVERGED
    assert together.statuses[1] in (Status.ITERATIONS, Status.CONVERGED)
    assert together.iterations[1] > 1
    assert together.statuses[2] is Status.OUTSIDE
    for k in range(3):
        alone = iterate(problem, images[k : k + 1], starts[k : k + 1], c[k : k + 1], 5)
        assert alone.statuses[0] is together.statuses[k]
        assert alone.iterations[0] == together.iterations[k]
        assert_allclose(alone.shape_parameters[0], together.shape_parameters[k], atol=1e-3)


@pytest.mark.parametrize("order", ["first-order", "exact"])
def test_the_prior_sees_the_update_that_is_made(model, level, order):
    """An image without slopes says nothing: one forward step goes to where the prior alone is least, the mean."""
    _, _, problem = make_fitter(model, algorithm="po:map-for-gn", order=order).prepared[0]
    blank = np.zeros((90, 90, level.channels), dtype=np.float32)
    # Larger and turned, so that composing and adding are not the same.
    larger = np.array([[0.9, -0.8], [0.8, 0.9]])
    shape = level.shape.instance(
        np.concatenate([np.zeros(SIMILARITY), 0.5 * np.sqrt(level.shape.eigenvalues)])
    )
    start = level.shape.project((shape - shape.mean(axis=0)) @ larger.T + 45)
    ended = iterate(problem, [blank], start[None], np.zeros((1, len(problem.weights.appearance))), 1)
    before, after = (level.shape.mahalanobis(p) for p in (start, ended.shape_parameters[0]))
    assert ended.iterations == [1]
    assert after < (1e-6 if order == "first-order" else 0.02) * before


def test_the_distance_from_the_mean_is_in_deviations(level):
    for modes in (1, 2):
        shape = level.shape.truncated(modes)
        p = np.concatenate([np.full(SIMILARITY, 7.0), -1.5 * np.sqrt(shape.eigenvalues)])
        assert shape.mahalanobis(p) == pytest.approx(1.5)
    assert level.shape.truncated(0).mahalanobis(np.full(SIMILARITY, 7.0)) == 0


@pytest.mark.parametrize("algorithm", ["ssd-asy-gn-sch", "po-bid-gn-sch", "ssd:map-bid-gn-alt", "po-inv-gn"])
def test_one_mode_of_shape_is_a_model(dataset, algorithm):
    small = pliant.train(dataset, size=40, shape_modes=(1, 1), detector=None, confidence=False)
    assert [level.shape.modes for level in small.levels] == [1, 1]
    samples = list(dataset[:4])
    starts = [
        perturbed(small, sample.points(), 0.03, np.random.default_rng(k)) for k, sample in enumerate(samples)
    ]
    fits = pliant.fit(small, samples, starts, algorithm=algorithm)
    before, after = (
        np.mean(
            [
                np.linalg.norm(points - s.points(), axis=1).mean()
                for points, s in zip(all_, samples, strict=True)
            ]
        )
        for all_ in (starts, [fit.points for fit in fits])
    )
    assert after < 0.8 * before
    (strict,) = pliant.fit(
        small, samples[:1], starts[:1], algorithm=algorithm, stopping=pliant.Stopping(ellipsoid=1e-4)
    )
    assert strict.status is Status.IMPLAUSIBLE
    assert replace(strict, status=Status.ITERATIONS).ok


def test_a_status_is_good_lost_or_neither():
    """Those that are neither have an estimate to look at: a doubtful one, or the start of a fit that failed."""
    assert {status for status in Status if status.ok} == {Status.CONVERGED, Status.ITERATIONS}
    assert {status for status in Status if status.lost} == {Status.OUTSIDE, Status.DIVERGED}
