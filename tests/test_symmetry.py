"""Mirrors: faces are found to be symmetric as everybody knows they are, and other things are not."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pliant.data.dataset import mirrored_points
from pliant.shape import generalised_procrustes, symmetry
from pliant.shape.pdm import similarity_vectors
from pliant.shape.symmetry import _best_match, asymmetry, find_mirror, mirror_of_pairs
from pliant.synthetic import faces
from pliant.training import train

# The 68 landmarks of iBUG: jaw, brows, nose, eyes, mouth outside and inside, written down by hand.
FACE_PAIRS = [
    *[(0, 16), (1, 15), (2, 14), (3, 13), (4, 12), (5, 11), (6, 10), (7, 9)],
    *[(17, 26), (18, 25), (19, 24), (20, 23), (21, 22)],
    *[(31, 35), (32, 34)],
    *[(36, 45), (37, 44), (38, 43), (39, 42), (40, 47), (41, 46)],
    *[(48, 54), (49, 53), (50, 52), (55, 59), (56, 58)],
    *[(60, 64), (61, 63), (65, 67)],
]


def symmetric_shapes(rng, pairs: int, middle: int, count: int = 60):
    """Shapes that are symmetric on average, in random poses, and the permutation of their landmarks."""
    half = rng.uniform((0.4, -2), (2, 2), (pairs, 2))
    axis = np.stack([np.zeros(middle), np.linspace(-2, 2, middle)], axis=1)
    mean = np.concatenate([half, half * (-1, 1), axis])
    partner = np.concatenate(
        [np.arange(pairs) + pairs, np.arange(pairs), np.arange(2 * pairs, 2 * pairs + middle)]
    )
    order = rng.permutation(len(mean))
    mean, partner = mean[order], np.argsort(order)[partner[order]]
    noisy = mean + rng.normal(0, 0.03, (count, len(mean), 2))
    noisy = np.concatenate([noisy, noisy[:, partner] * (-1, 1)])
    angles = rng.uniform(-3, 3, len(noisy))
    turns = np.stack([np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)], axis=1).reshape(
        -1, 2, 2
    )
    return (noisy @ turns.transpose(0, 2, 1)) * 30 + rng.uniform(50, 90, (len(noisy), 1, 2)), partner


def test_faces_are_mirrored_as_everybody_knows():
    shapes = np.array([sample.points() for sample in faces(40, seed=4, image_size=64)])
    assert_array_equal(find_mirror(shapes), mirror_of_pairs(FACE_PAIRS, 68))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.integers(3, 12), middle=st.integers(0, 4))
def test_symmetric_objects_are_found_at_any_angle_and_in_any_order(seed, pairs, middle):
    rng = np.random.default_rng(seed)
    shapes, partner = symmetric_shapes(rng, pairs, middle)
    mean = shapes[0]
    apart = np.linalg.norm(mean[:, None] - mean, axis=-1) + np.diag(np.full(len(mean), np.inf))
    if apart.min() > 8:  # Landmarks on top of each other cannot be told apart, and are refused.
        assert_array_equal(find_mirror(shapes), partner)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_objects_without_symmetry_are_refused(seed):
    rng = np.random.default_rng(seed)
    shapes = rng.uniform(0, 100, (15, 2)) + rng.normal(0, 1, (40, 15, 2))
    with pytest.raises(ValueError, match="does not look symmetric: .* give them"):
        find_mirror(shapes)


def test_two_mirrors_are_none(rng):
    points, permutation = rng.uniform(0, 50, (68, 2)), mirror_of_pairs(FACE_PAIRS, 68).tolist()
    once = mirrored_points(points, 60, permutation)
    assert_allclose(once[0], [59 - points[16, 0], points[16, 1]])
    assert_allclose(mirrored_points(once, 60, permutation), points)


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([(0, 5)], "has landmark 5, but landmarks are numbered from 0 to 4"),
        ([(0, 1), (1, 2)], "landmark 1 is in two pairs"),
        ([(0, 0)], "two different landmarks, not 0, 0"),
        ([(0, 1, 2)], "two different landmarks"),
    ],
)
def test_pairs_without_meaning_get_a_sentence(pairs, sentence):
    with pytest.raises(ValueError, match=sentence):
        mirror_of_pairs(pairs, 5)


def test_a_model_of_mirrored_faces_is_symmetric(dataset):
    permutation = mirror_of_pairs(FACE_PAIRS, 68)
    model = train(dataset, size=40, scales=(1.0,), shape_modes=5, mirror=FACE_PAIRS, confidence=False)
    assert model.provenance["samples"] == model.provenance["mirrored"] == 24
    mean = model.levels[0].shape.mean - model.levels[0].shape.mean.mean(axis=0)
    assert_allclose(mean[permutation] * (-1, 1), mean, atol=0.02)
    drawn, _ = model.draw(height=96)
    inside = drawn[30:70]
    assert np.mean(np.abs(inside - inside[:, ::-1])) < 0.03
    alone = train(dataset, size=40, scales=(1.0,), shape_modes=5, confidence=False)
    mean = alone.levels[0].shape.mean - alone.levels[0].shape.mean.mean(axis=0)
    assert np.abs(mean[permutation] * (-1, 1) - mean).max() > 0.1


def test_a_mirrored_sample_keeps_image_and_landmarks_together(dataset):
    sample = dataset[0]
    mirrored = sample.mirrored(mirror_of_pairs(FACE_PAIRS, 68).tolist())
    x, y = np.round(sample.points()[30]).astype(int)
    mirrored_x, mirrored_y = np.round(mirrored.points()[30]).astype(int)
    assert mirrored_x == sample.image().shape[1] - 1 - x
    assert_array_equal(mirrored.image()[mirrored_y, mirrored_x], sample.image()[y, x])


def test_landmarks_too_near_to_each_other_to_be_told_apart_are_named(rng):
    """Two landmarks beside each other, off by as much as they are apart: either could be the partner."""
    half = np.array([(1.0, 0.0), (0.8, 0.9), (0.5, -0.9), (0.3, 0.5)])
    mean = np.concatenate([half, half * [-1, 1], [(0.0, 0.3), (0.03, 0.3), (0.0, -0.6)]])
    mean[3] += (0.0, 0.05)
    shapes = mean + 0.12 * rng.normal(size=(400, *mean.shape))
    with pytest.raises(ValueError, match=r"partners for landmark (8|9) and others"):
        find_mirror(shapes)


def test_an_object_must_be_as_symmetric_as_it_varies(rng):
    """The same mean is symmetric if landmarks vary by ten times its mismatch, and is not if they hardly do."""
    half = np.array([(1.0, 0.0), (0.8, 0.9), (0.5, -0.9), (0.3, 0.5)])
    mean = np.concatenate([half, half * [-1, 1], [(0.0, 0.3), (0.0, -0.6)]])
    mean[0] += (0.0, 0.08)
    assert_array_equal(
        find_mirror(mean + 0.08 * rng.normal(size=(400, *mean.shape))), [4, 5, 6, 7, 0, 1, 2, 3, 8, 9]
    )
    with pytest.raises(ValueError, match="does not look symmetric"):
        find_mirror(mean + 0.015 * rng.normal(size=(400, *mean.shape)))


def test_pairs_swap_and_the_rest_stays():
    assert mirror_of_pairs([(0, 2), (4, 3)], 6).tolist() == [2, 1, 0, 4, 3, 5]
    assert mirror_of_pairs([(0, 5)], 6).tolist() == [5, 1, 2, 3, 4, 0]
    for pairs, sentence in (([], "there is no pair"), ([(-1, 2)], "landmark -1"), ([(0, 6)], "landmark 6")):
        with pytest.raises(ValueError, match=sentence):
            mirror_of_pairs(pairs, 6)


@pytest.mark.parametrize("off", [0.0, 0.1, 0.3])
def test_asymmetry_is_the_mismatch_over_the_variation(off, rng):
    """Four landmarks, of which one pair is off by a height: its mirror image misses by that much at both."""
    mean = np.array([(1.0, 1), (-1, 1), (1, -1), (-1, -1), (0, 1.5), (0, -1.5)])
    size = np.sqrt(np.mean(np.sum(mean**2, axis=1)))
    mean[0, 1] += off * size
    shapes = mean + 0.3 * size * rng.normal(size=(2000, *mean.shape))
    # Both of the pair miss, and so does the turn that makes up for a part of it; two numbers vary at a landmark.
    expected = off * np.sqrt(2 / 6) / (0.3 * np.sqrt(2))
    assert asymmetry(shapes) == pytest.approx(expected, rel=0.35, abs=0.05)


class TestMatching:
    @pytest.mark.parametrize("seed", range(12))
    def test_no_other_matching_and_no_other_axis_are_better(self, seed):
        """All 5040 matchings of seven landmarks, each at the best of all angles; shapes do not vary at all."""
        mean = np.random.default_rng(seed).normal(size=(7, 2))
        mean -= mean.mean(axis=0)
        z, everything = mean @ (1, 1j), np.array(list(permutations(range(7))))
        costs = 2 * np.sum(np.abs(z) ** 2) - 2 * np.abs(np.sum(z * z[everything], axis=1))
        permutation, mismatch = _best_match(mean, np.stack([mean, mean]))
        assert np.sum(mismatch**2) == pytest.approx(np.min(costs))
        found = np.flatnonzero(np.all(everything == permutation, axis=1))[0]
        assert costs[found] == pytest.approx(np.min(costs))

    @pytest.mark.parametrize("average", [0.5, 3.0])
    def test_a_mode_makes_up_for_a_mean_that_is_turned_as_far_as_chance_goes(self, average):
        """Four weights that vary by 1 leave a mean of 1.5 to chance; its mirror image is off by twice as much."""
        half = np.array([(1.0, 0.0), (0.8, 0.9), (0.5, -0.9), (0.3, 0.5)])
        even = np.concatenate([half, half * (-1, 1)])
        even -= even.mean(axis=0)
        turn = np.array([(0.3, 1.0), (-0.2, 0.4), (0.1, -0.5), (0.6, 0.2)])
        odd = np.concatenate([turn, turn * (1, -1)]).ravel()
        similarity = similarity_vectors(even)
        odd -= similarity @ (similarity.T @ odd)
        odd = 0.1 * (odd / np.linalg.norm(odd)).reshape(8, 2)
        shapes = even + (average + np.array([-1.0, 1, -1, 1]))[:, None, None] * odd
        permutation, mismatch = _best_match(shapes.mean(axis=0), shapes)
        assert_array_equal(permutation, [4, 5, 6, 7, 0, 1, 2, 3])
        left = max(2 * average - 2 * 3 * 2 / 4, 0)
        assert_allclose(mismatch, left * np.linalg.norm(odd, axis=1), atol=1e-9)

    def test_a_search_ends_when_the_matching_repeats(self, monkeypatch):
        import scipy.optimize

        match, rounds = scipy.optimize.linear_sum_assignment, []
        monkeypatch.setattr(
            scipy.optimize, "linear_sum_assignment", lambda costs: (rounds.append(1), match(costs))[1]
        )
        mean = np.random.default_rng(1).normal(size=(9, 2))
        _best_match(mean - mean.mean(axis=0), np.stack([mean - mean.mean(axis=0)] * 2))
        assert 2 * 36 <= len(rounds) <= 6 * 36


class TestBounds:
    """What is said of a match is up to its mismatch: half of the variation, and half of the way to a neighbour."""

    @pytest.fixture
    def find(self, monkeypatch):
        mean = np.array([(-1.0, 0), (1, 0), (0, 2), (0, 4), (0, 4)])

        def found(mismatch=(0, 0, 0, 0, 0), ratio=0.0, permutation=(1, 0, 2, 3, 4)):
            match = mean, np.array(permutation), np.array(mismatch, dtype=float), ratio
            monkeypatch.setattr(symmetry, "_in_a_mirror", lambda shapes: match)
            return find_mirror(mean[None])

        return found

    def test_half_of_the_variation_is_symmetric(self, find):
        assert find(ratio=0.5).tolist() == [1, 0, 2, 3, 4]
        with pytest.raises(ValueError, match=r"off by 0\.7 times"):
            find(ratio=0.7)

    def test_half_of_the_way_to_a_neighbour_is_clear(self, find):
        assert find(mismatch=(1, 1, 1, 0.01, 0.01)).tolist() == [1, 0, 2, 3, 4]
        for landmark, off in ((1, 1.01), (2, 1.1), (3, 0.012), (4, 0.012)):
            with pytest.raises(ValueError, match=f"partners for landmark {landmark} and others"):
                find(mismatch=off * np.eye(5)[landmark])

    def test_partners_have_each_other(self, find):
        with pytest.raises(ValueError, match="partners for landmark 1 and others"):
            find(permutation=(0, 2, 3, 1, 4))


def test_asymmetry_is_measured_in_root_mean_square_distances_from_the_mean(rng):
    mean = np.array([(1.0, 1), (-1, 1), (1, -1.2), (-1, -1), (0, 1.5), (0, -1.5)])
    shapes = mean + 0.2 * rng.normal(size=(50, *mean.shape))
    average, aligned = generalised_procrustes(shapes)
    mismatch = _best_match(average, aligned)[1]
    # A hundredth of the size counts as exact, and is added to what each landmark varies by.
    varies = np.linalg.norm(np.linalg.norm(aligned - average, axis=-1), axis=0) / np.sqrt(50)
    expected = np.linalg.norm(mismatch / np.hypot(varies, 0.01)) / np.sqrt(6)
    assert asymmetry(shapes) == pytest.approx(expected, rel=1e-9)
    still = np.tile(mean, (3, 1, 1))
    average, aligned = generalised_procrustes(still)
    mismatch = _best_match(average, aligned)[1]
    assert asymmetry(still) == pytest.approx(100 * np.sqrt(np.mean(mismatch**2)))
