"""Errors: which points count, what they are divided by, and how they are summed up."""

import numpy as np
import pytest

from pliant.metrics import capped, matched, normalised_error, point_subset, summarise

SQUARE = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 20.0], [0.0, 20.0]])


def test_subsets():
    assert point_subset("all", 5).tolist() == [0, 1, 2, 3, 4]
    assert point_subset("3, 0-1,1", 5).tolist() == [0, 1, 3]
    assert point_subset(" ALL ", 2).tolist() == [0, 1]
    assert point_subset("2-2, 4 ,3 - 4", 5).tolist() == [2, 3, 4]
    interior = point_subset("interior49", 68)
    assert len(interior) == 49
    assert interior.tolist() == point_subset("17-59,61-63,65-67", 68).tolist()
    assert not {*range(17), 60, 64} & set(interior.tolist())
    assert interior.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("eyes", "must be 'all', 'interior49'"),
        ("", "must be 'all', 'interior49'"),
        ("1,,2", "must be 'all', 'interior49'"),
        ("-1", "must be 'all', 'interior49'"),
        ("3-1", "the range 3-1 is backwards"),
        ("2-5", "there is no landmark 5; landmarks are numbered from 0 to 4"),
        ("interior49", "is for 68 landmarks, but there are 5"),
    ],
)
def test_nonsense_gets_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        point_subset(text, 5)


def test_the_size_is_that_of_all_points():
    moved = SQUARE.copy()
    moved[0] += (3, 4)
    assert normalised_error(SQUARE, SQUARE, point_subset("all", 4)) == 0
    assert normalised_error(moved, SQUARE, point_subset("0", 4)) == pytest.approx(5 / 15)
    assert normalised_error(moved, SQUARE, point_subset("all", 4)) == pytest.approx(5 / 4 / 15)
    assert normalised_error(moved, SQUARE, point_subset("1-3", 4)) == 0


def test_the_error_does_not_depend_on_the_image_size(rng):
    points, subset = SQUARE + rng.normal(size=(4, 2)), point_subset("1-2", 4)
    assert normalised_error(7 * points + 3, 7 * SQUARE + 3, subset) == pytest.approx(
        normalised_error(points, SQUARE, subset)
    )


def test_without_a_size_or_a_landmark_there_is_no_error():
    with pytest.raises(ValueError, match="no landmark counts, so that there is no error"):
        normalised_error(SQUARE, SQUARE, np.array([], dtype=np.int32))
    with pytest.raises(ValueError, match="all landmarks of the truth lie in one place"):
        normalised_error(SQUARE, 0 * SQUARE, point_subset("all", 4))


def test_a_miss_is_a_miss():
    assert capped([0.0, 0.5, 1.0, 1.5, np.inf, np.nan]).tolist() == [0, 0.5, 1, 1, 1, 1]


class TestMatched:
    """SQUARE has the size 15, so that a shape 3 to the right has an error of 0.2."""

    def test_shapes_are_found_in_any_order(self):
        there = [SQUARE + 100 * k for k in range(3)]
        assert matched(there, [there[2] + 1, there[0] + 1, there[1] + 1]) == [1, 2, 0]
        assert matched(there[:1], [there[2], there[0], there[1]]) == [1]
        assert matched([], there) == []
        assert matched(there[:2], []) == [None, None]

    def test_all_pairs_together_are_near(self):
        """The second truth would rather have the first shape, but then the first has none that is near."""
        truths = [SQUARE, SQUARE + (6, 0)]
        assert matched(truths, [SQUARE + (3, 0), SQUARE + (10, 0)]) == [0, 1]

    def test_no_near_pair_is_given_up_for_a_far_one(self):
        """Uncapped, 600 + 594 pixels in two pairs would be better than 0 and 1,200."""
        truths = [SQUARE, SQUARE + (600, 0)]
        assert matched(truths, [SQUARE + (600, 0), SQUARE + (1200, 0)])[1] == 0


def test_summary():
    summary = summarise([0.01, 0.025, 0.035, 0.05])
    assert list(summary) == ["lt_0.02", "lt_0.03", "lt_0.04", "mean", "std", "median"]
    assert [summary[key] for key in ("lt_0.02", "lt_0.03", "lt_0.04")] == [0.25, 0.5, 0.75]
    assert summary["mean"] == pytest.approx(0.03)
    assert summary["median"] == pytest.approx(0.03)
    assert summary["std"] == pytest.approx(np.std([0.01, 0.025, 0.035, 0.05]))
    assert summarise([0.02])["lt_0.02"] == 0


def test_errors_that_are_not_finite_count_against():
    summary = summarise([0.01, np.nan, np.inf, 0.03])
    assert summary["lt_0.04"] == 0.5
    assert summary["mean"] == pytest.approx(0.02)
    nothing = summarise([np.nan])
    assert nothing["lt_0.04"] == 0
    assert np.isnan([nothing["mean"], nothing["std"], nothing["median"]]).all()
    with pytest.raises(ValueError, match="no errors"):
        summarise([])
