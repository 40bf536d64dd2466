"""Objects that face either way: noticed in training, tried both ways in fitting, and told from what is turned."""

import json
import warnings

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pliant
from pliant.data.dataset import Dataset, dataset_from_arrays
from pliant.data.suspects import find_suspects
from pliant.data.validation import validate
from pliant.metrics import normalised_error
from pliant.shape import Similarity, align, facing
from pliant.shape.facing import find_mirrored, flipped, is_mirrored, other_way, side
from pliant.starts.noise import perturbed

FISH = np.array(
    [
        [-50, 0],
        [-32, -9],
        [-10, -17],
        [14, -13],
        [32, -5],
        [48, -16],
        [48, 14],
        [32, 4],
        [10, 11],
        [-18, 15],
        [-34, -3],
    ],
    dtype=np.float64,
)
"""Snout, forehead, fin, back, stalk, tail above and below, stalk, belly, throat, eye."""

RIGHT = (3, 4, 11, 17)


def fish(number, facing_right=False, turn=0.0):
    """A drawn fish in profile, `(110, 160)`, and its landmarks; the same fish for one number."""
    rng = np.random.default_rng(number)
    shape = FISH * rng.normal(1, 0.06, 2) + rng.normal(0, 0.8, FISH.shape)
    factor = rng.normal(0.95, 0.05) * np.exp(1j * (turn + rng.normal(0, 0.05)))
    offset = complex(80 + rng.normal(0, 3), 55 + rng.normal(0, 3))
    points = Similarity(np.asarray(factor), np.asarray(offset)).apply(shape)
    image = np.full((110, 160), 215 + rng.normal(0, 8), dtype=np.float32)

    def fill(outline, grey):
        cv2.fillPoly(
            image, [np.round(np.asarray(outline) * 16).astype(np.int32)], float(grey), cv2.LINE_AA, 4
        )

    tone = rng.normal(90, 8)
    fill(points[[4, 5, 6, 7]], tone + 40)
    fill(points[[0, 1, 2, 3, 4, 7, 8, 9]], tone)
    fill((points[[8, 9, 0]] + points.mean(axis=0)) / 2, tone + 45)
    eye = tuple(int(value) for value in np.round(points[10] * 16))
    cv2.circle(image, eye, 3 * 16, 250.0, -1, cv2.LINE_AA, 4)
    cv2.circle(image, eye, 1 * 16, 10.0, -1, cv2.LINE_AA, 4)
    image = np.clip(cv2.GaussianBlur(image, (0, 0), 1.0) + rng.normal(0, 2, image.shape), 0, 255).astype(
        np.uint8
    )
    if facing_right:
        return np.ascontiguousarray(image[:, ::-1]), flipped(points, 160)
    return image, points


def shoal(count, right=(), first=0) -> Dataset:
    made = [fish(first + number, number in right) for number in range(count)]
    return dataset_from_arrays([image for image, _ in made], [points for _, points in made])


SETTINGS = {
    "size": 50,
    "scales": (0.5, 1.0),
    "shape_modes": (2, 5),
    "detector": None,
    "progress": False,
}


@pytest.fixture(scope="module")
def mixed() -> Dataset:
    return shoal(20, RIGHT)


@pytest.fixture(scope="module")
def trained(mixed):
    with pytest.warns(
        pliant.MixedFacings, match=r"4 of 20 samples face the other way \(sample 3, sample 4, sample 11 and"
    ):
        return pliant.train(mixed, **SETTINGS)


def error(found, points):
    return normalised_error(found.points, points, np.arange(len(points), dtype=np.int32))


def bent_lines(bends):
    """Upright lines of landmarks `(k, 8, 2)`, each bent by so much in two ways that have nothing in common."""
    height = np.arange(8.0)
    kinds = np.array([np.ones(8), height, [0, 1, 2, 4, 3, 1, 2, 0], [1, -2, 0, 1, -1, 2, -2, 1]]).T
    ways = np.linalg.qr(kinds)[0][:, 2:]
    return np.stack([np.array(bends) @ ways.T, np.tile(height, (len(bends), 1))], axis=-1)


class TestShapes:
    def test_mirror_images_are_told_from_the_rest_however_they_are_turned(self, rng):
        shapes = np.array([fish(number, number in RIGHT, rng.uniform(-3, 3))[1] for number in range(20)])
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), RIGHT)

    @pytest.mark.parametrize("count", [2, 3, 8])
    def test_a_few_are_enough(self, count):
        shapes = np.array([fish(number, number == 1)[1] for number in range(count)])
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), [1])

    @pytest.mark.parametrize("right", [(0, 5, 9), (0, 1, 2, 3)])
    def test_most_of_them_say_which_way_is_usual(self, right):
        """And not the first, which they are compared with to begin with."""
        shapes = np.array([fish(number, number in right)[1] for number in range(12)])
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), right)

    @pytest.mark.parametrize("landmarks", [3, 4])
    def test_four_landmarks_are_enough_and_three_are_not(self, landmarks):
        few = [0, 2, 6, 9][:landmarks]
        shapes = np.array([fish(number, number in RIGHT)[1][few] for number in range(20)])
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), RIGHT if landmarks == 4 else [])

    @pytest.mark.parametrize(("first", "expected"), [(0, "left"), (5, "right"), (2, ""), (8, "")])
    def test_the_side_is_that_of_the_first_landmark(self, first, expected):
        order = [first, *(number for number in range(len(FISH)) if number != first)]
        shapes = np.array([fish(number)[1][order] for number in range(8)])
        other = {"left": "right", "right": "left", "": ""}[expected]
        for size in (0.01, 1.0, 100.0):
            assert side(size * shapes + 1000) == expected
            assert side(size * flipped(shapes, 160)) == other

    def test_landmarks_that_are_missing_do_not_count(self):
        shapes = np.array([fish(number, number in RIGHT)[1] for number in range(20)])
        shapes[2, 4] = shapes[3, 9] = np.nan
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), RIGHT)

    def test_objects_that_face_one_way_are_no_mixture(self):
        assert not find_mirrored(np.array([fish(number)[1] for number in range(20)])).any()

    def test_objects_that_a_mirror_hardly_changes_are_no_mixture(self, rng):
        """A line of landmarks with noise: its mirror image is the same line, turned."""
        line = np.stack([np.arange(8.0), np.zeros(8)], axis=1)
        for _ in range(20):
            assert not find_mirrored(line + rng.normal(0, 0.3, (12, 8, 2))).any()

    def test_swapped_sides_of_a_symmetric_object_are_no_other_facing(self, dataset):
        """In a mirror they fit, because somebody has mistaken left for right: nothing is to be turned round."""
        from pliant.shape.symmetry import find_mirror

        shapes = np.array([sample.points() for sample in dataset])
        shapes[5] = shapes[5][find_mirror(shapes)]
        assert not find_mirrored(shapes).any()

    def test_the_other_way_is_at_the_same_place(self):
        mean = fish(0)[1]
        for angle in (0.0, 0.7):
            turned = Similarity(np.asarray(1.3 * np.exp(1j * angle)), np.asarray(20 + 5j)).apply(mean)
            other = other_way(mean, turned)
            assert not is_mirrored(mean, turned)
            assert is_mirrored(mean, other)
            assert_allclose(other_way(mean * (-1, 1), other), turned, atol=1e-9)
            upright = align(mean, turned).inverse()
            assert_allclose(np.ptp(upright.apply(other), axis=0), np.ptp(mean, axis=0), atol=1e-9)
            assert_allclose(upright.apply(other).min(axis=0), mean.min(axis=0), atol=1e-9)

    def test_a_shape_between_both_ways_is_left_as_it_is(self, rng):
        """It is nearer to the mirror image, but not by so much that anybody could be sure."""
        right = np.array([(0.0, 0), (10, 0), (8, 5), (2, 3), (1, 9), (5, 6), (7, 1)])
        left = right * (-1, 1)
        shapes = np.array([right] * 8 + [left] * 2 + [0.7 * align(right, left).apply(right) + 0.3 * left])
        shapes += rng.normal(0, 0.05, shapes.shape)
        assert find_mirrored(shapes).tolist() == [False] * 8 + [True] * 2 + [False]

    def test_a_first_shape_that_looks_like_none_of_the_others_is_no_matter(self):
        """Two bends: the one tells the sides, and the first shape has the other, by which a third are mistaken."""
        usual = [(1, 0.7)] * 7 + [(1, -0.3), (1, -0.7)]
        other = [(-1, -0.7), (-1, 0.3), (-1, 0.7)]
        shapes = bent_lines([(0.1, 0.8), *usual, *other])
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), [10, 11, 12])

    def test_where_most_are_hardly_bent_none_is_mirrored(self):
        """Some are bent to one side and two to the other, but most are nearly straight."""
        shapes = bent_lines([(0.1, 0)] * 10 + [(1, 0)] * 5 + [(-1, 0)] * 2)
        assert not find_mirrored(shapes).any()
        assert_array_equal(np.flatnonzero(find_mirrored(shapes[10:])), [5, 6])

    @pytest.mark.parametrize("enough", [10_000, 6])
    def test_lines_are_their_own_mirror_images_and_face_neither_way(self, monkeypatch, enough):
        """Five face one way, four the other, and three neither: the five are still most of those that face any."""
        monkeypatch.setattr(facing, "ENOUGH", enough)
        shapes = bent_lines([(1, 0)] * 5 + [(-1, 0)] * 4 + [(0, 0)] * 3)
        assert_array_equal(np.flatnonzero(find_mirrored(shapes)), [5, 6, 7, 8])
        assert [is_mirrored(shapes[0], shapes[number]) for number in (4, 5, 9)] == [False, True, False]

    @pytest.mark.parametrize(
        ("first", "expected"), [(2.6, ""), (3.0, "right"), (1.4, ""), (1.0, "left"), (2.0, "")]
    )
    def test_a_side_begins_a_fifth_of_the_size_beside_the_middle(self, first, expected):
        """The box is 4 by 4, and its middle at 2: 0.15 and 0.25 of its size beside it, and not at all."""
        shape = np.array([[first, 1], [0, 0], [0, 1], [0, 3], [0, 4], [4, 0]], dtype=np.float64)
        assert side(shape[None]) == expected

    def test_the_mirror_image_of_an_image_has_its_first_column_last(self):
        assert_array_equal(flipped(np.array([[0.0, 3], [9, 7], [4.5, 0]]), 10), [[9, 3], [0, 7], [4.5, 0]])


class TestTraining:
    def test_the_model_remembers(self, trained, tmp_path):
        trained.save(tmp_path / "fish.pliant")
        for model in (trained, pliant.load(tmp_path / "fish.pliant")):
            assert model.faces_both_ways
            assert model.settings.facing == "both"
            assert model.provenance["turned_round"] == 4

    def test_it_is_the_model_of_fish_that_face_one_way(self, trained):
        same = pliant.train(shoal(20), **SETTINGS, confidence=False)
        assert not same.faces_both_ways
        assert same.provenance["turned_round"] == 0
        for one, other in zip(trained.levels, same.levels, strict=True):
            assert_allclose(one.shape.mean, other.shape.mean, atol=1e-6)
            assert_allclose(one.appearance.mean, other.appearance.mean, atol=1e-3)

    @pytest.mark.parametrize(
        ("facing", "both", "turned"),
        [("both", True, 4), ("left", False, 4), ("right", False, 16), ("as-is", False, 0)],
    )
    def test_what_was_asked_for_is_done_without_a_word(self, mixed, facing, both, turned):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = pliant.train(mixed, **SETTINGS, confidence=False, facing=facing)
        assert model.settings.facing == facing
        assert model.faces_both_ways is both
        assert model.provenance["turned_round"] == turned
        snout = model.levels[-1].shape.mean[0, 0] - model.levels[-1].shape.mean[:, 0].mean()
        assert facing == "as-is" or (snout > 0) == (facing == "right")

    def test_a_first_landmark_in_the_middle_tells_no_side(self, mixed):
        order = [2, 0, 1, *range(3, len(FISH))]
        middle = dataset_from_arrays(
            [sample.image() for sample in mixed], [sample.points()[order] for sample in mixed]
        )
        with pytest.raises(ValueError, match="facing=left: this is the side of the first landmark"):
            pliant.train(middle, **SETTINGS, confidence=False, facing="left")


class TestFitting:
    def test_both_facings_are_found_in_the_frame_of_the_image(self, trained):
        for number in range(40, 52):
            image, points = fish(number, facing_right=number % 2 == 1)
            start = perturbed(trained, points, 0.05, np.random.default_rng(number))
            assert not is_mirrored(trained.levels[-1].shape.mean, start)
            found = pliant.fit(trained, image, start)
            assert found.mirrored is (number % 2 == 1)
            assert error(found, points) < 0.03

    def test_a_mirror_image_has_the_mirrored_fit(self, trained):
        image, points = fish(60)
        box = np.concatenate([points.min(axis=0), points.max(axis=0)])
        other = np.concatenate([flipped(points, 160).min(axis=0), flipped(points, 160).max(axis=0)])
        plain = pliant.fit(trained, image, box)
        mirrored = pliant.fit(trained, image[:, ::-1].copy(), other)
        assert (plain.mirrored, mirrored.mirrored) == (False, True)
        assert_allclose(flipped(mirrored.points, 160), plain.points, atol=1e-3)
        assert_allclose(flipped(mirrored.start, 160), plain.start, atol=1e-6)
        assert_allclose(mirrored.shape_parameters, plain.shape_parameters, atol=1e-2)
        assert_allclose(mirrored.covariance * [[1, -1], [-1, 1]], plain.covariance, rtol=1e-3, atol=1e-4)
        for one, two in zip(mirrored.trace, plain.trace, strict=True):
            assert_allclose(flipped(one.points[-1], 160), two.points[-1], atol=1e-2)
        assert mirrored.confidence() == pytest.approx(plain.confidence(), abs=1e-3)
        drawn = mirrored.reconstruction(image[:, ::-1].copy())
        assert_allclose(drawn[:, ::-1], plain.reconstruction(image), atol=1e-3)

    def test_a_start_that_faces_the_other_way_is_believed(self, trained):
        image, points = fish(61, facing_right=True)
        found = pliant.fit(trained, image, points + 1.0)
        assert found.mirrored
        assert error(found, points) < 0.03
        wrong = pliant.fit(trained, fish(61)[0], other_way(trained.levels[-1].shape.mean, fish(61)[1]))
        assert wrong.mirrored

    def test_models_of_one_facing_try_no_other(self, dataset, model):
        [found] = pliant.fit(model, [dataset[0].image()], [dataset[0].points() + 1])
        assert not found.mirrored
        assert not model.faces_both_ways

    def test_fits_that_are_looked_for_face_both_ways(self, trained):
        for number in (70, 71, 72, 73):
            image, points = fish(number, facing_right=number % 2 == 1)
            found = pliant.fit(trained, image)
            assert found.mirrored is (number % 2 == 1)
            assert error(found, points) < 0.04


class TestChecking:
    def test_mirrored_is_not_turned(self, rng):
        valid = validate(shoal(24, RIGHT))
        suspects = [suspect for suspect in find_suspects(valid) if suspect.check != "shape"]
        assert {(suspect.number, suspect.check) for suspect in suspects} == {
            (number, "facing") for number in RIGHT
        }
        assert "mirrored, not rotated" in suspects[0].reason
        made = [fish(number, turn=np.pi * (number == 3)) for number in range(24)]
        turned = dataset_from_arrays([image for image, _ in made], [points for _, points in made])
        suspects = [suspect for suspect in find_suspects(validate(turned)) if suspect.check != "shape"]
        assert [(suspect.number, suspect.check) for suspect in suspects] == [(3, "rotation")]

    def test_commands_say_so(self, tmp_path, command):
        folder = tmp_path / "fish"
        folder.mkdir()
        for number in range(20):
            image, points = fish(number, number in RIGHT)
            cv2.imwrite(str(folder / f"{number:02d}.png"), image)
            pliant.write_landmarks(folder / f"{number:02d}.pts", points)
        done = command("check", folder, code=3)
        assert "4 of 20 samples face the other way" in " ".join(done.out.split())
        found = json.loads(command("check", folder, "--json", code=3).out)["suspects"]
        assert [row["check"] for row in found if row["check"] in ("facing", "rotation", "order")] == [
            "facing"
        ] * 4
        options = ("--size", 40, "--shape-modes", "1,3", "--detector", "none", "--no-confidence")
        said = command("train", folder, "-o", tmp_path / "fish.pliant", *options)
        assert "4 of 20 samples face the other way" in " ".join(said.err.split())
        assert pliant.load(tmp_path / "fish.pliant").faces_both_ways
        said = command("train", folder, "-o", tmp_path / "fish.pliant", *options, "--facing", "as-is")
        assert "other way" not in said.err
