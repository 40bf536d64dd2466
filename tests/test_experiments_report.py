"""What experiments report: intervals, paired tests, tables, figures and the page, from rows alone."""

import csv
import re
import shutil
from base64 import b64encode
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from pliant.data.formats import read_landmarks
from pliant.experiments import algorithms
from pliant.experiments.conduct import EXPERIMENTS, read_others, read_reference, settings_for
from pliant.experiments.rows import Fits
from pliant.experiments.settings import read_file
from pliant.experiments.statistics import Comparison, by_image, compare, holm, summary
from pliant.metrics import BOUNDS, summarise
from pliant.settings import DEFAULT_ALGORITHM
from pliant.table import read_head

COLUMNS = ["algorithm", "lt_0.02", "lt_0.03", "lt_0.04", "mean", "std", "median", "note"]
SETTINGS = """
[experiment]
size = 40
shape-modes = [2, 5]
iterations = [3, 2]

[experiment.objects]
folds = 2

[experiment.newton]
algorithms = ["ssd-for-n-sch", "po-inv-n"]
"""
KINDS = {name: experiment.Settings for name, experiment in EXPERIMENTS.items()}


def fits_of(errors, images, starts=None):
    errors = np.asarray(errors, dtype=float)
    return Fits(
        images=np.asarray(images, dtype=np.str_),
        starts=np.zeros(len(errors), dtype=np.int32)
        if starts is None
        else np.asarray(starts, dtype=np.int32),
        errors=errors,
        start_errors=errors,
        statuses=np.full(len(errors), "converged"),
        seconds=errors,
        done=np.zeros((len(errors), 0)),
        costs=(),
        courses=(),
    )


class TestStatistics:
    def test_holm_as_in_his_paper(self):
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
        assert holm([0.9, 0.8]) == [1.0, 1.0]
        assert holm([]) == []

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    def test_holm_never_lowers_and_keeps_the_order(self, values):
        corrected = holm(values)
        assert all(after >= before for before, after in zip(values, corrected, strict=True))
        ranked = [corrected[k] for k in np.argsort(values, kind="stable")]
        assert ranked == sorted(ranked)

    def test_intervals_are_about_images_and_not_about_starts(self, rng):
        errors = rng.uniform(0, 0.06, 50)
        images = [str(k) for k in range(50)]
        once = summary(errors, np.array(images))
        thrice = summary(np.tile(errors, 3), np.array(images * 3))
        for name, ends in once.intervals.items():
            assert thrice.intervals[name] == pytest.approx(ends)
        assert thrice.fits == 150
        for name, (low, high) in once.intervals.items():
            assert low <= once.values[name] <= high
        assert once.values == summarise(errors)

    def test_intervals_hold_as_often_as_they_say(self):
        inside = 0
        for seed in range(200):
            errors = np.random.default_rng(seed).exponential(0.02, 60)
            low, high = summary(errors, np.arange(60).astype(str)).intervals["mean"]
            inside += low <= 0.02 <= high
        assert 0.88 <= inside / 200 <= 0.98

    def test_an_interval_has_as_much_below_it_as_above(self, rng):
        """Errors in a mirror have its mirror image; of many errors it is 1.96 standard errors to either side."""
        errors, images = rng.exponential(0.02, 400), np.arange(400).astype(str)
        low, high = summary(errors, images).intervals["mean"]
        assert summary(1 - errors, images).intervals["mean"] == pytest.approx((1 - high, 1 - low), abs=1e-12)
        assert (high - low) / 2 == pytest.approx(1.96 * errors.std() / 20, rel=0.07)
        fits = {"none": fits_of(0 * errors, images), "some": fits_of(errors, images)}
        there, back = compare(fits, [("none", "some"), ("some", "none")])
        assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)
        # The median of an exponential distribution has its own mean, over the root of the count, as standard error.
        assert (there.high - there.low) / 2 == pytest.approx(1.96 * 0.02 / 20, rel=0.3)

    def test_every_image_is_drawn(self):
        """An error at one image alone, the first or the last, is in some draws and not in others."""
        for errors in ([1.0, 0, 0, 0], [0, 0, 0, 1.0]):
            low, high = summary(np.array(errors), np.array(list("abcd"))).intervals["mean"]
            assert low == 0
            assert high >= 0.5

    def test_a_difference_is_one_below_the_level(self):
        one = Comparison("a", "b", 9, 0.1, 0.0, 0.2, 0.5, 0.01, corrected=0.05)
        assert not one.differ
        assert replace(one, corrected=0.0499).differ

    def test_an_error_at_a_bound_is_not_below_it(self):
        at = summary(np.full(3, 0.03), np.array(["x", "y", "z"]))
        assert [at.intervals[f"lt_{bound}"] for bound in BOUNDS] == [(0, 0), (0, 0), (1, 1)]

    def test_a_shift_is_found_and_noise_is_not(self, rng):
        images = np.arange(80).astype(str)
        errors = rng.uniform(0.01, 0.05, 80)
        fits = {
            "a": fits_of(errors, images),
            "better": fits_of(errors - 0.002 + rng.normal(0, 0.002, 80), images),
            "same": fits_of(errors + rng.normal(0, 0.002, 80), images),
            "equal": fits_of(errors, images),
        }
        better, same, equal = compare(fits, [("a", "better"), ("a", "same"), ("a", "equal")])
        assert better.differ
        assert better.low < -0.002 + 0.001
        assert better.high < 0
        assert better.wins > 0.6
        assert not same.differ
        assert same.low < 0 < same.high
        assert (equal.p, equal.difference, equal.differ) == (1.0, 0.0, False)
        assert better.corrected == pytest.approx(3 * better.p)

    def test_images_at_which_both_are_equal_are_won_by_neither(self):
        images = np.arange(8).astype(str)
        fits = {
            "a": fits_of([1, 1, 1, 1, 1, 1, 1, 1], images),
            "b": fits_of([1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 1.4], images),
        }
        (found,) = compare(fits, [("a", "b")])
        assert (found.wins, found.images) == (5 / 8, 8)
        assert found.difference == pytest.approx(-0.15)
        assert 0.05 < found.p < 1

    def test_starts_are_averaged_and_order_does_not_matter(self):
        images, starts = ["x", "y", "x", "y"], [0, 0, 1, 1]
        assert by_image(np.array(images), {"e": np.array([1.0, 2, 3, 4])})["e"].tolist() == [2, 3]
        one = fits_of([1, 2, 3, 4], images, starts)
        turned = fits_of([4, 3, 2, 1], images[::-1], starts[::-1])
        assert compare({"a": one, "b": turned}, [("a", "b")])[0].difference == 0

    def test_other_images_cannot_be_paired(self):
        fits = {"a": fits_of([1, 2], ["x", "y"]), "b": fits_of([1, 2], ["x", "z"])}
        with pytest.raises(ValueError, match="a and b were not fitted to the same images"):
            compare(fits, [("a", "b")])

    def test_pairs_are_those_of_the_paper(self):
        names = [
            "ssd-for-gn-sch",
            "ssd-for-gn-alt",
            "ssd-for-n-sch",
            "ssd-for-w",
            "po-for-gn",
            "ssd-inv-gn-sch",
        ]
        pairs = {frozenset(pair) for pair in algorithms.pairs_of(names)}
        assert pairs == {
            frozenset(pair)
            for pair in (
                ("ssd-for-gn-sch", "ssd-for-gn-alt"),
                ("ssd-for-gn-sch", "ssd-inv-gn-sch"),
                ("ssd-for-gn-alt", "ssd-inv-gn-sch"),
                ("ssd-for-gn-sch", "ssd-for-n-sch"),
                ("ssd-for-gn-sch", "ssd-for-w"),
            )
        }

    def test_without_such_pairs_each_is_compared_with_each(self):
        assert algorithms.pairs_of(["po-asy-gn", "ssd:map-asy:0.2-gn-sch"]) == [
            ("po-asy-gn", "ssd:map-asy:0.2-gn-sch")
        ]
        assert algorithms.pairs_of(["po-asy-gn"]) == []

    def test_the_default_leaves_the_papers_pairs_as_they_are(self):
        names = ["ssd-for-gn-sch", "ssd-for-gn-alt", "ssd-for-w"]
        assert algorithms.pairs_of([*names, DEFAULT_ALGORITHM]) == algorithms.pairs_of(names)


class TestConclusion:
    """Which algorithm is best, and whether that is more than chance."""

    def fits(self, rng, **shifts):
        """Errors of 90 images, each label with its own shift and a little noise of its own."""
        errors, images = rng.uniform(0.01, 0.04, 90), [str(k) for k in range(90)]
        names = {"default": DEFAULT_ALGORITHM, "first": "po-asy-gn", "second": "po-inv-gn"}
        return {
            names[name]: fits_of(errors + shift + rng.normal(0, 0.001, 90), images)
            for name, shift in shifts.items()
        }

    def test_a_real_difference_to_the_default(self, rng):
        fits = self.fits(rng, default=0, first=-0.002, second=0.001)
        said = algorithms.conclusion(fits)
        best = fits["po-asy-gn"].errors
        assert said.startswith(f"Best for these images: po-asy-gn, with a mean error of {best.mean():.4f}")
        assert f"{np.mean(best < 0.02):.1%} of the fits below 0.02" in said
        assert f"The default {DEFAULT_ALGORITHM} has a mean error of" in said
        assert "statistically significant. Image by image" in said
        assert "for 2 comparisons" in said
        assert re.search(r"best minus other, is -0\.00\d+ \(95 %", said)

    def test_a_difference_within_the_noise(self, rng):
        said = algorithms.conclusion(self.fits(rng, default=0, first=-0.00002))
        assert "due to chance" in said

    def test_the_default_is_compared_with_the_next_best(self, rng):
        said = algorithms.conclusion(self.fits(rng, default=-0.003, first=0, second=0.003))
        assert said.startswith(f"Best for these images: {DEFAULT_ALGORITHM}")
        assert "That is the default; next comes po-asy-gn with" in said
        said = algorithms.conclusion(self.fits(rng, first=0, second=0.003))
        assert "Next comes po-inv-gn with" in said
        assert "default" not in said
        assert algorithms.conclusion(self.fits(rng, first=0)).count(".") == 6

    def test_a_mean_that_a_few_lost_fits_decide(self, rng):
        fits = self.fits(rng, default=-0.001, first=0)
        fits[DEFAULT_ALGORITHM].errors[:9] = 0.5
        said = algorithms.conclusion(fits)
        assert said.startswith("Best for these images: po-asy-gn")
        assert "the other is better on most images" in said


@pytest.fixture(scope="module")
def world(face_folders):
    """Folders to train and test on, the settings, the paper's tables, and other methods' errors."""
    root = face_folders
    (root / "settings.toml").write_text(SETTINGS)
    name = f"{root.name}/test"
    (root / "others.csv").write_text(f"test,method,error\n{name},Theirs,0.011\n{name},Theirs,0.5\n")
    (root / "paper_lfpw.csv").write_text(
        "algorithm,lt_0.02,lt_0.03,lt_0.04,mean,std,median,note\n"
        "initialization,0,0.004,0.055,0.080,0.028,0.078,\npo-inv-gn,0.458,0.719,0.780,0.035,0.044,0.021,\n"
        "po-inv-n,0.265,0.516,0.586,11.929,179.525,0.029,\n"
    )
    (root / "paper_runtime.csv").write_text(
        "algorithm,iterations,sampling_percent,milliseconds\nssd-asy-gn-sch,5,100,1680\n"
    )
    return root


@pytest.fixture(scope="module")
def done(world):
    """All nine experiments, run once by the command; experts see few starts, so that they are soon taught."""
    from typer.testing import CliRunner

    from pliant.cli import app
    from pliant.experts.linear_training import train_linear

    words = ["experiment", "all", "--quick", "--train", world / "train", "--test", world / "test", "-q"]
    words += ["--settings", world / "settings.toml", "-o", world / "out", "--reference", world]
    words += ["--others", world / "others.csv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pliant.tuning.experts.train_linear", partial(train_linear, starts=30))
        result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return world / "out"


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class TestReports:
    def test_every_experiment_has_its_tables_and_figures(self, done):
        for name in EXPERIMENTS:
            assert (done / f"{name}.csv").is_file()
            assert (done / f"{name}.json").is_file()
            assert list(done.glob(f"{name}_*.svg"))
            tests = read(done / f"{name}_tests.csv")
            assert tests
            assert all(0 <= float(row["p"]) <= float(row["corrected"]) <= 1 for row in tests)

    def test_the_table_is_the_papers(self, done):
        rows = read(done / "algorithms.csv")
        assert list(rows[0]) == COLUMNS
        assert [row["algorithm"] for row in rows] == ["initialization", *algorithms.Settings().algorithms]

    def test_figures_are_those_of_the_rows(self, done):
        every = parquet.read_table(done / "rows").to_pylist()
        mine = [
            row
            for row in every
            if row["algorithm"] == "po-bid-w" and row["noise"] == 0.05 and row["fold"] is None
        ]
        assert len(mine) == 7
        table = {row["algorithm"]: row for row in read(done / "algorithms.csv")}
        assert float(table["po-bid-w"]["mean"]) == pytest.approx(
            np.mean([row["error"] for row in mine]), rel=1e-5
        )
        begun = np.mean([row["start_error"] for row in mine])
        assert float(table["initialization"]["mean"]) == pytest.approx(begun, rel=1e-5)

    def test_the_page_stands_alone_and_has_the_papers_figures(self, done):
        page = (done / "report.html").read_text()
        # Pictures in base64 have no colon, but may well spell "http".
        assert "://" not in page.replace("http://www.w3.org", "")
        assert 'src="data:' in page
        assert "11.929" in page
        assert "Theirs" in page
        assert "1680" in page
        for experiment in EXPERIMENTS.values():
            assert experiment.TITLE.replace("'", "&#x27;") in page

    def test_the_last_word_is_which_algorithm_is_best(self, done, world, command):
        words = ("-o", done, "--reference", world, "--others", world / "others.csv")
        said = command("experiment", "report", *words).out
        means = {row["algorithm"]: float(row["mean"]) for row in read(done / "algorithms.csv")}
        best = min(means, key=lambda name: means[name])
        assert f"Best for these images: {best}, with a mean error of {means[best]:.4f}" in said
        assert f"Best for these images: {best}," in (done / "report.html").read_text()
        against = read(done / "algorithms_default.csv")
        assert {row["first"] for row in against} == {DEFAULT_ALGORITHM}
        assert len(against) == 31

    def test_what_each_term_brings_is_said(self, done, world, command):
        rows = read(done / "experts.csv")
        # Fewer images, and all of them from near and from far; each with the model alone, the expert alone, both.
        cells = [("10", "0.05"), ("40", "0.05"), ("40", "0.2")]
        assert [(row["images"], row["noise"]) for row in rows] == [cell for cell in cells for _ in range(3)]
        terms = ["model alone", "linear expert alone", "with linear expert"]
        assert [row["terms"] for row in rows] == terms * 3
        tests = read(done / "experts_tests.csv")
        assert {row["second"].partition(": ")[2] for row in tests} == {terms[2]}
        assert {row["first"].partition(": ")[2] for row in tests} == set(terms[:2])
        assert len(tests) == 2 * len(cells)
        words = ("-o", done, "--reference", world, "--others", world / "others.csv")
        last = command("experiment", "report", *words).out.splitlines()[-1]
        for row in rows[3:6]:
            assert f"{row['terms']} {float(row['mean']):.4f}" in last

    def test_pictures_of_the_images_are_kept_and_shown(self, done):
        """Starts by noise, sampled pixels and exemplar fits, as the paper has them."""
        kept = {path.name: path.read_bytes() for path in (done / "pictures").iterdir()}
        kinds = ("starts-0-0.05-0.1.png", "pixels-1-0.25.png", "fits.png", "fits.png")
        assert len(kept) == len(kinds)
        assert {name.split("-", 1)[1] for name in kept} == set(kinds)
        page = (done / "report.html").read_text()
        for content in kept.values():
            assert b64encode(content).decode() in page
        assert "Starts: the first start" in page

    def test_times_say_how_many_iterations_there_were(self, done):
        rows = read(done / "sampling_times.csv")
        every = parquet.read_table(done / "rows").to_pylist()
        heads = {path.stem.split("-")[0]: read_head(path) for path in (done / "rows").glob("*.parquet")}
        for one in every:
            head = heads[one["trial"]]
            one |= {"iterations": head["fitting"].get("iterations", ()), "folds": head["folds"]}
            one |= {"order": head["fitting"]["order"], "motion": head["training"]["motion"]}
        for row in rows:
            mine = [
                one["costs"]
                for one in every
                if (one["algorithm"], sum(one["iterations"]), one["sampling"])
                == (row["algorithm"], int(row["iterations_at_most"]), float(row["sampling"]))
                and (one["folds"], one["order"], one["motion"]) == (0, "exact", "piecewise-affine")
                and one["noise"] in (0, 0.05, 0.1)
            ]
            means = [np.mean([len(one[level]) - 1 for one in mine if len(one) > level]) for level in (0, 1)]
            assert [float(part) for part in row["iterations_done"].split(" + ")] == pytest.approx(
                means, abs=0.06
            )

    def test_others_stand_beside(self, done):
        theirs = [row for row in read(done / "transfer.csv") if row["method"] == "Theirs"]
        assert len(theirs) == 1
        assert float(theirs[0]["lt_0.02"]) == 0.5
        assert theirs[0]["mean_low"] == ""

    def test_a_report_is_drawn_again_without_the_images(self, done, world, command, tmp_path):
        moved = tmp_path / "moved"
        shutil.copytree(done, moved, ignore=shutil.ignore_patterns("*.csv", "*.svg", "*.html"))
        words = ("experiment", "report", "-o", moved, "--reference", world, "--others", world / "others.csv")
        assert "report.html" in command(*words).out
        for path in sorted(done.glob("*.csv")) + [done / "report.html"]:
            assert path.read_bytes() == (moved / path.name).read_bytes(), path.name

    def test_what_is_incomplete_is_said(self, done, command, tmp_path):
        moved = tmp_path / "moved"
        shutil.copytree(done, moved)
        only_rho = next(
            path
            for path in (moved / "rows").glob("*.parquet")
            if parquet.read_table(path)["algorithm"][0].as_py() == "po:1.0-for-gn"
        )
        only_rho.unlink()
        said = command("experiment", "report", "-o", moved, code=3)
        assert "rows are missing: rho" in said.err


class TestCommand:
    def test_many_folders_after_one_option(self, world, command, tmp_path):
        said = command(
            "experiment", "transfer", "--train", world / "train", world / "test", "--test", world / "test",
            world / "train", "-o", tmp_path / "x", "--dry-run",
        )  # fmt: skip
        assert said.out == "transfer: would fit 16 trials of 2 models, 3 starts per image\n"
        assert not (tmp_path / "x").exists()

    def test_a_test_folder_without_landmarks(self, world, command, tmp_path):
        (tmp_path / "bare").mkdir()
        shutil.copy(world / "test" / "face14.png", tmp_path / "bare")
        said = command(
            "experiment",
            "rho",
            "--train",
            world / "train",
            "--test",
            tmp_path / "bare",
            "-o",
            tmp_path / "o",
            code=1,
        )
        assert "bare: no image has landmarks to compare fits with; images need" in said.err
        assert not (tmp_path / "o").exists()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("rhoo",), "there is no experiment 'rhoo'. Known experiments: algorithms, rho,"),
            (("rho",), "rho: give at least one folder to train on: --train FOLDER."),
            (("report", "-o", "nothing"), "nothing: there is no finished experiment here to draw."),
            (("report", "--train", "x"), "it does not take --train"),
            (("rho", "--others", "none.csv"), "none.csv: there is no such file."),
            (("rho", "--settings", "none.toml"), "none.toml: there is no such file."),
        ],
    )
    def test_wrong_use_is_a_sentence(self, words, said, command):
        assert said in command("experiment", *words, code=1).err

    def test_results_of_others_for_another_set(self, done, command, tmp_path):
        path = tmp_path / "o.csv"
        path.write_text("test,method,error\nelsewhere,A,0.1\n")
        assert "for 'elsewhere', but it was not tested" in command(
            "experiment", "report", "-o", done, "--others", path, code=1
        ).err  # fmt: skip


class TestSources:
    """Sets are named as other commands name them."""

    def run(self, command, tmp_path, *words):
        file = tmp_path / "s.toml"
        file.write_text(
            "[experiment]\nsize = 40\nshape-modes = [2, 5]\niterations = [3, 2]\nstarts = 1\n"
            '[experiment.algorithms]\nalgorithms = ["po-inv-gn", "ssd-inv-w"]\n'
        )
        command("experiment", "algorithms", "-q", "--settings", file, "-o", tmp_path / "o", *words)
        return parquet.read_table(tmp_path / "o" / "rows").to_pylist()

    def manifest(self, world, path):
        lines = [
            f"{part}/{image.name},{part}/{image.stem}.pts,{part}"
            for part in ("train", "test")
            for image in sorted((world / part).glob("*.png"))
        ]
        path.write_text("\n".join(["image,landmarks,split", *lines]) + "\n")
        return path

    def test_one_manifest_has_what_is_trained_and_what_is_tested_on(self, world, command, tmp_path):
        manifest = self.manifest(world, world / "all.csv")
        rows = self.run(command, tmp_path, "--train", manifest, "--part", "train,test")
        assert {row["image"].rsplit("/", 1)[-1] for row in rows} == {f"face{k}.png" for k in range(14, 21)}
        assert rows[0]["train"].endswith("(train)")
        assert rows[0]["test"].endswith("(test)")
        assert "(test)" in (tmp_path / "o" / "report.html").read_text()
        (tmp_path / "apart").mkdir()
        apart = self.run(command, tmp_path / "apart", "--train", world / "train", "--test", world / "test")
        assert [row["error"] for row in rows] == [row["error"] for row in apart]

    def test_one_part_is_of_all_sets(self, world, command, tmp_path):
        manifest = self.manifest(world, world / "all.csv")
        rows = self.run(command, tmp_path, "--train", manifest, "--test", manifest, "--part", "test")
        assert {row["number"] for row in rows} == set(range(7))

    def test_images_may_lie_elsewhere(self, world, command, tmp_path):
        """Landmarks without their images beside them, and the format said."""
        for part in ("train", "test"):
            (tmp_path / part).mkdir()
            table = "image,landmark,x,y\n"
            for file in sorted((world / part).glob("*.pts")):
                points = read_landmarks(file)
                table += "".join(
                    f"{part}/{file.stem}.png,{k},{x!r},{y!r}\n" for k, (x, y) in enumerate(points.tolist())
                )
            (tmp_path / part / "landmarks.csv").write_text(table)
        sets = (
            "--train",
            tmp_path / "train" / "landmarks.csv",
            "--test",
            tmp_path / "test" / "landmarks.csv",
        )
        rows = self.run(command, tmp_path, *sets, "--images", world, "--from", "csv-long")
        assert len(rows) == 2 * 7
        assert {row["image"] for row in rows} == {f"test/face{k}.png" for k in range(14, 21)}

    def test_a_file_may_say_it(self, tmp_path):
        file = tmp_path / "s.toml"
        file.write_text('[experiment]\ntrain = "a"\nimages = "b"\nfrom = "csv"\npart = ["x", "y"]\n')
        settings = settings_for("rho", read_file(file, KINDS), {}, quick=False)
        assert (settings.images, settings.format, settings.part) == ("b", "csv", ("x", "y"))
        assert settings.test == ("a",)
        trial = settings.trial("a", "po-inv-gn")
        assert (trial.sets.part, trial.test_part, trial.sets.images) == ("x", "y", "b")
        file.write_text("[experiment]\nform = 1\n")
        with pytest.raises(ValueError, match="Did you mean 'from'"):
            read_file(file, KINDS)

    def test_wrong_parts_are_a_sentence(self, world, command, tmp_path):
        manifest = self.manifest(world, world / "all.csv")
        words = ("experiment", "rho", "-o", tmp_path / "o", "--train", manifest, "--part")
        assert "give one part for all sets, or two" in command(*words, "a,b,c", code=1).err
        assert "no sample is in the part 'nosuch'" in command(*words, "train,nosuch", code=1).err
        assert "it does not take --train" in command("experiment", "report", "--part", "a", code=1).err


class TestTables:
    def test_columns_are_asked_for(self, tmp_path):
        path = tmp_path / "o.csv"
        path.write_text("method,error\nA,0.1\n")
        with pytest.raises(ValueError, match="the column 'test' is missing"):
            read_others(path)
        path.write_text("test,method,error\nb,A,bad\n")
        with pytest.raises(ValueError, match="line 2: the error 'bad' is not a number"):
            read_others(path)

    def test_nothing_is_known_without_a_folder(self, tmp_path):
        assert read_reference(None) == ({}, {})
        assert read_others(None) == {}
        with pytest.raises(ValueError, match="paper_lfpw.csv: there is no such file"):
            read_reference(tmp_path)
