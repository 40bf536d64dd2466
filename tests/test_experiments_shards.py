"""Experiments in shards and on a crew: the same rows whoever fits them, and a merge that knows what is missing."""

import dataclasses
import json
import pickle
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from pliant.crew import Threads
from pliant.experiments import algorithms, objects, rho, rows, sampling
from pliant.experiments import run as running
from pliant.experiments.conduct import EXPERIMENTS, conduct, draw, plan_of
from pliant.experiments.merging import merge_experiments
from pliant.experiments.plans import noted_shards
from pliant.experiments.trial import Sets, Trial
from pliant.experiments.units import Unit, by_model, own_units, units_of
from pliant.shards import Shard
from pliant.table import read_head
from test_experiments import small, table_of

NAMES = ("po-inv-gn", "ssd-asy-gn-sch")


def wanted(face_folders, **changes):
    return {"algorithms": small(algorithms.Settings, face_folders, algorithms=NAMES, **changes)}


def do_shards(folder, settings, *shards, apart=False):
    for text in shards:
        shard = Shard.parse(text)
        place = folder / f"shard{shard.number}" if apart else folder
        conduct(place, settings, jobs=1, shard=shard, progress=False)


@pytest.fixture(scope="module")
def whole(face_folders, tmp_path_factory):
    """A run that was not shared out."""
    folder = tmp_path_factory.mktemp("whole")
    conduct(folder, wanted(face_folders), jobs=1, progress=False)
    return folder


@pytest.fixture(scope="module")
def three(face_folders, tmp_path_factory):
    """Three shards with a folder each. Tests read them; who changes something takes a copy."""
    folder = tmp_path_factory.mktemp("three")
    do_shards(folder, wanted(face_folders), "3/3", "1/3", "2/3", apart=True)
    return folder


def folds(face_folders):
    some = {"folds": 2, "algorithms": ("po-inv-gn",), "motions": ("piecewise-affine",), "starts": 1}
    return {"objects": small(objects.Settings, face_folders, **some)}


@pytest.fixture(scope="module")
def crossed(face_folders, tmp_path_factory):
    """A cross-validation that was not shared out."""
    folder = tmp_path_factory.mktemp("crossed")
    conduct(folder, folds(face_folders), jobs=Threads(1), progress=False)
    return folder


@dataclasses.dataclass
class Elsewhere:
    """A crew of workers that share nothing with this process: all goes through pickle, in any order."""

    threads: int = 1
    seed: int = 0
    calls: list = dataclasses.field(default_factory=list)

    def each(self, work, parts, *shared):
        cloudpickle = pytest.importorskip("cloudpickle")
        order = list(range(len(parts)))
        random.Random(self.seed).shuffle(order)
        sent = cloudpickle.dumps((work, shared))
        for number in order:
            self.calls.append(work.__name__)
            there, some = pickle.loads(sent)
            part = pickle.loads(cloudpickle.dumps(parts[number]))
            (done,) = there([part], *some, threads=1)
            yield number, pickle.loads(cloudpickle.dumps(done))

    def one(self, work, *arguments):
        self.calls.append(work.__name__)
        return pickle.loads(pickle.dumps(work(*arguments, threads=1)))


def trials(models, algorithms=3, starts=2):
    return [
        (Trial(f"{model} {k}", Sets(("x",), folds=models, fold=model), ("x",), starts=starts), f"{model}-{k}")
        for model in range(models)
        for k in range(algorithms)
    ]


class TestShares:
    @pytest.mark.parametrize("models", [1, 3, 10])
    @pytest.mark.parametrize("count", [1, 2, 4, 7, 16, 100])
    def test_every_unit_is_in_one_shard_and_no_model_in_more_than_needed(self, models, count):
        units = units_of(trials(models))
        own = [own_units(units, Shard(number, count)) for number in range(1, count + 1)]
        assert sorted(unit.name for some in own for unit in some) == sorted(unit.name for unit in units)
        trained = sum(len(by_model(some)) for some in own)
        assert trained == max(models, min(count, len(units)))
        sizes = [len(some) for some in own]
        assert max(sizes) - min(sizes) <= max(len(units) // models, 1)

    def test_shards_of_one_model_have_some_of_every_kind(self):
        units = units_of(trials(1, algorithms=8, starts=3))
        for number in (1, 2, 3):
            assert len({unit.trial for unit in own_units(units, Shard(number, 3))}) == 8

    def test_trials_with_the_same_rows_are_one(self):
        one, other = trials(1, algorithms=2)
        more = dataclasses.replace(other[0], starts=3)
        assert [unit.start for unit in units_of([one, (more, one[1])])] == [0, 1, 2]

    @pytest.mark.parametrize("name", EXPERIMENTS)
    def test_every_experiment_can_be_shared_out(self, name):
        settings = EXPERIMENTS[name].Settings(train=("a",), test=("b",))
        plan = [(trial, str(k)) for k, trial in enumerate(EXPERIMENTS[name].plan(settings))]
        units = units_of(plan)
        own = [own_units(units, Shard(number, 4)) for number in (1, 2, 3, 4)]
        assert sum(map(len, own)) == len(units) == len(plan) * settings.starts


class TestShards:
    def test_together_they_are_the_whole_run(self, three, whole, tmp_path):
        assert not set(names_in(three / "shard1")) & set(names_in(three / "shard2"))
        merged = merge_experiments([three / f"shard{k}" for k in (1, 2, 3)], tmp_path / "all")
        assert (merged.complete, merged.units, merged.copied, merged.twice) == (True, 4, 4, 0)
        assert names_in(tmp_path / "all") == names_in(whole)
        assert table_of(tmp_path / "all") == table_of(whole)
        assert json.loads(plan_of(tmp_path / "all", "algorithms").read_text()) == json.loads(
            plan_of(whole, "algorithms").read_text()
        )

    def test_one_folder_for_all_at_once_out_of_order_and_twice(self, face_folders, whole, tmp_path):
        settings = wanted(face_folders)
        with ThreadPoolExecutor(4) as pool:
            # The third is there twice at the same moment, and writes the same file.
            texts = ("3/3", "3/3", "1/3", "2/3")
            list(pool.map(lambda text: do_shards(tmp_path, settings, text), texts))
        assert table_of(tmp_path) == table_of(whole)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()}
        do_shards(tmp_path, settings, "2/3", "1/3")
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "rows").iterdir()} == before
        assert merge_experiments([tmp_path]).complete

    def test_the_same_rows_written_at_the_same_time_stay_whole(self, tmp_path):
        trial = trials(1)[0][0]
        path = rows.file_of(tmp_path, "t", 0)
        done = [{"image": f"{k}.png", "status": "converged", "number": k, "start": 0} for k in range(600)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: rows.write_rows(path, trial, done), range(12)))
        assert [row["number"] for row in table_of(tmp_path)] == list(range(600))
        assert [one.name for one in path.parent.iterdir()] == [path.name]

    def test_a_shard_draws_nothing_and_leaves_word(self, three):
        assert noted_shards(three / "shard1", "algorithms") == {Shard(1, 3)}
        assert {path.name for path in (three / "shard1").iterdir()} == {"algorithms.json", "rows", "shards"}

    def test_experiments_that_share_fits_share_the_work(self, face_folders, tmp_path, monkeypatch):
        settings = {
            **wanted(face_folders),
            "rho": small(rho.Settings, face_folders, algorithms=("po-inv-gn",), weights=(0.0, 0.5)),
        }
        fitted = []
        fit = running.fit_units
        monkeypatch.setattr(
            running,
            "fit_units",
            lambda units, *rest, **more: fitted.extend(units) or fit(units, *rest, **more),
        )
        do_shards(tmp_path, settings, "1/2", "2/2", apart=True)
        assert len(fitted) == len({unit.name for unit in fitted}) == 6
        merged = merge_experiments([tmp_path / "shard1", tmp_path / "shard2"], tmp_path / "all")
        assert merged.complete
        assert set(merged.experiments) == {"algorithms", "rho"}

    def test_other_settings_in_the_same_folder_are_refused(self, face_folders, three, tmp_path):
        folder = shutil.copytree(three / "shard1", tmp_path / "one")
        with pytest.raises(
            ValueError, match=r"algorithms.json: .* noise is 0.05 and 0.1. Use a separate folder"
        ):
            do_shards(folder, wanted(face_folders, noise=0.1), "2/3")
        assert table_of(folder) == table_of(three / "shard1")

    def test_pictures_of_starts_are_drawn_by_the_first_shard(self, face_folders, tmp_path):
        few = {"algorithms": ("po-inv-gn",), "starts": 1, "samplings": (1.0, 0.5), "noises": (0.05,)}
        some = {"sampling": small(sampling.Settings, face_folders, **few)}
        do_shards(tmp_path, some, "2/2", "1/2", apart=True)
        assert not (tmp_path / "shard2" / "pictures").exists()
        merge_experiments([tmp_path / "shard1", tmp_path / "shard2"], tmp_path / "all")
        kinds = sorted(path.stem.split("-")[1] for path in (tmp_path / "all" / "pictures").iterdir())
        assert kinds == ["pixels", "starts"]

    def test_pictures_of_fits_are_drawn_once_all_are_there(self, face_folders, crossed, tmp_path):
        do_shards(tmp_path, folds(face_folders), "2/2", "1/2", apart=True)
        merged = merge_experiments(
            [tmp_path / "shard1", tmp_path / "shard2"], tmp_path / "all", progress=False
        )
        assert (merged.missing, merged.notes) == ((), ())
        (picture,) = (tmp_path / "all" / "pictures").iterdir()
        assert picture.read_bytes() == (crossed / "pictures" / picture.name).read_bytes()
        assert table_of(tmp_path / "all") == table_of(crossed)

    def test_without_the_images_there_are_no_pictures_of_fits(self, crossed, tmp_path):
        folder = shutil.copytree(crossed, tmp_path / "crossed")
        shutil.rmtree(folder / "pictures")
        path = plan_of(folder, "objects")
        path.write_text(path.read_text().replace("/train", "/nowhere"))
        merged = merge_experiments([folder])
        assert merged.complete
        assert "objects: the report has no pictures of fits: " in merged.notes[0]


def names_in(folder):
    return sorted(path.name for path in (folder / "rows").iterdir())


class TestMerging:
    def test_a_shard_that_is_missing_is_named(self, three, tmp_path):
        merged = merge_experiments([three / "shard1", three / "shard3"], tmp_path / "all")
        assert not merged.complete
        (sentence,) = merged.missing
        assert "algorithms, shard 2/3 was not run: " in sentence
        assert "po-inv-gn, start 1 is missing." in sentence
        assert sentence.endswith(
            "Run pliant experiment algorithms again with the same options and --shard 2/3."
        )
        with pytest.raises(ValueError, match="no finished experiment"):
            draw(tmp_path / "all")
        # What comes late is added to what is there.
        late = merge_experiments([three / "shard2"], tmp_path / "all")
        assert (late.complete, late.copied) == (True, 1)

    def test_units_that_a_shard_lacks_are_named(self, three, tmp_path):
        folder = shutil.copytree(three, tmp_path / "three")
        next((folder / "shard2" / "rows").iterdir()).unlink()
        (sentence,) = merge_experiments([folder / f"shard{k}" for k in (1, 2, 3)], tmp_path / "all").missing
        assert sentence.startswith("algorithms, shard 2/3: po-inv-gn, start 1 is missing.")

    def test_without_shards_the_run_itself_goes_on(self, whole, tmp_path):
        folder = shutil.copytree(whole, tmp_path / "whole")
        for path in (folder / "rows").iterdir():
            path.unlink()
        (sentence,) = merge_experiments([folder]).missing
        assert "algorithms: po-inv-gn, start 0; po-inv-gn, start 1; ssd-asy-gn-sch, start 0; " in sentence
        assert f"--output {folder} to continue." in sentence

    def test_a_damaged_file_is_named_unless_there_is_a_good_one(self, three, tmp_path):
        folder = shutil.copytree(three, tmp_path / "three")
        path = next((folder / "shard2" / "rows").iterdir())
        path.write_bytes(path.read_bytes()[:-40])
        parts = [folder / f"shard{k}" for k in (1, 2, 3)]
        merged = merge_experiments(parts, tmp_path / "all")
        (sentence,) = merged.damaged
        assert sentence.startswith(f"{path}: the rows of po-inv-gn, start 1 are damaged. Delete this file")
        mended = merge_experiments([*parts, three / "shard2"], tmp_path / "all")
        assert mended.complete

    def test_what_is_there_twice_is_kept_once(self, three, whole, tmp_path):
        merged = merge_experiments([whole, three / "shard1"], tmp_path / "all")
        assert (merged.complete, merged.twice) == (True, 2)
        again = merge_experiments([whole, three / "shard1"], tmp_path / "all")
        assert (again.complete, again.copied) == (True, 0)
        assert table_of(tmp_path / "all") == table_of(whole)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"noise": 0.1}, "noise is 0.05 and 0.1"),
            ({"starts": 3}, "starts is 2 and 3"),
            ({"shape_modes": (2, 4)}, "shape-modes is 2, 5 and 2, 4"),
        ],
    )
    def test_other_settings_are_refused_with_their_names(self, face_folders, three, tmp_path, changes, said):
        do_shards(tmp_path / "other", wanted(face_folders, **changes), "100/100")
        with pytest.raises(ValueError, match=f"are from different experiments: {said}"):
            merge_experiments([three / "shard1", tmp_path / "other"], tmp_path / "all")
        assert not (tmp_path / "all").exists()

    def test_the_same_images_in_another_place_are_the_same_and_others_are_not(
        self, face_folders, three, whole, tmp_path
    ):
        moved = shutil.copytree(face_folders, tmp_path / "moved" / "faces")
        do_shards(tmp_path / "there", wanted(moved), "2/3", apart=True)
        merged = merge_experiments(
            [three / "shard1", tmp_path / "there" / "shard2", three / "shard3"], tmp_path / "all"
        )
        assert merged.complete
        assert [row["error"] for row in table_of(tmp_path / "all")] == [
            row["error"] for row in table_of(whole)
        ]
        fewer = next((moved / "test").glob("*.pts"))
        fewer.unlink()
        do_shards(tmp_path / "fewer", wanted(moved), "100/100")
        with pytest.raises(ValueError, match=r"train is .*, test is .*, and their landmarks differ"):
            merge_experiments([three / "shard1", tmp_path / "fewer"], tmp_path / "none")

    def test_a_folder_without_an_experiment_is_a_sentence(self, three, tmp_path):
        with pytest.raises(ValueError, match="there is no experiment here"):
            merge_experiments([tmp_path])
        with pytest.raises(
            ValueError, match="output=s3://bucket/all: experiments can only be written to folders"
        ):
            merge_experiments([three / "shard1"], "s3://bucket/all")


class TestCrews:
    def test_workers_elsewhere_give_the_same_rows(self, face_folders, whole, tmp_path):
        crew = Elsewhere(seed=1)
        done = conduct(tmp_path, wanted(face_folders), jobs=crew, progress=False)
        assert table_of(tmp_path) == table_of(whole)
        assert (done["algorithms"].units, done["algorithms"].fitted) == (4, 4)
        # One model, and a task for each unit.
        assert crew.calls == ["train_models", *["fit_units"] * 4]

    def test_folds_are_trained_once_each(self, face_folders, crossed, tmp_path):
        crew = Elsewhere(seed=2)
        conduct(tmp_path, folds(face_folders), jobs=crew, progress=False)
        assert table_of(tmp_path) == table_of(crossed)
        assert crew.calls.count("train_models") == 2
        assert crew.calls.count("fit_units") == 4

    def test_a_shard_on_a_crew(self, face_folders, three, tmp_path):
        conduct(tmp_path, wanted(face_folders), jobs=Elsewhere(), shard=Shard(1, 3), progress=False)
        assert table_of(tmp_path) == table_of(three / "shard1")

    @pytest.mark.parametrize("jobs", [1, Elsewhere()], ids=["here", "elsewhere"])
    def test_trouble_with_one_unit_names_it_and_the_others_go_on(
        self, face_folders, whole, tmp_path, monkeypatch, jobs
    ):
        fit = running._fit

        def fit_but_one(fitter, trial, tested, start, advance):
            if (trial.label, start) == ("po-inv-gn", 1):
                raise ValueError("the moon is full.")
            return fit(fitter, trial, tested, start, advance)

        monkeypatch.setattr(running, "_fit", fit_but_one)
        with pytest.raises(ValueError, match="algorithms, po-inv-gn, start 1: the moon is full") as refused:
            conduct(tmp_path, wanted(face_folders), jobs=jobs, progress=False)
        assert "Run the same command again to continue" in str(refused.value)
        assert len(names_in(tmp_path)) == 3
        monkeypatch.setattr(running, "_fit", fit)
        conduct(tmp_path, wanted(face_folders), jobs=jobs, progress=False)
        assert table_of(tmp_path) == table_of(whole)

    def test_trouble_with_a_model_is_a_sentence(self, face_folders, tmp_path, monkeypatch):
        def refuse(*some):
            raise MemoryError("no room")

        monkeypatch.setattr(running, "train_model", refuse)
        with pytest.raises(
            ValueError, match="the model of po-inv-gn, needed by 4 units: there is not enough memory"
        ):
            conduct(tmp_path, wanted(face_folders), jobs=1, progress=False)

    def test_a_crew_that_gives_up_is_told_by_what_it_has_not_done(self, face_folders, tmp_path):
        class Dying(Elsewhere):
            def each(self, work, parts, *shared):
                for number, result in super().each(work, parts, *shared):
                    if work.__name__ == "train_models" or number != 2:
                        yield number, result
                if work.__name__ == "fit_units":
                    raise ConnectionError("every worker that tried was killed.")

        with pytest.raises(OSError, match=r"killed. Not done: ssd-asy-gn-sch, start 0\."):
            conduct(tmp_path, wanted(face_folders), jobs=Dying(), progress=False)
        assert len(names_in(tmp_path)) == 3

    def test_rows_say_what_their_seconds_were_measured_with(self, whole):
        clocks = [read_head(path)["clock"] for path in (whole / "rows").iterdir()]
        assert all(clock["threads"] == 1 and clock["processor"] for clock in clocks)


class TestClocks:
    def fits(self, *clocks):
        from pliant.experiments.findings import Study

        some = {str(k): type("Fits", (), {"clocks": frozenset(one)})() for k, one in enumerate(clocks)}
        return Study([], some, {}, {}, {}).clocks()

    def test_times_of_two_machines_are_not_to_be_compared(self):
        assert self.fits(["A, 1 at a time"], ["A, 1 at a time"]) == "Fits ran on A, 1 at a time."
        assert self.fits([], []) == ""
        said = self.fits(["A, 1 at a time"], ["B, 1 at a time", "A, 1 at a time"])
        assert "measured under different conditions" in said
        assert "on A, 1 at a time; on B, 1 at a time." in said


class TestCommand:
    def options(self, face_folders, folder):
        sets = ("--train", face_folders / "train", "--test", face_folders / "test")
        file = folder / "settings.toml"
        folder.mkdir(exist_ok=True)
        file.write_text(
            "[experiment]\nsize = 40.0\nshape-modes = [2, 5]\niterations = [3, 2]\nstarts = 2\n"
            f"[experiment.algorithms]\nalgorithms = {list(NAMES)}\n"
        )
        return ("algorithms", *sets, "--settings", file)

    def test_a_shard_says_what_it_did_and_what_comes_next(self, command, face_folders, three, tmp_path):
        options = self.options(face_folders, tmp_path / "s")
        said = command("experiment", *options, "--shard", "1/3", "-o", tmp_path / "out")
        assert "algorithms, shard 1/3: fitted 2 of its 2 units" in said.out
        assert f"when all 3 shards are done, run: pliant merge {tmp_path / 'out'}" in said.out.replace(
            "\n", ""
        )
        assert table_of(tmp_path / "out") == table_of(three / "shard1")
        again = command("experiment", *options, "--shard", "1/3", "-o", tmp_path / "out", "--json")
        assert json.loads(again.out)["experiments"] == {"algorithms": {"units": 2, "fitted": 0}}

    def test_what_it_would_do_and_what_is_wrong(self, command, face_folders, tmp_path):
        options = self.options(face_folders, tmp_path / "s")
        said = command("experiment", *options, "--shard", "2/3", "--dry-run")
        assert "would fit 1 unit of 1 model" in said.out
        said = command("experiment", *options, "--shard", "4/3", code=1)
        assert "--shard 4/3: there is no shard 4 of 3" in said.err
        said = command("experiment", "report", "--shard", "1/3", code=1)
        assert "it does not take --train, --test, --settings, --shard" in said.err.replace("\n", " ")

    def test_a_merge_draws_the_report_or_says_what_is_missing(self, command, three, tmp_path):
        parts = [three / f"shard{k}" for k in (1, 2, 3)]
        said = command("merge", *parts[:2], "-o", tmp_path / "all", "--json", code=3)
        assert json.loads(said.out)["unfinished"] == ["algorithms"]
        assert "algorithms, shard 3/3 was not run: ssd-asy-gn-sch, start 0 is missing." in said.err
        assert not (tmp_path / "all" / "report.html").exists()
        said = command("merge", parts[2], "-o", tmp_path / "all")
        assert "4 units of algorithms; 1 copied" in said.out.replace("\n", " ")
        assert (tmp_path / "all" / "report.html").is_file()

    def test_a_cluster_does_what_threads_do(self, command, face_folders, whole, tmp_path, monkeypatch):
        from contextlib import nullcontext

        from pliant import distributed

        where = []
        monkeypatch.setattr(
            distributed, "connect", lambda place: where.append(place) or nullcontext(Elsewhere())
        )
        options = self.options(face_folders, tmp_path / "s")
        command("experiment", *options, "--cluster", "tcp://far:8786", "-o", tmp_path / "out")
        assert where == ["tcp://far:8786"]
        assert table_of(tmp_path / "out") == table_of(whole)
        assert (tmp_path / "out" / "report.html").is_file()

    def test_a_cluster_and_a_shard_are_not_for_the_same_queue(self, command, face_folders, tmp_path):
        options = self.options(face_folders, tmp_path / "s")
        said = command("experiment", *options, "--shard", "1/3", "--cluster", "local:2", code=1)
        assert "--shard 1/3 is for queues without Dask" in said.err


def test_units_are_called_by_trial_and_start():
    assert str(Unit(trials(1)[0][0], "a", 1)) == "0 0, start 1"
