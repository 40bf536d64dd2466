"""Mirrors: faces are found to be symmetric as everybody knows they are, and other things are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pliant.data.dataset import mirrored_points
from pliant.shape.symmetry import asymmetry, find_mirror, mirror_of_pairs
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
