"""Starts that nobody gives: what training learns about places, detectors, and the scan."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import pliant
from pliant.bulk.prepare import starts_by_name
from pliant.data.annotation import Annotation
from pliant.metrics import normalised_error, point_subset
from pliant.model import load
from pliant.settings import WAYS, Fitting, Starting
from pliant.shape import align
from pliant.starts.choice import (
    chosen_way,
    described_way,
    find_chain,
    find_starts,
)
from pliant.starts.detectors import (
    detected,
    find_detector,
    haar_face,
)
from pliant.starts.learning import learn_placements
from pliant.starts.placement import (
    IMAGE,
    image_box,
    learn_placement,
    placed,
)

MEAN = np.array([[0.0, 0], [40, 5], [35, 50], [3, 44], [20, 20]])


def about(points):
    """A box that knows where the object is: the landmarks', a little wider."""
    return np.array([points.min(axis=0) - 5, points.max(axis=0) + (10, 5)]).reshape(1, 4)


@pytest.fixture(scope="module")
def knowing(dataset):
    """A detector that finds the object in all training images but two, and something else beside it in one."""
    answers = {}
    for number, sample in enumerate(dataset):
        boxes = about(sample.points())
        answers[sample.image().tobytes()] = np.zeros((0, 4)) if number in (3, 9) else boxes
    answers[dataset[5].image().tobytes()] = np.vstack([[[0, 0, 12, 12]], about(dataset[5].points())])

    def knows(image):
        return answers.get(image.tobytes(), [])

    return knows


@pytest.fixture(scope="module")
def trained(dataset, knowing):
    return pliant.train(
        dataset, size=40, shape_modes=(2, 5), detector=knowing, progress=False, confidence=False
    )


class TestPlacement:
    @given(
        x=st.floats(0, 1),
        y=st.floats(0, 1),
        size=st.floats(0.1, 2),
        angle=st.floats(-3, 3),
        seed=st.integers(0, 99),
    )
    @settings(max_examples=10, deadline=None)
    def test_what_was_placed_is_learned(self, x, y, size, angle, seed):
        """Whatever the boxes are: a placement is about shares of them."""
        rng = np.random.default_rng(seed)
        low = rng.uniform(-50, 200, (15, 2))
        boxes = np.concatenate([low, low + rng.uniform(20, 300, (15, 2))], axis=1)
        blank = learn_placement("x", boxes[:2], np.array([MEAN, MEAN + 1]), MEAN, 2)
        spread = {f"spread_{name}": 0.0 for name in ("x", "y", "size", "angle")}
        truth = replace(blank, x=x, y=y, size=size, angle=angle, **spread)
        shapes = np.array([placed(truth, box, MEAN) for box in boxes])
        # A third of the boxes are elsewhere, and do not count.
        boxes[::4] += np.tile(rng.uniform(500, 900, (4, 2)), 2)
        found = learn_placement("x", boxes, shapes, MEAN, 30)
        assert_allclose([found.x, found.y, found.size], [x, y, size], atol=1e-6, rtol=1e-6)
        assert_allclose(np.angle(np.exp(1j * (found.angle - angle))), 0, atol=1e-6)
        assert found.found <= 11 / 30 + 1e-9

    def test_deviations_are_spreads(self, model):
        usual = model.placements[0]
        mean = model.levels[-1].shape.mean
        box = np.array([0.0, 0, 100, 50])
        plain = placed(usual, box, mean)
        moved = placed(usual, box, mean, np.array([1, -2, 1, 0.5]))
        between = align(plain, moved)
        assert_allclose(np.log(between.scale), usual.spread_size)
        assert_allclose(between.angle, usual.spread_angle / 2)
        shift = moved.mean(axis=0) - plain.mean(axis=0)
        assert_allclose(shift, [100 * usual.spread_x, -100 * usual.spread_y])

    def test_training_learns_where_the_object_is(self, model, dataset):
        usual = model.placements[0]
        assert usual.reference == IMAGE
        shapes = np.array([sample.points() for sample in dataset])
        assert usual.x == pytest.approx(np.median((shapes.mean(axis=1)[:, 0] + 0.5) / 96))
        errors = [
            normalised_error(
                placed(usual, image_box(sample.image()), model.levels[-1].shape.mean),
                sample.points(),
                point_subset("all", 68),
            )
            for sample in dataset
        ]
        assert usual.error == pytest.approx(np.median(errors))
        assert usual.error_90 == pytest.approx(np.percentile(errors, 90))

    def test_it_is_in_the_file(self, trained, tmp_path):
        trained.save(tmp_path / "m.pliant")
        assert load(tmp_path / "m.pliant").placements == trained.placements
        assert [placement.reference for placement in trained.placements] == [IMAGE, "knows"]


class TestDetectors:
    def test_haar_finds_drawn_faces(self, dataset, model):
        haar = model.placements[1]
        assert haar.reference == "haar-face"
        assert haar.found > 0.7
        assert haar.error < model.placements[0].error

    @pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
    def test_haar_takes_all_pixels_and_sizes(self, kind):
        """The same face, larger and of other numbers, is in the same place."""
        [sample] = pliant.synthetic.faces(1, seed=3, image_size=200)
        image = sample.image()
        [small] = haar_face(image)[:1]
        peak = 1 if kind is np.float32 else np.iinfo(kind).max
        large = np.kron(image, np.ones((3, 3, 1) if image.ndim == 3 else (3, 3)))
        [found] = haar_face((large / 255 * peak).astype(kind))[:1]
        assert_allclose(found, 3 * (small + 0.5) - 0.5, atol=0.1 * (small[2] - small[0]) * 3)

    def test_training_looks_for_small_faces_only_where_there_is_no_large_one(
        self, dataset, model, monkeypatch
    ):
        """It wants the first box alone, and most of the time would go into small faces."""
        from pliant.starts import detectors

        first = [haar_face(sample.image())[:1] for sample in dataset]
        searched = []
        plain = detectors._faces
        monkeypatch.setattr(
            detectors, "_faces", lambda image, least: searched.append(least) or plain(image, least)
        )
        for sample, box in zip(dataset, first, strict=True):
            assert_allclose(detectors.largest_face(sample.image()), box, atol=2)
        searched.clear()
        shapes = np.array([sample.points() for sample in dataset])
        learn_placements(list(dataset), shapes, model.levels[-1].shape.mean)
        assert searched.count(detectors._SMALLEST_FACE) < len(dataset) / 2

    def test_nothing_is_found_in_nothing(self):
        assert haar_face(np.zeros((50, 60), dtype=np.uint8)).shape == (0, 4)

    def test_half_is_the_least_to_learn_from(self, dataset, model):
        samples, mean = list(dataset), model.levels[-1].shape.mean
        shapes = np.array([sample.points() for sample in dataset])
        asked = []

        def blind(image):
            asked.append(image)
            return np.zeros((0, 4))

        def corner(image):
            return [0, 0, 10, 10]

        with pytest.raises(ValueError, match="blind found the object in 0% of 24 training images"):
            learn_placements(samples, shapes, mean, blind)
        assert [p.reference for p in learn_placements(samples, shapes, mean, None)] == [IMAGE]
        assert [p.reference for p in learn_placements(samples, shapes, mean, corner)] == [IMAGE, "corner"]

    def test_haar_is_given_up_early_where_there_are_no_faces(self, dataset, model, monkeypatch):
        shapes = np.array([sample.points() for sample in dataset])
        calls = []
        monkeypatch.setitem(
            pliant.starts.detectors.DETECTORS, "haar-face", lambda image: calls.append(1) or np.zeros((0, 4))
        )
        placements = learn_placements(list(dataset), shapes, model.levels[-1].shape.mean, "auto")
        assert [p.reference for p in placements] == [IMAGE]
        assert len(calls) == 12

    @pytest.mark.parametrize("answer", [[[1, 2, 3]], [[5, 5, 5, 9]], [[0, 0, np.nan, 4]]])
    def test_wrong_boxes_get_a_sentence(self, answer):
        with pytest.raises(ValueError, match="the detector mine must return boxes"):
            detected("mine", lambda image: answer, np.zeros((9, 9)))

    def test_functions_by_name(self, tmp_path):
        (tmp_path / "mine.py").write_text("def box(image):\n    return [[0, 0, *image.shape[::-1]]]\n")
        name, run = find_detector(f"{tmp_path / 'mine.py'}:box")
        assert name == "box"
        assert_allclose(detected(name, run, np.zeros((5, 7))), [[0, 0, 7, 5]])
        assert find_detector("haar-face")[0] == "haar-face"
        for wrong, sentence in (
            ("haarface", "no detector 'haarface'"),
            (f"{tmp_path / 'mine.py'}:boxes", "cannot be imported"),
            ("no_such_module:box", "cannot be imported"),
        ):
            with pytest.raises(ValueError, match=sentence):
                find_detector(wrong)


class TestFindStarts:
    @pytest.mark.parametrize("way", [way for way in WAYS if way != "landmarks"])
    @pytest.mark.parametrize("kind", ["grey", "large"])
    def test_every_way_gives_starts_in_the_image(self, model, dataset, way, kind):
        image = dataset[1].image()
        grey = image.mean(axis=2).astype(np.uint8) if image.ndim == 3 else image
        image = grey if kind == "grey" else np.kron(grey, np.ones((2, 2), dtype=np.uint8))
        [fit] = pliant.fit(model, [image], [find_starts(model, way)])
        assert fit.status != "failed", fit.reason

    def test_auto(self, model):
        usual = model.placements[0]
        assert chosen_way(model) == "detector"
        assert chosen_way(replace(model, placements=(replace(usual, error_90=0.1),))) == "placement"
        assert chosen_way(replace(model, placements=(replace(usual, error_90=0.4),))) == "scan"
        assert chosen_way(replace(model, placements=())) == "scan"

    def test_tries_are_about_the_first_and_the_same_again(self, model, dataset):
        image = dataset[0].image()
        one = find_starts(model, "placement", tries=1)(image)
        five = find_starts(model, "placement", tries=5)(image)
        assert one.shape == (1, 68, 2)
        assert_allclose(five[0], one[0])
        assert_allclose(five.mean(axis=(0, 1)), one.mean(axis=(0, 1)))
        assert len({tuple(shape[0]) for shape in five}) == 5
        assert_allclose(five, find_starts(model, "placement")(image))
        assert not np.allclose(five, find_starts(model, "placement", tries=5, seed=1)(image))

    def test_a_detector_of_one_s_own(self, trained, dataset, knowing):
        find = find_starts(trained, "detector", detector=knowing, tries=1)
        good = find(dataset[0].image())
        assert normalised_error(good[0], dataset[0].points(), point_subset("all", 68)) < 0.15
        assert find(dataset[5].image()).shape == (1, 68, 2)
        [way] = find_chain(trained, start="detector", detector=knowing, tries=2).ways
        assert [group.shape for group in way.find(dataset[5].image())] == [(2, 68, 2)] * 2

    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_nothing_found(self, trained, dataset, knowing):
        [fit] = pliant.fit(trained, [dataset[3]], [find_starts(trained, "detector", detector=knowing)])
        assert (fit.status, fit.reason) == ("failed", "the detector knows found nothing.")
        for fallback in ("placement", "scan", "centre"):
            find = find_starts(trained, "detector", detector=knowing, fallback=fallback, tries=1)
            expected = find_starts(trained, fallback, tries=1)
            assert_allclose(find(dataset[3].image()), expected(dataset[3].image()), atol=1e-6)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ({"start": "somewhere"}, "start=somewhere: it must be auto, detector"),
            ({"start": "detector"}, "trained with the detector knows: give its file"),
            ({"start": "detector", "detector": "haar-face"}, "has not learned .* boxes of haar-face"),
            ({"start": "placement", "tries": 0}, "tries=0: it must be a whole number of at least 1"),
            ({"start": "landmarks"}, "give them as starts"),
        ],
    )
    def test_mistakes_get_a_sentence(self, trained, arguments, sentence):
        with pytest.raises(ValueError, match=sentence):
            find_starts(trained, **arguments)

    def test_models_that_know_nothing(self, trained):
        bare = replace(trained, placements=())
        for way, sentence in (
            ("placement", "usually is: train it again"),
            ("detector", "without a detector"),
        ):
            with pytest.raises(ValueError, match=sentence):
                find_starts(bare, way)

    def test_the_scan_finds_a_face_in_a_corner(self, model, dataset):
        sample = dataset[4]
        image = sample.image()
        large = np.full((170, 200, *image.shape[2:]), 90, dtype=np.uint8)
        large[70:166, 100:196] = image
        truth = sample.points() + (100, 70)
        starts = find_starts(model, "scan")(large)
        assert normalised_error(starts[0], truth, point_subset("all", 68)) < 0.15


class TestStartsByName:
    def test_boxes_of_a_landmark_file(self, model, monkeypatch, tmp_path):
        """Whatever format has them: all boxes of an image, by the longest name that fits."""
        boxes = {"a.jpg": [[1, 2, 30, 40], [5, 6, 50, 60]], "b\\a.jpg": [[3, 4, 70, 80]], "c.jpg": [None]}
        annotations = [
            Annotation(image, np.zeros((0, 2)), box=None if box is None else np.array(box, dtype=float))
            for image, several in boxes.items()
            for box in several
        ]
        found = (SimpleNamespace(NAME="any"), None)
        monkeypatch.setattr(pliant.data.formats, "format_of", lambda path: found)
        monkeypatch.setattr(pliant.data.formats, "read_annotations", lambda path: annotations)
        where = starts_by_name(model, Fitting(), tmp_path / "boxes.xml")
        image = np.zeros((90, 90), dtype=np.uint8)
        assert_allclose(where("x/a.jpg", image), np.array(boxes["a.jpg"])[:, None])
        assert_allclose(where("x/b/a.jpg", image), np.array(boxes["b\\a.jpg"])[:, None])
        with pytest.raises(ValueError, match="has no box for this image"):
            where("c.jpg", image)
        annotations.clear()
        with pytest.raises(ValueError, match="there are no boxes in this file"):
            starts_by_name(model, Fitting(), tmp_path / "boxes.xml")

    def test_auto_says_what_it_is(self, model):
        assert described_way(model, Starting()).startswith("detector (starting error 0.0")
        assert described_way(model, Starting()).endswith("then scan, chosen by auto")
        assert described_way(model, Starting(start="scan")) == "scan"
        assert described_way(replace(model, placements=()), Starting()) == "scan, chosen by auto"

    def test_an_image_with_nothing_in_it(self, model):
        [way] = starts_by_name(model, Fitting(start="centre"), None).ways
        with pytest.raises(ValueError, match="3 x 2 pixels are too few"):
            way.find(np.zeros((2, 3), dtype=np.uint8))
