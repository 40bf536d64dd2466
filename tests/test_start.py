"""Starts: boxes, shapes, and the paper's random ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pliant
from pliant.data.manifest import read_boxes
from pliant.shape import align, shape_size
from pliant.starts.boxes import from_box
from pliant.starts.candidates import (
    start_candidates,
    start_points,
    usable_starts,
)
from pliant.starts.noise import perturbed


def test_starts_of_many_images_are_judged_as_those_of_one(model, dataset):
    """Whatever is wrong with one does not change what is said of another."""
    truth, image = dataset[0].points(), dataset[0].image()
    far, lost = truth + 5000, np.full_like(truth, np.nan)
    starts = [truth, far, lost, truth * 1e-4, np.array([10.0, 10, 60, 60]), np.array([truth, far, truth + 1])]
    starts += [truth[:5], np.empty((0, *truth.shape)), truth[::-1] * (1, 40), np.array([5.0, 5, 5, 5])]
    together = usable_starts(model, [image] * len(starts), starts)
    alone = [usable_starts(model, [image], [start])[0] for start in starts]
    assert [len(one.starts) for one in together] == [1, 0, 0, 0, 1, 2, 0, 0, 0, 0]
    assert [bool(one.reason) for one in together] == [not one.starts for one in together]
    for one, other in zip(together, alone, strict=True):
        assert one.reason == other.reason
        np.testing.assert_array_equal(one.starts, other.starts)
    assert "outside the image" in together[1].reason
    assert together[1].refused is not None
    assert "not finite" in together[2].reason


class TestStarts:
    def test_a_box_holds_the_mean_shape(self, model):
        points = from_box(model, np.array([10, 20, 50, 70]))
        assert shape_size(points) == pytest.approx(45)
        assert_allclose((points.min(axis=0) + points.max(axis=0)) / 2, [30, 45])

    def test_every_draw_has_its_own_sign(self, model, dataset):
        """Scale, rotation, x and y, in this order: a draw above zero makes the start larger, not smaller."""

        class Draws:
            def __init__(self, *values):
                self.values = values

            def uniform(self, low, high, count):
                assert (low, high, count) == (-0.1, 0.1, 4)
                return np.array(self.values)

        truth = dataset[0].points()
        still = perturbed(model, truth, 0.1, Draws(0, 0, 0, 0))
        centre, size = still.mean(axis=0), shape_size(truth)
        assert_allclose(perturbed(model, truth, 0.1, Draws(0.1, 0, 0, 0)), centre + 1.1 * (still - centre))
        assert_allclose(perturbed(model, truth, 0.1, Draws(-0.1, 0, 0, 0)), centre + 0.9 * (still - centre))
        assert_allclose(
            perturbed(model, truth, 0.1, Draws(0, 0, 0.1, -0.05)), still + size * 0.184 * np.array([1, -0.5])
        )
        turned = perturbed(model, truth, 0.1, Draws(0, 0.1, 0, 0))
        assert align(still, turned).angle == pytest.approx(0.1 * np.pi / 2)
        assert_allclose(turned.mean(axis=0), centre)

    def test_noise_is_as_large_as_it_says(self, model, dataset):
        truth = dataset[0].points()
        rng = np.random.default_rng(0)
        aligned = perturbed(model, truth, 0.0, rng)
        assert_allclose(align(aligned, truth).factor, 1, atol=1e-9)
        found = [align(aligned, perturbed(model, truth, 0.1, rng)) for _ in range(300)]
        scales, angles = np.array([f.scale for f in found]), np.array([f.angle for f in found])
        assert 0.9 < scales.min() < 0.92
        assert 1.08 < scales.max() < 1.1
        assert 0.14 < np.abs(angles).max() < 0.1 * np.pi / 2
        shifts = [perturbed(model, truth, 0.1, rng).mean(axis=0) - aligned.mean(axis=0) for _ in range(300)]
        assert 0.17 < np.abs(shifts).max() / shape_size(truth) < 0.184

    @pytest.mark.parametrize(
        ("start", "sentence"),
        [
            (np.zeros(4), "is empty"),
            (np.array([5, 5, 5, 90]), "is empty"),
            (np.array([0, 0, np.nan, 9]), "is empty"),
            (np.zeros((5, 2)), "a shape of 68 points or a box"),
            (np.full((68, 2), np.inf), "not finite"),
            (np.full((68, 2), 7.0), "no size"),
        ],
    )
    def test_starts_that_are_none_get_a_sentence(self, model, start, sentence):
        with pytest.raises(ValueError, match=sentence):
            start_points(model, start)

    @pytest.mark.parametrize("count", [1, 3])
    def test_several_are_as_many_single_ones(self, model, rng, count):
        shapes = rng.uniform(0, 90, (count, 68, 2))
        boxes = np.sort(rng.uniform(0, 90, (count, 2, 2)), axis=1).reshape(count, 4) + (0, 0, 2, 2)
        for several in (shapes, boxes):
            alone = [start_points(model, one) for one in several]
            assert_allclose(start_candidates(model, several), alone)
            assert_allclose(start_candidates(model, several[0]), alone[:1])

    def test_none_of_several_gets_a_sentence(self, model):
        with pytest.raises(ValueError, match="there is no start"):
            start_candidates(model, np.zeros((0, 4)))


class TestSeveral:
    """Of several starts in an image the best is kept, wherever it stands and whatever the others are."""

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_the_good_one_wins(self, model, dataset, place):
        sample = dataset[2]
        good = sample.points() + 1
        starts = [good * 0.3 + (60, 60), good * 0.3]
        starts.insert(place, good)
        [several] = pliant.fit(model, [sample], [np.array(starts)])
        [alone] = pliant.fit(model, [sample], [good])
        assert_allclose(several.start, good)
        assert_allclose(several.points, alone.points, atol=0.01)
        assert several.cost == pytest.approx(alone.cost, rel=1e-3)

    def test_images_do_not_disturb_each_other(self, model, dataset):
        starts = [np.array([s.points() + k for k in range(1, 2 + n)]) for n, s in enumerate(dataset[:3])]
        together = pliant.fit(model, list(dataset[:3]), starts)
        for sample, start, fit in zip(dataset, starts, together, strict=False):
            [alone] = pliant.fit(model, [sample], [start])
            assert_allclose(fit.points, alone.points, atol=1e-3)

    def test_a_flat_wall_is_no_better_than_a_face(self, model, dataset):
        """Its plain cost may well be lower: there is nothing in it to explain."""
        sample = dataset[0]
        image = np.full((96, 220), 128, dtype=np.uint8)
        grey = sample.image()
        image[:, :96] = grey.mean(axis=2) if grey.ndim == 3 else grey
        good = sample.points() + 0.5
        [fit] = pliant.fit(model, [image], [np.array([good + (115, 0), good])])
        assert_allclose(fit.start, good)

    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_those_outside_are_left_out(self, model, dataset):
        sample = dataset[0]
        near, far = sample.points() + 1, sample.points() + 500
        [fit] = pliant.fit(model, [sample], [np.array([far, near])])
        assert_allclose(fit.start, near)
        [lost] = pliant.fit(model, [sample], [np.array([far, far])])
        assert lost.status == "failed"
        assert "outside the image" in lost.reason

    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_a_start_may_be_a_function_of_the_image(self, model, dataset):
        def nothing(image):
            raise ValueError("there is nothing here.")

        box = np.array([20, 20, 70, 70])
        asked, given, failed = pliant.fit(
            model, [dataset[0], dataset[0], dataset[0]], [lambda image: box, box, nothing]
        )
        assert_allclose(asked.points, given.points, atol=1e-4)
        assert (failed.status, failed.reason) == ("failed", "there is nothing here.")


@pytest.mark.filterwarnings("ignore::pliant.NotFitted")
class TestTooMuch:
    """What would take gigabytes is a failed fit with a reason, and the next image is fitted all the same."""

    def fitted(self, model, dataset, start):
        from pliant.batch import fit

        image, truth = dataset[0].image(), dataset[0].points()
        one, other = fit(model, [image, image], [start, truth], jobs=1)
        assert other.ok
        return one

    @pytest.mark.parametrize("far", [3e7, 3e5, 2000.0, -1e12, 1e300])
    def test_one_landmark_far_away(self, model, dataset, far):
        start = dataset[0].points().copy()
        start[5] = far
        one = self.fitted(model, dataset, start)
        assert one.status == "failed"
        assert "the landmarks span" in one.reason

    def test_of_several_starts_those_that_can_be_looked_at_are_fitted(self, model, dataset):
        start = dataset[0].points().copy()
        astray = start.copy()
        astray[5] = 3e7
        one = self.fitted(model, dataset, np.stack([astray, start]))
        assert one.ok
        assert_allclose(one.start, start)

    def test_landmarks_in_another_order(self, model, dataset, rng):
        """Hardly a similarity is left between the shapes, and so the view would be enlarged without end."""
        one = self.fitted(model, dataset, dataset[0].points()[rng.permutation(model.landmarks)])
        assert one.status == "failed"
        assert "in the model's order" in one.reason

    def test_landmarks_without_any_similarity_to_the_model(self, model, dataset):
        """Dividing by that scale was an error that stopped all images."""
        mean = model.levels[-1].shape.mean
        x, y = (mean - mean.mean(axis=0)).T
        # A conjugate, and as much of the shape itself as makes the scale zero.
        z = x + 1j * y
        start = np.conj(z) - z * np.sum(np.conj(z) ** 2) / np.sum(np.abs(z) ** 2)
        start = np.stack([start.real, start.imag], axis=-1) + 48
        one = self.fitted(model, dataset, start)
        assert one.status == "failed"
        assert "in the model's order" in one.reason

    def test_a_huge_box(self, model, dataset):
        one = self.fitted(model, dataset, np.array([-1e12, -1e12, 1e12, 1e12]))
        assert one.status == "failed"

    def test_a_reconstruction_at_no_place(self, model, dataset):
        points = dataset[0].points().copy()
        points[0] = 3e7
        with pytest.raises(ValueError, match="the landmarks span 3e"):
            model.reconstruct(dataset[0].image(), points)

    def test_a_scan_of_a_ribbon(self, model):
        ribbon = np.zeros((16, 4000), dtype=np.uint8)
        [one] = pliant.fit(model, [ribbon], "scan", jobs=1)
        assert one.status == "failed"
        assert "at most 12 to 1" in one.reason


class TestBoxFiles:
    ROWS = (
        "image,left,top,right,bottom,group\n"
        "a.jpg,1,2,30,40,x\nb/c.jpg,5,6,7.5,8,y\na.jpg,2,3,4,50,\nd.jpg,,,,,z\n"
    )

    def expect(self, boxes):
        assert list(boxes) == ["a.jpg", "b/c.jpg"]
        assert_allclose(boxes["a.jpg"], [[1, 2, 30, 40], [2, 3, 4, 50]])
        assert_allclose(boxes["b/c.jpg"], [[5, 6, 7.5, 8]])

    def test_tables(self, tmp_path):
        import pyarrow as pa
        from pyarrow import csv, parquet

        (tmp_path / "boxes.csv").write_text(self.ROWS)
        (tmp_path / "boxes.tsv").write_text(self.ROWS.replace(",", "\t"))
        table: pa.Table = csv.read_csv(tmp_path / "boxes.csv")
        parquet.write_table(table, tmp_path / "boxes.parquet")
        for name in ("boxes.csv", "boxes.tsv", "boxes.parquet"):
            self.expect(read_boxes(tmp_path / name))

    def test_mistakes_get_a_sentence(self, tmp_path):
        (tmp_path / "a.csv").write_text("image,left\n")
        (tmp_path / "b.csv").write_text(self.ROWS.replace("30", "wide"))
        (tmp_path / "c.parquet").write_text("no table")
        for name, sentence in (
            ("a.csv", "a.csv, line 1: expected the columns image, left"),
            ("b.csv", "b.csv, line 2: left, top, right, bottom must be four numbers"),
            ("c.parquet", "this Parquet file cannot be read"),
        ):
            with pytest.raises(ValueError, match=sentence):
                read_boxes(tmp_path / name)
