"""Bulk fitting: rows are the same whatever happens on the way, and nothing that was finished is lost."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pliant
from pliant.bulk import Drawing, Task, files, look, read_fits, refusal, run
from pliant.bulk.files import journal_in
from pliant.bulk.journal import JOURNAL, Journal, read_rows, whole_lines
from pliant.data import formats
from pliant.data.annotation import Convention
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.starts.choice import Chain, Way
from pliant.synthetic import write_faces
from pliant.table import (
    TABLE,
    rows_of,
    write_table,
)

COUNT = 16
BAD = 7


@pytest.fixture(scope="module", autouse=True)
def few_blocks():
    """Blocks of five, so that few images make several of them, the last one short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCKS", 3)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bulk")
    write_faces(folder, COUNT, seed=8, image_size=64)
    (folder / f"face-{BAD:04d}.jpg").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def images(folder):
    return sorted(map(str, folder.glob("*.jpg")))


@pytest.fixture(scope="module")
def fitter(model):
    return make_fitter(model, iterations=(3, 2), device="reference", jobs=2, trace=False)


def middle(name, image):
    height, width = image.shape[:2]
    return np.array([0.2 * width, 0.2 * height, 0.8 * width, 0.8 * height])


@pytest.fixture(scope="module")
def undisturbed(images, fitter, tmp_path_factory):
    """A run, its rows, and the journal as it was before it went."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    task = Task(images, output, {"n": 1}, landmarks="pts")
    journal = b""

    def keep(row):
        nonlocal journal
        journal = (output / JOURNAL).read_bytes()

    run(task, fitter, middle, each=keep)
    return SimpleNamespace(task=task, rows=list(rows_of(task.table)), journal=journal, output=output)


def bits(rows):
    """All but the seconds, as text that is the same if all bits are."""
    return [json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in rows]


def test_rows(undisturbed, images, fitter):
    assert [row["image"] for row in undisturbed.rows] == images
    assert [number for number, row in enumerate(undisturbed.rows) if row["status"] == "failed"] == [BAD]
    assert undisturbed.rows[BAD]["reason"] == "this is not an image of a known format."
    assert {undisturbed.rows[BAD][name] for name in ("cost", "x", "y", "width", "seconds")} == {None}
    [alone] = fitter.block([pliant.read_image(images[-1])], [middle("", pliant.read_image(images[-1]))])
    last = undisturbed.rows[-1]
    assert (last["cost"], last["x"], last["width"]) == (alone.cost, alone.points[:, 0].tolist(), 64)
    assert {path.name for path in undisturbed.output.iterdir()} == {TABLE, "landmarks"}
    written = {path.stem for path in (undisturbed.output / "landmarks").iterdir()}
    assert written == {Path(name).stem for number, name in enumerate(images) if number != BAD}


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_threads_do_not_change_a_bit(images, model, tmp_path, device):
    tables = []
    for jobs in (1, 3):
        some = make_fitter(model, iterations=(3, 2), device=device, jobs=jobs, trace=False)
        task = Task(images, tmp_path / f"{jobs}", {})
        run(task, some, middle)
        tables.append(bits(rows_of(task.table)))
    assert tables[0] == tables[1]


@settings(max_examples=8, deadline=None)
@given(share=st.floats(0, 1), torn_table=st.booleans())
def test_cut_off_anywhere_it_goes_on_to_the_same_table(undisturbed, fitter, share, torn_table):
    """Also in the middle of a line, before the first one, and after the last."""
    with tempfile.TemporaryDirectory() as folder:
        task = replace(undisturbed.task, output=Path(folder))
        kept = undisturbed.journal[: round(share * len(undisturbed.journal))]
        journal_in(task.output).write_bytes(kept)
        if torn_table:
            task.table.with_name(f"{TABLE}.part").write_bytes(b"PAR1")
        before = list(read_rows(journal_in(task.output)))
        whole = len(before) if len(before) == COUNT else len(before) // task.block * task.block
        again = []
        run(task, fitter, middle, resume=True, each=again.append)
        rows = list(rows_of(task.table))
        assert bits(rows) == bits(undisturbed.rows)
        # Done once: what was there has the seconds that it had.
        assert [row["seconds"] for row in rows[:whole]] == [row["seconds"] for row in before[:whole]]
        assert len(again) == COUNT - whole
        assert not journal_in(task.output).exists()


def test_killed_after_the_table_and_before_the_end(undisturbed, fitter, tmp_path):
    task = replace(undisturbed.task, output=tmp_path, csv=True)
    shutil.copy(undisturbed.task.table, task.table)
    journal_in(task.output).write_bytes(undisturbed.journal)
    run(task, fitter, middle, resume=True, each=lambda row: pytest.fail("fitted again"))
    assert bits(rows_of(task.table)) == bits(undisturbed.rows)
    assert {path.name for path in tmp_path.iterdir()} == {TABLE, "fits.csv"}


def test_a_finished_run_is_left_alone(undisturbed, fitter):
    stamp = undisturbed.task.table.stat().st_mtime_ns
    run(undisturbed.task, fitter, middle, resume=True, each=lambda row: pytest.fail("fitted again"))
    assert undisturbed.task.table.stat().st_mtime_ns == stamp


def test_one_image_that_breaks_the_fitter_is_one_row(undisturbed, fitter, tmp_path, monkeypatch):
    guilty = pliant.read_image(undisturbed.task.images[10])
    fit_block = Fitter.block

    def block(self, images, *rest):
        if any(np.array_equal(image, guilty) for image in images):
            raise ZeroDivisionError("by zero")
        return fit_block(self, images, *rest)

    def where(name, image):
        if name.endswith("0014.jpg"):
            raise KeyError("no such detector")
        return middle(name, image)

    monkeypatch.setattr(Fitter, "block", block)
    task = Task(undisturbed.task.images, tmp_path, {})
    run(task, fitter, where)
    reasons = {number: row["reason"] for number, row in enumerate(rows_of(task.table)) if row["reason"]}
    assert list(reasons) == [BAD, 10, 14]
    assert reasons[10] == "an unexpected ZeroDivisionError: by zero"
    assert "no such detector" in reasons[14]
    points = read_fits(task.output)["points"]
    # Alone or together is the same but for the last bits.
    np.testing.assert_allclose(points[8], read_fits(undisturbed.output)["points"][8], atol=1e-6)


def test_an_error_in_writing_ends_the_run_and_the_rest_can_follow(undisturbed, fitter, tmp_path, monkeypatch):
    task = replace(undisturbed.task, output=tmp_path / "out")

    def full(path, *rest):
        if path.stem == "face-0013":
            raise OSError("no space left on device")
        return write(path, *rest)

    write = formats.write_annotations
    with monkeypatch.context() as patch:
        patch.setattr(formats, "write_annotations", full)
        with pytest.raises(OSError, match="no space left"):
            run(task, fitter, middle)
    assert not task.table.exists()
    run(task, fitter, middle, resume=True)
    assert bits(rows_of(task.table)) == bits(undisturbed.rows)


def test_few_images_are_under_way(undisturbed, fitter, tmp_path):
    images = undisturbed.task.images[10:12] * 40
    begun, done, most = 0, 0, 0

    def where(name, image):
        nonlocal begun, most
        begun += 1
        most = max(most, begun - done)
        return middle(name, image)

    def each(row):
        nonlocal done
        done += 1

    task = Task(images, tmp_path, {})
    run(task, fitter, where, each=each)
    assert done == len(images)
    assert most <= (2 * fitter.jobs + 2) * task.block < len(images)


class TestRefusals:
    def begun(self, task):
        task.output.mkdir()
        with Journal(journal_in(task.output), task.head()):
            pass

    def test_an_unfinished_run(self, undisturbed, tmp_path):
        task = replace(undisturbed.task, output=tmp_path / "out")
        self.begun(task)
        assert "continue with resume=True, or write to another folder" in refusal(
            task, look(task), resume=False
        )
        assert refusal(task, look(task), resume=True) == ""

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"settings": {"n": 2}}, "n was 1 and is now 2"),
            ({"images": ("other.jpg",)}, "images was 16 with the fingerprint"),
            ({"landmarks": ""}, "landmarks was pts and is now none"),
            ({"draw": Drawing()}, "draw was False and is now 600 pixels"),
        ],
    )
    def test_other_settings(self, undisturbed, tmp_path, change, words):
        task = replace(undisturbed.task, output=tmp_path / "out")
        self.begun(task)
        changed = replace(task, **change)
        assert words in refusal(changed, look(changed), resume=True)
        finished = replace(undisturbed.task, **change)
        assert words in refusal(finished, look(finished), resume=True)

    def test_a_file_of_somebody_else(self, undisturbed, fitter, tmp_path):
        task = replace(undisturbed.task, output=tmp_path, csv=True, annotations=tmp_path / "mine.json")
        (tmp_path / "landmarks").mkdir()
        for name in ("landmarks/face-0003.pts", "fits.csv", "mine.json", TABLE):
            file = tmp_path / name
            file.write_text("mine")
            with pytest.raises(ValueError, match=r"would be replaced|not a table of fits"):
                run(task, fitter, middle)
            assert file.read_text() == "mine"
            file.unlink()
        assert not journal_in(task.output).exists()
        task.output.joinpath("file").write_text("")
        with pytest.raises(ValueError, match="must be a folder"):
            look(replace(task, output=tmp_path / "file"))

    def test_a_new_run_takes_the_files_of_the_last_one_away(self, undisturbed, fitter, tmp_path):
        output = tmp_path / "out"
        run(replace(undisturbed.task, output=output, csv=True), fitter, middle)
        (output / "landmarks" / "mine.pts").write_text("mine")
        fewer = Task(undisturbed.task.images[:1], output, {}, landmarks="pts")
        run(fewer, fitter, middle, overwrite=True)
        left = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
        assert left == {TABLE, "landmarks/face-0000.pts", "landmarks/mine.pts"}

    def test_its_own_pictures_as_images(self, undisturbed, fitter, tmp_path):
        first = Task(undisturbed.task.images[:1], tmp_path, {}, draw=Drawing())
        run(first, fitter, middle)
        [picture] = (tmp_path / "pictures").iterdir()
        second = Task([str(picture)], tmp_path, {})
        assert "is one of the images to fit, and would be replaced" in refusal(
            second, look(second), overwrite=True
        )

    def test_two_runs_in_one_folder(self, undisturbed, fitter, tmp_path):
        task = replace(undisturbed.task, output=tmp_path)
        with (
            Journal(journal_in(task.output), task.head()),
            pytest.raises(ValueError, match="another process is writing fits to this folder now"),
        ):
            run(task, fitter, middle, resume=True)

    def test_names_that_clash(self):
        assert files.names_of(["a/x.jpg", "b/X.png", "b/y.png"]) == ["a-x", "b-X", "y"]
        assert files.names_of(["zip://in/x.jpg::far/a.zip", "s3://b/y.png"]) == ["x", "y"]
        with pytest.raises(ValueError, match="would both be called a-x"):
            files.names_of(["a/x.jpg", "a/x.png"])


def test_numbers_are_kept_to_the_bit(tmp_path):
    values = [0.1, -0.0, 5e-324, float("inf"), 1 / 3, 1.7976931348623157e308]
    row = {
        "image": "ü\n\x00",
        "status": "diverged",
        "reason": "",
        "cost": float("nan"),
        "x": values,
        "y": values,
    }
    with Journal(tmp_path / JOURNAL, {"settings": {}}) as journal:
        journal.append([[row]])
    write_table(tmp_path / TABLE, read_rows(tmp_path / JOURNAL), {})
    [again] = rows_of(tmp_path / TABLE)
    assert np.array(again["x"]).tobytes() == np.array(values).tobytes()
    assert again["image"] == row["image"]
    assert np.isnan(again["cost"])
    assert again["iterations"] is None


def test_lines_after_a_torn_one_are_not_trusted(tmp_path):
    file = tmp_path / JOURNAL
    with Journal(file, {"settings": {}}) as journal:
        journal.append([[{"a": 1}], [{"b": 2}]])
    head, first, second = file.read_bytes().splitlines(keepends=True)
    for torn in (b"\x00\x00\n", first, second[:-3] + b"\n", second.replace(b"2", b"3", 1)):
        file.write_bytes(head + first + torn + second)
        assert [line for line, _ in whole_lines(file)] == [{"settings": {}}, {"rows": [{"a": 1}]}]


class TestReading:
    def test_arrays(self, undisturbed):
        fits = pliant.read_fits(undisturbed.output)
        assert fits["points"].shape == (COUNT, 68, 2)
        assert list(np.flatnonzero(np.isnan(fits["points"]).all(axis=(1, 2)))) == [BAD]
        assert fits["points"][3, :, 1].tolist() == undisturbed.rows[3]["y"]
        assert fits["status"][BAD] == "failed"
        assert np.isnan(fits["cost"][BAD])

    def test_nothing_was_fitted(self, undisturbed, fitter, tmp_path):
        task = Task(undisturbed.task.images[BAD : BAD + 1], tmp_path, {})
        run(task, fitter, middle)
        assert read_fits(task.table)["points"].shape == (1, 0, 2)

    def test_no_table(self, tmp_path):
        with pytest.raises(ValueError, match="there is no such table"):
            read_fits(tmp_path)


def test_annotations_name_images_from_where_they_are(undisturbed, fitter, tmp_path, monkeypatch):
    written = []
    many = SimpleNamespace(
        NAME="many",
        EXTENSIONS=(".many",),
        MANY=True,
        CONVENTION=Convention("", unit="percent"),
        VARIANTS={},
        write=lambda path, annotations, convention: (path.touch(), written.extend(annotations)),
    )
    monkeypatch.setattr(formats, "formats", lambda: {"many": many})
    monkeypatch.chdir(Path(undisturbed.task.images[0]).parents[1])
    images = [str(Path(name).relative_to(Path.cwd())) for name in undisturbed.task.images[BAD : BAD + 2]]
    file = tmp_path / "fits.many"
    run(Task(images, tmp_path / "out", {}, annotations=file), fitter, middle)
    [annotation] = written
    assert annotation.size == (64, 64)
    assert not Path(annotation.image).is_absolute()
    assert (tmp_path / annotation.image).resolve() == Path(images[1]).resolve()
    np.testing.assert_array_equal(annotation.points, read_fits(tmp_path / "out")["points"][1])


def test_killed_and_interrupted_for_real(model, folder, tmp_path):
    """A process that gets SIGINT, goes on, gets SIGKILL, and goes on again, beside one that was let be."""
    model.save(tmp_path / "m.pliant")
    quick = ("--device", "reference", "--iterations", "8,8", "--jobs", "2")

    def arguments(output, *more):
        words = (sys.executable, "-m", "pliant", "fit", tmp_path / "m.pliant", folder, "-o", output)
        return [str(word) for word in (*words, *quick, *more)]

    def stopped(output, rows, how, *more):
        with subprocess.Popen(arguments(output, *more), stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline and len(list(_lines(output))) <= rows:
                time.sleep(0.002)
            process.send_signal(how)
            _, said = process.communicate(timeout=100)
        return process.returncode, said

    output = tmp_path / "out"
    code, said = stopped(output, 1, 2)
    assert code == 130
    assert "run the same command again with --resume" in said
    first = len(list(_lines(output))) - 1
    assert 0 < first < COUNT
    code, _ = stopped(output, first + 1, 9, "--resume")
    assert code == -9
    left = list(read_rows(output / JOURNAL))
    assert first < len(left) < COUNT
    for place, more in ((output, ["--resume"]), (tmp_path / "undisturbed", [])):
        assert subprocess.run(arguments(place, *more), capture_output=True, timeout=100).returncode == 3
    rows = list(rows_of(output / TABLE))
    assert bits(rows) == bits(rows_of(tmp_path / "undisturbed" / TABLE))
    assert [row["seconds"] for row in rows[: len(left)]] == [row["seconds"] for row in left]


def _lines(output):
    return whole_lines(output / JOURNAL) if (output / JOURNAL).is_file() else ()


def test_what_is_not_trusted_is_looked_for_again(calibrated, images, tmp_path):
    """Starts in a corner, and none for one image: the next way finds both, and leaves alone what was good."""
    folder = Path(images[0]).parent
    some = [name for name in images if not name.endswith(f"{BAD:04d}.jpg")][:6]
    truths = {name: pliant.read_landmarks((folder / name).with_suffix(".pts")) for name in some}

    by_pixels = {pliant.read_image(name).tobytes(): name for name in some}

    def first(image):
        name = by_pixels[image.tobytes()]
        if name == some[0]:
            raise ValueError("nothing was found.")
        return [truths[name] - 25 if name in some[1:3] else truths[name]]

    fitter = make_fitter(calibrated, jobs=2, trace=False)
    looked = []

    def again(image):
        looked.append(by_pixels[image.tobytes()])
        return [truths[looked[-1]]]

    run(Task(some, tmp_path / "once", {}), fitter, Chain((Way("first", first),)))
    run(Task(some, tmp_path / "twice", {}), fitter, Chain((Way("first", first), Way("again", again))))
    once, twice = read_fits(tmp_path / "once"), read_fits(tmp_path / "twice")
    assert once["status"][0] == "failed"
    assert set(some[:3]) <= set(looked)
    assert np.all(twice["confidence"] >= once["confidence"])
    sizes = np.array([np.ptp(truths[name], axis=0).mean() for name in some])
    off = np.linalg.norm(twice["points"] - np.array(list(truths.values())), axis=2).mean(axis=1) / sizes
    assert np.all(off[:3] < 0.1)
    trusted = [k for k, name in enumerate(some) if name not in looked]
    assert trusted
    assert np.array_equal(twice["points"][trusted], once["points"][trusted])
