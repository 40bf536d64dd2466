"""Similarities, Procrustes and the point distribution model, by their properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pliant.shape import SIMILARITY, Similarity, align, generalised_procrustes, shape_size, train_shape_model
from pliant.shape.generalisation import held_out_noise
from pliant.shape.pdm import similarity_vectors
from pliant.shape.procrustes import in_one_place

seeds = st.integers(0, 2**32 - 1)


def random_similarity(rng: np.random.Generator, *batch: int) -> Similarity:
    factor = np.exp(rng.uniform(-1, 1, batch) + 1j * rng.uniform(-np.pi, np.pi, batch))
    return Similarity(
        np.asarray(factor), np.asarray(rng.normal(size=batch) + 1j * rng.normal(size=batch)) * 50
    )


def random_shapes(rng: np.random.Generator, count: int, landmarks: int = 9) -> np.ndarray:
    """Deformations of one base shape along three directions, each placed at random."""
    base = rng.normal(size=(landmarks, 2)) * 30
    directions = rng.normal(size=(3, landmarks, 2)) * np.array([4, 2, 1])[:, None, None]
    shapes = base + np.einsum("kn,nvd->kvd", rng.normal(size=(count, 3)), directions)
    return random_similarity(rng, count).apply(shapes)


@given(seeds)
def test_align_recovers_the_similarity_between_a_shape_and_its_image(seed):
    rng = np.random.default_rng(seed)
    shape, truth = rng.normal(size=(7, 2)) * 20, random_similarity(rng)
    found = align(shape, truth.apply(shape))
    assert_allclose(found.factor, truth.factor, rtol=1e-9)
    assert_allclose(found.inverse().apply(truth.apply(shape)), shape, atol=1e-8)


@given(seeds)
def test_align_is_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(2, 6, 2))
    best = align(source, target)
    cost = np.sum((best.apply(source) - target) ** 2)
    for nudge in (0.01, -0.01, 0.01j, -0.01j):
        assert np.sum((Similarity(best.factor + nudge, best.offset).apply(source) - target) ** 2) > cost
        assert np.sum((Similarity(best.factor, best.offset + nudge).apply(source) - target) ** 2) > cost


def test_align_never_reflects():
    shape = np.array([[0.0, 0], [4, 0], [4, 1], [0, 3]])
    mirrored = shape * [-1, 1]
    assert np.abs(align(shape, mirrored).apply(shape) - mirrored).max() > 0.5


@settings(max_examples=20)
@given(seeds)
def test_generalised_procrustes_does_not_depend_on_how_the_shapes_are_placed(seed):
    rng = np.random.default_rng(seed)
    shapes = random_shapes(rng, 12)
    moved = random_similarity(rng, 12).apply(shapes)
    one, other = generalised_procrustes(shapes)[0], generalised_procrustes(moved)[0]
    assert_allclose(align(one, other).apply(one), other, atol=1e-6)


def test_the_mean_of_upright_shapes_is_upright():
    rng = np.random.default_rng(0)
    base = np.array([[-3.0, -5], [3, -5], [4, 0], [3, 6], [-3, 6], [-4, 0]])
    tilts = rng.uniform(-0.4, 0.4, 40)
    tilts -= tilts.mean()
    shapes = Similarity(np.exp(1j * tilts), np.zeros(40, complex)).apply(
        base + rng.normal(0, 0.05, (40, 6, 2))
    )
    mean, aligned = generalised_procrustes(shapes[::-1])
    assert abs(align(base, mean).angle) < 0.02
    assert_allclose(np.sqrt(np.mean(np.sum(mean**2, axis=-1))), 1)
    assert_allclose(align(aligned, mean).factor, 1, atol=1e-9)


def test_size_is_the_mean_of_height_and_width():
    assert shape_size(np.array([[1.0, 2], [5, 2], [3, 10]])) == 6


@pytest.fixture
def model():
    return train_shape_model(random_shapes(np.random.default_rng(3), 60), size=100)


def test_similarity_and_modes_are_orthonormal_together(model):
    assert_allclose(model.basis.T @ model.basis, np.eye(model.parameters), atol=1e-9)


def test_the_first_four_vectors_span_the_similarities(model):
    moved = random_similarity(np.random.default_rng(5)).apply(model.mean)
    parameters = model.project(moved)
    assert_allclose(model.instance(parameters), moved, atol=1e-8)
    assert_allclose(parameters[SIMILARITY:], 0, atol=1e-8)


def test_similarity_vectors_scale_rotate_and_shift():
    mean = np.random.default_rng(1).normal(size=(5, 2))
    scale, turn, right, down = similarity_vectors(mean).T.reshape(4, 5, 2)
    centred = mean - mean.mean(axis=0)
    assert_allclose(scale, centred / np.linalg.norm(centred))
    assert_allclose(np.sum(turn * centred, axis=1), 0, atol=1e-12)
    assert_allclose(right, [[5**-0.5, 0]] * 5)
    assert_allclose(down, [[0, 5**-0.5]] * 5)


def test_three_generated_directions_give_three_modes(model):
    assert np.sum(model.eigenvalues > 1e-3 * model.eigenvalues[0]) >= 3
    assert model.truncated(3).variance_kept > 0.98


def test_project_and_instance_are_inverse_on_the_model(model):
    parameters = np.random.default_rng(0).normal(size=(4, 2, model.parameters))
    assert_allclose(model.project(model.instance(parameters)), parameters, atol=1e-9)


def test_eigenvalues_are_the_variances_of_the_training_parameters():
    shapes = random_shapes(np.random.default_rng(8), 50)
    model = train_shape_model(shapes, size=100)
    aligned = align(shapes, model.mean).apply(shapes)
    parameters = model.project(aligned)[:, SIMILARITY:]
    assert_allclose(np.var(parameters, axis=0, ddof=1)[:3], model.eigenvalues[:3], rtol=0.02)


def test_modes_by_count_and_by_variance(model):
    assert model.truncated(2).modes == 2
    by_share = model.truncated(0.9)
    assert by_share.variance_kept >= 0.9 > model.truncated(by_share.modes - 1).variance_kept
    with pytest.raises(ValueError, match="shape_modes = 1.5"):
        model.truncated(1.5)


def test_noise_variance_averages_what_was_discarded(model):
    kept = model.truncated(2)
    expected = model.eigenvalues[2:].sum() / (model.rank - 2)
    assert_allclose(kept.noise_variance, expected, rtol=1e-6)
    assert model.rank == 2 * 9 - 4


def test_scaling_a_model_scales_its_instances(model):
    half = model.scaled(0.5)
    parameters = np.random.default_rng(0).normal(size=model.parameters)
    assert_allclose(half.instance(parameters * 0.5), model.instance(parameters) * 0.5, atol=1e-9)
    assert_allclose(half.eigenvalues, model.eigenvalues / 4)


def test_a_rigid_object_has_no_modes():
    base = np.random.default_rng(0).normal(size=(6, 2))
    model = train_shape_model(random_similarity(np.random.default_rng(1), 10).apply(base), size=50)
    assert model.modes == 0
    assert model.noise_variance < 1e-12


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        (np.zeros((3, 4)), "shapes, landmarks, 2"),
        (np.zeros((1, 4, 2)), "at least two shapes"),
        (np.zeros((5, 2, 2)), "at least three landmarks"),
    ],
)
def test_what_cannot_be_a_set_of_shapes_gets_a_sentence(shapes, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_shape_model(shapes, 100)


def test_points_in_one_place_are_told_from_points_on_a_line():
    place, line = np.full((4, 2), 7.0), np.arange(4.0)
    across, along = place.copy(), place.copy()
    across[:, 0], along[:, 1] = line, line
    assert in_one_place(np.array([place, across, along, across + along])).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_with_ten_shapes_a_landmarks_own_noise_counts_as_much_as_that_of_all():
    """Ten shapes, and four copies of each in the same five folds: 10 / (10 + 10) of its own, and 40 / (40 + 10)."""
    rng = np.random.default_rng(4)
    shapes = random_shapes(rng, 10) + rng.normal(0, 1, (10, 9, 2)) * np.linspace(0, 2, 9)[:, None]
    model = train_shape_model(shapes, size=100).truncated(1)
    few, many = (held_out_noise(some, model) for some in (shapes, np.tile(shapes, (4, 1, 1))))
    common = np.trace(few.mean(axis=0)) / 2 * np.eye(2)
    assert_allclose(np.trace(many.mean(axis=0)) / 2 * np.eye(2), common, rtol=1e-6)
    assert_allclose((many - common) / (4 / 5), (few - common) / (1 / 2), atol=1e-6 * common.max())


def test_held_out_noise_stands_as_the_model_does():
    """The mean of a model that is turned by a quarter: x and y change places, and their covariance its sign."""
    shapes = random_shapes(np.random.default_rng(2), 20)
    quarter = Similarity(np.asarray(1j), np.asarray(0j))
    upright, lying = (
        train_shape_model(some, size=100).truncated(1) for some in (shapes, quarter.apply(shapes))
    )
    noise = held_out_noise(shapes, upright)
    assert np.max(np.abs(noise[:, 0, 1])) > 0.1 * np.max(noise)
    assert_allclose(
        held_out_noise(shapes, lying), noise[:, ::-1, ::-1] * [[1, -1], [-1, 1]], rtol=1e-6, atol=1e-9
    )
