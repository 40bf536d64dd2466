"""Experiments: what they plan, that rows are decided by settings alone, and that a stopped run goes on."""

import dataclasses
import functools
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from pliant import tuning
from pliant.data.formats import write_landmarks
from pliant.experiments import (
    algorithms,
    alpha,
    composition,
    defaults,
    experts,
    newton,
    objects,
    rho,
    rows,
    sampling,
    transfer,
    units,
)
from pliant.experiments import run as running
from pliant.experiments.conduct import EXPERIMENTS, conduct, draw, plan_of, settings_for
from pliant.experiments.run import Data, name_trials
from pliant.experiments.settings import Settings, read_file, settings_of
from pliant.experiments.trial import PAPER, PAPER_FITTING, Sets, Trial, trial_from
from pliant.experts import linear_training
from pliant.fitting.algorithm import catalogue
from pliant.progress import Progress
from pliant.settings import DEFAULT_ALGORITHM, Stopping, Training, presets

SMALL = {"size": 40.0, "shape_modes": (2, 5), "iterations": (3, 2), "starts": 2}
SETS = {"train": ("a",), "test": ("b", "c")}
KINDS = {name: experiment.Settings for name, experiment in EXPERIMENTS.items()}


def small(kind, face_folders, **changes):
    sets = {"train": (str(face_folders / "train"),), "test": (str(face_folders / "test"),)}
    return settings_of(kind, "", {}, {**SMALL, **sets, **changes}, quick=False)


def table_of(folder):
    """All rows by what decides them, without the time they took."""
    from pyarrow import parquet

    found = [
        row
        for path in sorted((folder / "rows").glob("*.parquet"))
        for row in parquet.read_table(path).to_pylist()
    ]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


RESULTS = Path(__file__).parent.parent / "docs" / "results"


class TestPlans:
    def test_all_31_in_the_papers_six_groups_and_the_default(self):
        trials = algorithms.plan(algorithms.Settings(**SETS))
        names = [trial.fitting.algorithm for trial in trials]
        assert names == [*(entry.name for entry in catalogue()), DEFAULT_ALGORITHM]
        assert Counter(trial.group for trial in trials) == {
            "SSD Gauss-Newton": 9,
            "SSD Newton": 8,
            "SSD Wiberg": 4,
            "Project-out Gauss-Newton": 5,
            "Project-out Newton": 5,
            "Project-out Wiberg": 1,
        }

    def test_rho_and_alpha_go_from_0_to_1(self):
        trials = rho.plan(rho.Settings(**SETS))
        assert len(trials) == 5 * 11
        assert {trial.value for trial in trials} == {k / 10 for k in range(11)}
        assert {"po:0.0-for-gn", "po-for-gn", "po:1.0-bid-gn-alt"} <= {
            trial.fitting.algorithm for trial in trials
        }
        trials = alpha.plan(alpha.Settings(**SETS))
        assert [trial.fitting.algorithm for trial in trials[:2]] == [
            "ssd-asy:0.0-gn-sch",
            "ssd-asy:0.1-gn-sch",
        ]
        assert len(trials) == 22

    def test_rho_needs_a_project_out_cost(self):
        with pytest.raises(ValueError, match="ssd-inv-gn-sch: rho weights the project-out cost"):
            rho.plan(rho.Settings(**SETS, algorithms=("ssd-inv-gn-sch",)))

    def test_sampling_takes_noise_outermost(self):
        trials = sampling.plan(sampling.Settings(**SETS))
        assert len(trials) == 4 * 2 * 5 * 2
        assert [trial.noise for trial in trials] == sorted(trial.noise for trial in trials)
        assert {trial.iterations for trial in trials} == {(24, 16), (12, 8)}

    def test_transfer_takes_every_test_set_by_itself(self):
        trials = transfer.plan(transfer.Settings(**SETS))
        assert {trial.test for trial in trials} == {("b",), ("c",)}
        assert {(trial.fitting.sampling, trial.fitting.iterations) for trial in trials} == {
            (0.25, (12, 8)),
            (0.5, (24, 16)),
        }
        assert Counter(trial.training.motion for trial in trials) == {"piecewise-affine": 8, "patches": 8}
        assert all(
            trial.label.endswith(", patches") == (trial.training.motion == "patches") for trial in trials
        )
        assert len({trial.label for trial in trials}) == len(trials)

    def test_objects_have_folds_that_are_counted_together(self):
        trials = objects.plan(objects.Settings(train=("a/chest", "a/wings"), folds=3))
        assert {trial.group for trial in trials} == {"chest", "wings"}
        assert set(Counter(trial.label for trial in trials).values()) == {3}
        assert {trial.sets.fold for trial in trials} == {0, 1, 2}

    def test_newton_compares_signs_with_gauss_newton(self):
        ways = newton.ways("po-inv-n", (0.5,))
        assert ways == {
            "gauss-newton": "po-inv-gn",
            "derived": "po-inv-n",
            "printed": "po-inv-n:printed",
            "turned": "po-inv-n:turned",
            "safe": "po-inv-n:safe",
            "0.5 of derived": "po-inv-n:0.5",
        }
        assert "printed" not in newton.ways("po-for-n", ())
        with pytest.raises(ValueError, match="does not use Newton's method"):
            newton.ways("po-for-gn", ())
        assert len({trial.group for trial in newton.plan(newton.Settings(**SETS))}) == 13

    def test_composition_crosses_order_prior_and_motion(self):
        trials = composition.plan(composition.Settings(**SETS))
        assert len({trial.label for trial in trials}) == len(trials) == 2**5
        assert {trial.training.motion for trial in trials} == {"piecewise-affine", "thin-plate-spline"}
        assert {trial.fitting.algorithm for trial in trials} > {"ssd:map-asy-gn-sch", "po-asy-gn"}

    def test_experts_are_tried_by_images_and_by_noise(self):
        trials = experts.plan(experts.Settings(**SETS, counts=(10, 20), noises=(0.0, 0.05, 0.2)))
        cells = {(trial.sets.most, trial.noise) for trial in trials}
        assert cells == {(10, 0.05), (20, 0.05), (0, 0.0), (0, 0.05), (0, 0.2)}
        assert len({trial.label for trial in trials}) == len(trials) == 3 * len(cells)
        for group in {trial.group for trial in trials}:
            alone, expert, both = (trial for trial in trials if trial.group == group)
            # One model, or what is compared would be the models.
            assert units.model_of(alone) == units.model_of(expert) == units.model_of(both)
            assert [one.fitting.experts for one in (alone, expert, both)] == [False, True, True]
            assert [one.expert_alone for one in (alone, expert, both)] == [False, True, False]
            assert both.training.experts == "linear"
            # Modes of appearance follow the number of images, and nothing else is left open.
            assert both.training.appearance_modes == ()
            assert len(both.training.scales) == len(both.iterations) == 4

    def test_a_network_is_tried_where_it_was_asked_for(self, monkeypatch):
        given = {**SETS, "experts": "network"}
        settings = settings_of(experts.Settings, "experts", {}, given, quick=True)
        monkeypatch.setattr(experts, "training_device", lambda: None)
        with pytest.raises(ValueError, match=r"pip install 'pliant\[experts\]'"):
            experts.plan(settings)
        monkeypatch.setattr(experts, "training_device", lambda: "cpu")
        trials = experts.plan(settings)
        first = [trial.label.partition(": ")[2] for trial in trials[:5]]
        assert first[0] == "model alone"
        assert first[1:] == [
            "linear expert alone",
            "with linear expert",
            "network expert alone",
            "with network expert",
        ]
        assert [trial.training.experts for trial in trials[:5]] == ["linear"] * 3 + ["network"] * 2

    def test_an_expert_of_too_few_images_is_a_sentence(self):
        with pytest.raises(ValueError, match="counts=5: an expert needs at least 8 training images"):
            experts.plan(experts.Settings(**SETS, counts=(10, 5)))

    def test_defaults_stand_beside_the_papers_settings_on_test_sets_and_folds(self):
        trials = defaults.plan(defaults.Settings(**SETS, objects=("d",), folds=2))
        assert len(trials) == (2 + 2) * 3 * 3
        ours = [trial for trial in trials if trial.label.endswith(": defaults")]
        assert len(ours) * 3 == len(trials)
        assert all(presets.searches(trial.training) for trial in ours)
        assert {trial.fitting.algorithm for trial in ours} == {DEFAULT_ALGORITHM}
        assert {trial.training for trial in trials if trial not in ours} == {PAPER}
        assert {(trial.test, trial.sets.folds, trial.points) for trial in trials} == {
            (("b",), 0, "all"),
            (("c",), 0, "all"),
            (("d",), 2, "all"),
        }
        # Folds of an object are counted together.
        assert len({trial.label for trial in trials}) == 3 * 3 * 3

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_quick_is_smaller(self, name):
        usual = settings_of(KINDS[name], name, {}, SETS, quick=False)
        quick = settings_of(KINDS[name], name, {}, SETS, quick=True)
        assert quick.starts == 1
        assert quick.most_test == 24
        assert len(EXPERIMENTS[name].plan(quick)) <= len(EXPERIMENTS[name].plan(usual))


class TestSettings:
    def test_what_is_given_comes_before_quick_before_the_file(self, tmp_path):
        file = tmp_path / "s.toml"
        shared = '[experiment]\nnoise = 0.1\nstarts = 5\npoints = "0-9"\n'
        file.write_text(f"{shared}[experiment.rho]\nnoise = 0.2\nweights = [0, 1]\n")
        table = read_file(file, KINDS)
        read = settings_of(rho.Settings, "rho", table, {"points": "all"}, quick=False)
        assert (read.noise, read.starts, read.points, read.weights) == (0.2, 5, "all", (0.0, 1.0))
        assert settings_of(alpha.Settings, "alpha", table, {}, quick=False).noise == 0.1
        assert settings_of(alpha.Settings, "alpha", table, {}, quick=True).starts == 1
        assert settings_of(alpha.Settings, "alpha", table, {"starts": 2}, quick=True).starts == 2

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[other]\n", r"no table \[experiment\]"),
            ("[experiment]\nnoize = 1\n", "no setting 'noize'. Did you mean 'noise'"),
            ("[experiment]\nweights = [1]\n", "no setting 'weights'"),
            ("[experiment.rhoo]\nnoise = 1\n", "no experiment 'rhoo'"),
            ("[experiment.rho]\nalphas = [1]\n", r"\[experiment.rho\] has no setting 'alphas'"),
            ("[experiment\n", "not a TOML file"),
        ],
    )
    def test_a_wrong_file_is_a_sentence(self, tmp_path, text, said):
        file = tmp_path / "s.toml"
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            read_file(file, KINDS)

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"noise": "much"}, "noise = 'much': this must be one number."),
            ({"scales": ["a"]}, "scales=a: it must be scales from coarse to fine"),
            ({"features": 3}, "features=3: it must be a name."),
            ({"starts": 1.5}, "starts = 1.5: this must be one whole number."),
            ({"most-test": True}, "most-test = True: this must be one whole number."),
            ({"test": []}, "a list of texts"),
        ],
    )
    def test_a_wrong_value_is_a_sentence(self, values, said):
        with pytest.raises(ValueError, match=said):
            settings_of(Settings, "rho", values, {}, quick=False)

    @pytest.mark.parametrize("file", sorted(RESULTS.glob("*.toml")), ids=lambda file: file.stem)
    def test_the_files_of_the_results_are_read(self, file):
        table = read_file(file, KINDS)
        for name in EXPERIMENTS:
            settings = settings_for(name, table, {}, quick=False)
            assert EXPERIMENTS[name].plan(settings)
            assert settings.training.detector is None

    def test_keys_go_to_training_and_fitting(self, tmp_path):
        file = tmp_path / "s.toml"
        keys = "appearance-variance = [1.0, 5]\ncolour = true\nstopping-patience = 4\ntries = 2\n"
        file.write_text(f"[experiment]\n{keys}[experiment.rho]\nseed = 3\n")
        read = settings_of(rho.Settings, "rho", read_file(file, KINDS), {}, quick=False)
        assert read.training == PAPER.changed(appearance_modes=("all", 5), colour=True)
        stopping = Stopping(patience=4)
        assert read.fitting == PAPER_FITTING.changed(stopping=stopping, tries=2, seed=3)
        # What an experiment decides itself is none of its settings.
        file.write_text('[experiment]\ndetector = "haar-face"\n')
        with pytest.raises(
            ValueError, match=r"has no setting 'detector'. Known settings: .*appearance-modes"
        ):
            read_file(file, KINDS)

    def test_sets_must_be_named(self):
        with pytest.raises(ValueError, match="rho: give at least one folder to train on"):
            settings_for("rho", {}, {}, quick=False)
        with pytest.raises(ValueError, match="rho: give at least one folder to test on"):
            settings_for("rho", {}, {"train": ("a",)}, quick=False)
        assert settings_for("objects", {}, {"train": ("a",)}, quick=False).train == ("a",)


class TestNames:
    base = Trial("a", Sets(("x",)), ("y",), fitting=PAPER_FITTING.changed(algorithm="po-asy-gn"))

    def test_a_trial_survives_json(self):
        sets = Sets(("x", "y"), folds=3, fold=1)
        training = PAPER.changed(triangles=((0, 1, 2),), appearance_modes=("all",))
        other = dataclasses.replace(self.base, sets=sets, training=training, value=0.5, expert_alone=True)
        for trial in (self.base, other):
            assert trial_from(json.loads(json.dumps(trial.to_dict()))) == trial

    @pytest.mark.parametrize(
        "changes",
        [
            {"fitting": {"algorithm": "po-inv-gn"}},
            {"fitting": {"iterations": (24, 17)}},
            {"fitting": {"sampling": 0.5}},
            {"fitting": {"order": "first-order"}},
            {"noise": 0.1},
            {"fitting": {"tries": 2}},
            {"fitting": {"seed": 1}},
            {"points": "0-3"},
            {"training": {"motion": "thin-plate-spline"}},
            {"training": {"colour": True}},
        ],
    )
    def test_every_setting_has_other_rows(self, changes):
        changed = {
            name: getattr(self.base, name).changed(**value) if isinstance(value, dict) else value
            for name, value in changes.items()
        }
        other = dataclasses.replace(self.base, **changed)
        assert rows.digest(other, {}) != rows.digest(self.base, {})

    def test_an_expert_alone_has_rows_of_its_own_and_fits_keep_their_names(self):
        other = dataclasses.replace(self.base, expert_alone=True)
        assert rows.digest(other, {}) != rows.digest(self.base, {})
        assert "expert_alone" not in self.base.identity()

    def test_what_it_is_called_and_where_it_lies_do_not_matter(self):
        other = dataclasses.replace(
            self.base, label="b", group="g", value=1.0, starts=9, test=("z",), sets=Sets(("w",))
        )
        assert rows.digest(other, {}) == rows.digest(self.base, {})
        assert rows.digest(other, {"tested": "1"}) != rows.digest(self.base, {"tested": "2"})


FITTED = {"status": "converged", "seconds": 0.5, "x": [1.0, 2.0], "y": [3.0, 4.0], "error": 0.01}
FAILED = {"status": "failed", "reason": "it is broken.", "error": 0.2}


class TestRows:
    trial = dataclasses.replace(TestNames.base, starts=1)

    def written(self, folder, *some):
        shared = {"start": 0, "start_error": 0.2, "costs": [], "errors": []}
        numbered = [
            {"image": f"{k}.png", "number": k, **shared, **row, **rows.settings_of(self.trial, "t")}
            for k, row in enumerate(some)
        ]
        rows.write_rows(rows.file_of(folder, "t", 0), self.trial, numbered)
        return [(self.trial, "t")]

    def test_a_fit_that_failed_has_taken_no_time(self, tmp_path):
        fits = rows.fits_of(tmp_path, self.written(tmp_path, FITTED, FAILED))
        assert fits.seconds.tolist() == [0.5, 0.0]
        assert fits.errors.tolist() == [0.01, 0.2]
        assert np.all(fits.courses[1] == [[0.01], [0.2]])

    def test_its_landmarks_are_not_numbers(self, tmp_path):
        points = rows.read_points(tmp_path, self.written(tmp_path, FITTED, FAILED))
        assert points[0].tolist() == [[1, 3], [2, 4]]
        assert np.isnan(points[1]).all()
        assert rows.read_points(tmp_path, self.written(tmp_path, FAILED)) == {}


@pytest.fixture(scope="module")
def whole(face_folders, tmp_path_factory):
    """The folder of a run that was not disturbed. Tests read it; who goes on with it takes a copy."""
    folder = tmp_path_factory.mktemp("whole")
    conduct(folder, {"algorithms": TestRuns().settings(face_folders)}, jobs=1, progress=False)
    return folder


class TestRuns:
    names = ("po-inv-gn", "ssd-asy-gn-sch")

    def settings(self, face_folders, **changes):
        return small(algorithms.Settings, face_folders, algorithms=self.names, **changes)

    def test_the_same_seed_gives_the_same_rows(self, face_folders, whole, tmp_path):
        conduct(tmp_path / "b", {"algorithms": self.settings(face_folders)}, jobs=2, progress=False)
        first = table_of(whole)
        assert first == table_of(tmp_path / "b")
        assert len(first) == 2 * 2 * 7
        conduct(tmp_path / "c", {"algorithms": self.settings(face_folders, seed=1)}, progress=False)
        assert first != table_of(tmp_path / "c")

    def test_rows_say_how_a_fit_went(self, whole):
        for row in table_of(whole):
            assert [len(level) for level in row["costs"]] == [len(level) for level in row["errors"]]
            assert len(row["costs"][0]) <= 4
            assert len(row["distances"]) == len(row["x"]) == len(row["y"]) == 68
            assert row["iterations"] == sum(len(level) - 1 for level in row["costs"])
            assert (row["width"], row["height"]) == (96, 96)
            assert row["errors"][-1][-1] == pytest.approx(row["error"], abs=1e-6)
            assert row["errors"][0][0] == pytest.approx(row["start_error"], abs=0.02)
            assert np.mean(row["distances"]) == pytest.approx(row["error"])
            assert row["test"].endswith("/test")
            assert row["status"]

    def test_a_stopped_run_goes_on(self, face_folders, whole, tmp_path, monkeypatch):
        write, written = rows.write_rows, []

        def stop_after_three(path, *some):
            if len(written) == 3:
                raise KeyboardInterrupt
            written.append(path.name)
            write(path, *some)

        monkeypatch.setattr(rows, "write_rows", stop_after_three)
        with pytest.raises(KeyboardInterrupt):
            conduct(tmp_path / "cut", {"algorithms": self.settings(face_folders)}, progress=False)
        with pytest.raises(ValueError, match="no finished experiment"):
            draw(tmp_path / "cut")
        before = {name: (tmp_path / "cut" / "rows" / name).stat().st_mtime_ns for name in written}
        monkeypatch.setattr(rows, "write_rows", write)
        conduct(tmp_path / "cut", {"algorithms": self.settings(face_folders)}, progress=False)
        assert table_of(tmp_path / "cut") == table_of(whole)
        assert before == {name: (tmp_path / "cut" / "rows" / name).stat().st_mtime_ns for name in written}

    def test_a_plan_of_an_older_version_is_a_sentence(self, tmp_path):
        content = {"trials": [{"rows": "a", "label": "b", "training": {"sets": ["x"]}}]}
        plan_of(tmp_path, "algorithms").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"algorithms.json: this experiment was run by an older version"):
            draw(tmp_path)

    def test_what_is_there_is_neither_trained_nor_fitted_again(
        self, face_folders, whole, tmp_path, monkeypatch
    ):
        tmp_path = shutil.copytree(whole, tmp_path / "again")
        monkeypatch.setattr(running, "train_model", None)
        conduct(tmp_path, {"algorithms": self.settings(face_folders)}, progress=False)
        # Another experiment has these fits in common with the first.
        conduct(
            tmp_path,
            {"rho": small(rho.Settings, face_folders, algorithms=("po-inv-gn",), weights=(0.5,))},
            progress=False,
        )

    def test_more_starts_keep_the_first_ones(self, face_folders, tmp_path):
        conduct(tmp_path, {"algorithms": self.settings(face_folders, starts=1)}, progress=False)
        first = table_of(tmp_path)
        conduct(tmp_path, {"algorithms": self.settings(face_folders)}, progress=False)
        assert [row for row in table_of(tmp_path) if row["start"] == 0] == first

    def test_more_tries_start_where_one_does_and_end_no_worse(self, face_folders, tmp_path):
        for tries in (1, 4):
            settings = self.settings(face_folders, noise=0.1, tries=tries, iterations=(8, 4))
            conduct(tmp_path / str(tries), {"algorithms": settings}, progress=False)
        one, several = table_of(tmp_path / "1"), table_of(tmp_path / "4")

        def column(rows, name):
            return [
                row[name] for row in sorted(rows, key=lambda r: (r["algorithm"], r["number"], r["start"]))
            ]

        assert column(one, "start_error") == column(several, "start_error")
        assert np.mean(column(several, "error")) < np.mean(column(one, "error"))

    def test_folds_hold_every_image_out_once(self, face_folders, tmp_path):
        settings = small(objects.Settings, face_folders, folds=3, algorithms=("po-inv-gn",), starts=1)
        with Progress(False) as bar:
            data = Data(1, bar)
            tested = []
            for trial, _ in name_trials(objects.plan(settings)[::4], data):
                seen = {sample.name for sample in data.training(trial.sets).samples}
                held = [sample.name for sample in data.test(trial).samples]
                assert not seen & set(held)
                assert len(seen) + len(held) == 14
                tested += held
        assert Counter(tested).most_common(1)[0][1] == 1
        assert len(tested) == 14

    def test_fewer_images_are_taken_evenly_and_keep_their_starts(self, face_folders, whole, tmp_path):
        conduct(tmp_path / "few", {"algorithms": self.settings(face_folders, most_test=3)}, progress=False)
        few = [row for row in table_of(tmp_path / "few") if row["algorithm"] == "po-inv-gn"]
        assert {row["number"] for row in few} == {0, 3, 6}
        starts = {(row["number"], row["start"]): row["start_error"] for row in table_of(whole)}
        assert all(starts[row["number"], row["start"]] == row["start_error"] for row in few)

    def test_sets_that_do_not_fit_together_are_a_sentence(self, face_folders, tmp_path, dataset):
        other = tmp_path / "other"
        other.mkdir()
        for number, sample in enumerate(dataset[:3]):
            PIL.Image.fromarray(sample.image()).save(other / f"{number}.png")
            write_landmarks(other / f"{number}.pts", sample.points()[:20])
        with pytest.raises(ValueError, match="has 20 landmarks, but .* has 68"):
            conduct(
                tmp_path / "o",
                {"algorithms": self.settings(face_folders, test=(str(other),))},
                progress=False,
            )
        for path in other.glob("*.pts"):
            path.unlink()
        with pytest.raises(ValueError, match="other: no image has landmarks"):
            conduct(
                tmp_path / "o",
                {"algorithms": self.settings(face_folders, test=(str(other),))},
                progress=False,
            )
        assert not plan_of(tmp_path / "o", "algorithms").exists()


class TestDefaults:
    def test_models_of_the_defaults_are_trained_as_train_does(self, face_folders, tmp_path, monkeypatch):
        asked = []
        soon = Training(size=40.0, shape_modes=(2, 5), confidence=False)

        def train_soon(samples, training, **rest):
            asked.append(training)
            return train(samples, soon if training == defaults.DEFAULT else training, **rest)

        train = running.train
        monkeypatch.setattr(running, "train", train_soon)
        given = {"noises": (0.05,), "starts": 1, "algorithms": ("po-asy-gn",)}
        settings = small(defaults.Settings, face_folders, **given)
        conduct(tmp_path, {"defaults": settings}, progress=False)
        assert defaults.DEFAULT in asked
        assert draw(tmp_path).unfinished == []
        lines = (tmp_path / "defaults.csv").read_text().splitlines()
        assert [line.split(",")[2] for line in lines[1:]] == ["start", "\"paper's settings", "defaults"]

    def test_objects_need_no_test_folder(self, face_folders):
        given = {"train": [str(face_folders / "train")], "objects": [str(face_folders / "test")]}
        assert settings_for("defaults", {}, given, quick=False).test == ()
        with pytest.raises(ValueError, match="at least one folder to test on"):
            settings_for("defaults", {}, {"train": given["train"]}, quick=False)


class TestExperts:
    terms = ("model alone", "linear expert alone", "with linear expert")

    def settings(self, face_folders):
        given = {"counts": (10,), "noises": (0.05, 0.15), "starts": 1, "hypotheses": 1}
        return {"experts": small(experts.Settings, face_folders, **given)}

    @pytest.fixture(autouse=True)
    def soon_taught(self, monkeypatch):
        soon = functools.partial(linear_training.train_linear, starts=30)
        monkeypatch.setattr(tuning.experts, "train_linear", soon)

    def test_each_term_has_its_rows_and_a_stopped_run_goes_on(self, face_folders, tmp_path, monkeypatch):
        train, trained = running.train_model, []

        def stop_at_the_second_model(trial, *some):
            if trained:
                raise KeyboardInterrupt
            trained.append(train(trial, *some))
            return trained[0]

        monkeypatch.setattr(running, "train_model", stop_at_the_second_model)
        with pytest.raises(KeyboardInterrupt):
            conduct(tmp_path, self.settings(face_folders), progress=False)
        assert trained[0].expert is not None
        cut = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "rows").glob("*.parquet")}
        assert len(cut) == 3
        monkeypatch.setattr(running, "train_model", train)
        conduct(tmp_path, self.settings(face_folders), progress=False)
        assert (
            cut.items()
            <= {path.name: path.stat().st_mtime_ns for path in (tmp_path / "rows").glob("*.parquet")}.items()
        )
        self.check_rows(tmp_path)
        drawn = draw(tmp_path)
        assert drawn.unfinished == []
        assert "with linear expert" in drawn.conclusions[0]

    def check_rows(self, folder):
        """The expert alone is what it sees: neither the start nor the fit, and without an iteration."""
        plan = json.loads(plan_of(folder, "experts").read_text())
        names = {trial["label"]: trial["rows"] for trial in plan["trials"]}
        every = table_of(folder)
        assert len(every) == 3 * 3 * 7
        for group in {trial["group"] for trial in plan["trials"]}:
            alone, seen, both = (
                {row["number"]: row for row in every if row["trial"] == names[f"{group}: {terms}"]}
                for terms in self.terms
            )
            for number, row in seen.items():
                assert row["iterations"] == 0
                assert row["costs"] == []
                assert row["start_error"] == alone[number]["start_error"] == both[number]["start_error"]
                assert row["error"] not in (row["start_error"], alone[number]["error"], both[number]["error"])
            assert np.mean([row["error"] for row in seen.values()]) < np.mean(
                [row["start_error"] for row in seen.values()]
            )
