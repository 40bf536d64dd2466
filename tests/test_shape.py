"""Similarities, Procrustes and the point distribution model, by their properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pliant.crew import Threads
from pliant.shape import (
    SIMILARITY,
    Similarity,
    align,
    generalised_procrustes,
    procrustes,
    shape_size,
    train_shape_model,
)
from pliant.shape.generalisation import held_out_noise
from pliant.shape.pdm import similarity_vectors
from pliant.shape.procrustes import in_one_place, procrustes_mean

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


def test_the_mean_is_the_mean_of_the_shapes_that_are_aligned_to_it():
    """Also where a landmark is in its place from the beginning, as the centre of these is: others still move."""
    cross = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1], [0, 0]])
    shapes = np.stack([cross * (1, height) for height in (0.1, 1.0, 3.0, 8.0)])
    mean, aligned = generalised_procrustes(shapes)
    average = aligned.mean(axis=0)
    assert_allclose(average / np.sqrt(np.mean(np.sum(average**2, axis=-1))), mean, atol=1e-9)
    assert not np.allclose(mean, generalised_procrustes(shapes, tolerance=np.inf)[0], atol=1e-3)


def test_only_shapes_in_several_parts_are_given_to_a_crew(monkeypatch):
    class Counting(Threads):
        calls = 0

        def merged(self, *arguments):
            Counting.calls += 1
            return super().merged(*arguments)

    shapes = random_shapes(np.random.default_rng(4), 12)
    alone = procrustes_mean(shapes, jobs=Counting(1))
    assert Counting.calls == 0
    monkeypatch.setattr(procrustes, "AT_ONCE", 6)
    assert_allclose(procrustes_mean(shapes, jobs=Counting(1)), alone, atol=1e-8)
    assert Counting.calls > 0


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
    assert_allclose(half.total_variance, model.total_variance / 4)


@pytest.mark.parametrize("modes", [1, 2, 3])
def test_distances_from_the_mean_are_in_standard_deviations(model, modes):
    """All modes at two deviations are at a distance of two, and one of n alone at 2 / sqrt(n)."""
    few = model.truncated(modes)
    all_of_them, one = np.full((2, 4 + modes), 9.0)
    all_of_them[4:] = 2 * np.sqrt(few.eigenvalues)
    one[4:], one[4] = 0, -2 * np.sqrt(few.eigenvalues[0])
    assert_allclose(few.mahalanobis(np.stack([all_of_them, one])), [2, 2 / np.sqrt(modes)])
    assert model.truncated(0).mahalanobis(np.full(4, 9.0)) == 0


def test_two_triangles_are_the_least_that_a_model_can_have():
    shapes = np.array([[[0.0, 0], [4, 0], [0, 3]], [[0.0, 0], [4, 0], [1, 3]]])
    model = train_shape_model(shapes, size=10)
    assert model.modes == model.rank == 1
    placed = align(shapes, model.mean).apply(shapes)
    assert_allclose(model.instance(model.project(placed)), placed, atol=0.05)


@pytest.mark.parametrize("size", [0.01, 1, 100])
def test_what_is_rounding_is_told_by_the_size_of_the_model(size):
    """Two modes, whose variances are 1e-11 and 1e-13 of the square of the size: the second is none."""
    mean = np.random.default_rng(2).normal(size=(6, 2))
    mean -= mean.mean(axis=0)
    similarity = similarity_vectors(mean)
    both = np.random.default_rng(3).normal(size=(12, 2))
    both = np.linalg.qr(both - similarity @ (similarity.T @ both))[0]
    modes = both.T.reshape(2, 6, 2) * shape_size(mean) * np.sqrt([1.5e-11, 1.5e-13])[:, None, None]
    model = train_shape_model(mean + np.concatenate([modes, -modes]), size=size)
    assert_allclose(model.eigenvalues, [1e-11 * size**2], rtol=1e-3)


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


class Tensor(np.ndarray):
    """Has what a tensor of PyTorch has, as far as shapes need it: most tests run without PyTorch."""

    amin, amax = np.ndarray.min, np.ndarray.max


@pytest.fixture(params=["arrays", "tensors"])
def made(request, monkeypatch):
    """How arrays are made of numbers, of NumPy or as if they were PyTorch's."""
    if request.param == "arrays":
        return np.asarray
    monkeypatch.setattr(procrustes, "is_tensor", lambda array: isinstance(array, Tensor))
    return lambda numbers: np.asarray(numbers).view(Tensor)


def test_points_in_one_place_are_told_from_points_on_a_line(made):
    place, line = np.full((4, 2), 7.0), np.arange(4.0)
    across, along = place.copy(), place.copy()
    across[:, 0], along[:, 1] = line, line
    shapes = made(np.array([place, across, along, across + along, place + 1]))
    assert in_one_place(shapes).tolist() == [True, False, False, False, True]


def test_a_quarter_turn_goes_from_the_x_axis_to_the_y_axis(made):
    points = made(np.array([[1.0, 0], [0, 2], [3, 4]]))
    turned = Similarity(np.array(2j), np.array(10 - 1j)).apply(points)
    assert_allclose(np.asarray(turned), [[10, 1], [6, -1], [2, 5]])


def test_transforms_are_found_in_double_precision():
    """Whatever the precision of the points: a float32 has seven digits, and 1 / 3 of it more."""
    shape = np.array([[0.0, 0], [3, 0], [0, 3]], dtype=np.float32)
    assert align(shape, shape / np.float32(3)).factor.dtype == np.complex128
    third = Similarity(np.array(1 / 3 + 0j), np.array(0j)).apply(shape)
    assert third.dtype == np.float64
    assert_allclose(third[1, 0], 1, rtol=1e-15)


def test_one_scale_of_zero_among_others_cannot_be_undone():
    factors, offsets = np.array([1 + 0j, 0, 2j]), np.zeros(3, complex)
    with pytest.raises(ValueError, match="whose scale is 0 cannot be undone"):
        Similarity(factors, offsets).inverse()
    assert_allclose(Similarity(factors[::2], offsets[::2]).inverse().factor, [1, -0.5j])


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
