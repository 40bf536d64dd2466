"""All objects of an image: how starts are tried until a fit is trusted, what is kept, and what is written."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pliant
from pliant.batch import fit_all
from pliant.bulk import Drawing, Task, look, read_fits, refusal, run
from pliant.bulk.files import journal_in, names_of
from pliant.bulk.journal import JOURNAL
from pliant.bulk.prepare import starts_by_name
from pliant.fitting.fitter import make_fitter
from pliant.fitting.status import Status
from pliant.inputs import groups_of
from pliant.objects import Hunt, distinct, has_room, is_same_object
from pliant.settings import Fitting
from pliant.starts.choice import Chain, Way
from pliant.starts.known import known_landmarks
from pliant.table import rows_of

FEW = {"iterations": (3, 2), "device": "reference"}


@pytest.fixture(scope="module")
def pair(dataset):
    """Two faces beside each other, and their landmarks `(2, v, 2)`."""
    image = np.concatenate([dataset[0].image(), dataset[1].image()], axis=1)
    return image, np.array([dataset[0].points(), dataset[1].points() + (dataset[0].image().shape[1], 0)])


class TestSameObject:
    def test_what_lies_upon_each_other(self, dataset):
        points = dataset[0].points()
        width, height = np.ptp(points, axis=0)
        assert is_same_object(points, points + 1)
        assert is_same_object(points, points + (0.3 * width, 0))
        assert not is_same_object(points, points + (0.8 * width, 0))
        # A small one inside of a large one is a part of it.
        middle = points.mean(axis=0)
        assert is_same_object(points, middle + 0.3 * (points - middle))
        assert not is_same_object(points, middle + 0.3 * (points - middle) + (0, height))

    def test_shapes_without_an_area(self):
        line = np.column_stack([np.arange(5.0), np.zeros(5)])
        assert is_same_object(line, line + 0.1)
        assert not is_same_object(line, line + 3)

    def test_room(self, model, dataset):
        points = dataset[0].points()
        found = make_fitter(model, **FEW).block([dataset[0].image()], [points])
        assert not has_room(dataset[0].image(), found)
        assert has_room(np.zeros((1000, 1000), dtype=np.uint8), found)


@pytest.mark.parametrize(
    ("start", "shapes"),
    [
        (np.zeros((68, 2)), [(68, 2)]),
        ((1, 2, 30, 40), [(4,)]),
        ([(1, 2, 30, 40), (5, 6, 50, 60)], [(2, 4)]),
        (np.zeros((3, 68, 2)), [(3, 68, 2)]),
        (np.zeros((2, 3, 68, 2)), [(3, 68, 2)] * 2),
        (np.zeros((2, 1, 4)), [(1, 4)] * 2),
        ([np.zeros((3, 68, 2)), np.zeros((1, 68, 2))], [(3, 68, 2), (1, 68, 2)]),
        ([np.zeros((3, 4)), np.zeros((1, 4))], [(3, 4), (1, 4)]),
    ],
)
def test_one_axis_more_is_for_objects(start, shapes):
    assert [group.shape for group in groups_of(start)] == shapes


def test_no_objects_at_all():
    with pytest.raises(ValueError, match="give a start for at least one object"):
        groups_of(np.zeros((0, 1, 4)))


class TestGivenStarts:
    def test_every_object_has_its_fit_in_order(self, model, pair):
        image, truths = pair
        fit = pliant.fit(model, image, truths[::-1, None] + 1, **FEW)
        assert len(fit.objects) == 2
        assert fit.objects[0] is fit
        for found, truth in zip(fit.objects, truths[::-1], strict=True):
            assert np.linalg.norm(found.points - truth, axis=1).mean() < 5

    def test_tries_for_one_object_are_one_fit(self, model, pair):
        image, truths = pair
        assert pliant.fit(model, image, truths + 1, **FEW).others == ()
        # If one object is wanted, whatever is given are tries for it.
        one = pliant.fit(model, image, truths[:, None] + 1, objects=1, **FEW)
        tries = pliant.fit(model, image, truths + 1, **FEW)
        np.testing.assert_allclose(one.points, tries.points)

    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_one_that_cannot_be_used_is_no_reason_for_the_other(self, model, pair):
        image, truths = pair
        fit = pliant.fit(model, image, np.array([truths[0], truths[1] + 900])[:, None], **FEW)
        assert [found.status == "failed" for found in fit.objects] == [False, True]

    def test_many_images_one_result_each(self, model, pair, dataset):
        image, truths = pair
        fits = pliant.fit(model, [image, dataset[0]], [truths[:, None], dataset[0].points()], **FEW)
        assert [len(fit.objects) for fit in fits] == [2, 1]


class TestChain:
    """Ways that know the truth, or the wrong place, and count how often they were asked."""

    def hunted(self, model, image, *ways, **changes):
        fitter = make_fitter(model, trace=False, jobs=1, **changes)
        [fit] = fit_all(fitter, [(image, Chain(ways))])
        return fit

    def way(self, name, *groups, asked=None, **more):
        def find(image):
            if asked is not None:
                asked.append(name)
            if not groups:
                raise ValueError(f"{name} found nothing.")
            return list(groups)

        return Way(name, find, **more)

    def test_it_stops_where_a_fit_is_trusted(self, calibrated, dataset):
        asked = []
        sample = dataset[2]
        good = sample.points() + 1
        ways = (
            self.way("none", asked=asked),
            self.way("wrong", 0.35 * good, asked=asked),
            self.way("right", good, asked=asked),
            self.way("last", good, asked=asked),
        )
        fit = self.hunted(calibrated, sample.image(), *ways)
        assert fit.confidence() >= 0.5
        assert asked == ["none", "wrong", "right"]
        assert np.linalg.norm(fit.points - sample.points(), axis=1).mean() < 4

    def test_the_best_is_kept_if_none_is_trusted(self, calibrated, dataset):
        sample = dataset[2]
        tried = [sample.points() - 22, sample.points() + 1, sample.points() + 24]
        ways = [self.way(str(k), start) for k, start in enumerate(tried)]
        fit = self.hunted(calibrated, sample.image(), *ways, trusted=1.0)
        alone = [
            self.hunted(calibrated, sample.image(), self.way("one", start)).confidence() for start in tried
        ]
        assert fit.confidence() == pytest.approx(max(alone), abs=1e-3)
        assert fit.others == ()

    def test_all_trusted_objects_once_each(self, calibrated, pair):
        image, truths = pair
        ways = (
            self.way("boxes", truths[0] + 1, truths[0] - 1, truths[1], several=True),
            self.way("scan", truths[1] + 1, several=True),
        )
        found = self.hunted(calibrated, image, *ways).objects
        assert len(found) == 2
        assert [fit.confidence() for fit in found] == sorted((f.confidence() for f in found), reverse=True)
        assert len(self.hunted(calibrated, image, *ways, objects=1).objects) == 1
        assert len(self.hunted(calibrated, image, *ways, objects=5).objects) == 2

    def test_patience(self, calibrated, dataset):
        """What is suspected is given up after as many fits in a row that are not trusted."""
        image, points = dataset[2].image(), dataset[2].points()
        wrong = [points + (25 + k, -25) for k in range(4)]
        hunt = Hunt(
            image,
            Chain((self.way("scan", *wrong, points, several=True, patience=2),)),
            Fitting(),
            judged=True,
        )
        fitter = make_fitter(calibrated, trace=False)
        while starts := hunt.next_starts():
            assert len(starts) <= 2
            hunt.fits += fitter.block([image] * len(starts), starts)
        assert len(hunt.fits) == 2

    def test_without_calibration_the_first_way_with_a_start_is_taken(self, model, dataset):
        asked = []
        wrong, right = dataset[2].points() - 10, dataset[2].points()
        ways = (
            self.way("none", asked=asked),
            self.way("boxes", wrong, right, asked=asked, several=True),
            self.way("scan", right, asked=asked),
        )
        fit = self.hunted(model, dataset[2].image(), *ways, **FEW)
        np.testing.assert_allclose(fit.start, wrong)
        assert fit.others == ()
        assert asked == ["none", "boxes"]
        assert len(self.hunted(model, dataset[2].image(), *ways, objects=2, **FEW).objects) == 2

    def test_nothing_anywhere(self, calibrated, dataset):
        fit = self.hunted(calibrated, dataset[2].image(), self.way("a"), self.way("b"))
        assert (fit.status, fit.reason) == ("failed", "a found nothing. b found nothing.")

    def test_lost_fits_are_no_objects(self, calibrated, dataset):
        fitter = make_fitter(calibrated, trace=False)
        [fit] = fitter.block([dataset[0].image()], [dataset[0].points()])
        lost = replace(fit, status=Status.DIVERGED)
        assert distinct([lost, fit])[0] is fit
        hunt = Hunt(dataset[0].image(), Chain(()), Fitting(trusted=0.0), judged=True, fits=[lost])
        assert hunt.result().others == ()


@pytest.fixture(scope="module")
def folder(dataset, tmp_path_factory):
    """Images with two faces, one, two and two, and the landmarks of each face in a file of its own."""
    folder = tmp_path_factory.mktemp("several")
    for number, faces in enumerate([(0, 1), (2,), (3, 4), (5, 6), (7,)]):
        samples = [dataset[k] for k in faces]
        image = np.concatenate([sample.image() for sample in samples], axis=1)
        PIL.Image.fromarray(image).save(folder / f"image-{number}.png")
        for k, sample in enumerate(samples):
            points = sample.points() + (k * samples[0].image().shape[1], 0)
            single = len(samples) == 1
            pliant.write_landmarks(folder / f"image-{number}{'' if single else f'.{k + 1}'}.pts", points)
    return folder


class TestLandmarkFiles:
    def test_numbered_files_are_objects_of_one_image(self, folder):
        dataset = pliant.load_dataset(folder)
        names = [Path(sample.name).name for sample in dataset]
        assert names[:3] == ["image-0.png", "image-0.png, object 2", "image-1.png"]
        assert len(dataset) == 8
        assert len({sample.image_source for sample in dataset}) == 5
        assert dataset[1].points()[:, 0].min() > dataset[0].points()[:, 0].max() - 20
        assert len(pliant.load_dataset(str(folder / "image-0*"))) == 2

    def test_a_number_in_the_name_of_an_image_is_its_own(self, folder, tmp_path):
        for name in ("a.png", "a.1.png"):
            (tmp_path / name).write_bytes((folder / "image-1.png").read_bytes())
        (tmp_path / "a.1.pts").write_bytes((folder / "image-1.pts").read_bytes())
        annotated = {Path(s.name).name: s.points_source is not None for s in pliant.load_dataset(tmp_path)}
        assert annotated == {"a.png": False, "a.1.png": True}

    def test_known_landmarks_of_every_object(self, folder):
        assert known_landmarks(str(folder / "image-0.png"), np.zeros(1)).shape == (2, 1, 68, 2)
        assert known_landmarks(str(folder / "image-1.png"), np.zeros(1)).shape == (1, 1, 68, 2)


@pytest.fixture(scope="module")
def fitter(model):
    return make_fitter(model, jobs=1, trace=False, **FEW)


@pytest.fixture(scope="module")
def done(folder, fitter, tmp_path_factory):
    """A run with several objects an image, and its journal as it was before it went."""
    output = tmp_path_factory.mktemp("done") / "out"
    images = sorted(map(str, folder.glob("*.png")))
    task = Task(images, output, {}, landmarks="pts", draw=Drawing(), csv=True, flag_below=2.0)
    journals = []
    run(task, fitter, known_landmarks, each=lambda rows: journals.append((output / JOURNAL).read_bytes()))
    return task, journals[-1]


def bits(rows):
    return [json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in rows]


class TestBulk:
    def test_rows_and_files(self, done):
        task, _ = done
        fits = read_fits(task.output)
        assert fits["object"].tolist() == [0, 1, 0, 0, 1, 0, 1, 0]
        assert [Path(name).stem[-1] for name in fits["image"]] == list("00122334")
        assert fits["points"].shape == (8, 68, 2)
        written = sorted(path.name for path in (task.output / "landmarks").iterdir())
        assert written[:3] == ["image-0.2.pts", "image-0.pts", "image-1.pts"]
        assert len(written) == 8
        for row in rows_of(task.table):
            several = f".{row['object'] + 1}" if row["object"] else ""
            file = task.output / "landmarks" / f"{Path(row['image']).stem}{several}.pts"
            np.testing.assert_allclose(
                pliant.read_landmarks(file), np.column_stack([row["x"], row["y"]]), atol=1e-3
            )
        assert len(list((task.output / "pictures").iterdir())) == 5
        assert len((task.output / "fits.csv").read_text().splitlines()) == 9

    @pytest.mark.parametrize("name", ["fits.json", "fits.xml", "fits.csv", "fits.tps", "fits.npz"])
    def test_one_file_for_all_has_all_objects(self, done, fitter, folder, tmp_path, name):
        task = replace(done[0], annotations=tmp_path / name)
        run(task, fitter, known_landmarks, resume=True)
        again = pliant.load_dataset(tmp_path / name, images=folder)
        assert len(again) == 8
        assert len({str(sample.image_source) for sample in again}) == 5
        points = read_fits(task.output)["points"]
        np.testing.assert_allclose([sample.points() for sample in again], points, atol=0.51)

    @settings(max_examples=8, deadline=None)
    @given(share=st.floats(0, 1))
    def test_cut_off_anywhere_it_goes_on_to_the_same_table(self, done, fitter, share):
        first, journal = done
        with tempfile.TemporaryDirectory() as place:
            task = Task(first.images, Path(place), {}, landmarks="pts", draw=Drawing())
            journal_in(task.output).write_bytes(journal[: round(share * len(journal))])
            run(task, fitter, known_landmarks, resume=True)
            assert bits(rows_of(task.table)) == bits(rows_of(first.table))

    def test_files_of_further_objects_are_not_replaced(self, done, fitter, tmp_path):
        task = replace(done[0], output=tmp_path)
        (tmp_path / "landmarks").mkdir()
        (tmp_path / "landmarks" / "image-1.3.pts").write_text("mine")
        assert "image-1.3.pts would be replaced" in refusal(task, look(task))
        (tmp_path / "landmarks" / "image-1.3.pts").rename(tmp_path / "landmarks" / "other.3.pts")
        assert refusal(task, look(task)) == ""
        run(task, fitter, known_landmarks)
        # The next run finds one object an image: the files of the others go with it.
        alone = replace(task, settings={"objects": 1})
        run(alone, make_fitter(fitter.model, objects=1, trace=False, **FEW), known_landmarks, overwrite=True)
        left = sorted(path.name for path in (tmp_path / "landmarks").iterdir())
        assert left == [*(f"image-{k}.pts" for k in range(5)), "other.3.pts"]

    def test_names_that_could_be_those_of_further_objects(self):
        assert names_of(["x/a.jpg", "x/b.2.jpg"]) == ["a", "b.2"]
        assert names_of(["x/a.jpg", "x/a.2.jpg"]) == ["a", "x-a.2"]

    def test_every_box_is_an_object(self, model, folder, tmp_path):
        (tmp_path / "boxes.csv").write_text(
            "image,left,top,right,bottom\nimage-0.png,20,20,76,80\nimage-0.png,116,20,172,80\n"
        )
        where = starts_by_name(model, Fitting(), tmp_path / "boxes.csv")
        fit = pliant.fit(
            model,
            folder / "image-0.png",
            where(str(folder / "image-0.png"), np.zeros((96, 192))),
            **FEW,
        )
        assert len(fit.objects) == 2
        assert fit.others[0].points[:, 0].mean() > 96 > fit.points[:, 0].mean()
