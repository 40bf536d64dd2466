"""Two annotators: known differences are measured, and variances that were put in come out of the analysis."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from pliant.data.agreement import compare, compare_datasets, match_names
from pliant.data.dataset import dataset_from_arrays
from pliant.data.formats import read_landmarks, write_landmarks
from pliant.data.loading import load_dataset
from pliant.shape import generalised_procrustes
from pliant.shape.variance import (
    ShapeVariance,
    Variation,
    _bias_chance,
    _percent,
    _repeatability,
    procrustes_variance,
)
from pliant.synthetic import faces, write_faces

MEAN = np.array([(0.0, 0), (100, 10), (90, 80), (40, 110), (-20, 70), (35, 45), (60, 20)])


def shapes_with(rng, objects, own, error, repeats=2):
    """Shapes `(repeats, objects, v, 2)`: objects differ from the mean by `own`, annotations by `error`."""
    truth = MEAN + rng.normal(0, own, (objects, *MEAN.shape))
    return truth + rng.normal(0, error, (repeats, objects, *MEAN.shape))


@pytest.mark.parametrize(("own", "error"), [(3.0, 0.5), (2.0, 2.0), (0.5, 2.0)])
def test_variances_that_were_put_in_come_out(own, error):
    table = procrustes_variance(shapes_with(np.random.default_rng(1), 300, own, error))
    assert table.repeatability == pytest.approx(own**2 / (own**2 + error**2), abs=0.03)
    assert table.annotator_share == pytest.approx(1 - table.repeatability)
    expected = (2 * own**2 + error**2) / error**2
    assert table.objects.ratio == pytest.approx(expected, rel=0.1)


def test_sums_of_squares_by_hand():
    """Two objects, annotated twice: every sum written out from the aligned shapes."""
    rng = np.random.default_rng(2)
    shapes = shapes_with(rng, 2, 3.0, 1.0)
    table = procrustes_variance(shapes)
    _, aligned = generalised_procrustes(shapes.reshape(4, -1, 2))
    a1, b1, a2, b2 = aligned.reshape(4, -1) / np.sqrt(len(MEAN))
    grand = (a1 + b1 + a2 + b2) / 4
    between = 2 * np.sum(((a1 + a2) / 2 - grand) ** 2) + 2 * np.sum(((b1 + b2) / 2 - grand) ** 2)
    side = 2 * np.sum(((a1 + b1) / 2 - grand) ** 2) + 2 * np.sum(((a2 + b2) / 2 - grand) ** 2)
    total = sum(np.sum((one - grand) ** 2) for one in (a1, b1, a2, b2))
    assert table.objects.squares == pytest.approx(between)
    assert table.annotators.squares == pytest.approx(side)
    assert table.rest.squares == pytest.approx(total - between - side)
    dimension = 2 * len(MEAN) - 4
    assert [row.freedom for row in (table.objects, table.annotators, table.rest)] == [dimension] * 3
    within = (side + total - between - side) / (2 * dimension)
    own = max((between / dimension - within) / 2, 0)
    assert table.repeatability == pytest.approx(own / (own + within))


def test_shares_of_the_variance_follow_from_the_rows():
    """Four objects, annotated three times, the second time with a bias."""
    shapes = shapes_with(np.random.default_rng(2), 4, 3.0, 1.0, repeats=3)
    shapes[1, :, 3] += (9.0, 0)
    table = procrustes_variance(shapes)
    of_objects, of_annotators, rest = table.objects, table.annotators, table.rest
    within = (of_annotators.squares + rest.squares) / (of_annotators.freedom + rest.freedom)
    own = (of_objects.mean_square - within) / 3
    assert table.repeatability == pytest.approx(own / (own + within))
    bias = (of_annotators.mean_square - rest.mean_square) / 4
    assert bias > 0.1 * within
    assert table.systematic == pytest.approx(bias / (own + within))


def test_objects_that_are_the_same_on_average_have_nothing_that_is_found_again():
    error = np.random.default_rng(2).normal(size=(6, 14))
    assert _repeatability(np.stack([error, -error]), 10) == 0
    assert _repeatability(np.stack([error, error]), 10) == 1


def test_poses_do_not_count():
    shapes = shapes_with(np.random.default_rng(3), 20, 3.0, 1.0)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    moved = shapes.copy()
    moved[1] = 2.5 * shapes[1] @ turn + (40, -7)
    assert procrustes_variance(moved).repeatability == pytest.approx(
        procrustes_variance(shapes).repeatability, abs=1e-6
    )


def test_a_bias_is_found_and_chance_is_not():
    rng = np.random.default_rng(4)
    shapes = shapes_with(rng, 40, 3.0, 0.7)
    found = compare([str(number) for number in range(40)], *shapes)
    assert found.variance.annotators.chance > 0.05
    shapes[1, :, 3] += (3.0, 0)
    found = compare([str(number) for number in range(40)], *shapes)
    assert found.variance.annotators.chance < 0.01
    assert found.variance.systematic > 0.02
    assert "the same in all images" in found.variance.sentence
    np.testing.assert_allclose(found.bias[3], (3, 0), atol=0.7)
    assert found.bias_chance[3] < 1e-6 < np.median(found.bias_chance)
    assert int(np.argmax(found.mean_distance)) == 3


def test_mistakes_in_few_images_are_told_from_opinions():
    shapes = shapes_with(np.random.default_rng(6), 40, 3.0, 0.7)
    assert procrustes_variance(shapes).half > 8
    shapes[1, 7] = shapes[1, 7, ::-1]
    table = procrustes_variance(shapes)
    assert table.half == 1
    assert table.repeatability < 0.6 < 0.9 < table.without
    assert "1 image has half of all disagreement" in table.sentence
    _, aligned = generalised_procrustes(shapes.reshape(80, -1, 2))
    others = np.delete(aligned.reshape(2, 40, -1), 7, axis=1)
    assert table.without == pytest.approx(_repeatability(others, 2 * len(MEAN) - 4))


def test_the_same_annotation_twice_has_no_disagreement_anywhere():
    shapes = np.array([face.points() for face in faces(20, image_size=32)])
    table = procrustes_variance(np.stack([shapes, shapes]))
    assert table.without is None
    assert table.sentence.endswith("The annotations agree well.")


@pytest.mark.parametrize(("objects", "told"), [(9, False), (10, True), (11, True)])
def test_one_image_in_ten_is_few(objects, told):
    shapes = shapes_with(np.random.default_rng(6), objects, 3.0, 0.3)
    shapes[1, 2] = shapes[1, 2, ::-1]
    table = procrustes_variance(shapes)
    assert table.half == 1
    assert (table.without is not None) == told


def test_a_chance_is_never_below_one_in_a_thousand():
    """No random signs do what a bias in all images does: with these themselves, 999 trials are a thousand."""
    shapes = shapes_with(np.random.default_rng(4), 40, 3.0, 0.1)
    shapes[1, :, 3] += (20.0, 0)
    assert procrustes_variance(shapes).annotators.chance == 1 / 1000
    shapes[1] = shapes[0]
    assert procrustes_variance(shapes).annotators.chance == 1


@pytest.mark.parametrize("annotators", [2, 3])
def test_annotators_without_a_bias_are_seldom_said_to_have_one(annotators):
    """Whole shapes change hands: an annotation's landmarks are wrong together, here by a common shift of some."""
    rng, chances = np.random.default_rng(8), []
    for _ in range(60):
        shapes = np.repeat(shapes_with(rng, 8, 3.0, 0.0)[:1], annotators, axis=0)
        shapes[:, :, 2:5] += rng.normal(0, 1, (annotators, 8, 1, 2))
        chances.append(procrustes_variance(shapes).annotators.chance)
    assert np.mean(np.array(chances) <= 0.05) < 0.11
    assert np.mean(np.array(chances) <= 0.5) > 0.3


def test_distances_in_pixels_and_missing_landmarks():
    first = np.tile(MEAN, (6, 1, 1))
    second = first.copy()
    second[:, 2] += (3, 4)
    second[5, 1] += (0, 60)
    second[0, 4] = np.nan
    found = compare(list("abcdef"), first, second)
    assert found.mean_distance[2] == found.most_distance[2] == 5
    assert found.mean_distance[0] == 0
    np.testing.assert_array_equal(found.bias[2], (3, 4))
    assert found.worst_first[0] == 5
    assert found.variance.images == 5
    assert np.isnan(found.distances[0, 4])


def test_images_are_known_by_their_names():
    pairs, one, two = match_names(
        ["x/a.jpg", "x/b.jpg", "p/c.jpg", "q/c.jpg", "only.png"], ["y/b.jpg", "x/a.jpg", "c.jpg", "z/d.jpg"]
    )
    assert pairs == [("x/a.jpg", "x/a.jpg"), ("x/b.jpg", "y/b.jpg")]
    assert one == ["p/c.jpg", "q/c.jpg", "only.png"]
    assert two == ["c.jpg", "z/d.jpg"]
    assert match_names(["a.jpg"], ["b/a.png"])[0] == [("a.jpg", "b/a.png")]


def test_other_landmarks_are_refused():
    made = list(faces(3, seed=1, image_size=64))
    images = [sample.image() for sample in made]
    points = [sample.points() for sample in made]
    one = dataset_from_arrays(images, points)
    two = dataset_from_arrays(images, [shape[:60] for shape in points])
    with pytest.raises(ValueError, match="68 landmarks in arrays and 60 in arrays"):
        compare_datasets(one, two)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    write_faces(first, 8, seed=5, image_size=64)
    write_faces(second, 8, seed=5, image_size=64)
    rng = np.random.default_rng(0)
    for sample in load_dataset(first):
        points = sample.points() + rng.normal(0, 0.3, (68, 2))
        points[30] += (2, 0)
        name = sample.name.rsplit("/", 1)[-1].replace(".jpg", ".pts")
        write_landmarks(second / name, points)
    return first, second


class TestCommand:
    def test_in_words(self, folders, command):
        done = command("check", folders[0], "--against", folders[1])
        assert "8 images" in done.out
        assert done.out.count("of the object's size") == 8
        assert "Landmarks are counted from 0 here" in done.out
        assert "of the variation in shape comes from the annotators" in " ".join(done.out.split())

    def test_only_images_that_differ_are_listed(self, folders, command, tmp_path):
        for file in folders[0].iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        changed = sorted(tmp_path.glob("*.pts"))[3]
        points = read_landmarks(changed)
        write_landmarks(changed, points + (2, 0))
        said = command("check", folders[0], "--against", tmp_path).out
        assert said.count("of the object's size") == 1
        assert f"{changed.stem}.jpg: " in said
        said = command("check", folders[0], "--against", folders[0]).out
        assert "no image differs by 0.05% of the object's size or more" in said
        assert "largest differences" not in said

    def test_as_json(self, folders, command):
        found = json.loads(command("check", folders[0], "--against", folders[1], "--json").out)
        assert found["images"] == 8
        assert max(found["landmarks"], key=lambda row: row["mean"])["landmark"] == 30
        assert found["landmarks"][30]["bias"][0] == pytest.approx(2, abs=0.5)
        assert 0 < found["variance"]["repeatability"] < 1
        assert len(found["by_image"]) == 8


def test_what_annotators_do_differently_everywhere_is_a_share_of_all_variance():
    """Shares as they were put in: objects of variance 9, annotators a fixed shift apart, and noise of 1."""
    rng = np.random.default_rng(9)
    shapes = shapes_with(rng, 400, 3.0, 1.0)
    shift = np.zeros_like(MEAN)
    shift[::2, 0], shift[1::2, 1] = 2.0, -2.0
    shapes[1] += shift
    # The pose takes its share of the shift, as it does of everything.
    _, placed = generalised_procrustes(np.stack([MEAN, MEAN + shift]))
    scale = np.sqrt(np.mean(np.sum((MEAN - MEAN.mean(axis=0)) ** 2, axis=1)))
    apart = scale**2 * np.sum((placed[1] - placed[0]) ** 2) / (2 * len(MEAN) - 4)
    table = procrustes_variance(shapes)
    expected = (apart / 2) / (9 + 1 + apart / 4)
    assert table.systematic == pytest.approx(expected, rel=0.15)


def test_the_chance_of_a_bias_is_that_of_its_signs():
    """Of three objects that differ by the same, one in four choices of signs is as extreme, and no other."""
    data = np.zeros((2, 3, 6))
    data[1] += np.arange(6)
    assert _bias_chance(data) == pytest.approx(1 / 4, abs=0.05)
    data[1, 2] *= 0.15
    assert _bias_chance(data) == pytest.approx(1 / 4, abs=0.05)


@pytest.mark.parametrize(
    ("repeatability", "words"),
    [
        (0.96, "agree well"),
        (0.94, "still much larger"),
        (0.82, "still much larger"),
        (0.78, "Much of the apparent"),
    ],
)
def test_the_verdict_is_about_the_share_of_the_annotators(repeatability, words):
    row = Variation("annotators", 1.0, 10, 0.1, 1.0, 0.06)
    table = ShapeVariance(row, row, row, repeatability, 0.03, 20, 9)
    assert words in table.sentence
    assert "the same in all images" not in table.sentence
    biased = replace(table, annotators=replace(row, chance=0.04))
    assert "3.0% is a difference that is the same in all images" in biased.sentence


def test_rows_are_squares_over_freedom_and_chances_are_fishers():
    table = procrustes_variance(shapes_with(np.random.default_rng(2), 5, 1.0, 1.0, repeats=3))
    dimension = 2 * len(MEAN) - 4
    assert [row.freedom for row in (table.objects, table.annotators, table.rest)] == [
        4 * dimension,
        2 * dimension,
        8 * dimension,
    ]
    for row in (table.objects, table.annotators, table.rest):
        assert row.mean_square == pytest.approx(row.squares / row.freedom)
    for row in (table.objects, table.annotators):
        assert row.ratio == pytest.approx(row.mean_square / table.rest.mean_square)
    chance = scipy.stats.f.sf(table.objects.ratio, 4 * dimension, 8 * dimension)
    assert table.objects.chance == pytest.approx(chance)


def test_half_of_all_disagreement_is_counted_from_the_worst():
    """Twenty objects that all differ alike, of which ten have half; and one that differs far more than all."""
    shapes = shapes_with(np.random.default_rng(3), 20, 3.0, 0.0)
    shapes[1, :, 2, 0] += 0.5
    assert procrustes_variance(shapes).half in (9, 10, 11)
    shapes[1, 4, 2, 0] += 20
    assert procrustes_variance(shapes).half == 1


@pytest.mark.parametrize(
    ("share", "text"), [(0.05, "5.0%"), (0.5, "50%"), (0.95, "95.0%"), (0.1, "10%"), (0.9, "90%")]
)
def test_shares_near_none_and_all_have_a_digit_more(share, text):
    assert _percent(share) == text


@pytest.mark.parametrize(
    ("size", "sentence"),
    [((1, 5, 4), "two objects"), ((2, 1, 4), "two objects"), ((2, 5, 2), "three landmarks")],
)
def test_too_little_for_an_analysis_gets_a_sentence(size, sentence, rng):
    with pytest.raises(ValueError, match=sentence):
        procrustes_variance(rng.normal(size=(*size, 2)))
    assert np.isfinite(procrustes_variance(rng.normal(size=(2, 2, 3, 2))).repeatability)
