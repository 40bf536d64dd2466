"""A run in parts gives the rows of a run on one machine, each once, whoever did what, how often and when."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import fsspec
import numpy as np
import pytest

import pliant
from pliant.bulk import (
    Task,
    files,
    finishing,
    fit_images,
    look_for_parts,
    merge_parts,
    merging,
    parts,
    run,
    run_in_parts,
)
from pliant.bulk.merging import MERGED, PartsMissing
from pliant.bulk.parts import FOLDER, marker_name, parts_of, size_of_parts
from pliant.bulk.prepare import Prepared
from pliant.crew import Threads
from pliant.data.addresses import join, names_in
from pliant.fitting.fitter import make_fitter
from pliant.settings import Fitting
from pliant.shards import Shard
from pliant.starts.known import known_landmarks
from pliant.synthetic import write_faces
from pliant.table import TABLE, read_head, rows_of

COUNT, BAD = 13, 4


class Elsewhere:
    """A crew that does one part a call, in another order, of copies, and some parts twice."""

    threads = 1

    def each(self, work, given, *shared):
        shared = cloudpickle.loads(cloudpickle.dumps(shared))
        order = list(np.random.default_rng(1).permutation(len(given)))
        for number in [*order, *order[:2]]:
            [result] = work([cloudpickle.loads(cloudpickle.dumps(given[number]))], *shared, threads=1)
            yield number, result


class Away(Elsewhere):
    """Works in another folder."""

    def __init__(self, folder):
        self.folder = folder

    def each(self, work, given, *shared):
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            yield from list(super().each(work, given, *shared))
        finally:
            os.chdir(here)


@pytest.fixture(scope="module", autouse=True)
def small_parts():
    """Blocks of two, and parts of one block: seven of them, the last one short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCKS", 6)
        yield


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_faces(folder, COUNT, seed=3, image_size=64)
    (folder / f"face-{BAD:04d}.jpg").write_text("no image")
    return sorted(map(str, folder.glob("*.jpg")))


@pytest.fixture(scope="module")
def fitter(model):
    return make_fitter(model, iterations=(2, 1), device="reference", jobs=2, trace=False)


def middle(name, image):
    height, width = image.shape[:2]
    return np.array([0.2 * width, 0.2 * height, 0.8 * width, 0.8 * height])


@pytest.fixture
def prepared(images, fitter, tmp_path):
    return Prepared(Task(images, tmp_path / "out", {"n": 1}, landmarks="pts"), fitter, middle)


@pytest.fixture(scope="module")
def whole(images, fitter, tmp_path_factory):
    """The run on one machine."""
    output = tmp_path_factory.mktemp("whole") / "out"
    run(Task(images, output, {"n": 1}, landmarks="pts"), fitter, middle)
    return SimpleNamespace(output=output, rows=bits(output / TABLE))


def to(prepared, output, **changes):
    return replace(prepared, task=replace(prepared.task, output=output, **changes))


def bits(table):
    """All but the seconds, as text that is the same if all bits are."""
    return [
        json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in rows_of(table)
    ]


def content(folder):
    return {path.name: path.read_text() for path in (folder / "landmarks").iterdir()}


def test_sizes_are_whole_blocks_of_the_number_of_images_alone():
    counts = (20, 1000, 3000, 100_000, 1_000_000, 10**9)
    assert [size_of_parts(n, 8) for n in counts] == [8, 8, 32, 48, 496, 4096]
    assert size_of_parts(13, 3) == 3


@pytest.mark.parametrize("crew", [1, Threads(3), Elsewhere()], ids=["one thread", "threads", "elsewhere"])
def test_rows_and_files_are_those_of_one_machine(prepared, whole, crew):
    done = []
    said = run_in_parts(prepared, crew, each=done.append)
    assert said == []
    assert {marker.part for marker in done} == set(range(7))
    assert sum({marker.part: marker.failed for marker in done}.values()) == 1
    output = prepared.task.output
    assert bits(output / TABLE) == whole.rows
    assert content(output) == content(whole.output)
    assert {path.name for path in output.iterdir()} == {TABLE, "landmarks"}
    assert read_head(output / TABLE) == read_head(whole.output / TABLE)


@pytest.mark.parametrize("where", [middle, known_landmarks], ids=["by name", "beside"])
def test_workers_in_another_folder(prepared, images, tmp_path, monkeypatch, where):
    """What was named from here is found from there, and rows name it as it was named."""
    monkeypatch.chdir(Path(images[0]).parent)
    names = [Path(name).name for name in images]
    tables = []
    for output, crew in ((tmp_path / "here", 1), (Path(os.path.relpath(tmp_path / "there")), Away(tmp_path))):
        task = replace(prepared.task, images=names, output=output, landmarks="")
        run_in_parts(replace(prepared, task=task, where=where), crew)
        tables.append(bits(task.table))
    assert tables[0] == tables[1]
    assert sum('"failed"' in row for row in tables[0]) == 1


class TestShards:
    def test_in_one_folder_in_any_order_and_twice(self, prepared, whole):
        for number in (3, 1, 3, 2):
            assert run_in_parts(prepared, 1, shard=Shard(number, 3)) == []
        output = prepared.task.output
        assert merge_parts([output], output) == []
        assert bits(output / TABLE) == whole.rows
        assert content(output) == content(whole.output)

    def test_a_shard_that_was_done_does_nothing(self, prepared):
        run_in_parts(prepared, 1, shard=Shard(2, 3))
        before = names_in(prepared.task.output / FOLDER)
        done = []
        run_in_parts(prepared, 1, shard=Shard(2, 3), each=done.append)
        assert (names_in(prepared.task.output / FOLDER), done) == (before, [])

    def test_in_folders_of_their_own(self, prepared, whole, tmp_path):
        folders = [tmp_path / name for name in ("b", "a", "again")]
        for folder, number in zip(folders, (2, 1, 2), strict=True):
            run_in_parts(to(prepared, folder), 1, shard=Shard(number, 2))
        said = merge_parts(folders, tmp_path / "all")
        assert len(said) == 1
        assert "3 parts (1, 3, 5)" in said[0]
        assert str(tmp_path / "again") in said[0]
        assert bits(tmp_path / "all" / TABLE) == whole.rows
        assert content(tmp_path / "all") == content(whole.output)
        assert not any((folder / FOLDER).exists() for folder in folders)

    def test_one_is_missing(self, prepared):
        for number in (1, 2, 4):
            run_in_parts(prepared, 1, shard=Shard(number, 4))
        output = prepared.task.output
        with pytest.raises(
            PartsMissing, match=r"2 of 7 parts are missing: those of the shard 3/4\. Run it again"
        ):
            merge_parts([output], output)
        assert not (output / TABLE).exists()

    def test_of_another_run(self, prepared, tmp_path):
        run_in_parts(to(prepared, tmp_path / "a"), 1, shard=Shard(1, 2))
        run_in_parts(to(prepared, tmp_path / "b", settings={"n": 2}), 1, shard=Shard(2, 2))
        with pytest.raises(ValueError, match=r"have parts of different runs: n was 1 and is now 2"):
            merge_parts([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
        with pytest.raises(ValueError, match="has a run with other settings that did not finish: n was 1"):
            run_in_parts(to(prepared, tmp_path / "a", settings={"n": 2}), 1, shard=Shard(2, 2))

    def test_after_the_merge(self, prepared):
        for number in (1, 2):
            run_in_parts(prepared, 1, shard=Shard(number, 2))
        output = prepared.task.output
        merge_parts([output], output)
        run_in_parts(prepared, 1, shard=Shard(1, 2))
        assert not (output / FOLDER).exists()
        with pytest.raises(ValueError, match="no parts to merge: its table is already there"):
            merge_parts([output], output)


class Stopped(Exception):
    pass


def stopped_after(prepared, count, **options):
    """A run that ends with an error after so many parts."""
    done = []

    def each(marker):
        done.append(marker)
        if len(done) == count:
            raise Stopped

    with pytest.raises(Stopped):
        run_in_parts(prepared, 1, each=each, **options)


class TestFaults:
    def test_stopped_and_resumed(self, prepared, whole):
        stopped_after(prepared, 3)
        with pytest.raises(
            ValueError, match=r"has 3 of 7 parts of a run that did not finish: continue with resume"
        ):
            run_in_parts(prepared, 1)
        done = []
        run_in_parts(prepared, Elsewhere(), resume=True, each=done.append)
        assert {marker.part for marker in done} == {3, 4, 5, 6}
        assert bits(prepared.task.output / TABLE) == whole.rows

    def test_a_part_whose_file_is_gone_or_short_is_fitted_again(self, prepared, whole):
        stopped_after(prepared, 4)
        folder = prepared.task.output / FOLDER
        [gone] = folder.glob("000001-*.parquet")
        gone.unlink()
        [short] = folder.glob("000002-*.parquet")
        short.write_bytes(short.read_bytes()[:-1])
        assert look_for_parts(prepared.task).done.keys() == {0, 3}
        run_in_parts(prepared, 1, resume=True)
        assert bits(prepared.task.output / TABLE) == whole.rows

    def test_a_damaged_part_is_named_and_fitted_again(self, prepared, whole):
        for number in (1, 2):
            run_in_parts(prepared, 1, shard=Shard(number, 2))
        output = prepared.task.output
        [damaged] = (output / FOLDER).glob("000003-*.parquet")
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        with pytest.raises(PartsMissing, match=r"1 of 7 parts is damaged: those of the shard 2/2"):
            merge_parts([output], output)
        assert not (output / TABLE).exists()
        run_in_parts(prepared, 1, shard=Shard(2, 2))
        merge_parts([output], output)
        assert bits(output / TABLE) == whole.rows

    def test_a_torn_marker_is_no_commit(self, prepared, whole):
        stopped_after(prepared, 2)
        marker = prepared.task.output / FOLDER / marker_name(1)
        marker.write_text(marker.read_text()[:20])
        assert look_for_parts(prepared.task).done.keys() == {0}
        run_in_parts(prepared, 1, resume=True)
        assert bits(prepared.task.output / TABLE) == whole.rows

    def test_a_full_disk(self, prepared, whole, monkeypatch):
        from pliant.bulk import parts as module

        def full(path, *rest):
            raise OSError(28, "No space left on device", str(path))

        stopped_after(prepared, 2)
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_table", full)
            with pytest.raises(OSError, match=r"cannot be written \(.*No space left on device.*resume=True"):
                run_in_parts(prepared, 1, resume=True)
        assert look_for_parts(prepared.task).done.keys() == {0, 1}
        run_in_parts(prepared, 1, resume=True)
        assert bits(prepared.task.output / TABLE) == whole.rows

    def test_a_part_of_unreadable_images_has_rows_that_say_so(self, prepared, images, tmp_path):
        here = tmp_path / "copies"
        here.mkdir()
        names = [str(here / Path(name).name) for name in images]
        for name, copy in zip(images, names, strict=True):
            shutil.copy(name, copy)
        for name in names[2:4]:
            Path(name).unlink()
        task = replace(prepared.task, images=names)
        run_in_parts(replace(prepared, task=task), Elsewhere())
        rows = list(rows_of(task.table))
        assert [row["image"] for row in rows] == names
        assert [k for k, row in enumerate(rows) if row["status"] == "failed"] == [2, 3, BAD]
        assert all("no such image" in rows[k]["reason"] for k in (2, 3))

    def test_a_full_disk_at_the_merge(self, prepared, whole, monkeypatch):
        def full(path, *rest):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(merging, "join_tables", full)
            with pytest.raises(
                OSError, match=r"out/fits.parquet: .* cannot be written \(.*No space.*resume=True"
            ):
                run_in_parts(prepared, 1)
        assert not prepared.task.table.exists()
        done = []
        run_in_parts(prepared, 1, resume=True, each=done.append)
        assert (done, bits(prepared.task.output / TABLE)) == ([], whole.rows)

    def test_killed_between_the_table_and_the_end(self, prepared, whole, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(merging, "write_others", lambda *rest: (_ for _ in ()).throw(Stopped))
            with pytest.raises(Stopped):
                run_in_parts(prepared, 1)
        done = []
        run_in_parts(prepared, 1, resume=True, each=done.append)
        assert (done, bits(prepared.task.output / TABLE)) == ([], whole.rows)
        assert {path.name for path in prepared.task.output.iterdir()} == {TABLE, "landmarks"}


class Interrupted:
    """A crew that does all parts, while somebody else does something after the first of them."""

    threads = 1

    def __init__(self, meanwhile):
        self.meanwhile = meanwhile

    def each(self, work, given, *shared):
        for number, part in enumerate(given):
            [result] = work([part], *shared, threads=1)
            yield number, result
            if number == 0:
                self.meanwhile()


class TestTwice:
    """The same command is given while it is at work."""

    @pytest.mark.parametrize("landmarks", ["pts", ""], ids=["with files", "rows alone"])
    def test_the_second_finishes_first(self, prepared, whole, landmarks):
        prepared = to(prepared, prepared.task.output, landmarks=landmarks)
        said = run_in_parts(prepared, Interrupted(lambda: run_in_parts(prepared, 1, resume=True)))
        assert said == [MERGED]
        assert bits(prepared.task.table) == whole.rows
        assert {path.name for path in prepared.task.output.iterdir()} == {TABLE, "landmarks"} - {
            "" if landmarks else "landmarks"
        }

    def test_in_a_store_the_second_finishes_first(self, prepared, whole, request):
        """What comes late is taken by a store, and must not stay there."""
        address = f"memory://{request.node.name}/out"
        prepared = to(prepared, address, landmarks="")
        assert run_in_parts(prepared, Interrupted(lambda: run_in_parts(prepared, 1, resume=True))) == [MERGED]
        assert bits(join(address, TABLE)) == whole.rows
        assert names_in(join(address, FOLDER)) == []

    def test_the_second_begins_while_the_first_waits_for_its_cluster(self, prepared):
        begun = look_for_parts(prepared.task)
        run_in_parts(prepared, 1)
        with pytest.raises(ValueError, match="a finished run"):
            run_in_parts(prepared, 1, begun=begun)

    @pytest.mark.parametrize(
        ("step", "call"), [("content_of", 3), ("_move", 5), ("remove_stale", 1), ("write_others", 1)]
    )
    def test_both_merge_at_once(self, prepared, whole, monkeypatch, step, call):
        """The other does all of it while this one reads parts, moves landmark files, and so on."""
        module = finishing if step == "_move" else merging
        output, known, calls = prepared.task.output, getattr(module, step), []

        def late(*rest):
            calls.append(rest)
            if len(calls) == call:
                patch.undo()
                assert merge_parts([output], output) == []
            return known(*rest)

        run_in_parts(prepared, 1, shard=Shard(1, 1))
        with monkeypatch.context() as patch:
            patch.setattr(module, step, late)
            assert merge_parts([output], output) in ([MERGED], [])
        assert len(calls) == call
        assert bits(output / TABLE) == whole.rows
        assert content(output) == content(whole.output)
        assert {path.name for path in output.iterdir()} == {TABLE, "landmarks"}

    def test_landmark_files_that_the_other_moves(self, prepared, whole, monkeypatch):
        output, known = prepared.task.output, finishing._move

        def late(*rest):
            patch.undo()
            finishing.move_image_files(output / FOLDER, output)
            known(*rest)

        run_in_parts(prepared, 1, shard=Shard(1, 1))
        with monkeypatch.context() as patch:
            patch.setattr(finishing, "_move", late)
            assert merge_parts([output], output) == []
        assert content(output) == content(whole.output)

    def test_parts_done_once_more_while_they_are_listed(self, prepared, whole, monkeypatch):
        run_in_parts(prepared, 1, shard=Shard(1, 1))
        folder, known = prepared.task.output / FOLDER, parts.read_marker
        plan = parts.read_plan(folder)

        def again(folder, name):
            marker = known(folder, name)
            own = list(rows_of(folder / marker.file))
            return parts.commit(folder, parts_of(prepared.task)[marker.part], own, plan, marker.failed)

        with monkeypatch.context() as patch:
            patch.setattr(parts, "read_marker", again)
            assert parts.markers_in(folder, plan).keys() == set(range(7))

    def test_killed_while_parts_are_removed(self, prepared, whole, monkeypatch):
        """Without its plan, what is left of the parts is nothing to go on with."""

        def killed(folder):
            (folder / marker_name(2)).unlink()
            raise Stopped

        with monkeypatch.context() as patch:
            patch.setattr(parts, "remove_folder", killed)
            with pytest.raises(Stopped):
                run_in_parts(prepared, 1)
        assert names_in(prepared.task.output / FOLDER)
        done = []
        run_in_parts(prepared, 1, resume=True, each=done.append)
        assert (done, bits(prepared.task.output / TABLE)) == ([], whole.rows)
        assert {path.name for path in prepared.task.output.iterdir()} == {TABLE, "landmarks"}


class TestRefusals:
    def test_a_run_on_one_machine_that_did_not_finish(self, prepared):
        with pytest.raises(Stopped):
            run(prepared.task, prepared.fitter, middle, each=lambda rows: (_ for _ in ()).throw(Stopped))
        with pytest.raises(ValueError, match="a run on one machine that did not finish: continue it there"):
            run_in_parts(prepared, 1, resume=True)

    def test_a_run_that_has_finished(self, prepared, whole):
        run_in_parts(prepared, 1)
        with pytest.raises(ValueError, match="replace them with overwrite=True"):
            run_in_parts(prepared, 1)
        done = []
        run_in_parts(prepared, 1, resume=True, each=done.append)
        assert done == []
        other = replace(prepared, task=replace(prepared.task, settings={"n": 2}, landmarks=""))
        with pytest.raises(ValueError, match="other settings"):
            run_in_parts(other, 1, resume=True)
        run_in_parts(other, 1, overwrite=True)
        assert read_head(prepared.task.table)["settings"]["n"] == 2
        assert not list((prepared.task.output / "landmarks").iterdir())

    def test_parts_into_the_table_of_another_run(self, prepared, tmp_path):
        run_in_parts(to(prepared, tmp_path / "other", settings={"n": 9}), 1)
        run_in_parts(prepared, 1, shard=Shard(1, 1))
        with pytest.raises(ValueError, match="has the fits of another run"):
            merge_parts([prepared.task.output], tmp_path / "other")

    def test_a_marker_leads_nowhere_else(self, prepared, tmp_path):
        stopped_after(prepared, 1)
        marker = prepared.task.output / FOLDER / marker_name(0)
        known = json.loads(marker.read_text())
        shutil.copy(prepared.task.output / FOLDER / known["file"], tmp_path / "elsewhere.parquet")
        for change in ({"file": "../../elsewhere.parquet"}, {"file": 7}, {"part": "0"}):
            marker.write_text(json.dumps({**known, **change}))
            assert look_for_parts(prepared.task).done == {}
        marker.write_text(json.dumps(known))
        assert look_for_parts(prepared.task).done.keys() == {0}

    def test_a_plan_that_names_a_file_of_somebody_else(self, prepared, tmp_path):
        target = tmp_path / "all.json"
        named = to(prepared, prepared.task.output, annotations=target)
        run_in_parts(named, 1, shard=Shard(1, 1))
        target.write_text('{"my": "own"}')
        with pytest.raises(ValueError, match=r"all\.json would be replaced, but it is not a coco file"):
            merge_parts([prepared.task.output], prepared.task.output)
        assert target.read_text() == '{"my": "own"}'
        target.unlink()
        merge_parts([prepared.task.output], prepared.task.output)
        assert len(pliant.read_annotations(target)) == COUNT - 1

    def test_a_damaged_plan(self, prepared):
        stopped_after(prepared, 1)
        (prepared.task.output / FOLDER / "plan.json").write_text("{")
        with pytest.raises(ValueError, match="this plan is damaged"):
            run_in_parts(prepared, 1, resume=True)


def test_in_a_store(prepared, whole, request):
    address = f"memory://{request.node.name}/out"
    task = replace(prepared.task, output=address, csv=True, annotations=join(address, "all.json"))
    run_in_parts(replace(prepared, task=task), Threads(2))
    assert bits(join(address, TABLE)) == whole.rows
    system = fsspec.filesystem("memory")
    names = {name.rpartition("/out/")[2] for name in system.find(address)}
    marks = {f"landmarks/{name}" for name in content(whole.output)}
    assert names == {TABLE, "fits.csv", "all.json", *marks}
    for name, text in content(whole.output).items():
        assert system.cat(join(address, f"landmarks/{name}")).decode() == text


class TestFromPrograms:
    def test_on_threads_in_shards_and_elsewhere(self, model, images, tmp_path):
        model.save(tmp_path / "m.pliant")
        folder, settings = Path(images[0]).parent, Fitting(iterations=(2, 1), device="reference")
        for name, options in {"one": {"jobs": 1}, "crew": {"jobs": Elsewhere()}}.items():
            fit_images(tmp_path / "m.pliant", folder, tmp_path / name, settings, **options)
        for number in (2, 1):
            fit_images(tmp_path / "m.pliant", folder, tmp_path / "s", settings, jobs=1, shard=f"{number}/2")
        merge_parts([tmp_path / "s"], tmp_path / "s")
        tables = [bits(tmp_path / name / TABLE) for name in ("one", "crew", "s")]
        assert len(tables[0]) == COUNT
        assert tables[0] == tables[1] == tables[2]

    def test_fits_in_memory_are_no_work_for_a_cluster(self, model, images):
        with pytest.raises(
            ValueError, match=r"jobs must be a number of threads here\. To fit images on a cluster"
        ):
            pliant.fit(model, images[0], jobs=Elsewhere())


def test_parts_name_their_files_as_the_whole_run_does(prepared):
    named = [file for part in parts_of(prepared.task) for file in part.files]
    assert named == files.names_of(prepared.task.images)
    assert parts.parts_of(replace(prepared.task, landmarks=""))[0].files == ()
