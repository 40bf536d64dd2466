"""Names of landmarks: from the training data through the model to every file and picture of its fits."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import pliant
from pliant import store
from pliant.cli.exits import ERROR
from pliant.data.annotation import Annotation
from pliant.data.dataset import Dataset
from pliant.data.formats import read_annotations, write_annotations
from pliant.synthetic import write_faces
from pliant.training import train

NAMES = tuple(f"p{k}$_\u00fc" for k in range(68))
QUICK = ("--device", "reference", "--iterations", "3,2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Faces whose landmarks are in one table, by name."""
    folder = tmp_path_factory.mktemp("named")
    write_faces(folder, 8, seed=3, image_size=96)
    annotations = [
        Annotation(file.with_suffix(".jpg").name, pliant.read_landmarks(file), NAMES)
        for file in sorted(folder.glob("*.pts"))
    ]
    write_annotations(folder / "all.csv", annotations)
    for file in folder.glob("*.pts"):
        file.unlink()
    return folder


@pytest.fixture(scope="module")
def named(folder):
    return train(
        pliant.load_dataset(folder / "all.csv"), size=40, shape_modes=(2, 4), progress=False, confidence=False
    )


@pytest.fixture
def file(named, tmp_path):
    named.save(tmp_path / "m.pliant")
    return tmp_path / "m.pliant"


def test_training_keeps_names_that_all_samples_share(named, folder, file):
    assert named.landmark_names == NAMES
    assert pliant.load(file).landmark_names == NAMES
    dataset = pliant.load_dataset(folder / "all.csv")
    other = replace(dataset[0], points_source=replace(dataset[0].annotation(), names=NAMES[::-1]))
    mixed = Dataset((other, *dataset.samples[1:]), "mixed")
    assert train(mixed, size=40, shape_modes=(2, 4), detector=None, confidence=False).landmark_names == ()


def save_with(model, path, monkeypatch, change):
    """Save a model after a change of the numbers in its file."""
    take_apart = store._taken_apart

    def changed(model):
        arrays, numbers = take_apart(model)
        change(numbers)
        return arrays, numbers

    monkeypatch.setattr(store, "_taken_apart", changed)
    model.save(path)


@pytest.mark.parametrize("names", [["a"], "abc", [*NAMES[:-1], 3], {"a": 1}, None])
def test_names_in_a_file_are_checked(named, tmp_path, names, monkeypatch):
    file = tmp_path / "bad.pliant"
    save_with(named, file, monkeypatch, lambda numbers: numbers.update(landmark_names=names))
    with pytest.raises(pliant.ModelFileError, match="names of its 68 landmarks"):
        pliant.load(file)


def test_older_files_have_none(named, tmp_path, monkeypatch):
    file = tmp_path / "old.pliant"
    save_with(named, file, monkeypatch, lambda numbers: numbers.pop("landmark_names"))
    assert pliant.load(file).landmark_names == ()


def test_every_output_of_a_fit_has_them(command, file, folder, tmp_path):
    out = tmp_path / "out"
    words = ("--landmarks", "ljson", "--annotations", tmp_path / "all.json", "--csv")
    command("fit", file, folder / "face-0000.jpg", folder / "face-0001.jpg", "-o", out, *words, *QUICK)
    fits = pliant.read_fits(out)
    assert tuple(fits["landmark_names"]) == NAMES
    files = (
        out / "fits.parquet",
        out / "fits.csv",
        tmp_path / "all.json",
        out / "landmarks" / "face-0000.ljson",
    )
    for written in files[:3]:
        first = read_annotations(written)[0]
        assert first.names == NAMES
        np.testing.assert_allclose(first.points, fits["points"][0], atol=6e-4)
    command("convert", out / "fits.parquet", tmp_path / "again.csv")
    assert read_annotations(tmp_path / "again.csv")[0].names == NAMES
    with open(out / "fits.csv", newline="", encoding="utf-8") as table:
        row = next(csv.DictReader(table))
    assert row[f"{NAMES[5]}_x"] == f"{fits['points'][0, 5, 0]:.3f}"
    assert row["status"] == fits["status"][0]


def test_evaluations_have_them(command, file, folder, tmp_path):
    for ending in ("csv", "parquet"):
        out = tmp_path / f"errors.{ending}"
        words = ("--start", "noise", "--starts", 1, "-o", out, "--report", tmp_path / "page.html")
        command("evaluate", file, folder / "all.csv", *words, *QUICK)
        assert read_annotations(out)[0].names == NAMES
    with open(tmp_path / "errors.csv", newline="", encoding="utf-8") as table:
        assert f"{NAMES[3]}_distance" in next(csv.reader(table))
    page = (tmp_path / "page.html").read_text()
    assert "mean of the width and the height of the box" in page
    assert "pixels" in page


def test_pictures_have_labels(command, file, folder, tmp_path, model):
    """Numbers and names change what is drawn; names need a model that has some."""
    drawn = {}
    image = folder / "face-0000.jpg"
    kinds = {
        "plain": ["--draw"],
        "numbers": ["--draw-labels", "numbers"],
        "names": ["--draw-labels", "names"],
        "full": ["--draw-full"],
        "crop": ["--draw-crop", "--draw-full"],
    }
    for kind, words in kinds.items():
        command("fit", file, image, "-o", tmp_path / kind, *words, *QUICK)
        drawn[kind] = pliant.read_image(tmp_path / kind / "pictures" / "face-0000.png")
    assert [max(picture.shape) for picture in drawn.values()][:4] == [600, 600, 600, 96]
    assert max(drawn["crop"].shape) < 96
    differing = [np.any(drawn["plain"] != drawn[kind], axis=2).sum() for kind in ("numbers", "names")]
    assert 2000 < differing[0] < differing[1]
    model.save(tmp_path / "nameless.pliant")
    words = ("fit", tmp_path / "nameless.pliant", image, "-o", tmp_path / "x", "--draw-labels", "names")
    assert "has no landmark names" in command(*words, code=ERROR).err
