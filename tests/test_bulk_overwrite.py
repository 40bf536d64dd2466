"""Bulk fitting into a folder that has results already, and with file names that no text can hold."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import pliant
from pliant.bulk import Drawing, Task, files, read_fits, run
from pliant.data import formats
from pliant.data.names import from_text, readable, to_text
from pliant.fitting.fitter import make_fitter
from pliant.synthetic import write_faces
from pliant.table import (
    TABLE,
    rows_of,
)

COUNT = 10
BAD = 3


@pytest.fixture(scope="module", autouse=True)
def few_blocks():
    """Blocks of three, the last one short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCKS", 3)
        yield


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bulk")
    write_faces(folder, COUNT, seed=8, image_size=64)
    (folder / f"face-{BAD:04d}.jpg").write_text("no image")
    return sorted(map(str, folder.glob("*.jpg")))


@pytest.fixture(scope="module")
def fitter(model):
    return make_fitter(model, iterations=(3, 2), device="reference", jobs=2, trace=False)


@pytest.fixture
def old(images, fitter, tmp_path):
    task = Task(images, tmp_path / "out", {"n": "old"}, landmarks="pts", csv=True)
    run(task, fitter, middle)
    return task


@pytest.fixture(scope="module")
def new(images, fitter, tmp_path_factory):
    """Fewer images and fewer files: some of the old ones must go."""
    output = tmp_path_factory.mktemp("new") / "out"
    task = Task(images[2:], output, {"n": "new"}, landmarks="pts", draw=Drawing())
    run(task, fitter, middle)
    return task


def middle(name, image):
    height, width = image.shape[:2]
    return np.array([0.2 * width, 0.2 * height, 0.8 * width, 0.8 * height])


def bits(rows):
    """All but the seconds, as text that is the same if all bits are."""
    return [json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in rows]


def content_of(folder):
    """Every file in a folder but the table, whose seconds differ; and the rows of the table."""
    return {
        str(path.relative_to(folder)): bits(rows_of(path)) if path.name == TABLE else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


class TestOverwriting:
    """The results of a finished run are whole until those of the next one are."""

    def test_it_is_asked_for(self, old, fitter):
        before = content_of(old.output)
        with pytest.raises(ValueError, match="of a finished run: replace them with overwrite=True"):
            run(replace(old, settings={"n": "new"}), fitter, middle)
        with pytest.raises(ValueError, match="of a finished run: replace them with overwrite=True"):
            run(old, fitter, middle)
        run(old, fitter, middle, resume=True, overwrite=True, each=lambda row: pytest.fail("fitted again"))
        assert content_of(old.output) == before

    def test_stopped_while_fitting(self, old, new, fitter):
        before = content_of(old.output)
        task = replace(new, output=old.output)
        rows = []

        def stop(row):
            rows.append(row)
            if len(rows) == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(task, fitter, middle, each=stop, overwrite=True)
        assert rows
        left = content_of(old.output)
        assert {name: left[name] for name in before} == before
        with pytest.raises(ValueError, match="continue with resume=True"):
            run(task, fitter, middle, overwrite=True)
        run(task, fitter, middle, resume=True)
        assert content_of(old.output) == content_of(new.output)

    def test_stopped_while_files_are_put_in_place(self, old, new, fitter, monkeypatch):
        """Between any two steps, and once more when it goes on."""
        task = replace(new, output=old.output)
        backup = old.output.with_name("backup")
        shutil.copytree(old.output, backup)
        stops = []
        for steps in range(0, 30, 3):
            shutil.rmtree(old.output)
            shutil.copytree(backup, old.output)
            for resume in (False, True):
                left = steps

                def step(do, *paths, **more):
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise KeyboardInterrupt
                    do(*paths, **more)

                with monkeypatch.context() as patch:
                    for name in ("replace", "unlink", "rmdir"):
                        patch.setattr(os, name, partial(step, getattr(os, name)))
                    try:
                        run(task, fitter, middle, resume=resume, overwrite=True)
                    except KeyboardInterrupt:
                        stops.append(steps)
            run(task, fitter, middle, resume=True, overwrite=True)
            assert content_of(old.output) == content_of(new.output), steps
        assert len(stops) > 8

    def test_files_of_others_stay(self, old, new, fitter):
        for name in ("landmarks/mine.pts", "flagged.csv"):
            (old.output / name).write_text("mine")
        task = replace(new, output=old.output, flag_below=0.5)
        with pytest.raises(ValueError, match="flagged.csv would be replaced"):
            run(task, fitter, middle, overwrite=True)
        run(replace(task, flag_below=None), fitter, middle, overwrite=True)
        mine = {"landmarks/mine.pts": b"mine", "flagged.csv": b"mine"}
        assert content_of(old.output) == content_of(new.output) | mine

    def test_what_is_made_later_is_the_runs_own(self, old, new, calibrated, tmp_path):
        """Asked for with --resume after the end, and taken away with the rest."""
        trusted = make_fitter(calibrated, iterations=(3, 2), device="reference", jobs=2, trace=False)
        task = replace(old, output=tmp_path / "other", csv=False)
        run(task, trusted, middle)
        run(replace(task, flag_below=1.0, csv=True), trusted, middle, resume=True)
        listed = (task.output / "flagged.csv").read_text().splitlines()
        assert len(listed) == COUNT + 1
        confidences = [float(line.split(",")[2]) for line in listed[1:]]
        assert confidences == sorted(confidences)
        run(replace(task, flag_below=0.0), trusted, middle, overwrite=True)
        assert len((task.output / "flagged.csv").read_text().splitlines()) == 1
        assert not (task.output / "fits.csv").exists()
        run(task, trusted, middle, overwrite=True)
        assert {path.name for path in task.output.iterdir()} == {TABLE, "landmarks"}


class TestNamesThatAreNotText:
    """A file name is bytes; one that is not UTF-8 must not keep the others from their table."""

    @pytest.fixture
    def odd(self, images, tmp_path):
        names = [os.fsdecode(b"caf\xe9.jpg"), "bytes:%41.jpg", "plain \u00fc.jpg", os.fsdecode(b"\xff.jpg")]
        for name in names[:3]:
            shutil.copy(images[0], tmp_path / name)
        (tmp_path / names[3]).write_text("no image")
        return [str(tmp_path / name) for name in names]

    def test_tables_and_annotations(self, odd, fitter, tmp_path):
        task = Task(
            odd, tmp_path / "out", {}, "ljson", Drawing(), tmp_path / "all.json", csv=True, flag_below=0.5
        )

        def where(name, image):
            return middle(name, image)

        rows = []

        def stop(row):
            rows.append(row)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(task, fitter, where, each=stop)
        run(task, fitter, where, resume=True)
        fits = read_fits(task.output)
        assert list(fits["image"]) == odd
        assert list(fits["status"] == "failed") == [False, False, False, True]
        assert {path.stem for path in (task.output / "landmarks").iterdir()} == {
            os.path.basename(name).removesuffix(".jpg") for name in odd[:3]
        }
        for file in (task.table, tmp_path / "all.json", task.output / files.CSV):
            found = formats.read_annotations(file)
            assert [Path(tmp_path, one.image).resolve() for one in found[:3]] == [
                Path(n).resolve() for n in odd[:3]
            ]
        again = pliant.load_dataset(tmp_path / "all.json")
        assert [sample.image().shape[0] for sample in again] == [64] * 3

    def test_names_round_trip(self):
        for name in ("a.jpg", "bytes:a", "100%25.jpg", os.fsdecode(b"\xe9/\xff%.jpg"), "C:\\x41.jpg"):
            to_text(name).encode()
            assert from_text(to_text(name)) == name
        assert to_text("100%25.jpg") == "100%25.jpg"
        assert to_text(os.fsdecode(b"caf\xe9.jpg")) == "bytes:caf%E9.jpg"
        assert readable(os.fsdecode(b"caf\xe9")) == "caf\\xe9"
        assert readable("\ud800") == to_text("\ud800") == "\\ud800"
