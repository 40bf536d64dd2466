"""Missing landmarks: filled in exactly where that is possible, well elsewhere, and refused if not asked for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pliant.data.dataset import Dataset
from pliant.data.validation import InvalidDataset
from pliant.shape import Similarity, align, generalised_procrustes, missing, shape_size
from pliant.shape.missing import (
    _begin,
    _choose_modes,
    _expected,
    _Filled,
    _hidden,
    _improved,
    _masked_mean,
    _model,
    complete,
)
from pliant.shape.pdm import similarity_vectors
from pliant.synthetic import faces
from pliant.training import train


def linear_shapes(rng, count: int, landmarks: int, modes: int):
    """Shapes of a few modes and nothing else, in any pose; the modes do not imitate similarities."""
    mean = rng.normal(size=(landmarks, 2))
    mean -= mean.mean(axis=0)
    basis = rng.normal(size=(2 * landmarks, modes))
    similarity = similarity_vectors(mean)
    basis, _ = np.linalg.qr(basis - similarity @ (similarity.T @ basis))
    weights = rng.normal(0, 0.3, (count, modes))
    shapes = mean + ((weights - weights.mean(axis=0)) @ basis.T).reshape(count, landmarks, 2)
    z = shapes[..., 0] + 1j * shapes[..., 1]
    z = z * rng.uniform(20, 60, (count, 1)) * np.exp(1j * rng.uniform(-3, 3, (count, 1))) + 100 * (1 + 1j)
    return np.stack([z.real, z.imag], axis=-1)


def without(rng, shapes, share: float):
    hidden = rng.random(shapes.shape[:2]) < share
    return np.where(hidden[..., None], np.nan, shapes), hidden


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), modes=st.integers(1, 3))
def test_shapes_of_few_modes_are_completed_exactly(seed, modes):
    rng = np.random.default_rng(seed)
    shapes = linear_shapes(rng, 50, 20, modes)
    incomplete, _ = without(rng, shapes, 0.02)
    sizes = np.ptp(shapes, axis=1).mean(axis=-1)
    assert np.max(np.abs(complete(incomplete) - shapes) / sizes[:, None, None]) < 1e-3


def test_known_landmarks_are_not_touched(rng):
    shapes = rng.uniform(0, 100, (12, 9, 2))
    incomplete, hidden = without(rng, shapes, 0.2)
    completed = complete(incomplete)
    assert_array_equal(completed[~hidden], shapes[~hidden])
    assert np.all(np.isfinite(completed))
    assert_array_equal(complete(shapes), shapes)


def test_faces_are_completed_better_than_by_the_mean(rng):
    shapes = np.array([sample.points() for sample in faces(50, seed=6, image_size=64)])
    incomplete, hidden = without(rng, shapes, 0.2)
    mean, _ = generalised_procrustes(shapes)
    by_mean = np.array(
        [align(mean[~h], shape[~h]).apply(mean) for shape, h in zip(shapes, hidden, strict=True)]
    )
    error = np.linalg.norm(complete(incomplete) - shapes, axis=-1)[hidden].mean()
    assert error < 0.5 * np.linalg.norm(by_mean - shapes, axis=-1)[hidden].mean()


def test_pose_makes_no_difference(rng):
    incomplete, _ = without(rng, linear_shapes(rng, 20, 10, 2), 0.1)
    moved = incomplete @ np.array([[0.0, 2], [-2, 0]]) + (5, -3)
    assert_allclose(
        complete(moved), complete(incomplete) @ np.array([[0.0, 2], [-2, 0]]) + (5, -3), atol=1e-3
    )


def test_what_cannot_be_completed_gets_a_sentence(rng):
    shapes = rng.uniform(0, 100, (5, 6, 2))
    never, few = shapes.copy(), shapes.copy()
    never[:, 2] = np.nan
    few[3, :4] = np.nan
    with pytest.raises(ValueError, match="landmark 2 is missing in every sample"):
        complete(never)
    with pytest.raises(ValueError, match="shape 3 has fewer than three known landmarks"):
        complete(few)


def test_one_coordinate_alone_is_no_landmark(rng):
    half = linear_shapes(rng, 20, 8, 1)
    whole = half.copy()
    half[0, 4, 0], half[1, 5, 1], whole[0, 4], whole[1, 5] = np.nan, np.nan, np.nan, np.nan
    completed = complete(half)
    assert np.all(np.isfinite(completed))
    assert_array_equal(completed, complete(whole))


def test_three_landmarks_are_enough_to_complete_a_shape(rng):
    shapes = linear_shapes(rng, 20, 8, 1)
    incomplete = shapes.copy()
    incomplete[2, 3:] = np.nan
    assert np.max(np.abs(complete(incomplete) - shapes)) < 0.1 * shape_size(shapes[2])


class TestParts:
    """Of many shapes, every second is in a part, and so on; each part is filled in as if it were alone."""

    @pytest.fixture
    def incomplete(self, rng):
        return without(rng, linear_shapes(rng, 15, 9, 2) + rng.normal(size=(15, 9, 2)), 0.1)[0]

    def in_parts(self, monkeypatch, incomplete, at_once):
        with monkeypatch.context() as patch:
            patch.setattr(missing, "_AT_ONCE", at_once)
            return complete(incomplete)

    @pytest.mark.parametrize(("at_once", "parts"), [(8, 2), (5, 3), (15, 1)])
    def test_each_is_filled_in_alone(self, monkeypatch, incomplete, at_once, parts):
        found = self.in_parts(monkeypatch, incomplete, at_once)
        for number in range(parts):
            assert_array_equal(found[number::parts], complete(incomplete[number::parts]))
        assert (parts == 1) == np.array_equal(found, complete(incomplete))

    def test_a_landmark_that_a_part_never_has_is_filled_in_by_all_together(self, monkeypatch, incomplete):
        incomplete[1::2, 4] = np.nan
        assert_array_equal(self.in_parts(monkeypatch, incomplete, 8), complete(incomplete))

    def test_a_landmark_of_one_shape_of_a_part_is_enough(self, monkeypatch, incomplete):
        incomplete[0, 4] = (50, 50)
        incomplete[2::2, 4] = np.nan
        found = self.in_parts(monkeypatch, incomplete, 8)
        assert_array_equal(found[::2], complete(incomplete[::2]))


class TestTraining:
    @pytest.fixture
    def incomplete(self, dataset):
        def hide(sample, landmarks):
            points = sample.points().copy()
            points[landmarks, 1] = np.nan
            return replace(sample, points_source=lambda: points)

        return Dataset((hide(dataset[0], [3, 4, 60]), hide(dataset[1], [20]), *dataset[2:]), "incomplete")

    def test_refused_unless_asked_for(self, incomplete):
        with pytest.raises(InvalidDataset) as caught:
            train(incomplete, confidence=False)
        assert "sample 0: landmarks 3-4, 60 are missing (counted from 0); train" in str(caught.value)
        assert len(caught.value.problems) == 2

    def test_completed_if_asked_for(self, incomplete, dataset, model):
        completed = train(incomplete, size=40, shape_modes=(2, 5), missing="complete", confidence=False)
        assert completed.provenance["completed_landmarks"] == 4
        assert completed.provenance["samples"] == 24
        assert model.provenance["completed_landmarks"] == 0
        assert_allclose(completed.levels[1].shape.mean, model.levels[1].shape.mean, atol=0.1)

    def test_a_sample_of_two_landmarks_is_no_sample(self, incomplete):
        points = np.full((68, 2), np.nan)
        points[:2] = [[10, 10], [20, 30]]
        lost = replace(incomplete[0], name="lost", points_source=lambda: points)
        with pytest.raises(InvalidDataset, match="lost: only 2 of its 68 landmarks are known"):
            train(Dataset((*incomplete, lost), "lost"), missing="complete", confidence=False)

    def test_only_two_things_can_be_done(self, incomplete):
        with pytest.raises(ValueError, match="missing=ignore: it must be refuse or complete"):
            train(incomplete, missing="ignore", confidence=False)


def test_what_is_hidden_to_choose_modes_by_leaves_enough(rng):
    """A tenth of what is known, at least one; each shape keeps three landmarks, and each landmark two shapes."""
    known = rng.uniform(size=(40, 12)) < 0.7
    known[:, :4] = True
    hidden = _hidden(known)
    assert not np.any(hidden & ~known)
    assert np.sum(hidden) == np.ceil(0.1 * np.sum(known))
    assert_array_equal(hidden, _hidden(known))
    scarce = np.zeros((6, 5), dtype=bool)
    scarce[:, :3] = True
    scarce[:2, 3] = True
    left = scarce & ~_hidden(scarce)
    assert np.all(left.sum(axis=1) >= 3)
    assert np.all(left.sum(axis=0)[:4] >= 2)
    assert not np.any(_hidden(scarce)[:, 3])


def test_what_could_not_be_found_again_is_not_hidden():
    """Three landmarks place a shape, and one other shape is too few to say where a landmark is."""
    for known, some in (((9, 3), False), ((9, 4), True), ((2, 6), False), ((3, 6), True)):
        assert np.any(_hidden(np.ones(known, dtype=bool))) == some


def test_no_more_is_hidden_than_is_needed():
    """A tenth, and not one more; at least one, where that is less; and never more than two thousand."""
    few = np.ones((3, 4), dtype=bool)
    few[2, 2:] = False
    for known, hidden in (
        (few, 1),
        (np.ones((10, 10), dtype=bool), 10),
        (np.ones((90, 250), dtype=bool), 2000),
    ):
        assert np.sum(_hidden(known)) == hidden


class TestChoice:
    """More modes, as long as they find what is hidden, whose errors are made up here: shares of the object."""

    @pytest.fixture
    def choose(self, monkeypatch):
        shapes = np.tile(np.stack(np.mgrid[:5, :5], axis=-1).reshape(25, 2).astype(float), (45, 1, 1))
        known = np.ones((45, 25), dtype=bool)
        same = Similarity(np.ones(45, complex), np.zeros(45, complex))

        def chosen(error):
            tried = []

            def improved(filled, shapes, left, modes, rounds):
                tried.append(modes)
                return _Filled(shapes + (4 * error(modes), 0), same, filled.covariance)

            monkeypatch.setattr(missing, "_improved", improved)
            return _choose_modes(shapes, known), tried

        return chosen

    def test_two_counts_in_a_row_that_are_not_better_end_the_search(self, choose):
        errors = {1: 0.5, 2: 0.5, 3: 0.4, 4: 0.45, 5: 0.3}
        assert choose(lambda modes: errors.get(modes, 0.35)) == (5, [1, 2, 3, 4, 5, 6, 7])

    def test_an_error_of_two_hundredths_less_is_better_and_of_one_is_not(self, choose):
        assert choose(lambda modes: 0.5 if modes == 1 else 0.4925) == (1, [1, 2, 3])
        assert choose(lambda modes: 0.5 if modes == 1 else 0.4875) == (2, [1, 2, 3, 4])

    def test_counts_grow_by_quarters_and_end_at_forty(self, choose):
        best, tried = choose(lambda modes: 0.9**modes)
        assert tried == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33]
        assert best == 33

    def test_what_is_found_well_enough_ends_the_search(self, choose, monkeypatch):
        monkeypatch.setattr(missing, "_ENOUGH", 0.25)
        assert choose(lambda modes: 1 / 2**modes) == (2, [1, 2])

    def test_one_mode_where_nothing_can_be_hidden(self, rng):
        known = ~np.eye(5, 4, dtype=bool)
        known[4, 0] = False
        assert not np.any(_hidden(known))
        assert _choose_modes(rng.normal(size=(5, 4, 2)), known) == 1


def test_one_mode_is_learnt_beside_the_mean(rng):
    """The modes are those of the deviations: none is spent on the mean itself."""
    shapes = linear_shapes(rng, 40, 15, 1)
    incomplete, hidden = without(rng, shapes, 0.03)
    found = _improved(_begin(incomplete, ~hidden), incomplete, ~hidden, 1, 100).in_images()
    assert np.max(np.abs(found - shapes) / shape_size(shapes)[:, None, None]) < 1e-3


@pytest.mark.parametrize(("count", "landmarks", "most"), [(3, 9, 1), (4, 8, 2), (12, 4, 3), (5, 4, 3)])
def test_there_are_no_more_modes_than_the_shapes_can_have(rng, monkeypatch, count, landmarks, most):
    """However well more of them find what is hidden: fewer than the shapes, and than what poses leave of them."""
    monkeypatch.setattr(missing, "_GAIN", np.inf)
    known = np.ones((count, landmarks), dtype=bool)
    known[0, 0] = False
    assert _choose_modes(rng.normal(size=(count, landmarks, 2)), known) == most


def test_variance_is_that_of_the_modes_or_noise(rng):
    """The covariance keeps its leading part, and the noise has the rest, but for the four dimensions of a pose."""
    deviations, unsure = rng.normal(size=(30, 12)) * np.arange(1, 13), np.diag(rng.random(12))
    covariance = deviations.T @ deviations / 30 + unsure
    values, vectors = np.linalg.eigh(covariance)
    basis, noise = _model(deviations, unsure, 3)
    assert noise == pytest.approx(np.sum(values[:-3]) / (12 - 4 - 3))
    for modes in (7, 8):
        assert _model(deviations, unsure, modes)[1] == pytest.approx(np.sum(values[:-modes]))
    leading = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    within = vectors[:, -3:] @ vectors[:, -3:].T
    assert_allclose(basis @ basis.T + noise * within, leading, atol=1e-9)
    small, little = _model(0.01 * deviations, 1e-4 * unsure, 3)
    assert_allclose(small @ small.T, 1e-4 * basis @ basis.T, atol=1e-9)
    assert little == pytest.approx(1e-4 * noise)
    # Without any noise, nothing could be inverted.
    rigid = np.outer(rng.normal(size=30), np.arange(12.0))
    floor = missing._FLOOR * np.sum(rigid**2) / 30
    assert _model(rigid, np.zeros((12, 12)), 1)[1] == pytest.approx(floor)
    assert _model(np.zeros((30, 12)), np.zeros((12, 12)), 1)[1] > 0


class TestExpectation:
    def test_what_is_open_varies_as_the_model_says(self, rng):
        """The mean and covariance of a Gaussian given some of its coordinates, by the usual formula."""
        basis, noise = rng.normal(size=(8, 2)), 0.3
        whole = basis @ basis.T + noise * np.eye(8)
        seen = np.ones((2, 8), dtype=bool)
        seen[0, [1, 4]] = False
        seen[1, [4, 5, 6]] = False
        deviations = rng.normal(size=(2, 8))
        found, covariance = _expected(deviations, seen, basis, noise)
        expected = np.zeros((8, 8))
        for row, s, own in zip(found, seen, deviations, strict=True):
            gain = whole[np.ix_(~s, s)] @ np.linalg.inv(whole[np.ix_(s, s)])
            assert_allclose(row[~s], gain @ own[s], atol=1e-9)
            assert_array_equal(row[s], own[s])
            expected[np.ix_(~s, ~s)] += whole[np.ix_(~s, ~s)] - gain @ whole[np.ix_(s, ~s)]
        assert_allclose(covariance, expected, atol=1e-9)

    def test_the_mean_of_what_is_known_is_the_mean_that_all_shapes_share(self, rng):
        """Copies of one shape in any pose, with holes: their mean is that shape, upright as nobody knows how."""
        shape = rng.normal(size=(9, 2))
        z = (
            (shape[:, 0] + 1j * shape[:, 1])
            * rng.uniform(5, 50, (12, 1))
            * np.exp(1j * rng.uniform(0, 6, (12, 1)))
        )
        shapes = np.stack([z.real, z.imag], axis=-1) + rng.uniform(-90, 90, (12, 1, 2))
        known = rng.random((12, 9)) < 0.7
        known[0], known[0, :2] = True, False
        known[:, :5] |= np.sum(known, axis=1, keepdims=True) < 4
        mean, frames = _masked_mean(np.where(known[:, :, None], shapes, np.nan), known)
        assert_allclose(mean.mean(axis=0), 0, atol=1e-9)
        assert shape_size(mean) == pytest.approx(1)
        assert_allclose(frames.apply(np.broadcast_to(mean, shapes.shape)), shapes, atol=1e-6)

    def test_a_shape_that_shares_nothing_with_the_first_waits(self, rng):
        """The fullest shape has the first six landmarks; one that has only others is placed by those in between."""
        shape = rng.normal(size=(9, 2))
        known = np.zeros((6, 9), dtype=bool)
        known[0, :6] = known[1:4, 3:] = known[4:, 6:] = True
        known[4:, 5] = True
        shapes = np.where(known[:, :, None], shape * rng.uniform(1, 5, (6, 1, 1)), np.nan)
        mean, frames = _masked_mean(shapes, known)
        placed = frames.inverse().apply(np.nan_to_num(shapes))
        assert_allclose(placed[known], np.broadcast_to(mean, placed.shape)[known], atol=1e-3)

    def test_two_landmarks_shared_with_the_fullest_shape_place_another(self, rng):
        """All are placed exactly in the first round; the emptiest shape shares too little with the others."""
        known = np.zeros((4, 9), dtype=bool)
        known[0, :7] = known[1, 3:] = known[2, [0, 1, 8]] = known[3, 3:] = True
        shape = rng.normal(size=(9, 2))
        shapes = np.where(known[:, :, None], shape * rng.uniform(1, 5, (4, 1, 1)), np.nan)
        mean, frames = _masked_mean(shapes, known)
        assert_allclose(frames.apply(np.tile(mean, (4, 1, 1)))[known], shapes[known], atol=1e-9)

    def test_a_shape_without_any_landmark_of_the_first_waits_too(self, rng):
        known = np.zeros((6, 9), dtype=bool)
        known[0, :6] = known[1:4, 3:] = known[4:, 6:] = True
        shapes = np.where(known[:, :, None], rng.normal(size=(9, 2)) * rng.uniform(1, 5, (6, 1, 1)), np.nan)
        mean, frames = _masked_mean(shapes, known)
        placed = frames.inverse().apply(np.nan_to_num(shapes))
        assert_allclose(placed[known], np.broadcast_to(mean, placed.shape)[known], atol=1e-3)
