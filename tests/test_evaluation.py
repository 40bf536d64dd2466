"""Evaluating folders, from Python and as a command in a process of its own."""

import csv
import inspect
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from pyarrow import parquet

import pliant
from pliant.cli.evaluate import _print as print_rows
from pliant.cli.evaluate import evaluate as evaluate_command
from pliant.cli.fit import fit as fit_command
from pliant.data import formats
from pliant.data.dataset import Dataset
from pliant.data.validation import SamplesLeftOut
from pliant.evaluation import Evaluation, evaluate
from pliant.metrics import normalised_error, point_subset
from pliant.plots import plot_fit, plot_overlay
from pliant.starts.noise import perturbed
from pliant.synthetic import write_faces
from test_cli import run

KEYS = ["algorithm", "lt_0.02", "lt_0.03", "lt_0.04", "mean", "std", "median", "pixels", "ms"]
FEW = {"device": "reference", "iterations": (3, 2), "start": "noise", "starts": 2}
FOUND = {"device": "reference", "iterations": (3, 2), "progress": False}
NOISY = {"start": "noise", "starts": 1, "iterations": 2, "progress": False}
QUICK = ("--device", "reference", "--iterations", "3,2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held-out")
    write_faces(folder, 3, seed=5, image_size=96)
    return folder


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "faces.pliant"
    model.save(file)
    return file


class TestEvaluate:
    def test_fits_are_nearer_than_starts(self, model, dataset):
        rows = evaluate(model, dataset[:4], ["po-asy-gn", "ssd-inv-w"], **{**FEW, "iterations": 8}).rows
        assert [list(row) for row in rows] == [KEYS] * 3
        assert [row["algorithm"] for row in rows] == ["start", "po-asy-gn", "ssd-inv-w"]
        assert rows[0]["ms"] == 0
        for row in rows[1:]:
            assert row["mean"] < 0.7 * rows[0]["mean"]
            assert row["ms"] > 0

    def test_starts_are_those_of_the_seed_the_image_and_their_number(self, model, dataset):
        row = evaluate(model, dataset[:3], points="17-35", seed=4, **FEW).rows[0]
        subset = point_subset("17-35", 68)
        errors = [
            normalised_error(perturbed(model, truth, 0.05, np.random.default_rng([4, i, k])), truth, subset)
            for i, truth in enumerate(sample.points() for sample in dataset[:3])
            for k in range(2)
        ]
        assert row["mean"] == pytest.approx(np.mean(errors))

    def test_rows_do_not_depend_on_the_other_algorithms(self, model, dataset):
        both = evaluate(model, dataset[:2], ["ssd-for-w", "po-inv-gn"], **FEW).rows
        alone = evaluate(model, dataset[:2], ["po-inv-gn"], **FEW).rows
        assert both[0] == alone[0]
        assert {**both[2], "ms": 0} == pytest.approx({**alone[1], "ms": 0})

    def test_a_failed_fit_is_a_failure(self, model, dataset):
        truth, width = dataset[0].points(), dataset[0].image().shape[1]

        def across(seed):
            return perturbed(model, truth, 0.9, np.random.default_rng([seed, 0, 0]))[:, 0]

        seed = next(seed for seed in range(1000) if np.all((across(seed) < 0) | (across(seed) >= width)))
        done = evaluate(model, dataset[:1], noise=0.9, seed=seed, **{**FEW, "starts": 1})
        assert done.records[0].error == np.inf
        assert (done.rows[1]["mean"], done.rows[1]["lt_0.04"]) == (1.0, 0.0)

    def test_images_without_landmarks_are_left_out(self, model, dataset):
        bare = replace(dataset[0], points_source=None)
        mixed = Dataset((bare, dataset[1]), "mixed")
        assert evaluate(model, mixed, **FEW).rows[0] == evaluate(model, dataset[1:2], **FEW).rows[0]
        with pytest.raises(ValueError, match="bare: no image has landmarks"):
            evaluate(model, Dataset((bare,), "bare"), **FEW)

    def test_samples_that_cannot_be_used(self, model, dataset):
        def unreadable():
            raise ValueError("broken: this is not an image.")

        mixed = Dataset((dataset[0], replace(dataset[1], image_source=unreadable)), "mixed")
        with pytest.raises(pliant.InvalidDataset, match="broken"):
            evaluate(model, mixed, **FEW)
        with pytest.warns(SamplesLeftOut, match="1 of 2 samples was left out"):
            rows = evaluate(model, mixed, skip_invalid=True, **FEW).rows
        assert rows[0] == evaluate(model, dataset[:1], **FEW).rows[0]
        fewer = Dataset(
            tuple(replace(s, points_source=lambda s=s: s.points()[:20]) for s in dataset[:2]), "fewer"
        )
        with pytest.raises(ValueError, match="fewer: the images have 20 landmarks, but the model has 68"):
            evaluate(model, fewer, **FEW)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"algorithms": []}, "at least one algorithm"),
            ({"algorithms": ["po-asyn-gn"]}, "Did you mean 'po-asy-gn'"),
            ({"noise": -0.1}, "noise=-0.1: it must be a number of at least 0"),
            ({"noise": np.nan}, "noise=nan"),
            ({"starts": 0}, "starts=0: it must be a whole number of at least 1"),
            ({"points": "99"}, "no landmark 99"),
            ({"iterations": (1, 2, 3)}, "2 levels"),
            ({"sampling": 0.0}, "sampling"),
        ],
    )
    def test_wrong_settings(self, model, dataset, settings, sentence):
        with pytest.raises(ValueError, match=sentence):
            evaluate(model, dataset[:1], **{**FEW, **settings})


class TestRecords:
    def test_rows_sum_up_the_records(self, model, dataset):
        done = evaluate(model, dataset[:3], ["po-asy-gn", "po-inv-gn"], points="17-35", **FEW)
        assert done.sentences == [done.warning]
        assert [(r.algorithm, r.image, r.start) for r in done.records] == [
            (name, sample.name, k)
            for name in ("po-asy-gn", "po-inv-gn")
            for sample in dataset[:3]
            for k in (0, 1)
        ]
        for row in done.rows[1:]:
            mine = [record for record in done.records if record.algorithm == row["algorithm"]]
            assert row["mean"] == pytest.approx(np.mean([record.error for record in mine]))
            for record in mine:
                assert record.error == pytest.approx(np.mean(record.distances[17:36]))
                assert record.found

    def test_what_is_not_found_is_a_failure_in_every_figure(self, model, dataset):
        truths = [sample.points() for sample in dataset[:4]]
        known = {sample.image().tobytes(): k for k, sample in enumerate(dataset[:4])}

        def find(image):
            k = known[image.tobytes()]
            if k == 1:
                raise ValueError("nothing.")
            return truths[k] + (25 if k == 2 else 1)

        done = evaluate(model, dataset[:4], find=find, **FOUND)
        assert [record.found for record in done.records] == [True, False, False, True]
        assert (done.records[1].status, done.records[1].reason) == ("failed", "nothing.")
        assert done.records[1].error == np.inf
        assert 0.3 < done.records[2].error < np.inf
        row = done.rows[1]
        assert (row["found"], row["missed"], row["false"]) == (2, 2, 1)
        assert row["lt_0.04"] == np.mean([record.error < 0.04 for record in done.records])
        assert row["mean"] == pytest.approx(np.mean([min(record.error, 1) for record in done.records]))
        assert done.sentences[-1] == (
            "2 of 4 objects in 4 images were found, and 2 were missed; 1 trusted fit is where no object is "
            "annotated."
        )

    def test_objects_of_one_image_are_matched_to_their_fits(self, model, dataset):
        """Two faces beside each other: fits in any order, one missing, one on nothing."""
        pair = [dataset[0], dataset[1]]
        image = np.concatenate([sample.image() for sample in pair], axis=1)
        width = pair[0].image().shape[1]
        truths = [pair[0].points(), pair[1].points() + (width, 0)]
        both = Dataset(
            tuple(
                pliant.Sample(name, image_of, lambda truth=truth: truth)
                for name, image_of, truth in zip(
                    ("both", "both, object 2"), [lambda: image] * 2, truths, strict=True
                )
            ),
            "both",
        )
        both = Dataset(tuple(replace(sample, image_source=both[0].image_source) for sample in both), "both")
        done = evaluate(model, both, find=lambda _: np.array(truths[::-1])[:, None] + 1, **FOUND)
        assert [(record.image, record.object, record.found) for record in done.records] == [
            ("both", 0, True),
            ("both", 1, True),
        ]
        assert done.images == 1
        assert max(record.error for record in done.records) < 0.1
        one = evaluate(model, both, find=lambda _: truths[1] + 1, **FOUND)
        assert [record.found for record in one.records] == [False, True]
        assert one.records[0].reason == "no fit is on this object."
        between = truths[0] + (width / 2, 0)
        three = evaluate(model, both, find=lambda _: np.array([*truths, between])[:, None], **FOUND)
        assert (three.rows[1]["found"], three.rows[1]["false"], len(three.false)) == (2, 1, 1)
        assert np.isnan(three.false[0].error)

    def test_evaluate_is_fit(self, calibrated, dataset):
        """The same way to starts, the same fits: what is measured is what a user gets."""
        few = {"iterations": (3, 2), "tries": 2}
        fits = pliant.fit(calibrated, dataset[:3], trace=False, **few)
        done = evaluate(calibrated, dataset[:3], progress=False, **few)
        for fit, record in zip(fits, done.records, strict=True):
            nearest = min(fit.objects, key=lambda one: np.linalg.norm(one.points - record.points))
            np.testing.assert_allclose(nearest.points, record.points, atol=1e-3)
            assert record.confidence == pytest.approx(nearest.confidence(), abs=1e-3)

    def test_errors_in_pixels_and_units(self, model, dataset):
        """In units where each sample has a scale, and nowhere if one has none."""

        def scaled(sample, spacing):
            found = replace(sample.annotation(), spacing=spacing)
            return replace(sample, points_source=found)

        measured = [scaled(sample, 0.1 * (k + 1)) for k, sample in enumerate(dataset[:3])]
        done = evaluate(model, Dataset(tuple(measured), "scaled"), **FEW)
        sizes = {sample.name: np.ptp(sample.points(), axis=0).mean() for sample in measured}
        scales = {sample.name: sample.spacing() for sample in measured}
        for record in done.records:
            assert record.pixels == pytest.approx(record.error * sizes[record.image])
            assert record.units == pytest.approx(record.pixels * scales[record.image])
        for name in ("pixels", "units"):
            values = [getattr(record, name) for record in done.records]
            assert done.rows[1][name] == pytest.approx(np.mean(values))
            assert done.rows[0][name] > 0
        unknown = [*measured[:2], dataset[2]]
        rows = evaluate(model, Dataset(tuple(unknown), "one without"), **FEW).rows
        assert "units" not in rows[1]
        assert rows[1]["pixels"] == pytest.approx(done.rows[1]["pixels"])

    def test_ways_have_names(self, model, dataset):
        assert evaluate(model, dataset[:2], start="centre", **FOUND).rows[1]["ms"] > 0
        with pytest.raises(ValueError, match="start=nowhere: it must be auto"):
            evaluate(model, dataset[:2], start="nowhere", **FOUND)


class TestEvaluateCommand:
    @pytest.mark.parametrize("width", [40, 80, 160])
    @pytest.mark.parametrize("measured", [{"pixels": 12.1}, {"pixels": 12.1, "units": 0.00512}])
    def test_no_terminal_is_too_narrow_for_numbers(self, width, measured, monkeypatch, capsys):
        monkeypatch.setenv("COLUMNS", str(width))
        errors = {
            "lt_0.02": 1.0,
            "lt_0.03": 1.0,
            "lt_0.04": 1.0,
            "mean": 0.0612,
            "std": 0.0019,
            "median": 0.0067,
        }
        names = ("start", "ssd:map-asy:0.2-gn-sch")
        print_rows([{"algorithm": name, **errors, **measured, "missed": 0, "ms": 1504.3} for name in names])
        lines = capsys.readouterr().out.splitlines()
        said = " ".join(lines).split()
        for number in ("100.0%", "0.0612", "0.0019", "0.0067", "12.1", "1504.3"):
            assert number in said
        assert said.count("0.00512") == 2 * ("units" in measured)
        assert ("scale units" in " ".join(lines)) == ("units" in measured)
        assert names[1] in said
        assert width < 80 or max(map(len, lines)) <= width

    def test_table_json_and_files(self, file, folder, tmp_path):
        names = "po-asy-gn,ssd-inv-gn-sch"
        arguments = (
            "evaluate",
            file,
            folder,
            "--algorithm",
            names,
            "--start",
            "noise",
            "--starts",
            1,
            *QUICK,
        )
        done = run(*arguments, "-o", tmp_path / "fits.csv")
        for word in ("start", "po-asy-gn", "ssd-inv-gn-sch", "<0.02", "median", "ms", "wrote 6 fits"):
            assert word in done.stdout
        printed = json.loads(run(*arguments, "--json", "-o", tmp_path / "fits.parquet").stdout)
        assert (printed["images"], printed["false"]) == (3, [])
        assert [list(row) for row in printed["rows"]] == [KEYS] * 3
        model = pliant.load(file)
        again = evaluate(model, pliant.load_dataset(folder), names.split(","), **{**FEW, "starts": 1})
        for row, other in zip(printed["rows"], again.rows, strict=True):
            assert {**row, "ms": 0} == {**other, "ms": 0}
        with open(tmp_path / "fits.csv", newline="") as table:
            wide = list(csv.DictReader(table))
        tall = parquet.read_table(tmp_path / "fits.parquet").to_pylist()
        for record, one, other in zip(again.records, wide, tall, strict=True):
            assert one["image"] == other["image"] == record.image
            assert float(one["error"]) == other["error"] == record.error
            assert (
                (float(one["x7"]), float(one["y7"]))
                == (other["x"][7], other["y"][7])
                == tuple(record.points[7])
            )
            assert float(one["distance7"]) == other["distances"][7] == record.distances[7]
            assert float(one["pixels"]) == other["pixels"] == record.pixels
        fits = pliant.read_fits(tmp_path / "fits.parquet")
        assert fits["points"].shape == (6, 68, 2)
        assert np.isnan(fits["units"]).all()
        assert np.array_equal(fits["distances"], [record.distances for record in again.records])
        assert [len(formats.read_annotations(tmp_path / f"fits.{kind}")) for kind in ("csv", "parquet")] == [
            6,
            6,
        ]

    def test_starts_without_ground_truth(self, file, folder, tmp_path):
        arguments = ("evaluate", file, folder, "--tries", 2, *QUICK)
        done = run(*arguments, "--verbose", "-o", tmp_path / "fits.json")
        assert "start: detector" in done.stdout
        assert "objects in 3 images were found" in done.stdout
        written = json.loads((tmp_path / "fits.json").read_text())
        printed = json.loads(run(*arguments, "--json").stdout)
        assert len(written) == printed["images"] == 3
        assert sum(record["found"] for record in written) == printed["rows"][1]["found"]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("{folder}", "--algorithm", "po-assy-gn"), "Did you mean 'po-asy-gn'"),
            (("nowhere",), "nowhere: there is no such folder"),
            (("{bare}",), "no image has landmarks"),
            (("{folder}", "-o", "no/where.json"), "does not exist"),
            (("{folder}", "-o", "fits.txt"), "files that end in .parquet"),
            (
                ("{folder}", "--start", "noise", "--detector", "haar-face"),
                "start noise does not search: use --start",
            ),
            (("{folder}", "--noise", "0.1"), "use --start noise"),
            (("{folder}", "--objects", "none"), "a number of objects of at least 1, or 'all'"),
        ],
    )
    def test_mistakes_get_one_sentence(self, file, folder, tmp_path, arguments, sentence):
        bare = tmp_path / "bare"
        bare.mkdir()
        shutil.copy(folder / "face-0000.jpg", bare)
        texts = [argument.format(folder=folder, bare=bare) for argument in arguments]
        done = run("evaluate", file, *texts, *QUICK, ok=False)
        assert done.stderr.startswith("error: ")
        assert sentence in done.stderr


def test_commands_leave_the_algorithm_to_the_model():
    for command in (fit_command, evaluate_command):
        assert inspect.signature(command).parameters["algorithm"].default is None


class TestPlots:
    @pytest.mark.filterwarnings("ignore::pliant.NotFitted")
    def test_fit(self, model, dataset, tmp_path):
        sample = dataset[0]
        settings = {"iterations": (3, 2), "device": "reference"}
        good, outside = pliant.fit(
            model, [sample, sample], [sample.points(), sample.points() + 900], **settings
        )
        [untraced] = pliant.fit(model, [sample], [sample.points()], trace=False, **settings)
        [unknown] = pliant.fit(model, [sample], [np.zeros(4)], **settings)
        for result, panels in ((good, 3), (untraced, 2), (outside, 1), (unknown, 1)):
            figure = plot_fit(result, sample.image())
            assert len(figure.axes) == panels
            figure.savefig(tmp_path / "fit.png")
        assert "outside the image" in plot_fit(outside, sample.image()).axes[0].get_title().replace("\n", " ")
        # It ended well, and there is no confidence: nothing is to be said of it.
        assert good.plot(sample.image()).axes[0].get_title() == ""
        assert good.plot(sample).axes[0].get_title() == sample.name

    @pytest.mark.parametrize("shape", [(40, 60), (40, 60, 3), (3, 2000)])
    def test_overlay_is_the_image(self, shape, tmp_path):
        figure = plot_overlay(np.full(shape, 200, dtype=np.uint8), np.array([[-5.0, 2.0], [30.0, 900.0]]))
        assert figure.axes[0].get_xlim() == (-0.5, shape[1] - 0.5)
        assert figure.axes[0].get_ylim() == (shape[0] - 0.5, -0.5)
        figure.savefig(tmp_path / "overlay.png")


def test_dry_run_says_what_would_be_done(file, folder, command):
    noise = ("--start", "noise", "--algorithm", "po-asy-gn,po-inv-gn")
    said = command("evaluate", file, folder, "--dry-run", *noise).out
    assert said.startswith("would fit ")
    assert "annotated objects with po-asy-gn, po-inv-gn, 3 starts each" in said


def test_a_dry_run_fails_as_the_run_would_without_landmarks(file, folder, command, tmp_path):
    shutil.copy(next(folder.glob("*.jpg")), tmp_path)
    said = command("evaluate", file, tmp_path, "--dry-run", code=1).err
    assert "no image has landmarks to compare fits with" in said
    assert said == command("evaluate", file, tmp_path, "--quiet", code=1).err


class TestTrainingImages:
    """A model knows the images that it was trained on, and an evaluation on them says so."""

    def test_some_of_the_images(self, face_folders, tmp_path, command):
        made = pliant.load_dataset(face_folders / "train")
        model = pliant.train(made[:10], preset="quick", confidence=False, progress=False)
        assert model.training_images.shape == (10, 2)
        done = evaluate(model, made, **NOISY)
        assert (done.seen, done.images) == (10, 14)
        assert done.sentences[0].startswith("10 of 14 images were used for training")
        assert evaluate(model, made[10:], **NOISY).sentences == []
        model.save(tmp_path / "m.pliant")
        assert np.array_equal(pliant.load(tmp_path / "m.pliant").training_images, model.training_images)
        said = command("evaluate", tmp_path / "m.pliant", face_folders / "train", "--start", "noise").out
        assert "10 of 14 images were used for training" in said
        words = ("--start", "noise", "--json")
        report = json.loads(command("evaluate", tmp_path / "m.pliant", face_folders / "train", *words).out)
        assert report["used_for_training"] == 10

    def test_a_copy_of_a_file_is_recognised(self, model, dataset, tmp_path):
        sample = dataset[0]
        copy = pliant.dataset_from_arrays([sample.image()], [sample.points()])
        assert evaluate(model, copy, **NOISY).seen == 1

    def test_objects_that_were_mirrored_for_training(self, dataset):
        first = dataset[0]
        turned = pliant.dataset_from_arrays([first.image()[:, ::-1]], [first.mirrored(range(68)).points()])
        model = pliant.train(
            dataset[1:8] + turned, facing="both", preset="quick", confidence=False, progress=False
        )
        assert evaluate(model, turned, **NOISY).seen == 1

    def test_an_older_model_says_nothing(self, model, dataset, tmp_path):
        older = replace(model, training_images=None)
        older.save(tmp_path / "older.pliant")
        older = pliant.load(tmp_path / "older.pliant")
        assert older.training_images is None
        assert evaluate(older, dataset[:2], **NOISY).sentences == []


def test_whether_fits_are_as_good_as_their_confidence_says(calibrated, dataset):
    """In the sentence; not if only some of the landmarks count, or the model is not calibrated."""
    done = evaluate(calibrated, dataset[:4], progress=False, iterations=(3, 2), tries=2)
    sure = [record.confidence for record in done.records]
    good = np.mean([record.error < 0.04 for record in done.records])
    said = (
        f"The fits have a mean confidence of {np.mean(sure):.2f}, and {good:.0%} of them have an error below"
    )
    said += " 0.04."
    assert done.sentences[-1] == said
    assert replace(done, whole=False).sentences == done.sentences[:-1]
    two = replace(done, records=(*done.records, *(replace(one, algorithm="other") for one in done.records)))
    assert two.sentences[-1] == said.replace("The fits", "The fits of other")
    unknown = tuple(replace(one, confidence=np.nan) for one in done.records)
    warning, found, _ = done.sentences
    assert replace(done, records=unknown).sentences == [warning, found.partition(";")[0] + "."]


def test_sentences_for_people():
    row = {"algorithm": "po-asy-gn", "found": 3, "missed": 0, "false": 0}
    done = Evaluation([row], (), (), 2)
    assert done.sentences == ["3 of 3 objects in 2 images were found, and none was missed."]
    one = replace(done, rows=[{**row, "found": 0, "missed": 1, "false": 2}], images=1, seen=1)
    assert one.sentences[0].startswith("1 of 1 image was used for training")
    assert one.sentences[1] == (
        "0 of 1 object in 1 image was found, and 1 was missed; 2 trusted fits are where no object is annotated."
    )
