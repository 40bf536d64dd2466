"""The filter that finds objects in whole images, and what is learned about fits that are not on one."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.metrics import normalised_error
from pliant.shape import Similarity, align, shape_size
from pliant.shape.symmetry import asymmetry
from pliant.starts.cells import CELL, cells
from pliant.starts.filter_learning import _looked_at, learn_filter
from pliant.starts.filtering import answers, layers, peaks, search, turns_of
from pliant.starts.filters import ObjectFilter
from pliant.starts.found import NothingFound, apart, separated
from pliant.starts.scan import find_objects, make_object_search, make_scan
from pliant.starts.wrong import wrong_starts
from pliant.trust.confidence import Evidence

EVERY = np.arange(68, dtype=np.int32)


def scene(dataset, places, seed=0):
    """Faces of 96 pixels at places in a noisy picture, and their landmarks."""
    rng = np.random.default_rng(seed)
    picture = (90 + 30 * rng.normal(size=(300, 420, 3))).clip(0, 255).astype(np.uint8)
    truths = []
    for number, (x, y) in enumerate(places):
        image = dataset[number].image()
        picture[y : y + 96, x : x + 96] = image if image.ndim == 3 else image[:, :, None]
        truths.append(dataset[number].points() + (x, y))
    return picture, truths


class TestCells:
    def test_a_slope_is_shared_between_the_nearest_directions(self):
        """And comes back as the sum of their vectors, whatever its angle."""
        y, x = np.mgrid[:32, :32].astype(np.float32)
        angles = np.arange(8) * np.pi / 4
        for angle in np.linspace(0, 2 * np.pi, 13):
            ramp = ((np.cos(angle) * x + np.sin(angle) * y) / 100).astype(np.float32)
            middle = cells(ramp)[:, 3, 4].astype(np.float64)
            assert np.count_nonzero(middle > 1e-6) <= 2
            total = np.sum(middle * np.exp(1j * angles))
            assert abs(np.angle(total * np.exp(-1j * angle))) < 1e-4

    def test_contrast_hardly_matters(self, rng):
        grey = rng.uniform(0.2, 0.8, (64, 64)).astype(np.float32)
        assert_allclose(cells(grey), cells(0.5 * grey), atol=0.1)

    def test_what_is_not_seen_is_nothing(self, rng):
        grey = rng.uniform(size=(64, 64)).astype(np.float32)
        seen = np.ones_like(grey)
        seen[:, 32:] = 0
        half = cells(grey, seen)
        assert np.all(half[:, :, 9:] == 0)
        assert_allclose(half[:, :, :6], cells(grey)[:, :, :6])

    def test_a_turn_by_a_quarter_moves_cells_and_directions(self, rng):
        grey = rng.uniform(size=(48, 48)).astype(np.float32)
        turned = np.ascontiguousarray(np.rot90(grey, -1))
        expected = np.roll(np.rot90(cells(grey), -1, axes=(1, 2)), 2, axis=0)
        assert_allclose(cells(turned), expected, atol=1e-5)


class TestFilter:
    def test_answers_are_sums_over_windows(self, rng):
        weights = rng.normal(size=(8, 3, 5)).astype(np.float32)
        channels = rng.uniform(size=(8, 9, 11)).astype(np.float32)
        found = ObjectFilter(weights, 0.25, np.zeros((4, 2)), 0.0)
        values = answers(found, channels)
        assert values.shape == (7, 7)
        expected = np.sum(weights * channels[:, 2:5, 4:9]) + 0.25
        assert_allclose(values[2, 4], expected, rtol=1e-4)

    def test_peaks_are_above_their_neighbours(self):
        values = np.zeros((6, 7), dtype=np.float32)
        values[2, 3], values[2, 4], values[5, 0] = 3, 2, 1
        found, places = peaks(values, 0.5)
        assert found.tolist() == [3, 1]
        assert places.tolist() == [[2, 3], [5, 0]]

    def test_windows_of_learning_are_those_of_the_search(self, model, dataset):
        """The same cells, whether a window is cut out of a layer or looked at by itself."""
        found, image = model.object_filter, dataset[0].image()
        grey = image if image.ndim == 2 else image[:, :, 1].copy()
        _, rows, columns = found.weights.shape
        layer = list(layers(found, grey, np.zeros(1)))[1]
        row, column = layer.pad[0] + 2, layer.pad[1] + 2
        placed = align(found.shape, layer.shape_at(found.shape, row, column))
        alone = _looked_at(grey, placed, rows, columns)
        cut = layer.channels[:, row : row + rows, column : column + columns]
        assert np.mean(np.abs(alone - cut)) < 0.05
        assert np.corrcoef(alone.ravel(), cut.ravel())[0, 1] > 0.95

    @pytest.mark.parametrize("turn", [0.0, 0.35, 2.0])
    def test_layers_know_where_they_are(self, model, turn):
        """A bright spot is where the map of each layer says that it is."""
        image = np.zeros((90, 120), dtype=np.uint8)
        image[35:42, 75:82] = 255
        for layer in layers(model.object_filter, image, np.array([turn])):
            energy = np.sum(layer.channels, axis=0)
            row, column = np.argwhere(energy > 0.3 * energy.max()).mean(axis=0) - layer.pad
            pixel = CELL * (np.array([column, row]) + 0.5) - 0.5
            there = layer.to_image[:, :2] @ pixel + layer.to_image[:, 2]
            step = CELL * np.linalg.norm(layer.to_image[:, 0])
            assert np.linalg.norm(there - (78, 38)) < 2 + 0.75 * step

    def test_it_is_learned_from_few(self, dataset):
        shapes = np.array([sample.points() for sample in dataset])
        mean = shapes.mean(axis=0)
        found = learn_filter(dataset[:10], shapes[:10], mean)
        again = learn_filter(dataset[:10], shapes[:10], mean, jobs=2)
        assert_allclose(found.weights, again.weights)
        for sample in dataset[10:16]:
            values, starts = search(found, sample.image(), turns_of(found), -0.5, 20)
            assert np.all(np.diff(values) <= 0)
            assert normalised_error(starts[0], sample.points(), EVERY) < 0.3

    def test_turns(self, model):
        upright = replace(model.object_filter, turn=0.1)
        assert turns_of(upright).tolist() == [0]
        assert len(turns_of(replace(upright, turn=0.5))) == 3
        assert len(turns_of(upright, any_rotation=True)) == 18


class TestObjects:
    def test_every_face_is_found_once(self, model, dataset):
        picture, truths = scene(dataset, [(10, 12), (300, 30), (160, 190)])
        groups = find_objects(model, picture)
        for truth in truths:
            near = [k for k, group in enumerate(groups) if normalised_error(group[0], truth, EVERY) < 0.3]
            assert len(near) == 1
            assert near[0] < 4
        assert all(1 <= len(group) <= 5 for group in groups)

    def test_the_first_starts_of_a_scan_are_on_two_faces(self, model, dataset):
        picture, truths = scene(dataset, [(10, 12), (300, 190)])
        starts = make_scan(model, 4)(picture)
        assert len(starts) == 4
        for truth in truths:
            assert min(normalised_error(start, truth, EVERY) for start in starts) < 0.3

    def test_a_turned_face_is_found_at_any_rotation(self, model, dataset):
        picture, [truth] = scene(dataset, [(150, 100)])
        turned = np.ascontiguousarray(np.rot90(picture))
        there = np.stack([truth[:, 1], picture.shape[1] - 1 - truth[:, 0]], axis=1)
        [first, *_] = make_object_search(model, 3, any_rotation=True)(turned)
        assert normalised_error(first[0], there, EVERY) < 0.3
        starts = pliant.find_starts(model, "scan", any_rotation=True)(turned)
        assert normalised_error(starts[0], there, EVERY) < 0.3

    def test_nothing_is_found_on_a_wall(self, model):
        with pytest.raises(NothingFound, match="looks like the object"):
            find_objects(model, np.full((200, 300), 128, dtype=np.uint8))

    def test_a_large_photograph_is_as_a_small_one(self, model, dataset):
        picture, [truth] = scene(dataset, [(150, 100)])
        large = picture.repeat(5, axis=0).repeat(5, axis=1)
        [first, *_] = find_objects(model, large)
        assert normalised_error(first[0], 5 * truth + 2, EVERY) < 0.3

    def test_models_without_a_filter_are_scanned_as_before(self, model, dataset):
        old = replace(model, object_filter=None)
        image = dataset[3].image()
        assert make_scan(old, 2)(image).shape == (2, 68, 2)
        groups = find_objects(old, image, most=3)
        assert 1 <= len(groups) <= 3

    def test_finds_are_apart_and_separated(self):
        square = np.array([(0, 0), (10, 0), (10, 10), (0, 10)], dtype=np.float64)
        shapes = np.array([square, square + 0.5, square + (2, 0), square + (20, 0), 0.5 * square + (20, 1)])
        assert len(apart(shapes, 9)) == 4
        assert len(apart(shapes, 2)) == 2
        first, second = separated(shapes, 5, 5)
        assert_allclose(first, [square, square + (2, 0)])
        assert_allclose(second[0], square + (20, 0))
        assert len(separated(shapes, 1, 1)) == 1


class TestWrongFits:
    def test_wrong_starts_are_wrong(self, model, dataset, rng):
        for number in range(6):
            image, truth = dataset[number].image(), dataset[number].points()
            for start in wrong_starts(model, model.object_filter, image, truth, number, rng):
                assert start.shape == truth.shape
                assert normalised_error(start, truth, EVERY) > 0.2

    def test_fits_on_nothing_are_not_trusted(self, calibrated, dataset):
        """Neither on noise nor on a wall, and those on faces are trusted as before."""
        picture, truths = scene(dataset, [(10, 12), (300, 30)], seed=1)
        size = float(shape_size(truths[0]))
        mean = calibrated.levels[-1].shape.mean
        factor = np.asarray(size / float(shape_size(mean)) + 0j)
        beside = Similarity(factor, np.asarray(complex(150, 180))).apply(mean)
        good, other, noise = pliant.fit(calibrated, [picture] * 3, [*truths, beside], jobs=1)
        assert min(good.confidence(0.05), other.confidence(0.05)) > 0.5
        assert noise.confidence(0.05) < 0.1

    def test_without_an_object_there_is_no_confidence(self, calibrated):
        confidence = calibrated.confidence
        assert confidence.object_weights.shape == (6,)
        seen = Evidence(1.0, 1.0, 1.0, 1.0, 0.2)
        trusting = replace(confidence, object_weights=None)
        assert confidence.probability(seen) <= trusting.probability(seen)
        # The more the model cannot explain, the less likely there is an object.
        assert confidence.object_weights[4] < 0

    def test_older_confidences_see_four_numbers(self, calibrated):
        confidence = calibrated.confidence
        old = replace(
            confidence,
            centre=confidence.centre[:4],
            scale=confidence.scale[:4],
            weights=confidence.weights[:, :4],
            object_weights=None,
        )
        assert 0 < old.probability(Evidence(1.0, 1.0, 1.0, 1.0, 1.0)) < 1

    def test_faces_are_symmetric_and_a_hook_is_not(self, dataset, rng):
        shapes = np.array([sample.points() for sample in dataset])
        assert asymmetry(shapes) < 0.5
        hook = np.array([(0, 0), (0, 4), (0, 9), (3, 9), (1, 2)], dtype=np.float64)
        assert asymmetry(hook + 0.05 * rng.normal(size=(20, 5, 2))) > 1


def test_files_keep_the_filter(calibrated, tmp_path):
    calibrated.save(tmp_path / "faces.pliant")
    again = pliant.load(tmp_path / "faces.pliant")
    assert_allclose(again.object_filter.weights, calibrated.object_filter.weights)
    assert again.object_filter.turn == calibrated.object_filter.turn
    assert_allclose(again.confidence.object_weights, calibrated.confidence.object_weights)
    none = replace(calibrated, object_filter=None)
    none.save(tmp_path / "none.pliant")
    assert pliant.load(tmp_path / "none.pliant").object_filter is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"turn": 9.0}, "turned by 9"),
        ({"weights": np.full((8, 9, 9), np.nan, dtype=np.float32)}, "not finite"),
        (
            {"shape": np.full((68, 2), 1e4) * np.random.default_rng(0).uniform(size=(68, 2))},
            "outside the filter",
        ),
        ({"weights": np.zeros((8, 200, 200), dtype=np.float32)}, "200 x 200 cells"),
    ],
)
def test_filters_that_cannot_be_are_refused(model, tmp_path, changes, sentence):
    replace(model, object_filter=replace(model.object_filter, **changes)).save(tmp_path / "bad.pliant")
    with pytest.raises(ValueError, match=sentence):
        pliant.load(tmp_path / "bad.pliant")
